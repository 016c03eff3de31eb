//! Durable before visible: a node sends nothing that depends on a record before its disk has the record.

use super::{passes, run, scenario};

/// All disks are so slow that nothing becomes durable in the first four seconds: no message may leave that lets others
/// commit.
#[test]
fn nothing_is_committed_before_it_is_durable() {
    for engine in ["mahi-mahi", "autobahn"] {
        let slow = "[[fault]]\nkind = \"slow\"\nat = \"0s\"\nuntil = \"4s\"\nnodes = [0, 1, 2, 3]\nwrite_ms = 60000\n";
        let mut scenario = scenario(4, &format!("{}{slow}", super::CALM));
        scenario.engine = engine.into();
        let report = run(&scenario, 1);
        passes(&report);
        let committed: Vec<_> = report.timeline.iter().map(|second| second.committed).collect();
        assert!(committed[..4].iter().all(|committed| *committed == 0), "{engine}: {committed:?}");
        assert!(committed[4] > 0, "{engine}: {committed:?}");
    }
}
