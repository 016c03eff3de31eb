//! Answers are rationed: whoever floods questions gets what a polite asker gets, and takes nothing from anybody.

use crate::cluster::{Cluster, DELAY, plain};
use corniche_autobahn::{
    Config,
    message::{Message, Position, Slot, Tip},
};
use corniche_testkit::{Event, Process};
use corniche_types::B256;

fn ask(cluster: &mut Cluster, from: usize, to: usize, message: &Message) {
    let now = cluster.world.now();
    cluster.world.with(to, |node| node.handle(now, Event::Message { from, message: message.encode() }));
}

#[test]
fn a_flood_of_questions_costs_what_the_allowance_is() {
    let mut cluster = Cluster::new(4, Config { fetch_bytes: 20_000, ..plain() });
    let body = "x".repeat(1_000);
    for round in 0..40 {
        cluster.submit(0, &format!("{round}{body}"));
        cluster.run_for(4 * DELAY);
    }
    cluster.run_for(1_000);
    let held = cluster.node(1).sent.iter().rev().find_map(|(_, _, message)| match message {
        Message::Held { tip, .. } if tip.lane.0 == 0 => Some(*tip),
        _ => None,
    });
    let tip: Tip = held.unwrap();
    let before = cluster.world.now();
    // Ten thousand questions in a second.
    for _ in 0..1_000 {
        for number in 0..10 {
            ask(&mut cluster, 3, 1, &Message::FetchCars { tip, above: Position(number) });
            ask(&mut cluster, 3, 1, &Message::FetchCommits { above: Slot(number) });
        }
        cluster.run_for(1);
    }
    let answers = cluster.node(1).sent.iter().filter(|(at, ..)| *at >= before);
    let bytes: usize = answers.map(|(_, _, message)| message.encode().len()).filter(|bytes| *bytes > 500).sum();
    // 8 full answers at once and 16 in the second, an answer being 20 kB and a little.
    assert!((300_000..800_000).contains(&bytes), "{bytes}");
    // Somebody else is answered at once.
    let before = cluster.world.now();
    ask(&mut cluster, 2, 1, &Message::FetchCars { tip, above: Position(0) });
    let answered = cluster.node(1).sent.iter().any(|(at, _, message)| *at >= before && matches!(message, Message::Cars { .. }));
    assert!(answered);
}

#[test]
fn a_question_for_what_is_not_there_is_answered_so() {
    let mut cluster = Cluster::new(4, plain());
    let tip = Tip { lane: corniche_types::ValidatorIndex(0), position: Position(7), digest: B256::with_last_byte(1) };
    ask(&mut cluster, 3, 1, &Message::FetchCars { tip, above: Position(0) });
    let empty = |message: &Message| matches!(message, Message::Cars { cars, .. } if cars.is_empty());
    assert_eq!(cluster.node(1).count(empty), 1);
    ask(&mut cluster, 3, 1, &Message::FetchCommits { above: Slot(u64::MAX) });
}
