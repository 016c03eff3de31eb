//! From order to blocks: commits accumulate until a block closes.
//!
//! A block closes at the first commit whose time is at least `block_ms` after the previous block's, or before the
//! transaction whose *declared* gas would exceed the block's limit; the rest of that commit opens the next block. Empty
//! commits make no block, but for one a minute: an empty commit [`IDLE_BLOCK_MS`] after the last block makes one without
//! transactions, so that an idle chain has a certified point to resume from that is not old (decision 0011). All of it is a
//! function of the sequence of commits, so every validator closes the same blocks.

use crate::dev::{self, Word};
use corniche_admission::batch;
use corniche_engine::{Ordered, Resume};
use corniche_types::{
    B256, BatchRef, Block, Bytes, CommitIndex, Genesis, OrderedTransaction, OrderingRecord, TimestampMs, Transaction,
    ValidatorIndex,
};
use std::collections::VecDeque;

/// An idle chain closes a block without transactions this long after its last block. Before the first block there is none:
/// whoever comes late then starts from genesis like everybody else.
const IDLE_BLOCK_MS: u64 = 60_000;

/// A block as ordered, before execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockPlan {
    pub ordered: Vec<OrderedTransaction>,
    pub batches: Vec<BatchRef>,
    pub first_commit: CommitIndex,
    pub last_commit: CommitIndex,
    pub last_commit_consumed: u32,
    pub leader: ValidatorIndex,
    pub time: TimestampMs,
    pub randomness: B256,
    /// The last commit that is complete in this block.
    pub resume: Resume,
}

impl BlockPlan {
    /// The plan a stored or followed block was made from.
    pub fn of_block(block: &Block, resume: Resume) -> Self {
        let ordering = &block.ordering;
        Self {
            ordered: block.ordered.clone(),
            batches: ordering.batches.clone(),
            first_commit: ordering.first_commit,
            last_commit: ordering.last_commit,
            last_commit_consumed: ordering.last_commit_consumed,
            leader: ordering.leader,
            time: ordering.time,
            randomness: ordering.randomness,
            resume,
        }
    }
}

/// Turns commits into block plans.
pub struct BlockBuilder {
    /// A development chain: [`Word`]s say when blocks end and what time it is, and an idle chain makes no blocks.
    obeys_words: bool,
    block_ms: u64,
    block_gas_limit: u64,
    last_block_time: TimestampMs,
    /// The last commit taken in completely.
    complete: Resume,
    /// Transactions of commit `complete.index + 1` that an earlier block already consumed; only after recovery.
    skip: u32,
    open: Option<OpenBlock>,
    closed: VecDeque<BlockPlan>,
}

struct OpenBlock {
    plan: BlockPlan,
    declared_gas: u64,
}

impl OpenBlock {
    fn new(commit: &Ordered, resume: &Resume) -> Self {
        let plan = BlockPlan {
            ordered: Vec::new(),
            batches: Vec::new(),
            first_commit: commit.index,
            last_commit: commit.index,
            last_commit_consumed: 0,
            leader: commit.leader,
            time: commit.time,
            randomness: commit.randomness,
            resume: resume.clone(),
        };
        Self { plan, declared_gas: 0 }
    }
}

impl BlockBuilder {
    /// Continues after the block that `head` ordered (`None`: genesis), where ordering resumes at `resume`.
    pub fn new(genesis: &Genesis, head: Option<&OrderingRecord>, resume: Resume) -> Self {
        let partial = head.filter(|ordering| ordering.last_commit > resume.index);
        let skip = partial.map_or(0, |ordering| ordering.last_commit_consumed);
        Self {
            obeys_words: false,
            block_ms: genesis.block_ms,
            block_gas_limit: genesis.block_gas_limit,
            last_block_time: head.map_or(TimestampMs(0), |ordering| ordering.time),
            complete: resume,
            skip,
            open: None,
            closed: VecDeque::new(),
        }
    }

    #[must_use]
    pub fn obeying_words(self, obeys_words: bool) -> Self {
        Self { obeys_words, ..self }
    }

    /// The next closed block.
    pub fn poll(&mut self) -> Option<BlockPlan> {
        self.closed.pop_front()
    }

    /// Whether ordered transactions wait for a later commit to close their block.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// The last commit taken in completely.
    pub fn complete(&self) -> &Resume {
        &self.complete
    }

    /// Takes the next commit. Its index must follow the last one's.
    pub fn push(&mut self, mut commit: Ordered) {
        assert_eq!(commit.index, self.complete.index.next(), "invariant: an engine delivers commits without gaps");
        if self.obeys_words {
            // Its clock may be ahead of the engine's.
            commit.time = commit.time.max(self.last_block_time);
        }
        let mut position = 0u32;
        let mut ended = false;
        let skip = std::mem::take(&mut self.skip);
        for (author, ordered_batch) in &std::mem::take(&mut commit.batches) {
            let digest = corniche_engine::batch_digest(&ordered_batch.bytes);
            for (number, raw) in (0u32..).zip(batch::decode(&ordered_batch.bytes)) {
                position += 1;
                if position > skip {
                    if std::mem::take(&mut ended) {
                        self.close();
                    }
                    match self.obeys_words.then(|| Word::decode(&raw)).flatten() {
                        Some(Word::Time(time)) => commit.time = time.max(self.last_block_time),
                        Some(Word::End(_)) => ended = true,
                        _ => {}
                    }
                    self.push_transaction(
                        &commit,
                        position,
                        BatchRef { author: *author, digest, first: number, count: 1 },
                        raw,
                    );
                }
            }
        }
        self.complete = Resume { index: commit.index, checkpoint: commit.checkpoint.clone() };
        if self.open.is_none() && self.idle_block_is_due(commit.time) {
            self.open = Some(OpenBlock::new(&commit, &self.complete));
        }
        if let Some(open) = &mut self.open {
            open.plan.last_commit = commit.index;
            open.plan.last_commit_consumed = position;
            open.plan.leader = commit.leader;
            open.plan.time = commit.time;
            open.plan.randomness = commit.randomness;
            open.plan.resume = self.complete.clone();
            if commit.time.0 >= self.last_block_time.0 + self.block_ms {
                self.close();
            }
        }
    }

    fn idle_block_is_due(&self, now: TimestampMs) -> bool {
        !self.obeys_words && self.last_block_time != TimestampMs(0) && now.0 >= self.last_block_time.0 + IDLE_BLOCK_MS
    }

    fn push_transaction(&mut self, commit: &Ordered, position: u32, source: BatchRef, raw: Bytes) {
        let gas = declared_gas(&raw, self.block_gas_limit);
        if self.open.as_ref().is_some_and(|open| open.declared_gas + gas > self.block_gas_limit) {
            self.close();
        }
        let complete = &self.complete;
        let open = self.open.get_or_insert_with(|| OpenBlock::new(commit, complete));
        open.declared_gas += gas;
        let plan = &mut open.plan;
        plan.last_commit = commit.index;
        plan.last_commit_consumed = position;
        plan.leader = commit.leader;
        plan.time = commit.time;
        plan.randomness = commit.randomness;
        plan.resume = complete.clone();
        plan.ordered.push(OrderedTransaction { author: source.author, raw });
        match plan.batches.last_mut() {
            Some(last)
                if last.author == source.author && last.digest == source.digest && last.first + last.count == source.first =>
            {
                last.count += 1;
            }
            _ => plan.batches.push(source),
        }
    }

    fn close(&mut self) {
        if let Some(mut open) = self.open.take() {
            self.last_block_time = open.plan.time;
            if self.obeys_words {
                open.plan.randomness = dev::randomness(&open.plan.ordered).unwrap_or(open.plan.randomness);
            }
            self.closed.push_back(open.plan);
        }
    }
}

/// The gas limit a transaction declares; 0 for one that will be skipped because it does not decode or asks for more than a
/// whole block.
fn declared_gas(raw: &Bytes, block_gas_limit: u64) -> u64 {
    Transaction::declared_gas(raw).ok().filter(|gas| *gas <= block_gas_limit).unwrap_or(0)
}
