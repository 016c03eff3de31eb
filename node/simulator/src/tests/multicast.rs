//! NeoBFT in whole networks: message delays, faults of the sequencer, and Byzantine members that attack the multicast.

use super::{CALM, byzantine::byzantine, passes};
use crate::{Report, Scenario, Verdict, scenario::parse};

/// Links of one delay; nothing else costs time.
const LOCK_STEP: &str = include_str!("../../tests/fixtures/lock-step.toml");
/// Timers that suit links of 20 ms.
const QUICK: &str = "reorder_ms = 5\nquery_ms = 100\ngap_ms = 600\nrequest_ms = 300\naom_ms = 800\nview_ms = 600\n\
                     max_view_ms = 3000\nmax_drops = 1000000\nsync_slots = 16\nretain_slots = 200\nopen_slots = 512\n";

/// A network with the given keys of `[engine_config]` and `[sequencer]`, and the rest of the file.
fn network(nodes: usize, config: &str, sequencer: &str, rest: &str) -> Scenario {
    let tables = format!("[engine_config]\n{config}[sequencer]\n{sequencer}");
    let text = format!("engine = \"neobft\"\nnodes = {nodes}\n{rest}{tables}");
    // Tables come after the keys of the file itself.
    parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn calm(nodes: usize, config: &str, sequencer: &str, faults: &str) -> Scenario {
    network(nodes, &format!("{QUICK}{config}"), sequencer, &format!("{CALM}{faults}"))
}

fn run(scenario: &Scenario) -> Report {
    super::run(scenario, 1)
}

/// A fault of the sequencer.
fn sequencer(at_ms: u64, does: &str) -> String {
    format!("[[fault]]\nkind = \"sequencer\"\nat = \"{at_ms}ms\"\n{does}\n")
}

const SILENT: &str = "does = \"silent\"";

/// §5 of the specification: two delays with a sequencer in the path, one more on a host or for CONFIRM, for every request of
/// every author.
#[test]
fn message_delays_match_specification() {
    let load = "[load]\nrate = 50\ntx_bytes = 128\n";
    let cases = [
        (2, 0, "suite = 1"),
        (2, 0, "suite = 2"),
        (2, 0, "suite = 5"),
        (3, 0, "suite = 1\nplace = \"host\""),
        (3, 1, "suite = 1"),
        (3, 1, "suite = 5"),
        (4, 1, "suite = 1\nplace = \"host\""),
    ];
    for (delays, byzantine_network, sequencer) in cases {
        for nodes in [4, 7] {
            // Nothing waits but for messages.
            let config = format!("byzantine_network = {byzantine_network}\nreorder_ms = 0\nrequest_interval_ms = 0\n");
            let rest = format!("duration = \"10s\"\n{LOCK_STEP}{load}");
            let report = run(&network(nodes, &config, &format!("{sequencer}\n"), &rest));
            passes(&report);
            let commit = report.commit.expect("something was committed");
            let expected = delays * 50_000;
            assert_eq!(
                (commit.p50, commit.p99),
                (expected, expected),
                "{nodes} nodes, {sequencer}, byzantine_network = {byzantine_network}: {commit:?}"
            );
        }
    }
}

#[test]
fn calm_group_commits_everything() {
    for suite in ["suite = 1\n", "suite = 2\n", "suite = 4\n", "suite = 5\nsign_every = 4\n"] {
        for byzantine_network in [0, 1] {
            let report = run(&calm(5, &format!("byzantine_network = {byzantine_network}\n"), suite, ""));
            passes(&report);
            assert_eq!((report.committed, report.failovers), (1_200, 0), "{suite}{}", report.text());
        }
    }
}

/// One request of one transaction: a tag vector of ⌈n/4⌉ packets in, one REPLY to each other out.
#[test]
fn each_replica_sends_one_message_per_request() {
    for (nodes, vector) in [(4, 1), (7, 2), (10, 3)] {
        let rest = format!("duration = \"20s\"\n{LOCK_STEP}[load]\nrate = 5\ntx_bytes = 128\n");
        let config = "clock_ms = 3600000\nquery_ms = 3600000\n";
        let mut report = run(&network(nodes, config, "", &rest));
        passes(&report);
        let nodes = nodes as u64;
        let requests = report.committed;
        assert_eq!(report.received.0, requests * vector * nodes, "{nodes} nodes");
        report.ordering.messages -= requests;
        let replies = report.ordering.messages as f64 / (report.committed * nodes * (nodes - 1)) as f64;
        assert!((1.0..1.05).contains(&replies), "{nodes} nodes: {replies} messages per request and pair");
    }
}

#[test]
fn failover_replaces_a_silent_sequencer() {
    for suite in ["suite = 1\n", "suite = 5\nsign_every = 4\n"] {
        let report = run(&calm(4, "", suite, &sequencer(2_000, SILENT)));
        passes(&report);
        assert_eq!(report.failovers, 1, "{suite}{}", report.text());
        assert!((800_000..3_000_000).contains(&report.stalled_us), "{suite}{}", report.text());
    }
}

#[test]
fn faults_of_the_sequencer_are_survived() {
    let cases = [
        ("does = \"duplicates\"", 0, 0),
        ("does = \"jump\"\nnumbers = 10", 0, 0),
        // More than `max_jump`.
        ("does = \"jump\"\nnumbers = 5000", 0, 1),
        // The victim asks the others for every packet.
        ("does = \"equivocates\"\nnodes = [2]", 1, 0),
        ("does = \"equivocates\"\nnodes = [0, 1]", 1, 1),
    ];
    for (does, byzantine_network, failovers) in cases {
        let config = format!("byzantine_network = {byzantine_network}\n");
        let report = run(&calm(4, &config, "", &sequencer(2_000, does)));
        passes(&report);
        assert_eq!(report.failovers, failovers, "{does}\n{}", report.text());
    }
}

#[test]
fn losses_at_receivers_are_repaired() {
    for (loss, byzantine_network) in [("0.001", 0), ("0.01", 0), ("0.01", 1), ("0.05", 0)] {
        let config = format!("byzantine_network = {byzantine_network}\n");
        let report = run(&calm(4, &config, &format!("loss = {loss}\n"), ""));
        passes(&report);
        assert_eq!(report.failovers, 0, "{loss}\n{}", report.text());
    }
}

#[test]
fn real_signatures_give_the_same_verdict() {
    for (suite, fault) in [("suite = 1\n", String::new()), ("suite = 4\n", sequencer(700, SILENT))] {
        let rest = "duration = \"2s\"\ncrypto = \"real\"\n[network]\ndelay_ms = 20\n[load]\nrate = 50\ntx_bytes = 200\n";
        passes(&run(&network(4, QUICK, suite, &format!("{rest}{fault}"))));
    }
}

/// Up to F votes of liars, with losses that need them for gap agreement.
#[test]
fn liars_about_gaps_break_nothing() {
    for behaviour in ["gap-liar", "equivocator", "twin", "garbage", "withholder", "silent", "late"] {
        for byzantine_network in [0, 1] {
            let config = format!("byzantine_network = {byzantine_network}\n");
            let report = run(&calm(4, &config, "loss = 0.02\n", &byzantine(&[0], behaviour)));
            assert_eq!(
                report.verdict,
                Verdict::Pass,
                "{behaviour}, {byzantine_network}\n{}\n{:#?}",
                report.text(),
                report.violations
            );
        }
    }
    passes(&run(&calm(7, "", "loss = 0.02\n", &byzantine(&[1, 4], "gap-liar"))));
}

/// Pitfall 6: nobody is hurt by damaged tags in QUERY-REPLY and GAP-RECV, and a leader that damages its GAP-DECISION loses its view.
#[test]
fn forgers_of_tags_break_nothing() {
    for node in [0, 2] {
        for suite in [1, 2] {
            let report = run(&calm(4, "", &format!("suite = {suite}\nloss = 0.02\n"), &byzantine(&[node], "tag-forger")));
            assert_eq!(report.verdict, Verdict::Pass, "{node}\n{}\n{:#?}", report.text(), report.violations);
        }
    }
}

/// The next leader can check its own tags only, and others refuse its VIEW-START. This may repeat (README of the engine, "Left out"),
/// but nothing diverges. With signatures there are no tags to damage.
#[test]
fn forgers_of_tags_in_view_changes_break_no_safety() {
    for node in [0, 3] {
        let faults = format!("{}{}", byzantine(&[node], "tag-forger"), sequencer(2_000, SILENT));
        let tags = run(&calm(4, "", "suite = 1\nloss = 0.01\n", &faults));
        assert!(tags.violations.is_empty() && tags.committed > 0, "{node}\n{}\n{:#?}", tags.text(), tags.violations);
        passes(&run(&calm(4, "", "suite = 5\nloss = 0.01\n", &faults)));
    }
}

/// Twins with more than F votes, in both parts of a partition, drop each other's requests. The checks must detect that.
#[test]
fn twins_beyond_fault_model_are_detected() {
    let split = "[[fault]]\nkind = \"partition\"\nat = \"0s\"\nuntil = \"4s\"\ngroups = [[0, 1, 2], [3]]\n";
    passes(&run(&calm(4, "", "", &format!("{}{split}", byzantine(&[0], "twin")))));
    let beyond = run(&calm(4, "", "", &format!("{}{split}", byzantine(&[0, 1], "twin"))));
    assert_eq!(beyond.verdict, Verdict::Diverged, "{}", beyond.text());
}
