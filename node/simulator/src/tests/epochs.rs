//! Epochs that end under load, with faults: every transaction is committed once, and all nodes agree.

use super::{CALM, byzantine::byzantine, passes, run};
use crate::scenario::parse;

const ENGINES: [&str; 2] = ["mahi-mahi", "autobahn"];

/// Runs a network with epochs of a second with each engine and seed; at least `ended` epochs end.
fn under_every_engine(nodes: usize, seeds: u64, ended: u64, rest: &str) {
    for engine in ENGINES {
        for seed in 0..seeds {
            let text = format!("engine = \"{engine}\"\nnodes = {nodes}\nepoch_ms = 1000\n{rest}");
            let report = run(&parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}")), seed);
            passes(&report);
            assert!(report.epochs_ended >= ended, "{engine}, seed {seed}: {} epochs\n{}", report.epochs_ended, report.text());
        }
    }
}

#[test]
fn epochs_end_on_a_calm_network() {
    under_every_engine(4, 2, 5, CALM);
    under_every_engine(10, 1, 5, CALM);
}

#[test]
fn crashes_around_the_end_lose_nothing() {
    let crash = |kind: &str, at: u64, back: u64, node: u64| {
        format!("[[fault]]\nkind = \"{kind}\"\nat = \"{at}ms\"\nnodes = [{node}]\nrestart_at = \"{back}ms\"\n")
    };
    // At and around the ends of the first epochs, alone and one after the other.
    for at in [1_000, 1_020, 1_060, 1_100] {
        let faults = [crash("crash", at, at + 500, 1), crash("crash", at + 1_000, at + 1_030, 2)].concat();
        under_every_engine(4, 2, 4, &format!("{CALM}{faults}"));
    }
    let faults = [crash("disk_loss", 1_500, 1_600, 0), crash("crash", 3_000, 4_500, 3)].concat();
    under_every_engine(4, 2, 4, &format!("{CALM}{faults}"));
}

#[test]
fn partitions_end_with_the_same_epoch() {
    let part = |at: u64, until: u64, groups: &str| {
        format!("[[fault]]\nkind = \"partition\"\nat = \"{at}ms\"\nuntil = \"{until}ms\"\ngroups = {groups}\n")
    };
    for faults in [part(900, 2_400, "[[0], [1, 2, 3]]"), part(990, 1_500, "[[0, 1], [2, 3]]")] {
        under_every_engine(4, 2, 3, &format!("{CALM}{faults}"));
    }
}

#[test]
fn byzantine_validators_delay_no_end() {
    for behaviour in ["silent", "equivocator", "twin", "garbage", "withholder", "late"] {
        under_every_engine(4, 1, 3, &format!("{CALM}{}", byzantine(&[2], behaviour)));
    }
}

/// With real signatures a twin and an equivocator are convicted, and no other validator is. Twins under Autobahn propose the same
/// cuts.
#[test]
fn equivocation_is_convicted() {
    let cases = [
        ("mahi-mahi", "twin", &[2][..]),
        ("mahi-mahi", "equivocator", &[2]),
        ("autobahn", "twin", &[]),
        ("autobahn", "equivocator", &[2]),
    ];
    for (engine, behaviour, expected) in cases {
        let fault = byzantine(&[2], behaviour);
        let text = format!("engine = \"{engine}\"\nnodes = 4\nepoch_ms = 1000\ncrypto = \"real\"\n{CALM}{fault}");
        let report = run(&parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}")), 1);
        passes(&report);
        assert!(report.convicted.iter().eq(expected), "{engine}, {behaviour}: {:?}", report.convicted);
    }
}
