//! Frozen encodings on the wire, on disk and in signatures. A change of any of these bytes changes the protocol version.

use corniche_aom_receiver::{ConfirmVote, Link, OrderingCertificate, Proof};
use corniche_neobft::{
    message::{
        BodyId, CheckpointCertificate, Confirmed, Content, Context, DropProof, Entry, GapEvidence, GapVote, Message, Request,
        Slot, Statement, Value, View, ViewCertificate, ViewChange, Votes,
    },
    record::{Promises, Record},
};
use corniche_neobft_testing::committee;
use corniche_testkit::{assert_frozen, encodings};
use corniche_types::{B256, Bytes, MAX_VALIDATORS, TimestampMs, ValidatorIndex, wire};

const FROZEN: &str = include_str!("fixtures/wire.hex");
const GROUP: u32 = 7;
const VIEW: View = View { epoch: 2, leader: 5 };
const SLOT: Slot = Slot(9);
const HASH: B256 = B256::repeat_byte(8);
const SIGNATURE: [u8; 64] = [6; 64];
const TIME: TimestampMs = TimestampMs(1_700_000_000_000);
const EXPIRES: TimestampMs = TimestampMs(1_700_000_010_000);

fn votes(count: u16) -> Votes {
    (0..count).map(|member| (ValidatorIndex(member), [member as u8 + 1; 64])).collect()
}

fn body() -> BodyId {
    BodyId { author: ValidatorIndex(1), id: 11, expires: EXPIRES, digest: B256::repeat_byte(12), bytes: 13 }
}

fn inline() -> Content {
    Content::Inline { id: 10, expires: EXPIRES, batch: Bytes::from_static(b"batch") }
}

fn reference() -> Content {
    Content::Reference { body: body(), holders: votes(2) }
}

fn confirm() -> ConfirmVote {
    ConfirmVote { member: ValidatorIndex(3), from: 20, digests: vec![[21; 32]; 2], signature: SIGNATURE }
}

fn packet(proof: Proof, confirms: Vec<ConfirmVote>) -> OrderingCertificate {
    OrderingCertificate { epoch: 2, seq: 14, payload: Bytes::from_static(b"payload"), proof, confirms }
}

fn tagged() -> OrderingCertificate {
    packet(Proof::Hm { vector: vec![[15; 64]; 2] }, Vec::new())
}

fn signed() -> OrderingCertificate {
    let chain = vec![Link { seq: 16, digest: [17; 32] }];
    packet(Proof::Pk { prev_seq: 13, prev_hash: [18; 32], chain, signature: [19; 64] }, vec![confirm()])
}

fn dropped() -> DropProof {
    DropProof { view: VIEW, slot: SLOT, committed: true, votes: votes(3) }
}

fn entries() -> Vec<Entry> {
    vec![Entry::Request(tagged()), Entry::NoOp(dropped()), Entry::Request(signed())]
}

fn confirmed() -> Confirmed {
    Confirmed { view: VIEW, base: Slot(3), slot: SLOT, hash: HASH }
}

fn certificate() -> ViewCertificate {
    ViewCertificate { confirmed: confirmed(), votes: votes(3) }
}

fn checkpoint() -> CheckpointCertificate {
    CheckpointCertificate { slot: Slot(4), hash: B256::repeat_byte(22), votes: votes(3) }
}

fn received() -> Value {
    Value::Receive { epoch: 2, seq: 14, digest: B256::repeat_byte(23) }
}

fn view_change() -> ViewChange {
    ViewChange {
        sender: ValidatorIndex(2),
        target: VIEW.next_epoch(),
        certificate: Some(certificate()),
        checkpoint: Some(checkpoint()),
        after: Slot(4),
        after_hash: B256::repeat_byte(22),
        entries: entries(),
        prepared: vec![dropped()],
        signature: SIGNATURE,
    }
}

fn requests() -> Vec<(&'static str, Request)> {
    let request = |content| Request { author: ValidatorIndex(1), content, time: TIME, signature: SIGNATURE };
    vec![
        ("request-clock", request(Content::Clock)),
        ("request-inline", request(inline())),
        ("request-reference", request(reference())),
    ]
}

fn messages() -> Vec<(&'static str, Message)> {
    let (view, slot, hash, signature) = (VIEW, SLOT, HASH, SIGNATURE);
    let gap_decision = |evidence| Message::GapDecision { view, slot, evidence, signature };
    let gap_vote = |value| GapVote { view, slot, value, signature };
    let first = ViewChange { certificate: None, checkpoint: None, entries: Vec::new(), prepared: Vec::new(), ..view_change() };
    let (certificate, checkpoint) = (Some(certificate()), Some(checkpoint()));
    vec![
        ("reply", Message::Reply { view, slot, hash }),
        ("sync", Message::Sync { view, slot, hash, drops: vec![dropped()] }),
        ("query", Message::Query { from: slot }),
        ("query-reply", Message::QueryReply { view, from: slot, entries: entries(), checkpoint: checkpoint.clone() }),
        ("gap-find", Message::GapFind { view, slot }),
        ("gap-receive", Message::GapReceive { view, slot, certificate: tagged() }),
        ("gap-drop", Message::GapDrop { view, slot, signature }),
        ("gap-decision-receive", gap_decision(GapEvidence::Receive(signed()))),
        ("gap-decision-drop", gap_decision(GapEvidence::Drop(votes(3)))),
        ("gap-prepare", Message::GapPrepare(gap_vote(received()))),
        ("gap-commit", Message::GapCommit(gap_vote(Value::Drop))),
        ("suspect", Message::Suspect { view }),
        ("view-change", Message::ViewChange(Box::new(view_change()))),
        ("view-change-first", Message::ViewChange(Box::new(first))),
        ("view-start", Message::ViewStart { view, changes: votes(3) }),
        ("view-confirm", Message::ViewConfirm { confirmed: confirmed(), signature }),
        ("checkpoint", Message::Checkpoint { slot, hash, signature }),
        ("progress", Message::Progress { view, left: Some(view), slot, hash, certificate, checkpoint, asks: true }),
        (
            "progress-first",
            Message::Progress { view, left: None, slot, hash, certificate: None, checkpoint: None, asks: false },
        ),
        ("body", Message::Body { body: body(), batch: Bytes::from_static(b"batch") }),
        ("holding", Message::Holding { body: body(), signature }),
        ("fetch-body", Message::FetchBody { body: body() }),
        ("copy", Message::Copy(Bytes::from_static(b"request"))),
        ("confirm", Message::Confirm { epoch: 2, vote: confirm(), asks: true }),
    ]
}

fn records() -> Vec<(&'static str, Record)> {
    let (view, slot, before) = (VIEW, SLOT, HASH);
    let promises = Promises {
        certificate: Some(certificate()),
        target: Some(VIEW.next_leader()),
        silent_before: VIEW,
        confirms_from: 2,
        confirmed: Some(confirmed()),
        checkpoint: Some(checkpoint()),
        blocked: [SLOT].into(),
        voted: [(SLOT, received())].into(),
        prepared: [(SLOT, dropped())].into(),
    };
    let replaced = Record::Replaced {
        from: slot,
        before,
        entries: entries(),
        confirmed: Some(confirmed()),
        certificate: Some(certificate()),
    };
    vec![
        ("record-promises", Record::Promises(Box::new(promises))),
        ("record-entry", Record::Entry { slot, before, entry: Entry::Request(tagged()) }),
        ("record-blocked", Record::Blocked { view, slot }),
        ("record-voted", Record::Voted { view, slot, value: received() }),
        ("record-prepared", Record::Prepared(dropped())),
        ("record-leaving", Record::Leaving(view)),
        ("record-replaced", replaced),
        ("record-entered", Record::Entered { certificate: certificate(), end: slot }),
        ("record-checkpoint", Record::Checkpoint(checkpoint())),
        ("record-body", Record::Body { body: body(), batch: Bytes::from_static(b"batch") }),
        ("record-confirm", Record::Confirm { epoch: 2, vote: confirm() }),
    ]
}

fn digests() -> Vec<(&'static str, B256)> {
    let context = Context::new(&committee(4), GROUP);
    let (view, slot, value) = (VIEW, SLOT, received());
    let statement = |statement: Statement| context.digest(&statement);
    let request = |content| statement(context.request(ValidatorIndex(1), &content, TIME));
    let log_hash = |entry: Entry| context.log_hash(HASH, slot, &entry);
    vec![
        ("signed-request-clock", request(Content::Clock)),
        ("signed-request-inline", request(inline())),
        ("signed-request-reference", request(reference())),
        ("signed-holding", statement(Statement::Holding(body()))),
        ("signed-confirm", statement(context.confirm(2, 20, &[[21; 32]; 2]))),
        ("signed-gap-drop", statement(Statement::GapDrop { view, slot })),
        ("signed-gap-decision", statement(Statement::GapDecision { view, slot, value })),
        ("signed-gap-prepare", statement(Statement::GapPrepare { view, slot, value })),
        ("signed-gap-commit", statement(Statement::GapCommit { view, slot, value: Value::Drop })),
        ("signed-view-change", statement(context.view_change(&view_change()))),
        ("signed-view-confirm", statement(Statement::ViewConfirm(confirmed()))),
        ("signed-checkpoint", statement(Statement::Checkpoint { slot, hash: HASH })),
        ("log-hash-start", context.genesis_hash()),
        ("log-hash-tagged", log_hash(Entry::Request(tagged()))),
        ("log-hash-signed", log_hash(Entry::Request(signed()))),
        ("log-hash-no-op", log_hash(Entry::NoOp(dropped()))),
    ]
}

/// Forces a fixture for every kind that is added later.
fn is_frozen(message: &Message, record: &Record, content: &Content, statement: &Statement) -> bool {
    match message {
        Message::Reply { .. } | Message::Sync { .. } | Message::Query { .. } | Message::QueryReply { .. } => {}
        Message::GapFind { .. } | Message::GapReceive { .. } | Message::GapDrop { .. } | Message::GapDecision { .. } => {}
        Message::GapPrepare(_) | Message::GapCommit(_) | Message::Suspect { .. } | Message::ViewChange(_) => {}
        Message::ViewStart { .. } | Message::ViewConfirm { .. } | Message::Checkpoint { .. } | Message::Progress { .. } => {}
        Message::Body { .. } | Message::Holding { .. } | Message::FetchBody { .. } | Message::Copy(_) => {}
        Message::Confirm { .. } => {}
    }
    match record {
        Record::Promises(_) | Record::Entry { .. } | Record::Blocked { .. } | Record::Voted { .. } => {}
        Record::Prepared(_) | Record::Leaving(_) | Record::Replaced { .. } | Record::Entered { .. } => {}
        Record::Checkpoint(_) | Record::Body { .. } | Record::Confirm { .. } => {}
    }
    match statement {
        Statement::Request(_) | Statement::Holding(_) | Statement::Confirm { .. } | Statement::GapDrop { .. } => {}
        Statement::GapDecision { .. } | Statement::GapPrepare { .. } | Statement::GapCommit { .. } => {}
        Statement::ViewChange(_) | Statement::ViewConfirm(_) | Statement::Checkpoint { .. } => {}
    }
    matches!(content, Content::Clock | Content::Inline { .. } | Content::Reference { .. })
}

#[test]
fn wire_formats_are_frozen() {
    assert!(is_frozen(&Message::Suspect { view: VIEW }, &Record::Leaving(VIEW), &Content::Clock, &Statement::Request(HASH)));
    let digests = digests().into_iter().map(|(name, digest)| (name, digest.to_vec())).collect();
    assert_frozen(FROZEN, [encodings(requests()), encodings(messages()), encodings(records()), digests].concat());
}

/// The elements of a list may take more memory than bytes, so one that is too long is not decoded.
#[test]
fn lists_longer_than_a_committee_are_refused() {
    let lists = |count: usize| {
        let votes = vec![(ValidatorIndex(1), SIGNATURE); count];
        let drop = DropProof { votes: votes.clone(), ..dropped() };
        let (view, slot, hash) = (VIEW, SLOT, HASH);
        [
            Message::ViewStart { view, changes: votes.clone() },
            Message::Sync { view, slot, hash, drops: vec![drop] },
            Message::GapDecision { view, slot, evidence: GapEvidence::Drop(votes), signature: SIGNATURE },
        ]
    };
    for message in lists(MAX_VALIDATORS) {
        assert_eq!(wire::decode(&message.encode()).as_ref(), Ok(&message));
    }
    for message in lists(MAX_VALIDATORS + 1) {
        assert!(wire::decode::<Message>(&message.encode()).is_err());
    }
}
