//! Token buckets that limit the cost of peers per unit of time.

use corniche_types::{TimestampMs, ValidatorIndex};
use std::collections::BTreeMap;

/// A token bucket. The unit is the owner's choice. The balance may become negative, because the cost of a response is
/// known only afterwards.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    rate: Rate,
    left: i64,
    at: TimestampMs,
}

/// Size and refill rate of an [`Allowance`].
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Capacity of the bucket.
    pub most: u64,
    /// Units refilled per millisecond; 0 counts as 1.
    pub per_ms: u64,
}

/// Largest committee in which every peer gets the full share.
const UNSHARED_PEERS: u64 = 7;

impl Allowance {
    pub fn full(rate: Rate, now: TimestampMs) -> Self {
        Self { rate, left: rate.most(), at: now }
    }

    /// Refills the bucket up to `now`. Returns true if the balance is above 0.
    pub fn refill(&mut self, now: TimestampMs) -> bool {
        let gained = (now.0 - self.at.0.min(now.0)).saturating_mul(self.rate.per_ms());
        self.left = self.left.saturating_add(i64::try_from(gained).unwrap_or(i64::MAX)).min(self.rate.most());
        self.at = now;
        self.left > 0
    }

    pub fn spend(&mut self, cost: u64) {
        self.left = self.left.saturating_sub(i64::try_from(cost).unwrap_or(i64::MAX));
    }

    /// Earliest time at which the balance is above 0.
    pub fn ready_at(&self) -> TimestampMs {
        let debt = u64::try_from(1_i64.saturating_sub(self.left)).unwrap_or(0);
        TimestampMs(self.at.0.saturating_add(debt.div_ceil(self.rate.per_ms())))
    }
}

/// One [`Allowance`] per validator, each full at its first use.
#[derive(Debug, Default)]
pub struct Allowances(BTreeMap<ValidatorIndex, Allowance>);

impl Allowances {
    /// Refills the peer's allowance, at `rate` if this is its first use. True if anything is left.
    pub fn refill(&mut self, peer: ValidatorIndex, rate: Rate, now: TimestampMs) -> bool {
        self.0.entry(peer).or_insert_with(|| Allowance::full(rate, now)).refill(now)
    }

    /// Charges a peer whose allowance was refilled before; no effect on others.
    pub fn spend(&mut self, peer: ValidatorIndex, cost: u64) {
        if let Some(allowance) = self.0.get_mut(&peer) {
            allowance.spend(cost);
        }
    }

    /// The earliest time at which one of `peers` may spend again; `None` without an allowance in use.
    pub fn ready_at<'a>(&self, peers: impl Iterator<Item = &'a ValidatorIndex>) -> Option<TimestampMs> {
        peers.filter_map(|peer| self.0.get(peer)).map(Allowance::ready_at).min()
    }
}

impl Rate {
    /// Share of one of `peers`. In a committee of up to 7, each peer gets `each` per second. In a larger committee the
    /// total stays constant, so that the faulty peers together cost no more; but no peer gets less than `least`. The
    /// bucket holds half a second's worth.
    pub fn shared(each: u64, least: u64, peers: usize) -> Self {
        let share = each.saturating_mul(UNSHARED_PEERS) / UNSHARED_PEERS.max(peers as u64);
        let per_second = share.max(least);
        Self { most: (per_second / 2).max(1), per_ms: per_second / 1_000 }
    }

    fn most(self) -> i64 {
        i64::try_from(self.most).unwrap_or(i64::MAX)
    }

    fn per_ms(self) -> u64 {
        self.per_ms.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_debt_is_paid_by_waiting() {
        let mut allowance = Allowance::full(Rate { most: 10, per_ms: 2 }, TimestampMs(100));
        allowance.spend(30);
        assert!(!allowance.refill(TimestampMs(110)));
        assert_eq!(allowance.ready_at(), TimestampMs(111));
        assert!(allowance.refill(TimestampMs(111)));
        // A pause refills the bucket only to its capacity.
        assert!(allowance.refill(TimestampMs(u64::MAX)));
        allowance.spend(10);
        assert!(!allowance.refill(TimestampMs(u64::MAX)));
    }

    #[test]
    fn each_peer_has_its_own_allowance() {
        let (rate, now) = (Rate { most: 10, per_ms: 2 }, TimestampMs(100));
        let peers = [0, 1, 2].map(ValidatorIndex);
        let mut allowances = Allowances::default();
        assert_eq!(allowances.ready_at(peers.iter()), None);
        allowances.spend(peers[0], 1_000);
        assert!(peers[..2].iter().all(|peer| allowances.refill(*peer, rate, now)));
        allowances.spend(peers[0], 10);
        allowances.spend(peers[1], 30);
        assert!(!allowances.refill(peers[0], rate, now) && !allowances.refill(peers[1], rate, now));
        assert!(allowances.refill(peers[2], rate, now));
        assert_eq!(allowances.ready_at(peers[..2].iter()), Some(TimestampMs(101)));
        assert_eq!(allowances.ready_at(peers[1..2].iter()), Some(TimestampMs(111)));
    }

    #[test]
    fn a_total_is_shared() {
        let of = |peers| Rate::shared(16_000, 1_000, peers);
        assert_eq!((of(4).per_ms, of(4).most), (16, 8_000));
        assert_eq!((of(7).per_ms, of(7).most), (16, 8_000));
        assert_eq!((of(50).per_ms, of(50).most), (2, 1_120));
        assert_eq!((of(1_000).per_ms, of(1_000).most), (1, 500));
        assert_eq!(Rate::shared(0, 0, 0).most, 1);
    }

    #[test]
    fn a_clock_that_went_back_gives_nothing() {
        let mut allowance = Allowance::full(Rate { most: 1, per_ms: 0 }, TimestampMs(100));
        allowance.spend(1);
        assert!(!allowance.refill(TimestampMs(50)));
        assert_eq!(allowance.ready_at(), TimestampMs(51));
    }

    #[test]
    fn no_cost_overflows() {
        let mut allowance = Allowance::full(Rate { most: u64::MAX, per_ms: 1 }, TimestampMs(0));
        allowance.spend(u64::MAX);
        allowance.spend(u64::MAX);
        assert!(!allowance.refill(TimestampMs(0)));
        assert!(allowance.ready_at() > TimestampMs(0));
    }
}
