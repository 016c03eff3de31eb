//! When to propose and on what (E4–E10).
//!
//! Nothing here waits for a particular validator: nobody knows the leaders yet (E4). The pauses only shape the rate: a shortest
//! round, a short grace for parents beyond the quorum, and silence while nothing is waiting to be ordered.
//!
//! **Proven equivocators are not taken as parents** where a quorum is there without them. An equivocator shows its siblings to different
//! validators, so whoever stands on one makes everybody else fetch it first, in every round. So the round that is proposed in is the one after
//! the last with a quorum of others, as if the equivocators were silent. Only when that does not go on for a moment, because others have
//! jumped a round or are down, equivocators are counted and taken, as few as are needed. The rules of agreement do not ask which
//! parents a block has beyond its quorum.

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
    /// The same if proven equivocators were silent.
    trusted: Round,
    trusted_since: TimestampMs,
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
            trusted: Round(1),
            trusted_since: now,
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

    pub fn observe_clock(&mut self, now: TimestampMs, dag: &Dag, shunned: &Shunned) {
        let (clock, trusted) = (dag.clock(), self.trusted_clock(dag, shunned));
        if clock > self.clock {
            (self.clock, self.clock_since) = (clock, now);
        }
        if trusted != self.trusted {
            (self.trusted, self.trusted_since) = (trusted, now);
        }
    }

    /// One above the highest round with a quorum of authors that are not shunned. One that was proposed in already will do as well.
    fn trusted_clock(&self, dag: &Dag, shunned: &Shunned) -> Round {
        let (clock, lowest) = (dag.clock(), self.highest_signed.max(dag.clock() - MAX_LOOK_BACK));
        if shunned.authors.is_empty() || clock == Round(1) {
            return clock;
        }
        let has_quorum = |round: &u64| shunned.count_others(dag, Round(*round)) >= dag.quorum();
        (lowest.0..clock.0).rev().find(has_quorum).map_or(lowest, |round| Round(round) + 1)
    }

    /// Since when this round could be proposed.
    pub fn since(&self, round: Round) -> TimestampMs {
        if round == self.clock { self.clock_since } else { self.trusted_since }
    }

    pub fn raise_floor(&mut self, floor: Round) {
        self.uncovered = self.uncovered.split_off(&first_of(floor + 1));
    }

    pub fn proposed(&mut self, now: TimestampMs, round: Round) {
        self.highest_signed = round;
        self.proposed_at = Some(now);
    }

    /// E4, E8, E9: the round of the next own block and when it may be proposed; `None` while it may not.
    pub fn next(&self, dag: &Dag, config: &Config, floor: Round, shunned: &Shunned) -> Option<(Round, TimestampMs)> {
        let least = self.highest_signed.max(floor);
        let rested = self.proposed_at.map_or(0, |at| at.0 + config.min_round_ms);
        let (round, graced) = if self.trusted > least {
            let before = shunned.count_others(dag, self.trusted - 1);
            let all_here = self.trusted == Round(1) || before + shunned.authors.len() == shunned.committee_size;
            (self.trusted, if all_here { 0 } else { self.trusted_since.0 + config.parent_grace_ms })
        } else {
            // Longer than others take to fetch what such a block stands on, or one such round would lead to the next.
            (self.clock, self.clock_since.0 + config.parent_grace_ms.max(2 * config.fetch_retry_ms))
        };
        (round > least).then(|| (round, TimestampMs(rested.max(graced))))
    }

    /// When a block is due although nothing waits to be ordered.
    pub fn heartbeat_at(&self, config: &Config) -> TimestampMs {
        TimestampMs(self.proposed_at.unwrap_or(self.started_at).0 + config.heartbeat_ms)
    }

    /// E5: the own previous block, then one block of every other author of the previous round, then weak links to everything
    /// older that would otherwise stay unreferenced, newest first. The order is signed and fixes the votes (F1).
    pub fn parents(&self, dag: &Dag, context: &Context, round: Round, shunned: &Shunned) -> Vec<BlockRef> {
        let previous = round - 1;
        let of_previous = |author: ValidatorIndex| match previous {
            Round(0) => Some(context.genesis(author)),
            // Of siblings the first accepted; V4 forbids two.
            _ => dag.siblings(previous, author).next().map(|block| block.reference()),
        };
        let trusted = shunned.trusted().filter(|author| *author != self.me).filter_map(of_previous);
        let mut parents: Vec<_> = std::iter::once(self.tip).chain(trusted).collect();
        // V3: as many of the others as are needed.
        let counted = parents.iter().filter(|parent| parent.round == previous).count();
        let others = shunned.authors.iter().filter(|author| **author != self.me).filter_map(|author| of_previous(*author));
        parents.extend(others.take(dag.quorum().saturating_sub(counted)));
        self.add_weak_links(dag, previous, shunned, &mut parents);
        parents
    }

    /// E6: mandatory, or slow validators would be censored and their votes lost (P12). Equivocators are not slow, and a link to an old
    /// sibling is one to a chain that others lack.
    fn add_weak_links(&self, dag: &Dag, previous: Round, shunned: &Shunned, parents: &mut Vec<BlockRef>) {
        let limit = Config::max_parents(shunned.committee_size);
        let mut left = self.uncovered.clone();
        left.retain(|reference| !shunned.unlinked.contains(&reference.author));
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

/// Rounds below the clock that may lack a quorum of authors that are not shunned before these are counted.
const MAX_LOOK_BACK: u64 = 16;

/// Whom not to stand on: proven equivocators.
pub struct Shunned {
    pub authors: BTreeSet<ValidatorIndex>,
    /// Those too that were shunned once: parents, but no weak links.
    pub unlinked: BTreeSet<ValidatorIndex>,
    pub committee_size: usize,
}

impl Shunned {
    /// Authors of blocks of a round that are not shunned.
    fn count_others(&self, dag: &Dag, round: Round) -> usize {
        let is_here = |author: &&ValidatorIndex| dag.siblings(round, **author).next().is_some();
        dag.authors_at(round) - self.authors.iter().filter(is_here).count()
    }

    /// Everybody else.
    fn trusted(&self) -> impl Iterator<Item = ValidatorIndex> {
        (0u16..).take(self.committee_size).map(ValidatorIndex).filter(|author| !self.authors.contains(author))
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
