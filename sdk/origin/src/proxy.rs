//! Clients behind proxies. A trusted proxy appends the address of its peer to `X-Forwarded-For`.

use http::HeaderMap;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

const HEADER: &str = "x-forwarded-for";

/// A trusted proxy, or a network of them. Written as text: `192.0.2.1` or `192.0.2.0/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Proxy(IpNet);

impl FromStr for Proxy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let address = text.parse::<IpAddr>().map(|address| IpNet::from(address.to_canonical()));
        let network = address.or_else(|_| text.parse()).map(Self);
        network.map_err(|_| {
            format!("trusted proxy: expected an address (192.0.2.1) or a network (192.0.2.0/24), got {text:?}; correct it")
        })
    }
}

impl TryFrom<String> for Proxy {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Proxy> for String {
    fn from(proxy: Proxy) -> Self {
        proxy.to_string()
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// True if `address` is one of `proxies`.
pub fn trusts(proxies: &[Proxy], address: IpAddr) -> bool {
    let address = address.to_canonical();
    proxies.iter().any(|proxy| proxy.0.contains(&address))
}

/// The client behind a chain of trusted proxies: the last address that is none of them. Everything left of it is the client's own
/// claim and is ignored.
pub fn client(proxies: &[Proxy], peer: IpAddr, headers: &HeaderMap) -> IpAddr {
    let mut client = peer.to_canonical();
    let lines = headers.get_all(HEADER).iter().rev();
    for hop in lines.flat_map(|line| line.to_str().unwrap_or_default().rsplit(',')) {
        let Some(before) = address(hop.trim()).filter(|_| trusts(proxies, client)) else { break };
        client = before;
    }
    client
}

/// An address, with a port or without.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().or_else(|_| text.parse().map(|address: SocketAddr| address.ip()));
    address.ok().map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_is_last_untrusted_address() {
        let proxies: Vec<Proxy> = ["127.0.0.1", "10.0.0.0/8", "2001:db8::/32"].map(|text| text.parse().unwrap()).into();
        for (peer, lines, expected) in [
            ("198.51.100.1", &["203.0.113.1"][..], "198.51.100.1"),
            ("127.0.0.1", &[], "127.0.0.1"),
            ("127.0.0.1", &["203.0.113.1"], "203.0.113.1"),
            ("::ffff:127.0.0.1", &["::ffff:203.0.113.1"], "203.0.113.1"),
            // A client's own claims are at the left.
            ("127.0.0.1", &["127.0.0.1, 203.0.113.1"], "203.0.113.1"),
            ("127.0.0.1", &["192.0.2.7, 203.0.113.1"], "203.0.113.1"),
            ("127.0.0.1", &["192.0.2.7", "203.0.113.1"], "203.0.113.1"),
            ("127.0.0.1", &["192.0.2.7, 203.0.113.1, 10.1.2.3"], "203.0.113.1"),
            ("127.0.0.1", &["192.0.2.7, 203.0.113.1", "10.1.2.3"], "203.0.113.1"),
            // A chain of trusted proxies only: the first of them is the client.
            ("127.0.0.1", &["10.0.0.9, 10.1.2.3"], "10.0.0.9"),
            ("2001:db8::5", &["203.0.113.1:4711"], "203.0.113.1"),
            ("127.0.0.1", &["[2001:db9::1]:4711"], "2001:db9::1"),
            ("127.0.0.1", &["[2001:db9::1]"], "2001:db9::1"),
            // Text that is no address ends the chain.
            ("127.0.0.1", &["unknown"], "127.0.0.1"),
            ("127.0.0.1", &["203.0.113.1, unknown, 10.1.2.3"], "10.1.2.3"),
            ("127.0.0.1", &["203.0.113.1, "], "127.0.0.1"),
            ("127.0.0.1", &["203.0.113.1\u{e9}"], "127.0.0.1"),
        ] {
            let mut headers = HeaderMap::new();
            lines.iter().for_each(|line| _ = headers.append(HEADER, line.as_bytes().try_into().unwrap()));
            assert_eq!(client(&proxies, peer.parse().unwrap(), &headers).to_string(), expected, "{peer} {lines:?}");
        }
    }

    #[test]
    fn proxy_parses_address_or_network() {
        for text in ["", "proxy.example", "10.0.0.0/33", "10.0.0.0/8/8", "127.0.0.1:80"] {
            let error = text.parse::<Proxy>().unwrap_err();
            assert!(error.contains("expected an address (192.0.2.1) or a network (192.0.2.0/24)"), "{error}");
        }
        assert_eq!("10.0.0.0/8".parse::<Proxy>().unwrap().to_string(), "10.0.0.0/8");
    }
}
