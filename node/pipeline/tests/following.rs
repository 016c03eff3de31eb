//! A full node follows a validator, forwards its users' transactions, refuses what is wrong, and halts on divergence.

mod common;

use common::{Node, exchange, genesis, transfer};
use corniche_pipeline::{FollowedBlock, Input, PeerMessage};
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
            full.learn(validator.key, certificate);
        }
    }
    assert_eq!(full.requests.len(), 1);
    let honest = validator.answer(Height(1));
    let mut forged = honest.clone();
    forged.certificate.as_mut().unwrap().signature = Bytes::from(vec![0xc0; 48]);
    full.handle(Input::Response { from: validator.key, response: Some(forged) });
    assert_eq!((full.penalties.len(), full.executed_plans), (1, 0), "the forged certificate");
    full.wait(1_000);

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
