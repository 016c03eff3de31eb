//! Changes of epochs: who is removed, who returns, and what survives.

use crate::cluster::{Cluster, DELAY, EPOCH, LOST, is_commit, is_prepare, plain, quick};
use corniche_engine::TraceEvent;
use corniche_mir::{
    Config,
    message::{EpochChange, EpochConfig, EpochNumber, Message, NULL, NewEpoch, Sn, Statement, Status},
    record::Record,
    rules,
};
use corniche_mir_testing::committee;
use corniche_testkit::{Delivery, Micros};

const ALL: [usize; 4] = [0, 1, 2, 3];
const OTHERS: [usize; 3] = [0, 1, 3];

/// E7, M30: a crashed leader costs a part of one timeout, and leads again after its return.
#[test]
fn crashed_leader_is_removed_and_taken_back() {
    let mut cluster = Cluster::new(4, quick());
    cluster.run_for(1_000);
    cluster.simulation.crash(2);
    cluster.submit_all(&OTHERS, "t");
    cluster.run_until_delivered(&OTHERS, &["t0", "t1", "t3"], 2_000);
    assert!(OTHERS.iter().all(|node| cluster.epoch(*node) == 1 && cluster.leaders(*node) == [0, 1, 3]));
    let proposers = |cluster: &Cluster, node| cluster.seen(node).proposers.iter().flatten().map(|it| it.0).collect::<Vec<_>>();
    assert_eq!(proposers(&cluster, 0), [0, 1, 3]);
    // The crashed member is the next primary, and again every four epochs. Nobody waits for it.
    cluster.load(OTHERS, true);
    cluster.run_for(900);
    assert!(OTHERS.iter().all(|node| cluster.epoch(*node) > 6 && cluster.leaders(*node) == [0, 1, 3]));
    cluster.simulation.restart(2);
    cluster.run_until(20_000, |cluster| ALL.iter().all(|node| cluster.engine(*node).epoch_config().last.is_none()));
    assert!(ALL.iter().all(|node| cluster.leaders(*node) == [0, 1, 2, 3]), "stable again");
    assert!(ALL.iter().all(|node| proposers(&cluster, *node) == [0, 1, 2, 3]));
    cluster.submit(2, "back");
    cluster.run_until_delivered(&ALL, &["back"], 2_000);
    cluster.assert_equal_logs(ALL);
}

/// M30: without a connection, an eighth of the timeout is enough. A process that is back before that stays a leader.
#[test]
fn unconnected_leader_is_removed_sooner() {
    for (back_after, is_removed) in [(None, true), (Some(400), false)] {
        let mut cluster = Cluster::new(4, Config { timeout_ms: 4_000, ..quick() });
        cluster.load(ALL, true);
        cluster.run_for(1_000);
        cluster.simulation.crash(2);
        if let Some(back_after) = back_after {
            cluster.run_for(back_after);
            cluster.simulation.restart(2);
        }
        cluster.run_for(700);
        assert!(OTHERS.iter().all(|node| (cluster.epoch(*node) > 0) == is_removed), "{back_after:?}");
    }
}

/// M30: a primary that is connected and silent costs a timeout once.
#[test]
fn silent_primary_is_waited_for_once() {
    let mut cluster = Cluster::new(4, quick());
    cluster.set_rule(|_, from, _, _| if from == 2 { LOST } else { Delivery::Normal });
    cluster.load(OTHERS, true);
    cluster.run_until(10_000, |cluster| cluster.engine(0).epoch_config().epoch.0 > 6);
    let before = cluster.epoch(0);
    cluster.run_for(900);
    assert!(cluster.epoch(0) > before + 6, "epochs {before} to {}", cluster.epoch(0));
    assert!(OTHERS.iter().all(|node| cluster.leaders(*node) == [0, 1, 3]));
}

/// M30, M38: the primaries of several epochs in a row are down. They leave the leaders in changes that need no timer.
#[test]
fn absent_primaries_in_a_row_are_skipped() {
    let mut cluster = Cluster::new(10, quick());
    let up = [0, 1, 2, 6, 7, 8, 9];
    cluster.run_for(500);
    cluster.load(up, true);
    [3, 4, 5].into_iter().for_each(|node| cluster.simulation.crash(node));
    cluster.run_until(1_000, |cluster| cluster.engine(0).epoch_config().leaders.len() == 7);
    let left = |cluster: &Cluster| {
        let traced = cluster.seen(0).traced.iter();
        traced.filter(|event| matches!(event, TraceEvent::Note { name, .. } if name == "epoch-left")).count() as u64
    };
    let before = (cluster.epoch(0), left(&cluster));
    cluster.run_for(3_000);
    let (epochs, left) = (cluster.epoch(0) - before.0, left(&cluster) - before.1);
    assert!(epochs > 20 && left <= epochs / 10 + 1, "{epochs} epochs, and one change for the three: {left}");
    cluster.assert_equal_logs(up);
}

/// M10: every batch of the straggler comes before a timeout has passed since the last commit.
#[test]
fn straggling_leader_is_removed() {
    let mut cluster = Cluster::new(4, quick());
    let mut free_at = Micros(0);
    cluster.set_rule(move |now, from, _, message| match message {
        Message::PrePrepare { epoch: EPOCH, proposal, .. } if from == 2 => {
            free_at = free_at.max(Micros((proposal.sn.0 / 4 + 1) * 750_000));
            Delivery::Delayed(Micros(free_at.0.saturating_sub(now.0)))
        }
        _ => Delivery::Normal,
    });
    cluster.load(ALL, true);
    cluster.run_for(3_000);
    assert!(OTHERS.iter().all(|node| cluster.epoch(*node) > 0), "the straggler was caught");
    let removed = cluster
        .seen(0)
        .traced
        .iter()
        .any(|event| format!("{event:?}").contains("leaders: [ValidatorIndex(0), ValidatorIndex(1), ValidatorIndex(3)]"));
    assert!(removed, "M11: no other leader was removed");
    cluster.assert_equal_logs(ALL);
}

/// G1, G2: no EPOCH-CHANGE and no timeout on the way back to a stable epoch.
#[test]
fn leaders_return_without_timeouts() {
    let mut cluster = Cluster::new(7, quick());
    let nodes = [0, 1, 2, 3, 4, 5, 6];
    cluster.run_for(500);
    cluster.simulation.crash(6);
    cluster.load(nodes, true);
    cluster.run_until(4_000, |cluster| cluster.engine(0).epoch_config().epoch.0 == 1);
    cluster.simulation.restart(6);
    cluster.run_for(100);
    let left = |cluster: &Cluster| {
        nodes.iter().map(|node| cluster.count(*node, |message| matches!(message, Message::EpochChange(_)))).sum::<usize>()
    };
    let before = left(&cluster);
    cluster.run_until(10_000, |cluster| nodes.iter().all(|node| cluster.engine(*node).epoch_config().last.is_none()));
    assert_eq!((cluster.epoch(0), left(&cluster)), (6, before));
    cluster.assert_equal_logs(nodes);
}

/// A batch that some members committed survives the epoch change that its leader's crash causes; a hole becomes null.
#[test]
fn committed_batch_survives_and_a_hole_becomes_null() {
    let mut cluster = Cluster::new(4, quick());
    cluster.run_for(5);
    // Number 3 is never proposed, and only member 1 sees the COMMITs of number 4.
    cluster.set_rule(|_, from, to, message| match message {
        Message::PrePrepare { epoch: EPOCH, .. } if from == 2 => LOST,
        Message::Commit { epoch: EPOCH, sn: Sn(4), .. } if to != 1 => LOST,
        _ => Delivery::Normal,
    });
    cluster.submit_all(&[0, 1, 3], "t");
    cluster.run_for(600);
    cluster.simulation.crash(2);
    cluster.run_until_delivered(&OTHERS, &["t0", "t1", "t3"], 4_000);
    let log = &cluster.seen(0).log;
    assert!(log[2].1.batches.is_empty() && !log[3].1.batches.is_empty(), "null, then the batch at its number");
    assert_eq!(log[3].1.leader.0, 3);
    cluster.assert_equal_logs(OTHERS);
}

/// U7: the transactions of a batch that an epoch change drops are proposed again, once.
#[test]
fn dropped_batch_returns_to_its_author() {
    let mut cluster = Cluster::new(4, quick());
    cluster.run_for(5);
    cluster.set_rule(|_, from, _, message| match message {
        Message::PrePrepare { epoch: EPOCH, .. } if from == 2 => LOST,
        _ => Delivery::Normal,
    });
    cluster.submit(2, "lost");
    cluster.submit_all(&OTHERS, "t");
    cluster.run_until_delivered(&ALL, &["lost"], 6_000);
    let count = cluster
        .seen(0)
        .log
        .iter()
        .flat_map(|(_, ordered)| corniche_testkit::texts(ordered))
        .filter(|text| text == "lost")
        .count();
    assert_eq!((count, cluster.seen(2).requeued.is_empty()), (1, false));
    cluster.assert_equal_logs(ALL);
}

/// A leader that shows two batches of a number is accused, and removed.
#[test]
fn equivocating_leader_is_accused_and_removed() {
    let mut cluster = Cluster::new(4, quick());
    cluster.set_rule(|_, from, _, message| match message {
        Message::PrePrepare { epoch: EPOCH, .. } if from == 2 => LOST,
        _ => Delivery::Normal,
    });
    for (to, text) in [(0, "one"), (1, "one"), (3, "other")] {
        let (proposal, _) = cluster.proposal(3, 2, text);
        let message = cluster.pre_prepare(EPOCH, &proposal);
        assert!(cluster.tell(2, to, &message));
        // Its PREPAREs reach all.
        let prepare = cluster.prepare(2, EPOCH, 3, cluster.proposal(3, 2, "other").1);
        assert!(cluster.tell(2, to, &prepare));
    }
    cluster.load(OTHERS, true);
    cluster.run_until(5_000, |cluster| OTHERS.iter().all(|node| cluster.engine(*node).epoch_config().epoch.0 == 1));
    assert!([0, 1].iter().all(|node| cluster.seen(*node).accused.iter().any(|(who, _)| who.0 == 2)));
    assert_eq!(cluster.leaders(0), [0, 1, 3]);
    cluster.run_for(1_000);
    cluster.assert_equal_logs(ALL);
}

/// U3: a single member does not leave, and moves nobody.
#[test]
fn one_suspicion_moves_nobody() {
    let mut cluster = Cluster::scripted(committee(4));
    cluster.tell_all(&[2], 1, |cluster, _| cluster.wants(1));
    assert_eq!(cluster.engine(1).target(), None);
    cluster.tell_all(&[3], 1, |cluster, _| cluster.wants(3));
    assert_eq!(cluster.engine(1).target(), Some(EpochNumber(1)));
    assert!(cluster.has_left(1));
}

/// Member 1 prepared number 1 and left for epoch 1.
fn left_after_preparing() -> Cluster {
    let mut cluster = Cluster::scripted(committee(4));
    let (proposal, digest) = cluster.proposal(1, 0, "x");
    cluster.tell_all(&[0], 1, |cluster, _| cluster.pre_prepare(EPOCH, &proposal));
    cluster.tell_all(&[2], 1, |cluster, from| cluster.prepare(from, EPOCH, 1, digest));
    assert_eq!(cluster.count(1, is_commit), 1);
    cluster.tell_all(&[2, 3], 1, |cluster, _| cluster.wants(1));
    cluster
}

fn own_change(cluster: &Cluster, node: usize) -> EpochChange {
    let sent = cluster.seen(node).sent.iter().rev();
    let mut changes = sent.filter_map(|(_, _, message)| match message {
        Message::EpochChange(change) => Some((**change).clone()),
        _ => None,
    });
    changes.next().expect("an EPOCH-CHANGE was sent")
}

/// X2: certificates are never left out, also not after a restart.
#[test]
fn epoch_change_contains_prepared_batches() {
    let mut cluster = left_after_preparing();
    let digest = cluster.proposal(1, 0, "x").1;
    let listed = |cluster: &Cluster| own_change(cluster, 1).prepared.iter().map(|it| (it.sn, it.digest)).collect::<Vec<_>>();
    assert_eq!(listed(&cluster), [(Sn(1), digest)]);
    cluster.simulation.crash(1);
    cluster.simulation.restart(1);
    cluster.run_for(1);
    assert_eq!(listed(&cluster), [(Sn(1), digest)]);
}

/// X2: no votes in an epoch after leaving it, also not after a restart.
#[test]
fn member_that_left_does_not_vote() {
    let mut cluster = left_after_preparing();
    let (second, digest) = cluster.proposal(3, 2, "y");
    for _ in 0..2 {
        let before = (cluster.count(1, is_prepare), cluster.count(1, is_commit));
        cluster.tell_all(&[2], 1, |cluster, _| cluster.pre_prepare(EPOCH, &second));
        cluster.tell_all(&[0, 3], 1, |cluster, from| cluster.prepare(from, EPOCH, 3, digest));
        assert_eq!((cluster.count(1, is_prepare), cluster.count(1, is_commit)), before);
        cluster.simulation.crash(1);
        cluster.simulation.restart(1);
        cluster.run_for(1);
    }
}

fn scripted_change(cluster: &Cluster, sender: usize, target: u64) -> (EpochChange, corniche_types::B256) {
    let sender_index = crate::cluster::index(sender);
    let target = EpochNumber(target);
    let mut change = EpochChange {
        sender: sender_index,
        target,
        certificate: None,
        checkpoint: None,
        prepared: Vec::new(),
        signature: [0; 64],
    };
    let digest = cluster.context().change(&change);
    change.signature = cluster.sign(sender, &Statement::EpochChange(digest));
    (change, digest)
}

/// Number 1 in an offer of primary 1 to member 0, from EPOCH-CHANGEs of members 1, 2, 3.
fn offer(cluster: &Cluster, alter: impl Fn(&mut EpochConfig)) -> NewEpoch {
    let changes: Vec<_> = [1, 2, 3].iter().map(|sender| scripted_change(cluster, *sender, 1)).collect();
    let used: Vec<_> = changes.iter().map(|(change, _)| change).collect();
    let selection = rules::select(&used, &cluster.committee);
    let leaders = rules::leaders_without(&selection.base, EpochNumber(1), &[], &cluster.committee);
    let mut config = rules::ungracious(&selection, EpochNumber(1), leaders, &cluster.committee, quick().epoch_length);
    alter(&mut config);
    NewEpoch { config, changes: changes.iter().map(|(change, digest)| (change.sender, *digest)).collect() }
}

fn echo(cluster: &Cluster, from: usize, config: &EpochConfig) -> Message {
    let (epoch, config) = (config.epoch, cluster.context().config(config));
    Message::Echo { epoch, config, signature: cluster.sign(from, &Statement::Echo { epoch, config }) }
}

fn echoes(cluster: &Cluster, node: usize) -> usize {
    cluster.count(node, |message| matches!(message, Message::Echo { .. }))
}

/// X7: an epoch begins with the ECHOs of a quorum, not with the word of its primary.
#[test]
fn configuration_needs_a_quorum() {
    let mut cluster = Cluster::scripted(committee(4));
    let offer = offer(&cluster, |_| ());
    for sender in [1, 2, 3] {
        cluster.tell_all(&[sender], 0, |cluster, _| Message::EpochChange(Box::new(scripted_change(cluster, sender, 1).0)));
    }
    cluster.tell_all(&[1], 0, |_, _| Message::NewEpoch(Box::new(offer.clone())));
    assert_eq!((cluster.epoch(0), echoes(&cluster, 0)), (0, 1));
    cluster.tell_all(&[1], 0, |cluster, from| echo(cluster, from, &offer.config));
    assert_eq!(cluster.epoch(0), 0, "two of four");
    cluster.tell_all(&[2], 0, |cluster, from| echo(cluster, from, &offer.config));
    assert_eq!(cluster.epoch(0), 1);
}

/// Section 2: a vote for a configuration is on disk before it leaves.
#[test]
fn echo_waits_for_its_record() {
    let mut cluster = Cluster::scripted(committee(4));
    let offer = offer(&cluster, |_| ());
    for sender in [1, 2, 3] {
        cluster.tell_all(&[sender], 0, |cluster, _| Message::EpochChange(Box::new(scripted_change(cluster, sender, 1).0)));
    }
    cluster.simulation.disks.sync = Micros::from_millis(10);
    assert!(cluster.tell(1, 0, &Message::NewEpoch(Box::new(offer))));
    cluster.run_for(5);
    assert_eq!(echoes(&cluster, 0), 0);
    cluster.run_for(10);
    assert_eq!(echoes(&cluster, 0), 1);
}

/// U6: the receiver computes the selection itself.
#[test]
fn false_configurations_get_no_vote() {
    let alterations: [fn(&mut EpochConfig); 3] = [
        |config| {
            config.listed = vec![NULL];
            (config.first, config.last) = (Sn(2), Some(Sn(9)));
        },
        |config| config.leaders = vec![crate::cluster::index(1)],
        |config| {
            (config.start, config.first, config.last) = (Sn(8), Sn(9), Some(Sn(16)));
        },
    ];
    for alter in alterations {
        let mut cluster = Cluster::scripted(committee(4));
        let offer = offer(&cluster, alter);
        for sender in [1, 2, 3] {
            cluster.tell_all(&[sender], 0, |cluster, _| Message::EpochChange(Box::new(scripted_change(cluster, sender, 1).0)));
        }
        cluster.tell_all(&[1], 0, |_, _| Message::NewEpoch(Box::new(offer.clone())));
        assert_eq!(echoes(&cluster, 0), 0);
        assert!(cluster.engine(0).describe().contains("offers []"), "it is judged once");
    }
}

/// X7: one vote for each epoch, also across a restart.
#[test]
fn member_votes_for_one_configuration_of_an_epoch() {
    let mut cluster = Cluster::scripted(committee(4));
    let (first, second) =
        (offer(&cluster, |_| ()), offer(&cluster, |config| config.leaders = [0, 1, 3].map(crate::cluster::index).to_vec()));
    assert_ne!(first, second);
    let voted = |cluster: &Cluster| {
        let sent = cluster.seen(0).sent.iter();
        let mut configs: Vec<_> = sent
            .filter_map(|(_, _, message)| if let Message::Echo { config, .. } = message { Some(*config) } else { None })
            .collect();
        configs.dedup();
        configs
    };
    for (round, offer) in [&first, &second].into_iter().enumerate() {
        for sender in [1, 2, 3] {
            cluster.tell_all(&[sender], 0, |cluster, _| Message::EpochChange(Box::new(scripted_change(cluster, sender, 1).0)));
        }
        cluster.tell_all(&[1], 0, |_, _| Message::NewEpoch(Box::new(offer.clone())));
        assert_eq!(voted(&cluster), [cluster.context().config(&first.config)], "round {round}");
        cluster.simulation.crash(0);
        cluster.simulation.restart(0);
        cluster.run_for(1);
    }
}

/// A configuration without EPOCH-CHANGEs is for the end of an ephemeral epoch only.
#[test]
fn gracious_configuration_needs_a_finished_epoch() {
    let mut cluster = Cluster::scripted(committee(4));
    let offer = NewEpoch { changes: Vec::new(), ..offer(&cluster, |_| ()) };
    cluster.tell_all(&[1], 0, |_, _| Message::NewEpoch(Box::new(offer.clone())));
    assert_eq!(echoes(&cluster, 0), 0);
    assert!(!cluster.tell(2, 0, &Message::NewEpoch(Box::new(offer.clone()))), "not from the primary");
}

/// A network whose delays are just below the timeout converges.
#[test]
fn slow_network_converges() {
    let mut cluster = Cluster::new(4, quick());
    cluster.set_rule(|_, _, _, _| Delivery::Delayed(Micros::from_millis(900)));
    cluster.submit_all(&ALL, "t");
    cluster.run_until_delivered(&ALL, &["t0"], 60_000);
    cluster.clear_rule();
    cluster.run_until_delivered(&ALL, &["t0", "t1", "t2", "t3"], 60_000);
    cluster.assert_equal_logs(ALL);
}

/// M25: the timeout stays grown, so a network slower than `timeout_ms` is not interrupted again and again. It shrinks when numbers
/// are fast, and also after a long time without a change.
#[test]
fn slow_network_keeps_its_timeout() {
    let mut cluster = Cluster::new(4, quick());
    cluster.set_rule(|_, _, _, _| Delivery::Delayed(Micros::from_millis(1_200)));
    cluster.load(ALL, true);
    cluster.run_for(45_000);
    assert!(ALL.iter().all(|node| cluster.delivered(*node) >= 24));
    let epoch = cluster.epoch(0);
    assert!(epoch <= 5, "{epoch}");
    assert_eq!((cluster.leaders(0).len(), cluster.engine(0).timeout_ms()), (4, 4_000));
    cluster.run_for(30_000);
    assert!(ALL.iter().all(|node| cluster.delivered(*node) >= 80 && cluster.epoch(*node) == epoch));
    cluster.run_until(60_000, |cluster| cluster.engine(0).timeout_ms() == 2_000);
    cluster.clear_rule();
    cluster.run_until(10_000, |cluster| ALL.iter().all(|node| cluster.engine(*node).timeout_ms() == 1_000));
    cluster.assert_equal_logs(ALL);
}

/// U4: the timer of a change starts when a quorum left. A faulty member may help another one to leave, but not to run ahead.
#[test]
fn member_that_left_alone_waits_for_the_others() {
    let mut cluster = Cluster::new(4, quick());
    cluster.set_rule(|_, _, _, _| LOST);
    cluster.run_for(1_500);
    cluster.tell_all(&[2], 1, |cluster, _| cluster.wants(9));
    assert_eq!(cluster.engine(1).target(), Some(EpochNumber(1)));
    cluster.run_for(30_000);
    assert_eq!(cluster.engine(1).target(), Some(EpochNumber(1)));
    cluster.tell_all(&[0, 3], 1, |cluster, from| Message::EpochChange(Box::new(scripted_change(cluster, from, 1).0)));
    cluster.run_for(1_500);
    assert_eq!(cluster.engine(1).target(), Some(EpochNumber(1)), "the timeout is doubled");
    cluster.run_for(1_000);
    assert!(cluster.engine(1).target() > Some(EpochNumber(1)));
}

/// A member that sees others in a later epoch asks for the certificate, and does not leave.
#[test]
fn later_epoch_is_no_reason_to_leave() {
    let mut cluster = Cluster::scripted(committee(4));
    let status =
        Status { epoch: EpochNumber(1), wants: EpochNumber(1), delivered: Sn(0), stable: Sn(0), seeks: None, asks: false };
    cluster.tell_all(&[2, 3], 1, |_, _| Message::Status(status));
    assert_eq!(cluster.engine(1).target(), None);
    let mut cluster = Cluster::new(4, quick());
    cluster.tell_all(&[2, 3], 1, |_, _| Message::Status(status));
    let asked = |cluster: &Cluster| cluster.count(1, |message| matches!(message, Message::Status(status) if status.asks));
    let before = asked(&cluster);
    cluster.run_for(150);
    assert!(asked(&cluster) > before);
}

/// An EPOCH-CHANGE is sent again to members that ask, for this change only.
#[test]
fn epoch_changes_are_fetched() {
    let mut cluster = left_after_preparing();
    let changes = |cluster: &Cluster| cluster.count(1, |message| matches!(message, Message::EpochChange(_)));
    assert_eq!(changes(&cluster), 1);
    let ask = |epoch| Message::FetchChanges { epoch, members: [0, 1, 2].map(crate::cluster::index).to_vec() };
    cluster.tell_all(&[2], 1, |_, _| ask(EpochNumber(1)));
    assert_eq!(changes(&cluster), 2);
    cluster.tell_all(&[2], 1, |_, _| ask(EPOCH));
    cluster.tell_all(&[2], 1, |_, _| ask(EpochNumber(2)));
    assert_eq!(changes(&cluster), 2);
}

/// One for a much later epoch is a want, and nothing that is kept.
#[test]
fn far_epoch_changes_are_not_kept() {
    let mut cluster = Cluster::scripted(committee(4));
    let before = cluster.engine(1).footprint();
    let message = Message::EpochChange(Box::new(scripted_change(&cluster, 2, 1 << 40).0));
    assert!(cluster.tell(2, 1, &message));
    // The status of its sender.
    assert_eq!(cluster.engine(1).footprint(), before + 1);
}

/// Two batches of a number: one that a certified configuration lists, and one that is committed.
fn contradiction() -> (Cluster, EpochConfig, corniche_types::B256) {
    let cluster = Cluster::scripted(committee(4));
    let (digest, other) = (cluster.proposal(1, 0, "x").1, cluster.proposal(1, 0, "y").1);
    let config = EpochConfig { listed: vec![digest], first: Sn(2), last: Some(Sn(9)), ..offer(&cluster, |_| ()).config };
    (cluster, config, other)
}

/// Members with more than F votes are faulty.
#[test]
fn contradicted_commit_halts() {
    let (mut cluster, config, other) = contradiction();
    cluster.tell_all(&[0, 2, 3], 1, |_, _| crate::cluster::commit(EPOCH, 1, other));
    cluster.tell_all(&[2], 1, |cluster, _| cluster.certificate(config.clone()));
    assert_eq!(cluster.epoch(1), 0);
    assert!(cluster.seen(1).traced.iter().any(|event| format!("{event:?}").contains("agreement-lost")));
}

/// A batch that others committed may be one of a later epoch than the configuration.
#[test]
fn learnt_commit_of_a_later_epoch_contradicts_nothing() {
    let (mut cluster, config, other) = contradiction();
    cluster.tell_all(&[0, 2], 1, |_, _| Message::Committed(vec![(Sn(1), other)]));
    cluster.tell_all(&[2], 1, |cluster, _| cluster.certificate(config.clone()));
    assert_eq!(cluster.epoch(1), 1);
}

/// M10: a leader that proposes far ahead makes no other leader overdue.
#[test]
fn numbers_that_may_not_be_proposed_have_no_timers() {
    let mut cluster = Cluster::scripted(committee(4));
    let timers = |cluster: &Cluster| {
        let state = cluster.engine(1).describe();
        ["Sn(8): ", "Sn(21): "].map(|timer| state.contains(timer))
    };
    cluster.tell_all(&[0, 2, 3], 1, |_, _| crate::cluster::commit(EPOCH, 7, NULL));
    cluster.tell_all(&[0, 2, 3], 1, |_, _| crate::cluster::commit(EPOCH, 20, NULL));
    assert_eq!(timers(&cluster), [true, false]);
    for sn in 1..=12 {
        cluster.tell_all(&[0, 2, 3], 1, |_, _| crate::cluster::commit(EPOCH, sn, NULL));
    }
    assert_eq!((cluster.delivered(1), timers(&cluster)), (12, [false, false]));
    cluster.tell_all(&[0, 2, 3], 1, |_, _| crate::cluster::commit(EPOCH, 13, NULL));
    assert_eq!(timers(&cluster), [false, true]);
}

/// M11: a primary that suspected nobody itself does not blame the leader of the lowest open number.
#[test]
fn leader_in_time_is_not_blamed() {
    let mut cluster = Cluster::scripted(committee(4));
    cluster.tell_all(&[2, 3], 1, |cluster, _| cluster.wants(1));
    for sender in [2, 3] {
        cluster.tell_all(&[sender], 1, |cluster, _| Message::EpochChange(Box::new(scripted_change(cluster, sender, 1).0)));
    }
    let offered = cluster.seen(1).sent.iter().find_map(|(_, _, message)| match message {
        Message::NewEpoch(offer) => Some(offer.config.leaders.clone()),
        _ => None,
    });
    assert_eq!(offered, Some([0, 1, 2].map(crate::cluster::index).to_vec()), "leader 0 of number 1 stays");
}

/// U8: a listed batch whose body is on disk is not written again, and its record suffices after a restart.
#[test]
fn listed_batch_is_written_once() {
    let mut cluster = left_after_preparing();
    let digest = cluster.proposal(1, 0, "x").1;
    let config = EpochConfig { listed: vec![digest], first: Sn(2), last: Some(Sn(9)), ..offer(&cluster, |_| ()).config };
    cluster.tell_all(&[2], 1, |cluster, _| cluster.certificate(config.clone()));
    for _ in 0..2 {
        let prepares = |message: &Message| matches!(message, Message::Prepare { epoch: EpochNumber(1), sn: Sn(1), .. });
        assert_eq!(cluster.count(1, prepares), 1);
        let bodies = cluster.records(1).values().filter(|record| {
            matches!(corniche_types::wire::decode(record), Ok(Record::Accepted { proposal: Some(_), .. } | Record::Body(_)))
        });
        assert_eq!(bodies.count(), 1);
        cluster.tell_all(&[0], 1, |_, _| Message::FetchBody { sn: Sn(1), digest });
        assert_eq!(cluster.count(1, |message| matches!(message, Message::Body(_))), 1);
        cluster.simulation.crash(1);
        cluster.simulation.restart(1);
        cluster.run_for(1);
    }
}

/// A signer that was away signs later: PREPARE, EPOCH-CHANGE, ECHO and CHECKPOINT.
#[test]
fn unsigned_messages_are_signed_later() {
    let config = Config { resend_ms: 100, ..plain() };
    let mut cluster = Cluster::of(committee(4), config);
    cluster.set_rule(|_, _, _, _| LOST);
    cluster.run_for(1);
    cluster.set_signers(false);
    let is_checkpoint = |message: &Message| matches!(message, Message::Checkpoint { .. });
    let numbers = (1..=8).flat_map(|sn| [0, 2, 3].map(|from| (sn, from)));
    numbers.for_each(|(sn, from)| _ = cluster.tell(from, 1, &crate::cluster::commit(EPOCH, sn, NULL)));
    cluster.set_signers(true);
    let (proposal, _) = cluster.proposal(9, 0, "x");
    let message = cluster.pre_prepare(EPOCH, &proposal);
    cluster.set_signers(false);
    assert!(cluster.tell(0, 1, &message));
    cluster.run_for(10);
    assert_eq!((cluster.count(1, is_prepare), cluster.count(1, is_checkpoint)), (0, 0));
    cluster.set_signers(true);
    cluster.run_for(110);
    assert_eq!(cluster.count(1, is_checkpoint), 1);
    assert!(cluster.count(1, is_prepare) > 0);
    cluster.set_signers(false);
    let wants = cluster.wants(1);
    [2, 3].iter().for_each(|from| assert!(cluster.tell(*from, 1, &wants)));
    cluster.run_for(10);
    assert!(!cluster.has_left(1));
    cluster.set_signers(true);
    cluster.run_for(110);
    assert!(cluster.has_left(1));
    let changes: Vec<_> = [0, 2, 3].iter().map(|sender| scripted_change(&cluster, *sender, 2)).collect();
    let used: Vec<_> = changes.iter().map(|(change, _)| change).collect();
    let selection = rules::select(&used, &cluster.committee);
    let leaders = rules::leaders_without(&selection.base, EpochNumber(2), &[], &cluster.committee);
    let config = rules::ungracious(&selection, EpochNumber(2), leaders, &cluster.committee, quick().epoch_length);
    let offer = NewEpoch { config, changes: changes.iter().map(|(change, digest)| (change.sender, *digest)).collect() };
    cluster.set_signers(false);
    for (change, _) in changes {
        assert!(cluster.tell(change.sender.as_usize(), 1, &Message::EpochChange(Box::new(change))));
    }
    assert!(cluster.tell(2, 1, &Message::NewEpoch(Box::new(offer))));
    cluster.run_for(10);
    assert_eq!(echoes(&cluster, 1), 0);
    cluster.set_signers(true);
    cluster.run_for(110);
    assert!(echoes(&cluster, 1) > 0);
}

/// M19, T5: a member that missed the end of an epoch enters the next one with its certificate.
#[test]
fn latecomer_enters_with_the_certificate() {
    let mut cluster = Cluster::new(4, quick());
    cluster.run_for(500);
    cluster.simulation.crash(2);
    cluster.load(OTHERS, true);
    cluster.run_until(4_000, |cluster| OTHERS.iter().all(|node| cluster.engine(*node).epoch_config().epoch.0 >= 1));
    cluster.load(OTHERS, false);
    cluster.simulation.restart(2);
    cluster.run_for(20 * DELAY);
    assert_eq!(cluster.epoch(2), cluster.epoch(0));
}
