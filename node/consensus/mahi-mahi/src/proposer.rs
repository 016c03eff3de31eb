//! Time, round and parents of own proposals (E4–E10).
//!
//! No rule here waits for a particular validator: the leaders are still unknown (E4). The pauses only limit the rate: a
//! minimum round time, a short grace time for parents beyond the quorum, and no proposals while no batch waits to be
//! ordered.
//!
//! **Rounds are quicker under light load.** Then the minimum round time is a millisecond for each validator instead of
//! `min_round_ms`: latency is shorter while processors have time. The load is the rate of bytes in the last rounds, by
//! the own clock. Over several rounds, so that bursts count; by time, because quicker rounds carry less.
//!
//! **Rounds stretch under load.** A round costs the same signatures, coin and messages regardless of its batches. So the
//! minimum round time grows with the bytes of the previous round's batches, up to `max_stretch` times. All validators
//! see these blocks. Where they still judge differently, the fast ones decide: a stretched pause ends when
//! validators with F + 1 votes have proposed. The batch that counts is one that authors with F + 1 votes reach, so
//! validators with F votes and no other load cannot stretch rounds. Rounds with large batches are not stretched: it
//! would limit the throughput and gain little.
//!
//! **Proven equivocators are not taken as parents** if a quorum exists without them. An equivocator shows its siblings
//! to different validators, so everyone else must fetch a block's parent first if that block builds on a sibling, in
//! every round. So the proposed round is the one after the last with a quorum of other authors, as if the equivocators
//! were silent. If that round does not advance for a short time, because others jumped a round or are down,
//! equivocators are counted and as few as needed are taken. The rules of agreement do not depend on the parents of a
//! block beyond its quorum.

use crate::{
    config::{Config, LIGHT_BYTES_PER_SECOND},
    dag::Dag,
    message::{BlockRef, Context, Round, first_of},
};
use corniche_engine::Batch;
use corniche_types::{TimestampMs, ValidatorIndex, Votes};
use std::collections::{BTreeSet, VecDeque};

/// The proposing side of a validator.
pub struct Proposer {
    me: ValidatorIndex,
    /// E8: highest round for which this validator is known to have signed a block, in this incarnation or an earlier one.
    pub highest_signed: Round,
    /// V5: highest own block in the DAG; without any, the own genesis block.
    tip: BlockRef,
    /// E6: accepted blocks that are not in the history of `tip`.
    uncovered: BTreeSet<BlockRef>,
    /// Time of the last own proposal; `None` before the first of this incarnation.
    proposed_at: Option<TimestampMs>,
    /// Time of construction, from which the first heartbeat counts.
    started_at: TimestampMs,
    /// Highest proposable round, and the time since when it is.
    clock: Round,
    clock_since: TimestampMs,
    /// [`Dag::batch_bytes`] of the round before `clock`: at least one honest validator's batch is as large.
    batch_bytes: usize,
    /// Times at which the last rounds became proposable.
    advances: VecDeque<(Round, TimestampMs)>,
    /// The last rounds carried some bytes, but fewer than [`LIGHT_BYTES_PER_SECOND`].
    is_light: bool,
    /// Highest proposable round if proven equivocators were silent.
    trusted: Round,
    trusted_since: TimestampMs,
    /// A batch that waits to be proposed.
    pub batch: Option<Batch>,
    pub batch_request: BatchRequest,
}

/// State of the request for a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchRequest {
    None,
    /// Just requested; the batch may come before the next deadline, so an empty block would be premature.
    Fresh,
    /// Requested without a response yet; the batch comes when there are transactions.
    Overdue,
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
            batch_bytes: 0,
            advances: VecDeque::new(),
            is_light: false,
            trusted: Round(1),
            trusted_since: now,
            batch: None,
            batch_request: BatchRequest::None,
        }
    }

    pub fn me(&self) -> ValidatorIndex {
        self.me
    }

    /// Highest own block that is durable and in the DAG.
    pub fn tip(&self) -> BlockRef {
        self.tip
    }

    /// E2: a block entered the DAG.
    pub fn accepted(&mut self, dag: &Dag, reference: BlockRef) {
        if reference.author != self.me {
            self.uncovered.insert(reference);
        } else {
            self.highest_signed = self.highest_signed.max(reference.round);
            remove_covered(dag, &mut self.uncovered, dag.get(&reference).map_or(&[][..], |block| block.parents()));
            if reference.round > self.tip.round {
                self.tip = reference;
            }
        }
    }

    pub fn observe_clock(&mut self, now: TimestampMs, dag: &Dag, excluded: &ExcludedAuthors) {
        let (clock, trusted) = (dag.clock(), self.trusted_clock(dag, excluded));
        if clock > self.clock {
            (self.clock, self.clock_since) = (clock, now);
            self.batch_bytes = dag.batch_bytes(clock - 1);
            self.observe_load(dag);
        }
        if trusted != self.trusted {
            (self.trusted, self.trusted_since) = (trusted, now);
        }
    }

    /// Compares the bytes of the last rounds with their time.
    fn observe_load(&mut self, dag: &Dag) {
        if let Some(&(round, at)) = self.advances.front() {
            let bytes = 1_000 * dag.batch_bytes_from(round) as u64;
            // Without any bytes there is no hurry: execution may be behind, and then all batches are empty.
            self.is_light = bytes > 0 && bytes < LIGHT_BYTES_PER_SECOND * self.clock_since.0.saturating_sub(at.0);
        }
        self.advances.push_back((self.clock, self.clock_since));
        if self.advances.len() > LOAD_ROUNDS {
            self.advances.pop_front();
        }
    }

    /// One above the highest round with a quorum of authors that are not excluded. That round may be proposed already.
    fn trusted_clock(&self, dag: &Dag, excluded: &ExcludedAuthors) -> Round {
        let (clock, lowest) = (dag.clock(), self.highest_signed.max(dag.clock() - MAX_LOOK_BACK));
        if excluded.authors.is_empty() || clock == Round(1) {
            return clock;
        }
        let has_quorum = |round: &u64| excluded.included(dag, Round(*round)) >= dag.quorum();
        (lowest.0..clock.0).rev().find(has_quorum).map_or(lowest, |round| Round(round) + 1)
    }

    /// Time since when this round is proposable.
    pub fn since(&self, round: Round) -> TimestampMs {
        if round == self.clock { self.clock_since } else { self.trusted_since }
    }

    pub fn raise_floor(&mut self, floor: Round) {
        self.uncovered = self.uncovered.split_off(&first_of(floor + 1));
    }

    pub fn proposed(&mut self, now: TimestampMs, round: Round) {
        self.highest_signed = self.highest_signed.max(round);
        self.proposed_at = Some(now);
    }

    /// E4, E8, E9: the round of the next own block and the earliest time to propose it; `None` if proposing is not
    /// allowed yet.
    pub fn next(&self, dag: &Dag, config: &Config, floor: Round, excluded: &ExcludedAuthors) -> Option<(Round, TimestampMs)> {
        let least = self.highest_signed.max(floor);
        let others_proposed = dag.votes_at(self.clock) >= dag.weights().validity();
        let pause_ms = if self.is_light {
            config.light_pause_ms(excluded.committee_size)
        } else if others_proposed {
            config.min_round_ms
        } else {
            config.pause_ms(self.batch_bytes, excluded.committee_size)
        };
        let rested = self.proposed_at.map_or(0, |at| at.0 + pause_ms);
        let (round, graced) = if self.trusted > least {
            let before = excluded.included(dag, self.trusted - 1);
            let expected = dag.weights().weigh(excluded.trusted());
            let all_here = self.trusted == Round(1) || before == expected;
            (self.trusted, if all_here { 0 } else { self.trusted_since.0 + config.parent_grace_ms })
        } else {
            // Longer than others need to fetch such a block's parents. Otherwise one such round would cause the next.
            (self.clock, self.clock_since.0 + config.parent_grace_ms.max(2 * config.fetch_retry_ms))
        };
        (round > least).then(|| (round, TimestampMs(rested.max(graced))))
    }

    /// Time at which a block is due even if no batch waits to be ordered.
    pub fn heartbeat_at(&self, config: &Config) -> TimestampMs {
        TimestampMs(self.proposed_at.unwrap_or(self.started_at).0 + config.heartbeat_ms)
    }

    /// E5: the own previous block, then one block of every other author of the previous round, then weak links to older
    /// blocks that would otherwise stay unreferenced, newest first. The order is signed and fixes the votes (F1).
    pub fn parents(&self, dag: &Dag, context: &Context, round: Round, excluded: &ExcludedAuthors) -> Vec<BlockRef> {
        let previous = round - 1;
        let of_previous = |author: ValidatorIndex| match previous {
            Round(0) => Some(context.genesis(author)),
            // Among siblings, the first accepted one; V4 forbids two.
            _ => dag.siblings(previous, author).next().map(|block| block.reference()),
        };
        let trusted = excluded.trusted().filter(|author| *author != self.me).filter_map(of_previous);
        let mut parents: Vec<_> = std::iter::once(self.tip).chain(trusted).collect();
        // V3: as many equivocators as needed for a quorum.
        let included = parents.iter().filter(|parent| parent.round == previous).map(|parent| parent.author);
        let missing = dag.quorum() - dag.weights().weigh(included);
        let others = excluded.authors.iter().copied().filter(|author| *author != self.me && of_previous(*author).is_some());
        parents.extend(dag.weights().take_votes(others, missing).into_iter().filter_map(of_previous));
        self.add_weak_links(dag, previous, excluded, &mut parents);
        parents
    }

    /// E6: mandatory; otherwise slow validators would be censored and their votes lost (P12). Equivocators are not
    /// slow, and a link to an old sibling would reference a chain that others lack.
    fn add_weak_links(&self, dag: &Dag, previous: Round, excluded: &ExcludedAuthors, parents: &mut Vec<BlockRef>) {
        let limit = Config::max_parents(excluded.committee_size);
        let may_be_linked = |reference: &&BlockRef| !excluded.without_weak_links.contains(&reference.author);
        let mut left: BTreeSet<_> = self.uncovered.iter().filter(may_be_linked).copied().collect();
        remove_covered(dag, &mut left, parents);
        let mut slots: BTreeSet<_> = parents.iter().map(|parent| (parent.round, parent.author)).collect();
        left.retain(|reference| reference.round < previous);
        while parents.len() < limit {
            let Some(newest) = left.pop_last() else { return };
            if slots.insert((newest.round, newest.author)) {
                remove_covered(dag, &mut left, dag.get(&newest).map_or(&[][..], |block| block.parents()));
                parents.push(newest);
            }
        }
    }
}

/// Number of rounds over which the load is measured.
const LOAD_ROUNDS: usize = 8;

/// Number of rounds below the clock that may lack a quorum of trusted authors before equivocators are counted.
const MAX_LOOK_BACK: u64 = 16;

/// Authors that proposals avoid as parents: proven equivocators.
pub struct ExcludedAuthors {
    pub authors: BTreeSet<ValidatorIndex>,
    /// Also includes authors that were excluded once: they may be parents, but get no weak links.
    pub without_weak_links: BTreeSet<ValidatorIndex>,
    pub committee_size: usize,
}

impl ExcludedAuthors {
    /// Votes of the authors with a block in a round that are not excluded.
    fn included(&self, dag: &Dag, round: Round) -> Votes {
        let is_here = |author: &ValidatorIndex| dag.siblings(round, *author).next().is_some();
        dag.votes_at(round) - dag.weights().weigh(self.authors.iter().copied().filter(is_here))
    }

    /// All authors that are not excluded.
    fn trusted(&self) -> impl Iterator<Item = ValidatorIndex> {
        (0u16..).take(self.committee_size).map(ValidatorIndex).filter(|author| !self.authors.contains(author))
    }
}

/// Removes `parents` and their histories from `left`. A block outside `left` was covered before, with its whole
/// history.
fn remove_covered(dag: &Dag, left: &mut BTreeSet<BlockRef>, parents: &[BlockRef]) {
    let mut stack = parents.to_vec();
    while let Some(reference) = stack.pop() {
        if left.remove(&reference) {
            stack.extend_from_slice(dag.get(&reference).map_or(&[][..], |block| block.parents()));
        }
    }
}
