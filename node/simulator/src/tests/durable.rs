//! Durable before visible: a node sends nothing that depends on a record before its disk has the record.

use super::{run, scenario};
use crate::{Verdict, scenario::parse};

/// Each round of an engine waits for a write, and a write takes a second here. With messages that do not wait, the first
/// commit comes after three seconds in Mahi-Mahi, and after five in Autobahn.
#[test]
fn nothing_is_committed_before_it_is_durable() {
    for engine in ["mahi-mahi", "autobahn"] {
        let mut scenario = scenario(4, &format!("{}[disk]\nlatency_ms = 1000\n", super::CALM));
        scenario.engine = engine.into();
        let report = run(&scenario, 1);
        let committed: Vec<_> = report.timeline.iter().map(|second| second.committed).collect();
        assert!(committed.len() > 6 && committed[..6].iter().all(|committed| *committed == 0), "{engine}: {committed:?}");
        assert!(report.violations.is_empty() && report.committed > 0, "{engine}: {}", report.text());
    }
}

/// NeoBFT: REPLYs wait for a write, and in a network that may equivocate CONFIRMs wait for another one.
#[test]
fn replies_and_confirms_wait_for_the_disk() {
    for byzantine_network in [0, 1] {
        let text = format!(
            "engine = \"neobft\"\nnodes = 4\n{}[disk]\nlatency_ms = 1000\n[engine_config]\nbyzantine_network = {byzantine_network}\n\
             gap_ms = 60000\naom_ms = 60000\n",
            super::CALM
        );
        let report = run(&parse(&text).expect("a scenario"), 1);
        assert_eq!(report.verdict, Verdict::Pass, "{}", report.text());
        let shortest = report.transactions.iter().map(|sample| sample.latency_us).min().expect("something was committed");
        let writes = 1 + byzantine_network;
        assert!(shortest >= writes * 1_000_000 + 40_000, "{byzantine_network}: {shortest} µs for {writes} writes");
    }
}
