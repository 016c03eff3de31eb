//! Orders of cutting batches and of evicting from a full pool.
//!
//! Both depend on tips, and tips depend on the base fee. The indices hold fees instead, so that a change of the base
//! fee moves few of their keys.

use crate::{
    batch,
    sender::{Entry, Fees},
};
use corniche_types::{Address, Bytes, U256};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    iter,
};

/// Order of cutting: first transactions that this node owns, then those taken over from others, which may be
/// proposing them as well. Within these by highest tip, then by earliest arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CutKey {
    pub taken_over: bool,
    pub tip: Reverse<u128>,
    pub arrival: u64,
    pub sender: Address,
    pub nonce: u64,
}

impl CutKey {
    /// `None` if the transaction does not pay the base fee.
    pub fn of(sender: Address, entry: &Entry, base_fee: u64) -> Option<Self> {
        entry.fees().tip(base_fee).map(|tip| Self::with_tip(sender, entry, tip))
    }

    fn with_tip(sender: Address, entry: &Entry, tip: u128) -> Self {
        let taken_over = entry.responsibility.position != Some(0);
        Self { taken_over, tip: Reverse(tip), arrival: entry.arrival, sender, nonce: entry.transaction.nonce() }
    }
}

/// Transactions in the order of cutting. All of them pay the base fee. A key is valid until the base fee crosses one of
/// the transaction's borders ([`Fees::borders`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CutOrder {
    /// Those with their priority fee as tip.
    by_priority_fee: BTreeSet<CutKey>,
    /// Those with a lower tip: the rest of their max fee above the base fee. Their keys have the max fee as tip.
    by_max_fee: BTreeSet<CutKey>,
}

/// Key in a [`CutOrder`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum CutEntry {
    ByPriorityFee(CutKey),
    ByMaxFee(CutKey),
}

impl CutEntry {
    /// `None` if the transaction does not pay the base fee.
    pub fn of(sender: Address, entry: &Entry, base_fee: u64) -> Option<Self> {
        let fees = entry.fees();
        let key = |tip| CutKey::with_tip(sender, entry, tip);
        let is_priority_fee = fees.tip(base_fee)? == fees.priority;
        Some(if is_priority_fee { Self::ByPriorityFee(key(fees.priority)) } else { Self::ByMaxFee(key(fees.max)) })
    }
}

impl CutOrder {
    pub fn insert(&mut self, entry: CutEntry) -> bool {
        match entry {
            CutEntry::ByPriorityFee(key) => self.by_priority_fee.insert(key),
            CutEntry::ByMaxFee(key) => self.by_max_fee.insert(key),
        }
    }

    pub fn remove(&mut self, entry: CutEntry) -> bool {
        match &entry {
            CutEntry::ByPriorityFee(key) => self.by_priority_fee.remove(key),
            CutEntry::ByMaxFee(key) => self.by_max_fee.remove(key),
        }
    }

    /// First key, with its tip at this base fee.
    pub fn first(&self, base_fee: u64) -> Option<CutKey> {
        self.iter(base_fee).next()
    }

    pub fn pop_first(&mut self, base_fee: u64) -> Option<CutKey> {
        let first = self.first(base_fee)?;
        if self.by_priority_fee.first() == Some(&first) {
            self.by_priority_fee.pop_first();
        } else {
            self.by_max_fee.pop_first();
        }
        Some(first)
    }

    /// Keys in order, with their tips at this base fee.
    pub fn iter(&self, base_fee: u64) -> impl Iterator<Item = CutKey> {
        let by_max_fee =
            self.by_max_fee.iter().map(move |key| CutKey { tip: Reverse(key.tip.0 - u128::from(base_fee)), ..*key });
        merge(self.by_priority_fee.iter().copied(), by_max_fee)
    }

    /// Senders of the transactions taken over from other validators.
    pub fn taken_over(&self) -> impl Iterator<Item = Address> {
        let start = CutKey { taken_over: true, tip: Reverse(u128::MAX), arrival: 0, sender: Address::ZERO, nonce: 0 };
        self.by_priority_fee.range(start..).chain(self.by_max_fee.range(start..)).map(|key| key.sender)
    }
}

/// Value of a transaction to the pool, lowest first: queued, then underpriced, then by tip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EvictionValue {
    pub ready: bool,
    pub tip: Option<u128>,
}

/// Order of eviction: lowest value, then latest arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EvictKey {
    pub value: EvictionValue,
    pub arrival: Reverse<u64>,
    pub sender: Address,
}

/// Sender in an [`EvictionOrder`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct EvictEntry {
    pub ready: bool,
    /// Lowest fees of its waiting transactions.
    pub fees: Fees,
    /// Arrival of its last transaction.
    pub arrival: u64,
    pub sender: Address,
}

impl EvictEntry {
    pub fn key(&self, tip: Option<u128>) -> EvictKey {
        let value = EvictionValue { ready: self.ready, tip };
        EvictKey { value, arrival: Reverse(self.arrival), sender: self.sender }
    }
}

/// Senders in the order of eviction. The tip is the priority fee or the rest of the max fee above the base fee,
/// whichever is less. So each sender is in both orders, and the first of its two keys is the right one at any base fee.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EvictionOrder {
    /// With the priority fee as tip.
    by_priority_fee: BTreeSet<EvictKey>,
    /// With the max fee as tip.
    by_max_fee: BTreeSet<EvictKey>,
    /// Those that do not pay the base fee, by arrival. They are in the other orders as well.
    underpriced: BTreeSet<EvictKey>,
}

impl EvictionOrder {
    pub fn insert(&mut self, entry: &EvictEntry, base_fee: u64) {
        self.by_priority_fee.insert(entry.key(Some(entry.fees.priority)));
        self.by_max_fee.insert(entry.key(Some(entry.fees.max)));
        if entry.fees.tip(base_fee).is_none() {
            self.underpriced.insert(entry.key(None));
        }
    }

    pub fn remove(&mut self, entry: &EvictEntry) {
        self.by_priority_fee.remove(&entry.key(Some(entry.fees.priority)));
        self.by_max_fee.remove(&entry.key(Some(entry.fees.max)));
        self.underpriced.remove(&entry.key(None));
    }

    /// Updates the underpriced senders.
    pub fn set_base_fee(&mut self, old: u64, new: u64) {
        for ready in [false, true] {
            let between = start_of(ready, Some(old.min(new)))..start_of(ready, Some(old.max(new)));
            for key in self.by_max_fee.range(between) {
                let key = EvictKey { value: EvictionValue { ready, tip: None }, ..*key };
                if new > old {
                    self.underpriced.insert(key);
                } else {
                    self.underpriced.remove(&key);
                }
            }
        }
    }

    /// Keys in order, with their tips at this base fee, for which the order was updated.
    pub fn iter(&self, base_fee: u64) -> impl Iterator<Item = EvictKey> {
        let paying = |ready| start_of(ready, Some(base_fee));
        let by_max_fee =
            self.by_max_fee.range(paying(false)..start_of(true, None)).chain(self.by_max_fee.range(paying(true)..));
        let by_max_fee = by_max_fee.map(move |key| {
            let tip = key.value.tip.map(|max_fee| max_fee - u128::from(base_fee));
            EvictKey { value: EvictionValue { tip, ..key.value }, ..*key }
        });
        let mut passed = BTreeSet::new();
        merge(self.underpriced.iter().copied(), merge(self.by_priority_fee.iter().copied(), by_max_fee))
            .filter(move |key| passed.insert(key.sender))
    }
}

/// First possible key with this value.
fn start_of(ready: bool, tip: Option<u64>) -> EvictKey {
    let value = EvictionValue { ready, tip: tip.map(u128::from) };
    EvictKey { value, arrival: Reverse(u64::MAX), sender: Address::ZERO }
}

/// Merges two ascending sequences.
fn merge<T: Ord>(one: impl Iterator<Item = T>, other: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
    let (mut one, mut other) = (one.peekable(), other.peekable());
    iter::from_fn(move || match (one.peek(), other.peek()) {
        (Some(first), Some(second)) if second < first => other.next(),
        (None, _) => other.next(),
        _ => one.next(),
    })
}

/// Batch being filled.
pub(crate) struct BatchBuilder {
    /// Bytes that an empty batch has room for.
    pub bytes: usize,
    pub gas: u64,
    pub bytes_left: usize,
    pub gas_left: u64,
    pub raw: Vec<Bytes>,
    /// Remaining balance of each sender seen so far, without the cost of its transactions in flight.
    pub spendable: BTreeMap<Address, U256>,
    /// Next transactions of senders that are in the batch already.
    pub followers: BTreeSet<CutKey>,
    pub skipped: usize,
}

impl BatchBuilder {
    pub fn new(bytes: u32, gas: u64) -> Self {
        let bytes = (bytes as usize).saturating_sub(batch::BATCH_OVERHEAD);
        Self {
            bytes,
            gas,
            bytes_left: bytes,
            gas_left: gas,
            raw: Vec::new(),
            spendable: BTreeMap::new(),
            followers: BTreeSet::new(),
            skipped: 0,
        }
    }
}
