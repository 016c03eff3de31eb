//! Frozen encodings on the wire and on disk, and digests. A change of any of these bytes changes the protocol version.

use corniche_baxos::{
    message::{Accepted, Answer, Context, LaneBatch, Message, Promise, RequestId, Slot, Stamp, Tip, Try, Value},
    record::Record,
    rules::Acceptor,
};
use corniche_baxos_testing::{BaxosSubject, committee};
use corniche_lanes::LaneContext;
use corniche_testkit::{assert_frozen, crashes::commit_digests, encodings};
use corniche_types::{B256, Bytes, TimestampMs, ValidatorIndex};

const FROZEN: &str = include_str!("fixtures/wire.hex");
const SLOT: Slot = Slot(9);
const TIME: TimestampMs = TimestampMs(1_700_000_000_000);
const RUN: TimestampMs = TimestampMs(1_600_000_000_000);
const AUTHOR: ValidatorIndex = ValidatorIndex(2);
const TRY: Try = Try { counter: 3, proposer: ValidatorIndex(1) };
const LATER: Try = Try { counter: 4, proposer: AUTHOR };

fn batch() -> LaneBatch {
    LaneBatch { author: AUTHOR, number: 1, parent: B256::ZERO, bytes: Bytes::from_static(b"batch") }
}

fn tip() -> Tip {
    LaneContext::new(&committee(3), "corniche-baxos-batch").tip(&batch())
}

fn value() -> Value {
    Value { proposer: ValidatorIndex(1), time: TIME, tips: vec![Tip::default(), Tip::default(), tip()] }
}

fn accepted() -> Accepted {
    Accepted { attempt: TRY, value: value() }
}

fn messages() -> Vec<(&'static str, Message)> {
    let (request, sent) = (RequestId { slot: SLOT, attempt: TRY }, TIME);
    let answer = |answer| Message::Answer { request, answer, stamp: Stamp { echo: TIME, time: RUN } };
    let propose = |next| Message::Propose { request, value: value(), next, sent };
    let status = |echo| Message::Status { decided: SLOT, delivered: 3, rtt_ms: 200, time: TIME, echo };
    let promise = Promise { attempt: LATER, accepted: Some(accepted()) };
    vec![
        ("batch", Message::Batch(batch())),
        ("fetch-batch", Message::FetchBatch { author: AUTHOR, tip: tip() }),
        ("prepare", Message::Prepare { request, sent }),
        ("propose", propose(Some(LATER))),
        ("propose-last", propose(None)),
        ("promise", answer(Answer::Promise(Some(accepted())))),
        ("promise-nothing", answer(Answer::Promise(None))),
        ("accept", answer(Answer::Accept { next: Some(promise) })),
        ("accept-last", answer(Answer::Accept { next: None })),
        ("refuse", answer(Answer::Refuse { promised: LATER })),
        ("decided", Message::Decided { first: Slot(1), values: vec![value()] }),
        ("catch-up", Message::CatchUp { after: SLOT }),
        ("status", status(None)),
        ("status-echo", status(Some(RUN))),
        ("ask-highest", Message::AskHighest { run: RUN }),
        ("highest", Message::Highest { run: RUN, slot: SLOT }),
    ]
}

fn records() -> Vec<(&'static str, Record)> {
    let acceptor = |promised, accepted| Record::Acceptor { slot: SLOT, acceptor: Acceptor { promised, accepted } };
    vec![
        ("record-started", Record::Started),
        ("record-acceptor", acceptor(Some(LATER), Some(accepted()))),
        ("record-acceptor-promised", acceptor(Some(TRY), None)),
        ("record-decided", Record::Decided { slot: SLOT, value: value() }),
        ("record-batch", Record::Batch(batch())),
        ("record-silent", Record::Silent(Some(SLOT))),
        ("record-silent-everywhere", Record::Silent(None)),
    ]
}

fn digests() -> Vec<(&'static str, Vec<u8>)> {
    let messages = [Message::Decided { first: Slot(1), values: vec![value()] }, Message::Batch(batch())];
    let commit = commit_digests::<BaxosSubject>(messages.map(|message| message.encode()));
    let digests =
        [("digest-batch", tip().digest.to_vec()), ("digest-value", Context::new(&committee(3)).value(SLOT, &value()).to_vec())];
    digests.into_iter().chain(commit).collect()
}

/// Forces a fixture for every kind that is added later.
fn is_frozen(message: &Message, answer: &Answer, record: &Record) -> bool {
    match message {
        Message::Batch(_) | Message::FetchBatch { .. } | Message::Prepare { .. } | Message::Propose { .. } => {}
        Message::Answer { .. } | Message::Decided { .. } | Message::CatchUp { .. } | Message::Status { .. } => {}
        Message::AskHighest { .. } | Message::Highest { .. } => {}
    }
    match record {
        Record::Started | Record::Acceptor { .. } | Record::Decided { .. } | Record::Batch(_) | Record::Silent(_) => {}
    }
    matches!(answer, Answer::Promise(_) | Answer::Accept { .. } | Answer::Refuse { .. })
}

#[test]
fn wire_formats_are_frozen() {
    assert!(is_frozen(&Message::Batch(batch()), &Answer::Promise(None), &Record::Started));
    let (messages, records) = (encodings(messages()), encodings(records()));
    assert_frozen(FROZEN, [messages, records, digests()].concat());
}
