//! `Config::max_message_bytes` is an upper bound, and not much above what is possible.

use corniche_aom_receiver::{ConfirmVote, Link, MAX_CHAIN, MAX_CONFIRMED, OrderingCertificate, Proof};
use corniche_engine::Verifier;
use corniche_neobft::{
    Config, NeobftVerifier,
    message::{
        CheckpointCertificate, Confirmed, Context, DropProof, Entry, GapEvidence, Message, Slot, Statement, View,
        ViewCertificate, ViewChange, Votes,
    },
};
use corniche_neobft_testing::{FakeKeys, FakeSignatures, committee};
use corniche_types::{B256, Bytes, ValidatorIndex};
use std::sync::Arc;

const VIEW: View = View { epoch: 3, leader: 0 };

fn index(member: usize) -> ValidatorIndex {
    ValidatorIndex(member as u16)
}

fn votes(size: usize) -> Votes {
    (0..size).map(|member| (index(member), [7; 64])).collect()
}

/// The largest certificate: the longest chain or vector, and all CONFIRMs.
fn packet(config: &Config, size: usize, is_signed: bool) -> OrderingCertificate {
    let link = Link { seq: 9, digest: [1; 32] };
    let proof = match is_signed {
        true => Proof::Pk { prev_seq: 1, prev_hash: [2; 32], chain: vec![link; MAX_CHAIN], signature: [3; 64] },
        false => Proof::Hm { vector: vec![[4; 64]; size.div_ceil(4)] },
    };
    let confirm =
        |member| ConfirmVote { member: index(member), from: 1, digests: vec![[5; 32]; MAX_CONFIRMED], signature: [6; 64] };
    let confirms = if config.byzantine_network { (0..size).map(confirm).collect() } else { Vec::new() };
    OrderingCertificate { epoch: 3, seq: 9, payload: Bytes::from(vec![8; config.payload_bytes as usize]), proof, confirms }
}

fn largest(config: &Config, size: usize, is_signed: bool) -> Vec<Message> {
    let drop = |slot| DropProof { view: VIEW, slot: Slot(slot), committed: true, votes: votes(size) };
    let entry = Entry::Request(packet(config, size, is_signed));
    let confirmed = Confirmed { view: VIEW, base: Slot(0), slot: Slot(0), hash: B256::ZERO };
    let checkpoint = Some(CheckpointCertificate { slot: Slot(0), hash: B256::ZERO, votes: votes(size) });
    let slots = config.max_log();
    let change = |member| ViewChange {
        sender: index(member),
        target: VIEW.next_leader(),
        certificate: Some(ViewCertificate { confirmed, votes: votes(size) }),
        checkpoint: checkpoint.clone(),
        after: Slot(0),
        after_hash: B256::ZERO,
        entries: vec![entry.clone(); slots as usize],
        prepared: (0..slots).map(drop).collect(),
        signature: [0; 64],
    };
    let (view, slot, hash) = (VIEW, Slot(1), B256::ZERO);
    let fetched = (config.fetch_bytes as usize / borsh::object_length(&entry).unwrap()).max(1);
    let evidence = GapEvidence::Receive(packet(config, size, is_signed));
    vec![
        Message::ViewChange(Box::new(change(0))),
        Message::ViewStart { view, changes: votes(size) },
        Message::QueryReply { view, from: slot, entries: vec![entry.clone(); fetched], checkpoint: checkpoint.clone() },
        Message::Sync { view, slot, hash, drops: (0..2 * config.sync_slots).map(drop).collect() },
        Message::GapDecision { view, slot, evidence, signature: [0; 64] },
        Message::Progress {
            view,
            left: Some(view),
            slot,
            hash,
            certificate: Some(ViewCertificate { confirmed, votes: votes(size) }),
            checkpoint,
            asks: true,
        },
    ]
}

#[test]
fn no_message_exceeds_the_bound() {
    for (size, byzantine_network, payload_bytes) in [(4, false, 1_232), (4, true, 1_232), (7, true, 600), (10, false, 8_800)] {
        let config = Config { byzantine_network, payload_bytes, ..Config::default() };
        let limit = config.max_message_bytes(size);
        let mut most = 0;
        for message in [true, false].into_iter().flat_map(|is_signed| largest(&config, size, is_signed)) {
            let bytes = message.encode().len();
            assert!(bytes <= limit, "{size} members: {bytes} bytes, limit {limit}");
            most = most.max(bytes);
        }
        assert!(most * 100 >= limit * 99, "{size} members: at most {most} bytes, limit {limit}");
    }
}

#[test]
fn default_messages_fit_into_a_frame() {
    const FRAME_BYTES: usize = 8 << 20;
    for (size, byzantine_network) in [(4, false), (64, false), (4, true), (10, true)] {
        let bytes = Config { byzantine_network, ..Config::default() }.max_message_bytes(size);
        assert!(bytes + 1_024 <= FRAME_BYTES, "{size} members: {bytes}");
    }
}

#[test]
fn view_change_with_a_longer_log_is_refused() {
    let config = Config { open_slots: 16, sync_slots: 8, ..Config::default() };
    let committee = committee(4);
    let context = Context::new(&committee, config.group);
    let verifier = NeobftVerifier::new(config.clone(), committee, Arc::new(FakeSignatures));
    for (slots, is_accepted) in [(config.max_log(), true), (config.max_log() + 1, false)] {
        let mut change = ViewChange {
            sender: index(2),
            target: VIEW,
            certificate: None,
            checkpoint: None,
            after: Slot(0),
            after_hash: context.genesis_hash(),
            entries: vec![Entry::Request(packet(&config, 4, false)); slots as usize],
            prepared: Vec::new(),
            signature: [0; 64],
        };
        let Statement::ViewChange(_) = context.view_change(&change) else { panic!("the statement of a VIEW-CHANGE") };
        change.signature = context.sign(&context.view_change(&change), &FakeKeys(index(2))).unwrap();
        let message = Message::ViewChange(Box::new(change)).encode();
        assert_eq!(verifier.verify(index(2), &message).is_ok(), is_accepted, "{slots} slots");
    }
}

#[test]
fn parameter_out_of_range_is_named() {
    let error = |name: &str, value| Config::from_parameters(&[(name.to_owned(), value)].into()).unwrap_err();
    assert_eq!(error("payload_bytes", 511), "neobft parameter payload_bytes: expected 512 to 8800, got 511");
    assert_eq!(error("gap_ms", 86_400_001), "neobft parameter gap_ms: expected 1 to 86400000, got 86400001");
    assert!(Config::from_parameters(&[("gap_ms".to_owned(), 86_400_000)].into()).is_ok());
}
