//! Everything that a signature or a log-hash covers (pitfall 8).

use crate::cluster::index;
use corniche_aom_receiver::{OrderingCertificate, Proof};
use corniche_neobft::message::{
    BodyId, Confirmed, Content, Context, DropProof, Entry, Slot, Statement, Value, View, ViewChange,
};
use corniche_neobft_testing::committee;
use corniche_types::{B256, Bytes, TimestampMs};
use std::collections::BTreeSet;

const VIEWS: [View; 3] = [View { epoch: 0, leader: 0 }, View { epoch: 0, leader: 1 }, View { epoch: 1, leader: 0 }];
const HASHES: [B256; 2] = [B256::ZERO, B256::with_last_byte(1)];

fn values() -> Vec<Value> {
    let receive = |epoch, seq, digest| Value::Receive { epoch, seq, digest };
    let [one, other] = HASHES;
    vec![Value::Drop, receive(0, 1, one), receive(1, 1, one), receive(0, 2, one), receive(0, 1, other)]
}

fn bodies() -> Vec<BodyId> {
    let of = |author, id, expires, batch: &[u8]| BodyId::of(index(author), id, TimestampMs(expires), batch);
    vec![of(0, 1, 9, b"a"), of(1, 1, 9, b"a"), of(0, 2, 9, b"a"), of(0, 1, 8, b"a"), of(0, 1, 9, b"b")]
}

fn statements(context: &Context) -> Vec<Statement> {
    let mut all: Vec<Statement> = bodies().into_iter().map(Statement::Holding).collect();
    for (epoch, from, digests) in [(0, 1, [[0; 32]]), (1, 1, [[0; 32]]), (0, 2, [[0; 32]]), (0, 1, [[1; 32]])] {
        all.push(context.confirm(epoch, from, &digests));
    }
    for slot in [Slot(1), Slot(2)] {
        for view in VIEWS {
            all.push(Statement::GapDrop { view, slot });
            for value in values() {
                all.push(Statement::GapDecision { view, slot, value });
                all.push(Statement::GapPrepare { view, slot, value });
                all.push(Statement::GapCommit { view, slot, value });
            }
            for (base, hash) in [(Slot(0), HASHES[0]), (Slot(1), HASHES[0]), (Slot(0), HASHES[1])] {
                all.push(Statement::ViewConfirm(Confirmed { view, base, slot, hash }));
            }
        }
        all.extend(HASHES.map(|hash| Statement::Checkpoint { slot, hash }));
    }
    for (author, time) in [(0, 1), (1, 1), (0, 2)] {
        all.push(context.request(index(author), &Content::Clock, TimestampMs(time)));
        let inline = Content::Inline { id: 1, expires: TimestampMs(9), batch: Bytes::from_static(b"a") };
        all.push(context.request(index(author), &inline, TimestampMs(time)));
    }
    for (sender, target) in [(0, VIEWS[1]), (1, VIEWS[1]), (0, VIEWS[2])] {
        let change = ViewChange {
            sender: index(sender),
            target,
            certificate: None,
            checkpoint: None,
            after: Slot(0),
            after_hash: B256::ZERO,
            entries: Vec::new(),
            prepared: Vec::new(),
            signature: [0; 64],
        };
        let proof = DropProof { view: VIEWS[0], slot: Slot(1), committed: false, votes: Vec::new() };
        all.push(context.view_change(&ViewChange { prepared: vec![proof.clone()], ..change.clone() }));
        all.push(context.view_change(&ViewChange { entries: vec![Entry::NoOp(proof)], ..change.clone() }));
        all.push(context.view_change(&change));
    }
    all
}

#[test]
fn no_two_statements_have_one_digest() {
    let committee = committee(4);
    let mut digests = BTreeSet::new();
    for group in [1, 2] {
        let context = Context::new(&committee, group);
        for statement in statements(&context) {
            assert!(digests.insert(context.digest(&statement)), "group {group}: {statement:?}");
        }
    }
}

#[test]
fn log_hash_covers_the_log_before_slot_epoch_number_and_digest() {
    let context = Context::new(&committee(4), 1);
    let packet = |epoch, seq, payload: &'static [u8]| {
        let (payload, proof) = (Bytes::from_static(payload), Proof::Hm { vector: Vec::new() });
        Entry::Request(OrderingCertificate { epoch, seq, payload, proof, confirms: Vec::new() })
    };
    let drop = Entry::NoOp(DropProof { view: VIEWS[0], slot: Slot(1), committed: true, votes: Vec::new() });
    let entries = [drop, packet(0, 1, b"a"), packet(1, 1, b"a"), packet(0, 2, b"a"), packet(0, 1, b"b")];
    let mut hashes = BTreeSet::new();
    for before in HASHES {
        for slot in [Slot(1), Slot(2)] {
            assert!(entries.iter().all(|entry| hashes.insert(context.log_hash(before, slot, entry))));
        }
    }
}
