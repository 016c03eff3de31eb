//! Row 5: no validator waits for the data of a certified tip (N9).

use crate::cluster::{Cluster, DELAY, LOST, plain};
use corniche_autobahn::{
    Config,
    message::{CommitKind, Message},
};
use corniche_testkit::{Delivery, Micros};

/// Delivery times at the first three validators, with or without bodies for the last one.
fn times(withhold: bool) -> Vec<Micros> {
    let config = Config { optimistic_tips: false, leader_tips: false, availability_wait_ms: 0, ..plain() };
    let mut cluster = Cluster::new(4, config);
    cluster.set_rule(move |_, _, to, message| {
        let body = matches!(message, Message::Car(_) | Message::Cars { .. });
        if withhold && body && to == 3 { LOST } else { Delivery::Normal }
    });
    let mut times = Vec::new();
    for round in 0..10 {
        let text = format!("t{round}");
        cluster.submit(round % 3, &text);
        cluster.run_for(20 * DELAY);
        times.extend((0..3).map(|node| cluster.seen(node).delivered_at(&text).unwrap()));
    }
    let commits = (0..4).flat_map(|node| cluster.seen(node).sent.iter());
    let fast = commits.filter(|(_, _, message)| matches!(message, Message::Commit(commit) if commit.kind == CommitKind::Fast));
    assert!(fast.count() >= 10, "the last validator's votes are in time");
    assert_eq!(cluster.seen(3).log.is_empty(), withhold, "it executes nothing that it does not hold");
    cluster.clear_rule();
    cluster.run_for(2_000);
    assert!(cluster.seen(3).delivered_at("t9").is_some());
    cluster.check();
    times
}

#[test]
fn row_5_votes_do_not_wait_for_certified_data() {
    assert_eq!(times(true), times(false));
}
