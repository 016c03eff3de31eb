//! Restarts and lost disks (3.11).

use crate::cluster::{Cluster, EPOCH, commit, is_commit, is_prepare, quick};
use corniche_engine::Resume;
use corniche_mir::{
    Config,
    message::{EpochConfig, EpochNumber, Message, NULL, Sn, Status},
};
use corniche_mir_testing::committee;
use corniche_testkit::{EngineDisk, Observed};

const ALL: [usize; 4] = [0, 1, 2, 3];

/// Section 2, column "persist before sending".
#[test]
fn votes_wait_for_their_records() {
    let mut cluster = Cluster::scripted(committee(4));
    cluster.simulation.disks.sync = corniche_testkit::Micros::from_millis(10);
    let (proposal, digest) = cluster.proposal(1, 0, "x");
    assert!(cluster.tell(0, 1, &cluster.pre_prepare(EPOCH, &proposal)));
    cluster.run_for(5);
    assert_eq!(cluster.count(1, is_prepare), 0);
    cluster.run_for(10);
    assert_eq!(cluster.count(1, is_prepare), 1);
    assert!(cluster.tell(2, 1, &cluster.prepare(2, EPOCH, 1, digest)));
    cluster.run_for(5);
    assert_eq!(cluster.count(1, is_commit), 0);
    cluster.run_for(10);
    assert_eq!(cluster.count(1, is_commit), 1);
    for from in [2, 3] {
        assert!(cluster.tell(from, 1, &cluster.wants(1)));
    }
    cluster.run_for(5);
    assert!(!cluster.has_left(1));
    cluster.run_for(10);
    assert!(cluster.has_left(1));
}

/// K1: members forget certificates below a stable checkpoint, so the commits must be on disk.
#[test]
fn checkpoint_waits_for_the_commits_before_it() {
    let mut cluster = Cluster::scripted(committee(4));
    cluster.simulation.disks.sync = corniche_testkit::Micros::from_millis(10);
    let checkpoints = |cluster: &Cluster| cluster.count(1, |message| matches!(message, Message::Checkpoint { .. }));
    for (sn, from) in (1..=8).flat_map(|sn| [0, 2, 3].map(|from| (sn, from))) {
        assert!(cluster.tell(from, 1, &commit(EPOCH, sn, NULL)));
    }
    assert_eq!((cluster.delivered(1), checkpoints(&cluster)), (8, 0));
    // Also the one that asks does not get it.
    let (epoch, wants, delivered, stable) = (EPOCH, EPOCH, Sn(0), Sn(0));
    assert!(cluster.tell(2, 1, &Message::Status(Status { epoch, wants, delivered, stable, seeks: None, asks: true })));
    assert_eq!(checkpoints(&cluster), 0);
    cluster.run_for(20);
    assert_eq!(checkpoints(&cluster), 1);
}

/// T3: a member that lost its disk learns from the stable checkpoints of the others how far it may have voted. So nobody signs a
/// checkpoint more than a window above its own stable one on disk.
#[test]
fn checkpoints_above_the_window_are_not_signed() {
    let mut cluster = Cluster::scripted(committee(4));
    for (sn, from) in (1..=64).flat_map(|sn| [0, 2, 3].map(|from| (sn, from))) {
        assert!(cluster.tell(from, 1, &commit(EPOCH, sn, NULL)));
    }
    cluster.run_for(1);
    let signed = |cluster: &Cluster| {
        let sent = cluster.seen(1).sent.iter();
        sent.filter_map(
            |(_, _, message)| if let Message::Checkpoint { sn, hash, .. } = message { Some((sn.0, *hash)) } else { None },
        )
        .collect::<Vec<_>>()
    };
    let before = signed(&cluster);
    assert_eq!((cluster.delivered(1), before.last().unwrap().0, before.len()), (64, 32, 4));
    cluster.simulation.disks.sync = corniche_testkit::Micros::from_millis(10);
    let checkpoint = cluster.stable_checkpoint(32, before[3].1);
    assert!(cluster.tell(2, 1, &Message::StableCheckpoint(checkpoint)));
    assert_eq!(signed(&cluster).len(), 4, "not on disk");
    cluster.run_for(20);
    assert_eq!(signed(&cluster).iter().map(|(sn, _)| *sn).collect::<Vec<_>>(), [8, 16, 24, 32, 40, 48, 56, 64]);
}

/// U1: the EPOCH-CHANGE waits for its record, also when a checkpoint becomes stable meanwhile.
#[test]
fn epoch_change_waits_for_its_record() {
    let mut cluster = Cluster::scripted(committee(4));
    cluster.simulation.disks.sync = corniche_testkit::Micros::from_millis(10);
    for from in [2, 3] {
        assert!(cluster.tell(from, 1, &cluster.wants(1)));
    }
    let checkpoint = cluster.stable_checkpoint(8, NULL);
    assert!(cluster.tell(2, 1, &Message::StableCheckpoint(checkpoint)));
    cluster.run_for(5);
    assert!(!cluster.has_left(1));
    cluster.run_for(20);
    assert!(cluster.has_left(1));
}

/// A member that restarts during a change gets the EPOCH-CHANGEs again.
#[test]
fn restarted_member_gets_epoch_changes_again() {
    let mut cluster = Cluster::new(4, quick());
    cluster.simulation.crash(2);
    cluster.simulation.crash(1);
    cluster.submit(0, "t");
    cluster.run_for(1_800_000);
    assert!([0, 3].iter().all(|node| cluster.delivered(*node) == 0));
    cluster.simulation.restart(1);
    cluster.run_until_delivered(&[0, 1, 3], &["t"], 10_000);
}

/// X1: a restarted member does not accept a second batch of a number.
#[test]
fn accepted_batch_survives_a_restart() {
    let mut cluster = Cluster::scripted(committee(4));
    let ((proposal, digest), (second, other)) = (cluster.proposal(1, 0, "x"), cluster.proposal(1, 0, "y"));
    cluster.tell_all(&[0], 1, |cluster, _| cluster.pre_prepare(EPOCH, &proposal));
    cluster.simulation.crash(1);
    cluster.simulation.restart(1);
    cluster.tell_all(&[0], 1, |cluster, _| cluster.pre_prepare(EPOCH, &second));
    cluster.tell_all(&[2, 3], 1, |cluster, from| cluster.prepare(from, EPOCH, 1, other));
    assert_eq!(cluster.count(1, is_commit), 0);
    let voted = |message: &Message| matches!(message, Message::Prepare { digest: of, .. } if *of != digest);
    assert_eq!(cluster.count(1, voted), 0);
}

/// T4: everybody restarts at once, some with an older state.
#[test]
fn commits_continue_after_a_restart_of_all() {
    let mut cluster = Cluster::new(4, quick());
    cluster.load(ALL, true);
    for round in 0..5 {
        cluster.run_for(300 + 7 * round);
        ALL.iter().for_each(|node| cluster.simulation.crash(*node));
        for node in ALL {
            let commits = cluster.seen(node).log.len().saturating_sub(3 * node);
            let resume = cluster.resume_after(node, commits);
            cluster.restart_at(node, resume);
        }
        cluster.load(ALL, true);
    }
    let before = cluster.delivered(0);
    cluster.run_for(1_000);
    assert!(cluster.delivered(0) > before + 20);
    cluster.assert_equal_logs(ALL);
}

/// The window is full of batches without a stable checkpoint when all restart: they vote for it again.
#[test]
fn checkpoints_are_voted_for_again() {
    let mut cluster = Cluster::new(4, quick());
    cluster.set_rule(|_, _, _, message| match message {
        Message::Checkpoint { .. } => crate::cluster::LOST,
        _ => corniche_testkit::Delivery::Normal,
    });
    cluster.load(ALL, true);
    cluster.run_until(5_000, |cluster| ALL.iter().all(|node| cluster.engine(*node).progress().0.0 == 32));
    ALL.iter().for_each(|node| cluster.simulation.crash(*node));
    cluster.clear_rule();
    ALL.iter().for_each(|node| cluster.simulation.restart(*node));
    cluster.load(ALL, true);
    cluster.run_until(5_000, |cluster| ALL.iter().all(|node| cluster.engine(*node).progress().0.0 > 60));
    cluster.assert_equal_logs(ALL);
}

/// A member that followed certified blocks fetches the body of a listed batch that it did not deliver itself, and confirms it for the
/// others (U8).
#[test]
fn listed_batch_before_the_resume_point_is_confirmed() {
    let mut cluster = Cluster::scripted(committee(4));
    let ((proposal, digest), (second, _)) = (cluster.proposal(1, 0, "x"), cluster.proposal(3, 2, "y"));
    cluster.tell_all(&[2], 1, |cluster, _| cluster.pre_prepare(EPOCH, &second));
    cluster.tell_all(&[0], 2, |cluster, _| cluster.pre_prepare(EPOCH, &proposal));
    cluster.tell_all(&[0, 1, 3], 2, |_, _| commit(EPOCH, 1, digest));
    let resume = cluster.seen(2).resume.clone();
    assert_eq!(resume.index.0, 1);
    cluster.simulation.crash(1);
    cluster.disk(1).notes.log = cluster.seen(2).log.clone();
    cluster.restart_at(1, resume);
    let leaders = [0, 1, 3].map(crate::cluster::index).to_vec();
    let (epoch, start, first, last) = (EpochNumber(1), Sn(0), Sn(2), Some(Sn(9)));
    let config = EpochConfig { epoch, leaders, start, listed: vec![digest], first, last };
    cluster.tell_all(&[2], 1, |cluster, _| cluster.certificate(config.clone()));
    assert_eq!(cluster.count(1, |message| matches!(message, Message::FetchBody { sn: Sn(1), .. })), 1);
    cluster.tell_all(&[0], 1, |_, _| Message::Body(proposal.clone()));
    assert_eq!(cluster.count(1, |message| matches!(message, Message::Prepare { epoch: EpochNumber(1), .. })), 1);
}

/// Numbers up to a stable checkpoint are decided: they suspect nobody.
#[test]
fn decided_numbers_have_no_timers() {
    let mut cluster = Cluster::scripted(committee(4));
    let timers = |cluster: &Cluster| {
        let state = cluster.engine(1).describe();
        ["{Sn(1):", "{Sn(65):"].map(|timer| state.contains(timer))
    };
    assert_eq!(timers(&cluster), [true, false]);
    let checkpoint = cluster.stable_checkpoint(64, NULL);
    assert!(cluster.tell(2, 1, &Message::StableCheckpoint(checkpoint)));
    assert_eq!(timers(&cluster), [false, true]);
}

/// A peer that asks again and again gets what its share allows: 8 MiB at once.
#[test]
fn responses_are_limited_by_their_bytes() {
    let mut cluster = Cluster::new(4, Config { retain: 400, ..quick() });
    cluster.load(ALL, true);
    cluster.run_until(10_000, |cluster| cluster.engine(1).progress().0.0 > 200);
    let bytes = |cluster: &Cluster| {
        let sent = cluster.seen(1).sent.iter().filter(|(_, _, message)| matches!(message, Message::Committed(_)));
        sent.map(|(_, _, message)| message.encode().len()).sum::<usize>()
    };
    let before = bytes(&cluster);
    let status = Status { epoch: EPOCH, wants: EPOCH, delivered: Sn(50), stable: Sn(0), seeks: None, asks: true };
    for _ in 0..3_000 {
        assert!(cluster.tell(2, 1, &Message::Status(status)));
    }
    let sent = bytes(&cluster) - before;
    assert!(sent > 0 && sent < 9 << 20, "{sent}");
}

/// Erases the disk of a member that is off; it followed certified commits up to its last one.
fn lose_disk(cluster: &mut Cluster, node: usize, resume: Resume) {
    cluster.simulation.crash(node);
    let log = cluster.seen(node).log.clone();
    *cluster.disk(node) =
        EngineDisk { may_have_signed: true, notes: Observed { resume, log, ..Observed::default() }, ..EngineDisk::default() };
    cluster.simulation.restart(node);
}

/// X9, T3: silent where it may have voted, then it takes part again.
#[test]
fn member_without_its_disk_is_silent_at_first() {
    let mut cluster = Cluster::new(4, quick());
    cluster.load(ALL, true);
    cluster.run_for(500);
    let resume = cluster.seen(2).resume.clone();
    let at = cluster.delivered(2);
    lose_disk(&mut cluster, 2, resume);
    cluster.run_for(20);
    assert!(cluster.engine(2).is_silent());
    cluster.run_for(300);
    let is_old = |message: &Message| match message {
        Message::Prepare { epoch, .. } | Message::Commit { epoch, .. } | Message::PrePrepare { epoch, .. } => *epoch == EPOCH,
        _ => false,
    };
    assert_eq!(cluster.count(2, is_old), 0);
    // Its numbers are overdue, so the others remove it from the leaders.
    cluster.load([0, 1, 3], true);
    cluster.run_until(30_000, |cluster| cluster.seen(2).count(is_commit) > 0);
    let first = cluster.seen(2).sent.iter().find_map(|(_, _, message)| match message {
        Message::Commit { epoch, sn, .. } => Some((*epoch, *sn)),
        _ => None,
    });
    let (epoch, sn) = first.expect("it votes again");
    assert!(epoch > EPOCH && sn.0 > at, "{epoch} {sn}");
    cluster.run_until(30_000, |cluster| ALL.iter().all(|node| cluster.engine(*node).epoch_config().last.is_none()));
    cluster.assert_equal_logs(ALL);
}

/// An idle network with the parameters of production. The member takes part fully after a few message delays, so another one may fail
/// then.
#[test]
fn member_without_its_disk_recovers_in_an_idle_network() {
    for lost in ALL {
        let mut cluster = Cluster::new(4, Config::default());
        cluster.run_for(5_000);
        let resume = cluster.seen(lost).resume.clone();
        lose_disk(&mut cluster, lost, resume);
        cluster.run_until(3_000, |cluster| !cluster.engine(lost).is_silent());
        let next = (lost + 1) % 4;
        // Nothing was overdue.
        assert_eq!(cluster.engine(next).timeout_ms(), Config::default().timeout_ms);
        cluster.simulation.crash(next);
        cluster.load(ALL.into_iter().filter(|node| *node != next), true);
        let before = cluster.delivered(lost);
        cluster.run_until(30_000, |cluster| cluster.engine(lost).progress().0.0 > before + 100);
        cluster.simulation.restart(next);
        cluster.load(ALL, false);
        cluster.run_for(1_000);
        let resume = cluster.seen(next).resume.clone();
        lose_disk(&mut cluster, next, resume);
        cluster.run_until(15_000, |cluster| !cluster.engine(next).is_silent());
        cluster.assert_equal_logs(ALL);
    }
}

/// T3: with E as the highest epoch that a quorum reports, this member may have sent an EPOCH-CHANGE for epoch E + 5. It votes after
/// that, and more than two windows above the highest stable checkpoint that a quorum reports.
#[test]
fn silence_covers_all_earlier_votes() {
    let mut cluster = Cluster::scripted(committee(4));
    cluster.tell_all(&[0, 2, 3], 1, |_, _| commit(EPOCH, 1, NULL));
    let resume = cluster.seen(1).resume.clone();
    lose_disk(&mut cluster, 1, resume);
    let regained = |cluster: &Cluster| {
        let traced = cluster.seen(1).traced.iter().map(|event| format!("{event:?}"));
        traced.filter(|event| event.contains("votes-regained")).collect::<Vec<_>>().concat()
    };
    let report = |cluster: &mut Cluster, from, wants, stable| {
        let (wants, stable) = (EpochNumber(wants), Sn(stable));
        assert!(cluster.tell(
            from,
            1,
            &Message::Status(Status { epoch: EPOCH, wants, delivered: stable, stable, seeks: None, asks: false })
        ));
    };
    report(&mut cluster, 0, 4, 8);
    report(&mut cluster, 2, 5, 16);
    // Reports that no certificate supports do not count.
    report(&mut cluster, 3, 1 << 40, 16);
    report(&mut cluster, 3, 5, 1 << 40);
    let checkpoint = cluster.stable_checkpoint(16, NULL);
    assert!(cluster.tell(2, 1, &Message::StableCheckpoint(checkpoint)));
    assert_eq!(regained(&cluster), "");
    report(&mut cluster, 3, 5, 16);
    assert!(regained(&cluster).contains("after epoch 10 and number 80"), "{}", regained(&cluster));
}

/// A faulty member seeks epochs, too. It would choose those that it leads itself.
#[test]
fn others_help_to_reach_the_next_epoch_only() {
    for (from, sought, is_helped) in [(2, 1, true), (2, 2, false), (1, 2, true), (1, 3, false), (3, 4, false)] {
        let mut cluster = Cluster::scripted(committee(4));
        let (wants, delivered, stable) = (EPOCH, Sn(0), Sn(0));
        let seeks = Some(EpochNumber(sought));
        cluster.tell(from, 0, &Message::Status(Status { epoch: EPOCH, wants, delivered, stable, seeks, asks: false }));
        let wanted = |message: &Message| matches!(message, Message::Status(status) if status.wants == EpochNumber(sought));
        assert_eq!(cluster.count(0, wanted) > 0, is_helped, "member {from}, epoch {sought}");
    }
}

/// The loss is remembered at the next restart.
#[test]
fn lost_disk_is_remembered() {
    let mut cluster = Cluster::scripted(committee(4));
    let (proposal, digest) = cluster.proposal(1, 0, "x");
    cluster.tell_all(&[0], 1, |cluster, _| cluster.pre_prepare(EPOCH, &proposal));
    cluster.tell_all(&[0, 2, 3], 1, |_, _| commit(EPOCH, 1, digest));
    let resume = cluster.seen(1).resume.clone();
    assert_eq!(resume.index.0, 1);
    lose_disk(&mut cluster, 1, resume);
    let (second, _) = cluster.proposal(3, 2, "y");
    for _ in 0..2 {
        cluster.tell_all(&[2], 1, |cluster, _| cluster.pre_prepare(EPOCH, &second));
        cluster.tell_all(&[2, 3], 1, |cluster, _| cluster.wants(1));
        assert_eq!(cluster.count(1, is_prepare), 0);
        assert!(!cluster.has_left(1));
        cluster.simulation.crash(1);
        cluster.simulation.restart(1);
        cluster.run_for(1);
    }
}

/// A liar whose connection comes and goes gets no second request before others get one.
#[test]
fn body_is_asked_for_from_others_than_a_liar() {
    let never = 3_600_000;
    let config = Config { resend_ms: 250, timeout_ms: never, max_timeout_ms: never, idle_ms: never, ..quick() };
    let mut cluster = Cluster::new(4, config);
    cluster.set_rule(|_, _, _, _| crate::cluster::LOST);
    cluster.run_for(1);
    let (_, digest) = cluster.proposal(1, 0, "x");
    cluster.tell_all(&[0, 2, 3], 1, |cluster, from| cluster.prepare(from, EPOCH, 1, digest));
    cluster.tell_all(&[0, 2, 3], 1, |_, _| commit(EPOCH, 1, digest));
    for _ in 0..20 {
        cluster.simulation.crash(0);
        cluster.run_for(10);
        cluster.simulation.restart(0);
        cluster.run_for(200);
    }
    let requests = cluster.seen(1).sent.iter().filter(|(_, _, message)| matches!(message, Message::FetchBody { .. }));
    let asked: std::collections::BTreeSet<_> = requests.map(|(_, to, _)| format!("{to:?}")).collect();
    assert!(asked.len() > 1, "after 20 connections, one member was asked: {asked:?}");
}

/// A connected liar keeps its batches, and its status, from one member. That one waits in vain once in an epoch.
#[test]
fn withheld_batches_delay_nobody_for_long() {
    let numbers = |has_liar: bool| {
        let mut cluster = Cluster::new(4, Config { max_stretch: 1, ..Config::default() });
        cluster.set_rule(move |_, from, to, message| match message {
            Message::PrePrepare { .. } | Message::Status(_) if from == 0 && to == 1 && has_liar => crate::cluster::LOST,
            _ => corniche_testkit::Delivery::Normal,
        });
        for step in 0..500 {
            (0..4).for_each(|node| cluster.submit(node, &format!("{step}-{node}")));
            cluster.run_for(10);
        }
        cluster.delivered(2)
    };
    let (without, with) = (numbers(false), numbers(true));
    assert!(with > without / 2, "{with} of {without} numbers in 5 s");
}
