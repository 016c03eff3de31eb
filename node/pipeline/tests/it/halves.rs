//! The two halves of execution, run separately: the blocks are the same for any distance between them.

use crate::common::{CHAIN, genesis, user, vm};
use alloy_consensus::TxEip1559;
use corniche_engine::Resume;
use corniche_executor::{SpeculationLimits, Statistics, serial, verify_ordered};
use corniche_pipeline::{
    BlockPlan, EpochStart, Executed, ExecutionStage, ExecutionStart, Runner, Sealer, UnsealedBlock, verify_all,
};
use corniche_staking::genesis_changes;
use corniche_state::{Changes, CommittedBlock, State, StateView, Tree};
use corniche_types::{
    Address, B256, Bytes, CommitIndex, Header, Height, KnownVersions, OrderedTransaction, TimestampMs, TxKind, U256,
    ValidatorIndex, certified, header_hash, keccak256,
};
use corniche_vm::Vm;
use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng, SeedableRng},
};
use std::{
    collections::VecDeque,
    sync::{Arc, mpsc},
};

const BLOCKS: u64 = 12;

/// Start after `blocks`, using only data that a store has.
fn start_after(blocks: &[Arc<CommittedBlock>]) -> ExecutionStart {
    let genesis = genesis(4);
    let (state, mut tree) = (State::default(), Tree::default());
    let changes = genesis_changes(&genesis);
    state.apply(Height(0), &changes);
    let mut head = genesis.header(tree.apply(&changes));
    let mut hashes = vec![header_hash(&head)];
    for block in blocks {
        state.apply(block.block.height(), &block.changes);
        tree.apply(&block.changes);
        head = block.block.header.clone();
        hashes.push(block.block.hash());
    }
    let of_second = blocks.iter().map(|block| &block.block.header).filter(|header| header.timestamp == head.timestamp);
    let gas_in_second = of_second.map(|header| header.gas_used).sum();
    let hashes = hashes.split_off(hashes.len().saturating_sub(64));
    let epoch = EpochStart::genesis(&genesis);
    ExecutionStart { state, tree, head, epoch, known: KnownVersions::default(), gas_in_second, hashes }
}

fn stage_after(vm: &Vm, blocks: &[Arc<CommittedBlock>]) -> ExecutionStage {
    ExecutionStage::new(Arc::new(genesis(4)), vm.clone(), start_after(blocks))
}

/// Numbers that are a function of the seed.
struct Numbers(SplitMix64);

impl Numbers {
    fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed))
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64() % bound
    }
}

/// Blocks of transfers, each depending on the nonces and balances after the ones before. Some transactions
/// are ordered twice, some too early, some are junk. Several blocks share a second, so that the base fee
/// depends on the gas of all of them.
fn plans(seed: u64) -> Vec<BlockPlan> {
    let mut numbers = Numbers::new(seed);
    let (mut nonce, mut time) = (0, 1_000_000);
    (1..=BLOCKS)
        .map(|index| {
            time += numbers.below(900);
            let ordered = (0..1 + numbers.below(6)).map(|_| {
                let raw = match numbers.below(8) {
                    0 => Bytes::from_static(b"junk"),
                    1 => transfer(nonce + 3, &mut numbers),
                    2 => transfer(nonce.saturating_sub(1), &mut numbers),
                    _ => {
                        nonce += 1;
                        transfer(nonce - 1, &mut numbers)
                    }
                };
                OrderedTransaction { author: ValidatorIndex(numbers.below(4) as u16), raw }
            });
            BlockPlan {
                ordered: ordered.collect(),
                batches: Vec::new(),
                first_commit: CommitIndex(index),
                last_commit: CommitIndex(index),
                last_commit_consumed: 0,
                leader: ValidatorIndex(numbers.below(4) as u16),
                time: TimestampMs(time),
                randomness: B256::with_last_byte(numbers.below(256) as u8),
                resume: Resume { index: CommitIndex(index), checkpoint: Bytes::new(), ..Resume::default() },
            }
        })
        .collect()
}

fn transfer(nonce: u64, numbers: &mut Numbers) -> Bytes {
    user().sign(TxEip1559 {
        chain_id: CHAIN,
        nonce,
        gas_limit: 100_000,
        max_fee_per_gas: 1_000_000,
        max_priority_fee_per_gas: numbers.below(3).into(),
        to: TxKind::Call(Address::with_last_byte(numbers.below(5) as u8 + 1)),
        value: U256::from(numbers.below(1_000)),
        ..TxEip1559::default()
    })
}

/// Executes ahead and seals behind, at distances chosen by the seed.
fn run_and_seal_apart(seed: u64, runner: &mut Runner, sealer: &mut Sealer, plans: Vec<BlockPlan>) -> Vec<Executed> {
    let mut numbers = Numbers::new(!seed);
    let (mut plans, mut waiting) = (VecDeque::from(plans), VecDeque::<UnsealedBlock>::new());
    let mut sealed = Vec::new();
    while !plans.is_empty() || !waiting.is_empty() {
        if numbers.below(2) == 0 {
            waiting.extend(plans.pop_front().map(|plan| runner.run(plan, verify_all)));
        } else {
            sealed.extend(waiting.pop_front().map(|ran| sealer.seal(ran)));
        }
    }
    sealed
}

fn assert_same(ours: &[Executed], judge: &[Executed]) {
    assert_eq!(ours.len(), judge.len());
    for (ours, judge) in ours.iter().zip(judge) {
        assert_eq!(ours.committed, judge.committed);
        assert_eq!(ours.hash, judge.hash);
        let returned = |executed: &Executed| {
            executed.returned.iter().map(|(author, transaction)| (*author, transaction.hash())).collect::<Vec<_>>()
        };
        assert_eq!(returned(ours), returned(judge));
    }
}

/// Checks all chain invariants, computed independently from the blocks alone.
fn assert_chain(blocks: &[Executed]) {
    let ExecutionStart { mut tree, head, .. } = start_after(&[]);
    let mut parent: (Header, B256) = (head.clone(), header_hash(&head));
    for executed in blocks {
        let header = &executed.committed.block.header;
        assert_eq!(header.state_root, tree.apply(&executed.committed.changes), "the root is of this block's state");
        assert_eq!((header.number, header.parent_hash), (parent.0.number + 1, parent.1));
        assert_eq!(header_hash(header), executed.hash);
        parent = (header.clone(), executed.hash);
    }
}

#[test]
fn separate_stages_make_the_same_blocks() {
    let vm = vm();
    let (mut skipped, mut returned, mut fees) = (0, 0, std::collections::BTreeSet::new());
    for seed in 0..40 {
        let mut stage = stage_after(&vm, &[]);
        let judge: Vec<Executed> = plans(seed).into_iter().map(|plan| stage.execute(plan, verify_all)).collect();
        assert_chain(&judge);
        let (mut runner, mut sealer) = stage_after(&vm, &[]).split();
        assert_same(&run_and_seal_apart(seed, &mut runner, &mut sealer, plans(seed)), &judge);
        skipped += judge.iter().map(|block| block.committed.block.ordering.skipped.len()).sum::<usize>();
        returned += judge.iter().map(|block| block.returned.len()).sum::<usize>();
        fees.extend(judge.iter().map(|block| block.committed.block.header.base_fee_per_gas));
    }
    assert!(
        skipped > 100 && returned > 20 && fees.len() > 3,
        "{skipped} skipped, {returned} returned, {} base fees",
        fees.len()
    );
}

/// Rules S1 to S6: with speculative runs in any order, the blocks equal those of serial execution.
/// Transactions verified early are not verified again.
#[test]
fn early_execution_makes_the_same_blocks() {
    let vm = vm();
    let (mut taken, mut checked_again) = (Statistics::default(), 0);
    for seed in 300..340 {
        let mut stage = stage_after(&vm, &[]);
        let serially = |plan| {
            stage.execute_with(plan, verify_all, |view, env, candidates, fee_addresses| {
                serial::execute_block(&vm, view, env, candidates, fee_addresses)
            })
        };
        let judge: Vec<Executed> = plans(seed).into_iter().map(serially).collect();
        let (runner, mut sealer) = stage_after(&vm, &[]).split();
        let mut runner = runner.with_speculation(SpeculationLimits::default());
        let mut numbers = Numbers::new(seed ^ 0xea71);
        let mut sealed = Vec::new();
        for plan in plans(seed) {
            // Some transactions are offered, with another author or in another order; some of those run in
            // time.
            let mut seen: Vec<&OrderedTransaction> = plan.ordered.iter().filter(|_| numbers.below(4) != 0).collect();
            if numbers.below(4) == 0 {
                seen.reverse();
            }
            for ordered in seen {
                let author = if numbers.below(8) == 0 { ValidatorIndex(0) } else { ordered.author };
                runner.offer(author, vec![ordered.raw.clone()]);
            }
            for _ in 0..numbers.below(10) {
                runner.speculate(plan.time.0 / 1_000, verify_ordered);
            }
            let early = runner.speculated();
            let ran = runner.run(plan, |unknown, chain_id| {
                checked_again += unknown.iter().filter(|one| early.contains(&keccak256(&one.raw))).count();
                verify_all(unknown, chain_id)
            });
            sealed.push(sealer.seal(ran));
        }
        assert_same(&sealed, &judge);
        taken += *runner.statistics();
    }
    assert!(taken.adopted > 200 && taken.executions > 200, "both happen: {taken:?}");
    assert_eq!(checked_again, 0);
}

/// As in a node: one thread each, with a short queue between them.
#[test]
fn threaded_stages_make_the_same_blocks() {
    let vm = vm();
    for seed in 100..110 {
        let mut stage = stage_after(&vm, &[]);
        let judge: Vec<Executed> = plans(seed).into_iter().map(|plan| stage.execute(plan, verify_all)).collect();
        let (mut runner, mut sealer) = stage_after(&vm, &[]).split();
        let (sender, receiver) = mpsc::sync_channel(2);
        let sealed = std::thread::scope(|scope| {
            let sealing = scope.spawn(move || receiver.iter().map(|ran| sealer.seal(ran)).collect::<Vec<_>>());
            plans(seed).into_iter().for_each(|plan| sender.send(runner.run(plan, verify_all)).unwrap());
            drop(sender);
            sealing.join().unwrap()
        });
        assert_same(&sealed, &judge);
    }
}

/// A node stops with some blocks executed, some sealed, and only some on disk. Ordering the rest again, from
/// the disk alone, makes the same blocks: unwritten blocks are not needed, and nothing is lost.
#[test]
fn crash_between_stages_loses_nothing() {
    let vm = vm();
    for seed in 200..230 {
        let mut numbers = Numbers::new(seed ^ 0x5eed);
        let mut stage = stage_after(&vm, &[]);
        let judge: Vec<Executed> = plans(seed).into_iter().map(|plan| stage.execute(plan, verify_all)).collect();
        let run = 1 + numbers.below(BLOCKS) as usize;
        let sealed = numbers.below(run as u64 + 1) as usize;
        let appended = numbers.below(sealed as u64 + 1) as usize;
        let (mut runner, mut sealer) = stage_after(&vm, &[]).split();
        let ran: Vec<UnsealedBlock> = plans(seed).into_iter().take(run).map(|plan| runner.run(plan, verify_all)).collect();
        let before: Vec<Executed> = ran.into_iter().take(sealed).map(|ran| sealer.seal(ran)).collect();
        assert_same(&before, &judge[..sealed]);
        drop((runner, sealer));
        let disk: Vec<Arc<CommittedBlock>> = before[..appended].iter().map(|block| block.committed.clone()).collect();
        let (mut runner, mut sealer) = stage_after(&vm, &disk).split();
        let after = run_and_seal_apart(seed, &mut runner, &mut sealer, plans(seed).split_off(appended));
        assert_same(&after, &judge[appended..]);
    }
}

/// The given number of consecutive blocks, most of them empty.
fn long_plans(blocks: u64) -> Vec<BlockPlan> {
    let mut plans = plans(7);
    for index in plans.len() as u64 + 1..=blocks {
        let before = plans.last().unwrap();
        plans.push(BlockPlan {
            ordered: Vec::new(),
            first_commit: CommitIndex(index),
            last_commit: CommitIndex(index),
            time: TimestampMs(before.time.0 + 400),
            randomness: keccak256(before.randomness),
            resume: Resume { index: CommitIndex(index), checkpoint: Bytes::new(), ..Resume::default() },
            ..before.clone()
        });
    }
    plans
}

/// Hash of the header with this number; 0 is the genesis.
fn hash_of(number: u64, blocks: &[Executed]) -> B256 {
    match number.checked_sub(1) {
        None => header_hash(&start_after(&[]).head),
        Some(at) => header_hash(&blocks[at as usize].committed.block.header),
    }
}

/// Header hashes in the state after these blocks, by number.
fn certified_in(blocks: &[Executed]) -> Vec<(u64, B256)> {
    let state = start_after(&blocks.iter().map(|block| block.committed.clone()).collect::<Vec<_>>()).state;
    let find = |number| state.latest().storage(&certified::ADDRESS, &certified::slot(number));
    (0..blocks.len() as u64 + 2).map(|number| (number, find(number))).filter(|(_, hash)| !hash.is_zero()).collect()
}

/// From the 64th block on, each block ends by writing the hash of the header 64 below it, and writes nothing
/// else there.
#[test]
fn blocks_reference_certified_headers() {
    let vm = vm();
    let mut stage = stage_after(&vm, &[]);
    let blocks: Vec<Executed> = long_plans(150).into_iter().map(|plan| stage.execute(plan, verify_all)).collect();
    assert_chain(&blocks);
    for length in [63, 64, 65, 150] {
        let expected: Vec<_> =
            (0..(length as u64 + 1).saturating_sub(64)).map(|number| (number, hash_of(number, &blocks))).collect();
        assert_eq!(certified_in(&blocks[..length]), expected, "after {length} blocks");
    }
    assert!(blocks[20..63].iter().all(|block| block.committed.changes == Default::default()));
    for (at, block) in blocks.iter().enumerate().skip(63) {
        let number = at as u64 + 1 - 64;
        let written = [((certified::ADDRESS, certified::slot(number)), hash_of(number, &blocks))];
        assert_eq!(block.committed.changes, Changes { storage: written.into(), ..Changes::default() }, "block {}", at + 1);
    }
}

/// The ring wraps around: a hash replaces the one a window below it. The blocks are empty, to save time.
#[test]
fn header_hashes_are_kept_for_a_window() {
    let vm = vm();
    let mut stage = stage_after(&vm, &[]);
    let mut hashes = vec![hash_of(0, &[])];
    let mut plan = long_plans(BLOCKS + 1).pop().unwrap();
    let slot = (certified::ADDRESS, certified::slot(3));
    let mut found = Vec::new();
    for height in 1..=certified::WINDOW + 3 + 64 {
        plan.time.0 += 1_000;
        let executed = stage.execute(plan.clone(), verify_all);
        hashes.push(executed.hash);
        found.extend(executed.committed.changes.storage.get(&slot).map(|hash| (height, *hash)));
    }
    let again = 3 + certified::WINDOW;
    assert_eq!(found, [(67, hashes[3]), (again + 64, hashes[again as usize])]);
}

/// For any distance of the halves below the depth, and for any restart point.
#[test]
fn restart_references_the_same_headers() {
    let vm = vm();
    let mut stage = stage_after(&vm, &[]);
    let judge: Vec<Executed> = long_plans(200).into_iter().map(|plan| stage.execute(plan, verify_all)).collect();
    for distance in [1, 6, 63] {
        let (mut runner, mut sealer) = stage_after(&vm, &[]).split();
        let (mut waiting, mut sealed) = (VecDeque::new(), Vec::new());
        for plan in long_plans(200) {
            waiting.push_back(runner.run(plan, verify_all));
            if waiting.len() > distance {
                sealed.extend(waiting.pop_front().map(|ran| sealer.seal(ran)));
            }
        }
        sealed.extend(waiting.into_iter().map(|ran| sealer.seal(ran)));
        assert_same(&sealed, &judge);
    }
    for stored in [0, 1, 62, 63, 64, 65, 127, 128, 199] {
        let disk: Vec<Arc<CommittedBlock>> = judge[..stored].iter().map(|block| block.committed.clone()).collect();
        let mut stage = stage_after(&vm, &disk);
        let after: Vec<Executed> =
            long_plans(200).split_off(stored).into_iter().map(|plan| stage.execute(plan, verify_all)).collect();
        assert_same(&after, &judge[stored..]);
    }
}

#[test]
#[should_panic(expected = "less than 64 ahead of what was sealed")]
fn runner_too_far_ahead_does_not_wait() {
    let (mut runner, _sealer) = stage_after(&vm(), &[]).split();
    for plan in long_plans(65) {
        runner.run(plan, verify_all);
    }
}

#[test]
#[should_panic(expected = "starts with the hashes of the last 64 headers")]
fn execution_waits_for_header_hashes() {
    let vm = vm();
    let mut stage = stage_after(&vm, &[]);
    let blocks: Vec<_> = long_plans(70).into_iter().map(|plan| stage.execute(plan, verify_all).committed).collect();
    let mut start = start_after(&blocks);
    start.hashes.remove(0);
    ExecutionStage::new(Arc::new(genesis(4)), vm, start);
}

#[test]
#[should_panic(expected = "in the order they were run")]
fn block_out_of_order_is_not_sealed() {
    let (mut runner, mut sealer) = stage_after(&vm(), &[]).split();
    let mut ran: Vec<UnsealedBlock> = plans(1).into_iter().take(2).map(|plan| runner.run(plan, verify_all)).collect();
    sealer.seal(ran.remove(1));
}
