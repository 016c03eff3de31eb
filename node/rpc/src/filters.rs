//! Filters for clients that poll.
//!
//! A filter stores a position, not results: the next height or pending transaction to report. So a client
//! that never polls costs no memory, and one that polls misses nothing. Pending transactions are the
//! exception, since only the newest are kept. A filter that is not polled expires.

use crate::backend::Reverted;
use crate::budget::{Budget, Reservation};
use crate::log_match::{self, LogFilter};
use alloy_primitives::{B256, FixedBytes, U128};
use alloy_rpc_types_eth::Log;
use corniche_api::{Reason, RpcError};
use corniche_origin::Origin;
use corniche_types::{Height, TimestampMs};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Number of pending transactions kept for filters.
const MAX_PENDING_HASHES: usize = 8192;
/// Maximum number of logs from reverted blocks kept per filter. Only development chains revert blocks.
const MAX_REMOVED_LOGS: usize = 10_000;

/// Random, so that no client can guess another's.
pub(crate) fn random_id() -> U128 {
    U128::from_be_bytes(FixedBytes::<16>::random().0)
}

pub(crate) struct Filters {
    entries: Mutex<BTreeMap<U128, Entry>>,
    pending: Mutex<Pending>,
    budget: Budget,
    lifetime: Duration,
}

struct Entry {
    kind: FilterKind,
    /// Next height, or number of the next pending transaction, to report.
    next: u64,
    last_used: TimestampMs,
    /// Number of reverts that removed blocks which this filter had passed.
    reverts: u64,
    /// Logs that were reported and then reverted.
    removed: Vec<Log>,
    _reservation: Reservation,
}

/// Position of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FilterPosition {
    pub next: u64,
    reverts: u64,
}

#[derive(Clone)]
pub(crate) enum FilterKind {
    Blocks,
    Pending { full: bool },
    Logs(Arc<LogFilter>),
}

/// Newest pending transactions, numbered from the server's start.
#[derive(Default)]
struct Pending {
    hashes: VecDeque<B256>,
    /// Number of the first one in `hashes`.
    first: u64,
}

impl Pending {
    fn next(&self) -> u64 {
        self.first + self.hashes.len() as u64
    }
}

impl Filters {
    pub fn new(budget: Budget, lifetime: Duration) -> Self {
        Self { entries: Mutex::default(), pending: Mutex::default(), budget, lifetime }
    }

    /// Records a transaction that entered the pool.
    pub fn pending(&self, hash: B256) {
        let mut pending = self.lock_pending();
        if pending.hashes.len() == MAX_PENDING_HASHES {
            pending.hashes.pop_front();
            pending.first += 1;
        }
        pending.hashes.push_back(hash);
    }

    pub fn add(&self, client: Origin, kind: FilterKind, head: Height, now: TimestampMs) -> Result<U128, RpcError> {
        let next = match kind {
            FilterKind::Blocks | FilterKind::Logs(_) => head.0 + 1,
            FilterKind::Pending { .. } => self.lock_pending().next(),
        };
        let mut entries = self.lock();
        self.expire(&mut entries, now);
        let reservation = self.budget.reserve(client, 1)?;
        let id = random_id();
        entries.insert(id, Entry { kind, next, last_used: now, reverts: 0, removed: Vec::new(), _reservation: reservation });
        Ok(id)
    }

    /// Returns true if the filter existed.
    pub fn remove(&self, id: U128) -> bool {
        self.lock().remove(&id).is_some()
    }

    /// Returns kind and position of the filter; marks it as used.
    pub fn get(&self, id: U128, now: TimestampMs) -> Result<(FilterKind, FilterPosition), RpcError> {
        let mut entries = self.lock();
        self.expire(&mut entries, now);
        let entry = entries.get_mut(&id).ok_or_else(|| Reason::FilterNotFound.error())?;
        entry.last_used = now;
        Ok((entry.kind.clone(), FilterPosition { next: entry.next, reverts: entry.reverts }))
    }

    /// Handles the removal of blocks from the chain.
    pub fn revert(&self, reverted: &Reverted) {
        let new_head = reverted.to.0;
        for entry in self.lock().values_mut().filter(|entry| entry.next > new_head + 1) {
            match &entry.kind {
                FilterKind::Blocks => entry.next = new_head + 1,
                FilterKind::Logs(filter) => {
                    let room = MAX_REMOVED_LOGS.saturating_sub(entry.removed.len());
                    entry.removed.extend(log_match::removed(reverted, filter, entry.next).take(room));
                    entry.next = new_head + 1;
                }
                FilterKind::Pending { .. } => continue,
            }
            entry.reverts += 1;
        }
    }

    /// Puts back removed logs that could not be sent to the client.
    pub fn restore_removed(&self, id: U128, removed: Vec<Log>) {
        if let Some(entry) = self.lock().get_mut(&id) {
            entry.removed.splice(0..0, removed);
        }
    }

    /// Moves the filter on to `next`, and returns the removed logs that the client must get first. `None` if
    /// a revert meanwhile removed blocks that the filter had passed: then the results found may be outdated.
    pub fn advance(&self, id: U128, from: FilterPosition, next: u64) -> Option<Vec<Log>> {
        let mut entries = self.lock();
        let Some(entry) = entries.get_mut(&id) else { return Some(Vec::new()) };
        if entry.reverts != from.reverts {
            return None;
        }
        entry.next = entry.next.max(next);
        Some(std::mem::take(&mut entry.removed))
    }

    fn expire(&self, entries: &mut BTreeMap<U128, Entry>, now: TimestampMs) {
        let lifetime = self.lifetime.as_millis();
        entries.retain(|_, entry| u128::from(now.0.saturating_sub(entry.last_used.0)) <= lifetime);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<U128, Entry>> {
        // Every critical section leaves the map consistent.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pending transactions that a filter at `from` has not reported, and the number of the next one.
    pub fn pending_since(&self, from: u64) -> (Vec<B256>, u64) {
        let pending = self.lock_pending();
        let skip = usize::try_from(from.saturating_sub(pending.first)).unwrap_or(usize::MAX);
        (pending.hashes.iter().skip(skip).copied().collect(), pending.next())
    }

    fn lock_pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget;

    fn filters(max: usize, lifetime: Duration) -> Filters {
        let resource = budget::Resource::slots(Reason::TooManyFilters, "filters");
        Filters::new(Budget::new(resource, max, true), lifetime)
    }

    #[test]
    fn unused_filters_expire() {
        let filters = filters(2, Duration::from_secs(10));
        let client = Origin::of([127, 0, 0, 1].into());
        let at = |seconds: u64| TimestampMs(seconds * 1000);
        let first = filters.add(client, FilterKind::Blocks, Height(5), at(0)).unwrap();
        let second = filters.add(client, FilterKind::Blocks, Height(5), at(6)).unwrap();
        assert_ne!(first, second);
        assert_eq!(filters.add(client, FilterKind::Blocks, Height(5), at(6)).unwrap_err().code, -32005);
        // After ten seconds the first filter still exists, and the poll renews it.
        assert!(filters.get(first, at(10)).is_ok());
        // The second was last used 11 s ago; it expires and makes room.
        assert!(filters.get(second, at(17)).is_err());
        assert!(filters.add(client, FilterKind::Blocks, Height(5), at(17)).is_ok());
        assert!(filters.get(first, at(17)).is_ok());
        assert!(filters.remove(first) && !filters.remove(first));
    }

    /// Otherwise a poll during a revert would skip the blocks that follow it without reporting them.
    #[test]
    fn revert_during_poll_does_not_advance() {
        let filters = filters(1, Duration::from_secs(1));
        let now = TimestampMs(0);
        let id = filters.add(Origin::of([127, 0, 0, 1].into()), FilterKind::Blocks, Height(5), now).unwrap();
        let (_, before) = filters.get(id, now).unwrap();
        assert!(filters.advance(id, before, 9).is_some());
        let (_, during) = filters.get(id, now).unwrap();
        filters.revert(&Reverted { to: Height(6), removed: Vec::new() });
        assert_eq!(filters.advance(id, during, 12), None);
        let (_, after) = filters.get(id, now).unwrap();
        assert_eq!((during.next, after.next), (9, 7));
        // A revert of blocks that the filter had not reached changes nothing.
        filters.revert(&Reverted { to: Height(6), removed: Vec::new() });
        assert_eq!(filters.advance(id, after, 8), Some(Vec::new()));
    }

    #[test]
    fn newest_pending_hashes_are_kept() {
        let filters = filters(1, Duration::from_secs(1));
        for index in 0..MAX_PENDING_HASHES + 10 {
            filters.pending(B256::left_padding_from(&(index as u64).to_be_bytes()));
        }
        let pending = filters.lock_pending();
        assert_eq!((pending.hashes.len(), pending.first), (MAX_PENDING_HASHES, 10));
    }
}
