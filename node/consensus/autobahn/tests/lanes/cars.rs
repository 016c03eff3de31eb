//! Own cars, votes in order, certificates, resends (D1–D8, P12, P20).

use crate::net::{Net, OWNER};
use corniche_autobahn::{
    Config,
    lanes::CAR_WEIGHT,
    message::{Context, HashedCar, Message, Position},
};
use corniche_engine::Batch;
use corniche_types::TimestampMs;
use std::sync::Arc;

#[test]
fn d1_d2_batch_is_requested_after_certification() {
    for ahead in [1, 3] {
        let mut net = Net::new(4, Config { cars_ahead: ahead, ..Config::default() });
        for car in 0..ahead {
            assert!(net.batch(0, &format!("car {car}")), "{car} of {ahead}");
        }
        assert!(!net.asking.contains(&0), "row 18: {ahead} cars are on their way");
        net.run();
        assert_eq!(net.certified(0), ahead);
        assert!(net.batch(0, "next"));
        net.run();
        // Others learn the certificate from the cars that carry it.
        assert!((1..4).all(|node| net.certified(node) >= ahead));
    }
}

#[test]
fn d1_unexecuted_backlog_stops_batch_requests() {
    let mut net = Net::new(4, Config { lane_bytes: 2 * (CAR_WEIGHT + 10), ..Config::default() });
    for car in 0..2 {
        assert!(net.batch(0, "exactly 10"), "{car}");
        net.run();
    }
    assert!(!net.asking.contains(&0));
    let tip = net.nodes[0].own_tip().unwrap();
    net.execute(0, tip);
    assert!(net.asking.contains(&0));
}

#[test]
fn d3_d4_reordered_cars_are_voted_in_order() {
    let mut net = Net::new(4, Config { cars_ahead: 4, ..Config::default() });
    let cars = net.chain(4, "c", &[0, 2]);
    // Pipelined: no certificates yet.
    let bare = |car: &Arc<HashedCar>| net.car(car.parent(), std::str::from_utf8(car.batch()).unwrap(), None);
    let cars: Vec<_> = cars.iter().map(bare).collect();
    for place in [2, 1, 3] {
        net.take(1, &cars[place].clone());
        assert!(net.votes(1).is_empty());
    }
    net.take(1, &cars[0].clone());
    assert_eq!(net.votes(1), [1, 2, 3, 4]);
}

#[test]
fn d6_certificate_needs_f_plus_one_votes() {
    // W = 10 and F = 3. The owner has one vote.
    for (connected, certified) in [(&[5][..], true), (&[1, 2], false), (&[3], false), (&[1, 3], true)] {
        let mut net = Net::with_votes(&[1, 1, 1, 2, 2, 3], Config::default());
        net.deaf = (1..6).filter(|node| !connected.contains(node)).collect();
        net.batch(0, "car");
        net.run();
        assert_eq!(net.certified(0), u64::from(certified), "votes of {connected:?} and the owner");
    }
}

#[test]
fn d6_certificate_is_sent_without_next_car() {
    let mut net = Net::new(4, Config::default());
    net.batch(0, "last");
    net.run();
    assert_eq!((net.certified(0), net.certified(1)), (1, 0));
    net.later(net.config.availability_wait_ms);
    net.run();
    assert!((1..4).all(|node| net.certified(node) == 1));
    // Not announced if the next car carries it.
    let announced = |net: &Net| net.count(|message| matches!(message, Message::Available(_)));
    let before = announced(&net);
    net.batch(0, "next");
    net.queue.clear(); // No vote, so no certificate.
    net.later(net.config.availability_wait_ms);
    assert_eq!(announced(&net), before);
}

#[test]
fn d7_certified_tip_never_decreases() {
    let mut net = Net::new(4, Config::default());
    let cars = net.chain(3, "c", &[1, 2]);
    let (low, high) = (net.certificate(cars[0].tip(), &[1, 2]), net.certificate(cars[2].tip(), &[2, 3]));
    net.act(3, |lanes, _| lanes.learn(&high));
    net.act(3, |lanes, _| lanes.learn(&low));
    assert_eq!(net.certified(3), 3);
}

#[test]
fn d8_lanes_grow_on_both_partition_sides() {
    let mut net = Net::new(4, Config::default());
    net.deaf = vec![2, 3];
    for car in 0..20 {
        assert!(net.batch(0, &format!("{car}")) && net.batch(1, &format!("{car}")));
        net.run();
    }
    assert_eq!(net.certified(0), 20);
}

#[test]
fn p20_other_lanes_are_limited_to_double() {
    let mut net = Net::new(4, Config { lane_bytes: 2 * (CAR_WEIGHT + 10), ..Config::default() });
    let cars = net.chain(9, "exactly 9", &[2, 3]);
    cars.iter().for_each(|car| net.take(1, car));
    assert_eq!(net.votes(1), [1, 2, 3, 4]);
}

#[test]
fn p12_lost_cars_are_resent_until_executed() {
    let mut net = Net::new(4, Config::default());
    net.batch(0, "lost");
    net.queue.clear();
    net.later(net.config.resend_ms);
    net.run();
    assert_eq!(net.certified(0), 1);
    net.later(net.config.availability_wait_ms);
    net.run();
    let tip = net.nodes[0].own_tip().unwrap();
    (0..4).for_each(|node| net.execute(node, tip));
    net.later(net.config.resend_ms);
    assert!((0..4).all(|node| net.nodes[node].deadline().is_none()), "P10: nothing to do, no timer");
}

#[test]
fn empty_batch_makes_car_after_interval() {
    let mut net = Net::paced(4, Config { car_interval_ms: 10, ..Config::default() });
    let positions = |net: &Net| net.nodes[0].own_tip().unwrap().position.0;
    net.act(0, |lanes, now| lanes.handle_batch(now, Batch::default()));
    net.run();
    assert_eq!(positions(&net), 1);
    assert_eq!(net.nodes[0].certified(OWNER).unwrap().tip.position, Position(1));
    assert_eq!(net.asking.iter().filter(|node| **node == 0).count(), 1, "what is asked for now would leave too early");
    let due = net.now.0 + 10;
    assert!(net.nodes[0].deadline().is_some_and(|at| at.0 <= due));
    net.now = TimestampMs(due);
    net.act(0, |lanes, now| lanes.tick(now));
    assert_eq!(net.asking.iter().filter(|node| **node == 0).count(), 2);
    net.act(0, |lanes, now| lanes.handle_batch(now, Batch { bytes: vec![1].into() }));
    assert_eq!(positions(&net), 2);
}

#[test]
fn cars_with_larger_batches_are_further_apart() {
    let config = Config { car_interval_ms: 10, max_stretch: 3, batch_bytes: 20_000, ..Config::default() };
    for (bytes, pause_ms) in [(0, 10), (1_024, 15), (4_096, 30), (10_000, 30), (10_001, 10)] {
        let mut net = Net::paced(4, config.clone());
        net.act(0, |lanes, now| lanes.handle_batch(now, Batch { bytes: vec![1; bytes].into() }));
        net.run();
        let asked = |net: &Net| net.asking.iter().filter(|node| **node == 0).count();
        let start = net.now.0;
        net.now = TimestampMs(start + pause_ms - 1);
        net.act(0, |lanes, now| lanes.tick(now));
        assert_eq!(asked(&net), 1, "{bytes} bytes");
        net.now = TimestampMs(start + pause_ms);
        net.act(0, |lanes, now| lanes.tick(now));
        assert_eq!(asked(&net), 2, "{bytes} bytes");
    }
}

#[test]
fn g5_empty_cars_are_not_free() {
    let mut net = Net::new(4, Config { lane_bytes: 3 * CAR_WEIGHT, ..Config::default() });
    for car in 0..3 {
        net.act(0, |lanes, now| lanes.handle_batch(now, Batch::default()));
        net.run();
        assert_eq!(net.certified(0), car + 1);
    }
    net.act(0, |lanes, now| lanes.handle_batch(now, Batch::default()));
    assert_eq!((net.certified(0), net.requeued.len()), (3, 1), "P20: nothing was asked for");
    // A lane that continues anyway is accepted up to twice the limit.
    let mut net = Net::new(4, Config { lane_bytes: 3 * CAR_WEIGHT, ..Config::default() });
    let mut parent = Context::new(&net.committee).start(OWNER);
    for place in 0..20 {
        let certificate = (place > 0).then(|| net.certificate(parent, &[2, 3]));
        let car = net.car(parent, "", certificate);
        net.take(1, &car);
        parent = car.tip();
    }
    assert_eq!(net.votes(1), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn oversized_batch_is_requeued() {
    let mut net = Net::new(4, Config { batch_bytes: 10, ..Config::default() });
    assert!(net.batch(0, "more than 10"));
    assert_eq!(net.requeued.len(), 1);
    assert!(!net.asking.contains(&0), "the same would come again at once");
    net.later(net.config.resend_ms);
    assert!(net.batch(0, "exactly 10"));
    net.run();
    assert_eq!((net.certified(0), net.requeued.len()), (1, 1));
}
