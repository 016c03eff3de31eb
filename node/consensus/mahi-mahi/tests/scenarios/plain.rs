//! The decision rules as the specification states them: every slot, from the highest down, each time anew (D0–D6). Slow
//! and simple, as a reference for the engine.

use corniche_mahi_mahi::{
    dag::Dag,
    message::{BlockRef, Round},
    rules::{Slot, Verdict, Waves},
};
use corniche_types::ValidatorIndex;
use std::collections::{BTreeMap, BTreeSet};

/// D0: decides all decidable slots from `next` upwards, into `verdicts`, which holds final ones only.
pub fn decide<'a>(
    dag: &Dag,
    waves: &Waves,
    order: impl Fn(Round) -> Option<&'a [ValidatorIndex]>,
    next: Slot,
    verdicts: &mut BTreeMap<Slot, Verdict>,
) {
    let rounds = (next.round.0..=dag.top().0).rev().filter(|round| (round - 1) % waves.stride == 0);
    for round in rounds.map(Round) {
        // D2: before its coin is open, a slot has no leader yet and stays undecided.
        let ranked: Vec<_> = (0..waves.leaders).zip(order(round).unwrap_or_default()).collect();
        for (rank, leader) in ranked.into_iter().rev() {
            let slot = Slot { round, rank };
            if slot < next || verdicts.contains_key(&slot) {
                continue; // D1: final verdicts stay.
            }
            let verdict = direct(dag, waves, round, *leader)
                .or_else(|| Some(indirect(dag, waves, round, *leader, anchor(slot, waves, verdicts)?)));
            if let Some(verdict) = verdict {
                verdicts.insert(slot, verdict);
            }
        }
    }
}

/// D3 and D4.
pub fn direct(dag: &Dag, waves: &Waves, round: Round, leader: ValidatorIndex) -> Option<Verdict> {
    let mut certifiers: BTreeMap<BlockRef, BTreeSet<ValidatorIndex>> = BTreeMap::new();
    for block in dag.round(round + (waves.length - 1)) {
        if let Some(certified) = dag.certificate(&block.reference(), leader) {
            certifiers.entry(certified).or_default().insert(block.author());
        }
    }
    certifiers.retain(|_, authors| dag.weights().weigh(authors.iter().copied()) >= dag.quorum());
    match certifiers.len() {
        0 => (waves.direct_skip && is_skipped(dag, waves, round, leader)).then_some(Verdict::Skip),
        1 => certifiers.keys().next().map(|block| Verdict::Commit(*block)),
        _ => None,
    }
}

fn is_skipped(dag: &Dag, waves: &Waves, round: Round, leader: ValidatorIndex) -> bool {
    let vote_round = round + (waves.length - 2);
    let lacks_votes = |block: BlockRef| {
        let refusing = dag.round(vote_round).filter(|voter| dag.vote(&voter.reference(), leader) != Some(block));
        let authors: BTreeSet<_> = refusing.map(|voter| voter.author()).collect();
        dag.weights().weigh(authors) >= dag.quorum()
    };
    dag.votes_at(vote_round) >= dag.quorum() && dag.siblings(round, leader).all(|block| lacks_votes(block.reference()))
}

/// D5, first half.
fn anchor(slot: Slot, waves: &Waves, verdicts: &BTreeMap<Slot, Verdict>) -> Option<BlockRef> {
    let mut candidate = Slot { round: slot.round + waves.length, rank: 0 };
    loop {
        match verdicts.get(&candidate)? {
            Verdict::Commit(block) => return Some(*block),
            Verdict::Skip => candidate = waves.after(candidate),
        }
    }
}

/// D5, second half.
fn indirect(dag: &Dag, waves: &Waves, round: Round, leader: ValidatorIndex, anchor: BlockRef) -> Verdict {
    let history = history(dag, anchor);
    let certify_round = history.iter().filter(|block| block.round == round + (waves.length - 1));
    let certified = certify_round.filter_map(|block| dag.certificate(block, leader)).min();
    certified.map_or(Verdict::Skip, Verdict::Commit)
}

pub fn history(dag: &Dag, from: BlockRef) -> BTreeSet<BlockRef> {
    let mut seen = BTreeSet::from([from]);
    let mut stack = vec![from];
    while let Some(block) = stack.pop().and_then(|reference| dag.get(&reference)) {
        stack.extend(block.parents().iter().filter(|parent| dag.contains(parent) && seen.insert(**parent)));
    }
    seen
}
