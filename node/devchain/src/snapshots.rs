//! Snapshots of a development chain.

use crate::mining::Clock;
use corniche_types::{Bytes, Height};
use std::collections::VecDeque;

/// Maximum number of snapshots; the oldest are dropped.
const MAX_SNAPSHOTS: usize = 10_000;

/// Maximum bytes of pooled transactions in all snapshots; the newest snapshot is always complete.
const MAX_POOLED_BYTES: usize = 64 << 20;

/// State of a chain while no block is in progress.
pub struct Checkpoint {
    pub height: Height,
    pub clock: Clock,
    /// Transactions waiting for a block, by arrival.
    pub pool: Vec<Bytes>,
}

/// State of a chain at a snapshot.
pub struct Snapshot {
    id: u64,
    pub time_offset: u64,
    pub checkpoint: Checkpoint,
}

impl Snapshot {
    fn bytes(&self) -> usize {
        self.checkpoint.pool.iter().map(|raw| raw.len() + size_of::<Bytes>()).sum()
    }
}

#[derive(Default)]
pub struct Snapshots {
    /// Sorted by name.
    entries: VecDeque<Snapshot>,
    bytes: usize,
    newest: u64,
}

impl Snapshots {
    /// Adds a snapshot and returns its name; drops old ones beyond the limits.
    pub fn add(&mut self, checkpoint: Checkpoint, time_offset: u64) -> u64 {
        self.newest += 1;
        let snapshot = Snapshot { id: self.newest, time_offset, checkpoint };
        self.bytes += snapshot.bytes();
        self.entries.push_back(snapshot);
        while self.entries.len() > MAX_SNAPSHOTS || (self.bytes > MAX_POOLED_BYTES && self.entries.len() > 1) {
            let oldest = self.entries.pop_front();
            self.bytes -= oldest.map_or(0, |oldest| oldest.bytes());
        }
        self.newest
    }

    pub fn index(&self, id: u64) -> Option<usize> {
        self.entries.binary_search_by_key(&id, |snapshot| snapshot.id).ok()
    }

    /// Removes the snapshot at an index and all later ones; returns the first.
    pub fn take(&mut self, index: usize) -> Option<Snapshot> {
        self.bytes -= self.entries.range(index..).map(Snapshot::bytes).sum::<usize>();
        self.entries.drain(index..).next()
    }

    pub fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_types::TimestampMs;

    #[test]
    fn snapshots_are_bounded() {
        let long = Bytes::from(vec![0; MAX_POOLED_BYTES / 3]);
        let checkpoint = |pooled: usize| Checkpoint {
            height: Height(1),
            clock: Clock { time: TimestampMs(1), next: Default::default() },
            pool: vec![long.clone(); pooled],
        };
        let mut snapshots = Snapshots::default();
        let ids = |snapshots: &Snapshots| snapshots.entries.iter().map(|snapshot| snapshot.id).collect::<Vec<_>>();
        for pooled in [1, 0, 1, 1] {
            snapshots.add(checkpoint(pooled), 0);
        }
        assert_eq!(ids(&snapshots), [2, 3, 4], "the oldest made room");
        assert_eq!((snapshots.index(1), snapshots.take(1).unwrap().id), (None, 3));
        assert_eq!(ids(&snapshots), [2]);
        snapshots.add(checkpoint(2), 0);
        assert_eq!(ids(&snapshots), [2, 5], "what was used up is not counted any more");
        snapshots.add(checkpoint(9), 0);
        assert_eq!(ids(&snapshots), [6], "the newest stays in any case");
        snapshots.clear();
        assert_eq!(snapshots.add(checkpoint(2), 0), 7, "a name is given once");
        (0..MAX_SNAPSHOTS).for_each(|_| _ = snapshots.add(checkpoint(0), 0));
        assert_eq!((snapshots.entries.len(), snapshots.bytes), (MAX_SNAPSHOTS, 0));
    }
}
