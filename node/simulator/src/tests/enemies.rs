//! Byzantine validators in whole networks: up to f break nothing, more are caught.

use super::{CALM, passes, run, scenario};
use crate::Verdict;

const BEHAVIOURS: &[&str] =
    &["equivocator", "withholder", "silent", "garbage", "late", "twin", "parent-forger", "coin-share-forger"];

fn byzantine(nodes: &[usize], behaviour: &str) -> String {
    format!("[[fault]]\nkind = \"byzantine\"\nat = \"0s\"\nnodes = {nodes:?}\nbehaviour = \"{behaviour}\"\n")
}

#[test]
fn one_enemy_of_four_breaks_nothing() {
    for behaviour in BEHAVIOURS {
        for seed in 0..2 {
            let report = run(&scenario(4, &format!("{CALM}{}", byzantine(&[1], behaviour))), seed);
            assert_eq!(report.verdict, Verdict::Pass, "seed {seed}, {behaviour}\n{}\n{:#?}", report.text(), report.violations);
        }
    }
}

#[test]
fn two_different_enemies_of_seven_break_nothing() {
    let pairs = BEHAVIOURS.iter().zip(BEHAVIOURS.iter().cycle().skip(3));
    for (one, other) in pairs {
        let rest = format!("{CALM}{}{}", byzantine(&[0], one), byzantine(&[4], other));
        let report = run(&scenario(7, &rest), 5);
        assert_eq!(report.verdict, Verdict::Pass, "{one} and {other}\n{}\n{:#?}", report.text(), report.violations);
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

/// More enemies than the fault model allows break safety, and it must be noticed.
#[test]
fn twins_beyond_the_fault_model_are_caught() {
    let within = run(&scenario(4, &format!("{CALM}{}{SPLIT}", byzantine(&[0], "twin"))), 1);
    passes(&within);
    let beyond = run(&scenario(4, &format!("{CALM}{}{SPLIT}", byzantine(&[0, 1], "twin"))), 1);
    assert_eq!(beyond.verdict, Verdict::Diverged, "{}", beyond.text());
}
