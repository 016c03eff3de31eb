//! An idle network is silent, even if messages were lost on connections that stayed up.

use crate::cluster::{Cluster, DELAY, LOST, plain};
use corniche_autobahn::{Config, message::Message};
use corniche_engine::Engine;
use corniche_testkit::Delivery;

fn config() -> Config {
    Config { view_timeout_ms: 300, status_ms: 1_000, ..plain() }
}

/// Runs until no validator has a timer. Returns the time that took, ms.
fn until_silent(cluster: &mut Cluster, most: u64) -> u64 {
    let running: Vec<_> = (0..cluster.size()).filter(|node| cluster.simulation.is_up(*node)).collect();
    for ms in 0..most / DELAY {
        if running.iter().all(|node| cluster.engine(*node).deadline().is_none()) {
            return ms * DELAY;
        }
        cluster.run_for(DELAY);
    }
    panic!("somebody still has a timer: {}", cluster.engine(running[0]).describe());
}

#[test]
fn p10_idle_network_has_no_timers() {
    for down in [false, true] {
        let mut cluster = Cluster::new(4, config());
        if down {
            cluster.simulation.crash(3);
        }
        until_silent(&mut cluster, 20_000);
        cluster.submit(0, "something");
        cluster.run_for(2_000);
        assert!(cluster.seen(1).delivered_at("something").is_some());
        // Each validator sends its status once more to each of the three others.
        let took = until_silent(&mut cluster, 60_000);
        assert!(took <= 10_000, "{took} ms");
        cluster.run_for(5 * DELAY);
        let sent = |cluster: &Cluster| (0..3).map(|node| cluster.seen(node).sent.len()).sum::<usize>();
        let before = sent(&cluster);
        cluster.run_for(3_600_000);
        assert_eq!(sent(&cluster), before);
        cluster.submit(0, "more");
        cluster.run_for(3_000);
        assert!(cluster.seen(1).delivered_at("more").is_some());
        cluster.check();
    }
}

#[test]
fn lost_status_and_commit_are_repaired() {
    // Without a broken connection: worse than an engine must expect.
    let mut cluster = Cluster::new(4, config());
    cluster.submit(0, "first");
    cluster.run_for(1_000);
    cluster.simulation.crash(3);
    cluster.set_rule(|_, from, to, message| match message {
        Message::Status(_) if from == 3 || to == 3 => LOST,
        _ => Delivery::Normal,
    });
    cluster.simulation.restart(3);
    cluster.run_for(2_000);
    cluster.clear_rule();
    // Validator 3 receives no messages about slots.
    cluster.set_rule(|_, _, to, message| match message {
        Message::Status(_) | Message::Commits(_) | Message::Cars { .. } => Delivery::Normal,
        _ if to == 3 => LOST,
        _ => Delivery::Normal,
    });
    cluster.submit(0, "second");
    cluster.run_for(10_000);
    assert!(cluster.seen(1).delivered_at("second").is_some());
    assert!(cluster.seen(3).delivered_at("second").is_some(), "{}", cluster.engine(3).describe());
    until_silent(&mut cluster, 60_000);
    cluster.check();
}
