//! Wrong clocks. Validators vote for a cut only when its time is at most 500 ms ahead of theirs, so a leader whose clock
//! is ahead costs view timers. Once its clock is right, nothing of that is left.

use crate::cluster::{Cluster, plain};
use corniche_autobahn::Config;
use corniche_testkit::{Links, Micros};

const HOUR_MS: i64 = 3_600_000;

/// A network that has run for two hours, so that clocks can be behind.
fn busy() -> Cluster {
    let links = Links::uniform(4, Micros::from_millis(crate::cluster::DELAY));
    let mut cluster = Cluster::on(links, Config { view_timeout_ms: 1_000, ..plain() });
    cluster.run_for(2 * HOUR_MS as u64);
    cluster.simulation.start_all();
    cluster.load(0..4, true);
    cluster.run_for(1_000);
    cluster
}

fn restart_with_clock(cluster: &mut Cluster, node: usize, ahead_ms: i64) {
    cluster.simulation.crash(node);
    cluster.clocks.borrow_mut()[node] = ahead_ms;
    cluster.simulation.restart(node);
    cluster.load([node], true);
}

#[test]
fn a_validator_takes_part_as_soon_as_its_clock_is_right_again() {
    for ahead_ms in [HOUR_MS, -HOUR_MS] {
        let mut cluster = busy();
        restart_with_clock(&mut cluster, 3, ahead_ms);
        cluster.run_for(10_000);
        restart_with_clock(&mut cluster, 3, 0);
        // Without it there is no quorum.
        cluster.simulation.crash(0);
        cluster.submit(3, "right");
        let done = cluster.run_while(5_000, |cluster| (1..4).any(|node| cluster.seen(node).delivered_at("right").is_none()));
        assert!(done, "after {ahead_ms} ms ahead");
        cluster.check();
    }
}

#[test]
fn a_wrong_clock_does_not_move_the_time_of_commits() {
    for ahead_ms in [HOUR_MS, 2_000, -HOUR_MS] {
        let mut cluster = busy();
        restart_with_clock(&mut cluster, 3, ahead_ms);
        let since = cluster.simulation.now();
        cluster.run_for(10_000);
        let log: Vec<_> = cluster.seen(0).log.iter().filter(|(at, _)| *at > since).collect();
        assert!(log.len() > 20, "{} commits", log.len());
        for (at, ordered) in log {
            let at = at.timestamp().0;
            assert!(ordered.time.0 <= at + 500 && ordered.time.0 + 2_000 >= at, "{ahead_ms}: {} at {at}", ordered.time.0);
        }
        cluster.check();
    }
}
