//! The pool: who waits, in which order they go, and who leaves when there is no room. What it is asked is answered here; how
//! transactions come in, go out in batches and are kept up with the state is in the modules below.

mod cutting;
mod keeping;
mod taking;
mod telling;

pub use telling::Waited;

use crate::{
    Event, Refusal, Standing, TURN_MS, batch,
    order::{CutKey, Cutting, EvictKey},
    sender::{Entry, SenderQueue},
};
use corniche_crypto::VerifiedTransaction;
use corniche_engine::Batch;
use corniche_state::StateView;
use corniche_types::{Address, B256, Genesis, TimestampMs, keccak256};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Senders whose account is looked at again with every block, besides the ones the block names.
const SWEEP_PER_BLOCK: usize = 64;
/// Without blocks, one sender is looked at again with every so many admissions.
const ADMISSIONS_PER_SWEEP: u64 = 16;
/// Memory of a pooled transaction besides its bytes, roughly.
const ENTRY_BYTES: usize = 1024;

/// The pool's bounds. Local matters, but for the gas limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// Most gas one transaction may declare: what fits into a batch.
    pub gas_limit: u64,
    pub max_transactions: usize,
    /// Sum of raw bytes and about 1 KiB for each transaction.
    pub max_bytes: usize,
    pub max_per_sender: usize,
    /// How far a nonce may be ahead of the account's.
    pub max_nonces_ahead: u64,
    /// A transaction behind a gap leaves after this long, when next looked at.
    pub queued_lifetime_ms: u64,
}

impl PoolConfig {
    pub fn from_genesis(genesis: &Genesis) -> Self {
        Self {
            gas_limit: genesis.batch_gas.min(genesis.block_gas_limit),
            max_transactions: 32_768,
            max_bytes: 256 << 20,
            max_per_sender: 1_024,
            max_nonces_ahead: 4_096,
            queued_lifetime_ms: 3 * 3_600 * 1_000,
        }
    }
}

/// What the indices hold about a sender, to be taken out before anything about it changes.
#[derive(Clone, Copy, Debug, Default)]
struct Indexed {
    cut: Option<CutKey>,
    evict: Option<EvictKey>,
    held: Option<(TimestampMs, Address)>,
    turn: Option<(TimestampMs, Address)>,
    ready: usize,
}

/// See the crate documentation.
pub struct Pool {
    config: PoolConfig,
    /// Never holds an empty queue between calls.
    senders: BTreeMap<Address, SenderQueue>,
    by_hash: BTreeMap<B256, (Address, u64)>,
    indexed: BTreeMap<Address, Indexed>,
    /// The next waiting transaction of each sender that has a ready one that pays the base fee and may be proposed here.
    cut_order: BTreeSet<CutKey>,
    /// Senders whose next transaction others are to propose first, by when this node may.
    held: BTreeSet<(TimestampMs, Address)>,
    /// Senders of whom another validator is told when the time has come.
    turns: BTreeSet<(TimestampMs, Address)>,
    /// The last transaction of each sender, unless it is in flight.
    evict_order: BTreeSet<EvictKey>,
    /// Senders whose next transaction is not covered while others are in flight; looked at again with the next block.
    parked: BTreeSet<Address>,
    bytes: usize,
    ready: usize,
    base_fee: u64,
    /// Blocks seen; the measure of how long something is in flight.
    blocks: u64,
    now: TimestampMs,
    turn_ms: u64,
    next_arrival: u64,
    /// The last sender that a sweep looked at.
    sweep_cursor: Address,
    events: VecDeque<Event>,
}

impl Pool {
    pub fn new(config: PoolConfig) -> Self {
        Self {
            config,
            senders: BTreeMap::new(),
            by_hash: BTreeMap::new(),
            indexed: BTreeMap::new(),
            cut_order: BTreeSet::new(),
            held: BTreeSet::new(),
            turns: BTreeSet::new(),
            evict_order: BTreeSet::new(),
            parked: BTreeSet::new(),
            bytes: 0,
            ready: 0,
            base_fee: 0,
            blocks: 0,
            now: TimestampMs(0),
            turn_ms: TURN_MS,
            next_arrival: 0,
            sweep_cursor: Address::ZERO,
            events: VecDeque::new(),
        }
    }

    /// Takes a transaction that is to be proposed here at once, or says why not.
    pub fn admit(
        &mut self,
        transaction: VerifiedTransaction,
        view: &dyn StateView,
        base_fee: u64,
        now: TimestampMs,
    ) -> Result<(), Refusal> {
        self.admit_as(transaction, Standing::ALONE, view, base_fee, now)
    }

    /// Takes a transaction with which this node has that to do, or says why not. Of one that it has, it learns the standing.
    pub fn admit_as(
        &mut self,
        transaction: VerifiedTransaction,
        standing: Standing,
        view: &dyn StateView,
        base_fee: u64,
        now: TimestampMs,
    ) -> Result<(), Refusal> {
        self.tick(now);
        self.set_base_fee(base_fee);
        self.sweep(usize::from(self.next_arrival.is_multiple_of(ADMISSIONS_PER_SWEEP)), view);
        let hash = transaction.hash();
        if let Some((sender, nonce)) = self.by_hash.get(&hash).copied() {
            self.learn(sender, nonce, standing);
            return Err(Refusal::AlreadyKnown { hash });
        }
        self.check_itself(&transaction)?;
        let max_fee = transaction.max_fee_per_gas();
        if max_fee < u128::from(base_fee) {
            return Err(Refusal::FeeTooLow { sender: transaction.sender(), max_fee, base_fee });
        }
        self.insert(transaction, standing, view)
    }

    /// Fills a batch with at most this many bytes and this much declared gas; `None` when nothing is ready.
    pub fn cut(&mut self, bytes: u32, gas: u64, view: &dyn StateView, base_fee: u64) -> Option<Batch> {
        self.set_base_fee(base_fee);
        let mut cutting = Cutting::new(bytes, gas);
        while let Some(key) = self.next_to_cut(&mut cutting) {
            let is_current = cutting.spendable.contains_key(&key.sender);
            if !is_current {
                // The queue may be older than the state: bring it up to date, and it takes its place in the order again.
                let account = view.account(&key.sender).unwrap_or_default();
                self.refresh(key.sender, &account);
                self.reindex(key.sender);
                let in_flight = self.senders.get(&key.sender).map(SenderQueue::cost_in_flight).unwrap_or_default();
                cutting.spendable.insert(key.sender, account.balance.saturating_sub(in_flight));
            } else if !self.cut_one(key, &mut cutting) {
                break;
            }
        }
        for sender in cutting.spendable.into_keys() {
            self.reindex(sender);
        }
        let bytes = batch::encode(&cutting.raw).expect("invariant: what no batch can carry is not admitted");
        (!cutting.raw.is_empty()).then_some(Batch { bytes })
    }

    /// A batch will never be ordered: its transactions wait again, in the place they had.
    pub fn requeue(&mut self, batch: Batch) {
        for raw in batch::decode(&batch.bytes) {
            if let Some((sender, nonce)) = self.by_hash.get(&keccak256(&raw)).copied() {
                self.wait_again(sender, nonce);
                self.reindex(sender);
            }
        }
    }

    /// Nothing that was cut so far will be ordered as far as we know: the engine that had it is gone.
    pub fn requeue_all(&mut self) {
        let senders: Vec<Address> = self.senders.keys().copied().collect();
        for sender in senders {
            let queue = self.senders.get_mut(&sender).expect("listed above");
            queue.all_wait_again();
            self.parked.remove(&sender);
            self.reindex(sender);
        }
    }

    /// A block is visible: `view` is the state after it, `executed` the hashes of its transactions and who sent them,
    /// `returned` what it skipped of our own batches and may become valid.
    pub fn on_block(
        &mut self,
        view: &dyn StateView,
        base_fee: u64,
        executed: &[(B256, Address)],
        returned: &[VerifiedTransaction],
    ) {
        self.blocks += 1;
        self.set_base_fee(base_fee);
        let mut touched = std::mem::take(&mut self.parked);
        for (hash, sender) in executed {
            if let Some((sender, nonce)) = self.by_hash.get(hash).copied() {
                self.remove(sender, nonce);
            }
            // What is here of the sender may follow on something that never was.
            if self.senders.contains_key(sender) {
                touched.insert(*sender);
            }
        }
        for transaction in returned {
            match self.by_hash.get(&transaction.hash()).copied() {
                Some((sender, nonce)) => {
                    self.wait_again(sender, nonce);
                    touched.insert(sender);
                }
                None => self.take_back(transaction.clone(), view),
            }
        }
        for sender in touched {
            self.refresh(sender, &view.account(&sender).unwrap_or_default());
            self.reindex(sender);
        }
        self.sweep(SWEEP_PER_BLOCK, view);
    }

    /// The nonce that the next transaction of `address` should have, ready ones counted.
    pub fn pending_nonce(&self, address: &Address, view: &dyn StateView) -> u64 {
        let nonce = view.account(address).unwrap_or_default().nonce;
        let Some(queue) = self.senders.get(address) else { return nonce };
        (nonce..=u64::MAX).find(|nonce| !queue.entries().contains_key(nonce)).unwrap_or(nonce)
    }

    pub fn get(&self, hash: &B256) -> Option<&VerifiedTransaction> {
        let (sender, nonce) = self.by_hash.get(hash)?;
        Some(&self.senders.get(sender)?.entries().get(nonce)?.transaction)
    }

    /// Transactions whose nonces continue their account's, those in flight included.
    pub fn ready_len(&self) -> usize {
        self.ready
    }

    /// Transactions behind a gap.
    pub fn queued_len(&self) -> usize {
        self.by_hash.len() - self.ready
    }

    /// What left the pool since the last call without being executed.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.events.drain(..).collect()
    }
}

impl Entry {
    fn size(&self) -> usize {
        entry_bytes(&self.transaction)
    }
}

fn entry_bytes(transaction: &VerifiedTransaction) -> usize {
    transaction.transaction().raw().len() + ENTRY_BYTES
}

#[cfg(test)]
impl Pool {
    /// Everything kept twice says the same twice, and every bound holds.
    pub(crate) fn assert_consistent(&mut self) {
        let (indexed, cut, evict) = (self.indexed.len(), self.cut_order.clone(), self.evict_order.clone());
        let (ready, parked, times) = (self.ready, self.parked.clone(), (self.held.clone(), self.turns.clone()));
        assert_eq!(indexed, self.senders.len(), "one index entry a sender");
        let entries =
            || self.senders.iter().flat_map(|(sender, queue)| queue.entries().iter().map(move |e| (*sender, *e.0, e.1)));
        assert_eq!(self.by_hash.len(), entries().count());
        for (sender, nonce, entry) in entries() {
            assert_eq!(self.by_hash.get(&entry.transaction.hash()), Some(&(sender, nonce)));
            assert_eq!((entry.transaction.sender(), entry.transaction.nonce()), (sender, nonce));
        }
        assert_eq!(self.bytes, entries().map(|(_, _, entry)| entry.size()).sum::<usize>());
        assert!(self.by_hash.len() <= self.config.max_transactions, "too many");
        assert!(self.bytes <= self.config.max_bytes, "too large");
        assert!(parked.iter().all(|sender| self.senders.contains_key(sender)));
        for queue in self.senders.values() {
            assert!(!queue.entries().is_empty() && queue.entries().len() <= self.config.max_per_sender);
            assert!(queue.entries().keys().all(|&nonce| nonce >= queue.nonce()));
            queue.assert_consistent();
        }
        for sender in self.senders.keys().copied().collect::<Vec<_>>() {
            self.reindex(sender);
        }
        assert_eq!((&self.cut_order, &self.evict_order, self.ready), (&cut, &evict, ready), "an index was stale");
        assert_eq!((&self.held, &self.turns), (&times.0, &times.1), "a time was stale");
    }

    /// Transactions that are cut and not yet back.
    pub(crate) fn in_flight(&self) -> Vec<&VerifiedTransaction> {
        let entries = self.senders.values().flat_map(|queue| queue.entries().values());
        entries.filter(|entry| !entry.waits()).map(|entry| &entry.transaction).collect()
    }
}
