//! Rows 4 and 29: size of a PREPARE, and the effect of load on cars.

use crate::cluster::{Cluster, DELAY, LOST, is_about_slots, plain};
use corniche_autobahn::message::Message;
use corniche_testkit::Delivery;
use corniche_types::wire;

/// Bytes of the PREPARE that covers `cars` cars of every lane.
fn prepare_size(cars: u64) -> usize {
    let mut cluster = Cluster::new(4, plain());
    cluster.set_rule(|_, _, _, message| if is_about_slots(message) { LOST } else { Delivery::Normal });
    cluster.load(0..4, true);
    cluster.run_for(cars * 2 * DELAY);
    cluster.load(0..4, false);
    cluster.run_for(4 * DELAY);
    (0..4).for_each(|node| assert!(cluster.position(node, node)[1] >= cars));
    cluster.clear_rule();
    cluster.run_for(10_000);
    let covered = (0..4).map(|node| cluster.seen(node).log.iter().map(|(_, ordered)| ordered.batches.len()).max().unwrap());
    assert!(covered.min().unwrap() as u64 >= 4 * cars - 4);
    cluster.check();
    // The largest one: it has a tip and a certificate of every lane.
    let size = |message: &Message| match message {
        Message::Prepare(prepare) if prepare.timeouts.is_none() => wire::encode(message).len(),
        _ => 0,
    };
    let all = (0..4).flat_map(|node| cluster.seen(node).sent.iter());
    all.map(|(_, _, message)| size(message)).max().unwrap()
}

#[test]
fn row_4_prepare_size_is_independent_of_backlog() {
    let (few, many) = (prepare_size(10), prepare_size(10_000));
    assert_eq!(few, many);
}

#[test]
fn row_29_load_makes_cars_larger_not_slower() {
    let mut carried = Vec::new();
    for rate in [1, 10, 100] {
        let mut cluster = Cluster::new(4, plain());
        for step in 0..50 {
            (0..rate).for_each(|number| cluster.submit(0, &format!("t{step}-{number}")));
            cluster.run_for(DELAY);
        }
        cluster.run_for(1_000);
        let [executed, ..] = cluster.position(0, 0);
        let all = cluster.seen(0).log.iter().flat_map(|(_, ordered)| crate::cluster::texts(ordered)).count();
        assert_eq!(all, 50 * rate);
        carried.push((executed, all as u64 / executed));
    }
    // One car per round trip under any load.
    assert!(carried.iter().all(|(cars, _)| (24..=27).contains(cars)), "{carried:?}");
    assert!(carried.windows(2).all(|pair| pair[1].1 >= 9 * pair[0].1), "{carried:?}");
}
