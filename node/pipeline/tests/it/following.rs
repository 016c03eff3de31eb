//! A full node follows a validator, forwards its users' transactions, refuses invalid data, and halts on
//! divergence.

use crate::common::{Node, exchange, first_rules, genesis, transfer};
use corniche_pipeline::{BlockSource, FollowedBlock, Input, NodeKey, Part, PeerMessage, Request, Response};
use corniche_types::{B256, Bytes, EncodedHeader, Genesis, Height, TimestampMs, U256, ValidatorIndex, wire};

fn pair() -> (Node, Node) {
    pair_of(&genesis(1))
}

fn pair_of(genesis: &Genesis) -> (Node, Node) {
    let mut validator = Node::new(1, genesis, Some(0));
    let mut full = Node::new(2, genesis, None);
    validator.connect(&full, None);
    full.connect(&validator, Some(0));
    (validator, full)
}

#[test]
fn full_node_forwards_transactions() {
    let (mut validator, mut full) = pair();
    for nonce in 0..5 {
        full.submit(transfer(nonce));
    }
    // The first is sent at once, the others together 5 ms later.
    full.wait(5);
    exchange(&mut validator, &mut full);
    full.wait(1);
    exchange(&mut validator, &mut full);
    assert_eq!(validator.disk.blocks.iter().map(|block| block.receipts.len()).sum::<usize>(), 5);
    assert_eq!(full.hashes(), validator.hashes());
    assert_eq!(full.disk.certificates.keys().last(), Some(&Height(validator.disk.blocks.len() as u64)));
    assert!(full.pipeline.pool().get(&transfer(0).hash()).is_none(), "executed transactions leave the pool");
}

#[test]
fn late_follower_catches_up() {
    let (mut validator, _) = pair();
    for nonce in 0..300 {
        validator.submit(transfer(nonce));
    }
    validator.sent.clear();
    let mut late = Node::new(3, &genesis(1), None);
    validator.connect(&late, None);
    late.connect(&validator, Some(0));
    exchange(&mut validator, &mut late);
    assert_eq!(validator.disk.blocks.len(), 300);
    assert_eq!(late.hashes(), validator.hashes());
}

/// Otherwise blocks would wait for its compiler as soon as its vote is needed.
#[test]
fn validator_votes_after_compilation() {
    let (mut validator, _) = pair();
    (0..3).for_each(|nonce| validator.submit(transfer(nonce)));
    let mut compiling = Node::compiling(3, &genesis(1), 0);
    validator.connect(&compiling, None);
    compiling.connect(&validator, Some(0));
    exchange(&mut validator, &mut compiling);
    assert_eq!(compiling.hashes(), validator.hashes());
    compiling.submit(transfer(3));
    assert_eq!((compiling.disk.blocks.len(), &compiling.traces[..]), (3, &[][..]), "it has no engine");
    compiling.handle(Input::MayVote);
    assert_eq!(compiling.traces, ["rejoined"]);
    assert_eq!(compiling.disk.blocks.len(), 4);
}

/// Full node that knows of `blocks` blocks from many guests that never answer and from one validator.
fn among_silent_guests(blocks: u64) -> (Node, Node) {
    let mut validator = Node::new(200, &genesis(1), Some(0));
    (0..blocks).for_each(|nonce| validator.submit(transfer(nonce)));
    let certificate = validator.disk.certificates.values().next_back().cloned().expect("one validator is a quorum");
    let mut late = Node::new(1, &genesis(1), None);
    for guest in 2..60 {
        let peer = [guest; 32];
        late.handle(Input::PeerUp { peer, validator: None });
        late.learn(peer, certificate.clone());
    }
    late.requests.clear();
    late.connect(&validator, Some(0));
    late.learn(validator.key, certificate);
    (validator, late)
}

#[test]
fn unresponsive_guests_starve_nobody() {
    let (validator, mut late) = among_silent_guests(600);
    let start = late.now;
    while late.hashes() != validator.hashes() {
        for (to, request) in std::mem::take(&mut late.requests) {
            if to == validator.key {
                late.handle(Input::Response { from: to, response: Some(validator.answer(request)) });
            }
        }
        if late.requests.is_empty() {
            late.now = late.pipeline.deadline().expect("it goes on asking").max(late.now);
            late.handle(Input::Deadline);
        }
        assert!(late.now.0 - start.0 <= 2_000, "{} of 600 blocks after {} ms", late.disk.blocks.len(), late.now.0 - start.0);
    }
}

#[test]
fn late_response_is_no_fault() {
    let (validator, mut late) = among_silent_guests(3);
    late.wait(1_000);
    late.wait(1_000);
    let asked: Vec<_> = late.requests.drain(..).collect();
    assert!(asked.len() >= 2, "{asked:?}");
    for (from, _) in asked {
        late.handle(Input::Response { from, response: Some(validator.answer(from_height(1))) });
    }
    assert_eq!(late.hashes(), validator.hashes());
    assert_eq!(late.penalties, []);
}

#[test]
fn follower_waits_for_busy_disk() {
    let (mut validator, mut full) = pair();
    full.slow_disk = true;
    for nonce in 0..3 {
        validator.submit(transfer(nonce));
    }
    exchange(&mut validator, &mut full);
    // One more block, while the blocks of the last response are being written.
    validator.submit(transfer(3));
    exchange(&mut validator, &mut full);
    assert!(!full.waiting_appends.is_empty() && full.pipeline.target() > Height(full.executed_plans as u64));
    assert_eq!(full.pipeline.deadline(), None, "there is nobody to ask until then");
    full.slow_disk = false;
    full.finish_appends();
    full.wait(1);
    exchange(&mut validator, &mut full);
    assert_eq!(full.hashes(), validator.hashes());
}

#[test]
fn tampered_responses_are_penalised() {
    let (mut validator, mut full) = pair();
    validator.submit(transfer(0));
    for (_, message) in std::mem::take(&mut validator.sent) {
        if let PeerMessage::Certificate(certificate) = message {
            full.learn(validator.key, certificate);
        }
    }
    assert_eq!(full.requests.len(), 1);
    let honest = validator.answer(from_height(1));
    let mut forged = honest.clone();
    forged.certificate.as_mut().unwrap().signature = Bytes::from(vec![0xc0; 48]);
    full.handle(Input::Response { from: validator.key, response: Some(forged) });
    assert_eq!((full.penalties.len(), full.executed_plans), (1, 0), "the forged certificate");
    // Longer than the pause after a validator's failure.
    full.wait(5_000);

    // Everything that differs from the certified content is the peer's fault, never a divergence of ours.
    let tampering: [fn(&mut FollowedBlock); 6] = [
        |followed| followed.block.header.state_root.0[0] ^= 1,
        |followed| followed.block.ordering.leader.0 += 1,
        |followed| followed.block.ordered[0].raw = Bytes::from_static(b"junk"),
        |followed| followed.block.ordered[0].author.0 += 1,
        |followed| followed.block.ordered.clear(),
        |followed| followed.resume.index.0 += 1,
    ];
    for (number, tamper) in (2..).zip(tampering) {
        let mut tampered = honest.clone();
        tamper(&mut tampered.blocks[0]);
        full.handle(Input::Response { from: validator.key, response: Some(tampered) });
        assert_eq!((full.penalties.len(), full.executed_plans, full.halted.clone()), (number, 0, None));
        full.wait(5_000);
    }

    full.handle(Input::Response { from: validator.key, response: Some(honest) });
    assert_eq!(full.hashes(), validator.hashes());
}

#[test]
fn diverging_certificate_halts() {
    let genesis = genesis(1);
    let mut wrong = genesis.clone();
    wrong.accounts.values_mut().for_each(|account| account.balance += U256::from(1));
    let mut validator = Node::new(1, &genesis, Some(0));
    let mut broken = Node::with_state_of(2, &genesis, &wrong, None);
    validator.connect(&broken, None);
    broken.connect(&validator, Some(0));
    validator.submit(transfer(0));
    exchange(&mut validator, &mut broken);
    let reason = broken.halted.clone().expect("the node halts").reason;
    assert!(reason.contains("divergence at height 1"), "{reason}");
    assert!(broken.disk.blocks.is_empty());
}

/// Under the first rules a block has no bound in bytes.
fn with_a_large_block(bytes: usize) -> (Node, Node) {
    let (mut validator, full) = pair_of(&first_rules(genesis(1)));
    validator.submit(transfer(0));
    validator.script.lock().unwrap().push_back(vec![Bytes::from(vec![7; bytes])]);
    validator.wait(1);
    validator.submit(transfer(1));
    assert_eq!(validator.disk.blocks.len(), 3);
    assert_eq!(validator.disk.blocks[1].block.ordered[0].raw.len(), bytes);
    (validator, full)
}

/// A peer is asked again after a short wait.
fn catch_up(validator: &mut Node, full: &mut Node) {
    for _ in 0..100 {
        exchange(validator, full);
        if full.hashes() == validator.hashes() {
            return;
        }
        full.wait(10);
    }
    panic!("only {} of {} blocks", full.disk.blocks.len(), validator.disk.blocks.len());
}

/// Next request of a node that is about to send one.
fn next_request(node: &mut Node) -> (NodeKey, Request) {
    if node.requests.is_empty() {
        node.wait(1);
    }
    node.requests.remove(0)
}

fn from_height(height: u64) -> Request {
    Request::Blocks { from: Height(height), offset: 0 }
}

#[test]
fn large_block_is_transferred_in_parts() {
    for bytes in [4 << 20, (5 << 20) + 1, 20 << 20] {
        let (mut validator, mut full) = with_a_large_block(bytes);
        catch_up(&mut validator, &mut full);
        assert_eq!(full.penalties, []);
    }
}

/// The largest responses are those to honest requests; all are far below the size of a frame.
#[test]
fn responses_are_bounded() {
    let (mut validator, _) = with_a_large_block(20 << 20);
    for nonce in 2..20 {
        validator.script.lock().unwrap().push_back(vec![Bytes::from(vec![7; 1 << 20])]);
        validator.submit(transfer(nonce));
    }
    let last = validator.disk.blocks.len() as u64;
    // Only the newest certificate is left: blocks certified by their descendants come with headers.
    validator.disk.certificates.retain(|height, _| height.0 == last);
    for from in 0..=last + 1 {
        for offset in [0, 1, 5 << 20, 1 << 40, u64::MAX] {
            let bytes = wire::encode(&validator.answer(Request::Blocks { from: Height(from), offset })).len();
            assert!(bytes <= (4 << 20) + (1 << 18), "{bytes} bytes from {from}, {offset}");
        }
    }
    let mut full = Node::new(2, &first_rules(genesis(1)), None);
    validator.connect(&full, None);
    full.connect(&validator, Some(0));
    catch_up(&mut validator, &mut full);
    assert_eq!(full.disk.certificates.keys().collect::<Vec<_>>(), [&Height(last)]);
}

/// Passes all responses of `validator` to the follower, each part modified by `spoil`, until a peer is
/// penalised. Returns the number of parts.
fn parts_until_penalty(validator: &Node, full: &mut Node, mut spoil: impl FnMut(u64, &mut Part)) -> u64 {
    full.learn(validator.key, validator.disk.certificates.values().next_back().unwrap().clone());
    let mut parts = 0;
    while full.penalties.is_empty() {
        let (to, request) = next_request(full);
        assert_eq!(to, validator.key);
        let mut response = validator.answer(request);
        if let Some(part) = &mut response.part {
            parts += 1;
            spoil(parts, part);
        }
        full.handle(Input::Response { from: to, response: Some(response) });
    }
    parts
}

/// A body that matches its own header is not enough: executing it would look like our own divergence.
#[test]
fn parts_of_wrong_block_are_penalised() {
    let (validator, mut full) = with_a_large_block(6 << 20);
    let mut forged = validator.disk.block(Height(2)).unwrap();
    forged.block.header.state_root = B256::repeat_byte(1);
    let forged = wire::encode(&forged);
    let parts = parts_until_penalty(&validator, &mut full, |_, part| {
        assert_eq!(part.length, forged.len() as u64);
        let start = part.offset as usize;
        part.bytes = Bytes::copy_from_slice(&forged[start..start + part.bytes.len()]);
    });
    assert_eq!((parts, full.hashes().len(), full.penalties[0].0, full.halted), (7, 1, validator.key, None));
}

#[test]
fn part_of_wrong_size_is_penalised() {
    let spoils: [fn(&mut Part); 4] = [
        |part| part.length = (256 << 20) + 1,
        |part| part.bytes = [&part.bytes[..], &[0]].concat().into(),
        |part| part.bytes = part.bytes.slice(1..),
        |part| part.bytes = Bytes::new(),
    ];
    for spoil in spoils {
        let (validator, mut full) = with_a_large_block(6 << 20);
        let parts = parts_until_penalty(&validator, &mut full, |_, part| spoil(part));
        assert_eq!((parts, full.penalties[0].0), (1, validator.key));
    }
}

/// A peer that modifies a part is penalised when the block is complete, and another peer sends the block.
#[test]
fn corrupted_part_is_penalised() {
    let (mut validator, mut full) = with_a_large_block(6 << 20);
    let mut other = Node::new(3, &first_rules(genesis(1)), None);
    validator.connect(&other, None);
    other.connect(&validator, Some(0));
    catch_up(&mut validator, &mut other);
    let newest = validator.disk.certificates.values().next_back().unwrap().clone();
    let part = parts_until_penalty(&validator, &mut full, |number, part| {
        let mut bytes = part.bytes.to_vec();
        bytes[100] ^= u8::from(number == 4);
        part.bytes = bytes.into();
    });
    assert_eq!((part, full.hashes().len(), full.penalties[0].0), (7, 1, validator.key));
    full.handle(Input::PeerDown { peer: validator.key });
    full.requests.clear();
    full.connect(&other, None);
    full.learn(other.key, newest);
    catch_up(&mut other, &mut full);
    assert_eq!(full.penalties.len(), 1);
}

/// A part that arrives too late is ignored; slowness is no fault.
#[test]
fn a_late_part_is_ignored() {
    let (mut validator, mut full) = with_a_large_block(6 << 20);
    full.learn(validator.key, validator.disk.certificates.values().next_back().unwrap().clone());
    let next = |full: &mut Node| {
        let (_, request) = next_request(full);
        validator.answer(request)
    };
    for _ in 0..3 {
        let response = Some(next(&mut full));
        full.handle(Input::Response { from: [1; 32], response });
    }
    let late = next(&mut full);
    assert_eq!(late.part.as_ref().unwrap().offset, 2 << 20);
    full.wait(6_000);
    // This peer is asked again from the first part.
    assert_eq!(full.requests, [([1; 32], from_height(2))]);
    full.handle(Input::Response { from: [1; 32], response: Some(late) });
    full.wait(1_000);
    catch_up(&mut validator, &mut full);
    assert_eq!(full.penalties, []);
}

/// Certified block with false parts that arrive as slowly as allowed: the peer claims the maximum length.
fn drip(honest: &Node, request: Request) -> Response {
    let Request::Blocks { from, offset } = request else { unreachable!("a full node asks for certified blocks") };
    let first = honest.answer(Request::Blocks { from, offset: 0 });
    let part = Some(Part { length: 256 << 20, offset, bytes: Bytes::from(vec![7; 1 << 20]) });
    if offset == 0 { Response { part, ..first } } else { Response { part, ..Response::default() } }
}

/// Nine honest peers beside it deliver the block.
#[test]
fn slow_false_block_costs_one_request() {
    for pace in [4_900, 990] {
        let (validator, mut full) = with_a_large_block(6 << 20);
        let certificate = |height| validator.disk.certificates[&Height(height)].clone();
        full.learn(validator.key, certificate(1));
        let (peer, request) = next_request(&mut full);
        full.handle(Input::Response { from: peer, response: Some(validator.answer(request)) });
        let faulty = [0; 32];
        for peer in [faulty].into_iter().chain((2..10).map(|number| [number; 32])) {
            full.handle(Input::PeerUp { peer, validator: Some(ValidatorIndex(0)) });
            full.learn(peer, certificate(3));
        }
        full.learn(validator.key, certificate(3));
        assert_eq!(full.requests, [(faulty, from_height(2))]);
        let start = full.now;
        let mut dripping = None;
        while full.hashes() != validator.hashes() {
            for (peer, request) in std::mem::take(&mut full.requests) {
                if peer == faulty {
                    dripping = Some((TimestampMs(full.now.0 + pace), drip(&validator, request)));
                } else {
                    full.handle(Input::Response { from: peer, response: Some(validator.answer(request)) });
                }
            }
            if full.requests.is_empty() {
                let due = dripping.as_ref().map(|(at, _)| *at);
                full.now = full.pipeline.deadline().into_iter().chain(due).min().expect("it goes on").max(full.now);
                match dripping.take_if(|(at, _)| *at <= full.now) {
                    Some((_, response)) => full.handle(Input::Response { from: faulty, response: Some(response) }),
                    None => full.handle(Input::Deadline),
                }
            }
            assert!(full.now.0 - start.0 <= 6_000, "{} of 3 blocks, a part each {pace} ms", full.disk.blocks.len());
        }
    }
}

/// From version 2 of the rules on, blocks are bounded, and longer ones are refused at once.
#[test]
fn oversized_block_is_refused() {
    let (mut validator, mut full) = pair();
    validator.submit(transfer(0));
    full.learn(validator.key, validator.disk.certificates.values().next_back().cloned().unwrap());
    let honest = validator.answer(from_height(1));
    let headers = honest.blocks.iter().map(|followed| EncodedHeader(followed.block.header.clone())).collect();
    let part = Some(Part { length: (16 << 20) + 1, offset: 0, bytes: Bytes::from(vec![7; 1 << 20]) });
    let response = Response { blocks: Vec::new(), headers, part, ..honest };
    full.handle(Input::Response { from: validator.key, response: Some(response) });
    assert_eq!(full.penalties, [(validator.key, "block 1 has 16777217 bytes, the limit is 16777216".into())]);
}
