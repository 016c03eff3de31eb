//! G1, G3: retention is bounded in slots, cars and bytes, and no engine holds more than its declared maximum.

use crate::cluster::{Cluster, DELAY, LOST, plain};
use corniche_autobahn::{Config, lanes::CAR_WEIGHT, message::Message};
use corniche_testkit::{Delivery, Micros};
use std::{cell::Cell, rc::Rc};

/// Number of items that a validator holds, and of records on its disk.
fn held(cluster: &Cluster, node: usize) -> [usize; 2] {
    [cluster.engine(node).footprint().iter().sum(), cluster.records(node).len()]
}

#[test]
fn g3_executed_cars_are_kept_up_to_limit() {
    // The limit in slots alone would keep everything.
    let config = Config { lane_bytes: 25 * CAR_WEIGHT, retain_slots: 1_000_000, ..plain() };
    let mut cluster = Cluster::new(4, config.clone());
    cluster.load(0..4, true);
    let mut most = 0;
    for _ in 0..100 {
        cluster.run_for(10 * DELAY);
        for node in 0..4 {
            let [lanes, _, commits, records, _] = cluster.engine(node).footprint();
            // Four lanes of 25 executed cars, some unexecuted ones, and as many again that wait for release.
            assert!(lanes <= 4 * 25 + 40 && commits <= 100 && records <= 620, "{lanes} cars, {commits} commits, {records}");
            most = most.max(lanes);
        }
    }
    assert!(cluster.position(0, 0)[0] > 400 && most >= 4 * 20, "{most} cars: so many that it matters, and some are kept");
    // A validator that was away for a short time still finds the data it missed.
    cluster.simulation.crash(3);
    cluster.run_for(5 * DELAY);
    cluster.simulation.restart(3);
    cluster.load(0..4, false);
    cluster.run_for(5_000);
    assert_eq!(cluster.seen(3).log.last().unwrap().1, cluster.seen(0).log.last().unwrap().1);
    cluster.check();
}

#[test]
fn g3_a_lane_that_floods_does_not_fill_the_share_of_others() {
    let config = Config { lane_bytes: 25 * CAR_WEIGHT, retain_slots: 1_000_000, ..plain() };
    let mut cluster = Cluster::new(4, config);
    cluster.load([0], true);
    for _ in 0..100 {
        cluster.run_for(10 * DELAY);
        for node in 0..4 {
            let lanes = cluster.engine(node).footprint()[0];
            assert!(lanes <= 25 + 40, "{lanes} cars");
        }
    }
    assert!(cluster.position(1, 0)[0] > 200, "{:?}", cluster.position(1, 0));
    cluster.check();
}

/// The owner of a lane shows its cars only to one other validator, which runs ahead of the rest by this many slots,
/// optionally with a restart. Then the others request the cars from it. Returns true if they get them. `most`: maximum
/// number of cars and commits it may hold.
fn sole_holder_serves(config: &Config, slots: u64, most: [usize; 2], restarts: bool) -> bool {
    let mut cluster = Cluster::new(4, config.clone());
    let answers = Rc::new(Cell::new(false));
    let holder_answers = answers.clone();
    cluster.set_rule(move |_, from, to, message| {
        let is_body = matches!(message, Message::Car(_) | Message::Cars { .. });
        let is_hidden = is_body && (from == 0 && to != 1 || from == 1 && !holder_answers.get());
        if is_hidden { LOST } else { Delivery::Normal }
    });
    cluster.load([0], true);
    let run_to = |cluster: &mut Cluster, slot: u64| {
        let end = cluster.simulation.now() + Micros::from_seconds(300);
        while cluster.seen(1).resume.index.0 < slot {
            assert!(cluster.simulation.now() < end, "{}", cluster.engine(1).describe());
            cluster.run_for(10 * DELAY);
            let [things, records] = held(cluster, 1);
            assert!(things.max(records) <= config.max_footprint(4), "{things} things, {records} records");
            let [lanes, _, commits, ..] = cluster.engine(1).footprint();
            assert!(lanes <= most[0] && commits <= most[1], "{lanes} cars, {commits} commits");
        }
    };
    if restarts {
        run_to(&mut cluster, slots / 2);
        cluster.simulation.crash(1);
        cluster.simulation.restart(1);
    }
    run_to(&mut cluster, slots);
    assert_eq!(cluster.seen(2).log.len() + cluster.seen(3).log.len(), 0, "they hold nothing");
    cluster.load([0], false);
    cluster.simulation.crash(0);
    answers.set(true);
    cluster.run_for(30_000);
    (2..4).all(|node| cluster.seen(node).resume.index.0 >= slots)
}

#[test]
fn g3_uncertified_cars_are_kept_four_times_longer() {
    // Cars are certified without their bodies at validators 2 and 3, which execute nothing: no quorum, no certificate.
    let base = Config { optimistic_tips: false, leader_tips: false, view_timeout_ms: 200, ..plain() };
    let by_bytes = Config { lane_bytes: 25 * CAR_WEIGHT, retain_slots: 1_000_000, ..base.clone() };
    let by_slots = Config { retain_slots: 20, ..base };
    for restarts in [false, true] {
        // With a certificate 100 cars are kept; in the second case those of 20 slots.
        assert!(sole_holder_serves(&by_bytes, 100, [460, usize::MAX], restarts), "within four times the bytes");
        assert!(!sole_holder_serves(&by_bytes, 400, [460, usize::MAX], restarts), "beyond");
        assert!(sole_holder_serves(&by_slots, 60, [usize::MAX, 100], restarts), "within four times the slots");
        assert!(!sole_holder_serves(&by_slots, 200, [usize::MAX, 100], restarts), "beyond");
    }
}

#[test]
fn g3_certificate_ends_longer_retention() {
    let config = Config { lane_bytes: 25 * CAR_WEIGHT, retain_slots: 1_000_000, ..plain() };
    let mut cluster = Cluster::new(4, config);
    cluster.load(0..4, true);
    // Certificates come only at the end of each of these runs.
    for _ in 0..3 {
        cluster.simulation.run_for(Micros::from_millis(100 * DELAY));
        let before = cluster.engine(0).footprint()[0];
        cluster.run_for(DELAY);
        let after = cluster.engine(0).footprint()[0];
        assert!(before > 150 && after <= 4 * 25 + 40, "{before} cars, then {after}");
    }
}

#[test]
fn unexecutable_commits_are_bounded() {
    // Its own slots wait until it is reminded of the news.
    let certified = Config { optimistic_tips: false, leader_tips: false, view_timeout_ms: 200, ..plain() };
    let config = Config { retain_slots: 20, ..certified };
    let mut cluster = Cluster::new(4, config.clone());
    // It votes, because certified tips need no data (N9), and gets none.
    let is_body = |message: &Message| matches!(message, Message::Car(_) | Message::Cars { .. });
    cluster.set_rule(move |_, _, to, message| if to == 3 && is_body(message) { LOST } else { Delivery::Normal });
    cluster.load(0..3, true);
    for _ in 0..300 {
        cluster.run_for(10 * DELAY);
        let [things, records] = held(&cluster, 3);
        assert!(things.max(records) <= config.max_footprint(4), "{things} things, {records} records");
    }
    assert!(cluster.seen(0).log.len() > 600 && cluster.seen(3).log.is_empty(), "{}", cluster.seen(0).log.len());
    let [_, _, commits, records, _] = cluster.engine(3).footprint();
    assert!(commits <= 20 + 256 + 16, "{commits} commits");
    // A few records are needed besides those of commits. The journal searches for records to write again when there are
    // this many.
    let needed = commits + 16;
    assert!(records <= 2 * needed + 64 + needed / 16, "{records} records for {commits} commits");
}

#[test]
fn g1_minimal_retention_allows_full_restart() {
    // One car per lane: every slot exceeds the weight limit.
    let mut cluster = Cluster::new(4, Config { lane_bytes: 1, view_timeout_ms: 300, ..plain() });
    for incarnation in 0..20 {
        cluster.load(0..4, true);
        cluster.run_for(60 * DELAY + 7 * incarnation);
        (0..4).for_each(|node| cluster.simulation.crash(node));
        cluster.simulation.start_all();
        cluster.submit(0, &format!("after{incarnation}"));
        cluster.run_for(3_000);
        assert!(
            (0..4).all(|node| cluster.seen(node).delivered_at(&format!("after{incarnation}")).is_some()),
            "life {incarnation}"
        );
    }
    cluster.check();
}
