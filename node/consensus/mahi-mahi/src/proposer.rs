//! When to propose and on what (E4–E10).
//!
//! Nothing here waits for a particular validator: nobody knows the leaders yet (E4). The pauses only shape the rate: a shortest
//! round, a short grace for parents beyond the quorum, and silence while nothing is waiting to be ordered.

use crate::{
    config::Config,
    dag::Dag,
    message::{BlockRef, Context, Round, first_of},
};
use corniche_engine::Batch;
use corniche_types::{TimestampMs, ValidatorIndex};
use std::collections::BTreeSet;

/// The proposing side of a validator.
pub struct Proposer {
    me: ValidatorIndex,
    /// E8: the highest round this validator is known to have signed a block for, in this life or an earlier one.
    pub highest_signed: Round,
    /// V5: the highest own block in the DAG; the own genesis block before there is one.
    tip: BlockRef,
    /// E6: accepted blocks that are not in the history of `tip`.
    uncovered: BTreeSet<BlockRef>,
    /// When the last own block was proposed; `None` before the first of this life.
    proposed_at: Option<TimestampMs>,
    /// Construction, from where the first heartbeat counts.
    started_at: TimestampMs,
    /// The round that could be proposed, and since when.
    clock: Round,
    clock_since: TimestampMs,
    /// A batch that waits to be proposed.
    pub batch: Option<Batch>,
    pub want: Want,
}

/// Whether a batch was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    No,
    /// Just now; the answer may come before the next deadline, and an empty block would come too early.
    Fresh,
    /// Asked and there was nothing; the answer comes when there is something.
    Standing,
}

impl Proposer {
    pub fn new(me: ValidatorIndex, context: &Context, now: TimestampMs) -> Self {
        Self {
            me,
            highest_signed: Round(0),
            tip: context.genesis(me),
            uncovered: BTreeSet::new(),
            proposed_at: None,
            started_at: now,
            clock: Round(1),
            clock_since: now,
            batch: None,
            want: Want::No,
        }
    }

    pub fn me(&self) -> ValidatorIndex {
        self.me
    }

    /// The highest own block that is durable and in the DAG.
    pub fn tip(&self) -> BlockRef {
        self.tip
    }

    /// E2: a block entered the DAG.
    pub fn accepted(&mut self, dag: &Dag, reference: BlockRef) {
        if reference.author != self.me {
            self.uncovered.insert(reference);
        } else {
            self.highest_signed = self.highest_signed.max(reference.round);
            cover(dag, &mut self.uncovered, dag.get(&reference).map_or(&[][..], |block| block.parents()));
            if reference.round > self.tip.round {
                self.tip = reference;
            }
        }
    }

    pub fn observe_clock(&mut self, now: TimestampMs, clock: Round) {
        if clock > self.clock {
            (self.clock, self.clock_since) = (clock, now);
        }
    }

    /// Since when the round that could be proposed is the present one.
    pub fn clock_since(&self) -> TimestampMs {
        self.clock_since
    }

    pub fn raise_floor(&mut self, floor: Round) {
        self.uncovered = self.uncovered.split_off(&first_of(floor + 1));
    }

    pub fn proposed(&mut self, now: TimestampMs, round: Round) {
        self.highest_signed = round;
        self.proposed_at = Some(now);
    }

    /// E4, E8, E9: when a block of round `clock` may be proposed; `None` while it may not.
    pub fn allowed_at(&self, dag: &Dag, config: &Config, floor: Round, committee_size: usize) -> Option<TimestampMs> {
        let clock = dag.clock();
        if clock <= self.highest_signed || clock <= floor {
            return None;
        }
        let rested = self.proposed_at.map_or(0, |at| at.0 + config.min_round_ms);
        let all_here = clock == Round(1) || dag.authors_at(clock - 1) == committee_size;
        let graced = if all_here { 0 } else { self.clock_since.0 + config.parent_grace_ms };
        Some(TimestampMs(rested.max(graced)))
    }

    /// When a block is due although nothing waits to be ordered.
    pub fn heartbeat_at(&self, config: &Config) -> TimestampMs {
        TimestampMs(self.proposed_at.unwrap_or(self.started_at).0 + config.heartbeat_ms)
    }

    /// E5: the own previous block, then one block of every other author of the previous round, then weak links to everything
    /// older that would otherwise stay unreferenced, newest first. The order is signed and fixes the votes (F1).
    pub fn parents(&self, dag: &Dag, context: &Context, committee_size: usize) -> Vec<BlockRef> {
        let previous = dag.clock() - 1;
        let others = (0u16..).take(committee_size).map(ValidatorIndex).filter(|author| *author != self.me);
        let of_previous = others.filter_map(|author| match previous {
            Round(0) => Some(context.genesis(author)),
            // Of siblings the first accepted; V4 forbids two.
            _ => dag.siblings(previous, author).next().map(|block| block.reference()),
        });
        let mut parents: Vec<_> = std::iter::once(self.tip).chain(of_previous).collect();
        self.add_weak_links(dag, previous, Config::max_parents(committee_size), &mut parents);
        parents
    }

    /// E6: mandatory, or slow validators would be censored and their votes lost (P12).
    fn add_weak_links(&self, dag: &Dag, previous: Round, limit: usize, parents: &mut Vec<BlockRef>) {
        let mut left = self.uncovered.clone();
        cover(dag, &mut left, parents);
        let mut slots: BTreeSet<_> = parents.iter().map(|parent| (parent.round, parent.author)).collect();
        left.retain(|reference| reference.round < previous);
        while parents.len() < limit {
            let Some(newest) = left.pop_last() else { return };
            if slots.insert((newest.round, newest.author)) {
                cover(dag, &mut left, dag.get(&newest).map_or(&[][..], |block| block.parents()));
                parents.push(newest);
            }
        }
    }
}

/// Takes `parents` and their histories out of `left`. What is not in `left` was covered before, with its whole history.
fn cover(dag: &Dag, left: &mut BTreeSet<BlockRef>, parents: &[BlockRef]) {
    let mut stack = parents.to_vec();
    while let Some(reference) = stack.pop() {
        if left.remove(&reference) {
            stack.extend_from_slice(dag.get(&reference).map_or(&[][..], |block| block.parents()));
        }
    }
}
