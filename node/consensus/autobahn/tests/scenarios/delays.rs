//! Rows 19 and 20, and the end-to-end part of the table of message delays: from a transaction's arrival to its delivery
//! at all validators.

use crate::cluster::{Cluster, LOST, index, plain};
use corniche_autobahn::{
    Config,
    message::Message,
    message::{Slot, View},
    rules::Schedule,
};
use corniche_testkit::Delivery;

/// Leader of the next slot, once the network is at rest.
fn warm(cluster: &mut Cluster, config: &Config) -> usize {
    cluster.submit(0, "warm");
    cluster.run_for(1_000);
    let next = Slot(cluster.seen(0).log.len() as u64 + 1);
    Schedule::new(&cluster.committee, config).leader(next, View(0)).as_usize()
}

/// Delays until all `nodes` delivered a transaction that was submitted `away` positions after the leader.
fn delays(config: &Config, away: usize, nodes: &[usize]) -> u64 {
    let mut cluster = Cluster::new(4, config.clone());
    let leader = warm(&mut cluster, config);
    let since = cluster.simulation.now();
    cluster.submit((leader + away) % 4, "tx");
    let took = cluster.delays_until(since, "tx", nodes);
    cluster.check();
    took
}

const ALL: [usize; 4] = [0, 1, 2, 3];

#[test]
fn end_to_end_message_delays() {
    let modes = [(true, true), (true, false), (false, false)];
    for fast_path in [true, false] {
        for (leader_tips, optimistic_tips) in modes {
            let config = Config { leader_tips, optimistic_tips, fast_path, availability_wait_ms: 0, ..plain() };
            let slow = if fast_path { 0 } else { 2 };
            // Another validator's car: one delay to the leader if it may be named at once; three if its certificate
            // must come.
            let others = if optimistic_tips { 4 } else { 6 };
            assert_eq!(delays(&config, 1, &ALL), others + slow, "fast {fast_path}, optimistic {optimistic_tips}");
            // The leader's own car: with its PREPARE at once, or once it is certified, a round trip later.
            let own = if leader_tips { 3 } else { 5 };
            assert_eq!(delays(&config, 0, &ALL), own + slow, "fast {fast_path}, leader tips {leader_tips}");
        }
    }
}

#[test]
fn row_20_withheld_body_costs_two_delays() {
    // The fast path waits for the last vote, and the certificate for a car that never comes.
    let config = Config { fast_wait_ms: 100, availability_wait_ms: 10_000, ..plain() };
    let mut cluster = Cluster::new(4, config.clone());
    let leader = warm(&mut cluster, &config);
    let (owner, kept) = ((leader + 1) % 4, (leader + 2) % 4);
    // P29: the owner shows its car to all but one.
    cluster.set_rule(move |_, from, to, message| {
        let withheld = matches!(message, Message::Car(_)) && (from, to) == (owner, kept);
        if withheld { LOST } else { Delivery::Normal }
    });
    let since = cluster.simulation.now();
    cluster.submit(owner, "tx");
    // The last vote is two delays late: one request to the leader, one response.
    assert_eq!(cluster.delays_until(since, "tx", &ALL), 4 + 2);
    let asked =
        cluster.seen(kept).sent.iter().filter(|(at, _, message)| *at > since && matches!(message, Message::FetchCars { .. }));
    let asked: Vec<_> = asked.collect();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].1, corniche_engine::Recipients::One(index(leader)));
    cluster.check();
}

#[test]
fn row_19_withholding_leader_loses_one_slot() {
    let config = Config { view_timeout_ms: 200, ..plain() };
    let mut cluster = Cluster::new(4, config.clone());
    let leader = warm(&mut cluster, &config);
    cluster.set_rule(move |_, from, _, message| {
        let withheld = matches!(message, Message::Car(_) | Message::Cars { .. }) && from == leader;
        if withheld { LOST } else { Delivery::Normal }
    });
    cluster.submit(leader, "hidden");
    cluster.run_for(50);
    let requests =
        |cluster: &Cluster, node: usize| cluster.seen(node).count(|message| matches!(message, Message::FetchCars { .. }));
    let other = (leader + 1) % 4;
    assert_eq!(requests(&cluster, other), 1, "one question");
    cluster.submit(other, "tx");
    let since = cluster.simulation.now();
    let others: Vec<_> = (0..4).filter(|node| *node != leader).collect();
    // 200 ms for the view, and a few delays.
    assert!(cluster.delays_until(since - (since - corniche_testkit::Micros(since.0 / 10_000 * 10_000)), "tx", &others) < 40);
    cluster.check();
}
