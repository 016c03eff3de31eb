//! An idle network is quiet; a transaction wakes it.

use crate::cluster::{Cluster, quick};
use corniche_mahi_mahi::Config;

#[test]
fn idle_network_makes_one_round_per_heartbeat() {
    let config = Config { heartbeat_ms: 5_000, ..quick() };
    let mut cluster = Cluster::honest(4, config, 1);
    cluster.run_for(1_000);
    let before = cluster.total_sent();
    cluster.run_for(50_000);
    let sent = cluster.total_sent() - before;
    // Ten heartbeats with twelve blocks each; a greeting or two until rounds and heartbeats are in phase is fine.
    assert!((100..=160).contains(&sent), "{sent} messages in 50 s");
}

#[test]
fn transaction_wakes_idle_network_briefly() {
    let config = Config { heartbeat_ms: 5_000, ..quick() };
    let mut cluster = Cluster::honest(4, config, 1);
    cluster.run_for(300);
    for number in 0..5 {
        let start = cluster.now();
        cluster.submit(number % 4, &format!("t{number}"));
        let everywhere = |cluster: &Cluster| (0..4).all(|node| cluster.delivered(node).len() == number + 1);
        assert!(cluster.run_while(400, |cluster| !everywhere(cluster)), "t{number} took over 400 ms");
        assert!(cluster.now() - start <= 120, "{} ms", cluster.now() - start);
        cluster.run_for(100);
        let before = cluster.total_sent();
        cluster.run_for(500);
        assert_eq!(cluster.total_sent(), before, "quiet after t{number}");
    }
    cluster.assert_agreement();
}
