//! Hashes of headers, on their way from the half that makes them to the half that writes them into the state
//! ([`corniche_types::certified`]).
//!
//! A block ends by writing the hash of the header [`DEPTH`] below it. The runner does not wait for hashes; it need not, as long as it is
//! less than [`DEPTH`] blocks ahead of the sealer, and the rim keeps them within a few. A hash that is not there is a broken
//! invariant, and stops the node.

use corniche_types::{B256, certified, certified::DEPTH};
use std::{
    collections::VecDeque,
    sync::mpsc::{Receiver, Sender, channel},
};

/// The runner's end.
pub(super) struct Ancestors {
    /// Of the header whose hash is written next.
    next: u64,
    /// From `next` on, without a gap.
    known: VecDeque<B256>,
    /// Those that follow. At most [`DEPTH`] wait: what was run and not sealed has no hash, and what was sealed long ago is written.
    sealed: Receiver<B256>,
}

impl Ancestors {
    /// What a chain with these newest hashes goes on with; and where the sealer tells its own.
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

    /// The number and the hash that the block at this height writes. Heights are asked for in order.
    pub fn written_by(&mut self, height: u64) -> Option<(u64, B256)> {
        let number = certified::written_by(height)?;
        assert_eq!(number, self.next, "invariant: blocks are run in order, after all that has been written");
        self.known.extend(self.sealed.try_iter());
        let hash = self.known.pop_front();
        self.next += 1;
        Some((number, hash.unwrap_or_else(|| panic!("invariant: blocks are run less than {DEPTH} ahead of what was sealed"))))
    }
}
