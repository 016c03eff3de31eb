//! Rows 31 and 32, P9, P21, P22: a lane's owner that shows different cars to different validators.

use crate::{
    cluster::plain,
    scripted::{FORKER, tell, without_owner},
};
use corniche_autobahn::{
    Config,
    message::{Message, Tip},
};
use corniche_engine::Offence;
use corniche_types::B256;

#[test]
fn row_31_certified_forks_give_one_log() {
    let (mut cluster, mut scripted) = without_owner(Config { view_timeout_ms: 300, retain_slots: 10, ..plain() });
    let start = scripted.context.start(FORKER);
    // f + 1 with the forker's own vote are two: each of its branches needs only one supporter.
    let mut stories = [(vec![1], start, None), (vec![2, 3], start, None)];
    let mut believed = true;
    for round in 0..60 {
        for (believers, tip, certificate) in &mut stories {
            let car = scripted.car(*tip, certificate.clone(), 100);
            let next = scripted.tip(&car);
            believers.iter().for_each(|to| tell(&mut cluster, *to, &Message::Car(car.clone())));
            cluster.run_for(1);
            let voted = |message: &Message| matches!(message, Message::CarVote { tip, .. } if *tip == next);
            if cluster.seen(believers[0]).count(voted) > 0 {
                *certificate = Some(scripted.certificate(&cluster, next, &believers[..1]));
                *tip = next;
            } else {
                // The committed car is on the other branch: this one has lost its supporters.
                believed = false;
            }
        }
        cluster.submit(1 + round % 3, &format!("t{round}"));
        cluster.run_for(150);
    }
    cluster.run_for(10_000);
    assert!(!believed, "D5: no two stories go on for ever");
    let logs: Vec<Vec<_>> =
        (1..4).map(|node| cluster.seen(node).log.iter().map(|(_, ordered)| ordered.clone()).collect()).collect();
    assert!(logs[0].len() > 10 && logs.iter().all(|log| log == &logs[0]));
    for node in 1..4 {
        let seen = cluster.seen(node);
        assert!((0..60).all(|round| seen.delivered_at(&format!("t{round}")).is_some()));
        let [lanes, ..] = cluster.engine(node).footprint();
        assert!(lanes < 4 * 40, "memory is flat: {lanes} cars and fetches");
        assert!(seen.accused.iter().all(|accused| *accused == (FORKER, Offence::Equivocation)));
    }
}

#[test]
fn row_32_uncertified_car_flood_keeps_one_car() {
    for ahead in [1, 4] {
        let (mut cluster, mut scripted) = without_owner(Config { cars_ahead: ahead, view_timeout_ms: 300, ..plain() });
        let start = scripted.context.start(FORKER);
        let mut parents = vec![start];
        for flood in 0..300 {
            let parent = match flood % 3 {
                0 => start,
                1 => *parents.last().unwrap(),
                _ => Tip { digest: B256::with_last_byte(flood as u8), ..parents[flood % parents.len()] },
            };
            let mut parent = parent;
            if parent.position.0 >= ahead {
                parent = start;
            }
            let car = scripted.car(parent, None, 1_000);
            parents.push(scripted.tip(&car));
            (1..4).for_each(|to| tell(&mut cluster, to, &Message::Car(car.clone())));
        }
        for node in 1..4 {
            let held = cluster.engine(node).uncertified_bytes(FORKER);
            assert!((1..=1_000 * ahead as usize).contains(&held), "{ahead} ahead: {held} bytes");
        }
        cluster.submit(1, "through");
        cluster.run_for(3_000);
        assert!((1..4).all(|node| cluster.seen(node).delivered_at("through").is_some()));
    }
}

#[test]
fn n5_one_vote_per_position_across_restarts() {
    let (mut cluster, mut scripted) = without_owner(Config { view_timeout_ms: 60_000, ..plain() });
    let (mut parent, mut certificate) = (scripted.context.start(FORKER), None);
    for _ in 0..5 {
        let [one, other] = [(); 2].map(|()| scripted.car(parent, certificate.clone(), 100));
        tell(&mut cluster, 1, &Message::Car(one.clone()));
        cluster.run_for(20);
        parent = scripted.tip(&one);
        certificate = Some(scripted.certificate(&cluster, parent, &[1]));
        // The car it voted for is on its disk.
        cluster.simulation.crash(1);
        cluster.simulation.restart(1);
        cluster.run_for(200);
        tell(&mut cluster, 1, &Message::Car(other));
        cluster.run_for(20);
        assert_eq!(cluster.seen(1).count(|message| matches!(message, Message::CarVote { .. })), 0, "{:?}", parent.position);
    }
}
