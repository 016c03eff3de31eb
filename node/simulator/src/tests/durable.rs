//! Durable before visible: a node sends nothing that depends on a record before its disk has the record.

use super::{run, scenario};

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
