//! Message delays from proposal to commit in lock-step. They show the structure of the protocol, independent of any
//! machine. The formulas are in the specification's §9.3: w + 1 − l/n without faults, (l/n)w + (1 − l/n)(w + 1/(1 − s))
//! with crashed validators, where s is the probability that all l leaders of a round are crashed.

use crate::cluster::Cluster;
use corniche_mahi_mahi::Config;
use corniche_mahi_mahi_testing::cordial_miners;

const DELAY_MS: u64 = 10;

/// Mean over all blocks, in thousandths of a link delay.
fn mean_delay(config: Config, crashed: usize, rounds: u64) -> u64 {
    let size = 10;
    let mut cluster = Cluster::honest(size, lock_step(config, crashed), 1);
    cluster.run_for(100);
    (size - crashed..size).for_each(|node| cluster.crash(node));
    let (mut commits, mut blocks, mut delays) = (0, 0, 0);
    let live = 0..size - crashed;
    let first = cluster.now().to_string();
    live.clone().for_each(|node| cluster.submit(node, &first));
    for _ in 0..rounds {
        // The last block of the round triggers the next request for a batch and the next proposal at every validator.
        let next = cluster.now() + DELAY_MS;
        live.clone().for_each(|node| cluster.submit(node, &next.to_string()));
        cluster.run_for(DELAY_MS);
        assert!(live.clone().all(|node| cluster.seen(node).queue.is_empty()), "lock-step");
        for (_, ordered) in &cluster.seen(0).log[commits..] {
            for (_, batch) in &ordered.batches {
                let proposed: u64 = String::from_utf8(batch.bytes.to_vec()).unwrap().parse().unwrap();
                (blocks, delays) = (blocks + 1, delays + cluster.now() - proposed);
            }
        }
        commits = cluster.seen(0).log.len();
    }
    assert!(blocks > (rounds - 60) * (size - crashed) as u64, "one block per validator and round: {blocks}");
    delays * 1_000 / DELAY_MS / blocks
}

/// No validator proposes before the last block of the round. Crashed validators delay no proposal.
fn lock_step(config: Config, crashed: usize) -> Config {
    let parent_grace_ms = if crashed == 0 { 5 } else { 0 };
    Config { parent_grace_ms, min_round_ms: 0, gc_depth: 25, retain_rounds: 0, heartbeat_ms: 1_000, ..config }
}

fn assert_near(name: &str, measured: u64, expected: u64, tolerance: u64) {
    assert!(measured.abs_diff(expected) <= tolerance, "{name}: {measured} thousandths of a delay, expected {expected}");
}

#[test]
fn mahi_mahi_delays_match_formula() {
    for (wave_length, leaders, fault_free, crashed) in [(4, 1, 4_900, 5_286), (4, 3, 4_700, 4_706), (5, 2, 5_800, 5_857)] {
        let config = || Config { wave_length, leaders, ..Config::default() };
        let name = format!("w = {wave_length}, l = {leaders}");
        assert_near(&name, mean_delay(config(), 0, 300), fault_free, 50);
        assert_near(&format!("{name}, 3 crashed"), mean_delay(config(), 3, 600), crashed, 100);
    }
}

#[test]
fn cordial_miners_delays_match_formula() {
    assert_near("no fault", mean_delay(cordial_miners(), 0, 500), 7_900, 100);
    // The variance comes mainly from waves with a crashed leader: a fifth of 1500 rounds.
    assert_near("3 crashed", mean_delay(cordial_miners(), 3, 1_500), 10_000, 500);
}
