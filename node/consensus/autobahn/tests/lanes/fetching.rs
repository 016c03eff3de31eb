//! Histories and bodies (Y1–Y5, P15), and their bounds against any peer.

use crate::net::{Net, OWNER, index};
use corniche_autobahn::{
    Config,
    lanes::{CAR_WEIGHT, MAX_EARLY_FETCHES, Purpose},
    message::{Context, Message, Position, Tip},
    verify::MAX_CARS,
};

#[test]
fn d4_y1_gap_is_fetched_from_signers() {
    let mut net = Net::new(4, Config::default());
    net.deaf = vec![3];
    for car in 0..50 {
        assert!(net.batch(0, &format!("{car}")));
        net.run();
    }
    net.deaf.clear();
    net.batch(0, "the car that arrives");
    net.run();
    // Y1: one request and one response for any length.
    assert_eq!(net.count(|message| matches!(message, Message::FetchCars { .. })), 1);
    assert_eq!(net.nodes[3].positions(OWNER)[2], Position(51));
    assert_eq!(net.votes(3), [51], "what others certified needs no vote");
    let asked = net.sent.iter().find(|(_, _, message)| matches!(message, Message::FetchCars { .. })).unwrap().1;
    let signers = net.nodes[3].certified(OWNER).unwrap().proof.signers.clone();
    assert!(signers.contains(&index(asked)));
}

#[test]
fn d4_lagging_validator_catches_up_with_growing_lane() {
    let mut net = Net::new(4, Config::default());
    let cars = net.chain(14, "c", &[1, 2]);
    cars.iter().for_each(|car| net.take(1, car));
    net.queue.clear();
    net.sent.clear();
    // While the response about the first nine is in transit, more cars arrive. They are not requested.
    cars[9..].iter().for_each(|car| net.take(3, car));
    assert_eq!(net.count(|message| matches!(message, Message::FetchCars { .. })), 1);
    net.run();
    assert_eq!(net.count(|message| matches!(message, Message::FetchCars { .. })), 1);
    assert_eq!(net.nodes[3].positions(OWNER)[2], Position(14));
    assert_eq!(net.votes(3), [14]);
}

#[test]
fn y1_p15_silent_signers_are_hedged() {
    let mut net = Net::new(7, Config::default());
    let cars = net.chain(20, "c", &[1, 2, 3]);
    cars.iter().for_each(|car| net.take(3, car));
    net.sent.clear();
    net.queue.clear();
    net.deaf = vec![1, 2];
    net.take(6, &cars[19]);
    net.run();
    assert_eq!(net.count(|message| matches!(message, Message::FetchCars { .. })), 1, "one is asked");
    for retries in 2..=3 {
        net.later(net.config.fetch_retry_ms);
        assert_eq!(net.count(|message| matches!(message, Message::FetchCars { .. })), retries);
    }
    net.run();
    assert_eq!(net.nodes[6].positions(OWNER)[2], Position(20));
    assert_eq!(net.nodes[6].fetch_count(), 0);
}

#[test]
fn long_history_is_fetched_in_parts() {
    let mut net = Net::new(4, Config { fetch_bytes: 3 * 300, ..Config::default() });
    let cars = net.chain(31, "c", &[1, 2]);
    cars.iter().for_each(|car| net.take(1, car));
    net.queue.clear();
    net.take(3, &cars[30]);
    net.run();
    assert_eq!(net.nodes[3].positions(OWNER)[2], Position(31));
    assert_eq!(net.nodes[3].chain(&cars[30].tip()).unwrap().len(), 31);
}

/// Time until validator 6 holds a history of 500 cars that validators 1, 2 and 3 hold. An honest response contains a
/// hundred of them and takes `round_trip_ms`. If `drips`, validator 1 sends one car per request, just before another
/// peer is asked, and one more every 10 ms if it is `pushy`.
fn time_to_fetch(round_trip_ms: u64, drips: bool, pushy: bool) -> u64 {
    let mut net = Net::new(7, Config { fetch_bytes: 100 * 260, ..Config::default() });
    let cars = net.chain(500, "c", &[1, 2, 3]);
    for holder in 1..4 {
        cars.iter().for_each(|car| net.take(holder, car));
    }
    net.queue.clear();
    let (tip, start) = (cars[499].tip(), net.now.0);
    let drip = |net: &mut Net, gap: Tip| {
        let car = cars[usize::try_from(gap.position.0).unwrap() - 1].clone();
        net.act(6, |lanes, now| lanes.handle_cars(now, index(1), gap, &[car]));
    };
    let mut answers: Vec<(u64, usize, Message)> = Vec::new();
    net.act(6, |lanes, now| lanes.fetch_history(now, tip, Position(0), &[index(1), index(2), index(3)]));
    while net.nodes[6].chain(&tip).is_none() && net.now.0 < start + 60_000 {
        for (from, to, message) in std::mem::take(&mut net.queue) {
            match message {
                Message::FetchCars { tip, .. } if to == 1 && drips => {
                    let car = cars[usize::try_from(tip.position.0).unwrap() - 1].signed().clone();
                    answers.push((net.now.0 + 290, 1, Message::Cars { tip, cars: vec![car] }));
                }
                Message::FetchCars { .. } => {
                    net.deliver(from, to, message);
                    answers.extend(net.queue.drain(..).map(|(_, _, answer)| (net.now.0 + round_trip_ms, to, answer)));
                }
                _ => {}
            }
        }
        net.later(10);
        let now = net.now.0;
        for (_, from, answer) in answers.extract_if(.., |(at, ..)| *at <= now).collect::<Vec<_>>() {
            net.deliver(from, 6, answer);
        }
        let gap = cars.iter().rev().find(|car| !net.nodes[6].needs(&car.tip()));
        if let Some(gap) = gap.filter(|_| pushy) {
            drip(&mut net, gap.tip());
        }
    }
    net.now.0 - start
}

#[test]
fn p15_dripping_source_is_replaced() {
    let honest = time_to_fetch(20, false, false);
    assert!(honest <= 5 * 20 + 20, "{honest} ms");
    for pushy in [false, true] {
        let took = time_to_fetch(20, true, pushy);
        // It costs no more than a silent one.
        assert!(took <= honest + 300, "{took} ms, pushy: {pushy}");
    }
}

#[test]
fn p15_slow_holders_are_still_used() {
    let took = time_to_fetch(400, false, false);
    assert!(took <= 5 * 400 + 100, "{took} ms");
}

#[test]
fn unrequested_responses_are_dropped() {
    let mut net = Net::new(4, Config::default());
    let cars = net.chain(5, "c", &[1, 2]);
    net.act(3, |lanes, now| lanes.handle_cars(now, index(1), cars[4].tip(), &cars));
    assert_eq!(net.nodes[3].footprint(), 0);
}

#[test]
fn a_useless_answer_is_the_only_one_until_the_peer_is_asked_again() {
    let mut net = Net::new(4, Config::default());
    let cars = net.chain(5, "c", &[1, 2]);
    let others = net.chain(5, "others", &[1, 2]);
    net.take(3, &cars[4]);
    let awaits = |net: &Net, peer: usize| net.nodes[3].cars_owed(index(peer), OWNER) == MAX_CARS;
    let asked = (0..3).find(|peer| awaits(&net, *peer)).expect("a signer is asked");
    assert_eq!((0..3).filter(|peer| awaits(&net, *peer)).count(), 1);
    assert_eq!(net.nodes[3].cars_owed(index(asked), index(1)), 0, "not about another lane");
    net.act(3, |lanes, now| lanes.handle_cars(now, index(asked), others[4].tip(), &others));
    assert!(!awaits(&net, asked));
    net.queue.clear();
    (0..4).for_each(|_| net.later(net.config.fetch_retry_ms));
    assert!(awaits(&net, asked), "asked again");
    net.act(3, |lanes, now| lanes.handle_cars(now, index(asked), cars[3].tip(), &cars[..4]));
    assert_eq!(net.nodes[3].positions(OWNER)[2], Position(5));
    assert!((0..3).all(|peer| !awaits(&net, peer)));
}

/// No vote waits for a body, and no cut names one.
fn drop_all(net: &mut Net, node: usize) {
    net.act(node, |lanes, _| lanes.drop_bodies(|_| false, |_| false));
}

#[test]
fn y4_uncertified_chain_keeps_requested_body_only() {
    let mut net = Net::new(4, Config::default());
    let mut parent = Context::new(&net.committee).start(OWNER);
    let mut cars = Vec::new();
    for place in 0..100 {
        cars.push(net.car(parent, &format!("nobody voted for {place}"), None));
        parent = cars[place].tip();
    }
    let tip = cars[99].tip();
    net.act(1, |lanes, now| lanes.fetch_body(now, tip, index(2), Purpose(7)));
    net.queue.clear();
    assert_eq!(net.nodes[1].cars_owed(index(2), OWNER), 1, "longer responses are not read");
    net.act(1, |lanes, now| lanes.handle_cars(now, index(2), tip, &cars));
    assert_eq!(net.nodes[1].footprint(), 1, "one car, and nothing is asked for any more");
    assert!(!net.nodes[1].may_vote_strongly(&tip), "N6: its parent is not certified");
    // A slot still names it, then none does.
    net.act(1, |lanes, _| lanes.drop_bodies(|_| false, |named| *named == tip));
    assert!(net.nodes[1].needs(&tip));
    drop_all(&mut net, 1);
    assert!(!net.nodes[1].needs(&tip) && net.nodes[1].unexecuted(OWNER) == 0);
}

#[test]
fn y4_extended_body_stays() {
    let mut net = Net::new(4, Config::default());
    let cars = net.chain(3, "c", &[2, 3]);
    let tip = cars[0].tip();
    net.act(1, |lanes, now| lanes.fetch_body(now, tip, index(2), Purpose(7)));
    net.act(1, |lanes, now| lanes.handle_cars(now, index(2), tip, &cars[..1]));
    drop_all(&mut net, 1);
    assert_eq!(net.votes(1), [1]);
    cars[1..].iter().for_each(|car| net.take(1, car));
    drop_all(&mut net, 1);
    assert_eq!((net.votes(1), net.nodes[1].chain(&cars[2].tip()).map(|cars| cars.len())), (vec![1, 2, 3], Some(3)));
}

#[test]
fn y4_fetch_ends_with_its_vote() {
    let mut net = Net::new(4, Config::default());
    let start = Context::new(&net.committee).start(OWNER);
    for slot in 1..50u8 {
        let tip = Tip { position: Position(1), digest: corniche_types::B256::with_last_byte(slot), ..start };
        net.act(1, |lanes, now| lanes.fetch_body(now, tip, index(2), Purpose(slot.into())));
    }
    assert_eq!(net.nodes[1].footprint(), 49);
    net.act(1, |lanes, _| lanes.drop_bodies(|slot| slot > Purpose(47), |_| false));
    assert_eq!(net.nodes[1].footprint(), 2);
    drop_all(&mut net, 1);
    assert_eq!((net.nodes[1].footprint(), net.nodes[1].deadline()), (0, None), "and nobody is asked again");
}

#[test]
fn y2_early_fetches_are_limited() {
    let mut net = Net::new(4, Config { lane_bytes: 2 * CAR_WEIGHT, ..Config::default() });
    let cars = net.chain(60, "", &[2, 3]);
    // No peer responds.
    for car in &cars[..50] {
        net.act(1, |lanes, now| lanes.prefetch(now, car.tip(), &[index(2), index(3)]));
    }
    assert_eq!(net.nodes[1].footprint(), MAX_EARLY_FETCHES);
    let asked = net.count(|message| matches!(message, Message::FetchCars { .. }));
    assert_eq!(asked, MAX_EARLY_FETCHES, "what is not due is not asked");
    // A history whose turn has come is requested.
    net.act(1, |lanes, now| lanes.fetch_history(now, cars[59].tip(), Position(0), &[index(2), index(3)]));
    assert_eq!(net.nodes[1].footprint(), MAX_EARLY_FETCHES + 1);
    // An early response fills the lane and no more; the history executed next is accepted completely.
    net.act(3, |lanes, now| lanes.prefetch(now, cars[49].tip(), &[index(2)]));
    net.act(3, |lanes, now| lanes.handle_cars(now, index(2), cars[49].tip(), &cars[..50]));
    assert_eq!((net.nodes[3].footprint(), net.nodes[3].fetch_count()), (4, 0));
    net.act(1, |lanes, now| lanes.handle_cars(now, index(2), cars[59].tip(), &cars));
    assert_eq!(net.nodes[1].chain(&cars[59].tip()).map(|cars| cars.len()), Some(60));
    assert_eq!(net.nodes[1].fetch_count(), 0);
}

#[test]
fn executed_cars_are_not_fetched() {
    let mut net = Net::new(4, Config::default());
    let (lost, kept) = (net.chain(3, "lost", &[2, 3]), net.chain(5, "kept", &[2, 3]));
    net.act(1, |lanes, now| lanes.prefetch(now, lost[2].tip(), &[index(2), index(3)]));
    kept.iter().for_each(|car| net.take(1, car));
    assert_eq!(net.nodes[1].fetch_count(), 1);
    net.execute(1, kept[4].tip());
    assert_eq!((net.nodes[1].fetch_count(), net.nodes[1].deadline()), (0, None));
}
