//! Who goes first: into a batch, and out of a full pool.

use crate::{batch, sender::Entry};
use corniche_types::{Address, Bytes, U256};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

/// Order of cutting: what this node owns before what it takes over from others, which they may be proposing as well; then the
/// highest tip, then the earliest arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CutKey {
    pub taken_over: bool,
    pub tip: Reverse<u128>,
    pub arrival: u64,
    pub sender: Address,
    pub nonce: u64,
}

impl CutKey {
    /// `None` when the transaction does not pay the base fee.
    pub fn of(sender: Address, entry: &Entry, base_fee: u64) -> Option<Self> {
        let tip = Reverse(entry.tip(base_fee)?);
        let taken_over = entry.standing.place != Some(0);
        Some(Self { taken_over, tip, arrival: entry.arrival, sender, nonce: entry.transaction.nonce() })
    }
}

/// How much a transaction is worth keeping: queued before ready, underpriced before priced, cheap before dear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Worth {
    pub ready: bool,
    pub tip: Option<u128>,
}

/// Order of eviction: least worth, then latest arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EvictKey {
    pub worth: Worth,
    pub arrival: Reverse<u64>,
    pub sender: Address,
}

/// One batch in the making.
pub(crate) struct Cutting {
    /// What an empty batch holds.
    pub bytes: usize,
    pub gas: u64,
    pub bytes_left: usize,
    pub gas_left: u64,
    pub raw: Vec<Bytes>,
    /// What each sender looked at can still spend, its transactions in flight taken off.
    pub spendable: BTreeMap<Address, U256>,
    /// Next ones of senders that have some in the batch already.
    pub followers: BTreeSet<CutKey>,
    pub misfits: usize,
}

impl Cutting {
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
            misfits: 0,
        }
    }
}
