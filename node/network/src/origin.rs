//! Origins of connections, the unit of slots per address.

use crate::PeerKey;
use corniche_origin::Origin;
use libp2p::{Multiaddr, multiaddr::Protocol};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv6Addr,
};

/// Origin of an address; `None` if it begins with a DNS name.
pub(crate) fn origin(address: &Multiaddr) -> Option<Origin> {
    match address.iter().next()? {
        Protocol::Ip4(ip) => Some(Origin::of(ip.into())),
        Protocol::Ip6(ip) => Some(Origin::of(ip.into())),
        _ => None,
    }
}

/// Origin of an inbound connection, whose address is always an IP address.
pub(crate) fn inbound_origin(address: &Multiaddr) -> Origin {
    origin(address).unwrap_or(Origin::of(Ipv6Addr::UNSPECIFIED.into()))
}

/// Addresses of validators: the configured ones, and the one from which each last connected. Bounded by the
/// configuration and the validators. Announced addresses do not count.
#[derive(Debug, Default)]
pub(crate) struct ValidatorOrigins {
    configured: BTreeMap<Origin, BTreeSet<PeerKey>>,
    last: BTreeMap<PeerKey, Origin>,
}

impl ValidatorOrigins {
    /// Starts with the configured addresses of validators.
    pub fn new<'a>(configured: impl Iterator<Item = (PeerKey, &'a Multiaddr)>) -> Self {
        let mut origins = Self::default();
        for (validator, address) in configured {
            if let Some(origin) = origin(address) {
                origins.configured.entry(origin).or_default().insert(validator);
            }
        }
        origins
    }

    /// Records that this validator proved its key on a connection with this address.
    pub fn record(&mut self, validator: PeerKey, origin: Origin) {
        self.last.insert(validator, origin);
    }

    /// Forgets all others from which peers connected.
    pub fn retain(&mut self, is_validator: impl Fn(&PeerKey) -> bool) {
        self.last.retain(|peer, _| is_validator(peer));
    }

    /// Number of validators at this address.
    pub fn count(&self, origin: Origin) -> usize {
        let configured = self.configured.get(&origin);
        let is_configured = |validator: &PeerKey| configured.is_some_and(|there| there.contains(validator));
        let others = self.last.iter().filter(|(validator, last)| **last == origin && !is_configured(validator));
        configured.map_or(0, BTreeSet::len) + others.count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_types::B256;

    #[test]
    fn multiaddress_has_origin_of_ip() {
        let origin = |text: &str| origin(&text.parse().expect("a multiaddress"));
        let of = |text: &str| Some(Origin::of(text.parse().expect("an address")));
        assert_eq!(origin("/ip6/2001:db8:0:1:ffff::2/udp/2/quic-v1"), of("2001:db8:0:1::1"));
        assert_eq!(origin("/ip6/::ffff:192.0.2.1/tcp/1"), of("192.0.2.1"));
        assert_eq!(origin("/ip4/192.0.2.1/tcp/2"), of("192.0.2.1"));
        assert_eq!(origin("/dns/validator.example/tcp/1"), None);
    }

    #[test]
    fn validator_counts_once_per_address() {
        let [one, other] = [1, 2].map(|number| PeerKey(B256::repeat_byte(number)));
        let [here, there] = ["/ip4/192.0.2.1/tcp/1", "/ip4/192.0.2.2/tcp/1"].map(|text| text.parse::<Multiaddr>().unwrap());
        let [at, elsewhere] = [&here, &there].map(inbound_origin);
        let mut origins = ValidatorOrigins::new([(one, &here), (one, &here)].into_iter());
        assert_eq!((origins.count(at), origins.count(elsewhere)), (1, 0));
        origins.record(one, at);
        origins.record(other, at);
        assert_eq!((origins.count(at), origins.count(elsewhere)), (2, 0));
        origins.record(other, elsewhere);
        assert_eq!((origins.count(at), origins.count(elsewhere)), (1, 1), "the last place only");
    }
}
