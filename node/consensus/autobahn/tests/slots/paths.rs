//! Pacing: tickets, coverage, idleness, bounds, and how the fast path comes and goes.

use crate::net::{DELAY, Net, index, plain};
use corniche_autobahn::{
    Config,
    message::{Message, Position, Slot},
};

#[test]
fn an_idle_network_has_no_slots_and_no_timers() {
    // P10, rows 9 and 41.
    let mut net = Net::new(4, plain());
    assert!(net.nodes.iter().all(|node| node.slots.as_ref().is_some_and(|slots| slots.deadline().is_none())));
    net.grow();
    assert!(net.run_until(200, |net| net.all_committed(1)));
    net.run_for(100_000);
    for node in &net.nodes {
        assert_eq!(node.commits.len(), 1);
        assert_eq!(node.slots.as_ref().and_then(|slots| slots.deadline()), None);
    }
    assert_eq!(net.sent.get("timeout"), None);
}

#[test]
fn below_coverage_a_leader_waits_and_then_proposes_all_the_same() {
    // P10: one lane of four has news.
    let mut net = Net::new(4, Config { coverage_wait_ms: 30, ..plain() });
    net.certify(2, 1, &[0, 1, 2, 3]);
    assert!(net.run_until(500, |net| net.all_committed(1)));
    assert_eq!(net.proposed_at(1, 0), Some(30));
    let (cut, ..) = &net.nodes[0].commits[&Slot(1)];
    let positions: Vec<_> = cut.tips.iter().map(|tip| tip.position.0).collect();
    assert_eq!(positions, [0, 0, 1, 0], "row 11: all lanes, also those without news");
}

#[test]
fn coverage_paces_the_slots() {
    // Row 9: three lanes have news at once, the fourth after 20 ms.
    for (coverage, start) in [(1, 0), (0, 0), (4, 20)] {
        let mut net = Net::new(4, Config { coverage, coverage_wait_ms: 500, ..plain() });
        [0, 1, 2].into_iter().for_each(|lane| net.certify(lane, 1, &[0, 1, 2, 3]));
        net.run_for(20);
        net.certify(3, 1, &[0, 1, 2, 3]);
        assert!(net.run_until(500, |net| net.all_committed(1)));
        assert_eq!(net.proposed_at(1, 0), Some(start), "coverage {coverage}");
    }
}

#[test]
fn stalled_commits_leave_exactly_k_slots_open_and_one_cut_covers_the_backlog() {
    // Row 15, invariant (g).
    let mut net = Net::new(4, plain());
    net.link = Box::new(|now, _, _, message| (now > 700 || !matches!(message, Message::Prepared { .. })).then_some(DELAY));
    for _ in 0..30 {
        net.grow();
        net.run_for(20);
    }
    let proposed: Vec<_> = (1..=10).filter(|slot| net.proposed_at(*slot, 0).is_some()).collect();
    assert_eq!(proposed, [1, 2, 3, 4], "k = 4");
    assert!(net.run_until(20_000, |net| net.all_committed(5)));
    let (cut, ..) = &net.nodes[0].commits[&Slot(5)];
    assert!(cut.tips.iter().all(|tip| tip.position == Position(30)), "one cut takes it all: {cut:?}");
}

#[test]
fn the_fast_path_is_left_alone_while_somebody_is_down_and_comes_back() {
    // P19.
    let mut net = Net::new(4, Config { fast_wait_ms: 8, ..plain() });
    net.crash(3);
    let mut took = Vec::new();
    let mut slot = 0;
    let commit_next = |net: &mut Net, slot: &mut u64| {
        *slot += 1;
        net.grow();
        assert!(net.run_until(5_000, |net| net.all_committed(*slot)), "slot {slot}");
        let start = net.proposed_at(*slot, 0);
        let end = net.running().filter_map(|node| net.committed_at(node, *slot)).max();
        start.zip(end).map(|(start, end)| end - start)
    };
    while slot < 40 {
        took.extend(commit_next(&mut net, &mut slot));
    }
    // Slots of the crashed leader take a view and are not among these.
    assert_eq!(took.first(), Some(&(5 * DELAY + 8)), "the first pays for waiting: {took:?}");
    assert!(took[12..].iter().all(|ms| *ms == 5 * DELAY), "later ones do not: {took:?}");
    net.start(3);
    for _ in 0..12 {
        commit_next(&mut net, &mut slot);
    }
    took.clear();
    while took.len() < 8 {
        took.extend(commit_next(&mut net, &mut slot));
    }
    assert_eq!(took, [3 * DELAY; 8], "all are back");
}

#[test]
fn a_leader_that_was_kept_from_the_news_is_reminded() {
    // P11: everybody but the leader of slot 1 knows that a lane has grown.
    let mut net = Net::new(4, plain());
    let leader = (0..4).find(|node| net.leads(*node, 1, 0)).expect("somebody leads");
    let others: Vec<_> = (0..4).filter(|node| *node != leader).collect();
    net.certify(leader, 1, &others);
    assert!(net.run_until(900, |net| net.all_committed(1)), "before any view timer");
    assert_eq!(net.sent.get("timeout"), None);
}

#[test]
fn a_hidden_ticket_is_passed_on() {
    // P11: the leader of slot 2 never gets PREPARE(1) nor its commit from the leader of slot 1.
    let mut net = Net::new(4, Config { fast_path: false, ..plain() });
    let (first, second) = (net.leader(1, 0), net.leader(2, 0));
    net.link = Box::new(move |_, from, to, _| ((from, to) != (index(first), index(second))).then_some(DELAY));
    net.grow();
    net.run_for(60);
    net.grow();
    assert!(net.run_until(900, |net| net.all_committed(2)), "before any view timer");
}
