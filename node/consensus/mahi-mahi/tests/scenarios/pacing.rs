//! Time between proposals: at least the minimum, more under load.

use crate::cluster::{Cluster, quick};
use corniche_mahi_mahi::Config;

fn config() -> Config {
    Config { min_round_ms: 20, light_ms_per_validator: 2, max_stretch: 3, ..quick() }
}

/// Milliseconds per round over two seconds, while the first `loaded` validators get a transaction of `bytes` bytes
/// every millisecond. Messages take a millisecond.
fn round_time(cluster: &mut Cluster, loaded: usize, bytes: usize) -> u64 {
    cluster.network().link.min_ms = 1;
    cluster.network().link.max_ms = 1;
    cluster.run_for(100);
    let clock = |cluster: &Cluster| cluster.engine(0).clock().0;
    let (mut before, mut start) = (0, 0);
    for step in 0..2_500 {
        if step == 500 {
            (before, start) = (clock(cluster), cluster.now());
        }
        for node in 0..loaded {
            cluster.submit(node, &format!("t{step} {node} {:bytes$}", ""));
        }
        cluster.run_for(1);
    }
    (cluster.now() - start) / (clock(cluster) - before)
}

#[test]
fn rounds_stretch_with_their_batches() {
    let rows = [
        ("light load", config(), 1, 1, 8..=10),
        ("light load of a large committee", Config { light_ms_per_validator: 100, ..config() }, 1, 1, 20..=24),
        ("small batches", config(), 4, 20, 20..=24),
        ("about a tenth of the bytes of a long round", config(), 4, 50, 24..=50),
        ("long rounds", config(), 4, 400, 55..=64),
        ("more than 128 KiB a round", config(), 4, 2_000, 20..=24),
        ("long rounds without stretching", Config { max_stretch: 1, ..config() }, 4, 400, 20..=24),
        ("f validators with large batches", config(), 1, 10_000, 20..=24),
        (
            "batches of more than half of the limit",
            Config { batch_bytes: 32_000, light_ms_per_validator: 5, ..config() },
            4,
            1_000,
            20..=24,
        ),
    ];
    for (name, config, loaded, bytes, expected) in rows {
        let round = round_time(&mut Cluster::honest(4, config, 2), loaded, bytes);
        assert!(expected.contains(&round), "{name}: {round} ms");
    }
}

/// One of the first proposers is honest, so the others need not wait any longer; f of them prove nothing.
#[test]
fn stretched_pause_ends_when_more_than_f_propose() {
    for (hasty, expected) in [(1, 55..=64), (2, 20..=24)] {
        let mut cluster = Cluster::honest(4, config(), 2);
        cluster.network().config.max_stretch = 1;
        for node in 0..hasty {
            cluster.crash(node);
            cluster.restart(node, 0);
        }
        let round = round_time(&mut cluster, 4, 400);
        assert!(expected.contains(&round), "{hasty} validators without stretching: {round} ms");
    }
}
