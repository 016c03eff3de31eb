//! Lost packets: who may decide, and what a replica must not do meanwhile (G1–G11, pitfalls 1, 5 and 15).

use crate::cluster::{Cluster, DELAY, LOST, index, plain};
use corniche_aom_receiver::OrderingCertificate;
use corniche_neobft::message::{DropProof, Entry, GapEvidence, GapVote, Message, Slot, Statement, Value, View};
use corniche_testkit::{Delivery, Micros};
use corniche_types::Bytes;

const ALL: [usize; 4] = [0, 1, 2, 3];
const VIEW: View = View { epoch: 0, leader: 0 };
const SLOT: Slot = Slot(1);

fn is_answer(message: &Message) -> bool {
    matches!(message, Message::GapReceive { .. } | Message::GapDrop { .. } | Message::QueryReply { .. })
}

/// Packet 1 reaches only validator 1, packet 2 reaches all, and no answer reaches the leader.
fn blocked_cluster() -> (Cluster, Vec<Vec<corniche_types::Bytes>>) {
    let mut cluster = Cluster::new(4, plain());
    cluster.set_rule(|_, _, to, message| if to == 0 && is_answer(message) { LOST } else { Delivery::Normal });
    let (first, second) = (cluster.stamp(b"x"), cluster.stamp(b"y"));
    cluster.arrive(&first, &[1]);
    cluster.arrive(&second, &ALL);
    cluster.run_for(5 * DELAY);
    (cluster, first)
}

#[test]
fn late_packet_after_gap_drop_waits_for_the_decision() {
    let (mut cluster, first) = blocked_cluster();
    assert_eq!(cluster.count(2, |message| matches!(message, Message::GapDrop { .. })), 1);
    cluster.arrive(&first, &[2, 3]);
    cluster.run_for(5 * DELAY);
    assert_eq!([cluster.slots(2)[0], cluster.slots(3)[0]], [0, 0], "G5, pitfall 15: it said that it has not got it");
    assert_eq!(cluster.slots(1)[0], 2, "validator 1 sent no GAP-DROP");
    cluster.clear_rule();
    cluster.run_for(4_000);
    assert!(ALL.iter().all(|node| cluster.slots(*node)[3] == 2));
    cluster.assert_equal_logs(ALL);
}

#[test]
fn repeated_gap_find_writes_no_record() {
    let (mut cluster, _) = blocked_cluster();
    let drops = |cluster: &Cluster| cluster.count(2, |message| matches!(message, Message::GapDrop { .. }));
    for is_restarted in [false, true] {
        if is_restarted {
            cluster.simulation.crash(2);
            cluster.simulation.restart(2);
            cluster.run_for(5 * DELAY);
        }
        let (records, sent) = (cluster.records(2).len(), drops(&cluster));
        cluster.run_for(3_500);
        assert!(drops(&cluster) >= sent + 3, "Theorem 2");
        assert_eq!(cluster.records(2).len(), records, "restarted: {is_restarted}");
    }
}

#[test]
fn block_survives_a_restart() {
    let (mut cluster, first) = blocked_cluster();
    cluster.simulation.crash(2);
    cluster.simulation.restart(2);
    cluster.arrive(&first, &[2]);
    cluster.run_for(5 * DELAY);
    assert_eq!(cluster.slots(2)[0], 0, "S5: it remembers its GAP-DROP");
}

#[test]
fn late_packet_before_gap_find_fills_the_gap() {
    let mut cluster = Cluster::new(4, plain());
    cluster.set_rule(|_, _, _, message| {
        if matches!(message, Message::GapFind { .. } | Message::QueryReply { .. }) { LOST } else { Delivery::Normal }
    });
    let (first, second) = (cluster.stamp(b"x"), cluster.stamp(b"y"));
    cluster.arrive(&second, &[2]);
    assert_eq!(cluster.slots(2)[0], 0);
    cluster.arrive(&first, &[2]);
    assert_eq!(cluster.slots(2)[0], 2, "G3: nothing binds it yet");
}

#[test]
fn drop_of_an_executed_slot_rolls_back() {
    let mut cluster = Cluster::new(4, plain());
    // Validator 1 has the packet, but the leader hears nothing from it.
    cluster.set_rule(|_, from, _, message| if from == 1 && is_answer(message) { LOST } else { Delivery::Normal });
    let (first, second) = (cluster.stamp(b"x"), cluster.stamp(b"y"));
    cluster.arrive(&first, &[1]);
    cluster.arrive(&second, &ALL);
    assert_eq!(cluster.slots(1)[0], 2);
    assert!(!cluster.is_no_op(1, 1));
    cluster.run_for(10 * DELAY);
    assert!(ALL.iter().all(|node| cluster.is_no_op(*node, 1) && cluster.slots(*node)[3] == 2), "G9");
    cluster.assert_equal_logs(ALL);
    // G10.
    cluster.arrive(&first, &ALL);
    cluster.run_for(10 * DELAY);
    assert!(ALL.iter().all(|node| cluster.is_no_op(*node, 1)));
}

#[test]
fn damaged_vector_is_believed_with_f_plus_one_attestations() {
    let mut cluster = Cluster::new(4, plain());
    let (first, second) = (cluster.stamp(b"x"), cluster.stamp(b"y"));
    // On the way to the others, the tag of receiver 2 was damaged.
    let mut bytes = first[0][0].to_vec();
    bytes[56 + 16] ^= 1;
    let damaged = vec![vec![corniche_types::Bytes::from(bytes)]; 4];
    cluster.arrive(&damaged, &[0, 1, 3]);
    cluster.arrive(&second, &ALL);
    cluster.run_for(5 * DELAY);
    assert_eq!(cluster.slots(2)[0], 0, "pitfall 6: the leader alone proves nothing");
    cluster.run_for(3_000);
    assert!(ALL.iter().all(|node| cluster.slots(*node)[3] == 2));
    cluster.assert_equal_logs(ALL);
}

#[test]
fn f_liars_cannot_drop_a_packet() {
    let mut cluster = Cluster::new(4, plain());
    let (first, second) = (cluster.stamp(b"x"), cluster.stamp(b"y"));
    // The leader lost it, too; validator 3 lies. Two of four.
    cluster.arrive(&first, &[1, 2, 3]);
    cluster.set_rule(|_, from, _, message| if from != 0 && is_answer(message) { LOST } else { Delivery::Normal });
    cluster.arrive(&second, &ALL);
    cluster.run_for(2 * DELAY);
    let signature = cluster.sign(3, &Statement::GapDrop { view: VIEW, slot: SLOT });
    assert!(cluster.tell(3, 0, &Message::GapDrop { view: VIEW, slot: SLOT, signature }));
    cluster.run_for(10 * DELAY);
    assert_eq!(cluster.count(0, |message| matches!(message, Message::GapDecision { .. })), 0);
}

#[test]
fn gap_drop_of_another_view_does_not_count() {
    let mut cluster = Cluster::new(4, plain());
    cluster.set_rule(|_, from, _, message| if from > 1 && is_answer(message) { LOST } else { Delivery::Normal });
    let (_, second) = (cluster.stamp(b"x"), cluster.stamp(b"y"));
    cluster.arrive(&second, &ALL);
    cluster.run_for(5 * DELAY);
    let decisions = |cluster: &Cluster| cluster.count(0, |message| matches!(message, Message::GapDecision { .. }));
    let old = View { epoch: 0, leader: 4 };
    let signature = cluster.sign(3, &Statement::GapDrop { view: old, slot: SLOT });
    assert!(cluster.tell(3, 0, &Message::GapDrop { view: old, slot: SLOT, signature }));
    assert!(!cluster.tell(3, 0, &Message::GapDrop { view: VIEW, slot: SLOT, signature }), "the signature names the view");
    cluster.run_for(DELAY);
    assert_eq!(decisions(&cluster), 0, "pitfall 5: the leader and validator 1 are two of four");
    // In a decision as well.
    let drops =
        |view: View, cluster: &Cluster| GapEvidence::Drop(cluster.votes(&[0, 1, 3], &Statement::GapDrop { view, slot: SLOT }));
    let signature = cluster.sign(0, &Statement::GapDecision { view: VIEW, slot: SLOT, value: Value::Drop });
    let decision = |evidence| Message::GapDecision { view: VIEW, slot: SLOT, evidence, signature };
    assert!(!cluster.tell(0, 2, &decision(drops(old, &cluster))));
    assert!(cluster.tell(0, 2, &decision(drops(VIEW, &cluster))));
    let signature = cluster.sign(3, &Statement::GapDrop { view: VIEW, slot: SLOT });
    assert!(cluster.tell(3, 0, &Message::GapDrop { view: VIEW, slot: SLOT, signature }));
    cluster.run_for(DELAY);
    assert_eq!(decisions(&cluster), 1);
}

#[test]
fn leader_does_not_vote_twice_in_the_prepare_phase() {
    let mut cluster = Cluster::new(4, plain());
    // Only scripted messages reach validator 1.
    cluster.set_rule(|_, _, _, _| LOST);
    let message = decision(&cluster, drops(&cluster, [0, 2, 3]));
    assert!(cluster.tell(0, 1, &message));
    let prepare = |node, cluster: &Cluster| {
        let value = Value::Drop;
        let signature = cluster.sign(node, &Statement::GapPrepare { view: VIEW, slot: SLOT, value });
        Message::GapPrepare(GapVote { view: VIEW, slot: SLOT, value, signature })
    };
    let message = prepare(0, &cluster);
    assert!(!cluster.tell(0, 1, &message), "G7, pitfall 1");
    cluster.run_for(DELAY);
    let commits = |cluster: &Cluster| cluster.count(1, |message| matches!(message, Message::GapCommit(_)));
    assert_eq!(commits(&cluster), 0, "decision and own GAP-PREPARE: two voters");
    let message = prepare(2, &cluster);
    assert!(cluster.tell(2, 1, &message));
    cluster.run_for(DELAY);
    assert_eq!(commits(&cluster), 1);
}

#[test]
fn second_decision_of_a_slot_is_ignored() {
    let mut cluster = Cluster::new(4, plain());
    cluster.set_rule(|_, _, _, _| LOST);
    let first = cluster.stamp(b"x");
    cluster.arrive(&first, &[3]);
    let Some(corniche_neobft::message::Entry::Request(certificate)) = cluster.engine(3).entry(SLOT).cloned() else { panic!() };
    let message = decision(&cluster, GapEvidence::Receive(certificate));
    assert!(cluster.tell(0, 1, &message));
    let message = decision(&cluster, drops(&cluster, [0, 2, 3]));
    assert!(cluster.tell(0, 1, &message));
    cluster.run_for(DELAY);
    let is_drop = |message: &Message| matches!(message, Message::GapPrepare(GapVote { value: Value::Drop, .. }));
    let prepared = |cluster: &Cluster| cluster.count(1, |message| matches!(message, Message::GapPrepare(_)));
    assert_eq!((prepared(&cluster), cluster.count(1, is_drop)), (1, 0), "G7");
}

/// The certificate of the first slot, from a validator that has the packet.
pub fn certificate(cluster: &Cluster, node: usize) -> OrderingCertificate {
    match cluster.engine(node).entry(SLOT) {
        Some(Entry::Request(certificate)) => certificate.clone(),
        other => panic!("no packet: {other:?}"),
    }
}

/// The decision of validator 0, the leader.
pub fn decision(cluster: &Cluster, evidence: GapEvidence) -> Message {
    let value = match &evidence {
        GapEvidence::Receive(certificate) => cluster.context().value(certificate),
        GapEvidence::Drop(_) => Value::Drop,
    };
    let signature = cluster.sign(0, &Statement::GapDecision { view: VIEW, slot: SLOT, value });
    Message::GapDecision { view: VIEW, slot: SLOT, evidence, signature }
}

/// GAP-DROPs of these validators.
pub fn drops(cluster: &Cluster, nodes: [usize; 3]) -> GapEvidence {
    GapEvidence::Drop(cluster.votes(&nodes, &Statement::GapDrop { view: VIEW, slot: SLOT }))
}

pub fn prepare(cluster: &Cluster, node: usize, value: Value) -> Message {
    let signature = cluster.sign(node, &Statement::GapPrepare { view: VIEW, slot: SLOT, value });
    Message::GapPrepare(GapVote { view: VIEW, slot: SLOT, value, signature })
}

/// The attack of pitfall 1: a faulty leader has the packet, and GAP-DROPs of a quorum. It shows the drop to validator 3.
#[test]
fn packet_that_is_final_cannot_be_prepared_as_a_drop() {
    let mut cluster = Cluster::new(4, plain());
    // Only scripted messages of the leader arrive.
    cluster.set_rule(|_, from, _, _| if from == 0 { LOST } else { Delivery::Normal });
    let (first, second) = (cluster.stamp(b"x"), cluster.stamp(b"y"));
    cluster.arrive(&first, &[2]);
    cluster.arrive(&second, &[1, 2, 3]);
    for to in [1, 3] {
        assert!(cluster.tell(0, to, &Message::GapFind { view: VIEW, slot: SLOT }));
    }
    cluster.run_for(2 * DELAY);
    let drops_sent = |node| cluster.count(node, |message| matches!(message, Message::GapDrop { .. }));
    assert_eq!([drops_sent(1), drops_sent(3)], [1, 1]);
    let packet = certificate(&cluster, 2);
    let receive = cluster.context().value(&packet);
    let receives = decision(&cluster, GapEvidence::Receive(packet));
    let dropped = decision(&cluster, drops(&cluster, [0, 1, 3]));
    for (to, decision, value) in [(1, &receives, receive), (2, &receives, receive), (3, &dropped, Value::Drop)] {
        assert!(cluster.tell(0, to, decision));
        // With the literal rule, the leader has a second vote.
        let second_vote = prepare(&cluster, 0, value);
        cluster.tell(0, to, &second_vote);
    }
    cluster.run_for(2 * DELAY);
    let signature = cluster.sign(0, &Statement::GapCommit { view: VIEW, slot: SLOT, value: receive });
    let commit = Message::GapCommit(GapVote { view: VIEW, slot: SLOT, value: receive, signature });
    let (slot, hash) = (Slot(2), cluster.engine(2).log_hash(Slot(2)).unwrap());
    for to in [1, 2] {
        assert!(cluster.tell(0, to, &commit) && cluster.tell(0, to, &Message::Reply { view: VIEW, slot, hash }));
    }
    cluster.run_for(2 * DELAY);
    assert_eq!([cluster.slots(1)[2], cluster.slots(2)[2]], [2, 2], "the packet is final");
    // The next view begins without validator 1.
    cluster.simulation.crash(1);
    cluster.set_rule(|_, _, _, _| Delivery::Normal);
    let view = View { epoch: 0, leader: 2 };
    for (from, to) in [(2, 0), (3, 0), (0, 2), (3, 2), (0, 3), (2, 3)] {
        cluster.tell(from, to, &Message::Suspect { view });
    }
    cluster.submit(3, "after");
    cluster.run_until_delivered(&[0, 2, 3], &["after"], 20_000);
    assert!(!cluster.is_no_op(2, 1) && !cluster.is_no_op(3, 1), "pitfall 1");
    cluster.assert_equal_logs(ALL);
}

#[test]
fn forged_packet_decides_nothing() {
    let mut cluster = Cluster::new(4, plain());
    cluster.set_rule(|_, _, _, _| LOST);
    let (first, second) = (cluster.stamp(b"x"), cluster.stamp(b"y"));
    cluster.arrive(&first, &[3]);
    cluster.arrive(&second, &[0, 1, 3]);
    let real = certificate(&cluster, 3);
    let Some(Entry::Request(of_another_slot)) = cluster.engine(3).entry(Slot(2)).cloned() else { panic!("it has packet 2") };
    let forged = OrderingCertificate { payload: Bytes::from_static(b"z"), ..real.clone() };
    for (packet, count) in [(forged, 0), (of_another_slot, 0), (real, 1)] {
        assert!(cluster.tell(3, 0, &Message::GapReceive { view: VIEW, slot: SLOT, certificate: packet.clone() }));
        let decision = decision(&cluster, GapEvidence::Receive(packet));
        assert!(cluster.tell(0, 1, &decision));
        cluster.run_for(DELAY);
        let decisions = cluster.count(0, |message| matches!(message, Message::GapDecision { .. }));
        let prepares = cluster.count(1, |message| matches!(message, Message::GapPrepare(_)));
        assert_eq!([decisions, prepares], [count, count], "G6, G7");
    }
}

#[test]
fn drop_needs_the_votes_of_a_quorum() {
    let mut cluster = Cluster::new(4, plain());
    cluster.set_rule(|_, _, _, _| LOST);
    let value = Value::Drop;
    let statement = |node: usize, are_commits: bool| match node {
        _ if are_commits => Statement::GapCommit { view: VIEW, slot: SLOT, value },
        0 => Statement::GapDecision { view: VIEW, slot: SLOT, value },
        _ => Statement::GapPrepare { view: VIEW, slot: SLOT, value },
    };
    let cases: [(bool, &[usize], bool, bool); 7] = [
        (true, &[], true, false),
        (true, &[1, 2], true, false),
        (true, &[1, 1, 2], true, false),
        (true, &[1, 2, 3], false, false),
        (true, &[1, 2, 3], true, true),
        (false, &[1, 2, 3], false, false),
        (false, &[0, 2, 3], false, true),
    ];
    for (committed, nodes, are_commits, is_accepted) in cases {
        let sign = |node: &usize| (index(*node), cluster.sign(*node, &statement(*node, are_commits)));
        let votes = nodes.iter().map(sign).collect();
        let proof = DropProof { view: VIEW, slot: SLOT, committed, votes };
        let entries = vec![Entry::NoOp(proof.clone())];
        let reply = Message::QueryReply { view: VIEW, from: SLOT, entries, checkpoint: None };
        assert_eq!(cluster.tell(3, 2, &reply), is_accepted, "pitfall 20: {nodes:?}");
        let sync = Message::Sync { view: VIEW, slot: SLOT, hash: Default::default(), drops: vec![proof] };
        assert_eq!(cluster.tell(3, 2, &sync), is_accepted);
    }
}

#[test]
fn many_lost_packets_cost_one_query() {
    let mut cluster = Cluster::new(4, plain());
    for _ in 0..20 {
        let packet = cluster.stamp(b"x");
        cluster.arrive(&packet, &[0, 1, 3]);
    }
    let last = cluster.stamp(b"y");
    cluster.arrive(&last, &ALL);
    cluster.run_for(5 * DELAY);
    assert_eq!(cluster.slots(2)[0], 21);
    let queries = cluster.count(2, |message| matches!(message, Message::Query { .. }));
    let responses: usize =
        ALL.iter().map(|node| cluster.count(*node, |message| matches!(message, Message::QueryReply { .. }))).sum();
    assert_eq!((queries, responses), (1, 1), "pitfall 19");
}

/// Validator 1 is faulty: its certificate has damaged tags for validators 2 and 3, and it does not vote.
#[test]
fn decision_is_repeated_with_another_certificate() {
    let mut cluster = Cluster::new(4, plain());
    let silent =
        |message: &Message| matches!(message, Message::GapReceive { .. } | Message::GapPrepare(_) | Message::GapCommit(_));
    cluster.set_rule(move |_, from, _, message| {
        let is_query = matches!(message, Message::Query { .. });
        // The answer of validator 2 comes after the one of validator 1.
        match message {
            _ if is_query || from == 1 && silent(message) => LOST,
            Message::GapReceive { .. } => Delivery::Delayed(Micros::from_millis(4 * DELAY)),
            _ => Delivery::Normal,
        }
    });
    let (first, second) = (cluster.stamp(b"x"), cluster.stamp(b"y"));
    cluster.arrive(&first, &[1, 2]);
    let mut damaged = certificate(&cluster, 1);
    let corniche_aom_receiver::Proof::Hm { vector } = &mut damaged.proof else { panic!("a vector of tags") };
    (vector[0][16], vector[0][24]) = (vector[0][16] ^ 1, vector[0][24] ^ 1);
    cluster.arrive(&second, &ALL);
    assert!(cluster.tell(1, 0, &Message::GapReceive { view: VIEW, slot: SLOT, certificate: damaged }));
    cluster.run_for(10 * DELAY);
    assert_eq!([cluster.slots(0)[0], cluster.slots(3)[0]], [0, 0], "validator 3 cannot check the first certificate");
    cluster.run_for(3_000);
    assert!(ALL.iter().all(|node| cluster.slots(*node)[3] == 2 && cluster.view(*node) == VIEW), "G6, pitfall 6");
    cluster.assert_equal_logs(ALL);
}
