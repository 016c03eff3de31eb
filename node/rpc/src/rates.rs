//! How many requests an address may make. Each has a bucket that fills at the allowed rate and holds a few seconds of it, so that a page
//! that loads may ask for much at once.

use crate::listener::Origin;
use corniche_api::{Reason, RpcError};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Seconds of requests that a bucket holds.
const BURST_SECONDS: u32 = 5;
/// Buckets that are kept; beyond that, full ones go, which changes nothing for anyone.
const MAX_BUCKETS: usize = 16_384;

#[derive(Debug)]
pub(crate) struct Rates {
    /// Requests per second of one address; `None`: any number.
    per_second: Option<u32>,
    /// Whether this machine itself is not limited. Behind a proxy on the same machine it would be everyone together.
    spare_loopback: bool,
    buckets: Mutex<BTreeMap<Origin, Bucket>>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// When it is or was full again: in the future by one request's share for each that was taken.
    full_at: Instant,
}

impl Rates {
    pub fn new(per_second: Option<u32>, spare_loopback: bool) -> Self {
        Self { per_second: per_second.filter(|rate| *rate > 0), spare_loopback, buckets: Mutex::default() }
    }

    /// Takes a request from the bucket of `origin`, or says when there will be one again.
    pub fn take(&self, origin: Origin, now: Instant) -> Result<(), RpcError> {
        let Some(per_second) = self.per_second else { return Ok(()) };
        if self.spare_loopback && origin.is_loopback() {
            return Ok(());
        }
        let share = Duration::from_secs(1) / per_second;
        let depth = share * per_second.saturating_mul(BURST_SECONDS);
        let mut buckets = self.lock();
        if buckets.len() >= MAX_BUCKETS && !buckets.contains_key(&origin) {
            buckets.retain(|_, bucket| bucket.full_at > now);
            if buckets.len() >= MAX_BUCKETS {
                // So many addresses at once are no clients of one node: who is told to come back loses least.
                return Err(Reason::RateLimited.with("too many addresses ask at once"));
            }
        }
        let bucket = buckets.entry(origin).or_insert(Bucket { full_at: now });
        let full_at = bucket.full_at.max(now) + share;
        if full_at - now > depth {
            let wait = (full_at - now - depth).as_millis().max(1);
            return Err(
                Reason::RateLimited.with(format!("{per_second} requests per second for one address; try again in {wait} ms"))
            );
        }
        bucket.full_at = full_at;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Origin, Bucket>> {
        // Every critical section leaves the map whole.
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(text: &str) -> Origin {
        Origin::of(text.parse().expect("an address"))
    }

    /// How many of `tries` requests at one moment are let through.
    fn passed(rates: &Rates, from: Origin, now: Instant, tries: u32) -> u32 {
        (0..tries).map(|_| u32::from(rates.take(from, now).is_ok())).sum()
    }

    #[test]
    fn a_burst_passes_and_then_as_many_as_the_rate_allows() {
        let rates = Rates::new(Some(10), true);
        let (one, other, start) = (origin("192.0.2.1"), origin("192.0.2.2"), Instant::now());
        assert_eq!(passed(&rates, one, start, 1_000), 10 * BURST_SECONDS);
        let error = rates.take(one, start).unwrap_err();
        assert_eq!(error.code, -32005);
        assert_eq!(error.message, "rate limit exceeded: 10 requests per second for one address; try again in 100 ms");
        assert_eq!(passed(&rates, other, start, 7), 7, "others do not pay for it");
        let later = start + Duration::from_millis(2_500);
        assert_eq!(passed(&rates, one, later, 1_000), 25);
        assert_eq!(
            passed(&rates, one, later + Duration::from_secs(3600), 1_000),
            10 * BURST_SECONDS,
            "it holds no more than that"
        );
    }

    #[test]
    fn this_machine_is_spared_and_so_is_everyone_without_a_limit() {
        let start = Instant::now();
        for address in ["127.0.0.1", "127.3.2.1", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(passed(&Rates::new(Some(1), true), origin(address), start, 100), 100, "{address}");
            assert_eq!(passed(&Rates::new(Some(1), false), origin(address), start, 100), BURST_SECONDS, "{address}");
        }
        assert_eq!(passed(&Rates::new(None, false), origin("192.0.2.1"), start, 100), 100);
        assert_eq!(passed(&Rates::new(Some(0), false), origin("192.0.2.1"), start, 100), 100);
    }

    #[test]
    fn a_flood_of_addresses_does_not_fill_memory_and_passes() {
        let rates = Rates::new(Some(10), true);
        let start = Instant::now();
        let address = |number: usize| origin(&format!("10.{}.{}.{}", number >> 16, number >> 8 & 255, number & 255));
        for number in 0..MAX_BUCKETS {
            assert!(rates.take(address(number), start).is_ok());
        }
        assert!(rates.take(address(MAX_BUCKETS), start).is_err());
        assert!(rates.take(address(0), start).is_ok(), "who is known stays served");
        assert!(rates.take(address(MAX_BUCKETS), start + Duration::from_secs(1)).is_ok(), "full buckets have gone");
        assert_eq!(rates.lock().len(), 1);
    }
}
