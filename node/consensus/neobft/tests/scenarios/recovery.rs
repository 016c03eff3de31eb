//! Disks: what is durable before it is sent, and restarts (§2.5, S5).

use crate::{
    cluster::{Cluster, DELAY, LOST, index, plain, progress},
    gaps,
};
use corniche_neobft::{
    Config,
    message::{BodyId, Confirmed, Entry, GapEvidence, GapVote, Message, Slot, Statement, Value, View},
};
use corniche_testkit::{Delivery, Micros};

const ALL: [usize; 4] = [0, 1, 2, 3];

#[test]
fn reply_waits_for_the_disk() {
    let mut cluster = Cluster::new(4, plain());
    cluster.simulation.disks.sync = Micros::from_millis(3);
    let since = cluster.simulation.now();
    cluster.submit(1, "a");
    cluster.run_for(10 * DELAY);
    let at = cluster.seen(0).delivered_at("a").unwrap();
    assert_eq!(at.0 - since.0, (2 * DELAY + 3) * 1_000);
}

#[test]
fn confirm_waits_for_the_disk() {
    let mut cluster = Cluster::new(4, Config { byzantine_network: true, ..plain() });
    cluster.simulation.disks.sync = Micros::from_millis(3);
    let since = cluster.simulation.now();
    cluster.submit(1, "a");
    cluster.run_for(10 * DELAY);
    let at = cluster.seen(0).delivered_at("a").unwrap();
    assert_eq!(at.0 - since.0, (3 * DELAY + 6) * 1_000, "pitfall 16: CONFIRM and log entry are two writes");
}

#[test]
fn all_restart_with_their_logs() {
    let mut cluster = Cluster::new(4, Config { query_ms: 50, ..plain() });
    for number in 0..30 {
        cluster.submit(number % 4, &format!("t{number}"));
        cluster.run_for(DELAY);
    }
    cluster.run_for(10 * DELAY);
    let before: Vec<_> = ALL.iter().map(|node| cluster.engine(*node).log_hash(Slot(30)).unwrap()).collect();
    for node in ALL {
        cluster.simulation.crash(node);
    }
    for node in ALL {
        // From an older state: the same commits come again.
        let resume = cluster.resume_after(node, 20 + node);
        cluster.restart_at(node, resume);
        assert_eq!(cluster.engine(node).log_hash(Slot(30)), Some(before[node]));
    }
    cluster.run_for(50 * DELAY);
    cluster.submit(1, "after");
    cluster.run_until_delivered(&ALL, &["after"], 5_000);
    assert!(ALL.iter().all(|node| cluster.slots(*node)[3] >= 31));
    cluster.assert_equal_logs(ALL);
}

#[test]
fn entry_that_was_not_durable_is_fetched_again() {
    let mut cluster = Cluster::new(4, Config { query_ms: 50, ..plain() });
    cluster.simulation.disks.sync = Micros::from_millis(5);
    cluster.submit(1, "a");
    cluster.run_for(DELAY + 1);
    assert_eq!((cluster.slots(2)[0], cluster.slots(2)[1]), (1, 0));
    cluster.simulation.crash(2);
    cluster.simulation.restart(2);
    assert_eq!(cluster.slots(2)[0], 0);
    cluster.run_until_delivered(&ALL, &["a"], 1_000);
    cluster.assert_equal_logs(ALL);
}

#[test]
fn laggard_catches_up_through_queries() {
    let mut cluster = Cluster::new(4, Config { query_ms: 50, ..plain() });
    cluster.simulation.crash(3);
    for number in 0..40 {
        cluster.submit(number % 3, &format!("t{number}"));
        cluster.run_for(DELAY);
    }
    cluster.simulation.restart(3);
    cluster.run_until_delivered(&ALL, &["t39"], 2_000);
    cluster.assert_equal_logs(ALL);
}

#[test]
fn old_entries_and_records_are_released() {
    let config = Config { sync_slots: 4, retain_slots: 8, open_slots: 16, query_ms: 50, ..plain() };
    let mut cluster = Cluster::new(4, config);
    for number in 0..200 {
        cluster.submit(number % 4, &format!("t{number}"));
        cluster.run_for(DELAY);
    }
    cluster.run_for(10 * DELAY);
    for node in ALL {
        assert!(cluster.engine(node).entry(Slot(150)).is_none(), "S4");
        let records = cluster.records(node).len();
        assert!(records <= 120, "validator {node}: {records} records");
        assert!(cluster.engine(node).footprint() <= 300, "{}", cluster.engine(node).footprint());
    }
}

#[test]
fn forgetful_replica_votes_only_in_later_views() {
    let mut cluster = Cluster::new(4, Config { query_ms: 50, gap_ms: 300, view_ms: 300, request_ms: 50, ..plain() });
    for number in 0..10 {
        cluster.submit(number % 3, &format!("t{number}"));
        cluster.run_for(2 * DELAY);
    }
    let resume = cluster.resume_after(3, 10);
    cluster.simulation.crash(3);
    cluster.disk(3).records.clear();
    cluster.restart_at(3, resume);
    cluster.run_for(20 * DELAY);
    let sent = cluster.count(3, |message| matches!(message, Message::Reply { .. } | Message::Sync { .. }));
    cluster.submit(1, "a");
    cluster.run_until_delivered(&ALL, &["a"], 1_000);
    assert_eq!(sent, cluster.count(3, |message| matches!(message, Message::Reply { .. } | Message::Sync { .. })), "S5");
    // Without another member a quorum needs it, in a new view.
    cluster.simulation.crash(2);
    cluster.submit(1, "b");
    cluster.run_until_delivered(&[0, 1, 3], &["b"], 10_000);
    assert!(cluster.count(3, |message| matches!(message, Message::Reply { .. } | Message::Sync { .. })) > 0);
    cluster.assert_equal_logs(ALL);
}

#[test]
fn laggard_enters_a_view_that_began_without_it() {
    let mut cluster = Cluster::new(4, Config { query_ms: 50, gap_ms: 300, view_ms: 300, ..plain() });
    cluster.set_rule(|_, from, to, _| if from == 3 || to == 3 { LOST } else { Delivery::Normal });
    cluster.lose(&[(1, 0), (1, 1), (1, 2), (1, 3), (2, 3), (3, 3), (4, 3), (5, 3)]);
    let view = corniche_neobft::message::View { epoch: 0, leader: 1 };
    for number in 0..4 {
        cluster.submit(number % 3, &format!("t{number}"));
        cluster.run_for(DELAY);
    }
    for (from, to) in [(2, 0), (1, 0), (2, 1), (0, 1), (0, 2), (1, 2)] {
        cluster.tell(from, to, &Message::Suspect { view });
    }
    cluster.run_until_delivered(&[0, 1, 2], &["t1", "t3"], 5_000);
    assert!(cluster.view(0) >= view);
    cluster.set_rule(|_, _, _, _| Delivery::Normal);
    cluster.submit(3, "mine");
    cluster.run_until_delivered(&ALL, &["t1", "t3", "mine"], 5_000);
    assert_eq!(cluster.view(3), cluster.view(0));
    cluster.assert_equal_logs(ALL);
}

#[test]
fn confirm_is_not_contradicted_after_a_restart() {
    let mut cluster = Cluster::new(4, Config { byzantine_network: true, ..plain() });
    cluster.group.borrow_mut().faults.equivocates_to = [3].into();
    let packet = cluster.stamp(b"x");
    cluster.arrive(&packet, &[2]);
    cluster.run_for(1);
    let confirmed = |cluster: &Cluster| {
        let vote = |message: &Message| match message {
            Message::Confirm { vote, .. } => Some(vote.digests.clone()),
            _ => None,
        };
        cluster.seen(2).sent.iter().filter_map(|(_, _, message)| vote(message)).collect::<Vec<_>>()
    };
    let before = confirmed(&cluster);
    assert_eq!(before.len(), 1);
    cluster.simulation.crash(2);
    cluster.simulation.restart(2);
    // The other packet with this number.
    for datagram in packet[3].clone() {
        cluster.input(2, corniche_engine::Input::Packet(datagram));
    }
    cluster.run_for(3_000);
    assert!(confirmed(&cluster).iter().all(|digests| *digests == before[0]), "pitfall 16");
    assert!(!confirmed(&cluster).is_empty(), "pitfall 20: it repeats its CONFIRM");
}

/// Milliseconds that a record takes in the tests of votes.
const SLOW: u64 = 100;

#[test]
fn repeated_decision_does_not_ask_for_votes_that_are_not_on_disk() {
    let mut cluster = Cluster::new(4, Config { query_ms: 20, ..plain() });
    cluster.set_rule(|_, _, _, _| LOST);
    cluster.simulation.disks.sync = Micros::from_millis(SLOW);
    let (view, slot, value) = (View { epoch: 0, leader: 0 }, Slot(1), Value::Drop);
    let drops = cluster.votes(&[0, 2, 3], &Statement::GapDrop { view, slot });
    let signature = cluster.sign(0, &Statement::GapDecision { view, slot, value });
    let decision = Message::GapDecision { view, slot, evidence: GapEvidence::Drop(drops), signature };
    let signature = cluster.sign(2, &Statement::GapPrepare { view, slot, value });
    let prepare = Message::GapPrepare(GapVote { view, slot, value, signature });
    let votes = |cluster: &Cluster| {
        let prepares = cluster.count(1, |message| matches!(message, Message::GapPrepare(_)));
        (prepares, cluster.count(1, |message| matches!(message, Message::GapCommit(_))))
    };
    // With the GAP-PREPARE of validator 3, the drop is prepared before the own vote is on disk.
    let signature = cluster.sign(3, &Statement::GapPrepare { view, slot, value });
    let other = Message::GapPrepare(GapVote { view, slot, value, signature });
    for (from, message) in [(0, &decision), (2, &prepare), (3, &other), (0, &decision)] {
        assert!(cluster.tell(from, 1, message));
    }
    cluster.run_for(SLOW / 2);
    assert_eq!(votes(&cluster), (0, 0), "neither a repeated decision nor the timer sends them");
    cluster.run_for(2 * SLOW);
    let (prepares, commits) = votes(&cluster);
    assert!(prepares > 0 && commits > 0);
}

#[test]
fn repeated_view_start_does_not_ask_for_a_confirmation_that_is_not_on_disk() {
    let mut cluster = Cluster::new(4, Config { query_ms: 20, ..plain() });
    cluster.set_rule(|_, _, _, _| LOST);
    cluster.simulation.disks.sync = Micros::from_millis(SLOW);
    let view = View { epoch: 0, leader: 1 };
    let changes: Vec<_> = [0, 1, 3].map(|node| crate::views::change(&cluster, node, Vec::new())).into();
    crate::views::leave(&mut cluster, 2, view);
    let confirmations = |cluster: &Cluster| cluster.count(2, |message| matches!(message, Message::ViewConfirm { .. }));
    for _ in 0..2 {
        assert!(crate::views::tell_start(&mut cluster, 1, 2, view, &changes));
    }
    cluster.run_for(SLOW / 2);
    assert_eq!(confirmations(&cluster), 0);
    cluster.run_for(2 * SLOW);
    assert!(confirmations(&cluster) > 0);
}

#[test]
fn long_log_is_fetched_over_slow_links() {
    // Two entries fit into a response, and a round trip takes longer than the timer.
    let config = Config { query_ms: 15, fetch_bytes: 600, open_slots: 256, retain_slots: 256, sync_slots: 32, ..plain() };
    let mut cluster = Cluster::new(4, config);
    cluster.simulation.crash(3);
    for number in 0..100 {
        cluster.submit(number % 3, &format!("t{number}"));
        cluster.run_for(DELAY);
    }
    cluster.run_for(20 * DELAY);
    cluster.simulation.restart(3);
    let from = cluster.slots(3)[2];
    cluster.run_for(60_000);
    let to = cluster.slots(3)[2];
    assert!(from < 10 && to >= 96, "{from} {to}");
    cluster.assert_equal_logs(ALL);
}

#[test]
fn equal_entry_that_is_appended_again_waits_for_its_own_record() {
    let mut cluster = Cluster::new(4, plain());
    cluster.set_rule(|_, _, _, _| LOST);
    let packet = cluster.stamp(b"x");
    cluster.arrive(&packet, &[0, 3]);
    cluster.run_for(1);
    let Some(Entry::Request(certificate)) = cluster.engine(3).entry(Slot(1)).cloned() else { panic!() };
    cluster.simulation.disks.sync = Micros::from_millis(SLOW);
    // The record of the first append is written …
    cluster.arrive(&packet, &[2]);
    cluster.run_for(SLOW / 4);
    // … while a view begins without the packet, and the receiver gives it again.
    let view = View { epoch: 0, leader: 1 };
    let confirmed = Confirmed { view, base: Slot(0), slot: Slot(0), hash: cluster.context().genesis_hash() };
    let certificate_of_view = cluster.view_certificate(&[0, 1, 3], confirmed);
    assert!(cluster.tell(1, 2, &progress(view, Some(view), Some(certificate_of_view))));
    assert_eq!((cluster.view(2), cluster.slots(2)[..2].to_vec()), (view, vec![1, 0]));
    assert_eq!(cluster.engine(2).entry(Slot(1)), Some(&Entry::Request(certificate)));
    cluster.run_for(SLOW - SLOW / 4 + 1);
    assert_eq!(cluster.slots(2)[1], 0, "a record of the rolled-back entry does not count");
    cluster.run_for(3 * SLOW);
    assert_eq!(cluster.slots(2)[1], 1);
}

#[test]
fn lost_disk_is_remembered_at_the_next_restart() {
    let mut cluster = Cluster::new(4, Config { query_ms: 50, ..plain() });
    for number in 0..10 {
        cluster.submit(number % 3, &format!("t{number}"));
        cluster.run_for(2 * DELAY);
    }
    let resume = cluster.resume_after(3, 10);
    cluster.simulation.crash(3);
    cluster.disk(3).records.clear();
    // It hears from nobody, restarts with what it wrote meanwhile, and then hears from all.
    cluster.set_rule(|_, from, to, _| if from == 3 || to == 3 { LOST } else { Delivery::Normal });
    cluster.restart_at(3, resume);
    cluster.run_for(20 * DELAY);
    cluster.submit(1, "a");
    cluster.run_for(20 * DELAY);
    cluster.simulation.crash(3);
    assert!(!cluster.records(3).is_empty());
    cluster.set_rule(|_, _, _, _| Delivery::Normal);
    cluster.simulation.restart(3);
    let replies =
        |cluster: &Cluster| cluster.count(3, |message| matches!(message, Message::Reply { .. } | Message::Sync { .. }));
    let before = replies(&cluster);
    cluster.submit(1, "b");
    cluster.run_until_delivered(&ALL, &["a", "b"], 5_000);
    assert_eq!(replies(&cluster), before, "S5");
    cluster.assert_equal_logs(ALL);
}

#[test]
fn empty_disk_and_f_faulty_members_cannot_undo_a_final_slot() {
    let mut cluster = Cluster::new(4, Config { query_ms: 50, gap_ms: 300, view_ms: 300, ..plain() });
    cluster.submit(1, "a");
    cluster.run_for(10 * DELAY);
    // The second request is final at validator 1, and validator 0 has not got it.
    cluster.set_rule(|_, _, to, _| if to == 1 { Delivery::Normal } else { LOST });
    let content = crate::requests::inline(5, "b", 1_000_000);
    let payload = crate::requests::payload(&cluster, 1, content, 1_000);
    let packet = cluster.stamp(&payload);
    cluster.arrive(&packet, &[1, 2, 3]);
    cluster.run_for(2 * DELAY);
    assert_eq!(ALL.map(|node| cluster.slots(node)[2]), [1, 2, 1, 1]);
    // Validator 3 loses its disk. Validator 2 is faulty: it denies that it ever signed anything. Validator 1 is cut off.
    for node in [2, 3] {
        cluster.simulation.crash(node);
        cluster.disk(node).records.clear();
        cluster.disk(node).may_have_signed = node == 3;
        let resume = cluster.resume_after(node, 1);
        cluster.restart_at(node, resume);
    }
    cluster.set_rule(|_, from, to, _| if from == 1 || to == 1 { LOST } else { Delivery::Normal });
    let view = View { epoch: 0, leader: 2 };
    for (from, to) in [(2, 0), (3, 0), (0, 2), (3, 2), (0, 3), (2, 3)] {
        cluster.tell(from, to, &Message::Suspect { view });
    }
    let next = cluster.stamp(b"c");
    cluster.arrive(&next, &ALL);
    cluster.run_for(5_000);
    let is_view_change =
        |message: &Message| matches!(message, Message::ViewChange(_) | Message::ViewConfirm { .. } | Message::ViewStart { .. });
    assert_eq!(cluster.count(3, is_view_change), 0, "S5");
    assert_eq!(cluster.slots(0)[2], 1);
    cluster.set_rule(|_, _, _, _| Delivery::Normal);
    cluster.submit(1, "d");
    cluster.run_until_delivered(&ALL, &["b", "d"], 20_000);
    cluster.assert_equal_logs(ALL);
    // It takes part again, now that it knows what it may have signed.
    cluster.simulation.crash(0);
    cluster.submit(1, "e");
    cluster.run_until_delivered(&[1, 2, 3], &["e"], 20_000);
    cluster.assert_equal_logs(ALL);
}

#[test]
fn confirms_are_given_only_in_later_epochs_after_a_lost_disk() {
    let config =
        Config { byzantine_network: true, query_ms: 50, gap_ms: 500, view_ms: 300, aom_ms: 300, request_ms: 100, ..plain() };
    let mut cluster = Cluster::new(4, config);
    cluster.submit(1, "a");
    cluster.run_for(10 * DELAY);
    cluster.simulation.crash(3);
    cluster.disk(3).records.clear();
    let resume = cluster.resume_after(3, 1);
    cluster.restart_at(3, resume);
    let confirms = |cluster: &Cluster| cluster.count(3, |message| matches!(message, Message::Confirm { .. }));
    for number in 0..10 {
        cluster.submit(number % 3, &format!("t{number}"));
        cluster.run_for(20 * DELAY);
    }
    cluster.run_until_delivered(&ALL, &["t9"], 1_000);
    assert_eq!((confirms(&cluster), cluster.view(3).epoch), (0, 0), "pitfall 16: it may have confirmed other digests");
    // Another leader has the same sequencer.
    let next = View { epoch: 0, leader: cluster.view(3).leader + 1 };
    for (from, to) in [(2, 0), (1, 0), (2, 1), (0, 1), (0, 2), (1, 2), (0, 3), (1, 3)] {
        cluster.tell(from, to, &Message::Suspect { view: next });
    }
    cluster.submit(1, "later");
    cluster.run_until_delivered(&ALL, &["later"], 5_000);
    assert_eq!((confirms(&cluster), cluster.view(3)), (0, next));
    // Without another member a quorum needs it, with a new sequencer.
    cluster.simulation.crash(2);
    cluster.submit(1, "b");
    cluster.run_until_delivered(&[0, 1, 3], &["b"], 20_000);
    assert!(confirms(&cluster) > 0 && cluster.view(3).epoch > 0);
    cluster.assert_equal_logs(ALL);
}

#[test]
fn peer_that_sends_little_is_not_asked_for_the_rest() {
    let mut cluster = Cluster::new(4, Config { query_ms: 50, retain_slots: 100, ..plain() });
    cluster.subject.borrow_mut().is_meagre = Some(0);
    cluster.simulation.crash(3);
    for number in 0..80 {
        cluster.submit(number % 3, &format!("t{number}"));
        cluster.run_for(DELAY);
    }
    cluster.run_for(10 * DELAY);
    cluster.simulation.restart(3);
    cluster.run_until_delivered(&ALL, &["t79"], 1_000);
    let is_query = |message: &Message| matches!(message, Message::Query { .. });
    let queries = cluster.seen(3).sent.iter().filter(|(_, to, message)| to.includes(index(0)) && is_query(message)).count();
    assert!(queries <= 5, "{queries}");
    cluster.assert_equal_logs(ALL);
}

#[test]
fn votes_about_gaps_survive_a_restart() {
    let (view, slot) = (View { epoch: 0, leader: 0 }, Slot(1));
    let mut cluster = Cluster::new(4, plain());
    cluster.set_rule(|_, _, _, _| LOST);
    let packet = cluster.stamp(b"x");
    cluster.arrive(&packet, &[3]);
    let receive = gaps::decision(&cluster, GapEvidence::Receive(gaps::certificate(&cluster, 3)));
    let drop = gaps::decision(&cluster, gaps::drops(&cluster, [0, 2, 3]));
    let prepare = gaps::prepare(&cluster, 0, Value::Drop);
    assert!(!cluster.tell(0, 2, &prepare), "the leader prepares nothing");
    let prepare = gaps::prepare(&cluster, 3, Value::Drop);
    // Validator 1 votes for the packet, validator 2 for a drop, which becomes prepared there.
    assert!(cluster.tell(0, 1, &receive) && cluster.tell(0, 2, &drop) && cluster.tell(3, 2, &prepare));
    cluster.run_for(DELAY);
    let votes = |cluster: &Cluster, node, wanted| {
        let is_vote = move |message: &Message| match message {
            Message::GapPrepare(vote) | Message::GapCommit(vote) => (vote.value == Value::Drop) == wanted,
            _ => false,
        };
        cluster.count(node, is_vote)
    };
    assert_eq!([votes(&cluster, 1, false), votes(&cluster, 2, true)], [1, 2]);
    for node in [1, 2] {
        cluster.simulation.crash(node);
        cluster.simulation.restart(node);
    }
    assert!(cluster.tell(0, 1, &drop) && cluster.tell(0, 2, &receive));
    cluster.run_for(DELAY);
    assert_eq!([votes(&cluster, 1, true), votes(&cluster, 2, false)], [0, 0], "G7: one vote for each slot and view");
    // A drop that may be committed somewhere is in its VIEW-CHANGE.
    let target = View { epoch: 0, leader: 3 };
    crate::views::leave(&mut cluster, 2, target);
    cluster.run_for(DELAY);
    let prepared = cluster.seen(2).sent.iter().find_map(|(_, _, message)| match message {
        Message::ViewChange(change) => Some(change.prepared.iter().map(|proof| (proof.view, proof.slot)).collect::<Vec<_>>()),
        _ => None,
    });
    assert_eq!(prepared, Some(vec![(view, slot)]), "V3, pitfall 2");
}

#[test]
fn messages_wait_for_their_records() {
    let mut cluster = Cluster::new(4, plain());
    cluster.set_rule(|_, _, _, _| LOST);
    let (view, slot) = (View { epoch: 0, leader: 0 }, Slot(1));
    let (first, second) = (cluster.stamp(b"x"), cluster.stamp(b"y"));
    cluster.arrive(&first, &[3]);
    cluster.run_for(DELAY);
    cluster.simulation.disks.sync = Micros::from_millis(SLOW);
    // G5 at validator 1, G6 at the leader, and the large batch of validator 3 at validator 2.
    cluster.arrive(&second, &[0, 1]);
    assert!(cluster.tell(0, 1, &Message::GapFind { view, slot }));
    let certificate = gaps::certificate(&cluster, 3);
    assert!(cluster.tell(3, 0, &Message::GapReceive { view, slot, certificate }));
    let batch = corniche_types::Bytes::from_static(&[7; 2_000]);
    let body = BodyId::of(index(3), 1 << 20, corniche_types::TimestampMs(30_000), &batch);
    assert!(cluster.tell(3, 2, &Message::Body { body, batch }));
    let sent = |cluster: &Cluster| {
        let count = |node, wanted: fn(&Message) -> bool| cluster.count(node, wanted);
        [
            count(1, |message| matches!(message, Message::GapDrop { .. })),
            count(0, |message| matches!(message, Message::GapDecision { .. })),
            count(2, |message| matches!(message, Message::Holding { .. })),
        ]
    };
    cluster.run_for(SLOW / 2);
    assert_eq!(sent(&cluster), [0; 3]);
    cluster.run_for(SLOW);
    assert_eq!(sent(&cluster), [1; 3]);
    // V2 at validator 2: also what it wrote before comes too late for a REPLY in the old view.
    cluster.arrive(&first, &[2]);
    crate::views::leave(&mut cluster, 2, View { epoch: 0, leader: 3 });
    let changes = |cluster: &Cluster| cluster.count(2, |message| matches!(message, Message::ViewChange(_)));
    cluster.run_for(SLOW / 2);
    assert_eq!(changes(&cluster), 0);
    cluster.run_for(SLOW);
    let replies = cluster.count(2, |message| matches!(message, Message::Reply { .. } | Message::Sync { .. }));
    assert_eq!((changes(&cluster), replies), (1, 0));
    // V8 at validator 3: its log is on disk, the certificate of the view is not.
    let next = View { epoch: 0, leader: 1 };
    let confirmed = Confirmed { view: next, base: Slot(0), slot, hash: cluster.engine(3).log_hash(slot).unwrap() };
    let certificate = cluster.view_certificate(&[0, 1, 2], confirmed);
    assert!(cluster.tell(1, 3, &progress(next, Some(next), Some(certificate))));
    let replies =
        |cluster: &Cluster| cluster.count(3, |message| matches!(message, Message::Reply { view, .. } if *view == next));
    cluster.run_for(SLOW / 2);
    assert_eq!((cluster.view(3), replies(&cluster)), (next, 0));
    cluster.run_for(SLOW);
    assert_eq!(replies(&cluster), 1);
}

#[test]
fn confirm_of_a_number_far_ahead_is_kept() {
    let config = Config { byzantine_network: true, sync_slots: 4, retain_slots: 8, open_slots: 64, query_ms: 50, ..plain() };
    let mut cluster = Cluster::new(4, config);
    let packets: Vec<_> = (0u8..60).map(|number| cluster.stamp(&[number])).collect();
    cluster.group.borrow_mut().faults.equivocates_to = [3].into();
    let last = cluster.stamp(b"last");
    // Validator 2 confirms the last number first. Everything before it becomes final, and its records are released.
    cluster.arrive(&last, &[2]);
    cluster.run_for(1);
    let confirmed = |cluster: &Cluster| {
        let vote = |message: &Message| match message {
            Message::Confirm { vote, .. } => vote.digest(61),
            _ => None,
        };
        cluster.seen(2).sent.iter().filter_map(|(_, _, message)| vote(message)).collect::<std::collections::BTreeSet<_>>()
    };
    let before = confirmed(&cluster);
    assert_eq!(before.len(), 1);
    for packet in &packets {
        cluster.arrive(packet, &ALL);
        cluster.run_for(4 * DELAY);
    }
    cluster.run_for(200);
    assert_eq!(cluster.slots(2)[3], 60);
    cluster.simulation.crash(2);
    cluster.simulation.restart(2);
    for datagram in last[3].clone() {
        cluster.input(2, corniche_engine::Input::Packet(datagram));
    }
    cluster.run_for(3_000);
    assert_eq!(confirmed(&cluster), before, "pitfall 16");
}

#[test]
fn log_of_an_epoch_that_began_earlier_stays_cut_after_a_restart() {
    let mut cluster = Cluster::new(4, plain());
    cluster.set_rule(|_, _, _, _| LOST);
    for _ in 0..3 {
        let packet = cluster.stamp(b"x");
        cluster.arrive(&packet, &[2]);
    }
    cluster.run_for(1);
    assert_eq!(cluster.slots(2)[0], 3);
    // Nobody else has these packets, so the next epoch begins after slot 0.
    let view = View { epoch: 1, leader: 0 };
    let confirmed = Confirmed { view, base: Slot(0), slot: Slot(0), hash: cluster.context().genesis_hash() };
    let certificate = cluster.view_certificate(&[0, 1, 3], confirmed);
    assert!(cluster.tell(1, 2, &progress(view, Some(view), Some(certificate))));
    cluster.run_for(1);
    for is_restarted in [false, true] {
        if is_restarted {
            cluster.simulation.crash(2);
            cluster.simulation.restart(2);
        }
        assert_eq!((cluster.view(2), cluster.slots(2)[0]), (view, 0), "E5");
    }
}

/// S5: validator 3 votes again after reports of a quorum and an own request that it made after the loss, and not earlier.
#[test]
fn votes_are_regained_when_nothing_older_can_be_missing() {
    const FIRST: View = View { epoch: 0, leader: 0 };
    const HIGHER: View = View { epoch: 0, leader: 5 };
    const LATER: View = View { epoch: 0, leader: 9 };
    let all = [(0, FIRST), (1, FIRST), (2, FIRST)];
    // Author of the request, its time relative to the start, reports, and the expected result.
    let cases = [
        (3, 1, &all[..], true),
        (3, -1, &all, false),
        (2, 1, &all, false),
        (3, 1, &[], false),
        (3, 1, &all[..2], false),
        (3, 1, &[(0, FIRST), (1, HIGHER), (2, FIRST)], false),
    ];
    for (author, delay, reports, is_regained) in cases {
        let mut cluster = Cluster::new(4, plain());
        for number in 0..4 {
            cluster.submit(number, &format!("t{number}"));
            cluster.run_for(3 * DELAY);
        }
        let commits = cluster.slots(3)[3];
        let resume = cluster.resume_after(3, usize::try_from(commits).unwrap());
        cluster.simulation.crash(3);
        cluster.disk(3).records.clear();
        cluster.set_rule(|_, _, _, _| LOST);
        cluster.restart_at(3, resume);
        let since = cluster.simulation.now().timestamp().0;
        cluster.run_for(1);
        for (from, view) in reports {
            assert!(cluster.tell(*from, 3, &progress(FIRST, Some(*view), None)));
        }
        let time = since.saturating_add_signed(delay);
        let request = crate::requests::payload(&cluster, author, corniche_neobft::message::Content::Clock, time);
        let packet = cluster.stamp(&request);
        cluster.arrive(&packet, &[3]);
        cluster.run_for(1);
        let slot = Slot(commits + 1);
        let hash = cluster.engine(3).log_hash(slot).unwrap();
        for from in [0, 1, 2] {
            assert!(cluster.tell(from, 3, &Message::Reply { view: FIRST, slot, hash }));
        }
        assert_eq!(cluster.slots(3)[3], slot.0);
        // A later view begins.
        let confirmed = Confirmed { view: LATER, base: Slot(0), slot, hash };
        let certificate = cluster.view_certificate(&[0, 1, 2], confirmed);
        assert!(cluster.tell(1, 3, &progress(LATER, None, Some(certificate))));
        let packet = cluster.stamp(b"y");
        cluster.arrive(&packet, &[3]);
        cluster.run_for(1);
        assert_eq!((cluster.view(3), cluster.slots(3)[0]), (LATER, commits + 2));
        let replies = cluster.count(3, |message| matches!(message, Message::Reply { .. } | Message::Sync { .. }));
        assert_eq!(replies > 0, is_regained, "author {author}, {delay} ms, reports {reports:?}");
    }
}
