//! Pool of transactions: contents, order, and eviction. This file has the public methods; adding
//! transactions, cutting batches and following the state are in the submodules.

mod cutting;
mod insertion;
mod maintenance;
mod turns;

pub use turns::WaitingTime;

use crate::{
    Event, Refusal, Responsibility, TURN_MS, batch,
    order::{BatchBuilder, CutEntry, CutOrder, EvictEntry, EvictionOrder},
    sender::{Entry, SenderQueue},
};
use corniche_crypto::VerifiedTransaction;
use corniche_engine::Batch;
use corniche_state::StateView;
use corniche_types::{Address, B256, Genesis, TimestampMs, keccak256};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Number of senders whose account is checked again with every block, besides those in the block.
const SWEEP_PER_BLOCK: usize = 64;
/// Number of admissions after which one more sender is checked again; keeps the pool current without blocks.
const ADMISSIONS_PER_SWEEP: u64 = 16;
/// Approximate memory of a pooled transaction besides its bytes.
const ENTRY_BYTES: usize = 1024;

/// Limits of the pool. All but the gas limit are local settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// Maximum gas that one transaction may declare: the gas limit of a batch.
    pub gas_limit: u64,
    pub max_transactions: usize,
    /// Maximum of the raw bytes plus about 1 KiB per transaction.
    pub max_bytes: usize,
    pub max_per_sender: usize,
    /// Maximum distance of a nonce from the account's.
    pub max_nonces_ahead: u64,
    /// Time after which a transaction behind a gap leaves, at its sender's next check.
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

/// Index entries of a sender, to be removed before anything about it changes.
#[derive(Clone, Copy, Debug, Default)]
struct Indexed {
    cut: Option<CutEntry>,
    borders: Option<[u128; 2]>,
    evict: Option<EvictEntry>,
    held: Option<(TimestampMs, Address)>,
    turn: Option<(TimestampMs, Address)>,
    ready: usize,
}

/// See the crate documentation.
pub struct Pool {
    config: PoolConfig,
    /// Contains no empty queue between calls.
    senders: BTreeMap<Address, SenderQueue>,
    by_hash: BTreeMap<B256, (Address, u64)>,
    indexed: BTreeMap<Address, Indexed>,
    /// Next waiting transaction of each sender, if it is ready, pays the base fee and may be proposed here.
    cut_order: CutOrder,
    /// Borders ([`Fees::borders`](crate::sender::Fees::borders)) of the next waiting transaction of each sender, if it is
    /// ready.
    fee_borders: BTreeSet<(u128, Address)>,
    /// Senders whose next transaction others should propose first, by the time at which this node may.
    held: BTreeSet<(TimestampMs, Address)>,
    /// Senders whose transactions go to a further validator, by the time when they do.
    turns: BTreeSet<(TimestampMs, Address)>,
    /// Last transaction of each sender, unless it is in flight.
    evict_order: EvictionOrder,
    /// Senders whose balance does not cover their next transaction while others are in flight; checked again
    /// with the next block.
    parked: BTreeSet<Address>,
    bytes: usize,
    ready: usize,
    base_fee: u64,
    /// Number of blocks so far; measures how long a transaction is in flight.
    blocks: u64,
    now: TimestampMs,
    turn_ms: u64,
    next_arrival: u64,
    /// Sender where the last sweep ended.
    sweep_cursor: Address,
    events: VecDeque<Event>,
    /// Number of updates of a sender's index entries.
    #[cfg(test)]
    pub(crate) reindexed: usize,
}

impl Pool {
    pub fn new(config: PoolConfig) -> Self {
        Self {
            config,
            senders: BTreeMap::new(),
            by_hash: BTreeMap::new(),
            indexed: BTreeMap::new(),
            cut_order: CutOrder::default(),
            fee_borders: BTreeSet::new(),
            held: BTreeSet::new(),
            turns: BTreeSet::new(),
            evict_order: EvictionOrder::default(),
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
            #[cfg(test)]
            reindexed: 0,
        }
    }

    /// Adds a transaction that may be proposed here at once.
    pub fn admit(
        &mut self,
        transaction: VerifiedTransaction,
        view: &dyn StateView,
        base_fee: u64,
        now: TimestampMs,
    ) -> Result<(), Refusal> {
        self.admit_as(transaction, Responsibility::ALONE, view, base_fee, now)
    }

    /// Adds a transaction with this standing. If it is already pooled, updates its standing and returns
    /// `AlreadyKnown`.
    pub fn admit_as(
        &mut self,
        transaction: VerifiedTransaction,
        responsibility: Responsibility,
        view: &dyn StateView,
        base_fee: u64,
        now: TimestampMs,
    ) -> Result<(), Refusal> {
        self.tick(now);
        self.set_base_fee(base_fee);
        self.sweep(usize::from(self.next_arrival.is_multiple_of(ADMISSIONS_PER_SWEEP)), view);
        let hash = transaction.hash();
        if let Some((sender, nonce)) = self.by_hash.get(&hash).copied() {
            self.add_responsibility(sender, nonce, responsibility);
            return Err(Refusal::AlreadyKnown { hash });
        }
        self.check_stateless(&transaction)?;
        let max_fee = transaction.max_fee_per_gas();
        if max_fee < u128::from(base_fee) {
            return Err(Refusal::FeeTooLow { sender: transaction.sender(), max_fee, base_fee });
        }
        self.insert(transaction, responsibility, view)
    }

    /// Fills a batch with at most this many bytes and this much declared gas; `None` if nothing is ready.
    pub fn cut(&mut self, bytes: u32, gas: u64, view: &dyn StateView, base_fee: u64) -> Option<Batch> {
        self.set_base_fee(base_fee);
        let mut builder = BatchBuilder::new(bytes, gas);
        while let Some(key) = self.next_to_cut(&mut builder) {
            let is_current = builder.spendable.contains_key(&key.sender);
            if !is_current {
                // The queue may be older than the state: update it, which puts the sender back into the
                // order.
                let account = view.account(&key.sender).unwrap_or_default();
                self.refresh(key.sender, &account);
                self.reindex(key.sender);
                let in_flight = self.senders.get(&key.sender).map(SenderQueue::cost_in_flight).unwrap_or_default();
                builder.spendable.insert(key.sender, account.balance.saturating_sub(in_flight));
            } else if !self.cut_one(key, &mut builder) {
                break;
            }
        }
        for sender in builder.spendable.into_keys() {
            self.reindex(sender);
        }
        let bytes = batch::encode(&builder.raw).expect("invariant: what no batch can carry is not admitted");
        (!builder.raw.is_empty()).then_some(Batch { bytes })
    }

    /// Returns the transactions of a batch that will never be ordered to their place in the pool.
    pub fn requeue(&mut self, batch: Batch) {
        for raw in batch::decode(&batch.bytes) {
            if let Some((sender, nonce)) = self.by_hash.get(&keccak256(&raw)).copied() {
                self.requeue_entry(sender, nonce);
                self.reindex(sender);
            }
        }
    }

    /// Returns all transactions in flight to the pool: their engine no longer exists.
    pub fn requeue_all(&mut self) {
        let senders: Vec<Address> = self.senders.keys().copied().collect();
        for sender in senders {
            let queue = self.senders.get_mut(&sender).expect("listed above");
            queue.requeue_entries();
            self.parked.remove(&sender);
            self.reindex(sender);
        }
    }

    /// Updates the pool after a visible block. `view` is the state after it. `executed` has the hashes and
    /// senders of its transactions. `returned` has skipped transactions of our own batches that may become
    /// valid.
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
            // Pooled transactions may now be ready, even if this one was never pooled here.
            if self.senders.contains_key(sender) {
                touched.insert(*sender);
            }
        }
        for transaction in returned {
            match self.by_hash.get(&transaction.hash()).copied() {
                Some((sender, nonce)) => {
                    self.requeue_entry(sender, nonce);
                    touched.insert(sender);
                }
                None => self.readmit(transaction.clone(), view),
            }
        }
        for sender in touched {
            self.refresh(sender, &view.account(&sender).unwrap_or_default());
            self.reindex(sender);
        }
        self.sweep(SWEEP_PER_BLOCK, view);
    }

    /// Next nonce of `address`, with ready transactions counted.
    pub fn pending_nonce(&self, address: &Address, view: &dyn StateView) -> u64 {
        let nonce = view.account(address).unwrap_or_default().nonce;
        let Some(queue) = self.senders.get(address) else { return nonce };
        (nonce..=u64::MAX).find(|nonce| !queue.entries().contains_key(nonce)).unwrap_or(nonce)
    }

    /// Transactions of one sender or of all, sorted by sender and nonce.
    pub fn transactions(&self, sender: Option<&Address>) -> Vec<VerifiedTransaction> {
        let of = |queue: &SenderQueue| queue.entries().values().map(|entry| entry.transaction.clone()).collect::<Vec<_>>();
        match sender {
            Some(sender) => self.senders.get(sender).map(of).unwrap_or_default(),
            None => self.senders.values().flat_map(of).collect(),
        }
    }

    pub fn get(&self, hash: &B256) -> Option<&VerifiedTransaction> {
        let (sender, nonce) = self.by_hash.get(hash)?;
        Some(&self.senders.get(sender)?.entries().get(nonce)?.transaction)
    }

    /// Number of transactions that continue their account's nonce, including those in flight.
    pub fn ready_len(&self) -> usize {
        self.ready
    }

    /// Number of transactions behind a gap.
    pub fn queued_len(&self) -> usize {
        self.by_hash.len() - self.ready
    }

    /// Events since the last call.
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
    /// Checks that all indices agree and that all limits hold.
    pub(crate) fn assert_consistent(&mut self) {
        let (indexed, cut, evict) = (self.indexed.len(), self.cut_order.clone(), self.evict_order.clone());
        let (ready, parked, borders) = (self.ready, self.parked.clone(), self.fee_borders.clone());
        let times = (self.held.clone(), self.turns.clone());
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
        self.assert_orders();
        for sender in self.senders.keys().copied().collect::<Vec<_>>() {
            self.reindex(sender);
        }
        assert_eq!((&self.cut_order, &self.evict_order, self.ready), (&cut, &evict, ready), "an index was stale");
        assert_eq!(self.fee_borders, borders, "a border was stale");
        assert_eq!((&self.held, &self.turns), (&times.0, &times.1), "a time was stale");
    }

    /// Checks the orders against those computed from all tips at the current base fee.
    fn assert_orders(&self) {
        use crate::order::{CutKey, EvictKey, EvictionValue};
        use std::cmp::Reverse;
        let (mut cut, mut evict) = (BTreeSet::new(), BTreeSet::new());
        for (&sender, queue) in &self.senders {
            let tip = |entry: &Entry| entry.fees().tip(self.base_fee);
            let next = queue.next_waiting(queue.nonce()).filter(|_| !self.parked.contains(&sender));
            let next = next.filter(|entry| queue.due(entry, self.turn_ms).is_some_and(|due| due <= self.now));
            cut.extend(next.and_then(|entry| CutKey::of(sender, entry, self.base_fee)));
            let waiting = queue.entries().values().filter(|entry| entry.is_waiting());
            evict.extend(queue.tail().zip(waiting.map(tip).min()).map(|(tail, tip)| EvictKey {
                value: EvictionValue { ready: queue.ready_len() == queue.entries().len(), tip },
                arrival: Reverse(tail.arrival),
                sender,
            }));
        }
        assert!(self.cut_order.iter(self.base_fee).eq(cut), "another order of cutting");
        assert!(self.evict_order.iter(self.base_fee).eq(evict), "another order of eviction");
    }

    /// Transactions in flight.
    pub(crate) fn in_flight(&self) -> Vec<&VerifiedTransaction> {
        let entries = self.senders.values().flat_map(|queue| queue.entries().values());
        entries.filter(|entry| !entry.is_waiting()).map(|entry| &entry.transaction).collect()
    }
}
