//! Items that are fetched from several peers: chunks or codes, by their position in the manifest.

use super::PeerId;
use std::collections::{BTreeMap, BTreeSet};

/// Most peers that are asked for one item at once.
const MAX_ASKED: usize = 2;

/// Positions of what is missing, under way and kept. Each position is in one of the three.
#[derive(Clone, Debug, Default)]
pub(super) struct Work {
    missing: BTreeSet<u32>,
    /// With the peers that are asked.
    under_way: BTreeMap<u32, Vec<PeerId>>,
    kept: BTreeSet<u32>,
}

impl Work {
    /// Work on `count` items, of which some are kept. Positions that do not exist are ignored.
    pub fn new(count: usize, kept: impl IntoIterator<Item = u32>) -> Self {
        let mut missing: BTreeSet<u32> = (0..count as u32).collect();
        let kept = kept.into_iter().filter(|position| missing.remove(position)).collect();
        Self { missing, under_way: BTreeMap::new(), kept }
    }

    pub fn is_done(&self) -> bool {
        self.missing.is_empty() && self.under_way.is_empty()
    }

    pub fn is_kept(&self, position: u32) -> bool {
        self.kept.contains(&position)
    }

    pub fn kept(&self) -> &BTreeSet<u32> {
        &self.kept
    }

    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Number of kept items, and of all.
    pub fn progress(&self) -> (usize, usize) {
        (self.kept.len(), self.missing.len() + self.under_way.len() + self.kept.len())
    }

    /// Takes items that nobody is asked for, for a request to a peer.
    pub fn take(&mut self, peer: PeerId, limit: Limit, bytes: impl Fn(u32) -> u64) -> Vec<u32> {
        let taken = limit.fill(self.missing.iter().copied(), bytes);
        self.start(peer, taken)
    }

    /// Takes items that one other peer is asked for. So a slow peer does not hold the last ones (B34).
    pub fn take_second(&mut self, peer: PeerId, limit: Limit, bytes: impl Fn(u32) -> u64) -> Vec<u32> {
        let is_free = |peers: &Vec<PeerId>| peers.len() < MAX_ASKED && !peers.contains(&peer);
        let free = self.under_way.iter().filter(|(_, peers)| is_free(peers)).map(|(position, _)| *position);
        let taken = limit.fill(free, bytes);
        self.start(peer, taken)
    }

    fn start(&mut self, peer: PeerId, taken: Vec<u32>) -> Vec<u32> {
        for position in &taken {
            self.missing.remove(position);
            self.under_way.entry(*position).or_default().push(peer);
        }
        taken
    }

    /// A request ended without these items.
    pub fn put_back(&mut self, peer: &PeerId, positions: impl IntoIterator<Item = u32>) {
        for position in positions {
            let Some(peers) = self.under_way.get_mut(&position) else { continue };
            peers.retain(|asked| asked != peer);
            if peers.is_empty() {
                self.under_way.remove(&position);
                self.missing.insert(position);
            }
        }
    }

    /// An item came. Returns whether it is the first time.
    pub fn keep(&mut self, position: u32) -> bool {
        let is_known = self.missing.remove(&position) | self.under_way.remove(&position).is_some();
        is_known && self.kept.insert(position)
    }

    /// Forgets who is asked.
    pub fn stop(&mut self) {
        self.missing.extend(std::mem::take(&mut self.under_way).into_keys());
    }
}

/// Bound of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    pub items: usize,
    /// Limit of a response. One item may have more.
    pub bytes: u64,
}

impl Limit {
    fn fill(self, positions: impl Iterator<Item = u32>, bytes: impl Fn(u32) -> u64) -> Vec<u32> {
        let mut total = 0;
        let mut fits = |position: &u32| {
            let is_first = total == 0;
            total += bytes(*position).max(1);
            is_first || total <= self.bytes
        };
        positions.take(self.items).take_while(&mut fits).collect()
    }
}
