//! The decision rules D0–D6: pure verdicts on a DAG. Calling them again is harmless.
//!
//! Every threshold counts distinct **authors**, never blocks: an equivocator's extra blocks must not forge a quorum (P2).

use crate::{
    dag::Dag,
    message::{BlockRef, Round},
};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_types::ValidatorIndex;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// A leader slot. Ordered by round, then rank (F6). May hold no block, one, or siblings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, BorshSerialize, BorshDeserialize)]
pub struct Slot {
    pub round: Round,
    pub rank: u16,
}

impl Slot {
    pub const FIRST: Self = Self { round: Round(1), rank: 0 };

    /// The slot after this one when each round has `leaders`.
    #[must_use]
    pub fn next(self, leaders: u16) -> Self {
        if self.rank + 1 < leaders { Self { rank: self.rank + 1, ..self } } else { Self { round: self.round + 1, rank: 0 } }
    }
}

/// What became of a slot. Final: it never changes as the DAG grows (D1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Commit(BlockRef),
    Skip,
}

/// Which rule decided a slot, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// D3: so many authors certify the block.
    Certified(usize),
    /// D4: the leader has no block, so nobody can vote for one.
    Empty,
    /// D4: at least so many authors do not vote, whichever sibling one looks at.
    Refused(usize),
    /// D5: the history of the block committed in this slot.
    Anchor(Slot),
}

/// A slot that was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    pub slot: Slot,
    pub leader: ValidatorIndex,
    pub verdict: Verdict,
    pub reason: Reason,
}

impl Decision {
    /// The rule in words; `committee_size` is what the counts are out of.
    pub fn why(&self, committee_size: usize) -> String {
        match (self.reason, self.verdict) {
            (Reason::Certified(authors), _) => format!("direct: {authors} of {committee_size} certify"),
            (Reason::Empty, _) => "skipped: no block".to_owned(),
            (Reason::Refused(authors), _) if authors == committee_size => "skipped: no votes".to_owned(),
            (Reason::Refused(authors), _) => format!("skipped: {authors} of {committee_size} do not vote for it"),
            (Reason::Anchor(anchor), Verdict::Commit(_)) => format!("anchor {anchor} holds a certificate"),
            (Reason::Anchor(anchor), Verdict::Skip) => format!("skipped: anchor {anchor} holds no certificate"),
        }
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}, {})", self.round, self.rank)
    }
}

/// D0: decides what can be decided of the slots from `next` up, into `verdicts`, and says what is new.
///
/// `order` gives the validators of a propose round in the order of their ranks, once its coin is open; the first `leaders`
/// of them have slots. Rounds are visited from the highest down, because D5 reads the verdicts of higher slots from this same
/// pass (D6).
pub fn decide<'a>(
    dag: &Dag,
    leaders: u16,
    order: impl Fn(Round) -> Option<&'a [ValidatorIndex]>,
    next: Slot,
    verdicts: &mut BTreeMap<Slot, Verdict>,
) -> Vec<Decision> {
    let mut decisions = Vec::new();
    let mut round = dag.top() - (dag.wave_length() - 1);
    while round >= next.round && round > Round(0) {
        // D2: before its coin is open, a slot has no validator yet and stays undecided.
        let ranked: Vec<_> = (0..leaders).zip(order(round).unwrap_or_default()).collect();
        for (rank, leader) in ranked.into_iter().rev() {
            let slot = Slot { round, rank };
            if slot < next || verdicts.contains_key(&slot) {
                continue; // D1: final verdicts stay.
            }
            let found = direct(dag, round, *leader).or_else(|| {
                let (anchor, block) = anchor(slot, dag.wave_length(), leaders, verdicts)?;
                Some((indirect(dag, round, *leader, &block), Reason::Anchor(anchor)))
            });
            if let Some((verdict, reason)) = found {
                verdicts.insert(slot, verdict);
                decisions.push(Decision { slot, leader: *leader, verdict, reason });
            }
        }
        round = round - 1;
    }
    decisions
}

/// D3 and D4: what the certify and vote rounds say by themselves.
pub fn direct(dag: &Dag, round: Round, leader: ValidatorIndex) -> Option<(Verdict, Reason)> {
    let certified = directly_certified(dag, round, leader);
    match certified.as_slice() {
        [] => directly_skipped(dag, round, leader).map(|reason| (Verdict::Skip, reason)),
        [(block, authors)] => Some((Verdict::Commit(*block), Reason::Certified(*authors))),
        // Lemma 6.4.2 is broken, so more validators are faulty than the committee stands; nothing may be output any more.
        _ => None,
    }
}

/// D3: the blocks of the slot that a quorum of distinct authors certify, and how many do. More than one only beyond the
/// fault bound.
pub fn directly_certified(dag: &Dag, round: Round, leader: ValidatorIndex) -> Vec<(BlockRef, usize)> {
    let certify_round = round + (dag.wave_length() - 1);
    let mut authors: BTreeMap<BlockRef, BTreeSet<ValidatorIndex>> = BTreeMap::new();
    for block in dag.round(certify_round) {
        if let Some(certified) = dag.certificate(&block.reference(), leader) {
            authors.entry(certified).or_default().insert(block.author());
        }
    }
    let counted = authors.into_iter().map(|(block, authors)| (block, authors.len()));
    counted.filter(|(_, authors)| *authors >= dag.quorum()).collect()
}

/// D4: (i) a quorum of authors has voted, and (ii) **every** known block of the slot has a quorum of authors not voting
/// for it. The printed algorithm skips as soon as *one* sibling has, which forks (P1).
fn directly_skipped(dag: &Dag, round: Round, leader: ValidatorIndex) -> Option<Reason> {
    let vote_round = round + (dag.wave_length() - 2);
    let refusing = |block: BlockRef| {
        let refusing = dag.round(vote_round).filter(|voter| dag.vote(&voter.reference(), leader) != Some(block));
        refusing.map(|voter| voter.author()).collect::<BTreeSet<_>>().len()
    };
    if dag.authors_at(vote_round) < dag.quorum() {
        return None;
    }
    match dag.siblings(round, leader).map(|block| refusing(block.reference())).min() {
        None => Some(Reason::Empty),
        Some(fewest) => (fewest >= dag.quorum()).then_some(Reason::Refused(fewest)),
    }
}

/// D5, first half: the first slot of round ≥ r + w that is not skipped, if it is committed. A slot that is still
/// undecided (absent here) ends the scan (P8); a nearer anchor would be unsafe (P9).
fn anchor(slot: Slot, wave_length: u64, leaders: u16, verdicts: &BTreeMap<Slot, Verdict>) -> Option<(Slot, BlockRef)> {
    let mut candidate = Slot { round: slot.round + wave_length, rank: 0 };
    while let Some(verdict) = verdicts.get(&candidate) {
        if let Verdict::Commit(block) = verdict {
            return Some((candidate, *block));
        }
        candidate = candidate.next(leaders);
    }
    None
}

/// D5, second half: commit what has a certificate in the anchor's history, else skip. Depends only on that history, so it is
/// the same at every validator.
fn indirect(dag: &Dag, round: Round, leader: ValidatorIndex, anchor: &BlockRef) -> Verdict {
    let certify_round = round + (dag.wave_length() - 1);
    let certificates = dag.history_at(anchor, certify_round);
    let certified: BTreeSet<_> = certificates.iter().filter_map(|block| dag.certificate(block, leader)).collect();
    certified.first().map_or(Verdict::Skip, |block| Verdict::Commit(*block))
}
