//! The pool: who waits, in which order they go, and who leaves when there is no room.

use crate::{
    DropReason, Event, Refusal, batch,
    order::{CutKey, Cutting, EvictKey, Worth},
    sender::{Entry, SenderQueue, tip},
};
use corniche_crypto::VerifiedTransaction;
use corniche_engine::Batch;
use corniche_state::{Account, StateView};
use corniche_types::{Address, B256, Genesis, TimestampMs, U256, intrinsic::MAX_INIT_CODE_BYTES, intrinsic_gas, keccak256};
use std::{
    cell::OnceCell,
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, VecDeque},
};

/// A transaction that was cut this many blocks ago and neither executed nor returned waits again: its batch was lost.
const IN_FLIGHT_BLOCKS: u64 = 256;
/// A transaction whose batches were lost so many times is dropped.
const MOST_LOST: u32 = 3;
/// Senders whose account is looked at again with every block, besides the ones the block names.
const SWEEP_PER_BLOCK: usize = 64;
/// Without blocks, one sender is looked at again with every so many admissions.
const ADMISSIONS_PER_SWEEP: u64 = 16;
/// Most transactions evicted for the sake of one.
const MOST_VICTIMS: usize = 64;
/// Senders passed over in one cut because their next transaction did not fit.
const MOST_MISFITS: usize = 32;
/// A replacement raises both fees by at least one part in so many.
const REPLACEMENT_PART: u128 = 10;
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
    ready: usize,
}

/// See the crate documentation.
pub struct Pool {
    config: PoolConfig,
    /// Never holds an empty queue between calls.
    senders: BTreeMap<Address, SenderQueue>,
    by_hash: BTreeMap<B256, (Address, u64)>,
    indexed: BTreeMap<Address, Indexed>,
    /// The next waiting transaction of each sender that has a ready one that pays the base fee.
    cut_order: BTreeSet<CutKey>,
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
            evict_order: BTreeSet::new(),
            parked: BTreeSet::new(),
            bytes: 0,
            ready: 0,
            base_fee: 0,
            blocks: 0,
            now: TimestampMs(0),
            next_arrival: 0,
            sweep_cursor: Address::ZERO,
            events: VecDeque::new(),
        }
    }

    /// Takes a transaction or says why not.
    pub fn admit(
        &mut self,
        transaction: VerifiedTransaction,
        view: &dyn StateView,
        base_fee: u64,
        now: TimestampMs,
    ) -> Result<(), Refusal> {
        self.now = self.now.max(now);
        self.set_base_fee(base_fee);
        self.sweep(usize::from(self.next_arrival.is_multiple_of(ADMISSIONS_PER_SWEEP)), view);
        let hash = transaction.hash();
        if self.by_hash.contains_key(&hash) {
            return Err(Refusal::AlreadyKnown { hash });
        }
        self.check_itself(&transaction)?;
        let max_fee = transaction.max_fee_per_gas();
        if max_fee < u128::from(base_fee) {
            return Err(Refusal::FeeTooLow { sender: transaction.sender(), max_fee, base_fee });
        }
        self.insert(transaction, view)
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
        (!cutting.raw.is_empty()).then(|| Batch { bytes: batch::encode(&cutting.raw) })
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

    /// A block is visible: `view` is the state after it, `executed` the hashes of its transactions, `returned` what it skipped
    /// of our own batches and may become valid.
    pub fn on_block(&mut self, view: &dyn StateView, base_fee: u64, executed: &[B256], returned: &[VerifiedTransaction]) {
        self.blocks += 1;
        self.set_base_fee(base_fee);
        let mut touched = std::mem::take(&mut self.parked);
        for (sender, nonce) in executed.iter().filter_map(|hash| self.by_hash.get(hash).copied()).collect::<Vec<_>>() {
            self.remove(sender, nonce);
            touched.insert(sender);
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

    /// At most `most` transactions that could be proposed now, each sender's in nonce order, the best sender first.
    pub fn waiting(&self, most: usize) -> Vec<VerifiedTransaction> {
        let queues = self.cut_order.iter().filter_map(|key| self.senders.get(&key.sender));
        let ready = queues.flat_map(|queue| queue.ready()).filter(|entry| entry.waits());
        ready.take(most).map(|entry| entry.transaction.clone()).collect()
    }

    /// What left the pool since the last call without being executed.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.events.drain(..).collect()
    }

    // ---- taking in ----------------------------------------------------------------------------------------------------

    /// What can be said without state: never valid on this chain.
    fn check_itself(&self, transaction: &VerifiedTransaction) -> Result<(), Refusal> {
        let (gas, limit) = (transaction.gas_limit(), self.config.gas_limit);
        if gas > limit {
            return Err(Refusal::GasLimit { gas, limit });
        }
        let (tip, max_fee) = (transaction.max_priority_fee_per_gas(), transaction.max_fee_per_gas());
        if tip > max_fee {
            return Err(Refusal::TipAboveFee { tip, max_fee });
        }
        let creation = transaction.kind().is_create();
        let (size, limit) = (transaction.input().len(), MAX_INIT_CODE_BYTES);
        if creation && size > limit {
            return Err(Refusal::InitCodeSize { size, limit });
        }
        let needed = intrinsic_gas(creation, transaction.input(), &transaction.access_list());
        if gas < needed {
            return Err(Refusal::IntrinsicGas { gas, needed });
        }
        if transaction.nonce() == u64::MAX {
            return Err(Refusal::NonceMax { sender: transaction.sender(), nonce: transaction.nonce() });
        }
        Ok(())
    }

    /// The checks that need state and pool, then a place, for one that is not in the pool. Nothing changes when it is refused, besides what is stale.
    fn insert(&mut self, transaction: VerifiedTransaction, view: &dyn StateView) -> Result<(), Refusal> {
        let (hash, sender, nonce) = (transaction.hash(), transaction.sender(), transaction.nonce());
        let account = view.account(&sender).unwrap_or_default();
        if !self.is_fresh(&sender, &account) {
            self.refresh(sender, &account);
        }
        let cost = self.check_account(&transaction, &account)?;
        let replaced = self.check_replacement(&transaction)?;
        self.check_funds(&transaction, cost, &account)?;
        let own_tail = self.own_tail_to_drop(sender, nonce, replaced.is_some())?;
        let victims = self.victims(&transaction, &account, replaced, own_tail)?;

        for (victim, nonce) in victims {
            self.drop_entry(victim, nonce, DropReason::Evicted);
            self.reindex(victim);
        }
        if let Some(tail) = own_tail {
            self.drop_entry(sender, tail, DropReason::AccountLimit);
        }
        if let Some(replaced) = replaced {
            self.remove(sender, nonce);
            self.events.push_back(Event::Replaced { hash: replaced, by: hash });
        }
        self.bytes += entry_bytes(&transaction);
        self.by_hash.insert(hash, (sender, nonce));
        let (arrival, arrived_at) = (self.next_arrival, self.now);
        self.next_arrival += 1;
        let queue = self.senders.entry(sender).or_default();
        queue.set_nonce(account.nonce);
        queue.insert(nonce, Entry { transaction, arrival, arrived_at, cost, in_flight_since: None, lost: 0 });
        self.reindex(sender);
        Ok(())
    }

    /// Takes back what a block skipped, if the pool has forgotten it meanwhile.
    fn take_back(&mut self, transaction: VerifiedTransaction, view: &dyn StateView) {
        let hash = transaction.hash();
        let taken = self.check_itself(&transaction).and_then(|()| self.insert(transaction, view));
        if let Err(refusal) = taken {
            self.events.push_back(Event::Dropped { hash, reason: DropReason::Refused(refusal) });
        }
    }

    /// Checks nonce, code and balance; returns the cost.
    fn check_account(&self, transaction: &VerifiedTransaction, account: &Account) -> Result<U256, Refusal> {
        let (sender, nonce, next) = (transaction.sender(), transaction.nonce(), account.nonce);
        if nonce < next {
            return Err(Refusal::NonceTooLow { next, nonce });
        }
        let limit = self.config.max_nonces_ahead;
        if nonce - next > limit {
            return Err(Refusal::NonceTooHigh { next, nonce, limit });
        }
        if account.has_code() {
            return Err(Refusal::SenderNotEoa { sender, code_hash: account.code_hash });
        }
        transaction.max_cost().ok_or(Refusal::CostOverflow)
    }

    /// All of a sender's pooled transactions together must be covered.
    fn check_funds(&self, transaction: &VerifiedTransaction, cost: U256, account: &Account) -> Result<(), Refusal> {
        let sender = transaction.sender();
        let others = self.senders.get(&sender).map(|queue| queue.cost_without(transaction.nonce())).unwrap_or_default();
        let want = cost.saturating_add(others);
        if want > account.balance {
            return Err(Refusal::InsufficientFunds { sender, have: account.balance, want });
        }
        Ok(())
    }

    /// The hash of the transaction that this one replaces, if it may.
    fn check_replacement(&self, transaction: &VerifiedTransaction) -> Result<Option<B256>, Refusal> {
        let nonce = transaction.nonce();
        let Some(old) = self.senders.get(&transaction.sender()).and_then(|queue| queue.entries().get(&nonce)) else {
            return Ok(None);
        };
        if !old.waits() {
            return Err(Refusal::BeingOrdered { nonce });
        }
        let needed_max_fee = raised(old.transaction.max_fee_per_gas());
        let needed_tip = raised(old.transaction.max_priority_fee_per_gas());
        if transaction.max_fee_per_gas() < needed_max_fee || transaction.max_priority_fee_per_gas() < needed_tip {
            return Err(Refusal::ReplacementUnderpriced { needed_max_fee, needed_tip });
        }
        Ok(Some(old.transaction.hash()))
    }

    /// A sender at its limit makes room with its own last transaction, for an earlier one only.
    fn own_tail_to_drop(&self, sender: Address, nonce: u64, replaces: bool) -> Result<Option<u64>, Refusal> {
        let limit = self.config.max_per_sender;
        let Some(queue) = self.senders.get(&sender).filter(|queue| !replaces && queue.entries().len() >= limit) else {
            return Ok(None);
        };
        let tail = queue.tail().map(|entry| entry.transaction.nonce()).filter(|&tail| tail > nonce);
        tail.map(Some).ok_or(Refusal::AccountLimit { limit })
    }

    /// Whom to evict so that this transaction has room: senders' last ones, each worth less than it.
    fn victims(
        &self,
        transaction: &VerifiedTransaction,
        account: &Account,
        replaced: Option<B256>,
        own_tail: Option<u64>,
    ) -> Result<Vec<(Address, u64)>, Refusal> {
        let sender = transaction.sender();
        let queue = self.senders.get(&sender);
        let size_of = |nonce: u64| queue.and_then(|queue| queue.entries().get(&nonce)).map_or(0, Entry::size);
        let freed_bytes = replaced.map_or(0, |_| size_of(transaction.nonce())) + own_tail.map_or(0, size_of);
        let freed = usize::from(replaced.is_some()) + usize::from(own_tail.is_some());
        let mut count = self.by_hash.len() + 1 - freed;
        let mut bytes = self.bytes + entry_bytes(transaction) - freed_bytes;
        let fits = |count: usize, bytes: usize| count <= self.config.max_transactions && bytes <= self.config.max_bytes;

        let next_nonce = queue.map_or(account.nonce, SenderQueue::next_nonce);
        let own_tip = tip(transaction, self.base_fee);
        let chain_tip = match queue.filter(|queue| queue.any_waits()) {
            Some(queue) => queue.lowest_tip(self.base_fee).min(own_tip),
            None => own_tip,
        };
        let worth = Worth { ready: transaction.nonce() <= next_nonce, tip: chain_tip };
        let mut victims = Vec::new();
        let mut cheaper = self.evict_order.iter().take_while(|key| key.worth < worth).filter(|key| key.sender != sender);
        while !fits(count, bytes) {
            let victim = cheaper.next().filter(|_| victims.len() < MOST_VICTIMS).ok_or(Refusal::PoolFull)?;
            let queue = self.senders.get(&victim.sender);
            let entry = queue.and_then(SenderQueue::tail).expect("invariant: only tails are in the order of eviction");
            count -= 1;
            bytes -= entry.size();
            victims.push((victim.sender, entry.transaction.nonce()));
        }
        Ok(victims)
    }

    // ---- cutting ------------------------------------------------------------------------------------------------------

    /// The best of the order and of what followed on transactions already taken.
    fn next_to_cut(&mut self, cutting: &mut Cutting) -> Option<CutKey> {
        match (self.cut_order.first(), cutting.followers.first()) {
            (Some(first), Some(follower)) if follower < first => cutting.followers.pop_first(),
            (None, _) => cutting.followers.pop_first(),
            _ => self.cut_order.pop_first(),
        }
    }

    /// Puts one transaction into the batch, or its sender aside; false when no more should be tried.
    fn cut_one(&mut self, key: CutKey, cutting: &mut Cutting) -> bool {
        let queue = self.senders.get_mut(&key.sender).expect("invariant: only pooled transactions are in the order");
        let entry = queue.entries().get(&key.nonce).expect("invariant: only pooled transactions are in the order");
        let spendable = cutting.spendable.get_mut(&key.sender).expect("the caller looked at this sender");
        if entry.cost > *spendable {
            self.parked.insert(key.sender);
            return true;
        }
        let raw = entry.transaction.transaction().raw();
        let (bytes, gas) = (raw.len() + batch::ENTRY_OVERHEAD, entry.transaction.gas_limit());
        if bytes > cutting.bytes_left || gas > cutting.gas_left {
            // One that fits no batch of this size must not keep the others out.
            cutting.misfits += usize::from(bytes <= cutting.bytes && gas <= cutting.gas);
            return cutting.misfits < MOST_MISFITS;
        }
        cutting.bytes_left -= bytes;
        cutting.gas_left -= gas;
        *spendable -= entry.cost;
        cutting.raw.push(raw.clone());
        queue.depart(key.nonce, self.blocks);
        let follower = queue.next_waiting(key.nonce + 1).and_then(|entry| CutKey::of(key.sender, entry, self.base_fee));
        cutting.followers.extend(follower);
        true
    }

    // ---- keeping up ---------------------------------------------------------------------------------------------------

    /// Brings one sender's queue up to date with its account, and the indices if that changed anything.
    fn refresh(&mut self, sender: Address, account: &Account) {
        let Some(queue) = self.senders.get_mut(&sender) else { return };
        let mut changed = queue.set_nonce(account.nonce);
        changed |= self.blocks.checked_sub(IN_FLIGHT_BLOCKS).is_some_and(|cut_by| queue.give_up(cut_by));
        queue.fresh = Some((self.blocks, account.clone()));
        let leaving = self.leaving(&self.senders[&sender], account);
        changed |= !leaving.is_empty();
        for (nonce, reason) in leaving {
            self.drop_entry(sender, nonce, reason);
        }
        if changed {
            self.reindex(sender);
        }
    }

    /// Whether looking at this sender again would find nothing: same account, no block since, and nothing behind a gap, which
    /// only time takes out.
    fn is_fresh(&self, sender: &Address, account: &Account) -> bool {
        self.senders.get(sender).is_some_and(|queue| {
            let same = queue.fresh.as_ref().is_some_and(|(blocks, as_of)| *blocks == self.blocks && as_of == account);
            same && queue.ready_len() == queue.entries().len()
        })
    }

    /// Which of a sender's transactions have no place in the pool any more.
    fn leaving(&self, queue: &SenderQueue, account: &Account) -> Vec<(u64, DropReason)> {
        let next_nonce = OnceCell::new();
        let is_behind_gap = |nonce| nonce > *next_nonce.get_or_init(|| queue.next_nonce());
        let is_old = |entry: &Entry| self.now.0 >= entry.arrived_at.0.saturating_add(self.config.queued_lifetime_ms);
        let reason = |nonce: u64, entry: &Entry| match entry {
            _ if nonce < account.nonce => Some(DropReason::Superseded { nonce }),
            entry if !entry.waits() => None,
            _ if account.has_code() => Some(DropReason::SenderNotEoa),
            entry if entry.cost > account.balance => Some(DropReason::InsufficientFunds),
            entry if entry.lost >= MOST_LOST => Some(DropReason::Lost),
            entry if is_old(entry) && is_behind_gap(nonce) => Some(DropReason::Expired),
            _ => None,
        };
        queue.entries().iter().filter_map(|(&nonce, entry)| Some((nonce, reason(nonce, entry)?))).collect()
    }

    /// Looks at the accounts of the next few senders, in turn.
    fn sweep(&mut self, senders: usize, view: &dyn StateView) {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let after = self.senders.range((Excluded(self.sweep_cursor), Unbounded));
        let before = self.senders.range((Unbounded, Included(self.sweep_cursor)));
        let turn: Vec<Address> = after.chain(before).map(|(sender, _)| *sender).take(senders).collect();
        self.sweep_cursor = turn.last().copied().unwrap_or(self.sweep_cursor);
        for sender in turn {
            self.refresh(sender, &view.account(&sender).unwrap_or_default());
        }
    }

    fn wait_again(&mut self, sender: Address, nonce: u64) {
        self.parked.remove(&sender);
        if let Some(queue) = self.senders.get_mut(&sender) {
            queue.wait_again(nonce);
        }
    }

    fn drop_entry(&mut self, sender: Address, nonce: u64, reason: DropReason) {
        if let Some(entry) = self.remove(sender, nonce) {
            self.events.push_back(Event::Dropped { hash: entry.transaction.hash(), reason });
        }
    }

    /// Takes an entry out; the caller reindexes the sender.
    fn remove(&mut self, sender: Address, nonce: u64) -> Option<Entry> {
        let entry = self.senders.get_mut(&sender)?.remove(nonce)?;
        self.by_hash.remove(&entry.transaction.hash());
        self.bytes -= entry.size();
        Some(entry)
    }

    fn set_base_fee(&mut self, base_fee: u64) {
        if base_fee != self.base_fee {
            self.base_fee = base_fee;
            let senders: Vec<Address> = self.senders.keys().copied().collect();
            senders.into_iter().for_each(|sender| self.reindex(sender));
        }
    }

    /// Makes the indices say about this sender what its queue says.
    fn reindex(&mut self, sender: Address) {
        let old = self.indexed.remove(&sender).unwrap_or_default();
        old.cut.map(|key| self.cut_order.remove(&key));
        old.evict.map(|key| self.evict_order.remove(&key));
        self.ready -= old.ready;
        let Some(queue) = self.senders.get(&sender).filter(|queue| !queue.entries().is_empty()) else {
            self.senders.remove(&sender);
            self.parked.remove(&sender);
            return;
        };
        let next = queue.next_waiting(queue.nonce()).filter(|_| !self.parked.contains(&sender));
        let ready = queue.ready_len();
        let evict = queue.tail().map(|tail| EvictKey {
            worth: Worth { ready: ready == queue.entries().len(), tip: queue.lowest_tip(self.base_fee) },
            arrival: Reverse(tail.arrival),
            sender,
        });
        let new = Indexed { cut: next.and_then(|entry| CutKey::of(sender, entry, self.base_fee)), evict, ready };
        self.cut_order.extend(new.cut);
        self.evict_order.extend(new.evict);
        self.ready += new.ready;
        self.indexed.insert(sender, new);
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

/// At least a tenth more, and at least one wei.
fn raised(fee: u128) -> u128 {
    fee.saturating_add((fee / REPLACEMENT_PART + u128::from(!fee.is_multiple_of(REPLACEMENT_PART))).max(1))
}

#[cfg(test)]
impl Pool {
    /// Everything kept twice says the same twice, and every bound holds.
    pub(crate) fn assert_consistent(&mut self) {
        let (indexed, cut, evict) = (self.indexed.len(), self.cut_order.clone(), self.evict_order.clone());
        let (ready, parked) = (self.ready, self.parked.clone());
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
    }

    /// Transactions that are cut and not yet back.
    pub(crate) fn in_flight(&self) -> Vec<&VerifiedTransaction> {
        let entries = self.senders.values().flat_map(|queue| queue.entries().values());
        entries.filter(|entry| !entry.waits()).map(|entry| &entry.transaction).collect()
    }
}
