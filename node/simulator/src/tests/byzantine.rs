//! Byzantine validators in whole networks: up to f do no harm, more are detected.

use super::{CALM, passes, run, scenario};
use crate::{Verdict, scenario::parse};

const BEHAVIOURS: &[&str] =
    &["equivocator", "withholder", "silent", "garbage", "late", "twin", "parent-forger", "coin-share-forger"];

/// A fault of a scenario file.
pub(super) fn byzantine(nodes: &[usize], behaviour: &str) -> String {
    format!("[[fault]]\nkind = \"byzantine\"\nat = \"0s\"\nnodes = {nodes:?}\nbehaviour = \"{behaviour}\"\n")
}

#[test]
fn one_byzantine_of_four_breaks_nothing() {
    for behaviour in BEHAVIOURS {
        for seed in 0..2 {
            let report = run(&scenario(4, &format!("{CALM}{}", byzantine(&[1], behaviour))), seed);
            assert_eq!(report.verdict, Verdict::Pass, "seed {seed}, {behaviour}\n{}\n{:#?}", report.text(), report.violations);
        }
    }
}

#[test]
fn two_byzantine_of_seven_break_nothing() {
    let pairs = BEHAVIOURS.iter().zip(BEHAVIOURS.iter().cycle().skip(3));
    for (one, other) in pairs {
        let rest = format!("{CALM}{}{}", byzantine(&[0], one), byzantine(&[4], other));
        let report = run(&scenario(7, &rest), 5);
        assert_eq!(report.verdict, Verdict::Pass, "{one} and {other}\n{}\n{:#?}", report.text(), report.violations);
    }
}

/// Median latency in five regions, µs.
fn median(engine: &str, nodes: usize, faulty: usize, behaviour: &str) -> u64 {
    let text = format!(
        "engine = \"{engine}\"\nnodes = {nodes}\nduration = \"12s\"\n[network]\njitter = 0.05\n\
         regions = [\"us-east-2\", \"us-west-2\", \"af-south-1\", \"ap-east-1\", \"eu-south-1\"]\n\
         rtt_ms = [[4, 52, 242, 176, 111], [51, 3, 274, 136, 150], [241, 273, 3, 240, 168], [175, 136, 241, 1, 180], \
         [110, 151, 171, 179, 1]]\n[load]\nrate = 200\n{}",
        byzantine(&(nodes - faulty..nodes).collect::<Vec<_>>(), behaviour)
    );
    let report = run(&parse(&text).expect("a scenario"), 1);
    passes(&report);
    report.latency.expect("something was committed").p50
}

/// Equivocators and twins cost fetches and undecided slots only until they are proven.
#[test]
fn equivocators_cost_little_more_than_silent() {
    for engine in ["mahi-mahi", "autobahn"] {
        for (nodes, faulty) in [(4, 1), (10, 1), (10, 2), (10, 3)] {
            let silent = median(engine, nodes, faulty, "silent");
            for behaviour in ["equivocator", "twin"] {
                let found = median(engine, nodes, faulty, behaviour);
                assert!(found * 4 <= silent * 5, "{engine}, {faulty} of {nodes}: {behaviour} {found} µs, silent {silent} µs");
            }
        }
    }
}

const SPLIT: &str = "[[fault]]\nkind = \"partition\"\nat = \"1s\"\nuntil = \"3s\"\ngroups = [[0, 1, 2], [3]]\n";

#[test]
fn real_signatures_give_the_same_verdict() {
    let short = "duration = \"2s\"\ncrypto = \"real\"\n[network]\ndelay_ms = 20\n[load]\nrate = 50\ntx_bytes = 200\n";
    for enemy in ["", &byzantine(&[2], "coin-share-forger"), &byzantine(&[2], "equivocator")] {
        passes(&run(&scenario(4, &format!("{short}{enemy}")), 1));
    }
}

/// More Byzantine validators than the fault model allows break safety, and the checks must detect it.
#[test]
fn twins_beyond_fault_model_are_detected() {
    let within = run(&scenario(4, &format!("{CALM}{}{SPLIT}", byzantine(&[0], "twin"))), 1);
    passes(&within);
    // From the start; otherwise their siblings would be known, and no validator would build on either.
    let split = SPLIT.replace("at = \"1s\"", "at = \"0s\"");
    let beyond = run(&scenario(4, &format!("{CALM}{}{split}", byzantine(&[0, 1], "twin"))), 1);
    assert_eq!(beyond.verdict, Verdict::Diverged, "{}", beyond.text());
}
