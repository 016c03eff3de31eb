//! A full node follows a validator, forwards its users' transactions, refuses what is wrong, and halts on divergence.

mod common;

use common::{Node, exchange, genesis, transfer};
use corniche_pipeline::{FollowedBlock, Input, PeerMessage, Request};
use corniche_types::{Bytes, Height, U256};

fn pair() -> (Node, Node) {
    let genesis = genesis(1);
    let mut validator = Node::new(1, &genesis, Some(0));
    let mut full = Node::new(2, &genesis, None);
    validator.connect(&full, None);
    full.connect(&validator, Some(0));
    (validator, full)
}

#[test]
fn a_users_transaction_at_a_full_node_is_executed_by_both_to_the_same_block() {
    let (mut validator, mut full) = pair();
    for nonce in 0..5 {
        full.submit(transfer(nonce));
    }
    // The first goes at once, the others together a moment later.
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
fn a_late_follower_gets_everything() {
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

/// A full node that hears of `blocks` blocks from many guests that never answer and from a validator.
fn among_silent_guests(blocks: u64) -> (Node, Node) {
    let mut validator = Node::new(200, &genesis(1), Some(0));
    (0..blocks).for_each(|nonce| validator.submit(transfer(nonce)));
    let certificate = validator.disk.certificates.values().next_back().cloned().expect("one validator is a quorum");
    let mut late = Node::new(1, &genesis(1), None);
    for guest in 2..60 {
        let peer = [guest; 32];
        late.handle(Input::PeerUp { peer, validator: None });
        late.handle(Input::Certificate { from: peer, certificate: certificate.clone() });
    }
    late.requests.clear();
    late.connect(&validator, Some(0));
    late.handle(Input::Certificate { from: validator.key, certificate });
    (validator, late)
}

#[test]
fn guests_that_never_answer_starve_nobody() {
    let (validator, mut late) = among_silent_guests(600);
    let start = late.now;
    while late.hashes() != validator.hashes() {
        for (to, Request::Blocks { from }) in std::mem::take(&mut late.requests) {
            if to == validator.key {
                late.handle(Input::Response { from: to, response: Some(validator.answer(from)) });
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
fn who_answers_later_than_another_is_not_to_blame() {
    let (validator, mut late) = among_silent_guests(3);
    late.wait(1_000);
    late.wait(1_000);
    let asked: Vec<_> = late.requests.drain(..).collect();
    assert!(asked.len() >= 2, "{asked:?}");
    for (from, _) in asked {
        late.handle(Input::Response { from, response: Some(validator.answer(Height(1))) });
    }
    assert_eq!(late.hashes(), validator.hashes());
    assert_eq!(late.penalties, []);
}

#[test]
fn a_follower_sleeps_while_its_disk_is_busy() {
    let (mut validator, mut full) = pair();
    full.slow_disk = true;
    for nonce in 0..3 {
        validator.submit(transfer(nonce));
    }
    exchange(&mut validator, &mut full);
    // One more, while the blocks of the last answer are being written.
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
fn tampered_blocks_and_certificates_are_refused_and_their_sender_pays() {
    let (mut validator, mut full) = pair();
    validator.submit(transfer(0));
    for (_, message) in std::mem::take(&mut validator.sent) {
        if let PeerMessage::Certificate(certificate) = message {
            let mut forged = certificate.clone();
            forged.signature = Bytes::from(vec![0xc0; 48]);
            full.handle(Input::Certificate { from: validator.key, certificate: forged });
            full.handle(Input::Certificate { from: validator.key, certificate });
        }
    }
    assert_eq!(full.penalties.len(), 1, "the forged certificate");
    assert_eq!(full.requests.len(), 1);
    let honest = validator.answer(Height(1));

    // Everything that is not what the certificate covers is the peer's fault, never a divergence of ours.
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
        full.wait(1_000);
    }

    full.handle(Input::Response { from: validator.key, response: Some(honest) });
    assert_eq!(full.hashes(), validator.hashes());
}

#[test]
fn a_certificate_for_another_header_than_ours_halts_and_appends_nothing() {
    let genesis = genesis(1);
    let mut wrong = genesis.clone();
    wrong.accounts.values_mut().for_each(|account| account.balance += U256::from(1));
    let mut validator = Node::new(1, &genesis, Some(0));
    let mut broken = Node::with_state_of(2, &genesis, &wrong, None);
    validator.connect(&broken, None);
    broken.connect(&validator, Some(0));
    validator.submit(transfer(0));
    exchange(&mut validator, &mut broken);
    let reason = broken.halted.clone().expect("the node halts");
    assert!(reason.contains("divergence at height 1"), "{reason}");
    assert!(broken.disk.blocks.is_empty());
}
