//! Orders of cutting batches and of evicting from a full pool.

use crate::{batch, sender::Entry};
use corniche_types::{Address, Bytes, U256};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
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
        let tip = Reverse(entry.tip(base_fee)?);
        let taken_over = entry.responsibility.position != Some(0);
        Some(Self { taken_over, tip, arrival: entry.arrival, sender, nonce: entry.transaction.nonce() })
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
