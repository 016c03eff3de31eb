//! Token buckets that limit the cost of peers per unit of time.

use corniche_types::{TimestampMs, ValidatorIndex};
use std::collections::BTreeMap;

/// A token bucket. The unit is the owner's choice. The balance may become negative, because the cost of a response is
/// known only afterwards.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    rate: BucketRate,
    tokens: i64,
    refilled_at: TimestampMs,
}

/// Size and refill rate of a [`TokenBucket`].
#[derive(Clone, Copy, Debug)]
pub struct BucketRate {
    /// Capacity of the bucket.
    pub capacity: u64,
    /// Units refilled per millisecond; 0 counts as 1.
    pub per_ms: u64,
}

/// Largest committee in which every peer gets the full share.
const FULL_SHARE_PEERS: u64 = 7;

impl TokenBucket {
    pub fn full(rate: BucketRate, now: TimestampMs) -> Self {
        Self { rate, tokens: rate.capacity(), refilled_at: now }
    }

    /// Refills the bucket up to `now`. Returns true if the balance is above 0.
    pub fn refill(&mut self, now: TimestampMs) -> bool {
        let gained = (now.0 - self.refilled_at.0.min(now.0)).saturating_mul(self.rate.per_ms());
        self.tokens = self.tokens.saturating_add(i64::try_from(gained).unwrap_or(i64::MAX)).min(self.rate.capacity());
        self.refilled_at = now;
        self.tokens > 0
    }

    pub fn spend(&mut self, cost: u64) {
        self.tokens = self.tokens.saturating_sub(i64::try_from(cost).unwrap_or(i64::MAX));
    }

    /// Earliest time at which the balance is above 0.
    pub fn ready_at(&self) -> TimestampMs {
        let debt = u64::try_from(1_i64.saturating_sub(self.tokens)).unwrap_or(0);
        TimestampMs(self.refilled_at.0.saturating_add(debt.div_ceil(self.rate.per_ms())))
    }
}

/// One [`TokenBucket`] per validator, each full at its first use.
#[derive(Debug, Default)]
pub struct TokenBuckets(BTreeMap<ValidatorIndex, TokenBucket>);

impl TokenBuckets {
    /// Refills the peer's token bucket, at `rate` if this is its first use. True if anything is left.
    pub fn refill(&mut self, peer: ValidatorIndex, rate: BucketRate, now: TimestampMs) -> bool {
        self.0.entry(peer).or_insert_with(|| TokenBucket::full(rate, now)).refill(now)
    }

    /// Charges a peer whose token bucket was refilled before; no effect on others.
    pub fn spend(&mut self, peer: ValidatorIndex, cost: u64) {
        if let Some(token_bucket) = self.0.get_mut(&peer) {
            token_bucket.spend(cost);
        }
    }

    /// The earliest time at which one of `peers` may spend again; `None` without a token bucket in use.
    pub fn ready_at<'a>(&self, peers: impl Iterator<Item = &'a ValidatorIndex>) -> Option<TimestampMs> {
        peers.filter_map(|peer| self.0.get(peer)).map(TokenBucket::ready_at).min()
    }
}

impl BucketRate {
    /// Share of one of `peers`. In a committee of up to 7, each peer gets `each` per second. In a larger committee the
    /// total stays constant, so that the faulty peers together cost no more; but no peer gets less than `min`. The
    /// bucket holds half a second's worth.
    pub fn shared(each: u64, min: u64, peers: usize) -> Self {
        let share = each.saturating_mul(FULL_SHARE_PEERS) / FULL_SHARE_PEERS.max(peers as u64);
        let per_second = share.max(min);
        Self { capacity: (per_second / 2).max(1), per_ms: per_second / 1_000 }
    }

    fn capacity(self) -> i64 {
        i64::try_from(self.capacity).unwrap_or(i64::MAX)
    }

    fn per_ms(self) -> u64 {
        self.per_ms.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_refills_negative_balance() {
        let mut token_bucket = TokenBucket::full(BucketRate { capacity: 10, per_ms: 2 }, TimestampMs(100));
        token_bucket.spend(30);
        assert!(!token_bucket.refill(TimestampMs(110)));
        assert_eq!(token_bucket.ready_at(), TimestampMs(111));
        assert!(token_bucket.refill(TimestampMs(111)));
        // A pause refills the bucket only to its capacity.
        assert!(token_bucket.refill(TimestampMs(u64::MAX)));
        token_bucket.spend(10);
        assert!(!token_bucket.refill(TimestampMs(u64::MAX)));
    }

    #[test]
    fn each_peer_has_its_own_bucket() {
        let (rate, now) = (BucketRate { capacity: 10, per_ms: 2 }, TimestampMs(100));
        let peers = [0, 1, 2].map(ValidatorIndex);
        let mut buckets = TokenBuckets::default();
        assert_eq!(buckets.ready_at(peers.iter()), None);
        buckets.spend(peers[0], 1_000);
        assert!(peers[..2].iter().all(|peer| buckets.refill(*peer, rate, now)));
        buckets.spend(peers[0], 10);
        buckets.spend(peers[1], 30);
        assert!(!buckets.refill(peers[0], rate, now) && !buckets.refill(peers[1], rate, now));
        assert!(buckets.refill(peers[2], rate, now));
        assert_eq!(buckets.ready_at(peers[..2].iter()), Some(TimestampMs(101)));
        assert_eq!(buckets.ready_at(peers[1..2].iter()), Some(TimestampMs(111)));
    }

    #[test]
    fn large_committees_share_total_rate() {
        let of = |peers| BucketRate::shared(16_000, 1_000, peers);
        assert_eq!((of(4).per_ms, of(4).capacity), (16, 8_000));
        assert_eq!((of(7).per_ms, of(7).capacity), (16, 8_000));
        assert_eq!((of(50).per_ms, of(50).capacity), (2, 1_120));
        assert_eq!((of(1_000).per_ms, of(1_000).capacity), (1, 500));
        assert_eq!(BucketRate::shared(0, 0, 0).capacity, 1);
    }

    #[test]
    fn clock_going_back_refills_nothing() {
        let mut token_bucket = TokenBucket::full(BucketRate { capacity: 1, per_ms: 0 }, TimestampMs(100));
        token_bucket.spend(1);
        assert!(!token_bucket.refill(TimestampMs(50)));
        assert_eq!(token_bucket.ready_at(), TimestampMs(51));
    }

    #[test]
    fn huge_costs_do_not_overflow() {
        let mut token_bucket = TokenBucket::full(BucketRate { capacity: u64::MAX, per_ms: 1 }, TimestampMs(0));
        token_bucket.spend(u64::MAX);
        token_bucket.spend(u64::MAX);
        assert!(!token_bucket.refill(TimestampMs(0)));
        assert!(token_bucket.ready_at() > TimestampMs(0));
    }
}
