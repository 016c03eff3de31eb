//! One number, message by message (3.4). Committees of six have F = 1 and Q = 5, which is more than 2F + 1.

use crate::cluster::{Cluster, EPOCH, LOST, commit, index, is_commit, is_prepare, quick};
use corniche_engine::{Offence, Recipients};
use corniche_mir::{
    Config,
    message::{EpochNumber, Message, Sn, Status},
};
use corniche_mir_testing::committee;
use corniche_testkit::Delivery;
use corniche_types::{TimestampMs, ValidatorIndex};

fn scripted() -> Cluster {
    Cluster::scripted(committee(6))
}

/// 1.2: n - F, which two quorums need to share a correct member.
#[test]
fn prepared_and_committed_need_a_quorum() {
    let mut cluster = scripted();
    let (proposal, digest) = cluster.proposal(1, 0, "x");
    cluster.tell_all(&[0], 1, |cluster, _| cluster.pre_prepare(EPOCH, &proposal));
    assert_eq!(cluster.count(1, is_prepare), 1);
    cluster.tell_all(&[2, 3], 1, |cluster, from| cluster.prepare(from, EPOCH, 1, digest));
    cluster.tell_all(&[3, 3], 1, |cluster, from| cluster.prepare(from, EPOCH, 1, digest));
    assert_eq!(cluster.count(1, is_commit), 0, "N5: four of six");
    cluster.tell_all(&[4], 1, |cluster, from| cluster.prepare(from, EPOCH, 1, digest));
    assert_eq!(cluster.count(1, is_commit), 1);
    cluster.tell_all(&[0, 2, 3, 3], 1, |_, _| commit(EPOCH, 1, digest));
    assert_eq!(cluster.delivered(1), 0, "N6: four of six");
    cluster.tell_all(&[4], 1, |_, _| commit(EPOCH, 1, digest));
    assert_eq!(cluster.delivered(1), 1);
}

#[test]
fn votes_for_another_batch_do_not_count() {
    let mut cluster = scripted();
    let ((proposal, digest), (_, other)) = (cluster.proposal(1, 0, "x"), cluster.proposal(1, 0, "y"));
    cluster.tell_all(&[0], 1, |cluster, _| cluster.pre_prepare(EPOCH, &proposal));
    cluster.tell_all(&[2, 3, 4, 5], 1, |cluster, from| cluster.prepare(from, EPOCH, 1, other));
    assert_eq!(cluster.count(1, is_commit), 0);
    cluster.tell_all(&[2, 3, 4], 1, |_, _| commit(EPOCH, 1, digest));
    cluster.tell_all(&[0, 5], 1, |_, _| commit(EPOCH, 1, other));
    assert_eq!(cluster.delivered(1), 0);
}

/// N2: one batch of each number, from its leader, in the window and the epoch.
#[test]
fn batches_that_can_never_be_valid_are_ignored() {
    let mut cluster = scripted();
    let voted = |cluster: &Cluster| cluster.count(2, is_prepare);
    for (sn, author) in [(1, 1), (2, 0), (0, 5), (6 * 12 + 1, 0)] {
        let (proposal, _) = cluster.proposal(sn, author, "x");
        cluster.tell(author, 2, &cluster.pre_prepare(EPOCH, &proposal));
        cluster.run_for(1);
        assert_eq!(voted(&cluster), 0, "{sn} of {author}");
    }
    let (proposal, _) = cluster.proposal(1, 0, "x");
    assert!(!cluster.tell(1, 2, &cluster.pre_prepare(EPOCH, &proposal)), "a batch comes from its author");
    cluster.tell_all(&[0], 2, |cluster, _| cluster.pre_prepare(EPOCH, &proposal));
    assert_eq!(voted(&cluster), 1);
    // X1: the second batch of a number.
    let (second, _) = cluster.proposal(1, 0, "y");
    cluster.tell_all(&[0], 2, |cluster, _| cluster.pre_prepare(EPOCH, &second));
    assert_eq!(voted(&cluster), 1);
    assert_eq!(cluster.seen(2).accused.iter().map(|(_, offence)| *offence).collect::<Vec<_>>(), [Offence::Equivocation]);
}

/// M34: messages of a later epoch, and outside of the window, wait.
#[test]
fn early_messages_wait() {
    let mut cluster = scripted();
    let window = 32;
    let (proposal, _) = cluster.proposal(6 * 6 + 1, 0, "far");
    assert!(proposal.sn > Sn(window));
    cluster.tell_all(&[0], 2, |cluster, _| cluster.pre_prepare(EPOCH, &proposal));
    let (next, _) = cluster.proposal(1, 1, "next");
    cluster.tell_all(&[1], 2, |cluster, _| cluster.pre_prepare(EpochNumber(1), &next));
    assert_eq!(cluster.count(2, is_prepare), 0);
    assert!(cluster.engine(2).footprint() >= 2);
}

/// A leader whose clock is ahead waits for the others' clocks.
#[test]
fn batch_from_the_future_waits() {
    let mut cluster = scripted();
    let (mut proposal, _) = cluster.proposal(1, 0, "x");
    proposal.time = TimestampMs(cluster.simulation.now().timestamp().0 + 800);
    cluster.tell_all(&[0], 1, |cluster, _| cluster.pre_prepare(EPOCH, &proposal));
    cluster.run_for(200);
    assert_eq!(cluster.count(1, is_prepare), 0);
    cluster.run_for(150);
    assert_eq!(cluster.count(1, is_prepare), 1);
}

/// Another input may come at the time at which the batch may be accepted, before the deadline.
#[test]
fn deferred_batch_is_not_forgotten() {
    let mut cluster = scripted();
    let (mut proposal, _) = cluster.proposal(1, 0, "x");
    proposal.time = TimestampMs(cluster.simulation.now().timestamp().0 + 800);
    cluster.tell_all(&[0], 1, |cluster, _| cluster.pre_prepare(EPOCH, &proposal));
    cluster.clocks.borrow_mut()[1] = 400;
    cluster.tell_all(&[2], 1, |cluster, _| cluster.wants(0));
    assert_eq!(cluster.count(1, is_prepare), 1);
}

/// X6, M24: COMMITs are not signed, so no single member can prove a batch.
#[test]
fn batch_is_learnt_from_members_with_f_plus_one_votes() {
    let mut cluster = Cluster::scripted(committee(7));
    let (proposal, digest) = cluster.proposal(1, 0, "x");
    let claim = Message::Committed(vec![(Sn(1), digest)]);
    cluster.tell_all(&[2, 3, 3], 1, |_, _| claim.clone());
    cluster.tell_all(&[4], 1, |cluster, _| Message::Committed(vec![(Sn(1), cluster.proposal(1, 0, "y").1)]));
    assert_eq!(cluster.count(1, |message| matches!(message, Message::FetchBody { .. })), 0);
    cluster.tell_all(&[5], 1, |_, _| claim.clone());
    let fetches = cluster.count(1, |message| *message == Message::FetchBody { sn: Sn(1), digest });
    assert_eq!(fetches, 1);
    let (wrong, _) = cluster.proposal(1, 0, "z");
    cluster.tell_all(&[2], 1, |_, _| Message::Body(wrong.clone()));
    assert_eq!(cluster.delivered(1), 0, "the body of another digest");
    cluster.tell_all(&[2], 1, |_, _| Message::Body(proposal.clone()));
    assert_eq!(cluster.delivered(1), 1);
}

/// N7.
#[test]
fn delivery_is_in_order() {
    let mut cluster = scripted();
    let batches = [cluster.proposal(1, 0, "x"), cluster.proposal(2, 1, "y")];
    for (proposal, digest) in batches.iter().rev() {
        let author = proposal.author.as_usize();
        cluster.tell_all(&[author], 5, |cluster, _| cluster.pre_prepare(EPOCH, proposal));
        assert_eq!(cluster.delivered(5), 0);
        cluster.tell_all(&[0, 1, 2, 3, 4], 5, |_, _| commit(EPOCH, proposal.sn.0, *digest));
    }
    assert_eq!(cluster.delivered(5), 2);
}

/// A peer whose uplink is slow asks while the first copy of a batch is on its way.
#[test]
fn copies_of_batches_become_rarer() {
    let config = Config { idle_ms: 60_000, timeout_ms: 60_000, max_timeout_ms: 60_000, ..quick() };
    let mut cluster = Cluster::new(4, config);
    cluster.run_for(10);
    let copies = |cluster: &Cluster| {
        let to_one = cluster.seen(0).sent.iter().filter(|(_, to, _)| matches!(to, Recipients::One(ValidatorIndex(1))));
        to_one.filter(|(_, _, message)| matches!(message, Message::PrePrepare { .. })).count()
    };
    // Validator 1 gets no batches, and the others are not enough.
    cluster.set_rule(|_, _, to, message| match message {
        Message::PrePrepare { .. } if to != 0 => LOST,
        _ => Delivery::Normal,
    });
    cluster.submit(0, "x");
    let counts: Vec<_> = (0..9)
        .map(|_| {
            cluster.run_for(400);
            copies(&cluster)
        })
        .collect();
    assert_eq!(counts, [0, 1, 1, 2, 2, 2, 2, 2, 3], "400, 800 and 1,600 ms apart, each at the next status");
}

/// A member that voted has the batch on its disk, and one that sent COMMIT has all PREPAREs.
#[test]
fn members_are_sent_only_what_their_votes_lack() {
    let config = Config { idle_ms: 60_000, timeout_ms: 60_000, max_timeout_ms: 60_000, ..quick() };
    let mut cluster = Cluster::new(4, config);
    cluster.run_for(10);
    // Validator 0 gets the COMMIT of validator 1 alone, and nobody else gets any. Nobody commits.
    cluster.set_rule(|_, from, to, message| match message {
        Message::Commit { .. } if (from, to) != (1, 0) => LOST,
        _ => Delivery::Normal,
    });
    cluster.submit(0, "x");
    cluster.run_for(3_000);
    let sent = |to: usize, wanted: fn(&Message) -> bool| {
        let sent = cluster.seen(0).sent.iter().filter(|(_, of, message)| *of == Recipients::One(index(to)) && wanted(message));
        sent.count()
    };
    let is_batch = |message: &Message| matches!(message, Message::PrePrepare { .. });
    for peer in 1..4 {
        assert_eq!(sent(peer, is_batch), 0, "validator {peer} voted for the batch");
        assert!(sent(peer, is_commit) > 1, "validator {peer} may lack the COMMIT");
    }
    assert_eq!(sent(1, is_prepare), 0, "it sent COMMIT");
    assert!(sent(2, is_prepare) > 1, "its COMMIT did not come");
}

/// The leader's uplink may be slow.
#[test]
fn batch_that_may_be_on_its_way_is_not_asked_for() {
    let mut cluster = scripted();
    let (_, digest) = cluster.proposal(1, 0, "x");
    let fetches = |cluster: &Cluster| cluster.count(1, |message| *message == Message::FetchBody { sn: Sn(1), digest });
    cluster.tell_all(&[0, 2, 3, 4, 5], 1, |_, _| commit(EPOCH, 1, digest));
    assert_eq!(fetches(&cluster), 0);
    let delivered = Status { epoch: EPOCH, wants: EPOCH, delivered: Sn(1), stable: Sn(0), seeks: None, asks: false };
    cluster.tell_all(&[0], 1, |_, _| Message::Status(delivered));
    assert_eq!(fetches(&cluster), 1, "the leader sent its copy before");
}
