//! Who asks too much waits: a bucket of tokens for each address, in bounded memory.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::Instant,
};

/// Addresses remembered at once; above that those with a full bucket are forgotten.
const MOST_ADDRESSES: usize = 50_000;

/// How fast somebody may ask.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Requests that may come at once.
    pub burst: f64,
    /// Requests a second after that.
    pub per_second: f64,
}

impl Default for Rate {
    fn default() -> Self {
        Self { burst: 200.0, per_second: 40.0 }
    }
}

/// Buckets by address.
#[derive(Debug)]
pub struct Limits {
    rate: Rate,
    buckets: Mutex<HashMap<IpAddr, Bucket>>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

impl Limits {
    /// Full buckets for everybody.
    pub fn new(rate: Rate) -> Self {
        Self { rate, buckets: Mutex::default() }
    }

    /// Whether this address may ask now; it has then.
    pub fn take(&self, address: IpAddr, now: Instant) -> bool {
        let address = group(address);
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MOST_ADDRESSES && !buckets.contains_key(&address) {
            buckets.retain(|_, bucket| self.filled(bucket, now) < self.rate.burst);
            if buckets.len() >= MOST_ADDRESSES {
                return false;
            }
        }
        let bucket = buckets.entry(address).or_insert(Bucket { tokens: self.rate.burst, at: now });
        *bucket = Bucket { tokens: self.filled(bucket, now), at: now };
        let may = bucket.tokens >= 1.0;
        bucket.tokens -= f64::from(u8::from(may));
        may
    }

    fn filled(&self, bucket: &Bucket, now: Instant) -> f64 {
        let seconds = now.saturating_duration_since(bucket.at).as_secs_f64();
        (bucket.tokens + seconds * self.rate.per_second).min(self.rate.burst)
    }
}

/// One household of IPv6 has 2^64 addresses.
pub fn group(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            std::net::Ipv6Addr::from([a, b, c, d, 0, 0, 0, 0]).into()
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_bucket_empties_and_fills() {
        let limits = Limits::new(Rate { burst: 2.0, per_second: 1.0 });
        let (now, me) = (Instant::now(), IpAddr::from([10, 0, 0, 1]));
        assert_eq!([limits.take(me, now), limits.take(me, now), limits.take(me, now)], [true, true, false]);
        assert!(limits.take(IpAddr::from([10, 0, 0, 2]), now), "somebody else's bucket is their own");
        assert!(limits.take(me, now + Duration::from_secs(1)));
        assert!(!limits.take(me, now + Duration::from_secs(1)));
    }

    #[test]
    fn addresses_of_one_household_share_a_bucket() {
        let limits = Limits::new(Rate { burst: 1.0, per_second: 0.0 });
        let now = Instant::now();
        let [first, second, other] = ["2001:db8::1", "2001:db8::ffff:1", "2001:db8:0:1::1"].map(|text| text.parse().unwrap());
        assert_eq!([limits.take(first, now), limits.take(second, now), limits.take(other, now)], [true, false, true]);
    }
}
