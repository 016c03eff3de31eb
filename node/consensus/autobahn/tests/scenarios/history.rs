//! Rows 6 and 36: histories arrive in parallel with the agreement on them, and are executed as they arrive.

use crate::cluster::{Cluster, DELAY, LOST, is_about_slots, plain};
use corniche_autobahn::{Config, message::Message};
use corniche_testkit::{Delivery, Links, Micros};
use std::{cell::Cell, rc::Rc};

#[test]
fn row_6_thousand_missing_cars_take_one_round_trip() {
    let config = Config { optimistic_tips: false, leader_tips: false, view_timeout_ms: 60_000, ..plain() };
    let mut cluster = Cluster::new(4, config);
    // Slots are blocked, and the last validator receives no car, until 1,000 cars of lane 0 are certified.
    let open = Rc::new(Cell::new(false));
    let is_open = open.clone();
    cluster.set_rule(move |_, _, to, message| {
        let of_lanes = to == 3 && matches!(message, Message::Car(_) | Message::Available(_));
        if of_lanes || is_about_slots(message) && !is_open.get() { LOST } else { Delivery::Normal }
    });
    cluster.load([0], true);
    cluster.run_for(1_000 * 2 * DELAY);
    cluster.load([0], false);
    cluster.run_for(10 * DELAY);
    let cars = cluster.position(0, 0)[1];
    assert!(cars >= 1_000 && cluster.position(3, 0) == [0, 0, 0]);
    // From now on only cars are lost on the way to it. Another car gives the leader something to propose.
    open.set(true);
    cluster.submit(0, "last");
    cluster.run_for(3_000);
    let covering =
        |node: usize| cluster.seen(node).log.iter().find(|(_, ordered)| ordered.batches.len() >= 900).map(|(at, _)| *at);
    let (elsewhere, here) = (covering(1).expect("one cut covers them"), covering(3).expect("it has them"));
    // Y2: the request is sent on arrival of the PREPARE; the commit arrives two delays later, and so does the response.
    assert!(here <= elsewhere.max(here) && here - elsewhere <= Micros(1_000), "{here} against {elsewhere}");
    let long = |message: &Message| matches!(message, Message::FetchCars { tip, above } if tip.position.0 - above.0 >= 900);
    assert_eq!(cluster.seen(3).count(long), 1);
    cluster.check();
}

#[test]
fn row_36_output_starts_with_first_body() {
    // Each node can send 1 MB/s; the node that was away lacks 60 slots of one car of 10 kB.
    let mut links = Links::uniform(4, Micros::from_millis(DELAY));
    links.egress = Some(1_000_000);
    let mut cluster = Cluster::on(links, Config { view_timeout_ms: 150, ..plain() });
    (0..3).for_each(|node| cluster.simulation.restart(node));
    cluster.run_for(10 * DELAY);
    let body = "x".repeat(10_000);
    for round in 0..60 {
        cluster.submit(0, &format!("{round}{body}"));
        cluster.run_for(600);
    }
    let slots = cluster.seen(0).log.len();
    assert!(slots >= 60);
    cluster.simulation.restart(3);
    let since = cluster.simulation.now();
    cluster.run_for(5_000);
    let times: Vec<_> = cluster.seen(3).log.iter().map(|(at, _)| (*at - since).0 / 1_000).collect();
    assert_eq!(times.len(), slots);
    let (first, last) = (times[0], times[slots - 1]);
    // One body takes 10 ms on the line, all of them 600 ms; the first is executed long before the last arrives.
    assert!(first < 150 && (550..1_200).contains(&last), "from {first} to {last} ms");
    let halfway = times[slots / 2];
    assert!(halfway < (first + last) * 2 / 3, "steadily: {times:?}");
    cluster.check();
}
