//! Validators with unequal votes: thresholds are votes, with real and modelled signatures.

use super::{CALM, byzantine::byzantine, passes};
use crate::{Report, Scenario, Verdict, scenario::parse};

fn scenario(engine: &str, votes: &[u32], rest: &str) -> Scenario {
    let nodes = votes.len();
    let text = format!("engine = \"{engine}\"\nnodes = {nodes}\nvotes = {votes:?}\n{rest}");
    parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn run(engine: &str, votes: &[u32], rest: &str) -> Report {
    super::run(&scenario(engine, votes, rest), 1)
}

fn crash(nodes: &[usize]) -> String {
    format!("{CALM}[[fault]]\nkind = \"crash\"\nat = \"2s\"\nnodes = {nodes:?}\n")
}

const ENGINES: [&str; 2] = ["mahi-mahi", "autobahn"];

/// W = 11, F = 3, Q = 8: two of seven with three votes may be lost, and two with four may not.
#[test]
fn quorum_of_votes_decides_about_progress() {
    let votes = [3, 2, 2, 1, 1, 1, 1];
    for engine in ENGINES {
        let alive = run(engine, &votes, &crash(&[1, 3]));
        assert_eq!((alive.verdict, alive.violations.len()), (Verdict::Pass, 0), "{engine}\n{}", alive.text());
        // Five of seven are up, which would be a quorum of validators.
        let halted = run(engine, &votes, &crash(&[1, 2]));
        assert_eq!((halted.verdict, halted.violations.len()), (Verdict::NoProgress, 0), "{engine}\n{}", halted.text());
    }
}

/// Three small validators have F votes, where f would be two.
#[test]
fn byzantine_validators_with_few_votes_break_nothing() {
    let votes = [3, 2, 2, 1, 1, 1, 1];
    for engine in ENGINES {
        for behaviour in ["equivocator", "silent", "twin"] {
            for nodes in [&[3, 4, 5][..], &[0]] {
                let scenario = scenario(engine, &votes, &format!("{CALM}{}", byzantine(nodes, behaviour)));
                assert_eq!(scenario.remark(), None);
                let report = super::run(&scenario, 2);
                assert_eq!(
                    report.verdict,
                    Verdict::Pass,
                    "{engine}, {behaviour} {nodes:?}\n{}\n{:#?}",
                    report.text(),
                    report.violations
                );
            }
        }
    }
    let remark = scenario("mahi-mahi", &votes, &format!("{CALM}{}", byzantine(&[0, 3], "silent"))).remark().expect("too many");
    assert_eq!(remark, "Byzantine validators have 4 of 11 votes, tolerated are 3; expect violations");
}

#[test]
fn real_coins_and_certificates_open_by_votes() {
    let short = "duration = \"2s\"\ncrypto = \"real\"\n[network]\ndelay_ms = 20\n[load]\nrate = 50\ntx_bytes = 200\n";
    for engine in ENGINES {
        passes(&run(engine, &[2, 2, 2, 1], short));
    }
}
