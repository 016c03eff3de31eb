//! Who asks, where proxies stand between.

use axum::http::HeaderMap;
use ipnet::IpNet;
use std::{
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

/// What proxies write down whom they were asked by in: each adds an address at the right.
const HEADER: &str = "x-forwarded-for";

/// A proxy that is believed, or a network of such.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proxy(IpNet);

impl FromStr for Proxy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let address = text.parse::<IpAddr>().map(|address| IpNet::from(address.to_canonical()));
        let network = address.or_else(|_| text.parse()).map(Self);
        network.map_err(|_| format!("{text} is no address (192.0.2.1) and no network (192.0.2.0/24)"))
    }
}

fn is_trusted(proxies: &[Proxy], address: IpAddr) -> bool {
    proxies.iter().any(|proxy| proxy.0.contains(&address))
}

/// Whether it is one of these proxies that connects.
pub fn connects(proxies: &[Proxy], peer: IpAddr) -> bool {
    is_trusted(proxies, peer.to_canonical())
}

/// Who asks: the last address of a chain of proxies that is none of ours. What stands left of it is that one's word, and it may say anything.
pub fn client(proxies: &[Proxy], peer: IpAddr, headers: &HeaderMap) -> IpAddr {
    let mut client = peer.to_canonical();
    let lines = headers.get_all(HEADER).iter().rev();
    for hop in lines.flat_map(|line| line.to_str().unwrap_or_default().rsplit(',')) {
        let said = if is_trusted(proxies, client) { address(hop.trim()) } else { None };
        let Some(before) = said else { break };
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
    fn the_last_address_that_is_no_proxy_of_ours_asks() {
        let proxies: Vec<Proxy> = ["127.0.0.1", "10.0.0.0/8", "2001:db8::/32"].map(|text| text.parse().unwrap()).into();
        for (peer, said, asks) in [
            ("198.51.100.1", &["203.0.113.1"][..], "198.51.100.1"),
            ("127.0.0.1", &[], "127.0.0.1"),
            ("127.0.0.1", &["203.0.113.1"], "203.0.113.1"),
            ("::ffff:127.0.0.1", &["::ffff:203.0.113.1"], "203.0.113.1"),
            // What a client says itself stands at the left.
            ("127.0.0.1", &["192.0.2.7, 203.0.113.1"], "203.0.113.1"),
            ("127.0.0.1", &["192.0.2.7", "203.0.113.1"], "203.0.113.1"),
            ("127.0.0.1", &["192.0.2.7, 203.0.113.1, 10.1.2.3"], "203.0.113.1"),
            ("127.0.0.1", &["192.0.2.7, 203.0.113.1", "10.1.2.3"], "203.0.113.1"),
            ("127.0.0.1", &["10.0.0.9, 10.1.2.3"], "10.0.0.9"),
            ("2001:db8::5", &["203.0.113.1:4711"], "203.0.113.1"),
            ("127.0.0.1", &["[2001:db9::1]:4711"], "2001:db9::1"),
            ("127.0.0.1", &["[2001:db9::1]"], "2001:db9::1"),
            // What makes no sense is nobody.
            ("127.0.0.1", &["unknown"], "127.0.0.1"),
            ("127.0.0.1", &["203.0.113.1, unknown, 10.1.2.3"], "10.1.2.3"),
            ("127.0.0.1", &["203.0.113.1, "], "127.0.0.1"),
            ("127.0.0.1", &["203.0.113.1\u{e9}"], "127.0.0.1"),
        ] {
            let mut headers = HeaderMap::new();
            said.iter().for_each(|said| _ = headers.append(HEADER, said.as_bytes().try_into().unwrap()));
            assert_eq!(client(&proxies, peer.parse().unwrap(), &headers).to_string(), asks, "{peer} {said:?}");
        }
    }

    #[test]
    fn what_is_no_address_is_no_proxy() {
        for text in ["", "proxy.example", "10.0.0.0/33", "10.0.0.0/8/8", "127.0.0.1:80"] {
            let error = text.parse::<Proxy>().unwrap_err();
            assert!(error.contains("no network"), "{error}");
        }
    }
}
