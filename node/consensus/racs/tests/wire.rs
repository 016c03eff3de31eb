//! Frozen encodings on the wire and on disk, and digests. A change of any of these bytes changes the protocol version.

use corniche_lanes::LaneContext;
use corniche_racs::{
    message::{Block, BlockId, Context, LaneBatch, Message, Rank, Round, Tip, Value, View},
    record::Record,
    rules::{Coin, Link, State},
};
use corniche_racs_testing::{RacsSubject, committee};
use corniche_testkit::{assert_frozen, crashes::commit_digests, encodings};
use corniche_types::{B256, Bytes, TimestampMs, ValidatorIndex};

const FROZEN: &str = include_str!("fixtures/wire.hex");
const VIEW: View = View(5);
const ROUND: Round = Round(9);
const TIME: TimestampMs = TimestampMs(1_700_000_000_000);
const RUN: TimestampMs = TimestampMs(1_600_000_000_000);
const AUTHOR: ValidatorIndex = ValidatorIndex(2);

fn batch() -> LaneBatch {
    LaneBatch { author: AUTHOR, number: 1, parent: B256::ZERO, bytes: Bytes::from_static(b"batch") }
}

fn tip() -> Tip {
    LaneContext::new(&committee(3), "corniche-racs-batch").tip(&batch())
}

fn on(parent: BlockId, view: View, level: u8) -> Block {
    let rank = Rank { view, level, round: parent.rank.round.next() };
    let value = Value { time: TIME, tips: vec![Tip::default(), Tip::default(), tip()] };
    Block { rank, proposer: ValidatorIndex(view.0 as u16 % 3), parent, value }
}

fn id(block: &Block) -> BlockId {
    Context::new(&committee(3)).id(block)
}

fn first() -> Block {
    on(BlockId::default(), View(0), 0)
}

/// A leader's block, and those of the fallback on it.
fn blocks() -> [Block; 3] {
    let rank = Rank { view: View(4), level: 2, round: ROUND };
    let parent = BlockId { rank, proposer: ValidatorIndex(1), digest: B256::repeat_byte(8) };
    let block = on(parent, VIEW, 0);
    let level1 = on(id(&block), VIEW, 1);
    let level2 = on(id(&level1), VIEW, 2);
    [block, level1, level2]
}

fn messages() -> Vec<(&'static str, Message)> {
    let [block, level1, level2] = blocks();
    let (high, commit, view) = (id(&block), block.parent, VIEW);
    vec![
        ("batch", Message::Batch(batch())),
        ("fetch-batch", Message::FetchBatch { author: AUTHOR, tip: tip() }),
        ("batch-vote", Message::BatchVote { tip: tip() }),
        ("completed", Message::Completed { tip: tip() }),
        ("propose", Message::Propose { block: block.clone(), commit }),
        ("vote", Message::Vote { block: high, time: TIME }),
        ("commit", Message::Commit { block: high }),
        ("timeout", Message::Timeout { view, high }),
        ("propose-async-1", Message::ProposeAsync { block: level1.clone(), parent: None }),
        ("propose-async-2", Message::ProposeAsync { block: level2.clone(), parent: Some(level1.clone()) }),
        ("vote-async", Message::VoteAsync { block: id(&level1) }),
        ("complete", Message::Complete { block: id(&level2) }),
        ("new-view", Message::NewView { view: view.next(), high: id(&level2) }),
        ("ahead", Message::Ahead { view: view.next(), high: id(&level2) }),
        ("fetch-blocks", Message::FetchBlocks { block: high, above: Round(3) }),
        ("blocks", Message::Blocks(vec![block, level1])),
        ("progress", Message::Progress { round: ROUND, view, delivered: 3, time: TIME }),
        ("decided", Message::Decided(vec![first()])),
        ("ask-view", Message::AskView { run: RUN }),
        ("in-view", Message::InView { run: RUN, view, round: Some(ROUND), time: TIME }),
        ("leave", Message::Leave { through: view }),
    ]
}

fn records() -> Vec<(&'static str, Record)> {
    let [block, level1, level2] = blocks();
    let link = |block: &Block| Some(Link { id: id(block), parent: block.parent });
    let in_fallback = State {
        view: VIEW,
        is_async: true,
        timed_out: Some(VIEW),
        open: None,
        high: id(&block),
        fallback: [(AUTHOR, id(&level2))].into(),
        level1: link(&level1),
        level2: link(&level2),
    };
    let leading = State {
        view: VIEW,
        is_async: false,
        timed_out: None,
        open: Some(ROUND),
        high: block.parent,
        fallback: [].into(),
        level1: None,
        level2: None,
    };
    vec![
        ("record-started", Record::Started),
        ("record-state", Record::State(Box::new(leading))),
        ("record-state-fallback", Record::State(Box::new(in_fallback))),
        ("record-block", Record::Block(block.clone())),
        ("record-commit", Record::Commit(id(&block))),
        ("record-batch", Record::Batch(batch())),
        ("record-silent", Record::Silent(Some(VIEW))),
        ("record-silent-everywhere", Record::Silent(None)),
    ]
}

fn digests() -> Vec<(&'static str, Vec<u8>)> {
    let messages = [Message::Decided(vec![first()]), Message::Batch(batch())];
    let commit = commit_digests::<RacsSubject>(messages.map(|message| message.encode()));
    let coin = Coin::new(&committee(3), B256::repeat_byte(7));
    let digests = [
        ("digest-batch", tip().digest.to_vec()),
        ("digest-block", id(&first()).digest.to_vec()),
        ("coin", (0..16).map(|view| coin.elect(View(view)).0 as u8).collect()),
    ];
    digests.into_iter().chain(commit).collect()
}

/// Forces a fixture for every kind that is added later.
fn is_frozen(message: &Message, record: &Record) -> bool {
    match message {
        Message::Batch(_) | Message::FetchBatch { .. } | Message::BatchVote { .. } | Message::Completed { .. } => {}
        Message::Propose { .. } | Message::Vote { .. } | Message::Commit { .. } | Message::Timeout { .. } => {}
        Message::ProposeAsync { .. } | Message::VoteAsync { .. } | Message::Complete { .. } | Message::NewView { .. } => {}
        Message::Ahead { .. } | Message::FetchBlocks { .. } | Message::Blocks(_) | Message::Progress { .. } => {}
        Message::Decided(_) | Message::AskView { .. } | Message::InView { .. } | Message::Leave { .. } => {}
    }
    match record {
        Record::Started | Record::State(_) | Record::Block(_) | Record::Commit(_) => true,
        Record::Batch(_) | Record::Silent(_) => true,
    }
}

#[test]
fn wire_formats_are_frozen() {
    assert!(is_frozen(&Message::Batch(batch()), &Record::Started));
    let (messages, records) = (encodings(messages()), encodings(records()));
    assert_frozen(FROZEN, [messages, records, digests()].concat());
}
