//! A lagging validator follows blocks that f + 1 others executed, and no others; they never count as
//! certified.

use crate::common::{Node, bls_key, genesis, large, transfer};
use corniche_certify::Share;
use corniche_pipeline::{AHEAD_OF_CERTIFICATION, Input, NodeKey, PeerMessage, Request, Response};
use corniche_types::{B256, Bytes, Certificate, Epoch, Genesis, Height, U256, ValidatorIndex, wire};

const PATIENCE_MS: u64 = 1_000;

/// Validator 0 of four executed these blocks, which are not certified; validator 1 executed none.
fn apart(blocks: u64) -> (Node, Node) {
    apart_of(&genesis(4), blocks)
}

fn apart_of(genesis: &Genesis, blocks: u64) -> (Node, Node) {
    let (mut ahead, behind) = (Node::new(10, genesis, Some(0)), Node::new(11, genesis, Some(1)));
    (0..blocks).for_each(|nonce| ahead.submit(transfer(nonce)));
    assert_eq!(ahead.disk.blocks.len() as u64, blocks.min(AHEAD_OF_CERTIFICATION));
    (ahead, behind)
}

fn key(validator: u16) -> NodeKey {
    [10 + validator as u8; 32]
}

fn meet(node: &mut Node, validator: u16) {
    node.handle(Input::PeerUp { peer: key(validator), validator: Some(ValidatorIndex(validator)) });
}

fn hash(chain: &Node, height: u64) -> B256 {
    chain.disk.blocks[height as usize - 1].block.hash()
}

/// Valid share of one of four validators for a block of the node's chain.
fn share(chain: &Node, height: u64, validator: u16) -> Bytes {
    share_on(&genesis(4), hash(chain, height), height, validator)
}

fn share_on(genesis: &Genesis, header_hash: B256, height: u64, validator: u16) -> Bytes {
    let (chain_id, committee, model) = (genesis.chain_id, genesis.committee_hash(), genesis.fault_model());
    let (epoch, height) = (Epoch(0), Height(height));
    let signed = Certificate::signed_bytes(chain_id, epoch, committee, height, header_hash, model);
    let signature = bls_key(usize::from(validator)).sign(&signed).to_bytes();
    Share { epoch, height, header_hash, signature }.encode()
}

fn give(node: &mut Node, validator: u16, bytes: Bytes) {
    node.handle(Input::CertificateShare { from: ValidatorIndex(validator), epoch: Epoch(0), bytes });
}

/// Request of a node after its timeout.
fn asks(node: &mut Node) -> Option<(NodeKey, Request)> {
    node.wait(PATIENCE_MS - 1);
    assert_eq!(node.requests, [], "its engine may still bring it");
    node.wait(1);
    node.requests.pop()
}

fn executed(through: u64) -> Request {
    Request::Executed { from: Height(1), through: Height(through), offset: 0 }
}

fn certificates_sent(node: &Node) -> usize {
    node.sent.iter().filter(|(_, message)| matches!(message, PeerMessage::Certificate(_))).count()
}

#[test]
fn weakly_certified_blocks_are_followed() {
    let (ahead, mut behind) = apart(80);
    [0, 2].into_iter().for_each(|validator| meet(&mut behind, validator));
    [0, 2].into_iter().for_each(|validator| give(&mut behind, validator, share(&ahead, 64, validator)));
    let (to, request) = asks(&mut behind).expect("it follows");
    assert!((to == key(0) || to == key(2)) && request == executed(64));
    behind.handle(Input::Response { from: to, response: Some(ahead.answer(request)) });
    assert_eq!(behind.hashes(), ahead.hashes());
    let signed: Vec<_> =
        behind.sent.iter().filter(|(_, message)| matches!(message, PeerMessage::CertificateShare(_))).collect();
    assert_eq!(signed.len(), 2 * 64, "it executed them, so it signs them");
    // Two shares and its own are a quorum, but only for the last block.
    assert_eq!(behind.disk.certificates.keys().collect::<Vec<_>>(), [&Height(64)]);
    assert_eq!(behind.penalties, []);
}

/// A sender's index belongs to the committee that was running when its message came.
#[test]
fn shares_from_another_epoch_do_not_count() {
    let (ahead, mut behind) = apart(80);
    for validator in [0, 2] {
        meet(&mut behind, validator);
        let (from, bytes) = (ValidatorIndex(validator), share(&ahead, 64, validator));
        behind.handle(Input::CertificateShare { from, epoch: Epoch(1), bytes });
    }
    assert_eq!(asks(&mut behind), None);
}

#[test]
fn certification_needs_a_quorum() {
    let (ahead, mut behind) = apart(80);
    meet(&mut behind, 0);
    meet(&mut behind, 2);
    behind.slow_processor = true;
    [0, 2].into_iter().for_each(|validator| give(&mut behind, validator, share(&ahead, 64, validator)));
    let (to, request) = asks(&mut behind).expect("it follows");
    behind.handle(Input::Response { from: to, response: Some(ahead.answer(request)) });
    assert_eq!(behind.waiting_plans.len(), 64);
    let nothing_is_certified = |node: &Node| {
        assert_eq!((node.pipeline.certified_height(), node.pipeline.target()), (Height(0), Height(0)));
        assert!(node.disk.certificates.is_empty() && certificates_sent(node) == 0);
    };
    nothing_is_certified(&behind);
    // Executed, but not durable: its own share is still missing.
    behind.slow_disk = true;
    behind.finish_plans();
    behind.wait(5_000);
    nothing_is_certified(&behind);
    behind.finish_appends();
    assert_eq!(behind.pipeline.certified_height(), Height(64));
}

/// With seven validators f is 2 and a quorum is 5: weak certificates of three, with the follower's own share,
/// are too few.
#[test]
fn followed_block_waits_for_quorum() {
    let genesis = genesis(7);
    let (ahead, mut behind) = apart_of(&genesis, 80);
    let sign = |height, validator| share_on(&genesis, hash(&ahead, height), height, validator);
    for validator in [0, 2, 3] {
        assert_eq!(behind.requests, []);
        meet(&mut behind, validator);
        give(&mut behind, validator, sign(64, validator));
        behind.wait(PATIENCE_MS);
    }
    let (to, request) = behind.requests.pop().expect("three of seven vouch for it");
    behind.handle(Input::Response { from: to, response: Some(ahead.answer(request)) });
    assert_eq!(behind.hashes(), ahead.hashes());
    behind.wait(10_000);
    assert_eq!(behind.pipeline.certified_height(), Height(0));
    assert!(behind.disk.certificates.is_empty() && certificates_sent(&behind) == 0);
    // Like all others, it executes no further without a certificate.
    (80..90).for_each(|nonce| behind.submit(transfer(nonce)));
    assert_eq!(behind.disk.blocks.len() as u64, AHEAD_OF_CERTIFICATION);
    give(&mut behind, 4, sign(64, 4));
    assert_eq!(behind.pipeline.certified_height(), Height(64));
}

#[test]
fn too_few_shares_are_not_followed() {
    let (ahead, _) = apart(3);
    let forged = |validator| {
        let share = Share::decode(&share(&ahead, 3, validator)).unwrap();
        Share { signature: [0xc0; 48], ..share }.encode()
    };
    let cases: [[Bytes; 2]; 4] = [
        [share(&ahead, 3, 0), share(&ahead, 2, 2)],
        [share(&ahead, 3, 0), share_on(&genesis(4), B256::repeat_byte(7), 3, 2)],
        [share(&ahead, 3, 0), forged(2)],
        [share(&ahead, 3, 0), share(&ahead, 3, 3)],
    ];
    for shares in cases {
        let (_, mut behind) = apart(0);
        [0, 2].into_iter().for_each(|validator| meet(&mut behind, validator));
        for (validator, bytes) in [0, 2].into_iter().zip(shares) {
            give(&mut behind, validator, bytes.clone());
            // Two shares by one validator count as one.
            give(&mut behind, validator, bytes);
        }
        behind.wait(10 * PATIENCE_MS);
        assert_eq!((behind.requests.len(), behind.executed_plans), (0, 0));
        assert!(!behind.traces.iter().any(|name| name == "following"));
    }
}

#[test]
fn full_node_follows_certificates_only() {
    let genesis = genesis(4);
    let (ahead, _) = apart(3);
    let mut full = Node::new(11, &genesis, None);
    [0, 2].into_iter().for_each(|validator| meet(&mut full, validator));
    [0, 2].into_iter().for_each(|validator| give(&mut full, validator, share(&ahead, 3, validator)));
    full.wait(10 * PATIENCE_MS);
    assert_eq!(full.requests, []);
    // It does not use blocks without a certificate, and ignores responses that it did not request.
    full.handle(Input::Response { from: key(0), response: Some(ahead.answer(executed(3))) });
    assert_eq!((full.executed_plans, full.penalties.len()), (0, 0));
}

#[test]
fn unsigned_chain_is_penalised() {
    let (ahead, mut behind) = apart(3);
    let mut other = Node::new(12, &genesis(4), Some(2));
    (0..3).for_each(|nonce| other.submit(crate::common::transfer_from(&crate::common::user_number(1), nonce, 10)));
    [0, 2].into_iter().for_each(|validator| meet(&mut behind, validator));
    [0, 2].into_iter().for_each(|validator| give(&mut behind, validator, share(&ahead, 3, validator)));
    let (to, request) = asks(&mut behind).expect("it follows");
    let mut truncated = ahead.answer(request);
    truncated.blocks.pop();
    behind.handle(Input::Response { from: to, response: Some(truncated) });
    assert_eq!((behind.penalties.len(), behind.executed_plans), (0, 0), "as the answer to an earlier request might be");
    behind.wait(500);
    let (to, request) = behind.requests.pop().expect("another is asked");
    behind.handle(Input::Response { from: to, response: Some(other.answer(request)) });
    assert_eq!((behind.penalties.len(), behind.executed_plans), (1, 0));
    behind.wait(5_000);
    let (to, request) = behind.requests.pop().expect("the first is asked again");
    behind.handle(Input::Response { from: to, response: Some(ahead.answer(request)) });
    assert_eq!(behind.hashes(), ahead.hashes());
}

/// An honest validator signed another result, so this node's is wrong.
#[test]
fn diverging_result_halts() {
    let genesis = genesis(4);
    let mut wrong = genesis.clone();
    wrong.accounts.values_mut().for_each(|account| account.balance += U256::from(1));
    let (ahead, _) = apart(3);
    let mut broken = Node::with_state_of(11, &genesis, &wrong, Some(1));
    [0, 2].into_iter().for_each(|validator| meet(&mut broken, validator));
    [0, 2].into_iter().for_each(|validator| give(&mut broken, validator, share(&ahead, 3, validator)));
    let (to, request) = asks(&mut broken).expect("it follows");
    broken.handle(Input::Response { from: to, response: Some(ahead.answer(request)) });
    let reason = broken.halted.clone().expect("the node halts").reason;
    assert!(reason.contains("divergence at height 1: 2 validators signed"), "{reason}");
    assert!(broken.disk.blocks.is_empty() && broken.disk.certificates.is_empty());
}

/// The signers disconnect before they respond: the node orders again instead of waiting for them.
#[test]
fn engine_is_retried_without_signer() {
    let (ahead, mut behind) = apart(3);
    [0, 2].into_iter().for_each(|validator| meet(&mut behind, validator));
    [0, 2].into_iter().for_each(|validator| give(&mut behind, validator, share(&ahead, 3, validator)));
    asks(&mut behind).expect("it follows");
    [0, 2].into_iter().for_each(|validator| behind.handle(Input::PeerDown { peer: key(validator) }));
    assert!(behind.traces.iter().any(|name| name == "rejoined"));
}

#[test]
fn bounded_response_ends_at_requested_block() {
    let (ahead, _) = apart(10);
    let request = |from, through, offset| Request::Executed { from: Height(from), through: Height(through), offset };
    let whole = ahead.answer(request(3, 7, 0));
    let heights: Vec<u64> = whole.blocks.iter().map(|followed| followed.block.height().0).collect();
    assert_eq!((heights, whole.headers.len(), whole.certificate), ((3..=7).collect(), 0, None));
    for nothing in
        [request(3, 11, 0), request(0, 3, 0), request(7, 3, 0), request(1, u64::MAX, 0), request(u64::MAX, u64::MAX, 0)]
    {
        let response = ahead.answer(nothing);
        assert!(response.blocks.is_empty() && response.headers.is_empty() && response.part.is_none(), "{nothing:?}");
    }
    assert_eq!(ahead.answer(request(1, 3, 1 << 40)), Response::default());
    assert_eq!(wire::decode::<Request>(&wire::encode(&request(1, 2, 3))), Ok(request(1, 2, 3)));
}

/// Maximum range with large blocks: blocks that do not fit are replaced by their headers.
#[test]
fn remaining_blocks_come_with_next_request() {
    let (mut ahead, mut behind) = apart(0);
    for _ in 0..12 {
        ahead.script.lock().unwrap().push_back(vec![large(0, 100 << 10); 10]);
        ahead.wait(1);
    }
    let last = ahead.disk.blocks.len() as u64;
    [0, 2].into_iter().for_each(|validator| meet(&mut behind, validator));
    [0, 2].into_iter().for_each(|validator| give(&mut behind, validator, share(&ahead, last, validator)));
    let mut next = asks(&mut behind);
    let mut requests = 0;
    while let Some((to, request)) = next {
        let response = ahead.answer(request);
        assert!(wire::encode(&response).len() <= (4 << 20) + (1 << 18));
        behind.handle(Input::Response { from: to, response: Some(response) });
        requests += 1;
        next = behind.requests.pop();
    }
    assert!(requests > 2, "{requests}");
    assert_eq!(behind.hashes(), ahead.hashes());
}
