//! One sender's transactions by nonce.

use corniche_crypto::VerifiedTransaction;
use corniche_types::{TimestampMs, U256};
use std::collections::BTreeMap;

/// A pooled transaction.
#[derive(Debug)]
pub(crate) struct Entry {
    pub transaction: VerifiedTransaction,
    /// Position in the order of arrival; survives being requeued.
    pub arrival: u64,
    pub arrived_at: TimestampMs,
    /// Gas limit × max fee + value.
    pub cost: U256,
    /// The count of blocks when it was cut into a batch; `None` while it waits.
    pub in_flight_since: Option<u64>,
    /// How many times its batch was given up for lost.
    pub lost: u32,
}

impl Entry {
    pub fn waits(&self) -> bool {
        self.in_flight_since.is_none()
    }

    /// What a proposer gets per gas; `None` when the transaction does not even pay the base fee.
    pub fn tip(&self, base_fee: u64) -> Option<u128> {
        tip(&self.transaction, base_fee)
    }
}

pub(crate) fn tip(transaction: &VerifiedTransaction, base_fee: u64) -> Option<u128> {
    let above_base = transaction.max_fee_per_gas().checked_sub(u128::from(base_fee))?;
    Some(transaction.max_priority_fee_per_gas().min(above_base))
}

/// See the module documentation. Entries from `nonce` on without a gap are ready, the ones after the first gap are queued.
#[derive(Debug, Default)]
pub(crate) struct SenderQueue {
    /// The account's nonce when last looked at; no entry is below it.
    pub nonce: u64,
    pub entries: BTreeMap<u64, Entry>,
}

impl SenderQueue {
    /// Entries that could be executed one after the other.
    pub fn ready(&self) -> impl Iterator<Item = (u64, &Entry)> {
        let run = (self.nonce..=u64::MAX).zip(self.entries.range(self.nonce..));
        run.take_while(|(expected, (nonce, _))| expected == *nonce).map(|(nonce, (_, entry))| (nonce, entry))
    }

    /// The first one that waits, from this nonce on, before any gap.
    pub fn next_waiting(&self, from: u64) -> Option<&Entry> {
        let run = (from..=u64::MAX).zip(self.entries.range(from..));
        let mut entries = run.take_while(|(expected, (nonce, _))| expected == *nonce).map(|(_, (_, entry))| entry);
        entries.find(|entry| entry.waits())
    }

    /// The nonce after the ready ones.
    pub fn next_nonce(&self) -> u64 {
        self.nonce + self.ready().count() as u64
    }

    /// What all entries but the one at `nonce` may cost together.
    pub fn cost_without(&self, nonce: u64) -> U256 {
        let others = self.entries.iter().filter(|(other, _)| **other != nonce);
        others.fold(U256::ZERO, |sum, (_, entry)| sum.saturating_add(entry.cost))
    }

    pub fn cost_in_flight(&self) -> U256 {
        let in_flight = self.entries.values().filter(|entry| !entry.waits());
        in_flight.fold(U256::ZERO, |sum, entry| sum.saturating_add(entry.cost))
    }

    /// The entry whose loss opens no gap, unless it is in flight.
    pub fn tail(&self) -> Option<&Entry> {
        self.entries.values().next_back().filter(|entry| entry.waits())
    }

    /// The lowest tip among those that wait: no later one is worth more to a proposer than the ones it follows.
    pub fn lowest_tip(&self, base_fee: u64) -> Option<u128> {
        self.entries.values().filter(|entry| entry.waits()).map(|entry| entry.tip(base_fee)).min().flatten()
    }
}
