//! Time that validators wait for dead and silent ones under load.

use crate::cluster::{Cluster, DELAY, LOST, plain};
use corniche_autobahn::Config;
use corniche_testkit::{Delivery, Micros};

/// The full timer of a first view, ms.
const FULL: u64 = 1_000;
/// Maximum duration of a slot without waiting for timers, ms.
const SLOT: u64 = 15 * DELAY;

fn config() -> Config {
    Config { view_timeout_ms: FULL, ..plain() }
}

/// Longest time without a delivery at a validator, ms.
fn longest_gap(cluster: &Cluster, node: usize, since: Micros) -> u64 {
    let mut times: Vec<_> = cluster.seen(node).log.iter().map(|(at, _)| *at).filter(|at| *at >= since).collect();
    times.extend([since, cluster.simulation.now()]);
    times.sort_unstable();
    times.windows(2).map(|pair| (pair[1] - pair[0]).0 / 1_000).max().unwrap_or_default()
}

fn busy(size: usize) -> Cluster {
    let mut cluster = Cluster::new(size, config());
    cluster.load(0..size, true);
    cluster.run_for(1_000);
    cluster
}

#[test]
fn dead_validator_costs_no_full_timer() {
    let mut cluster = busy(4);
    let since = cluster.simulation.now();
    cluster.simulation.crash(2);
    cluster.run_for(5_000);
    let longest = longest_gap(&cluster, 0, since);
    assert!(longest <= FULL / 8 + SLOT, "{longest} ms");
    cluster.check();
}

/// Its connections stay up, so only failed views reveal it.
#[test]
fn silent_validator_costs_one_full_timer() {
    for (size, silent) in [(4, 1), (7, 2)] {
        let mut cluster = busy(size);
        cluster.set_rule(move |_, from, _, _| if from < silent { LOST } else { Delivery::Normal });
        cluster.run_for(20_000);
        let since = cluster.simulation.now();
        cluster.run_for(5_000);
        let longest = longest_gap(&cluster, size - 1, since);
        assert!(longest <= silent as u64 * FULL / 8 + SLOT, "{size} validators: {longest} ms");
        cluster.check();
    }
}
