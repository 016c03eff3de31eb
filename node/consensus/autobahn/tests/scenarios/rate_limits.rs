//! Responses are limited: a peer that floods requests gets as much as a polite one, and takes nothing from others.

use crate::{
    cluster::{Cluster, DELAY, index, plain},
    unsolicited::Counting,
};
use corniche_autobahn::{
    Config, Signer,
    message::{Message, Position, Slot, Status, Tip},
};
use corniche_autobahn_testing::{FakeKeys, FakeSignatures, committee};
use corniche_testkit::{Links, Micros};
use corniche_types::B256;
use std::sync::Arc;

fn ask(cluster: &mut Cluster, from: usize, to: usize, message: &Message) {
    cluster.tell(from, to, message);
}

#[test]
fn request_flood_is_limited_by_token_bucket() {
    let mut cluster = Cluster::new(4, Config { fetch_bytes: 20_000, ..plain() });
    let body = "x".repeat(1_000);
    for round in 0..40 {
        cluster.submit(0, &format!("{round}{body}"));
        cluster.run_for(4 * DELAY);
    }
    cluster.run_for(1_000);
    let held = cluster.seen(1).sent.iter().rev().find_map(|(_, _, message)| match message {
        Message::CarVote { tip, .. } if tip.lane.0 == 0 => Some(*tip),
        _ => None,
    });
    let tip: Tip = held.unwrap();
    let before = cluster.simulation.now();
    // Ten thousand requests in a second.
    for _ in 0..1_000 {
        for number in 0..10 {
            ask(&mut cluster, 3, 1, &Message::FetchCars { tip, above: Position(number) });
            ask(&mut cluster, 3, 1, &Message::FetchCommits { above: Slot(number) });
        }
        cluster.run_for(1);
    }
    let answers = cluster.seen(1).sent.iter().filter(|(at, ..)| *at >= before);
    let bytes: usize = answers.map(|(_, _, message)| message.encode().len()).filter(|bytes| *bytes > 500).sum();
    // 8 full responses at once and 16 in the second, each of about 20 kB.
    assert!((300_000..800_000).contains(&bytes), "{bytes}");
    // Another peer is served at once.
    let before = cluster.simulation.now();
    ask(&mut cluster, 2, 1, &Message::FetchCars { tip, above: Position(0) });
    let answered = cluster.seen(1).sent.iter().any(|(at, _, message)| *at >= before && matches!(message, Message::Cars { .. }));
    assert!(answered);
}

#[test]
fn small_cars_cost_their_wire_size() {
    let mut cluster = Cluster::new(4, Config { fetch_bytes: 60_000, ..plain() });
    cluster.load([0], true);
    cluster.run_for(3_000);
    cluster.load([0], false);
    cluster.run_for(1_000);
    let held = cluster.seen(1).sent.iter().rev().find_map(|(_, _, message)| match message {
        Message::CarVote { tip, .. } if tip.lane.0 == 0 => Some(*tip),
        _ => None,
    });
    let (tip, before): (Tip, _) = (held.unwrap(), cluster.simulation.now());
    assert!(tip.position.0 > 100);
    for _ in 0..1_000 {
        (0..10).for_each(|number| ask(&mut cluster, 3, 1, &Message::FetchCars { tip, above: Position(number) }));
        cluster.run_for(1);
    }
    let answers = cluster.seen(1).sent.iter().filter(|(at, ..)| *at >= before);
    let bytes: usize = answers.map(|(_, _, message)| message.encode().len()).filter(|bytes| *bytes > 500).sum();
    // 24 full responses, and the one that causes a debt.
    assert!((500_000..1_700_000).contains(&bytes), "{bytes}");
}

#[test]
fn request_for_missing_data_gets_empty_response() {
    let mut cluster = Cluster::new(4, plain());
    let tip = Tip { lane: corniche_types::ValidatorIndex(0), position: Position(7), digest: B256::with_last_byte(1) };
    ask(&mut cluster, 3, 1, &Message::FetchCars { tip, above: Position(0) });
    let empty = |message: &Message| matches!(message, Message::Cars { cars, .. } if cars.is_empty());
    assert_eq!(cluster.seen(1).count(empty), 1);
    ask(&mut cluster, 3, 1, &Message::FetchCommits { above: Slot(u64::MAX) });
}

#[test]
fn all_responses_share_one_token_bucket() {
    let mut cluster = Cluster::new(4, Config { fetch_bytes: 1_000, view_timeout_ms: 60_000, ..plain() });
    cluster.submit(0, "one");
    cluster.run_for(1_000);
    let sent = |cluster: &Cluster, wanted: &dyn Fn(&Message) -> bool| {
        (0..4).flat_map(|node| cluster.seen(node).sent.clone()).map(|(_, _, message)| message).find(|message| wanted(message))
    };
    let Some(Message::Prepare(prepare)) = sent(&cluster, &|message| matches!(message, Message::Prepare(_))) else { panic!() };
    let car = sent(&cluster, &|message| matches!(message, Message::Car(_))).unwrap();
    let cut = corniche_autobahn::message::Context::new(&cluster.committee).cut(&prepare.cut);
    let slot = prepare.cut.slot;
    let leader = (0..4).find(|node| cluster.seen(*node).count(|message| matches!(message, Message::Prepare(_))) > 0).unwrap();
    let me = (0..4).find(|node| *node != leader && *node != 0).unwrap();
    // A slot that is still open: its leader repeats its proposal.
    let open = Slot(slot.0 + 1);
    let requests = [
        (3, Message::FetchCut { slot, cut }),
        (3, Message::Prepare(prepare.clone())),
        (0, car),
        (3, Message::FetchCut { slot: open, cut: B256::ZERO }),
    ];
    for (from, request) in requests.into_iter().filter(|(from, _)| *from != me) {
        cluster.run_for(10_000);
        let before = cluster.simulation.now();
        for _ in 0..1_000 {
            (0..10).for_each(|_| ask(&mut cluster, from, me, &request));
            cluster.run_for(1);
        }
        let answers = cluster.seen(me).sent.iter().filter(|(at, ..)| *at >= before).count();
        // 8 at once and 16 in the second, each counted as 1 kB more than its size, and regular messages.
        assert!(answers <= 60, "{answers} answers to ten thousand of {request:?}");
    }
}

/// All faulty validators of fifty request as much as they can, for about one second.
#[test]
fn concurrent_floods_share_one_limit() {
    let (size, faulty) = (50, 16);
    let links = Links::uniform(size, Micros::from_millis(DELAY));
    let signers = (0..size).map(|node| Arc::new(FakeKeys(index(node))) as Arc<dyn Signer>).collect();
    let counting = Counting::new(Arc::new(FakeSignatures));
    let config = Config { fetch_bytes: 20_000, ..plain() };
    let mut cluster = Cluster::with_keys(links, config, committee(size), signers, counting.clone());
    cluster.simulation.start_all();
    cluster.run_for(5 * DELAY);
    let (node, body) = (faulty, "x".repeat(1_000));
    for round in 0..25 {
        (0..=faulty).for_each(|lane| cluster.submit(lane, &format!("{round}{body}")));
        cluster.run_for(4 * DELAY);
    }
    cluster.run_for(500);
    let tip = cluster.seen(node).sent.iter().rev().find_map(|(_, _, message)| match message {
        Message::CarVote { tip, .. } if tip.lane == index(0) => Some(*tip),
        _ => None,
    });
    // The other validators are down, so everything that is sent is a response.
    (0..size).filter(|other| *other != node).for_each(|other| cluster.simulation.crash(other));
    cluster.run_for(100);
    counting.take();
    let (tip, before) = (tip.unwrap(), cluster.simulation.now());
    let lanes = vec![Position(0); size];
    for step in 0..200 {
        for liar in 0..faulty {
            for number in 0..2 {
                let nonce = 10 * step + number;
                let status = Status {
                    nonce,
                    wants_response: true,
                    committed: None,
                    receiver_car: None,
                    lanes: lanes.clone(),
                    disk_id: None,
                    peer_disk: None,
                };
                ask(&mut cluster, liar, node, &Message::Status(status));
                ask(&mut cluster, liar, node, &Message::FetchCars { tip, above: Position(number) });
            }
        }
        cluster.run_for(5);
    }
    let checks = counting.take();
    let answers = cluster.seen(node).sent.iter().filter(|(at, ..)| *at >= before);
    let bytes: usize = answers.map(|(_, _, message)| message.encode().len()).sum();
    // One validator of four gets 24 full responses in its first second. A full response takes about a millisecond, a
    // check 50 µs.
    assert!((8 * 20_000..64 * 20_000).contains(&bytes), "{bytes} bytes");
    assert!(checks < 200, "{checks} signature checks");
}
