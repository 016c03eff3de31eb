//! Passes header hashes from the sealer to the runner, which writes them into the state
//! ([`corniche_types::certified`]).
//!
//! A block ends by writing the hash of the header [`DEPTH`] below it. The runner need not wait for hashes as
//! long as it is less than [`DEPTH`] blocks ahead of the sealer; the node keeps them within a few blocks. A
//! missing hash is a broken invariant and stops the node.

use corniche_types::{B256, certified, certified::DEPTH};
use std::{
    collections::VecDeque,
    sync::mpsc::{Receiver, Sender, channel},
};

/// Runner's end.
pub(super) struct AncestorHashes {
    /// Number of the header whose hash is written next.
    next: u64,
    /// Hashes from `next` on, without a gap.
    known: VecDeque<B256>,
    /// Following hashes from the sealer. At most [`DEPTH`] are queued: blocks that are not sealed have no
    /// hash, and older ones are already written.
    sealed: Receiver<B256>,
}

impl AncestorHashes {
    /// Starts after a chain with these newest hashes; the sender is for the sealer.
    pub fn new(head: u64, newest: &[B256]) -> (Self, Sender<B256>) {
        let unwritten = certified::unwritten(head);
        let (known, wanted) = (newest.len(), unwritten.clone().count());
        assert_eq!(
            known, wanted,
            "invariant: execution on top of block {head} starts with the hashes of the last {DEPTH} headers"
        );
        let (sender, sealed) = channel();
        (Self { next: *unwritten.start(), known: newest.iter().copied().collect(), sealed }, sender)
    }

    /// Number and hash that the block at this height writes. Call it for each height in order.
    pub fn written_by(&mut self, height: u64) -> Option<(u64, B256)> {
        let number = certified::written_by(height)?;
        assert_eq!(number, self.next, "invariant: blocks are run in order, after all that has been written");
        self.known.extend(self.sealed.try_iter());
        let hash = self.known.pop_front();
        self.next += 1;
        Some((number, hash.unwrap_or_else(|| panic!("invariant: blocks are run less than {DEPTH} ahead of what was sealed"))))
    }
}
