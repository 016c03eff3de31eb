//! Power cuts and lost disks (R1, R3, R5).

use crate::net::{Net, OWNER, index};
use corniche_autobahn::{
    Config,
    lanes::{Purpose, Write},
    message::{Context, HashedCar, Position, SignedCar},
};
use std::sync::Arc;

#[test]
fn r1_r3_power_cut_keeps_votes_and_cars() {
    let mut net = Net::new(4, Config::default());
    net.batch(0, "certified");
    net.run();
    net.batch(0, "not certified");
    net.queue.clear(); // No node gets it.
    let own = net.nodes[0].own_tip().unwrap();
    net.restart(0);
    assert_eq!(net.nodes[0].own_tip(), Some(own));
    net.run();
    assert_eq!((net.certified(0), own.position.0), (2, 2), "R3: the identical car was sent again");
    // N5: the other car of a position gets no vote in another incarnation either.
    let fork = net.car(Context::new(&net.committee).start(OWNER), "fork", None);
    net.restart(1);
    net.sent.clear();
    net.take(1, &fork);
    assert!(net.votes(1).is_empty());
}

#[test]
fn r5_lost_records_abstain_from_old_positions() {
    let mut net = Net::new(4, Config::default());
    let cars = net.chain(4, "c", &[2, 3]);
    net.act(1, |lanes, _| lanes.abstain(&[Position(2), Position(0), Position(0), Position(0)]));
    cars.iter().for_each(|car| net.take(1, car));
    assert_eq!(net.votes(1), [3, 4]);
}

#[test]
fn r5_lost_lane_continues_above_known_cars() {
    let mut net = Net::new(4, Config::default());
    for car in 0..3 {
        assert!(net.batch(0, &format!("{car}")));
        net.run();
    }
    let remembered = net.nodes[1].highest(OWNER).unwrap().clone();
    net.writes[0].clear();
    net.asking.clear();
    let start = (0..4).map(|lane| Context::new(&net.committee).start(index(lane))).collect();
    net.nodes[0] = net.start(0, start, Vec::new());
    net.act(0, |lanes, _| assert!(lanes.adopt_own_car(&remembered)));
    assert_eq!(net.certified(0), 2, "the car may be all that tells of it");
    net.act(0, |lanes, now| lanes.open_own_lane(now));
    net.run();
    assert_eq!(net.certified(0), 3);
    assert!(net.batch(0, "next"));
    net.run();
    assert_eq!((net.certified(0), net.accused.len()), (4, 0));
}

#[test]
fn r5_returned_bare_car_is_certified() {
    // Certificates are not signed by the owner: a peer that returns its car may withhold them.
    for ahead in [1, 3] {
        let mut net = Net::new(4, Config { cars_ahead: ahead, ..Config::default() });
        for car in 0..4 + ahead {
            assert!(net.batch(0, &format!("{car}")));
            net.run();
        }
        let highest = net.nodes[1].highest(OWNER).unwrap().clone();
        let certificate = net.nodes[1].certified(OWNER).cloned().unwrap();
        let bare = SignedCar { certificate: None, ..highest.signed().clone() };
        let bare = Arc::new(HashedCar::trusted(bare, &Context::new(&net.committee)));
        assert!(certificate.tip.position < bare.position());
        net.writes[0].clear();
        net.asking.clear();
        net.sent.clear();
        let start = (0..4).map(|lane| Context::new(&net.committee).start(index(lane))).collect();
        net.nodes[0] = net.start(0, start, Vec::new());
        net.act(0, |lanes, _| assert!(lanes.adopt_own_car(&bare)));
        net.act(0, |lanes, now| lanes.open_own_lane(now));
        net.run();
        assert!(net.sent.is_empty() && !net.asking.contains(&0), "nothing that others would take for a fault");
        // At least one peer is honest.
        net.act(0, |lanes, _| lanes.learn(&certificate));
        net.later(net.config.resend_ms);
        net.run();
        let before = net.certified(0);
        assert!(net.batch(0, "next"), "{ahead} ahead");
        net.run();
        assert!(net.certified(0) > before && net.accused.is_empty());
    }
}

#[test]
fn n5_vote_for_stored_car_is_recovered() {
    let mut net = Net::new(4, Config::default());
    let (one, other) = (net.chain(1, "a", &[]), net.chain(1, "b", &[]));
    // It was fetched, so it is on disk without a vote, and the vote is a separate record.
    net.act(1, |lanes, now| lanes.fetch_body(now, one[0].tip(), index(2), Purpose(1)));
    net.act(1, |lanes, now| lanes.handle_cars(now, index(2), one[0].tip(), &one));
    assert_eq!(net.votes(1), [1]);
    assert!(net.writes[1].iter().any(|write| matches!(write, Write::Vote(_))));
    net.restart(1);
    net.sent.clear();
    net.take(1, &other[0]);
    assert!(net.votes(1).is_empty());
}
