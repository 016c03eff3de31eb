//! REPLYs that count, and those that do not (C2, N1).

use crate::cluster::{Cluster, LOST, index, plain, progress};
use corniche_neobft::message::{Confirmed, DropProof, Message, Slot, Statement, Value, View};
use corniche_types::B256;

const VIEW: View = View { epoch: 0, leader: 0 };
const NEXT: View = View { epoch: 0, leader: 1 };

/// Validator 2 has packets 1 to `count`. Only scripted messages arrive.
fn alone(count: usize) -> Cluster {
    let mut cluster = Cluster::new(4, plain());
    cluster.set_rule(|_, _, _, _| LOST);
    for _ in 0..count {
        let packet = cluster.stamp(b"x");
        cluster.arrive(&packet, &[2]);
    }
    cluster.run_for(1);
    cluster
}

/// Validator 2 gets a REPLY. Returns its last final slot.
fn reply(cluster: &mut Cluster, from: usize, view: View, slot: u64, hash: B256) -> u64 {
    assert!(cluster.tell(from, 2, &Message::Reply { view, slot: Slot(slot), hash }));
    cluster.slots(2)[2]
}

fn hash(cluster: &Cluster, slot: u64) -> B256 {
    cluster.engine(2).log_hash(Slot(slot)).unwrap()
}

/// Validator 2 enters the next view with its own log.
fn enter_next_view(cluster: &mut Cluster, slot: u64) {
    let confirmed = Confirmed { view: NEXT, base: Slot(0), slot: Slot(slot), hash: hash(cluster, slot) };
    let certificate = cluster.view_certificate(&[0, 1, 3], confirmed);
    assert!(cluster.tell(1, 2, &progress(NEXT, Some(NEXT), Some(certificate))));
    cluster.run_for(1);
    assert_eq!(cluster.view(2), NEXT);
}

#[test]
fn replies_with_another_log_hash_do_not_count() {
    let mut cluster = alone(1);
    let wrong = B256::with_last_byte(1);
    let right = hash(&cluster, 1);
    assert_eq!([0, 1].map(|from| reply(&mut cluster, from, VIEW, 1, wrong)), [0, 0]);
    assert_eq!(reply(&mut cluster, 3, VIEW, 1, right), 0, "two of four");
    // For a slot that the log has not reached.
    assert_eq!([0, 1].map(|from| reply(&mut cluster, from, VIEW, 2, wrong)), [0, 0]);
    let packet = cluster.stamp(b"y");
    cluster.arrive(&packet, &[2]);
    cluster.run_for(1);
    assert_eq!(cluster.slots(2)[2], 0);
    assert_eq!(reply(&mut cluster, 0, VIEW, 1, right), 1);
}

#[test]
fn replies_of_another_view_do_not_count() {
    let mut cluster = alone(2);
    let [first, second] = [1, 2].map(|slot| hash(&cluster, slot));
    assert_eq!(reply(&mut cluster, 0, VIEW, 1, first), 0);
    enter_next_view(&mut cluster, 2);
    assert_eq!([0, 1, 3].map(|from| reply(&mut cluster, from, VIEW, 2, second)), [0; 3], "late");
    assert_eq!(reply(&mut cluster, 1, NEXT, 1, first), 0, "the REPLY of validator 0 was for the view before");
    assert_eq!(reply(&mut cluster, 3, NEXT, 1, first), 1);
}

#[test]
fn replies_for_a_log_that_is_rolled_back_do_not_count() {
    let mut cluster = alone(2);
    let old = hash(&cluster, 2);
    assert_eq!(reply(&mut cluster, 0, VIEW, 2, old), 0);
    let drops = vec![cluster.drop_proof(&[0, 1, 3], VIEW, Slot(1))];
    assert!(cluster.tell(1, 2, &Message::Sync { view: VIEW, slot: Slot(0), hash: B256::ZERO, drops }));
    cluster.run_for(1);
    assert!(cluster.is_no_op(2, 1));
    let new = hash(&cluster, 2);
    assert_eq!(reply(&mut cluster, 1, VIEW, 2, new), 0, "G9: validator 0 had another log");
    assert_eq!(reply(&mut cluster, 3, VIEW, 2, new), 2);
}

/// F: a replica stops instead of taking back what it delivered.
#[test]
fn final_slot_is_never_taken_back() {
    let mut cluster = alone(2);
    let second = hash(&cluster, 2);
    assert_eq!([0, 1].map(|from| reply(&mut cluster, from, VIEW, 2, second)), [0, 2]);
    // More members than F are faulty.
    let drops = vec![cluster.drop_proof(&[0, 1, 3], VIEW, Slot(1))];
    assert!(cluster.tell(1, 2, &Message::Sync { view: VIEW, slot: Slot(0), hash: B256::ZERO, drops }));
    cluster.run_for(1);
    assert!(!cluster.is_no_op(2, 1));
    assert_eq!(hash(&cluster, 2), second);
}

#[test]
fn only_gap_certificates_of_the_view_drop_a_packet() {
    let mut cluster = alone(1);
    enter_next_view(&mut cluster, 0);
    assert_eq!(cluster.slots(2)[0], 1);
    let (slot, value) = (Slot(1), Value::Drop);
    for (view, committed, is_dropped) in [(VIEW, true, false), (NEXT, false, false), (NEXT, true, true)] {
        let statement = |node| match node {
            _ if committed => Statement::GapCommit { view, slot, value },
            1 => Statement::GapDecision { view, slot, value },
            _ => Statement::GapPrepare { view, slot, value },
        };
        let votes = [0, 1, 3].map(|node| (index(node), cluster.sign(node, &statement(node)))).into();
        let drops = vec![DropProof { view, slot, committed, votes }];
        assert!(cluster.tell(1, 2, &Message::Sync { view: NEXT, slot: Slot(0), hash: B256::ZERO, drops }));
        assert_eq!(cluster.is_no_op(2, 1), is_dropped, "S2: {view}, committed {committed}");
    }
}
