//! View changes (V1–V8, pitfall 3).

use crate::cluster::{Cluster, DELAY, LOST, index, plain, progress};
use corniche_neobft::{
    Config,
    message::{CheckpointCertificate, Confirmed, Entry, Message, Slot, Statement, View, ViewChange},
    rules,
};
use corniche_testkit::Delivery;
use corniche_types::B256;

const ALL: [usize; 4] = [0, 1, 2, 3];
const NEXT: View = View { epoch: 0, leader: 1 };

fn quick() -> Config {
    Config { query_ms: 50, gap_ms: 300, view_ms: 300, request_ms: 200, aom_ms: 2_000, ..plain() }
}

#[test]
fn crashed_leader_is_replaced_when_a_gap_needs_it() {
    let mut cluster = Cluster::new(4, quick());
    cluster.simulation.crash(0);
    // Validator 3 has packet 1, and nobody else.
    cluster.lose(&[(1, 1), (1, 2)]);
    cluster.submit(1, "a");
    cluster.run_for(DELAY / 2);
    cluster.submit(2, "b");
    cluster.run_until_delivered(&[1, 2, 3], &["a", "b"], 5_000);
    assert_eq!(cluster.view(1).epoch, 0, "G11: the sequencer is not to blame");
    cluster.simulation.restart(0);
    cluster.run_until_delivered(&ALL, &["a", "b"], 5_000);
    cluster.assert_equal_logs(ALL);
}

#[test]
fn one_suspicious_replica_changes_nothing() {
    let mut cluster = Cluster::new(4, quick());
    for to in [0, 1, 2] {
        cluster.tell(3, to, &Message::Suspect { view: NEXT });
    }
    cluster.submit(1, "a");
    cluster.run_for(1_000);
    assert!(ALL.iter().all(|node| cluster.view(*node) == View::default() && !cluster.engine(*node).is_changing_view()));
}

/// Validator 3 is silent, and validator 2 left for `target` alone, so each needs the other two.
fn divided(target: View) -> Cluster {
    let mut cluster = Cluster::new(4, Config { max_view_ms: 600, ..quick() });
    cluster.simulation.crash(3);
    // Validator 1 takes its suspicion back, which validator 2 does not hear.
    for from in [1, 3] {
        cluster.tell(from, 2, &Message::Suspect { view: target });
    }
    assert!(cluster.engine(2).is_changing_view());
    cluster
}

#[test]
fn members_follow_one_that_left_for_the_next_epoch() {
    let mut cluster = divided(View { epoch: 1, leader: 0 });
    cluster.submit(1, "a");
    cluster.run_until_delivered(&[0, 1, 2], &["a"], 10_000);
    assert_eq!(cluster.view(1).epoch, 1, "epochs are not skipped");
}

#[test]
fn member_with_the_highest_target_waits_for_the_others() {
    let mut cluster = divided(View { epoch: 0, leader: 5 });
    // Validator 3 would move to any view with validator 2.
    cluster.tell(3, 2, &Message::Suspect { view: View { epoch: 0, leader: 1_000 } });
    cluster.submit(1, "a");
    cluster.run_until_delivered(&[0, 1, 2], &["a"], 10_000);
    assert_eq!(cluster.view(1).epoch, 0);
}

#[test]
fn finals_survive_the_loss_of_everything_else() {
    let mut cluster = Cluster::new(4, quick());
    // A slot is final at validator 3 only: the others miss its REPLY and each other's.
    cluster.set_rule(
        |_, _, to, message| if to != 3 && matches!(message, Message::Reply { .. }) { LOST } else { Delivery::Normal },
    );
    cluster.submit(1, "a");
    cluster.run_for(4 * DELAY);
    assert_eq!([0, 1, 2, 3].map(|node| cluster.slots(node)[2]), [0, 0, 0, 1]);
    cluster.simulation.crash(3);
    cluster.clear_rule();
    cluster.run_until_delivered(&[0, 1, 2], &["a"], 5_000);
    cluster.simulation.restart(3);
    cluster.submit(0, "b");
    cluster.run_until_delivered(&ALL, &["a", "b"], 5_000);
    cluster.assert_equal_logs(ALL);
}

pub fn change(cluster: &Cluster, node: usize, entries: Vec<Entry>) -> ViewChange {
    let context = cluster.context();
    let mut change = ViewChange {
        sender: index(node),
        target: NEXT,
        certificate: None,
        checkpoint: None,
        after: Slot(0),
        after_hash: context.genesis_hash(),
        entries,
        prepared: Vec::new(),
        signature: [0; 64],
    };
    change.signature = cluster.sign(node, &context.view_change(&change));
    change
}

/// A leader sends a VIEW-START with its VIEW-CHANGEs. Returns whether the receiver accepts all of them.
pub fn tell_start(cluster: &mut Cluster, from: usize, to: usize, view: View, changes: &[ViewChange]) -> bool {
    let relay = |change: &ViewChange| Message::ViewChange(Box::new(change.clone()));
    let are_accepted = changes.iter().map(relay).filter(|message| !cluster.tell(from, to, message)).count() == 0;
    let changes = changes.iter().map(|change| (change.sender, change.signature)).collect();
    cluster.tell(from, to, &Message::ViewStart { view, changes }) && are_accepted
}

/// Members with F + 1 votes suspect the leader, so the receiver leaves its view.
pub fn leave(cluster: &mut Cluster, node: usize, view: View) {
    let others = (0..4).filter(|other| *other != node).take(2);
    others.for_each(|from| _ = cluster.tell(from, node, &Message::Suspect { view }));
}

/// Confirmations that a validator sent for a view: the log-hashes.
fn confirmations(cluster: &Cluster, node: usize) -> Vec<B256> {
    let hash = |message: &Message| match message {
        Message::ViewConfirm { confirmed, .. } => Some(confirmed.hash),
        _ => None,
    };
    cluster.seen(node).sent.iter().filter_map(|(_, _, message)| hash(message)).collect()
}

#[test]
fn second_view_start_is_not_confirmed() {
    let mut cluster = Cluster::new(4, plain());
    cluster.submit(2, "a");
    cluster.run_for(5 * DELAY);
    cluster.set_rule(|_, _, _, _| LOST);
    let entry = cluster.engine(2).entry(Slot(1)).unwrap().clone();
    // The leader of the next view has two justified merges: the packet was not final if validators 2 and 3 lie about it.
    let with: Vec<_> = [0, 1, 2].map(|node| change(&cluster, node, vec![entry.clone()])).into();
    let mut cluster2 = Cluster::new(4, plain());
    cluster2.set_rule(|_, _, _, _| LOST);
    let without: Vec<_> = [0, 1, 3].map(|node| change(&cluster2, node, Vec::new())).into();
    leave(&mut cluster2, 2, NEXT);
    for changes in [without, with] {
        assert!(tell_start(&mut cluster2, 1, 2, NEXT, &changes));
        cluster2.run_for(DELAY);
    }
    let confirmed = confirmations(&cluster2, 2);
    assert!(!confirmed.is_empty() && confirmed.iter().all(|hash| *hash == confirmed[0]), "V7, pitfall 3");
    assert!(cluster2.engine(2).is_changing_view(), "it waits for a quorum of equal confirmations");
}

#[test]
fn view_start_from_another_member_is_refused() {
    let mut cluster = Cluster::new(4, plain());
    cluster.set_rule(|_, _, _, _| LOST);
    let changes: Vec<_> = [0, 1, 3].map(|node| change(&cluster, node, Vec::new())).into();
    leave(&mut cluster, 2, NEXT);
    assert!(!tell_start(&mut cluster, 3, 2, NEXT, &changes));
    let mut forged = changes.clone();
    forged[0].after = Slot(1);
    assert!(!tell_start(&mut cluster, 1, 2, NEXT, &forged));
    assert!(!tell_start(&mut cluster, 1, 2, NEXT, &changes[..2]));
    let doubled = [changes[0].clone(), changes[0].clone(), changes[1].clone()];
    assert!(!tell_start(&mut cluster, 1, 2, NEXT, &doubled));
    // It names other VIEW-CHANGEs than it sent.
    let others = changes.iter().map(|change| (change.sender, [1; 64])).collect();
    assert!(cluster.tell(1, 2, &Message::ViewStart { view: NEXT, changes: others }));
    cluster.run_for(DELAY);
    assert!(confirmations(&cluster, 2).is_empty());
    assert!(tell_start(&mut cluster, 1, 2, NEXT, &changes));
    cluster.run_for(DELAY);
    assert!(!confirmations(&cluster, 2).is_empty());
}

#[test]
fn view_change_survives_restarts_of_all() {
    let mut cluster = Cluster::new(4, quick());
    cluster.submit(1, "a");
    cluster.run_for(5 * DELAY);
    for (from, to) in [(2, 0), (3, 0), (2, 1), (3, 1), (3, 2), (0, 2), (0, 3), (2, 3)] {
        cluster.tell(from, to, &Message::Suspect { view: NEXT });
    }
    assert!(cluster.engine(0).is_changing_view());
    cluster.run_for(1);
    for node in ALL {
        cluster.simulation.crash(node);
    }
    for node in ALL {
        cluster.simulation.restart(node);
        assert!(cluster.engine(node).is_changing_view(), "V2: it promised to stop in the old view");
    }
    cluster.submit(3, "b");
    cluster.run_until_delivered(&ALL, &["a", "b"], 10_000);
    assert!(ALL.iter().all(|node| cluster.view(*node) >= NEXT));
    cluster.assert_equal_logs(ALL);
}

/// Members with F + 1 votes tell everybody to move to a view.
fn suspect_everywhere(cluster: &mut Cluster, view: View) {
    for to in ALL {
        for from in ALL.into_iter().filter(|from| *from != to) {
            cluster.tell(from, to, &Message::Suspect { view });
        }
    }
}

#[test]
fn tail_from_before_a_restart_is_appended_again_at_its_numbers() {
    let mut cluster = Cluster::new(4, plain());
    // Validator 2 alone has packets 1 to 3, and restarts with them in its log.
    for _ in 0..3 {
        let packet = cluster.stamp(b"x");
        cluster.arrive(&packet, &[2]);
    }
    cluster.run_for(5 * DELAY);
    cluster.simulation.crash(2);
    cluster.simulation.restart(2);
    assert_eq!(cluster.slots(2)[..3], [3, 3, 0]);
    // The next view begins without them.
    cluster.set_rule(
        |_, from, _, message| if from == 2 && matches!(message, Message::ViewChange(_)) { LOST } else { Delivery::Normal },
    );
    suspect_everywhere(&mut cluster, NEXT);
    cluster.run_for(5 * DELAY);
    assert!(ALL.iter().all(|node| cluster.view(*node) == NEXT));
    let packet = cluster.stamp(b"y");
    cluster.arrive(&packet, &ALL);
    for slot in 1..=4 {
        let Some(Entry::Request(packet)) = cluster.engine(2).entry(Slot(slot)) else { panic!("slot {slot} is not in the log") };
        assert_eq!(packet.seq, slot, "N1, L7: it still has the packets that were rolled back");
    }
    cluster.run_for(5_000);
    assert!(ALL.iter().all(|node| cluster.slots(*node)[3] == 4));
    cluster.assert_equal_logs(ALL);
}

#[test]
fn adopted_merge_is_named_with_the_view_it_is_from() {
    let mut cluster = Cluster::new(4, plain());
    cluster.set_rule(|_, _, _, _| LOST);
    let others = [0, 1, 3];
    // Validator 2 missed the next view, in which slot 1 was dropped, and gets a merge of its logs. Nobody else confirms it.
    let context = cluster.context();
    let confirmed = Confirmed { view: NEXT, base: Slot(0), slot: Slot(0), hash: context.genesis_hash() };
    let certificate = Some(cluster.view_certificate(&others, confirmed));
    let entries = vec![Entry::NoOp(cluster.drop_proof(&others, NEXT, Slot(1)))];
    let view = View { epoch: 0, leader: 3 };
    let changes: Vec<_> = others
        .map(|node| {
            let mut change = change(&cluster, node, entries.clone());
            (change.target, change.certificate) = (view, certificate.clone());
            change.signature = cluster.sign(node, &context.view_change(&change));
            change
        })
        .into();
    leave(&mut cluster, 2, view);
    assert!(tell_start(&mut cluster, 3, 2, view, &changes));
    cluster.run_for(DELAY);
    for is_restarted in [false, true] {
        if is_restarted {
            cluster.simulation.crash(2);
            cluster.simulation.restart(2);
        }
        let target = View { epoch: 0, leader: if is_restarted { 5 } else { 4 } };
        for from in others {
            cluster.tell(from, 2, &Message::Suspect { view: target });
        }
        cluster.run_for(DELAY);
        let sent = cluster.seen(2).sent.iter().rev().find_map(|(_, _, message)| match message {
            Message::ViewChange(change) if change.target == target => Some((**change).clone()),
            _ => None,
        });
        let sent = sent.unwrap();
        assert_eq!((sent.certificate.as_ref(), sent.entries.len()), (certificate.as_ref(), 1), "V3");
        let mut all = vec![sent];
        all.extend(changes[..2].iter().cloned().map(|change| ViewChange { target, ..change }));
        let merged = rules::merge(&context, &cluster.committee, plain().max_log(), &all, |_| true).unwrap();
        assert_eq!(merged.confirmed.slot, Slot(1));
    }
}

#[test]
fn log_without_a_checkpoint_stays_short() {
    let config = Config { sync_slots: 4, open_slots: 8, retain_slots: 8, ..plain() };
    let most = config.max_log();
    let mut cluster = Cluster::new(4, config);
    cluster.set_rule(|_, _, _, message| if matches!(message, Message::Checkpoint { .. }) { LOST } else { Delivery::Normal });
    for number in 0..40 {
        cluster.submit(number % 4, &format!("t{number}"));
        cluster.run_for(3 * DELAY);
    }
    assert!(ALL.iter().all(|node| cluster.slots(*node)[0] == most), "a VIEW-CHANGE has a maximum size");
    cluster.set_rule(|_, _, _, _| Delivery::Normal);
    cluster.run_until_delivered(&ALL, &["t39"], 20_000);
    cluster.assert_equal_logs(ALL);
}

#[test]
fn merge_that_covers_the_goal_ends_the_fetch() {
    let mut cluster = Cluster::new(4, plain());
    cluster.set_rule(
        |_, _, to, message| {
            if to == 2 || matches!(message, Message::Checkpoint { .. }) { LOST } else { Delivery::Normal }
        },
    );
    cluster.group.borrow_mut().loss = Some(Box::new(|_, receiver| receiver == 2));
    for number in 0..10 {
        cluster.submit(number % 2, &format!("t{number}"));
        cluster.run_for(3 * DELAY);
    }
    let entries: Vec<Entry> = (1..=10).map(|slot| cluster.engine(0).entry(Slot(slot)).unwrap().clone()).collect();
    // Validator 2 leaves its view, and learns a checkpoint that it has not got.
    for from in [0, 1, 3] {
        cluster.tell(from, 2, &Message::Suspect { view: NEXT });
    }
    let (slot, hash) = (Slot(8), cluster.engine(0).log_hash(Slot(8)).unwrap());
    let votes = cluster.votes(&[0, 1, 3], &Statement::Checkpoint { slot, hash });
    let checkpoint = Some(CheckpointCertificate { slot, hash, votes });
    let (view, left) = (View::default(), Some(NEXT));
    let (slot, hash) = (Slot(0), B256::ZERO);
    assert!(cluster.tell(0, 2, &Message::Progress { view, left, slot, hash, certificate: None, checkpoint, asks: false }));
    let asked = cluster.count(2, |message| matches!(message, Message::Query { .. }));
    assert!(asked > 0);
    // The merged log contains it, and more.
    let changes = [0, 1, 3].map(|node| change(&cluster, node, entries.clone()));
    assert!(tell_start(&mut cluster, 1, 2, NEXT, &changes));
    let late = Message::QueryReply { view, from: Slot(1), entries: entries[..8].to_vec(), checkpoint: None };
    for from in [0, 1, 3] {
        assert!(cluster.tell(from, 2, &late));
    }
    cluster.run_for(5_000);
    assert_eq!(cluster.slots(2)[..3], [10, 10, 8], "V6: it confirmed ten slots, and eight are final");
    assert_eq!(cluster.count(2, |message| matches!(message, Message::Query { .. })), asked);
}

#[test]
fn vector_that_only_the_leader_can_check_does_not_break_the_view() {
    #[derive(Clone, Copy, PartialEq)]
    enum Own {
        InLog,
        InReceiver,
        Missing,
    }
    for place in [Own::InLog, Own::InReceiver, Own::Missing] {
        let mut cluster = Cluster::new(4, plain());
        cluster.set_rule(|_, _, _, _| LOST);
        let packet = cluster.stamp(b"x");
        cluster.arrive(&packet, &[3]);
        let Some(Entry::Request(own)) = cluster.engine(3).entry(Slot(1)).cloned() else { panic!("it has the packet") };
        // Validator 3 damages all tags but those of the next leader and its own.
        let mut damaged = own.clone();
        let corniche_aom_receiver::Proof::Hm { vector } = &mut damaged.proof else { panic!("a vector of tags") };
        (vector[0][0], vector[0][16]) = (vector[0][0] ^ 1, vector[0][16] ^ 1);
        if place == Own::InLog {
            cluster.arrive(&packet, &[2]);
        }
        let logs = [(0, Vec::new()), (1, Vec::new()), (3, vec![Entry::Request(damaged)])];
        let changes: Vec<_> = logs.into_iter().map(|(node, entries)| change(&cluster, node, entries)).collect();
        assert!(rules::merge(&cluster.context(), &cluster.committee, 64, &changes, |_| true).is_ok());
        leave(&mut cluster, 2, NEXT);
        if place == Own::InReceiver {
            cluster.arrive(&packet, &[2]);
        }
        assert!(tell_start(&mut cluster, 1, 2, NEXT, &changes));
        cluster.run_for(DELAY);
        let is_missing = place == Own::Missing;
        assert_eq!(confirmations(&cluster, 2).is_empty(), is_missing, "pitfall 6: its own certificate has the same payload");
        if !is_missing {
            assert_eq!(cluster.engine(2).entry(Slot(1)), Some(&Entry::Request(own)), "it can show this one to others");
        }
    }
}

/// F3: others check whole logs, so these are not repeated at each timer.
#[test]
fn logs_are_sent_again_at_growing_intervals() {
    let mut cluster = Cluster::new(4, Config { query_ms: 10, view_ms: 100_000, ..plain() });
    cluster.set_rule(|_, _, to, _| if to == 1 { LOST } else { Delivery::Normal });
    leave(&mut cluster, 2, NEXT);
    cluster.run_for(1_000);
    let logs = cluster.count(2, |message| matches!(message, Message::ViewChange(_)));
    assert!((5..=8).contains(&logs), "{logs} in 100 intervals");
}

/// A certificate of the next view, from all validators but 2.
fn next_view(cluster: &Cluster, slot: u64, hash: B256) -> Message {
    let confirmed = Confirmed { view: NEXT, base: Slot(0), slot: Slot(slot), hash };
    progress(NEXT, Some(NEXT), Some(cluster.view_certificate(&[0, 1, 3], confirmed)))
}

#[test]
fn confirmations_of_different_logs_make_no_certificate() {
    let mut cluster = Cluster::new(4, plain());
    cluster.set_rule(|_, _, _, _| LOST);
    leave(&mut cluster, 2, NEXT);
    let genesis = cluster.context().genesis_hash();
    let confirm = |cluster: &Cluster, node, hash| {
        let confirmed = Confirmed { view: NEXT, base: Slot(0), slot: Slot(0), hash };
        Message::ViewConfirm { confirmed, signature: cluster.sign(node, &Statement::ViewConfirm(confirmed)) }
    };
    for (from, hash) in [(0, genesis), (1, genesis), (3, B256::with_last_byte(1))] {
        let message = confirm(&cluster, from, hash);
        assert!(cluster.tell(from, 2, &message));
        assert!(cluster.engine(2).is_changing_view(), "pitfall 4: equal lengths are not enough");
    }
    let message = confirm(&cluster, 3, genesis);
    assert!(cluster.tell(3, 2, &message));
    assert_eq!(cluster.view(2), NEXT);
}

#[test]
fn fetched_log_has_the_hash_of_its_certificate() {
    let mut cluster = Cluster::new(4, plain());
    cluster.set_rule(|_, _, _, _| LOST);
    let packet = cluster.stamp(b"x");
    cluster.arrive(&packet, &[2, 3]);
    // The next view begins with a drop, of which validator 2 knows nothing.
    let others = [0, 1, 3];
    let drop = Entry::NoOp(cluster.drop_proof(&others, View::default(), Slot(1)));
    let context = cluster.context();
    let message = next_view(&cluster, 1, context.log_hash(context.genesis_hash(), Slot(1), &drop));
    assert!(cluster.tell(1, 2, &message));
    let request = cluster.engine(3).entry(Slot(1)).unwrap().clone();
    for (entry, view) in [(request, View::default()), (drop, NEXT)] {
        let reply = Message::QueryReply { view: NEXT, from: Slot(1), entries: vec![entry], checkpoint: None };
        for from in others {
            assert!(cluster.tell(from, 2, &reply));
        }
        assert_eq!(cluster.view(2), view, "pitfall 4: a valid packet where a drop was agreed");
    }
    assert!(cluster.is_no_op(2, 1));
}

#[test]
fn replica_that_left_follows_earlier_views_in_silence() {
    let mut cluster = Cluster::new(4, plain());
    cluster.set_rule(|_, _, _, _| LOST);
    let packet = cluster.stamp(b"x");
    cluster.arrive(&packet, &[2]);
    leave(&mut cluster, 2, View { epoch: 0, leader: 3 });
    cluster.run_for(DELAY);
    // The others need neither its VIEW-CHANGE nor its log for the view before.
    let message = next_view(&cluster, 1, cluster.engine(2).log_hash(Slot(1)).unwrap());
    assert!(cluster.tell(1, 2, &message));
    let votes = |cluster: &Cluster| {
        cluster.count(2, |message| match message {
            Message::Reply { view, slot, .. } | Message::Sync { view, slot, .. } => *view == NEXT && *slot > Slot(0),
            Message::GapDrop { .. } => true,
            _ => false,
        })
    };
    for is_restarted in [false, true] {
        if is_restarted {
            cluster.simulation.crash(2);
            cluster.simulation.restart(2);
        }
        assert_eq!((cluster.view(2), cluster.engine(2).is_changing_view()), (NEXT, false));
        let (lost, next) = (cluster.stamp(b"y"), cluster.stamp(b"z"));
        cluster.arrive(if is_restarted { &next } else { &lost }, &[2]);
        assert!(cluster.tell(1, 2, &Message::GapFind { view: NEXT, slot: Slot(3) }));
        cluster.run_for(3_000);
        assert_eq!(votes(&cluster), 0, "V2: it sent a VIEW-CHANGE for a later view");
    }
}

#[test]
fn view_start_is_confirmed_once_across_a_restart() {
    let mut cluster = Cluster::new(4, plain());
    cluster.set_rule(|_, _, _, _| LOST);
    let packet = cluster.stamp(b"x");
    cluster.arrive(&packet, &[0, 1]);
    let entry = cluster.engine(0).entry(Slot(1)).unwrap().clone();
    let with: Vec<_> = [0, 1, 3].map(|node| change(&cluster, node, vec![entry.clone()])).into();
    let without: Vec<_> = [0, 1, 3].map(|node| change(&cluster, node, Vec::new())).into();
    leave(&mut cluster, 2, NEXT);
    assert!(tell_start(&mut cluster, 1, 2, NEXT, &without));
    cluster.run_for(DELAY);
    let before = confirmations(&cluster, 2);
    assert_eq!(before.len(), 1);
    cluster.simulation.crash(2);
    cluster.simulation.restart(2);
    assert!(tell_start(&mut cluster, 1, 2, NEXT, &with));
    cluster.run_for(DELAY);
    let after = confirmations(&cluster, 2);
    assert!(!after.is_empty() && after.iter().all(|hash| *hash == before[0]), "V7, pitfall 3");
}

#[test]
fn view_change_begins_at_the_checkpoint() {
    let mut cluster = Cluster::new(4, plain());
    for number in 0..21 {
        cluster.submit(number % 4, &format!("t{number}"));
        cluster.run_for(3 * DELAY);
    }
    assert!(cluster.engine(2).entry(Slot(1)).is_some(), "the log is kept for others");
    leave(&mut cluster, 2, NEXT);
    cluster.run_for(1);
    let sent = cluster.seen(2).sent.iter().find_map(|(_, _, message)| match message {
        Message::ViewChange(change) => Some((change.checkpoint.as_ref().map(|it| it.slot), change.after, change.entries.len())),
        _ => None,
    });
    assert_eq!(sent, Some((Some(Slot(16)), Slot(16), 5)), "pitfall 17");
}

#[test]
fn merge_is_not_confirmed_without_the_log_before_it() {
    let mut cluster = Cluster::new(4, plain());
    cluster.set_rule(|_, _, _, _| LOST);
    // The others' logs begin at a checkpoint. Validator 2 has an empty log.
    let (slot, hash) = (Slot(8), B256::with_last_byte(1));
    let votes = cluster.votes(&[0, 1, 3], &Statement::Checkpoint { slot, hash });
    let checkpoint = CheckpointCertificate { slot, hash, votes };
    let context = cluster.context();
    let changes: Vec<_> = [0, 1, 3]
        .map(|node| {
            let mut change = change(&cluster, node, Vec::new());
            (change.checkpoint, change.after, change.after_hash) = (Some(checkpoint.clone()), slot, hash);
            change.signature = cluster.sign(node, &context.view_change(&change));
            change
        })
        .into();
    leave(&mut cluster, 2, NEXT);
    assert!(tell_start(&mut cluster, 1, 2, NEXT, &changes));
    cluster.run_for(DELAY);
    assert!(confirmations(&cluster, 2).is_empty());
    assert!(cluster.count(2, |message| matches!(message, Message::Query { .. })) > 0, "it fetches the log first");
}
