//! Frozen encodings on the wire and on disk. A change of any of these bytes changes the protocol version.

use crate::crypto::{committee, sign};
use corniche_mahi_mahi::{
    message::{BlockRef, CoinHelp, Content, Context, Fetch, Found, Hello, Message, Round, SignedBlock, Welcome},
    rules::Slot,
    state::Checkpoint,
};
use corniche_testkit::assert_frozen;
use corniche_types::{B256, Bytes, CommitIndex, TimestampMs, ValidatorIndex, wire};

const FROZEN: &str = include_str!("../fixtures/wire.hex");

fn reference(round: u64, author: u16) -> BlockRef {
    BlockRef { round: Round(round), author: ValidatorIndex(author), digest: B256::with_last_byte(9) }
}

fn block() -> SignedBlock {
    let context = Context::new(&committee(4));
    let content = Content {
        author: ValidatorIndex(1),
        round: Round(1),
        timestamp: TimestampMs(1_700_000_000_000),
        parents: [1, 0, 2].map(|author| context.genesis(ValidatorIndex(author))).to_vec(),
        coin_shares: vec![[5; 48]],
        batch: Bytes::from_static(b"batch"),
    };
    let signature = sign(ValidatorIndex(1), &context.digest(&content));
    SignedBlock { content, signature }
}

fn samples() -> Vec<(&'static str, Vec<u8>)> {
    let context = Context::new(&committee(4));
    let message = |message: Message| message.encode().to_vec();
    let checkpoint = Checkpoint {
        index: CommitIndex(7),
        next: Slot { round: Round(12), rank: 1 },
        floor: Round(3),
        time: TimestampMs(1_700_000_000_000),
        delivered: vec![Bytes::from_static(&[0xf0, 1]), Bytes::new()],
    };
    let (value, share) = ([6; 48], [7; 48]);
    vec![
        ("record", wire::encode(&block())),
        ("block", message(Message::Block(block()))),
        ("hello", message(Message::Hello(Hello { nonce: 1, after: Round(2), own: Round(3), coins: vec![Round(4)] }))),
        ("welcome", message(Message::Welcome(Welcome { nonce: 1, latest: None, named: Some(reference(2, 3)) }))),
        ("fetch", message(Message::Fetch(Fetch { wanted: vec![reference(2, 3)], above: Round(1) }))),
        ("found", message(Message::Found(Found { blocks: vec![block()], missing: vec![reference(2, 3)] }))),
        ("coins", message(Message::Coins(CoinHelp::new(vec![(Round(1), value)], vec![(Round(2), vec![share])])))),
        ("checkpoint", wire::encode(&checkpoint)),
        ("block-digest", context.digest(&block().content).to_vec()),
        ("coin-message", context.coin_message(Round(9))),
        ("genesis-block-digest", context.genesis(ValidatorIndex(3)).digest.to_vec()),
    ]
}

#[test]
fn messages_records_and_checkpoints_keep_their_bytes() {
    assert_frozen(FROZEN, samples());
}
