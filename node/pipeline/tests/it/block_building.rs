//! When blocks close, their content, and restarts in the middle of a commit.

use alloy_consensus::TxLegacy;
use corniche_admission::batch;
use corniche_crypto::EthereumKey;
use corniche_engine::{Batch, Ordered, Resume};
use corniche_pipeline::{BlockBuilder, BlockPlan, ChainBase, EpochStart};
use corniche_staking::MAX_BATCH_NOTICES;
use corniche_types::{
    B256, Bytes, CommitIndex, EngineConfig, Epoch, FeeRules, Genesis, Height, NextEpoch, OrderingRecord, ProtocolRules,
    SignatureChecks, SkipReason, Skipped, StakingParameters, TimestampMs, TxKind, Upgrade, ValidatorIndex, wire,
};
use std::sync::Arc;

const BLOCK_GAS: u64 = 1_000_000;

fn genesis(block_ms: u64) -> Arc<Genesis> {
    Arc::new(Genesis {
        protocol_version: ProtocolRules::LATEST.version,
        upgrades: Vec::new(),
        chain_id: 7,
        currency: "TST".into(),
        timestamp_ms: TimestampMs(0),
        block_ms,
        block_gas_limit: BLOCK_GAS,
        batch_bytes: 1 << 20,
        batch_gas: 10 * BLOCK_GAS,
        epoch_blocks: 1_000,
        fees: FeeRules { initial_base_fee: 1, target_gas_per_second: 1 },
        engine: EngineConfig { name: "test".into(), parameters: Default::default() },
        validators: Vec::new(),
        coin_shares: Vec::new(),
        coin_public_key: Bytes::new(),
        accounts: Default::default(),
        signatures: SignatureChecks::Everyone,
        staking: None,
        coin_draft: None,
        multicast: None,
    })
}

/// Transfer that declares `gas`.
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

fn blocks(genesis: &Arc<Genesis>, commits: &[Ordered]) -> Vec<BlockPlan> {
    let mut builder = BlockBuilder::new(genesis, &EpochStart::genesis(genesis), Height(0), None, Resume::default());
    commits.iter().cloned().for_each(|commit| builder.push(commit));
    drain(&mut builder)
}

fn gas_limits(plans: &[BlockPlan]) -> Vec<usize> {
    plans.iter().map(|plan| plan.ordered.len()).collect()
}

#[test]
fn block_closes_after_block_interval() {
    let genesis = under(genesis(50), |genesis| genesis.protocol_version = 3);
    let mut builder = BlockBuilder::new(&genesis, &EpochStart::genesis(&genesis), Height(0), None, Resume::default());
    builder.push(commit(1, 1_000, &[transfer(0, 21_000)]));
    assert_eq!(gas_limits(&drain(&mut builder)), [1], "the first block is long after genesis");
    builder.push(commit(2, 1_020, &[transfer(1, 21_000)]));
    builder.push(commit(3, 1_049, &[transfer(2, 21_000)]));
    assert!(builder.poll().is_none() && builder.is_open());
    // An empty commit closes an open block; it opens none.
    builder.push(commit(4, 1_050, &[]));
    let plans = drain(&mut builder);
    assert_eq!(gas_limits(&plans), [2]);
    assert_eq!((plans[0].first_commit.0, plans[0].last_commit.0, plans[0].time.0), (2, 4, 1_050));
    assert_eq!(plans[0].resume.index, CommitIndex(4));
    builder.push(commit(5, 9_000, &[]));
    assert!(builder.poll().is_none() && !builder.is_open(), "an empty commit makes no block");
}

#[test]
fn light_block_closes_sooner() {
    let size = transfer(0, 21_000).len() as u64;
    let light = ProtocolRules::LATEST.light_block_bytes;
    assert!((5..light / size).contains(&10), "ten transfers are light, and wait longer than five");
    let some = |count: u64| (0..count).map(|nonce| transfer(nonce, 21_000)).collect::<Vec<_>>();
    let share = 50 * 10 * size / light;
    // A fifth of the time, the share of the bytes, or all of it.
    for (block_ms, count, wait_ms) in [(50, 1, 10), (50, 10, share), (50, light / size + 1, 50), (1, 1, 0), (0, 10, 0)] {
        let mut builder =
            BlockBuilder::new(&genesis(block_ms), &EpochStart::genesis(&genesis(block_ms)), Height(0), None, Resume::default());
        builder.push(commit(1, 1_000, &some(1)));
        assert_eq!(gas_limits(&drain(&mut builder)), [1], "the first block is long after genesis");
        if wait_ms > 0 {
            builder.push(commit(2, 1_000 + wait_ms - 1, &some(count)));
            assert!(builder.poll().is_none(), "{count} transactions after {wait_ms} - 1 ms");
            builder.push(commit(3, 1_000 + wait_ms, &[]));
        } else {
            builder.push(commit(2, 1_000, &some(count)));
        }
        assert_eq!(gas_limits(&drain(&mut builder)), [count as usize], "{count} transactions after {wait_ms} ms");
    }
}

#[test]
fn light_blocks_begin_with_version_4() {
    let genesis = under(genesis(50), |genesis| {
        genesis.protocol_version = 3;
        genesis.upgrades = vec![Upgrade { height: 4, protocol_version: 4 }];
    });
    let commits: Vec<_> = (1..=20).map(|index| commit(index, 1_000 + 10 * index, &[transfer(index, 21_000)])).collect();
    let plans = blocks(&genesis, &commits);
    let times: Vec<_> = plans.iter().map(|plan| plan.time.0).collect();
    // Blocks 2 and 3 wait for 50 ms; later ones are light and wait for 10.
    assert_eq!(times[..7], [1_010, 1_060, 1_110, 1_120, 1_130, 1_140, 1_150]);
    check_restarts(&genesis, &commits, &plans);
}

#[test]
fn idle_chain_makes_one_block_a_minute() {
    let genesis = genesis(50);
    let mut builder = BlockBuilder::new(&genesis, &EpochStart::genesis(&genesis), Height(0), None, Resume::default());
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

    // A restart after the first block, with some idle commits behind it, closes the same block.
    let progress = Resume { index: CommitIndex(3), checkpoint: 3u64.to_be_bytes().to_vec().into(), ..Resume::default() };
    let mut restarted =
        BlockBuilder::new(&genesis, &EpochStart::genesis(&genesis), Height(1), Some(&record(&first[0])), progress);
    restarted.push(commit(4, 560_100, &[]));
    assert_eq!(drain(&mut restarted), idle);
}

#[test]
fn declared_gas_splits_commit() {
    let transactions =
        [transfer(0, 600_000), transfer(1, 400_000), transfer(2, BLOCK_GAS + 1), transfer(3, 1), transfer(4, BLOCK_GAS)];
    let build = |protocol_version| {
        let genesis = under(genesis(0), |genesis| genesis.protocol_version = protocol_version);
        blocks(&genesis, &[commit(1, 1_000, &transactions)])
    };
    // Counts 0, or its bytes, or is left out with the one that declares less than any transaction uses.
    let plans = build(1);
    assert_eq!([&plans, &build(2), &build(3)].map(|plans| gas_limits(plans)), [vec![3, 1, 1], vec![2, 2, 1], vec![2, 1]]);
    assert_eq!(plans[0].resume.index, CommitIndex(0), "commit 1 is not complete in the first block");
    assert_eq!((plans[0].last_commit_consumed, plans[1].last_commit_consumed, plans[2].last_commit_consumed), (3, 4, 5));
    assert_eq!(plans[2].resume.index, CommitIndex(1));
    assert_eq!(plans[1].batches[0].first, 3);
}

/// Ordering record of a plan, with the fields that recovery reads.
fn record(plan: &BlockPlan) -> OrderingRecord {
    OrderingRecord {
        protocol_version: 1,
        engine: "test".into(),
        epoch: Default::default(),
        committee_hash: B256::ZERO,
        next: None,
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

/// Transfers, some of them more than a batch may have, and bytes that are no transaction, from a few to too
/// many.
fn any_commits() -> Vec<Ordered> {
    let mut nonce = 0;
    let commits = (1..=40u64).map(|index| {
        let mut transactions = Vec::new();
        for step in 0..(index * 7 % 5) {
            transactions.push(transfer(nonce, 100_000 + (nonce * 137_911 + step) % 700_000));
            nonce += 1;
            if nonce % 3 == 0 {
                transactions.push(Bytes::from(vec![0; [64, 40_000, 131_072, 131_073][nonce as usize % 4]]));
            }
        }
        commit(index, 1_000 + index * 17, &transactions)
    });
    commits.collect()
}

fn under(genesis: Arc<Genesis>, change: impl FnOnce(&mut Genesis)) -> Arc<Genesis> {
    let mut genesis = Arc::unwrap_or_clone(genesis);
    change(&mut genesis);
    Arc::new(genesis)
}

/// Checks that a restart after any of the blocks makes the same ones again.
fn check_restarts(genesis: &Arc<Genesis>, commits: &[Ordered], plans: &[BlockPlan]) {
    for (height, head) in (1..).map(Height).zip(plans) {
        let mut restarted =
            BlockBuilder::new(genesis, &EpochStart::genesis(genesis), height, Some(&record(head)), head.resume.clone());
        let rest = commits.iter().filter(|commit| commit.index > head.resume.index);
        rest.cloned().for_each(|commit| restarted.push(commit));
        let continued = drain(&mut restarted);
        assert_eq!(continued[..], plans[height.0 as usize..], "restart after block {height}");
    }
}

#[test]
fn restart_makes_the_same_blocks() {
    let commits = any_commits();
    let rules: [fn(&mut Genesis); 5] = [
        |genesis| genesis.protocol_version = 2,
        |genesis| genesis.protocol_version = 1,
        |genesis| (genesis.batch_gas, genesis.protocol_version) = (BLOCK_GAS, 2),
        |genesis| {
            genesis.batch_gas = BLOCK_GAS;
            genesis.protocol_version = 1;
            genesis.upgrades = vec![Upgrade { height: 9, protocol_version: 2 }, Upgrade { height: 12, protocol_version: 3 }];
        },
        |_| {},
    ];
    let mut seen = Vec::new();
    for change in rules {
        let genesis = under(genesis(50), change);
        let plans = blocks(&genesis, &commits);
        assert!(plans.len() > 10);
        check_restarts(&genesis, &commits, &plans);
        seen.push(plans);
    }
    assert!((0..5).all(|one| (0..one).all(|other| seen[one] != seen[other])), "the rules make a difference");
    assert_eq!(seen[3][..8], seen[1][..8], "until they change");
}

/// The time of polling makes no difference.
#[test]
fn waiting_commits_make_the_same_blocks() {
    let commits = any_commits();
    let mut eager = BlockBuilder::new(&genesis(50), &EpochStart::genesis(&genesis(50)), Height(0), None, Resume::default());
    let mut blocks = Vec::new();
    for commit in commits.clone() {
        eager.push(commit);
        blocks.extend(drain(&mut eager));
    }
    let mut lazy = BlockBuilder::new(&genesis(50), &EpochStart::genesis(&genesis(50)), Height(0), None, Resume::default());
    commits.into_iter().for_each(|commit| lazy.push(commit));
    assert!(lazy.has_waiting() && lazy.delivered() == CommitIndex(40) && lazy.complete().index == CommitIndex(0));
    assert_eq!(drain(&mut lazy), blocks);
    assert!(!lazy.has_waiting() && lazy.complete() == eager.complete());
}

/// Rules under which junk is in blocks, but bounded.
fn second_rules() -> Arc<Genesis> {
    under(genesis(0), |genesis| genesis.protocol_version = 2)
}

fn bytes(plan: &BlockPlan) -> usize {
    plan.ordered.iter().map(|ordered| ordered.raw.len()).sum()
}

#[test]
fn junk_counts_by_its_bytes() {
    let junk = || Bytes::from(vec![0; 100_000]);
    // 400,000 gas each; the declared gas counts if it is higher.
    let entries = [junk(), junk(), transfer(0, 200_000), transfer(1, 1), junk()];
    for (version, blocks) in [(1, vec![5]), (2, vec![3, 2]), (3, vec![1])] {
        let genesis = under(genesis(0), |genesis| genesis.protocol_version = version);
        let mut builder = BlockBuilder::new(&genesis, &EpochStart::genesis(&genesis), Height(0), None, Resume::default());
        builder.push(commit(1, 1_000, &entries));
        assert_eq!(gas_limits(&drain(&mut builder)), blocks);
    }
}

#[test]
fn block_bytes_are_bounded() {
    let rules = &ProtocolRules::V2;
    let genesis = under(second_rules(), |genesis| genesis.block_gas_limit = 1 << 40);
    let mut builder = BlockBuilder::new(&genesis, &EpochStart::genesis(&genesis), Height(0), None, Resume::default());
    // Exactly the maximum, and one more.
    let full = rules.max_block_bytes as usize / 131_072;
    builder.push(commit(1, 1_000, &vec![Bytes::from(vec![0; 131_072]); full]));
    assert_eq!(drain(&mut builder).iter().map(bytes).collect::<Vec<_>>(), [rules.max_block_bytes as usize]);
    builder.push(commit(2, 2_000, &[vec![Bytes::from(vec![0; 131_072]); full], vec![Bytes::from(vec![0; 64])]].concat()));
    assert_eq!(drain(&mut builder).iter().map(bytes).collect::<Vec<_>>(), [rules.max_block_bytes as usize, 64]);
}

/// Every validator would hash, check and store each of them: up to 7,700 per batch.
#[test]
fn entries_that_no_transaction_can_be_are_left_out() {
    let mut builder = BlockBuilder::new(&genesis(0), &EpochStart::genesis(&genesis(0)), Height(0), None, Resume::default());
    let junk = |byte| Bytes::from(vec![byte; 64]);
    let least = transfer(1, 21_000);
    let entries = [
        junk(0),
        transfer(0, 20_999),
        least.clone(),
        junk(0xc0),
        transfer(2, BLOCK_GAS + 1),
        junk(2),
        transfer(3, BLOCK_GAS - 21_000),
        junk(1),
    ];
    builder.push(commit(1, 1_000, &entries));
    let plans = drain(&mut builder);
    let kept: Vec<_> = plans[0].ordered.iter().map(|ordered| ordered.raw.clone()).collect();
    assert_eq!((plans.len(), kept), (1, vec![least, entries[6].clone()]));
    assert_eq!(plans[0].batches.iter().map(|batch| (batch.first, batch.count)).collect::<Vec<_>>(), [(2, 1), (6, 1)]);
    assert_eq!((plans[0].last_commit_consumed, plans[0].resume.index), (8, CommitIndex(1)));
    // A commit with only such entries, or a malformed batch, makes an empty block: its certificate ends what engines keep.
    builder.push(commit(2, 2_000, &vec![junk(0xff); 7_000]));
    builder.push(Ordered { batches: vec![(ValidatorIndex(0), Batch { bytes: junk(7) })], ..commit(3, 3_000, &[]) });
    let empty = drain(&mut builder);
    assert_eq!(gas_limits(&empty), [0, 0]);
    assert_eq!(
        (empty[0].last_commit_consumed, empty[0].resume.index, empty[1].resume.index),
        (7_000, CommitIndex(2), CommitIndex(3))
    );
}

/// Recent blocks stay in memory, and each may have a few entries of a large batch.
#[test]
fn a_block_does_not_keep_its_batch_in_memory() {
    let mut builder = BlockBuilder::new(&genesis(0), &EpochStart::genesis(&genesis(0)), Height(0), None, Resume::default());
    let commit = commit(1, 1_000, &[vec![transfer(0, 21_000)], vec![Bytes::from(vec![0; 64]); 7_000]].concat());
    let batch = commit.batches[0].1.bytes.0.clone();
    builder.push(commit);
    let plans = drain(&mut builder);
    assert_eq!(gas_limits(&plans), [1]);
    assert!(batch.is_unique());
}

/// Worst case of a faulty proposer: the ordering record stays near the size of the block.
#[test]
fn junk_block_has_small_record() {
    let genesis = under(second_rules(), |genesis| genesis.block_gas_limit = 1 << 40);
    let plans = blocks(&genesis, &[commit(1, 1_000, &vec![Bytes::from(vec![0; 64]); 200_000])]);
    assert_eq!(gas_limits(&plans), [65_536, 65_536, 65_536, 3_392]);
    let skipped = Skipped { position: 0, hash: B256::ZERO, reason: SkipReason::Undecodable };
    let record = OrderingRecord { skipped: vec![skipped; 65_536], ..record(&plans[0]) };
    let most = wire::encode(&record).len() + 65_536 * wire::encode(&plans[0].batches[0]).len();
    assert!(most < 6 << 20, "{most}");
}

#[test]
fn dishonest_batch_entries_are_skipped() {
    let genesis = under(second_rules(), |genesis| genesis.batch_gas = BLOCK_GAS);
    let mut builder = BlockBuilder::new(&genesis, &EpochStart::genesis(&genesis), Height(0), None, Resume::default());
    let excess = [
        transfer(0, 600_000),
        Bytes::from(vec![0; 131_073]),
        transfer(1, 300_000),
        Bytes::from(vec![0; 64]),
        transfer(2, 100_001),
        transfer(3, 1),
    ];
    builder.push(commit(1, 1_000, &excess));
    // Another batch of the same proposer has its own gas limit.
    builder.push(commit(2, 2_000, &[transfer(4, 500_000)]));
    let plans = drain(&mut builder);
    let kept = |plan: &BlockPlan| plan.ordered.iter().map(|ordered| ordered.raw.clone()).collect::<Vec<_>>();
    assert_eq!(kept(&plans[0]), [excess[0].clone(), excess[2].clone(), excess[3].clone()]);
    assert_eq!(plans[0].batches.iter().map(|batch| (batch.first, batch.count)).collect::<Vec<_>>(), [(0, 1), (2, 2)]);
    assert_eq!((plans[0].last_commit_consumed, plans[0].resume.index), (6, CommitIndex(1)));
    assert_eq!(gas_limits(&plans[1..]), [1]);
    // A commit with only such entries makes no block.
    builder.push(commit(3, 3_000, &[Bytes::from(vec![0; 131_073])]));
    assert!(builder.poll().is_none() && !builder.is_open());
}

/// Epochs of a second, from time 0.
fn with_epochs(block_ms: u64) -> Arc<Genesis> {
    under(genesis(block_ms), |genesis| {
        genesis.staking = Some(StakingParameters { epoch_ms: 1_000, closing_ms: 250, ..StakingParameters::default() });
    })
}

/// The time, the number of transactions and the resume point of each block.
fn ends(plans: &[BlockPlan]) -> Vec<(u64, usize, Resume)> {
    plans.iter().map(|plan| (plan.time.0, plan.ordered.len(), plan.resume.clone())).collect()
}

fn after(index: u64) -> Resume {
    Resume { index: CommitIndex(index), checkpoint: index.to_be_bytes().to_vec().into(), ..Resume::default() }
}

#[test]
fn first_commit_after_the_end_closes_the_last_block() {
    let one = |index, time| commit(index, time, &[transfer(index, 21_000)]);
    let end = Resume::start_of(Epoch(1));
    // With an open block, without one, and with a commit that has transactions: at once, whatever the block interval is.
    let open = [one(1, 740), commit(2, 1_000, &[]), one(3, 1_001)];
    assert_eq!(ends(&blocks(&with_epochs(50_000), &open)), [(1_000, 1, end.clone())]);
    let idle = [commit(1, 749, &[]), commit(2, 1_700, &[])];
    assert_eq!(ends(&blocks(&with_epochs(50_000), &idle)), [(1_700, 0, end.clone())]);
    assert_eq!(ends(&blocks(&with_epochs(50_000), &[one(1, 1_000), one(2, 1_000)])), [(1_000, 1, end.clone())]);
    // A block that is closed before the end is none of the last.
    let plans = blocks(&with_epochs(0), &[one(1, 998), one(2, 999), one(3, 5_000), one(4, 5_001)]);
    assert_eq!(ends(&plans), [(998, 1, after(1)), (999, 1, after(2)), (5_000, 1, end)]);
    // Without epochs nothing of this happens.
    let never = under(with_epochs(50_000), |genesis| genesis.staking.as_mut().unwrap().epoch_ms = 0);
    assert_eq!(ends(&blocks(&never, &open)), []);
}

/// An idle chain closes a block at the freeze, where the next committee is decided.
#[test]
fn first_commit_after_the_freeze_closes_a_block() {
    let idle = [commit(1, 100, &[transfer(1, 21_000)]), commit(2, 749, &[]), commit(3, 750, &[]), commit(4, 751, &[])];
    assert_eq!(ends(&blocks(&with_epochs(0), &idle)), [(100, 1, after(1)), (750, 0, after(3))]);
    let open = [commit(1, 700, &[transfer(1, 21_000)]), commit(2, 760, &[]), commit(3, 761, &[])];
    assert_eq!(ends(&blocks(&with_epochs(50_000), &open)), [(760, 1, after(2))]);
    let end = Resume::start_of(Epoch(1));
    assert_eq!(ends(&blocks(&with_epochs(0), &[commit(1, 5_000, &[])])), [(5_000, 0, end)], "one block for both");
}

/// Where epochs end, notices are no junk. Everything else that begins like one is.
#[test]
fn notices_stay_where_epochs_end() {
    let genesis = with_epochs(0);
    let notice_for = |chain_id: u64, epoch: u64| {
        Bytes::from([&[0x7e][..], &chain_id.to_le_bytes(), &epoch.to_le_bytes(), &[0; 73]].concat())
    };
    let notice = notice_for(genesis.chain_id, 0);
    let junk = Bytes::from([&[0x7e][..], &[0; 88]].concat());
    let others = [junk, notice_for(genesis.chain_id + 1, 0), notice_for(genesis.chain_id, 1)];
    let entries = [commit(1, 100, &[&others[..], &[notice.clone(), transfer(0, 21_000)]].concat())];
    let raw = |plan: &BlockPlan| plan.ordered.iter().map(|ordered| ordered.raw.clone()).collect::<Vec<_>>();
    assert_eq!(raw(&blocks(&genesis, &entries)[0]), [notice.clone(), transfer(0, 21_000)]);
    // One batch has room for only as many as can take effect.
    let many = [commit(1, 100, &vec![notice.clone(); MAX_BATCH_NOTICES + 5])];
    assert_eq!(blocks(&genesis, &many)[0].ordered.len(), MAX_BATCH_NOTICES);
    let never = under(genesis, |genesis| genesis.staking.as_mut().unwrap().epoch_ms = 0);
    assert_eq!(raw(&blocks(&never, &entries)[0]), [transfer(0, 21_000)]);
}

/// The rest of a commit that does not fit into the last block is dropped: it belongs to no epoch.
#[test]
fn rest_of_the_commit_that_ends_an_epoch_is_dropped() {
    let large: Vec<Bytes> = (0..5).map(|nonce| transfer(nonce, BLOCK_GAS / 2)).collect();
    let plans = blocks(&with_epochs(50), &[commit(1, 1_200, &large), commit(2, 1_300, &large)]);
    assert_eq!(ends(&plans), [(1_200, 2, Resume::start_of(Epoch(1)))]);
    assert_eq!(plans[0].last_commit_consumed, 2);
    // A block that was open before the end is not the last one, even if the commit after the end closes it.
    let full = commit(1, 990, &[transfer(9, BLOCK_GAS)]);
    let plans = blocks(&with_epochs(50_000), &[full, commit(2, 1_200, &large)]);
    assert_eq!(ends(&plans), [(990, 1, after(1)), (1_200, 2, Resume::start_of(Epoch(1)))]);
    let mut builder =
        BlockBuilder::new(&with_epochs(50), &EpochStart::genesis(&with_epochs(50)), Height(0), None, Resume::default());
    builder.push(commit(1, 1_200, &large));
    assert_eq!(drain(&mut builder).len(), 1);
    assert!(builder.has_ended() && !builder.is_open() && !builder.has_waiting());
    builder.push(commit(2, 1_300, &large));
    assert!(builder.has_ended() && !builder.is_open() && !builder.has_waiting() && builder.poll().is_none());
}

/// The next epoch counts its commits from 1, and ends an epoch's length after the last block's time.
#[test]
fn next_epoch_begins_at_the_last_block() {
    let genesis = with_epochs(0);
    let last = &blocks(&genesis, &[commit(1, 1_700, &[transfer(0, 21_000)])])[0];
    let mut head = record(last);
    head.next = Some(NextEpoch { committee_hash: B256::repeat_byte(7), light_root: B256::ZERO, protocol_version: 5 });
    let start = EpochStart::after(&head).unwrap();
    assert_eq!((start.epoch, start.time, start.randomness), (Epoch(1), TimestampMs(1_700), last.randomness));
    assert_eq!(start.committee_hash, B256::repeat_byte(7));
    let mut builder = BlockBuilder::new(&genesis, &start, Height(1), Some(&head), last.resume.clone());
    assert_eq!(builder.next_step(), Some(TimestampMs(2_450)));
    assert!(!builder.is_block_due(TimestampMs(2_449)) && builder.is_block_due(TimestampMs(2_450)));
    builder.push(commit(1, 2_699, &[transfer(1, 21_000)]));
    let resumed = Resume { epoch: Epoch(1), ..after(1) };
    assert_eq!(ends(&drain(&mut builder)), [(2_699, 1, resumed)]);
    assert_eq!(builder.next_step(), Some(TimestampMs(2_700)));
    assert!(!builder.is_block_due(TimestampMs(2_699)) && builder.is_block_due(TimestampMs(2_700)));
    builder.push(commit(2, 2_700, &[]));
    assert_eq!(ends(&drain(&mut builder)), [(2_700, 0, Resume::start_of(Epoch(2)))]);
    assert_eq!(builder.next_step(), None);
    // The search finds the beginning again, from the records of the blocks.
    let find = |epoch, head_height| {
        EpochStart::find(ChainBase::genesis(&genesis), Epoch(epoch), Height(head_height), |_| head.clone())
    };
    assert_eq!((find(0, 1), find(1, 1)), (EpochStart::genesis(&genesis), start));
}
