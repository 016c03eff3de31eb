//! Addresses of clients and peers as limits count them: [`Origin`] and the coarser [`Site`]; [`proxy`] finds the address of a client
//! behind trusted proxies.

#![warn(missing_docs)]

pub mod proxy;

pub use proxy::Proxy;

use std::net::{IpAddr, Ipv6Addr};

/// An IPv4 address, or the /64 of an IPv6 one: the holder of one address in a /64 has all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin(IpAddr);

impl Origin {
    /// The origin of an address. IPv4 addresses mapped to IPv6 are IPv4 addresses.
    pub fn of(address: IpAddr) -> Self {
        Self(network(address.to_canonical(), 64))
    }

    /// The origin, more coarsely.
    pub fn site(self) -> Site {
        Site(network(self.0, 48))
    }

    /// The site of an origin that shares it with others; `None` for IPv4.
    pub fn shared_site(self) -> Option<Site> {
        self.0.is_ipv6().then(|| self.site())
    }

    /// True for connections from this machine.
    pub fn is_loopback(self) -> bool {
        match self.0 {
            IpAddr::V4(address) => address.is_loopback(),
            // The /64 of ::1.
            IpAddr::V6(address) => address.is_unspecified(),
        }
    }
}

/// An IPv4 address, or the /48 of an IPv6 one, which holds 65,536 origins. Anyone gets a /48 on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site(IpAddr);

/// The first `bits` of an IPv6 address; an IPv4 address as it is.
fn network(address: IpAddr, bits: u32) -> IpAddr {
    match address {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << (128 - bits))).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv6_64_is_one_origin() {
        let origin = |text: &str| Origin::of(text.parse().unwrap());
        assert_eq!(origin("2001:db8:0:1::1"), origin("2001:db8:0:1:ffff::2"));
        assert_ne!(origin("2001:db8:0:1::1"), origin("2001:db8:0:2::1"));
        assert_ne!(origin("192.0.2.1"), origin("192.0.2.2"));
        assert_eq!(origin("::ffff:192.0.2.1"), origin("192.0.2.1"), "one listener may serve both kinds");
        assert_eq!(origin("2001:db8:0:1::1").site(), origin("2001:db8:0:ffff::1").site());
        assert_ne!(origin("2001:db8:0:1::1").site(), origin("2001:db8:1:1::1").site());
        assert_ne!(origin("192.0.2.1").site(), origin("192.0.2.2").site());
    }

    #[test]
    fn loopback_is_detected() {
        for (address, loopback) in
            [("127.0.0.1", true), ("::1", true), ("::ffff:127.0.0.1", true), ("192.0.2.1", false), ("2001:db8::1", false)]
        {
            assert_eq!(Origin::of(address.parse().unwrap()).is_loopback(), loopback, "{address}");
        }
    }
}
