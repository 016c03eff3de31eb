//! Owners that sign two cars for one position (D5, D9, G2, G5, P9, P21, P22).

use crate::net::{Net, OWNER, index};
use corniche_autobahn::{
    Config,
    lanes::Purpose,
    message::{Context, HashedCar, Position, SignedCar, Tip},
};
use std::sync::Arc;

#[test]
fn d9_forker_is_accused_and_gets_one_vote() {
    let mut net = Net::new(4, Config::default());
    let (one, other) = (net.chain(1, "a", &[]), net.chain(1, "b", &[]));
    net.take(1, &one[0]);
    net.take(1, &other[0]);
    net.take(1, &other[0]);
    assert_eq!((net.votes(1), net.accused.clone()), (vec![1], vec![(1, OWNER)]));
    // P9: the car that was voted for is kept.
    assert_eq!(net.nodes[1].optimistic(OWNER).map(|(tip, _)| tip), Some(one[0].tip()));
}

#[test]
fn d9_false_signature_does_not_hide_fork() {
    let mut net = Net::new(4, Config::default());
    let [one, fetched, other] = ["a", "b", "c"].map(|text| net.chain(1, text, &[]).remove(0));
    net.take(1, &one);
    // A history that others certified is accepted by its hashes.
    let forged = SignedCar { signature: [7; 64], ..fetched.signed().clone() };
    let forged = Arc::new(HashedCar::trusted(forged, &Context::new(&net.committee)));
    net.act(1, |lanes, now| lanes.fetch_history(now, fetched.tip(), Position(0), &[index(2)]));
    net.act(1, |lanes, now| lanes.handle_cars(now, index(2), forged.tip(), std::slice::from_ref(&forged)));
    assert!(net.nodes[1].needs(&forged.tip()) && net.accused.is_empty(), "one signature proves nothing");
    net.take(1, &other);
    assert_eq!(net.accused, [(1, OWNER)]);
}

#[test]
fn p21_fetched_fork_gets_no_car_vote() {
    let mut net = Net::new(4, Config::default());
    let (one, other) = (net.chain(1, "a", &[]), net.chain(1, "b", &[]));
    net.take(1, &one[0]);
    net.take(2, &other[0]);
    net.sent.clear();
    let tip = other[0].tip();
    assert!(!net.nodes[1].may_vote_strongly(&tip));
    net.act(1, |lanes, now| lanes.fetch_body(now, tip, index(2), Purpose(1)));
    net.run();
    assert!(net.nodes[1].may_vote_strongly(&tip) && net.nodes[1].may_vote_strongly(&one[0].tip()));
    assert_eq!(net.votes(1), [0; 0]);
}

#[test]
fn d5_p22_losing_fork_voter_follows_commit() {
    let mut net = Net::new(4, Config::default());
    let (lost, kept) = (net.chain(1, "lost", &[]), net.chain(2, "kept", &[2, 3]));
    net.take(1, &lost[0]);
    net.take(2, &kept[0]);
    net.take(1, &kept[1]);
    net.run();
    assert_eq!(net.votes(1), [1], "D5: no vote for the child of what it did not vote for");
    net.execute(1, kept[0].tip());
    assert_eq!(net.votes(1), [1, 2]);
    // G2, row 31: the losing fork is dropped.
    assert!(net.nodes[1].get(&lost[0].tip()).is_none());
}

#[test]
fn g2_forks_are_dropped_and_stale_tips_ignored() {
    let mut net = Net::new(4, Config::default());
    let kept = net.chain(40, "kept", &[1, 2]);
    for (place, car) in kept.iter().enumerate() {
        net.take(1, car);
        net.take(2, car);
        for fork in 0..5 {
            let fork = net.car(car.parent(), &format!("fork {fork}"), car.certificate().cloned());
            net.take(1, &fork);
        }
        net.execute(1, car.tip());
        if place > 3 {
            // P8: cuts of consecutive slots may go backwards.
            net.execute(1, kept[place - 2].tip());
        }
        assert_eq!(net.nodes[1].executed(OWNER), car.tip());
        net.nodes[1].forget(&[car.position(), Position(0), Position(0), Position(0)]);
        assert_eq!(net.nodes[1].footprint(), 1, "one body a position, and only the last");
        assert_eq!(net.nodes[1].unexecuted(OWNER), 0);
    }
}

#[test]
fn g5_car_flood_fills_one_place_per_lane() {
    for ahead in [1, 4] {
        let mut net = Net::new(4, Config { cars_ahead: ahead, ..Config::default() });
        let start = Context::new(&net.committee).start(OWNER);
        for flood in 0..200u64 {
            // Forks at every position, and orphans.
            let digest = corniche_types::B256::with_last_byte(u8::try_from(flood % 250).unwrap());
            let orphan = Tip { position: Position(flood % 9), digest, ..start };
            let parent = if flood % 3 == 0 { start } else { orphan };
            let car = net.car(parent, &format!("{flood:0>10}"), None);
            net.take(1, &car);
            assert!(net.nodes[1].uncertified_bytes(OWNER) <= 10 * ahead as usize, "{ahead} ahead");
        }
        assert!(net.nodes[1].uncertified_bytes(OWNER) > 0);
    }
}
