//! The decision rules on small drawings, and P1 and P2: the two ways in which the printed rules fork.

use crate::{
    cluster::Random,
    drawing::Drawing,
    plain,
    votes::{committee_with, random_dag},
};
use corniche_mahi_mahi::{
    CoinValue,
    coin::elect,
    dag::Dag,
    decisions::Decisions,
    message::{BlockRef, Round},
    rules::{Slot, Verdict, Waves, direct},
};
use corniche_types::ValidatorIndex;
use std::collections::BTreeMap;

fn verdict(text: &str, size: usize, leader: u16) -> Option<Verdict> {
    directly(&Drawing::parse(size, 4, text).dag(), 1, leader)
}

/// Verdict of the direct rules; the fast and the plain implementation must agree.
pub fn directly(dag: &Dag, round: u64, leader: u16) -> Option<Verdict> {
    let (waves, round, leader) = (Waves::mahi_mahi(dag.wave_length(), 1), Round(round), ValidatorIndex(leader));
    let verdict = direct(dag, &waves, round, leader).map(|(verdict, _)| verdict);
    assert_eq!(verdict, plain::direct(dag, &waves, round, leader));
    verdict
}

/// Decides a whole DAG at once with the engine's implementation.
pub fn decide<'a>(dag: &Dag, leaders: u16, order: impl Fn(Round) -> Option<&'a [ValidatorIndex]>) -> BTreeMap<Slot, Verdict> {
    let waves = Waves::mahi_mahi(dag.wave_length(), leaders);
    let mut decisions = Decisions::new(waves);
    for round in (1..=dag.top().0).map(Round) {
        decisions.block_arrived(round);
        if waves.propose_round_of_certify(round).and_then(&order).is_some() {
            decisions.coin_opened(round);
        }
    }
    let decided = decisions.decide(dag, order, Slot::FIRST);
    decided.into_iter().map(|decision| (decision.slot, decision.verdict)).collect()
}

#[test]
fn crashed_leader_is_skipped_directly() {
    // P3: the slot of validator 3 is empty.
    let text = "
        1 | 0:0 1 2 3 | 1:* | 2:*
        2 | 0:* | 1:* | 2:*
        3 | 0:* | 1:* | 2:*
    ";
    assert_eq!(verdict(text, 4, 3), Some(Verdict::Skip));
    assert_eq!(verdict(text, 4, 0), None, "there is no certify round yet");
}

/// Validator 3 shows 3' to all others and 3 only to itself: no voter votes for 3.
const SIBLING_NOBODY_VOTES_FOR: &str = "
    1 | 0:* | 1:* | 2:* | 3:* | 3':*
    2 | 0:0 1 2 3' | 1:1 0 2 3' | 2:2 0 1 3' | 3:3' 0 1 2
    3 | 0:* | 1:* | 2:* | 3:*
    4 | 0:* | 1:* | 2:* | 3:*
";

#[test]
fn p1_sibling_without_votes_does_not_skip_slot() {
    let drawing = Drawing::parse(4, 4, SIBLING_NOBODY_VOTES_FOR);
    assert_eq!(directly(&drawing.dag(), 1, 3), Some(Verdict::Commit(drawing.reference("3'@1"))));
    // Before the certify round is known, the slot is open, not skipped: others may have committed 3' already.
    let before: String =
        SIBLING_NOBODY_VOTES_FOR.lines().filter(|line| !line.trim().starts_with('4')).map(|line| format!("{line}\n")).collect();
    assert_eq!(verdict(&before, 4, 3), None);
}

#[test]
fn p2_equivocators_blocks_count_once() {
    // Validators 1 and 2 certify 0@1, and so do both siblings of 3: three blocks of the certify round, and a fourth.
    let certificates = "
        1 | 0:* | 1:* | 2:* | 3:*
        2 | 0:* | 1:* | 2:* | 3:*
        3 | 0:* | 1:* | 2:* | 3:1 2 3
        4 | 1:* | 3:* | 3':3 2 1 0
    ";
    assert_eq!(verdict(certificates, 4, 0), None, "two authors are no quorum");
    // Votes against: only validators 1 and 3 do not vote for 0@1.
    let refusals = "
        1 | 0:* | 1:* | 2:* | 3:*
        2 | 0:0 1 2 | 1:1 2 3 | 2:2 1 3 | 3:3 1 2
        3 | 0:0 1 2 | 1:1 2 3 | 3:1 2 3 | 3':2 1 3
    ";
    assert_eq!(verdict(refusals, 4, 0), None, "two authors refuse with three blocks");
    let refusals = format!("{refusals}\n 3 | 2:2 1 3");
    assert_eq!(verdict(&refusals, 4, 0), Some(Verdict::Skip), "three authors refuse");
    // Votes that an empty slot waits for: validator 3 is silent, 1 votes twice.
    let votes = "
        1 | 0:* | 1:* | 2:*
        2 | 0:* | 1:* | 2:*
        3 | 0:* | 1:* | 1':1 2 0
    ";
    assert_eq!(verdict(votes, 4, 3), None, "two authors have voted with three blocks");
    assert_eq!(verdict(&format!("{votes}\n 3 | 2:*"), 4, 3), Some(Verdict::Skip), "three authors have voted");
}

#[test]
fn consecutive_unconnected_leaders_both_commit() {
    // M10: 0@1 is not in the history of 1@2, yet enough other blocks carry it.
    let text = "
        1 | 0:* | 1:* | 2:* | 3:*
        2 | 0:* | 1:1 2 3 | 2:* | 3:*
        3 | 0:* | 1:* | 2:* | 3:*
        4 | 0:* | 1:* | 2:* | 3:*
        5 | 0:* | 1:* | 2:* | 3:*
    ";
    let drawing = Drawing::parse(4, 4, text);
    let dag = drawing.dag();
    assert!(!plain::history(&dag, drawing.reference("1@2")).contains(&drawing.reference("0@1")));
    assert_eq!(directly(&dag, 1, 0), Some(Verdict::Commit(drawing.reference("0@1"))));
    assert_eq!(directly(&dag, 2, 1), Some(Verdict::Commit(drawing.reference("1@2"))));
}

#[test]
fn vote_follows_parent_order() {
    // M11: both voters reach both siblings of 3.
    let text = "
        1 | 0:* | 1:* | 2:* | 3:* | 3':*
        2 | 0:0 1 2 3 | 1:1 0 2 3' | 2:2 0 1
        3 | 0:0 1 2 | 1:1 0 2 | 2:2 0 1 3'@1
    ";
    let drawing = Drawing::parse(4, 4, text);
    let vote = |voter| drawing.dag().vote(&drawing.reference(voter), ValidatorIndex(3));
    assert_eq!(vote("0@3"), Some(drawing.reference("3@1")));
    assert_eq!(vote("1@3"), Some(drawing.reference("3'@1")));
    // Depth first: the history of 0@2 comes before a link of 2@3's own further down the list.
    assert_eq!(vote("2@3"), Some(drawing.reference("3@1")));
}

#[test]
fn votes_of_older_rounds_do_not_certify() {
    // P4: 0@4 and 1@4 vote for 3@2, 2@4 does not. 0@5 also links 3@3, whose history contains 3@2 but which is not in
    // the vote round.
    let text = "
        1 | 0:* | 1:* | 2:* | 3:*
        2 | 0:* | 1:* | 2:* | 3:*
        3 | 0:0 1 2 | 1:0 1 2 | 2:0 1 2 | 3:*
        4 | 0:* | 1:* | 2:0 1 2 | 3:*
        5 | 0:0 1 2 3@3 | 1:0 1 3
    ";
    let drawing = Drawing::parse(4, 4, text);
    let dag = drawing.dag();
    assert_eq!(dag.certificate(&drawing.reference("0@5"), ValidatorIndex(3)), None);
    assert_eq!(dag.certificate(&drawing.reference("1@5"), ValidatorIndex(3)), Some(drawing.reference("3@2")));
}

pub fn value(seed: u64, round: u64) -> CoinValue {
    let mut value = [0; 48];
    value[..8].copy_from_slice(&seed.to_le_bytes());
    value[8..16].copy_from_slice(&round.to_le_bytes());
    value
}

/// Decisions of a validator that holds this part of the DAG.
fn decisions(dag: &Dag, seed: u64, leaders: u16) -> BTreeMap<Slot, Verdict> {
    let orders: Vec<_> = (0..40u64).map(|round| elect(&value(seed, round), &dag.weights().seats()).order).collect();
    let opened = |round: Round| {
        let coin_round = round + (dag.wave_length() - 1);
        (dag.votes_at(coin_round) >= dag.quorum()).then(|| &orders[usize::try_from(round.0).unwrap()][..])
    };
    decide(dag, leaders, opened)
}

/// A part of the DAG that another validator may hold: random blocks with their whole histories.
fn partial_view(dag: &Dag, random: &mut Random) -> Dag {
    let blocks: Vec<_> = (1..=dag.top().0).flat_map(|round| dag.round(Round(round))).cloned().collect();
    let mut held: std::collections::BTreeSet<BlockRef> = Default::default();
    for block in blocks.iter().rev() {
        let frontier = dag.top().0 - block.round().0;
        if held.contains(&block.reference()) || random.below(3 + 4 * frontier) > 1 {
            held.insert(block.reference());
            held.extend(block.parents().iter().copied());
        }
    }
    let mut view = Dag::new(dag.weights(), dag.wave_length());
    for block in blocks.iter().filter(|block| held.contains(&block.reference())) {
        view.insert(block.clone());
    }
    view
}

#[test]
fn partial_dag_views_decide_equally() {
    let mut decided = 0;
    for seed in 0..220 {
        let (size, wave_length) = [(4, 4), (4, 5), (7, 4), (7, 5)][seed as usize % 4];
        let leaders = 1 + u16::try_from(seed % 3).unwrap();
        let mut random = Random::new(seed);
        let dag = random_dag(&committee_with(seed >= 150, size), wave_length, 14, &mut random);
        let mut known: BTreeMap<Slot, Verdict> = decisions(&dag, seed, leaders);
        for _ in 0..8 {
            for (slot, verdict) in decisions(&partial_view(&dag, &mut random), seed, leaders) {
                let first = *known.entry(slot).or_insert(verdict);
                assert_eq!(first, verdict, "seed {seed}: {slot:?} decided differently");
                decided += 1;
            }
        }
    }
    assert!(decided > 5_000, "only {decided} decisions compared");
}
