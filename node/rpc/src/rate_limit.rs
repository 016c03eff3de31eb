//! Rate limits per client, as token buckets. Each address has a bucket that holds a few seconds of its rate,
//! so that a loading page can send many requests at once. Each connection has one too, and so has each IPv6
//! network, since one client may use many of its addresses.

use crate::client::Client;
use crate::token_bucket::TokenBucket;
use corniche_api::{Reason, RpcError};
use corniche_origin::{Origin, Site};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of buckets of each kind. Above it, full ones are removed, which changes no limit.
const MAX_BUCKETS: usize = 16_384;
/// An IPv6 /48 network, the usual size of a site, may send as many requests as this number of addresses.
const ADDRESSES_PER_SITE: u32 = 16;

/// Requests per second; `None`: unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RateLimits {
    pub address: Option<u32>,
    pub connection: Option<u32>,
    /// True if loopback clients are not limited. Keep it false behind a proxy on the same machine: there all
    /// clients come from loopback.
    pub spare_loopback: bool,
}

#[derive(Debug)]
pub(crate) struct RateLimiter {
    limits: RateLimits,
    buckets: Mutex<Buckets>,
}

#[derive(Debug, Default)]
struct Buckets {
    addresses: BTreeMap<Origin, TokenBucket>,
    sites: BTreeMap<Site, TokenBucket>,
}

impl RateLimiter {
    pub fn new(limits: RateLimits) -> Self {
        let some = |rate: Option<u32>| rate.filter(|rate| *rate > 0);
        let limits = RateLimits { address: some(limits.address), connection: some(limits.connection), ..limits };
        Self { limits, buckets: Mutex::default() }
    }

    /// Takes one request from each of the client's buckets, or from none.
    ///
    /// # Errors
    ///
    /// Some bucket is empty; the error contains the wait.
    pub fn take(&self, client: &Client, now: Instant) -> Result<(), RpcError> {
        if self.limits.spare_loopback && client.origin.is_loopback() {
            return Ok(());
        }
        // Every critical section leaves the bucket consistent.
        let mut connection = client.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let after = match self.limits.connection {
            Some(per_second) => {
                connection.take_one(per_second, now).map_err(|wait| rate_limited(per_second, "connection", wait))?
            }
            None => *connection,
        };
        self.take_for_address(client.origin, now)?;
        *connection = after;
        Ok(())
    }

    fn take_for_address(&self, origin: Origin, now: Instant) -> Result<(), RpcError> {
        let Some(per_second) = self.limits.address else { return Ok(()) };
        let mut buckets = self.lock();
        let Buckets { addresses, sites } = &mut *buckets;
        let bucket = bucket_for(addresses, &origin, now)?;
        let after = bucket.take_one(per_second, now).map_err(|wait| rate_limited(per_second, "address", wait))?;
        if let Some(site) = origin.shared_site() {
            let per_second = per_second.saturating_mul(ADDRESSES_PER_SITE);
            let bucket = bucket_for(sites, &site, now)?;
            let after = bucket.take_one(per_second, now).map_err(|wait| rate_limited(per_second, "IPv6 /48", wait))?;
            sites.insert(site, after);
        }
        addresses.insert(origin, after);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Buckets> {
        // Every critical section leaves the maps consistent.
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the client's bucket, or a new one if there is room.
fn bucket_for<K: Ord>(buckets: &mut BTreeMap<K, TokenBucket>, key: &K, now: Instant) -> Result<TokenBucket, RpcError> {
    if let Some(bucket) = buckets.get(key) {
        return Ok(*bucket);
    }
    if buckets.len() >= MAX_BUCKETS {
        buckets.retain(|_, bucket| !bucket.is_full(now));
        if buckets.len() >= MAX_BUCKETS {
            // So many addresses at once are not normal clients of one node; refusing new ones does the least
            // harm.
            return Err(Reason::RateLimited.with("too many client addresses"));
        }
    }
    Ok(TokenBucket::default())
}

fn rate_limited(per_second: u32, scope: &str, wait: Duration) -> RpcError {
    let wait = wait.as_millis().max(1);
    Reason::RateLimited.with(format!("{per_second} requests per second for one {scope}; try again in {wait} ms"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token_bucket::BURST_SECONDS;

    fn origin(text: &str) -> Origin {
        Origin::of(text.parse().expect("an address"))
    }

    fn client(origin: Origin) -> Client {
        Client { peer: [192, 0, 2, 1].into(), origin, connection: Default::default() }
    }

    fn address_limiter(per_second: Option<u32>, spare_loopback: bool) -> RateLimiter {
        RateLimiter::new(RateLimits { address: per_second, connection: None, spare_loopback })
    }

    /// Counts how many of `attempts` simultaneous requests pass, each on its own connection.
    fn count_allowed(limiter: &RateLimiter, from: Origin, now: Instant, attempts: u32) -> u32 {
        (0..attempts).map(|_| u32::from(limiter.take(&client(from), now).is_ok())).sum()
    }

    #[test]
    fn burst_then_steady_rate() {
        let limiter = address_limiter(Some(10), true);
        let (one, other, start) = (origin("192.0.2.1"), origin("192.0.2.2"), Instant::now());
        assert_eq!(count_allowed(&limiter, one, start, 1_000), 10 * BURST_SECONDS);
        let error = limiter.take(&client(one), start).unwrap_err();
        assert_eq!(error.code, -32005);
        assert_eq!(error.message, "rate limit exceeded: 10 requests per second for one address; try again in 100 ms");
        assert_eq!(count_allowed(&limiter, other, start, 7), 7, "others do not pay for it");
        let later = start + Duration::from_millis(2_500);
        assert_eq!(count_allowed(&limiter, one, later, 1_000), 25);
        assert_eq!(
            count_allowed(&limiter, one, later + Duration::from_secs(3600), 1_000),
            10 * BURST_SECONDS,
            "it holds no more than that"
        );
    }

    #[test]
    fn loopback_can_be_exempt() {
        let start = Instant::now();
        for address in ["127.0.0.1", "127.3.2.1", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(count_allowed(&address_limiter(Some(1), true), origin(address), start, 100), 100, "{address}");
            assert_eq!(
                count_allowed(&address_limiter(Some(1), false), origin(address), start, 100),
                BURST_SECONDS,
                "{address}"
            );
        }
        assert_eq!(count_allowed(&address_limiter(None, false), origin("192.0.2.1"), start, 100), 100);
        assert_eq!(count_allowed(&address_limiter(Some(0), false), origin("192.0.2.1"), start, 100), 100);
    }

    #[test]
    fn bucket_count_is_bounded() {
        let limiter = address_limiter(Some(10), true);
        let start = Instant::now();
        let address = |number: usize| origin(&format!("10.{}.{}.{}", number >> 16, number >> 8 & 255, number & 255));
        for number in 0..MAX_BUCKETS {
            assert!(limiter.take(&client(address(number)), start).is_ok());
        }
        assert!(limiter.take(&client(address(MAX_BUCKETS)), start).is_err());
        assert!(limiter.take(&client(address(0)), start).is_ok(), "who is known stays served");
        assert!(limiter.take(&client(address(MAX_BUCKETS)), start + Duration::from_secs(1)).is_ok(), "full buckets have gone");
        assert_eq!(limiter.lock().addresses.len(), 1);
    }

    #[test]
    fn ipv6_site_shares_limit() {
        let limiter = address_limiter(Some(10), true);
        let start = Instant::now();
        let burst = 10 * BURST_SECONDS;
        let allowed_for_site = |site: u32| -> u32 {
            (0..100)
                .map(|number| count_allowed(&limiter, origin(&format!("2001:db8:{site:x}:{number:x}::1")), start, burst))
                .sum()
        };
        assert_eq!(allowed_for_site(1), burst * ADDRESSES_PER_SITE, "not a hundred bursts");
        let error = limiter.take(&client(origin("2001:db8:1:ffff::1")), start).unwrap_err();
        assert_eq!(error.message, "rate limit exceeded: 160 requests per second for one IPv6 /48; try again in 6 ms",);
        assert_eq!(allowed_for_site(2), burst * ADDRESSES_PER_SITE, "another network does not pay for it");
        assert_eq!(count_allowed(&limiter, origin("192.0.2.1"), start, 100), burst);
    }

    #[test]
    fn connection_has_own_limit() {
        let limiter = RateLimiter::new(RateLimits { address: Some(10), connection: Some(2), spare_loopback: true });
        let (one, other) = (client(origin("192.0.2.1")), client(origin("192.0.2.1")));
        let start = Instant::now();
        let count_allowed =
            |client: &Client, attempts: u32| (0..attempts).filter(|_| limiter.take(client, start).is_ok()).count();
        assert_eq!(count_allowed(&one, 100), 10);
        let error = limiter.take(&one, start).unwrap_err();
        assert_eq!(error.message, "rate limit exceeded: 2 requests per second for one connection; try again in 500 ms");
        assert_eq!(count_allowed(&other, 100), 10, "what one was refused was not taken from their address");
        let more: usize = (0..10).map(|_| count_allowed(&client(origin("192.0.2.1")), 100)).sum();
        assert_eq!(more, 30, "all of them together make up the address's");
    }
}
