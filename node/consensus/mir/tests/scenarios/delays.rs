//! Message delays (5.2), leaders in parallel, and idle networks.

use crate::cluster::{Cluster, DELAY, plain, quick};
use corniche_engine::Engine;
use corniche_mir::{Config, message::Message};
use corniche_types::ValidatorIndex;

const ALL: [usize; 4] = [0, 1, 2, 3];

fn delays(cluster: &Cluster, node: usize, text: &str, since: u64) -> u64 {
    (cluster.seen(node).delivered_at(text).unwrap().0 / 1_000 - since) / DELAY
}

#[test]
fn batch_is_delivered_after_three_delays() {
    let mut cluster = Cluster::new(4, plain());
    cluster.run_for(50);
    let since = cluster.simulation.now().0 / 1_000;
    let texts = cluster.submit_all(&ALL, "t");
    cluster.run_for(10 * DELAY);
    for (node, text) in ALL.iter().flat_map(|node| texts.iter().map(move |text| (*node, text))) {
        assert_eq!(delays(&cluster, node, text, since), 3, "{text} at {node}");
    }
    assert_eq!(cluster.delivered(0), 4, "one number for each leader");
}

/// The others have nothing to propose: they fill their numbers one delay later (M33).
#[test]
fn holes_below_a_batch_are_filled() {
    let mut cluster = Cluster::new(4, Config { idle_ms: 1_000, timeout_ms: 3_000, ..plain() });
    cluster.run_for(50);
    let since = cluster.simulation.now().0 / 1_000;
    cluster.submit(3, "alone");
    cluster.run_for(10 * DELAY);
    assert_eq!(delays(&cluster, 2, "alone", since), 4);
    assert_eq!(cluster.delivered(2), 4);
}

/// The interval of a leader ends when it has been idle for long. Its transactions must not wait for another interval.
#[test]
fn idle_leaders_ask_for_batches_before_they_propose_empty_ones() {
    let interval = 20 * DELAY;
    let config = Config { batch_interval_ms: interval, idle_ms: interval, fill_ms: 5, timeout_ms: 3_000, ..plain() };
    let mut cluster = Cluster::new(4, config);
    cluster.run_for(50);
    cluster.submit_all(&ALL, "first");
    cluster.run_for(interval / 2);
    let since = cluster.simulation.now().0 / 1_000;
    cluster.submit_all(&ALL, "second");
    cluster.run_for(interval);
    assert_eq!(delays(&cluster, 2, "second1", since), 10 + 3, "half an interval, and the delays of a batch");
}

/// M33: checkpoints advance, and nobody is suspected. An idle network orders one number for each leader and `idle_ms`.
#[test]
fn idle_network_is_slow_and_calm() {
    let mut cluster = Cluster::new(4, quick());
    cluster.run_for(10_000);
    let (delivered, stable) = cluster.engine(0).progress();
    assert!((150..=208).contains(&delivered.0), "{delivered} in 10 s");
    assert!(stable.0 > 100);
    assert!(ALL.iter().all(|node| cluster.epoch(*node) == 0 && !cluster.has_left(*node)));
}

/// For metrics. A batch is on its way for one delay.
#[test]
fn clocks_of_leaders_are_compared() {
    let mut cluster = Cluster::new(4, quick());
    cluster.clocks.borrow_mut()[2] = 300;
    cluster.run_for(1_000);
    let leads = cluster.engine(0).clock_leads();
    assert_eq!(leads, [(1, 0), (2, 300 - DELAY), (3, 0)].map(|(leader, ahead)| (ValidatorIndex(leader), ahead)));
}

/// S5: without a stable checkpoint, leaders stop at the end of the window.
#[test]
fn leaders_stop_at_the_end_of_the_window() {
    let mut cluster = Cluster::new(4, plain());
    let is_checkpoint = |message: &Message| matches!(message, Message::Checkpoint { .. });
    cluster.set_rule(
        move |_, _, _, message| if is_checkpoint(message) { crate::cluster::LOST } else { corniche_testkit::Delivery::Normal },
    );
    cluster.load(ALL, true);
    cluster.run_for(3_000);
    assert!(ALL.iter().all(|node| cluster.delivered(*node) == 32), "the window");
    cluster.clear_rule();
    cluster.run_for(3_000);
    assert!(ALL.iter().all(|node| cluster.delivered(*node) > 64));
    cluster.assert_equal_logs(ALL);
}

/// 4, mechanism 20.
#[test]
fn memory_and_records_stay_bounded() {
    let config = Config { retain: 64, ..quick() };
    let mut cluster = Cluster::new(4, config.clone());
    cluster.load(ALL, true);
    let mut sizes = Vec::new();
    for _ in 0..8 {
        cluster.run_for(2_000);
        sizes.push((cluster.engine(1).footprint(), cluster.records(1).len()));
    }
    assert!(cluster.delivered(1) > 1_000, "{}", cluster.delivered(1));
    let most = config.max_footprint(4);
    assert!(sizes.iter().all(|(held, records)| *held < most && *records < 1_500), "{sizes:?}");
}
