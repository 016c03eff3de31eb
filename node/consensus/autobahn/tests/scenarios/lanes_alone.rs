//! Rows 1 and 2: lanes need no agreement, and no quorum.

use crate::cluster::{Cluster, DELAY, LOST, is_about_slots, plain};
use corniche_testkit::Delivery;

#[test]
fn row_1_lanes_grow_without_agreement() {
    let mut cluster = Cluster::new(4, plain());
    cluster.set_rule(|_, _, _, message| if is_about_slots(message) { LOST } else { Delivery::Normal });
    cluster.load(0..4, true);
    cluster.run_for(1_000);
    for node in 0..4 {
        assert!(cluster.seen(node).log.is_empty());
        let [_, certified, _] = cluster.position(node, node);
        // A car and its votes take one round trip.
        assert_eq!(certified, 1_000 / (2 * DELAY));
    }
    // One cut commits all of it.
    cluster.clear_rule();
    cluster.load(0..4, false);
    cluster.run_for(5_000);
    assert!(cluster.seen(0).log.iter().any(|(_, ordered)| ordered.batches.len() >= 150));
    cluster.check();
}

#[test]
fn row_2_lanes_grow_in_partition() {
    let mut cluster = Cluster::new(4, plain());
    cluster.load(0..4, true);
    cluster.simulation.partition(&[vec![0, 1], vec![2, 3]]);
    cluster.run_for(1_000);
    for node in 0..4 {
        let [_, certified, _] = cluster.position(node, node);
        assert!(certified >= 1_000 / (2 * DELAY) - 1, "{certified}");
    }
    cluster.simulation.heal();
    cluster.load(0..4, false);
    cluster.run_for(6_000);
    let all = |node: usize| cluster.seen(node).log.iter().map(|(_, ordered)| ordered.batches.len()).sum::<usize>();
    assert!(all(0) >= 4 * 49 && (1..4).all(|node| all(node) == all(0)), "{}", all(0));
    cluster.check();
}
