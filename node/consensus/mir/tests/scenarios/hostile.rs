//! Changed messages: nothing panics, memory stays bounded, and the committee continues.

use crate::cluster::{Cluster, quick};
use corniche_testkit::mutate::mutated;

const ALL: [usize; 4] = [0, 1, 2, 3];
const CASES: u64 = 4_000;

/// A run with an epoch change, gracious ones, checkpoints and catching up, so that all kinds of messages are sent.
fn eventful() -> Cluster {
    let mut cluster = Cluster::new(4, quick());
    cluster.load(ALL, true);
    cluster.run_for(300);
    cluster.simulation.crash(2);
    cluster.run_for(2_000);
    cluster.simulation.restart(2);
    cluster.load([0, 1, 3], false);
    cluster.run_for(2_000);
    cluster
}

#[test]
fn changed_messages_are_survived() {
    let mut cluster = eventful();
    let messages = ALL.iter().flat_map(|node| cluster.seen(*node).sent.iter().map(|(_, _, message)| message.encode().to_vec()));
    let seeds: Vec<_> = messages.collect();
    // F + 1 liars could lead the others into any epoch.
    let liar = 3;
    for case in 0..CASES {
        let message = mutated(case, &seeds, &[&[0], &[255; 8], &[1, 0, 0, 0]]).into();
        cluster.receive(liar, (case % 3) as usize, &message);
        if case % 100 == 0 {
            cluster.run_for(1);
        }
    }
    cluster.run_for(2_000);
    cluster.submit(1, "after");
    cluster.run_until_delivered(&ALL, &["after"], 60_000);
    cluster.assert_equal_logs(ALL);
    let most = quick().max_footprint(4);
    assert!(ALL.iter().all(|node| cluster.engine(*node).footprint() <= most));
}
