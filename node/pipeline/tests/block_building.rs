//! When blocks close, what they hold, and that a restart in the middle of a commit changes nothing.

use alloy_consensus::TxLegacy;
use corniche_admission::batch;
use corniche_crypto::EthereumKey;
use corniche_engine::{Batch, Ordered, Resume};
use corniche_pipeline::{BlockBuilder, BlockPlan};
use corniche_types::{
    B256, Bytes, CommitIndex, EngineConfig, FeeRules, Genesis, OrderingRecord, ProtocolRules, TimestampMs, TxKind,
    ValidatorIndex,
};

const BLOCK_GAS: u64 = 1_000_000;

fn genesis(block_ms: u64) -> Genesis {
    Genesis {
        protocol_version: ProtocolRules::LATEST.version,
        upgrades: Vec::new(),
        chain_id: 7,
        currency: "TST".into(),
        timestamp_ms: TimestampMs(0),
        block_ms,
        block_gas_limit: BLOCK_GAS,
        batch_bytes: 1 << 20,
        batch_gas: BLOCK_GAS,
        epoch_blocks: 1_000,
        fees: FeeRules { initial_base_fee: 1, target_gas_per_second: 1 },
        engine: EngineConfig { name: "test".into(), parameters: Default::default() },
        validators: Vec::new(),
        coin_shares: Vec::new(),
        coin_public_key: Bytes::new(),
        accounts: Default::default(),
    }
}

/// A transfer that declares `gas`.
fn transfer(nonce: u64, gas: u64) -> Bytes {
    let key = EthereumKey::from_bytes(&[3; 32]).unwrap();
    key.sign(TxLegacy {
        chain_id: Some(7),
        nonce,
        gas_price: 1,
        gas_limit: gas,
        to: TxKind::Call(key.address()),
        ..TxLegacy::default()
    })
}

fn commit(index: u64, time: u64, transactions: &[Bytes]) -> Ordered {
    let batches = if transactions.is_empty() {
        Vec::new()
    } else {
        vec![(ValidatorIndex(0), Batch { bytes: batch::encode(transactions).unwrap() })]
    };
    Ordered {
        index: CommitIndex(index),
        leader: ValidatorIndex(0),
        time: TimestampMs(time),
        randomness: B256::with_last_byte(index as u8),
        batches,
        checkpoint: index.to_be_bytes().to_vec().into(),
    }
}

fn drain(builder: &mut BlockBuilder) -> Vec<BlockPlan> {
    std::iter::from_fn(|| builder.poll()).collect()
}

fn gas_limits(plans: &[BlockPlan]) -> Vec<usize> {
    plans.iter().map(|plan| plan.ordered.len()).collect()
}

#[test]
fn a_block_closes_at_the_first_commit_at_least_block_ms_after_the_last() {
    let mut builder = BlockBuilder::new(&genesis(50), None, Resume::default());
    builder.push(commit(1, 1_000, &[transfer(0, 21_000)]));
    assert_eq!(gas_limits(&drain(&mut builder)), [1], "the first block is long after genesis");
    builder.push(commit(2, 1_020, &[transfer(1, 21_000)]));
    builder.push(commit(3, 1_049, &[transfer(2, 21_000)]));
    assert!(builder.poll().is_none() && builder.is_open());
    // An empty commit closes what is open; it opens nothing.
    builder.push(commit(4, 1_050, &[]));
    let plans = drain(&mut builder);
    assert_eq!(gas_limits(&plans), [2]);
    assert_eq!((plans[0].first_commit.0, plans[0].last_commit.0, plans[0].time.0), (2, 4, 1_050));
    assert_eq!(plans[0].resume.index, CommitIndex(4));
    builder.push(commit(5, 9_000, &[]));
    assert!(builder.poll().is_none() && !builder.is_open(), "an empty commit makes no block");
}

#[test]
fn an_idle_chain_closes_an_empty_block_a_minute() {
    let genesis = genesis(50);
    let mut builder = BlockBuilder::new(&genesis, None, Resume::default());
    builder.push(commit(1, 500_000, &[]));
    assert!(builder.poll().is_none(), "none before the first block");
    builder.push(commit(2, 500_100, &[transfer(0, 21_000)]));
    let first = drain(&mut builder);
    builder.push(commit(3, 560_099, &[]));
    assert!(builder.poll().is_none() && !builder.is_open());
    builder.push(commit(4, 560_100, &[]));
    let idle = drain(&mut builder);
    assert_eq!(gas_limits(&idle), [0]);
    assert_eq!((idle[0].first_commit.0, idle[0].last_commit.0, idle[0].time.0), (4, 4, 560_100));
    assert_eq!(idle[0].resume.index, CommitIndex(4), "what the block is for");
    builder.push(commit(5, 620_099, &[]));
    assert!(builder.poll().is_none(), "counted from the empty block");

    // Whoever restarts after the first block, with some of the idle commits behind it, closes the same one.
    let progress = Resume { index: CommitIndex(3), checkpoint: 3u64.to_be_bytes().to_vec().into() };
    let mut restarted = BlockBuilder::new(&genesis, Some(&record(&first[0])), progress);
    restarted.push(commit(4, 560_100, &[]));
    assert_eq!(drain(&mut restarted), idle);
}

#[test]
fn declared_gas_splits_a_commit_and_a_transaction_above_the_limit_counts_nothing() {
    let mut builder = BlockBuilder::new(&genesis(0), None, Resume::default());
    let transactions =
        [transfer(0, 600_000), transfer(1, 400_000), transfer(2, BLOCK_GAS + 1), transfer(3, 1), transfer(4, BLOCK_GAS)];
    builder.push(commit(1, 1_000, &transactions));
    let plans = drain(&mut builder);
    assert_eq!(gas_limits(&plans), [3, 1, 1]);
    assert_eq!(plans[0].resume.index, CommitIndex(0), "commit 1 is not complete in the first block");
    assert_eq!((plans[0].last_commit_consumed, plans[1].last_commit_consumed, plans[2].last_commit_consumed), (3, 4, 5));
    assert_eq!(plans[2].resume.index, CommitIndex(1));
    assert_eq!(plans[1].batches[0].first, 3);
}

/// What the ordering record of a plan says about commits, as far as recovery reads it.
fn record(plan: &BlockPlan) -> OrderingRecord {
    OrderingRecord {
        protocol_version: 1,
        engine: "test".into(),
        epoch: Default::default(),
        committee_hash: B256::ZERO,
        next_committee_hash: B256::ZERO,
        first_commit: plan.first_commit,
        last_commit: plan.last_commit,
        last_commit_consumed: plan.last_commit_consumed,
        leader: plan.leader,
        time: plan.time,
        randomness: plan.randomness,
        batches: plan.batches.clone(),
        transactions_hash: B256::ZERO,
        skipped: Vec::new(),
        resume_hash: plan.resume.hash(),
    }
}

#[test]
fn a_restart_after_any_block_makes_the_same_blocks() {
    let mut commits = Vec::new();
    let mut nonce = 0;
    for index in 1..=40u64 {
        let mut transactions = Vec::new();
        for step in 0..(index * 7 % 5) {
            transactions.push(transfer(nonce, 100_000 + (nonce * 137_911 + step) % 700_000));
            nonce += 1;
        }
        commits.push(commit(index, 1_000 + index * 17, &transactions));
    }
    let genesis = genesis(50);
    let mut builder = BlockBuilder::new(&genesis, None, Resume::default());
    commits.iter().cloned().for_each(|commit| builder.push(commit));
    let plans = drain(&mut builder);
    assert!(plans.len() > 10);
    for (number, head) in plans.iter().enumerate() {
        let mut restarted = BlockBuilder::new(&genesis, Some(&record(head)), head.resume.clone());
        let rest = commits.iter().filter(|commit| commit.index > head.resume.index);
        rest.cloned().for_each(|commit| restarted.push(commit));
        let continued = drain(&mut restarted);
        assert_eq!(continued[..], plans[number + 1..], "restart after block {}", number + 1);
    }
}
