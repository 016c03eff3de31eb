//! Ordered blocks that wait for execution: limits, and reactions when they are exceeded.
//!
//! Ordering may be faster than execution: the node's processor or disk is slow, certificates are missing, or
//! a faulty proposer orders many small blocks. The backlog is bounded in three steps (design §3):
//!
//! 1. From [`MAX_WAITING_BLOCKS`] blocks or [`MAX_WAITING_BYTES`] on, own proposals are empty. If all validators are slow, that
//!    is enough.
//! 2. From twice that on, no more blocks are cut from commits ([`Backlog::is_full`]). A waiting commit costs
//!    only the bytes of its batches, however many blocks it will make.
//! 3. While commits wait for that reason, the engine gets no messages, so it orders nothing more. For the
//!    engine this is like a lossy link, which it tolerates.
//!
//! A node leaves step 3 in one of three ways:
//!
//! - Its processor or disk was slow: it executes the backlog.
//! - It missed certificates: the others send it theirs, and it follows the certified blocks.
//! - No certificate is possible, because faulty validators order without certifying and an honest one lags:
//!   the lagging one follows the blocks that f + 1 others executed, and certifies with them (decision 0019).
//!
//! So requests from engines of lagging validators need no exception from step 3. By then the other engines
//! have forgotten the requested data, and the responses could not be executed either.
//!
//! Alternative not chosen: dropping the engine instead of step 3. It is no simpler and does not work. If all
//! honest validators exceed the limit at once, each would build its engine anew, and the engines would
//! deliver the same commits again.

use crate::io::Plan;
use corniche_types::Height;
use std::collections::VecDeque;

/// Number of ordered blocks waiting for execution from which own proposals are empty.
pub const MAX_WAITING_BLOCKS: usize = 64;
/// Bytes of ordered blocks waiting for execution from which own proposals are empty.
pub const MAX_WAITING_BYTES: usize = 64 << 20;
/// Maximum bytes of blocks that are being executed or appended, unless a single block is larger.
const MAX_IN_PROGRESS_BYTES: usize = 64 << 20;
/// Memory overhead of a block and of an entry, beside the entry's bytes.
const BLOCK_OVERHEAD: usize = 1_024;
const ENTRY_OVERHEAD: usize = 64;

/// See the module documentation.
#[derive(Default)]
pub struct Backlog {
    /// Blocks not given to execution yet.
    waiting: VecDeque<(Plan, usize)>,
    waiting_bytes: usize,
    /// Blocks given to execution that are not durable yet.
    in_progress: VecDeque<(Height, usize)>,
    in_progress_bytes: usize,
}

impl Backlog {
    pub fn push(&mut self, plan: Plan) {
        let entries = plan.block.ordered.iter().map(|entry| entry.raw.len() + ENTRY_OVERHEAD);
        let bytes = BLOCK_OVERHEAD + entries.sum::<usize>();
        self.waiting_bytes += bytes;
        self.waiting.push_back((plan, bytes));
    }

    /// Next block to execute.
    pub fn front(&self) -> Option<&Plan> {
        self.waiting.front().map(|(plan, _)| plan)
    }

    /// Number of blocks not given to execution yet.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes the next block for execution, if its height may be executed and the blocks in progress leave
    /// room.
    pub fn start(&mut self, may_execute: impl FnOnce(Height) -> bool) -> Option<Plan> {
        let (plan, bytes) = self.waiting.front()?;
        let has_room = self.in_progress.is_empty() || self.in_progress_bytes + bytes <= MAX_IN_PROGRESS_BYTES;
        if !has_room || !may_execute(plan.height) {
            return None;
        }
        let (plan, bytes) = self.waiting.pop_front()?;
        self.waiting_bytes -= bytes;
        self.in_progress.push_back((plan.height, bytes));
        self.in_progress_bytes += bytes;
        Some(plan)
    }

    /// Records that all blocks up to this height are durable.
    pub fn appended(&mut self, height: Height) {
        while self.in_progress.front().is_some_and(|(at, _)| *at <= height) {
            let (_, bytes) = self.in_progress.pop_front().expect("front was there");
            self.in_progress_bytes -= bytes;
        }
    }

    /// Drops the blocks not given to execution.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.waiting_bytes = 0;
    }

    /// True if own proposals should be empty.
    pub fn is_long(&self) -> bool {
        self.waiting.len() >= MAX_WAITING_BLOCKS || self.waiting_bytes >= MAX_WAITING_BYTES
    }

    /// True if no more blocks should be cut from commits.
    pub fn is_full(&self) -> bool {
        self.waiting.len() >= 2 * MAX_WAITING_BLOCKS || self.waiting_bytes >= 2 * MAX_WAITING_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BlockPlan;
    use corniche_types::{B256, Bytes, CommitIndex, OrderedTransaction, Resume, TimestampMs, ValidatorIndex};

    fn plan(height: u64, bytes: usize) -> Plan {
        let raw = Bytes::from(vec![0; bytes]);
        let block = BlockPlan {
            ordered: vec![OrderedTransaction { author: ValidatorIndex(0), raw }],
            batches: Vec::new(),
            first_commit: CommitIndex(height),
            last_commit: CommitIndex(height),
            last_commit_consumed: 1,
            leader: ValidatorIndex(0),
            time: TimestampMs(0),
            randomness: B256::ZERO,
            resume: Resume::default(),
        };
        Plan { height: Height(height), block }
    }

    #[test]
    fn backlog_is_bounded_in_blocks_and_bytes() {
        let mut small = Backlog::default();
        let states = (1..=128).map(|height| {
            small.push(plan(height, 100));
            (small.is_long(), small.is_full())
        });
        let states: Vec<_> = states.collect();
        assert_eq!(
            (states[62], states[63], states[126], states[127]),
            ((false, false), (true, false), (true, false), (true, true))
        );
        let mut large = Backlog::default();
        large.push(plan(1, MAX_WAITING_BYTES));
        assert!(large.is_long() && !large.is_full());
        large.push(plan(2, MAX_WAITING_BYTES));
        assert!(large.is_full());
        large.clear();
        assert!(!large.is_long() && large.is_empty());
    }

    #[test]
    fn in_progress_bytes_are_bounded() {
        let mut backlog = Backlog::default();
        (1..=3).for_each(|height| backlog.push(plan(height, MAX_IN_PROGRESS_BYTES)));
        let next = |backlog: &mut Backlog| backlog.start(|_| true).map(|plan| plan.height.0);
        assert_eq!((next(&mut backlog), next(&mut backlog)), (Some(1), None));
        backlog.appended(Height(1));
        assert_eq!(backlog.start(|_| false).map(|plan| plan.height), None);
        assert_eq!((next(&mut backlog), next(&mut backlog)), (Some(2), None));
        backlog.appended(Height(2));
        assert_eq!(next(&mut backlog), Some(3));
        backlog.appended(Height(3));
        assert_eq!((backlog.waiting_bytes, backlog.in_progress_bytes), (0, 0));
    }
}
