//! Copy of the pool for RPC, maintained from the pipeline thread's outputs, so that readers never wait for
//! that thread. Also keeps the arrival times of former pool transactions for a while, because blocks do not
//! contain them.

use corniche_api::{TransactionStatus, TransactionTimes};
use corniche_crypto::VerifiedTransaction;
use corniche_state::StateView;
use corniche_types::{Address, B256, Bytes, TimestampMs};
use lru::LruCache;
use std::{
    collections::BTreeMap,
    num::NonZeroUsize,
    sync::{Mutex, MutexGuard},
};

/// Maximum number of remembered transactions that left the pool unexecuted.
const MAX_DROPPED: NonZeroUsize = NonZeroUsize::new(10_000).expect("above 0");

/// Maximum number of remembered arrival times of executed transactions.
const MAX_EXECUTED: NonZeroUsize = NonZeroUsize::new(65_536).expect("above 0");

/// Number of transactions read or changed before the lock is released for a moment.
const CHUNK: usize = 256;

/// Copy of the pool for readers.
#[derive(Default)]
pub struct PoolView {
    inner: Mutex<Inner>,
}

struct Inner {
    transactions: BTreeMap<B256, Entry>,
    /// Number of transactions that ever entered.
    entered: u64,
    /// Pooled transaction by sender and nonce.
    nonces: BTreeMap<Address, BTreeMap<u64, B256>>,
    /// Status of transactions that left.
    dropped: LruCache<B256, DroppedTransaction>,
    /// Arrival times of transactions that were executed.
    executed: LruCache<B256, TimestampMs>,
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            transactions: BTreeMap::new(),
            entered: 0,
            nonces: BTreeMap::new(),
            dropped: LruCache::new(MAX_DROPPED),
            executed: LruCache::new(MAX_EXECUTED),
        }
    }
}

struct Entry {
    transaction: VerifiedTransaction,
    /// Number of transactions that entered before it.
    arrival: u64,
    received: TimestampMs,
    ordered: bool,
}

/// Status and time of a transaction that left unexecuted.
struct DroppedTransaction {
    status: TransactionStatus,
    received: Option<TimestampMs>,
    left: TimestampMs,
}

impl PoolView {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("invariant: nobody panics while holding the mirror")
    }

    /// Clears the pool. Keeps the arrival times of executed transactions: after a revert, some are still in
    /// blocks.
    pub fn clear(&self) {
        let mut inner = self.lock();
        let before = std::mem::take(&mut *inner);
        inner.executed = before.executed;
    }

    /// Adds a transaction that entered the pool.
    pub fn pending(&self, transaction: VerifiedTransaction, received: TimestampMs) {
        let mut inner = self.lock();
        let (sender, nonce) = (transaction.sender(), transaction.transaction().nonce());
        inner.nonces.entry(sender).or_default().insert(nonce, transaction.hash());
        inner.dropped.pop(&transaction.hash());
        let arrival = inner.entered;
        inner.entered += 1;
        inner.transactions.insert(transaction.hash(), Entry { transaction, arrival, received, ordered: false });
    }

    /// Marks transactions as ordered. Threads that verify peers' messages may be waiting for the lock, so a block's
    /// transactions are hashed before it is taken, and marked a few at a time.
    pub fn ordered(&self, hashes: impl IntoIterator<Item = B256>) {
        if self.len() == 0 {
            return;
        }
        let hashes: Vec<B256> = hashes.into_iter().collect();
        for some in hashes.chunks(CHUNK) {
            let mut inner = self.lock();
            for hash in some {
                if let Some(entry) = inner.transactions.get_mut(hash) {
                    entry.ordered = true;
                }
            }
        }
    }

    /// Removes transactions that are in a block, also a few at a time.
    pub fn executed(&self, hashes: &[B256]) {
        for some in hashes.chunks(CHUNK) {
            let mut inner = self.lock();
            for hash in some {
                if let Some(received) = inner.remove(hash) {
                    inner.executed.put(*hash, received);
                }
            }
        }
    }

    /// Removes a transaction that left the pool unexecuted.
    pub fn dropped(&self, hash: B256, status: TransactionStatus, left: TimestampMs) {
        let mut inner = self.lock();
        let received = inner.remove(&hash);
        inner.dropped.put(hash, DroppedTransaction { status, received, left });
    }

    pub fn transaction(&self, hash: &B256) -> Option<VerifiedTransaction> {
        self.lock().transactions.get(hash).map(|entry| entry.transaction.clone())
    }

    pub fn status(&self, hash: &B256) -> Option<TransactionStatus> {
        let inner = self.lock();
        if let Some(entry) = inner.transactions.get(hash) {
            return Some(if entry.ordered { TransactionStatus::Ordered } else { TransactionStatus::Pending });
        }
        inner.dropped.peek(hash).map(|dropped| dropped.status.clone())
    }

    /// Times at which a transaction arrived, and left unexecuted.
    pub fn times(&self, hash: &B256) -> TransactionTimes {
        let inner = self.lock();
        let received_ms = inner.received(hash).map(|received| received.0);
        TransactionTimes { received_ms, left_ms: inner.dropped.peek(hash).map(|dropped| dropped.left.0), ordered_ms: None }
    }

    /// Arrival times of these transactions in ms, as 8 big-endian bytes each; zeros if unknown. The pipeline
    /// thread may be waiting for the lock, so only a few are read at a time.
    pub fn received_of(&self, hashes: &[B256]) -> Bytes {
        let mut all = Vec::with_capacity(8 * hashes.len());
        for some in hashes.chunks(CHUNK) {
            let inner = self.lock();
            let ms = |hash: &B256| inner.received(hash).map_or(0, |received| received.0);
            all.extend(some.iter().flat_map(|hash| ms(hash).to_be_bytes()));
        }
        all.into()
    }

    /// Nonce after the sender's gapless pooled transactions.
    pub fn pending_nonce(&self, address: &Address, state: &dyn StateView) -> u64 {
        let account_nonce = state.account(address).map_or(0, |account| account.nonce);
        let inner = self.lock();
        let Some(nonces) = inner.nonces.get(address) else { return account_nonce };
        let mut next = account_nonce;
        for (nonce, _) in nonces.range(account_nonce..) {
            if *nonce != next {
                break;
            }
            next += 1;
        }
        next
    }

    /// Transactions of a sender by nonce.
    pub fn of_sender(&self, sender: &Address) -> Vec<VerifiedTransaction> {
        let inner = self.lock();
        inner.nonces.get(sender).map(|nonces| inner.pooled(nonces).collect()).unwrap_or_default()
    }

    /// All transactions by sender and nonce. The pipeline thread may be waiting for the lock, so only a few
    /// senders are read at a time.
    pub fn all(&self) -> Vec<VerifiedTransaction> {
        let mut all = Vec::new();
        let mut next = Some(Address::ZERO);
        while let Some(from) = next.take() {
            let inner = self.lock();
            let (length_before, mut senders) = (all.len(), inner.nonces.range(from..));
            for (_, nonces) in senders.by_ref() {
                all.extend(inner.pooled(nonces));
                if all.len() - length_before >= CHUNK {
                    break;
                }
            }
            next = senders.next().map(|(sender, _)| *sender);
        }
        all
    }

    /// All transactions in order of arrival.
    pub fn by_arrival(&self) -> Vec<Bytes> {
        let inner = self.lock();
        let mut entries: Vec<&Entry> = inner.transactions.values().collect();
        entries.sort_by_key(|entry| entry.arrival);
        entries.into_iter().map(|entry| entry.transaction.transaction().raw().clone()).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().transactions.len()
    }
}

impl Inner {
    fn pooled<'i>(&'i self, nonces: &'i BTreeMap<u64, B256>) -> impl Iterator<Item = VerifiedTransaction> {
        nonces.values().filter_map(|hash| Some(self.transactions.get(hash)?.transaction.clone()))
    }

    /// Arrival time of a transaction, whatever its status.
    fn received(&self, hash: &B256) -> Option<TimestampMs> {
        let waiting = self.transactions.get(hash).map(|entry| entry.received);
        let dropped = || self.dropped.peek(hash).and_then(|dropped| dropped.received);
        waiting.or_else(dropped).or_else(|| self.executed.peek(hash).copied())
    }

    /// Returns its arrival time.
    fn remove(&mut self, hash: &B256) -> Option<TimestampMs> {
        let entry = self.transactions.remove(hash)?;
        let sender = entry.transaction.sender();
        let nonce = entry.transaction.transaction().nonce();
        if let Some(nonces) = self.nonces.get_mut(&sender) {
            // A replacement with the same nonce may already be there.
            if nonces.get(&nonce) == Some(hash) {
                nonces.remove(&nonce);
            }
            if nonces.is_empty() {
                self.nonces.remove(&sender);
            }
        }
        Some(entry.received)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::transfer;
    use corniche_state::EmptyState;

    #[test]
    fn executed_transaction_is_removed_alone() {
        let pool_view = PoolView::default();
        let [first, second] = [transfer(0, 1), transfer(1, 1)];
        let sender = first.sender();
        for transaction in [&first, &second] {
            pool_view.pending(transaction.clone(), TimestampMs(1));
        }
        pool_view.ordered([first.hash()]);
        assert_eq!(pool_view.status(&first.hash()), Some(TransactionStatus::Ordered));
        assert_eq!(pool_view.status(&second.hash()), Some(TransactionStatus::Pending));
        assert_eq!(pool_view.pending_nonce(&sender, &EmptyState), 2);
        pool_view.executed(&[first.hash()]);
        assert_eq!((pool_view.len(), pool_view.status(&first.hash())), (1, None));
        assert!(pool_view.transaction(&first.hash()).is_none() && pool_view.transaction(&second.hash()).is_some());
        pool_view.executed(&[first.hash(), second.hash()]);
        assert_eq!(pool_view.len(), 0);
        assert_eq!(pool_view.pending_nonce(&sender, &EmptyState), 0, "the nonces it held are free");
    }

    /// Hashing a full block takes 15 ms, and threads that verify messages wait for the lock.
    #[test]
    fn hashes_are_made_without_lock() {
        let pool_view = PoolView::default();
        pool_view.ordered(std::iter::from_fn(|| panic!("there is nothing to mark")));
        let pooled: Vec<_> = (0..CHUNK as u64 + 1).map(|nonce| transfer(nonce, 1)).collect();
        pooled.iter().for_each(|transaction| pool_view.pending(transaction.clone(), TimestampMs(1)));
        let hash = |transaction: &VerifiedTransaction| {
            assert!(pool_view.inner.try_lock().is_ok());
            transaction.hash()
        };
        pool_view.ordered(pooled.iter().map(hash));
        let status = |transaction: &VerifiedTransaction| pool_view.status(&transaction.hash());
        assert!(pooled.iter().all(|transaction| status(transaction) == Some(TransactionStatus::Ordered)));
    }

    #[test]
    fn arrival_times_survive_revert() {
        let pool_view = PoolView::default();
        let [executed, waiting, dropped] = [transfer(0, 1), transfer(1, 1), transfer(2, 1)];
        let arrived = |ms| TransactionTimes { received_ms: Some(ms), ..TransactionTimes::default() };
        for (transaction, ms) in [(&executed, 1), (&waiting, 2), (&dropped, 3)] {
            pool_view.pending(transaction.clone(), TimestampMs(ms));
        }
        pool_view.executed(&[executed.hash(), B256::ZERO]);
        pool_view.dropped(dropped.hash(), TransactionStatus::Dropped { reason: "nonce too low".into() }, TimestampMs(4));
        assert_eq!((pool_view.times(&executed.hash()), pool_view.times(&waiting.hash())), (arrived(1), arrived(2)));
        let hashes = [&executed, &waiting, &dropped].map(VerifiedTransaction::hash);
        let [known, unknown] = [pool_view.received_of(&hashes), pool_view.received_of(&[B256::ZERO])];
        assert_eq!(known.chunks(8).map(|each| each[7]).collect::<Vec<_>>(), [1, 2, 3], "{known:?}");
        assert_eq!(unknown.to_vec(), [0; 8]);
        pool_view.clear();
        assert_eq!(
            (pool_view.times(&executed.hash()), pool_view.times(&B256::ZERO)),
            (arrived(1), TransactionTimes::default())
        );
        assert!([&waiting, &dropped].iter().all(|left| pool_view.times(&left.hash()) == TransactionTimes::default()));
        // It arrives again, for the block in place of the reverted one.
        pool_view.pending(executed.clone(), TimestampMs(9));
        assert_eq!(pool_view.times(&executed.hash()), arrived(9));
        pool_view.executed(&[executed.hash()]);
        assert_eq!(pool_view.times(&executed.hash()), arrived(9));
    }

    #[test]
    fn pool_is_read_by_sender_and_nonce() {
        let pool_view = PoolView::default();
        for nonce in (0..3 * CHUNK as u64).rev() {
            pool_view.pending(transfer(nonce, 1), TimestampMs(1));
        }
        let sender = transfer(0, 1).sender();
        let nonces: Vec<_> = pool_view.all().iter().map(|transaction| transaction.transaction().nonce()).collect();
        assert_eq!(nonces, (0..3 * CHUNK as u64).collect::<Vec<_>>());
        assert_eq!(pool_view.of_sender(&sender).len(), nonces.len());
        assert!(pool_view.of_sender(&Address::ZERO).is_empty());
        let raw = |nonce| transfer(nonce, 1).transaction().raw().clone();
        assert_eq!(pool_view.by_arrival(), (0..3 * CHUNK as u64).rev().map(raw).collect::<Vec<_>>());
    }

    #[test]
    fn replacement_outlives_replaced_transaction() {
        let pool_view = PoolView::default();
        let [old, new] = [transfer(0, 1), transfer(0, 2)];
        pool_view.pending(old.clone(), TimestampMs(1));
        pool_view.pending(new.clone(), TimestampMs(2));
        pool_view.dropped(old.hash(), TransactionStatus::Replaced { by: new.hash() }, TimestampMs(3));
        let times = |received, left| TransactionTimes { received_ms: Some(received), left_ms: left, ordered_ms: None };
        assert_eq!((pool_view.times(&old.hash()), pool_view.times(&new.hash())), (times(1, Some(3)), times(2, None)));
        assert_eq!(pool_view.times(&B256::ZERO), TransactionTimes::default());
        assert_eq!(pool_view.status(&old.hash()), Some(TransactionStatus::Replaced { by: new.hash() }));
        assert_eq!(pool_view.status(&new.hash()), Some(TransactionStatus::Pending));
        assert_eq!(pool_view.pending_nonce(&new.sender(), &EmptyState), 1);
    }
}
