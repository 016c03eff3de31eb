//! Unequal votes: three of four members are no quorum, two can be one, and one can be enough for F + 1.

use crate::{
    cluster::{Cluster, DELAY, LOST, index, plain},
    gaps, requests, views,
};
use corniche_aom_wire::Suite;
use corniche_neobft::message::{
    BodyId, CheckpointCertificate, Content, Entry, GapEvidence, Message, Slot, Statement, Value, View,
};
use corniche_neobft_testing::committee_of;
use corniche_types::{B256, Bytes, TimestampMs};

const ALL: [usize; 4] = [0, 1, 2, 3];
const VIEW: View = View { epoch: 0, leader: 0 };
const NEXT: View = View { epoch: 0, leader: 1 };
const SLOT: Slot = Slot(1);

/// W = 9, F = 2, Q = 7. Only scripted messages arrive.
fn scripted() -> Cluster {
    let mut cluster = connected();
    cluster.set_rule(|_, _, _, _| LOST);
    cluster
}

fn connected() -> Cluster {
    Cluster::of(committee_of(&[1, 1, 3, 4]), plain(), Suite::SipHash64)
}

#[test]
fn replies_are_weighed() {
    let mut cluster = scripted();
    let packet = cluster.stamp(b"x");
    cluster.arrive(&packet, &[2]);
    cluster.run_for(1);
    let hash = cluster.engine(2).log_hash(SLOT).unwrap();
    for (from, last) in [(0, 0), (1, 0), (3, 1)] {
        assert!(cluster.tell(from, 2, &Message::Reply { view: VIEW, slot: SLOT, hash }));
        assert_eq!(cluster.slots(2)[2], last);
    }
}

#[test]
fn certificates_are_weighed() {
    let mut cluster = scripted();
    for (voters, is_accepted) in [(&[0, 1, 2][..], false), (&[2, 3], true)] {
        let (slot, hash) = (Slot(8), B256::ZERO);
        let votes = cluster.votes(voters, &Statement::Checkpoint { slot, hash });
        let checkpoint = Some(CheckpointCertificate { slot, hash, votes });
        let message = Message::QueryReply { view: VIEW, from: SLOT, entries: Vec::new(), checkpoint };
        assert_eq!(cluster.tell(0, 1, &message), is_accepted, "{voters:?}");
    }
}

#[test]
fn votes_about_gaps_are_weighed() {
    let mut cluster = scripted();
    let (_, second) = (cluster.stamp(b"x"), cluster.stamp(b"y"));
    cluster.arrive(&second, &[0]);
    let is_decision: fn(&Message) -> bool = |message| matches!(message, Message::GapDecision { .. });
    for (from, count) in [(1, 0), (2, 0), (3, 1)] {
        let signature = cluster.sign(from, &Statement::GapDrop { view: VIEW, slot: SLOT });
        assert!(cluster.tell(from, 0, &Message::GapDrop { view: VIEW, slot: SLOT, signature }));
        cluster.run_for(1);
        assert_eq!(cluster.count(0, is_decision), count, "GAP-DROP of validator {from}");
    }
    let drops = cluster.votes(&[2, 3], &Statement::GapDrop { view: VIEW, slot: SLOT });
    let decision = gaps::decision(&cluster, GapEvidence::Drop(drops));
    assert!(cluster.tell(0, 1, &decision));
    let is_commit: fn(&Message) -> bool = |message| matches!(message, Message::GapCommit(_));
    for (from, count) in [(2, 0), (3, 1)] {
        let prepare = gaps::prepare(&cluster, from, Value::Drop);
        assert!(cluster.tell(from, 1, &prepare));
        cluster.run_for(1);
        assert_eq!(cluster.count(1, is_commit), count, "GAP-PREPARE of validator {from}");
    }
}

#[test]
fn suspicions_are_weighed() {
    let mut cluster = scripted();
    for (from, is_leaving) in [(0, false), (1, false), (2, true)] {
        assert!(cluster.tell(from, 3, &Message::Suspect { view: NEXT }));
        assert_eq!(cluster.engine(3).is_changing_view(), is_leaving, "validator {from}");
    }
}

#[test]
fn view_changes_are_weighed() {
    let mut cluster = scripted();
    views::leave(&mut cluster, 1, NEXT);
    assert!(cluster.tell(2, 1, &Message::Suspect { view: NEXT }));
    cluster.run_for(1);
    for (from, count) in [(0, 0), (2, 0), (3, 1)] {
        let change = views::change(&cluster, from, Vec::new());
        assert!(cluster.tell(from, 1, &Message::ViewChange(Box::new(change))));
        cluster.run_for(1);
        assert_eq!(cluster.count(1, |message| matches!(message, Message::ViewStart { .. })), count, "validator {from}");
    }
}

#[test]
fn attestations_are_weighed() {
    let mut cluster = scripted();
    let packet = cluster.stamp(b"x");
    cluster.arrive(&packet, &[3]);
    let mut certificate = gaps::certificate(&cluster, 3);
    let corniche_aom_receiver::Proof::Hm { vector } = &mut certificate.proof else { panic!("a vector of tags") };
    // The tag of receiver 2.
    vector[0][16] ^= 1;
    let entries = vec![Entry::Request(certificate)];
    for (from, end) in [(0, 0), (1, 0), (3, 1)] {
        let reply = Message::QueryReply { view: VIEW, from: SLOT, entries: entries.clone(), checkpoint: None };
        assert!(cluster.tell(from, 2, &reply));
        assert_eq!(cluster.slots(2)[0], end, "pitfall 6: validator {from}");
    }
}

#[test]
fn holders_of_a_body_are_weighed() {
    let mut cluster = connected();
    let batch = Bytes::from_static(&[7; 2_000]);
    let reference = |cluster: &Cluster, id, holders: &[usize], is_signed| {
        let body = BodyId::of(index(0), id, TimestampMs(1_000_000), &batch);
        let sign = |node| if is_signed { cluster.sign(node, &Statement::Holding(body)) } else { [1; 64] };
        let holders = holders.iter().map(|node| (index(*node), sign(*node))).collect();
        requests::payload(cluster, 0, Content::Reference { body, holders }, 1_000)
    };
    // A request with an effect waits for its body.
    for (id, holders, is_signed, executed) in [(5, &[0, 1][..], true, 1), (6, &[2], false, 2), (7, &[2], true, 2)] {
        let payload = reference(&cluster, id, holders, is_signed);
        let packet = cluster.stamp(&payload);
        cluster.arrive(&packet, &ALL);
        cluster.run_for(5 * DELAY);
        assert_eq!(cluster.slots(3)[3], executed, "{holders:?}");
    }
    assert_eq!(cluster.slots(3)[2], 3);
}

#[test]
fn claims_of_time_are_weighed() {
    let mut cluster = connected();
    for (author, time, expected) in [(3, 2_000, 1_500), (0, 2_010, 2_010)] {
        let payload = requests::payload(&cluster, author, Content::Clock, time);
        let packet = cluster.stamp(&payload);
        cluster.arrive(&packet, &ALL);
        cluster.run_for(5 * DELAY);
        assert_eq!(cluster.seen(1).log.last().unwrap().1.time, TimestampMs(expected), "validator {author}");
    }
}
