//! Frozen encodings on the wire and on disk, and digests. A change of any of these bytes changes the protocol version.

use corniche_lanes::LaneContext;
use corniche_quepaxa::{
    message::{Answer, Context, LaneBatch, Message, Proposal, RequestId, Slot, Tip, Value},
    record::Record,
    rules::{FIRST_STEP, HIGHEST, Register},
};
use corniche_quepaxa_testing::{QuePaxaSubject, committee};
use corniche_testkit::{assert_frozen, crashes::commit_digests, encodings};
use corniche_types::{B256, Bytes, TimestampMs, ValidatorIndex};

const FROZEN: &str = include_str!("fixtures/wire.hex");
const SLOT: Slot = Slot(9);
const TIME: TimestampMs = TimestampMs(1_700_000_000_000);
const RUN: TimestampMs = TimestampMs(1_600_000_000_000);
const AUTHOR: ValidatorIndex = ValidatorIndex(2);

fn batch() -> LaneBatch {
    LaneBatch { author: AUTHOR, number: 1, parent: B256::ZERO, bytes: Bytes::from_static(b"batch") }
}

fn tip() -> Tip {
    LaneContext::new(&committee(3), "corniche-quepaxa-batch").tip(&batch())
}

fn value() -> Value {
    Value { time: TIME, tips: vec![Tip::default(), Tip::default(), tip()], schedule: vec![AUTHOR, ValidatorIndex(0)] }
}

fn proposal() -> Proposal {
    Proposal { priority: HIGHEST, proposer: ValidatorIndex(1), value: value() }
}

fn drawn() -> Proposal {
    Proposal { priority: 0x0102_0304, proposer: AUTHOR, value: Value { schedule: Vec::new(), ..value() } }
}

fn messages() -> Vec<(&'static str, Message)> {
    let (request, step) = (RequestId { slot: SLOT, step: FIRST_STEP, run: RUN }, FIRST_STEP + 1);
    let answer = |highest_before| {
        let answer = Answer { step, first: proposal(), highest_before };
        Message::Answer { request, answer, time: TIME }
    };
    vec![
        ("batch", Message::Batch(batch())),
        ("fetch-batch", Message::FetchBatch { author: AUTHOR, tip: tip() }),
        ("record", Message::Record { request, proposal: proposal() }),
        ("answer", answer(Some(drawn()))),
        ("answer-first", answer(None)),
        ("decided", Message::Decided { first: Slot(1), values: vec![value()] }),
        ("progress", Message::Progress { decided: SLOT, delivered: 3, time: TIME }),
        ("ask-highest", Message::AskHighest { run: RUN }),
        ("highest", Message::Highest { run: RUN, slot: SLOT, time: TIME }),
    ]
}

fn records() -> Vec<(&'static str, Record)> {
    let mut register = Register::default();
    let empty = register.clone();
    [(FIRST_STEP, drawn()), (FIRST_STEP + 1, drawn()), (FIRST_STEP + 1, proposal())]
        .into_iter()
        .for_each(|(step, proposal)| assert!(register.record(step, proposal)));
    vec![
        ("record-started", Record::Started),
        ("record-register", Record::Register { slot: SLOT, register }),
        ("record-register-empty", Record::Register { slot: SLOT, register: empty }),
        ("record-own", Record::Own { slot: SLOT, value: value() }),
        ("record-decided", Record::Decided { slot: SLOT, value: value() }),
        ("record-batch", Record::Batch(batch())),
        ("record-silent", Record::Silent(Some(SLOT))),
        ("record-silent-everywhere", Record::Silent(None)),
    ]
}

fn digests() -> Vec<(&'static str, Vec<u8>)> {
    let messages = [Message::Decided { first: Slot(1), values: vec![value()] }, Message::Batch(batch())];
    let commit = commit_digests::<QuePaxaSubject>(messages.map(|message| message.encode()));
    let digests =
        [("digest-batch", tip().digest.to_vec()), ("digest-value", Context::new(&committee(3)).value(SLOT, &value()).to_vec())];
    digests.into_iter().chain(commit).collect()
}

/// Forces a fixture for every kind that is added later.
fn is_frozen(message: &Message, record: &Record) -> bool {
    match message {
        Message::Batch(_) | Message::FetchBatch { .. } | Message::Record { .. } | Message::Answer { .. } => {}
        Message::Decided { .. } | Message::Progress { .. } | Message::AskHighest { .. } | Message::Highest { .. } => {}
    }
    match record {
        Record::Started | Record::Register { .. } | Record::Own { .. } | Record::Decided { .. } => true,
        Record::Batch(_) | Record::Silent(_) => true,
    }
}

#[test]
fn wire_formats_are_frozen() {
    assert!(is_frozen(&Message::Batch(batch()), &Record::Started));
    let (messages, records) = (encodings(messages()), encodings(records()));
    assert_frozen(FROZEN, [messages, records, digests()].concat());
}
