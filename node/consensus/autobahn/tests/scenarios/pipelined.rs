//! Row 18: several own cars in transit at once.

use crate::cluster::{Cluster, DELAY, plain};
use corniche_autobahn::Config;

#[test]
fn row_18_pipelined_cars_per_round_trip() {
    for ahead in [1, 2, 4, 8] {
        let mut cluster = Cluster::new(4, Config { cars_ahead: ahead, ..plain() });
        cluster.load([0], true);
        cluster.run_for(100 * 2 * DELAY);
        let [_, certified, _] = cluster.position(0, 0);
        assert!((99 * ahead..=100 * ahead).contains(&certified), "{ahead} ahead: {certified} in 100 round trips");
        cluster.load([0], false);
        cluster.run_for(1_000);
        let all: usize = cluster.seen(3).log.iter().map(|(_, ordered)| ordered.batches.len()).sum();
        assert!(all as u64 >= certified);
        cluster.check();
    }
}
