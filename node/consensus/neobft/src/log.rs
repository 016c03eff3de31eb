//! The log: a chain of entries without gaps, with a log-hash after each (N1, N3).

use crate::message::{Context, Entry, Slot};
use corniche_types::B256;
use std::collections::VecDeque;

/// Entries above a floor. Entries up to `finalized` never change; later ones may be rolled back.
pub struct Log {
    context: Context,
    floor: Slot,
    floor_hash: B256,
    entries: VecDeque<(Entry, B256)>,
    finalized: Slot,
    /// Up to here the entries are on disk.
    durable: Slot,
}

impl Log {
    /// A log that begins after `floor`, which is final.
    pub fn new(context: Context, floor: Slot, floor_hash: B256) -> Self {
        Self { context, floor, floor_hash, entries: VecDeque::new(), finalized: floor, durable: floor }
    }

    /// Slots up to this one are forgotten.
    pub fn floor(&self) -> Slot {
        self.floor
    }

    /// The last slot.
    pub fn end(&self) -> Slot {
        Slot(self.floor.0 + self.entries.len() as u64)
    }

    pub fn finalized(&self) -> Slot {
        self.finalized
    }

    pub fn durable(&self) -> Slot {
        self.durable
    }

    fn place(&self, slot: Slot) -> Option<usize> {
        usize::try_from(slot.0.checked_sub(self.floor.0 + 1)?).ok()
    }

    pub fn get(&self, slot: Slot) -> Option<&Entry> {
        self.entries.get(self.place(slot)?).map(|(entry, _)| entry)
    }

    /// Log-hash after a slot: that of the floor, or of an entry.
    pub fn hash(&self, slot: Slot) -> Option<B256> {
        if slot == self.floor {
            return Some(self.floor_hash);
        }
        self.entries.get(self.place(slot)?).map(|(_, hash)| *hash)
    }

    pub fn end_hash(&self) -> B256 {
        self.entries.back().map_or(self.floor_hash, |(_, hash)| *hash)
    }

    /// Appends an entry. Returns the log-hash before and after it.
    pub fn push(&mut self, entry: Entry) -> (B256, B256) {
        let before = self.end_hash();
        let after = self.context.log_hash(before, self.end().next(), &entry);
        self.entries.push_back((entry, after));
        (before, after)
    }

    /// Rolls back: drops the entries after `to`. Returns false, and does nothing, if one of them is final.
    #[must_use]
    pub fn truncate(&mut self, to: Slot) -> bool {
        if to < self.finalized {
            return false;
        }
        self.entries.truncate(self.place(to.next()).unwrap_or(0));
        self.durable = self.durable.min(to);
        true
    }

    /// The entries up to this slot are on disk.
    pub fn mark_durable(&mut self, slot: Slot) {
        self.durable = self.durable.max(slot.min(self.end()));
    }

    /// Everything in the log is on disk.
    pub fn mark_all_durable(&mut self) {
        self.durable = self.end();
    }

    pub fn finalize(&mut self, slot: Slot) {
        self.finalized = self.finalized.max(slot.min(self.end()));
    }

    /// Forgets the entries up to `to`, which must be final.
    pub fn release(&mut self, to: Slot) {
        while self.floor < to.min(self.finalized) {
            let Some((_, hash)) = self.entries.pop_front() else { return };
            (self.floor, self.floor_hash) = (self.floor.next(), hash);
        }
    }

    /// Entries after `from`.
    pub fn after(&self, from: Slot) -> impl Iterator<Item = (Slot, &Entry)> {
        let first = self.place(from.next()).unwrap_or(0);
        let number = self.floor.0 + 1 + first as u64;
        (number..).map(Slot).zip(self.entries.iter().skip(first).map(|(entry, _)| entry))
    }

    pub fn count(&self) -> usize {
        self.entries.len()
    }
}
