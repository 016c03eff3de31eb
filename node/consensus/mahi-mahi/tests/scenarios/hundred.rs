//! Extreme sizes: a hundred validators, and as many leaders as validators.

use crate::cluster::{Cluster, quick};
use corniche_mahi_mahi::Config;
use std::collections::BTreeSet;

#[test]
fn hundred_validators_with_hundred_leaders() {
    let (wave_length, leaders, live) = (5, 100, 67);
    let mut cluster = Cluster::honest(100, Config { wave_length, leaders, ..quick() }, 1);
    (live..100).for_each(|node| cluster.crash(node));
    cluster.run_for(50);
    let mut transactions = BTreeSet::new();
    for node in [0, live / 2, live - 1] {
        cluster.submit(node, &format!("t{node}"));
        transactions.insert(format!("t{node}"));
    }
    let have = |cluster: &Cluster, node| transactions.is_subset(&cluster.delivered(node).into_iter().collect());
    assert!(cluster.run_while(400, |cluster| !(0..live).all(|node| have(cluster, node))));
    cluster.assert_agreement();
    assert!((0..100).all(|node| cluster.seen(node).accused.is_empty()));
}
