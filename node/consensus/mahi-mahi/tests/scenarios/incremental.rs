//! Compares incremental decisions with complete ones after every single step, on random DAGs with equivocators, random
//! orders of arrival and coins that open late.

use crate::{
    cluster::Random,
    crypto::committee,
    decisions::value,
    plain,
    votes::{committee_with, random_dag},
};
use corniche_engine::Committee;
use corniche_mahi_mahi::{
    coin::elect,
    dag::Dag,
    decisions::Decisions,
    message::{Block, Round},
    rules::{Reason, Slot, Verdict, Waves},
};
use corniche_types::ValidatorIndex;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Number of decisions per rule, to prove that the comparison covers all rules.
#[derive(Debug, Default)]
struct Seen {
    certified: usize,
    refused: usize,
    empty: usize,
    committed_by_anchor: usize,
    skipped_by_anchor: usize,
}

/// Returns the blocks in a random causal order. With less `haste`, a block may be held up longer behind later ones.
pub fn arrivals(dag: &Dag, haste: u64, random: &mut Random) -> Vec<Arc<Block>> {
    let mut left: Vec<_> = (1..=dag.top().0).flat_map(|round| dag.round(Round(round))).cloned().collect();
    let mut here = BTreeSet::new();
    let mut order = Vec::new();
    while !left.is_empty() {
        let ready = |block: &Arc<Block>| block.parents().iter().all(|parent| parent.round == Round(0) || here.contains(parent));
        let ready: Vec<_> = (0..left.len()).filter(|position| ready(&left[*position])).collect();
        let reach = if random.below(4) < haste { ready.len().min(3) } else { ready.len() };
        let block = left.remove(ready[random.below(reach as u64) as usize]);
        here.insert(block.reference());
        order.push(block);
    }
    order
}

struct Comparison {
    waves: Waves,
    orders: Vec<Vec<ValidatorIndex>>,
    opened: BTreeSet<Round>,
    view: Dag,
    incremental: Decisions,
    /// Verdicts of the plain rules; holds every verdict ever reached.
    plain: BTreeMap<Slot, Verdict>,
    told: BTreeMap<Slot, Verdict>,
    next: Slot,
}

impl Comparison {
    fn new(seed: u64, committee: &Committee, waves: Waves) -> Self {
        let seats = committee.weights().seats();
        Self {
            waves,
            orders: (0..40).map(|round| elect(&value(seed, round), &seats).order).collect(),
            opened: BTreeSet::new(),
            view: Dag::new(committee.weights(), waves.length),
            incremental: Decisions::new(waves),
            plain: BTreeMap::new(),
            told: BTreeMap::new(),
            next: Slot::FIRST,
        }
    }

    fn open(&mut self, coin: Round) {
        if self.view.votes_at(coin) >= self.view.quorum() && self.opened.insert(coin) {
            self.incremental.coin_opened(coin);
        }
    }

    fn decide(&mut self, seen: &mut Seen, context: &str) {
        let Self { waves, orders, opened, .. } = self;
        let order = |round: Round| opened.contains(&waves.certify_round(round)).then(|| &orders[round.0 as usize][..]);
        for decision in self.incremental.decide(&self.view, order, self.next) {
            let first = self.told.insert(decision.slot, decision.verdict);
            assert_eq!(first, None, "{context}: {:?} was told twice", decision.slot);
            match (decision.reason, decision.verdict) {
                (Reason::Certified(_), _) => seen.certified += 1,
                (Reason::NoBlock, _) => seen.empty += 1,
                (Reason::NonVotes(_), _) => seen.refused += 1,
                (Reason::Anchor(_), Verdict::Commit(_)) => seen.committed_by_anchor += 1,
                (Reason::Anchor(_), Verdict::Skip) => seen.skipped_by_anchor += 1,
            }
        }
        plain::decide(&self.view, waves, order, self.next, &mut self.plain);
        assert_eq!(self.told, self.plain, "{context}");
        while let Some(verdict) = self.incremental.take(self.next) {
            assert_eq!(self.told.get(&self.next), Some(&verdict), "{context}");
            self.next = self.waves.after(self.next);
        }
        assert_eq!(self.incremental.len(), self.told.range(self.next..).count(), "{context}: what was taken is gone");
    }
}

fn compare(seed: u64, committee: &Committee, waves: Waves, seen: &mut Seen) {
    let mut random = Random::new(seed);
    let dag = random_dag(committee, waves.length, 16, &mut random);
    let mut comparison = Comparison::new(seed, committee, waves);
    let context = format!("seed {seed}, {:?}, {waves:?}", committee.weights());
    let patience = 1 + seed % 5;
    for block in arrivals(&dag, seed % 5, &mut random) {
        comparison.view.insert(block.clone());
        comparison.incremental.block_arrived(block.round());
        let coin = Round(1 + random.below(block.round().0));
        if random.below(patience) == 0 {
            comparison.open(coin);
        }
        comparison.decide(seen, &context);
    }
    let mut coins: Vec<_> = (1..=dag.top().0).map(Round).collect();
    random.shuffle(&mut coins);
    for coin in coins {
        comparison.open(coin);
        comparison.decide(seen, &context);
    }
}

#[test]
fn incremental_decisions_match_full_decisions() {
    let mut seen = Seen::default();
    for seed in 0..180 {
        let size = [4, 7, 10][seed as usize % 3];
        let leaders = 1 + u16::try_from(seed / 6 % size as u64).unwrap();
        compare(seed, &committee(size), Waves::mahi_mahi(4 + seed / 3 % 2, leaders), &mut seen);
    }
    for seed in 200..260 {
        let size = [4, 7, 10][seed as usize % 3];
        let leaders = 1 + u16::try_from(seed / 6 % size as u64).unwrap();
        compare(seed, &committee_with(true, size), Waves::mahi_mahi(4 + seed / 3 % 2, leaders), &mut seen);
    }
    // Waves of a baseline: they do not overlap, and no leader is skipped before there is an anchor.
    for seed in 180..200 {
        let waves = Waves { length: 5, leaders: 1, stride: 5, direct_skip: false };
        compare(seed, &committee([4, 7, 10][seed as usize % 3]), waves, &mut seen);
    }
    let Seen { certified, refused, empty, committed_by_anchor, skipped_by_anchor } = seen;
    let rarest = [certified, refused, empty, committed_by_anchor, skipped_by_anchor].into_iter().min();
    assert!(rarest > Some(100), "every rule is met: {seen:?}");
}
