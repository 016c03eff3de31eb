//! A lone validator runs the same code.

use crate::cluster::{Cluster, quick};

#[test]
fn single_validator_orders_without_waiting() {
    let mut cluster = Cluster::honest(1, quick(), 1);
    cluster.run_for(100);
    let start = cluster.now();
    for number in 0..10 {
        cluster.submit(0, &format!("t{number}"));
        assert!(cluster.run_while(10, |cluster| cluster.delivered(0).len() <= number), "t{number}");
    }
    assert_eq!(cluster.now(), start, "no virtual time passed");
    cluster.run_for(10);
    assert_eq!(cluster.total_sent(), 0);
    let rounds = cluster.engine(0).clock().0;
    cluster.run_for(900);
    assert_eq!(cluster.engine(0).clock().0, rounds, "idle until the heartbeat");
}

#[test]
fn single_validator_restarts_at_every_commit() {
    let mut cluster = Cluster::honest(1, quick(), 1);
    for number in 0..120 {
        cluster.submit(0, &format!("t{number}"));
        cluster.run_for(5);
        if number % 7 == 3 {
            let commits = cluster.seen(0).log.len();
            cluster.crash(0);
            cluster.restart(0, commits.saturating_sub(number % 5));
        }
    }
    cluster.run_for(2_000);
    assert_eq!(cluster.delivered(0).len(), 120);
    cluster.assert_agreement();
}
