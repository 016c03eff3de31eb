//! Limits: nothing is signed before it is durable; execution stays near certification; transactions that
//! cannot execute yet return to the pool of the validator that proposed them.

use crate::common::{
    Node, RECENT_STATES, add_stake, consensus_key, first_rules, genesis, notice_author, transfer, transfer_for, transfer_from,
    user_number, whole_block,
};
use borsh::BorshDeserialize;
use corniche_engine::Verified;
use corniche_pipeline::{AHEAD_OF_CERTIFICATION, BlockPlan, Input, MAX_FORWARDED_TRANSACTIONS, PeerMessage};
use corniche_staking::{MAX_BATCH_NOTICES, NoticeKind, StateSlots};
use corniche_state::StateView;
use corniche_types::{
    Address, B256, Bytes, Epoch, Genesis, Height, OrderedTransaction, Resume, SkipReason, StakingParameters, TimestampMs,
    ValidatorIndex,
};
use std::sync::{Arc, atomic::Ordering};

fn shares(node: &Node) -> usize {
    node.sent.iter().filter(|(_, message)| matches!(message, PeerMessage::CertificateShare(_))).count()
}

#[test]
fn header_is_signed_only_after_append() {
    let genesis = genesis(4);
    let mut node = Node::new(1, &genesis, Some(0));
    let other = Node::new(2, &genesis, Some(1));
    node.connect(&other, Some(1));
    node.slow_disk = true;
    node.submit(transfer(0));
    assert_eq!(node.waiting_appends.len(), 1, "executed and handed to the disk");
    assert_eq!(shares(&node), 0);
    assert_eq!(node.pipeline.pending_nonce(&crate::common::user().address()), 1);
    assert!(node.pipeline.pool().get(&transfer(0).hash()).is_some(), "still pending for users");
    node.finish_appends();
    assert_eq!(shares(&node), 1);
    assert!(node.pipeline.pool().get(&transfer(0).hash()).is_none());
}

/// A client may see a block and its next base fee before the pipeline knows that it is durable.
#[test]
fn base_fee_is_known_before_durability() {
    let mut node = Node::new(1, &genesis(1), Some(0));
    node.slow_disk = true;
    // The genesis' base fee has fallen since.
    node.wait(600_000);
    node.submit(transfer(0));
    let base_fee = node.waiting_appends[0].block.header.base_fee_per_gas.unwrap();
    assert!(base_fee < 1_000, "{base_fee}");
    let cheap = transfer_for(&user_number(0), 0, u128::from(base_fee) + 1, 1);
    node.submit(cheap.clone());
    assert!(node.pipeline.pool().get(&cheap.hash()).is_some());
}

#[test]
fn execution_waits_for_certificates() {
    // Three of four validators are offline: nothing is ever certified.
    let mut node = Node::new(1, &genesis(4), Some(0));
    for nonce in 0..AHEAD_OF_CERTIFICATION + 20 {
        node.submit(transfer(nonce));
    }
    assert_eq!(node.executed_plans as u64, AHEAD_OF_CERTIFICATION);
    assert!(node.disk.certificates.is_empty());
}

/// Autobahn keeps ordered data until a quorum has executed it.
#[test]
fn engine_learns_certified_commits() {
    let certified = |node: &Node| node.certified_commit.load(Ordering::Relaxed);
    let mut alone = Node::new(1, &genesis(1), Some(0));
    alone.slow_disk = true;
    alone.submit(transfer(0));
    assert_eq!((alone.disk.blocks.len(), certified(&alone)), (0, 0), "executed and not appended");
    for nonce in 1..10 {
        alone.finish_appends();
        let newest = alone.disk.blocks.last().expect("a block").resume.index;
        assert_eq!(certified(&alone), newest.0);
        alone.submit(transfer(nonce));
    }
    // Three of four validators are offline: nothing is certified.
    let mut node = Node::new(1, &genesis(4), Some(0));
    (0..10).for_each(|nonce| node.submit(transfer(nonce)));
    assert_eq!((node.disk.blocks.len(), certified(&node)), (10, 0));
}

#[test]
fn recent_states_stay_readable() {
    let mut node = Node::new(1, &genesis(1), Some(0));
    for nonce in 0..10 {
        node.submit(transfer(nonce));
    }
    let head = node.disk.blocks.len() as u64;
    assert!(head > RECENT_STATES + 1);
    let sent =
        |height| node.state.at(Height(height)).map(|state| state.account(&crate::common::user().address()).unwrap().nonce);
    let newest = sent(head).unwrap();
    for below in 0..=RECENT_STATES {
        assert_eq!(sent(head - below), Some(newest - below), "{below} below the newest");
    }
    assert_eq!(sent(head - RECENT_STATES - 1), None);
}

#[test]
fn malformed_share_is_rejected() {
    let mut node = Node::new(1, &genesis(4), Some(0));
    node.connect(&Node::new(2, &genesis(4), Some(1)), Some(1));
    node.submit(transfer(0));
    let share = node.sent.iter().find(|(_, message)| matches!(message, PeerMessage::CertificateShare(_)));
    let (_, share) = share.expect("it signs what it executes");
    assert_eq!(PeerMessage::decode(&share.encode()).as_ref(), Ok(share));
    for junk in [&b""[..], &[1], &[0xff; 200]] {
        assert!(PeerMessage::decode(&PeerMessage::CertificateShare(Bytes::copy_from_slice(junk)).encode()).is_err());
    }
}

#[test]
fn long_lists_of_peers_are_refused_unread() {
    let lists = |transactions, attestations| {
        let attestation = (B256::ZERO, Address::ZERO);
        [
            PeerMessage::Transactions(vec![Bytes::new(); transactions]),
            PeerMessage::Attestations(vec![attestation; attestations]),
        ]
    };
    for longest in lists(MAX_FORWARDED_TRANSACTIONS, 1_024) {
        assert_eq!(PeerMessage::decode(&longest.encode()).as_ref(), Ok(&longest));
    }
    for longer in lists(MAX_FORWARDED_TRANSACTIONS + 1, 1_025) {
        let encoded = longer.encode();
        let mut rest = &encoded[1..];
        assert!(PeerMessage::decode(&encoded).is_err() && PeerMessage::deserialize(&mut rest).is_err());
        assert_eq!(encoded.len() - rest.len(), 6, "version, kind and number");
    }
}

#[test]
fn early_ordered_transaction_is_retried() {
    let mut node = Node::new(1, &genesis(1), Some(0));
    // A batch contains nonce 1 before nonce 0.
    let early = transfer(1);
    node.script.lock().unwrap().push_back(vec![early.transaction().raw().clone()]);
    node.wait(1);
    assert_eq!(node.disk.blocks.len(), 1);
    let block = &node.disk.blocks[0];
    assert!(block.receipts.is_empty() && block.block.ordering.skipped.len() == 1);
    node.submit(transfer(0));
    let executed: Vec<_> =
        node.disk.blocks.iter().flat_map(|block| &block.receipts).map(|receipt| receipt.transaction_hash).collect();
    assert_eq!(executed, [transfer(0).hash(), early.hash()]);
    assert_eq!(node.disk.certificates.keys().last(), Some(&Height(node.disk.blocks.len() as u64)));
}

/// Maximum number of ordered blocks that wait for execution, without those in execution: twice the limit of
/// `pipeline/backlog.rs`.
const MAX_WAITING: usize = 128;

/// Transactions with these nonces, each filling a block.
fn blocks(nonces: std::ops::Range<u64>) -> Vec<Bytes> {
    nonces.map(|nonce| whole_block(nonce).transaction().raw().clone()).collect()
}

#[test]
fn large_batch_is_split_during_execution() {
    let mut node = Node::new(1, &first_rules(genesis(1)), Some(0));
    node.slow_processor = true;
    node.script.lock().unwrap().push_back(blocks(0..1_000));
    node.wait(1);
    assert_eq!(node.waiting_plans.len() as u64, AHEAD_OF_CERTIFICATION);
    assert_eq!(node.pipeline.waiting_blocks(), MAX_WAITING);
    node.slow_processor = false;
    node.finish_plans();
    assert_eq!((node.disk.blocks.len(), node.pipeline.waiting_blocks()), (1_000, 0));
    assert!(node.disk.blocks.iter().all(|block| block.receipts.len() == 1));
}

/// From version 2 of the rules on, only the gas limit of a batch is taken from a batch with too much gas.
#[test]
fn batch_above_gas_limit_makes_one_block() {
    let mut node = Node::new(1, &genesis(1), Some(0));
    node.script.lock().unwrap().push_back(blocks(0..1_000));
    node.wait(1);
    assert_eq!(node.disk.blocks.len(), 1);
    assert_eq!(node.disk.blocks[0].receipts.len(), 1);
}

#[test]
fn proposals_are_empty_under_backlog() {
    let mut node = Node::new(1, &first_rules(genesis(1)), Some(0));
    node.slow_processor = true;
    let nonces = 0..AHEAD_OF_CERTIFICATION + MAX_WAITING as u64 / 2;
    node.script.lock().unwrap().push_back(blocks(nonces.clone()));
    node.wait(1);
    // A transaction of another user, which could be proposed at once.
    node.submit(transfer_from(&user_number(0), 0, 10));
    node.wait(1_000);
    assert_eq!(node.pipeline.waiting_blocks(), MAX_WAITING / 2, "nothing is added");
    node.slow_processor = false;
    node.finish_plans();
    node.wait(1);
    assert_eq!(node.disk.blocks.len() as u64, nonces.end + 1);
}

/// Design, section 3: beyond twice the limit the engine gets no input that would make it order more.
#[test]
fn engine_is_paused_under_backlog() {
    let mut node = Node::new(1, &first_rules(genesis(1)), Some(0));
    node.slow_processor = true;
    let mut nonce = 0;
    let mut send = |node: &mut Node| {
        let message = Verified(Arc::new(blocks(nonce..nonce + 1)));
        node.handle(Input::Engine { from: ValidatorIndex(0), epoch: Epoch(0), message });
        // A proposer repeats its proposal until it is ordered.
        nonce = node.messages.load(Ordering::Relaxed) as u64;
    };
    (0..1_000).for_each(|_| send(&mut node));
    assert_eq!(node.messages.load(Ordering::Relaxed), AHEAD_OF_CERTIFICATION as usize + MAX_WAITING);
    assert_eq!(node.pipeline.waiting_blocks(), MAX_WAITING);
    node.slow_processor = false;
    node.finish_plans();
    (0..10).for_each(|_| send(&mut node));
    assert_eq!(node.messages.load(Ordering::Relaxed), AHEAD_OF_CERTIFICATION as usize + MAX_WAITING + 10);
    assert_eq!(node.disk.blocks.len(), node.messages.load(Ordering::Relaxed));
}

/// Genesis with stake. Announcements begin 1,000 s after its time, and the freeze is 500 s later.
fn staked() -> Genesis {
    let mut genesis = genesis(4);
    add_stake(&mut genesis, StakingParameters { epoch_ms: 2_000_000, closing_ms: 500_000, ..StakingParameters::default() });
    for (index, validator) in genesis.validators.iter_mut().enumerate() {
        validator.consensus_key = consensus_key(index).public();
    }
    genesis
}

/// Notice of a node, as an entry of a batch.
fn notice(view: &dyn StateView, index: usize, kind: NoticeKind) -> Bytes {
    notice_author(index).make(&mut StateSlots(view), kind).unwrap().unwrap().encode()
}

/// One proposer with badly signed notices neither uses up a block's limit nor makes others check more than one signature. Its
/// own valid notices are refused after that; others' are not.
#[test]
fn bad_notices_keep_out_nobody() {
    let mut node = Node::new(1, &staked(), Some(0));
    let view = node.state.latest();
    let bad = |entry: &Bytes| {
        let mut entry = entry.to_vec();
        *entry.last_mut().unwrap() ^= 1;
        Bytes::from(entry)
    };
    let [one, two] = [1, 2].map(|index| notice(&view, index, NoticeKind::Announce));
    drop(view);
    node.submit(transfer(0));
    let verify = |ordered: &[OrderedTransaction], chain_id| corniche_pipeline::verify_all(ordered, chain_id);
    let ordered = |author: u16, raw: &Bytes| OrderedTransaction { author: ValidatorIndex(author), raw: raw.clone() };
    let junk = vec![ordered(3, &bad(&one)); MAX_BATCH_NOTICES + 1];
    let entries = [junk, vec![ordered(3, &one), ordered(0, &one), ordered(0, &one), ordered(0, &two)]].concat();
    let plan = BlockPlan { ordered: entries, ..BlockPlan::from_block(&node.disk.blocks[0].block, Resume::default()) };
    let skipped = node.stage.execute(plan, verify).committed.block.ordering.skipped.clone();
    let reasons: Vec<_> = skipped.iter().rev().take(4).rev().map(|skipped| skipped.reason).collect();
    use SkipReason::{Notice, NoticeRefused};
    assert_eq!(reasons, [NoticeRefused, Notice, NoticeRefused, Notice]);
    assert!(skipped[..=MAX_BATCH_NOTICES].iter().all(|skipped| skipped.reason == NoticeRefused));
}

/// A block takes two dealings, because a check takes long. The others are refused, and can be proposed again.
#[test]
fn few_dealings_in_a_block() {
    let mut genesis = staked();
    genesis.engine.name = "mahi-mahi".into();
    let start = genesis.timestamp_ms.0;
    let mut node = Node::new(1, &genesis, Some(0));
    node.submit(transfer(0));
    let template = BlockPlan::from_block(&node.disk.blocks[0].block, Resume::default());
    let mut run = |ms: u64, entries: &[Bytes]| {
        let ordered: Vec<_> = (0u16..)
            .zip(entries)
            .map(|(author, raw)| OrderedTransaction { author: ValidatorIndex(author), raw: raw.clone() })
            .collect();
        let plan = BlockPlan { ordered, time: TimestampMs(start + ms), ..template.clone() };
        let executed = node.stage.execute(plan, corniche_pipeline::verify_all);
        executed.committed.block.ordering.skipped.iter().map(|skipped| skipped.reason).collect::<Vec<_>>()
    };
    let state = node.state.clone();
    let all = |kind| -> Vec<Bytes> { (0..4).map(|index| notice(&state.latest(), index, kind)).collect() };
    use SkipReason::{Notice, NoticeRefused};
    // The node's own announcement may be in its first block.
    assert_eq!(run(1_200_000, &all(NoticeKind::Announce))[1..], [Notice; 3]);
    assert_eq!(run(1_500_000, &[]), []);
    let dealings = all(NoticeKind::Deal);
    assert_eq!(run(1_501_000, &dealings), [Notice, Notice, NoticeRefused, NoticeRefused]);
    assert_eq!(run(1_502_000, &dealings), [NoticeRefused, NoticeRefused, Notice, Notice]);
    assert_eq!(run(1_503_000, &all(NoticeKind::Acknowledge)), [Notice; 4]);
}
