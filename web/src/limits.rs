//! Rate limits and concurrency limits, in bounded memory.
//!
//! [`RateLimiter`] is a token bucket for each client address. [`ConcurrencyLimit`] limits how many slots are in use at
//! once, in total and for each address.

use corniche_origin::Origin;
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

/// Maximum number of addresses with a bucket. To admit one more, an address with a full bucket is evicted. Only the
/// `EVICTION_CANDIDATES` addresses that were examined longest ago are examined, because all other requests wait for the
/// lock meanwhile.
const MAX_ADDRESSES: usize = 50_000;
const EVICTION_CANDIDATES: usize = 8;

/// Token bucket parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Capacity of the bucket: requests accepted at once.
    pub burst: f64,
    /// Refill rate: requests a second.
    pub per_second: f64,
}

impl Default for Rate {
    fn default() -> Self {
        Self { burst: 200.0, per_second: 40.0 }
    }
}

/// Token buckets by client address.
#[derive(Debug)]
pub struct RateLimiter {
    rate: Rate,
    buckets: Mutex<Buckets>,
}

#[derive(Debug, Default)]
struct Buckets {
    by_address: HashMap<Origin, Bucket>,
    /// All addresses of `by_address`, the one that was examined longest ago first.
    order: VecDeque<Origin>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

impl RateLimiter {
    /// Creates the limits. Every address starts with a full bucket.
    pub fn new(rate: Rate) -> Self {
        Self { rate, buckets: Mutex::default() }
    }

    /// Takes a token from the address's bucket. Returns `false` if the bucket is empty or the table of addresses is
    /// full.
    pub fn take(&self, address: IpAddr, now: Instant) -> bool {
        let address = Origin::of(address);
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if !buckets.by_address.contains_key(&address) {
            if buckets.by_address.len() >= MAX_ADDRESSES && !self.evict_one(&mut buckets, now) {
                return false;
            }
            buckets.order.push_back(address);
        }
        let bucket = buckets.by_address.entry(address).or_insert(Bucket { tokens: self.rate.burst, at: now });
        *bucket = Bucket { tokens: self.filled(bucket, now), at: now };
        let has_token = bucket.tokens >= 1.0;
        bucket.tokens -= f64::from(u8::from(has_token));
        has_token
    }

    /// Evicts one address with a full bucket. Returns `false` if none of the `EVICTION_CANDIDATES` examined addresses has one.
    fn evict_one(&self, buckets: &mut Buckets, now: Instant) -> bool {
        for _ in 0..EVICTION_CANDIDATES {
            let Some(address) = buckets.order.pop_front() else { return false };
            if buckets.by_address.get(&address).is_none_or(|bucket| self.filled(bucket, now) >= self.rate.burst) {
                buckets.by_address.remove(&address);
                return true;
            }
            buckets.order.push_back(address);
        }
        false
    }

    fn filled(&self, bucket: &Bucket, now: Instant) -> f64 {
        let seconds = now.saturating_duration_since(bucket.at).as_secs_f64();
        (bucket.tokens + seconds * self.rate.per_second).min(self.rate.burst)
    }
}

/// Reason why no permit is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitReached {
    /// All permits are taken.
    Total,
    /// This address has as many permits as one address may have.
    PerAddress,
}

/// A concurrency limit: a fixed number of permits, in total and for each address.
#[derive(Debug)]
pub struct ConcurrencyLimit {
    max: usize,
    max_per_address: usize,
    in_use: Mutex<InUse>,
}

#[derive(Debug, Default)]
struct InUse {
    all: usize,
    by_address: BTreeMap<Origin, usize>,
}

impl ConcurrencyLimit {
    /// Allows `max` permits in total and `max_per_address` for each address.
    pub fn new(max: usize, max_per_address: usize) -> Arc<Self> {
        Arc::new(Self { max, max_per_address, in_use: Mutex::default() })
    }

    /// Takes a permit until the returned guard is dropped. With `None`, only the total limit applies.
    pub fn acquire(self: &Arc<Self>, address: Option<IpAddr>) -> Result<Permit, LimitReached> {
        let address = address.map(Origin::of);
        let mut in_use = self.in_use.lock().unwrap_or_else(PoisonError::into_inner);
        if in_use.all >= self.max {
            return Err(LimitReached::Total);
        }
        if let Some(address) = address {
            let own = in_use.by_address.entry(address).or_default();
            if *own >= self.max_per_address {
                return Err(LimitReached::PerAddress);
            }
            *own += 1;
        }
        in_use.all += 1;
        Ok(Permit { limit: Arc::clone(self), address })
    }
}

/// A taken permit. Dropping it frees the permit.
#[derive(Debug)]
pub struct Permit {
    limit: Arc<ConcurrencyLimit>,
    address: Option<Origin>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut in_use = self.limit.in_use.lock().unwrap_or_else(PoisonError::into_inner);
        in_use.all -= 1;
        let Some(address) = self.address else { return };
        if let Some(own) = in_use.by_address.get_mut(&address) {
            *own -= 1;
            if *own == 0 {
                in_use.by_address.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn bucket_empties_and_refills() {
        let limits = RateLimiter::new(Rate { burst: 2.0, per_second: 1.0 });
        let (now, me) = (Instant::now(), IpAddr::from([10, 0, 0, 1]));
        assert_eq!([limits.take(me, now), limits.take(me, now), limits.take(me, now)], [true, true, false]);
        assert!(limits.take(IpAddr::from([10, 0, 0, 2]), now), "somebody else's bucket is their own");
        assert!(limits.take(me, now + Duration::from_secs(1)));
        assert!(!limits.take(me, now + Duration::from_secs(1)));
    }

    #[test]
    fn full_table_evicts_idle_addresses() {
        let limits = RateLimiter::new(Rate { burst: 1.0, per_second: 0.001 });
        let address = |at: usize| IpAddr::from(std::net::Ipv4Addr::from(0x0a00_0000 + at as u32));
        let (begin, later) = (Instant::now(), Instant::now() + Duration::from_secs(2_000));
        // All addresses but the last one send another request later. Only the last one's bucket is full by then.
        for at in 0..MAX_ADDRESSES {
            let now = if at + 1 == MAX_ADDRESSES { begin } else { later };
            assert!(limits.take(address(at), now), "{at}");
        }
        let another = address(MAX_ADDRESSES);
        let tries = MAX_ADDRESSES / EVICTION_CANDIDATES;
        let admitted = (1..=tries).find(|_| limits.take(another, later));
        assert_eq!(admitted, Some(tries), "each looks at {EVICTION_CANDIDATES}, and the last one was the one to forget");
        assert!(!limits.take(another, later), "its bucket is empty");
        let buckets = limits.buckets.lock().unwrap();
        assert_eq!((buckets.by_address.len(), buckets.order.len()), (MAX_ADDRESSES, MAX_ADDRESSES));
        assert!(!buckets.by_address.contains_key(&Origin::of(address(MAX_ADDRESSES - 1))));
    }

    #[test]
    fn ipv6_prefix_shares_a_bucket() {
        let limits = RateLimiter::new(Rate { burst: 1.0, per_second: 0.0 });
        let now = Instant::now();
        let [first, second, other] = ["2001:db8::1", "2001:db8::ffff:1", "2001:db8:0:1::1"].map(|text| text.parse().unwrap());
        assert_eq!([limits.take(first, now), limits.take(second, now), limits.take(other, now)], [true, false, true]);
    }

    #[test]
    fn permits_are_limited_per_address_and_in_total() {
        let limit = ConcurrencyLimit::new(20, 8);
        let acquire = |last| limit.acquire(Some(IpAddr::from([10, 0, 0, last])));
        let mut in_use: Vec<Permit> = (0..8).map(|_| acquire(0).unwrap()).collect();
        assert_eq!(acquire(0).err(), Some(LimitReached::PerAddress));
        drop(in_use.pop());
        in_use.push(acquire(0).unwrap());
        in_use.extend((1..12).map(|last| acquire(last).unwrap()));
        in_use.push(limit.acquire(None).unwrap());
        assert_eq!(acquire(12).err(), Some(LimitReached::Total));
        assert_eq!(limit.acquire(None).err(), Some(LimitReached::Total));
        drop(in_use);
        let in_use = limit.in_use.lock().unwrap();
        assert!(in_use.all == 0 && in_use.by_address.is_empty(), "who left is forgotten");
    }
}
