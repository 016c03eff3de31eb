//! The two worked examples of the thesis as drawings.

use crate::{
    decisions::{decide, directly},
    drawing::Drawing,
};
use corniche_mahi_mahi::{
    message::Round,
    rules::{Slot, Verdict},
};
use corniche_types::ValidatorIndex;
use std::collections::BTreeMap;

/// Figure 6.1: one wave of five rounds. No validator votes for 1'; only V3 votes for P3.
const FIGURE_6_1: &str = "
    1 | 0:*     | 1:*     | 1':*    | 2:*     | 3:*
    2 | 0:0 1 2 | 1:1 0 2 | 2:2 0 1 | 3:3 0 1 2
    3 | 0:0 1 2 | 1:1 0 2 | 2:2 0 1 | 3:3 0 1 2 1'@1
    4 | 0:0 1 2 | 1:1 0 2 | 2:2 0 1 | 3:3 0 1 2
    5 | 0:*     | 1:*     | 2:*     | 3:*
";

#[test]
fn figure_6_1_direct_decisions() {
    let drawing = Drawing::parse(4, 5, FIGURE_6_1);
    let dag = drawing.dag();
    let verdict = |leader| directly(&dag, 1, leader);
    for leader in ["0@1", "1@1", "2@1"] {
        let block = drawing.reference(leader);
        assert_eq!(verdict(block.author.0), Some(Verdict::Commit(block)));
    }
    assert_eq!(verdict(3), Some(Verdict::Skip), "three of four do not vote for P3");
    for certifier in ["0@5", "1@5", "2@5", "3@5"] {
        let certified = |leader| dag.certificate(&drawing.reference(certifier), ValidatorIndex(leader));
        assert_eq!(certified(1), Some(drawing.reference("1@1")), "P1' is never certified");
        assert_eq!(certified(3), None);
    }
}

/// Figure 6.2, with R = 1. Validator 0 equivocates in round 5 (L5b and L5b'); its block of round 6 is late everywhere.
pub const FIGURE_6_2: &str = "
    1  | 0:*       | 1:*        | 2:*        | 3:*
    2  | 0:0 1 2   | 1:1 0 2    | 2:2 0 1    | 3:3 0 1 2
    3  | 0:0 1 2   | 1:1 0 2    | 2:2 0 1    | 3:3 0 1 2
    4  | 0:0 1 2   | 1:1 0 2 3  | 2:2 0 1 3  | 3:3 0 1 2
    5  | 0:0 1 2   | 0':0 1 2   | 1:1 0 2    | 2:2 0 1   | 3:3 0 1 2
    6  | 0:0 1 2 3 | 1:1 0' 2 3 | 2:2 0' 1 3 | 3:3 0' 1 2
    7  | 0:0 1 2 3 | 1:1 2 3    | 2:2 1 3    | 3:3 1 2
    8  | 0:0 1 2 3 | 1:1 2 3    | 2:2 1 3    | 3:3 1 2
    9  | 0:0 1 2 3 | 1:1 2 3    | 2:2 1 3    | 3:3 1 2
    10 | 0:0 1 2 3 | 1:1 2 3    | 2:2 1 3
";
/// L1a L1b, L2a L2b, …
pub const LEADERS_6_2: [(u64, &[u16]); 6] =
    [(1, &[3, 0]), (2, &[0, 1]), (3, &[1, 3]), (4, &[0, 3]), (5, &[3, 0]), (6, &[0, 1])];

fn figure_6_2_verdicts(drawing: &Drawing) -> BTreeMap<Slot, Verdict> {
    let order = |round: Round| match usize::try_from(round.0).unwrap() {
        known @ 1..=6 => Some(&ORDERS[known - 1][..]),
        _ => None,
    };
    decide(&drawing.dag(), 2, order)
}

const fn pair(a: u16, b: u16) -> [ValidatorIndex; 2] {
    [ValidatorIndex(a), ValidatorIndex(b)]
}
const ORDERS: [[ValidatorIndex; 2]; 6] = [pair(3, 0), pair(0, 1), pair(1, 3), pair(0, 3), pair(3, 0), pair(0, 1)];

#[test]
fn figure_6_2_slot_decisions() {
    let drawing = Drawing::parse(4, 5, FIGURE_6_2);
    let dag = drawing.dag();
    // L6b has certificates of v0, v1 and v2; L6a lacks the votes of v1, v2 and v3.
    assert_eq!(directly(&dag, 6, 1), Some(Verdict::Commit(drawing.reference("1@6"))));
    assert_eq!(directly(&dag, 6, 0), Some(Verdict::Skip));
    // L5b is equivocated: v0 votes for one sibling, the others for the other.
    assert_eq!(dag.vote(&drawing.reference("0@8"), ValidatorIndex(0)), Some(drawing.reference("0@5")));
    for voter in ["1@8", "2@8", "3@8"] {
        assert_eq!(dag.vote(&drawing.reference(voter), ValidatorIndex(0)), Some(drawing.reference("0'@5")));
    }
    // L1a has one certificate, (v3, R+4), so the direct rule decides nothing …
    assert_eq!(directly(&dag, 1, 3), None);
    let certifiers = ["0@5", "0'@5", "1@5", "2@5", "3@5"];
    let certifying = |name: &&str| dag.certificate(&drawing.reference(name), ValidatorIndex(3)).is_some();
    assert_eq!(certifiers.into_iter().filter(certifying).collect::<Vec<_>>(), ["3@5"]);
    // … and the anchor L6b, found past the skipped L6a, has it in its history.
    let verdicts = figure_6_2_verdicts(&drawing);
    let told = verdicts.values().map(|verdict| match verdict {
        Verdict::Commit(block) => drawing.name(block),
        Verdict::Skip => "skip",
    });
    let told: Vec<_> = told.collect();
    let expected = ["3@1", "0@1", "0@2", "1@2", "1@3", "3@3", "0@4", "3@4", "3@5", "0'@5", "skip", "1@6"];
    assert_eq!(told, expected);
}

const OUTPUT_6_2: [&[&str]; 11] = [
    &["3@1"],               // L1a
    &["0@1"],               // L1b
    &["1@1", "2@1", "0@2"], // L2a
    &["1@2"],               // L2b
    &["2@2", "1@3"],        // L3a
    &["3@2", "3@3"],        // L3b
    &["0@3", "2@3", "0@4"], // L4a
    &["3@4"],               // L4b
    &["1@4", "2@4", "3@5"], // L5a
    &["0'@5"],              // L5b'
    &["1@5", "2@5", "1@6"], // L6b
];

#[test]
fn figure_6_2_delivery_order() {
    let drawing = Drawing::parse(4, 5, FIGURE_6_2);
    let commits = drawing.run(&LEADERS_6_2, 0..drawing.blocks().count());
    let names: Vec<_> = commits.iter().map(|(_, names)| names.clone()).collect();
    assert_eq!(names, OUTPUT_6_2.map(|commit| commit.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()));
}

#[test]
fn figure_6_2_commits_for_any_arrival_order() {
    let drawing = Drawing::parse(4, 5, FIGURE_6_2);
    let count = drawing.blocks().count();
    let expected: Vec<_> = drawing.run(&LEADERS_6_2, 0..count).into_iter().map(|(ordered, _)| ordered).collect();
    for seed in 1..60 {
        let mut order: Vec<_> = (0..count).collect();
        crate::cluster::Random::new(seed).shuffle(&mut order);
        let commits: Vec<_> = drawing.run(&LEADERS_6_2, order).into_iter().map(|(ordered, _)| ordered).collect();
        assert_eq!(commits, expected, "seed {seed}");
    }
}
