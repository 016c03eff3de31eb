//! Speculative execution: results are adopted exactly when they hold.
#![allow(clippy::unwrap_used)] // also in helpers

mod support;

use alloy_primitives::{Address, B256, Bytes, U256};
use corniche_executor::{
    BlockOutput, Candidate, Recorded, Recorder, Runs, SingleThread, SpeculationLimits, Speculator, Statistics, parallel,
    serial, verify_ordered,
};
use corniche_types::ValidatorIndex;
use corniche_vm::BlockEnv;
use support::program::Op::{Load, Log, Set, SkipIfZero, Store};
use support::test_chain::{TestChain, block, call};
use support::{BASE_FEE, CHAIN_ID, FEE_ADDRESSES, Node, addition, candidates, draft, key, workload};

/// Offers and runs all transactions, like an idle node.
fn speculate(node: &Node, speculator: &mut Speculator, offered: &[Candidate]) {
    for candidate in offered {
        speculator.enqueue(candidate.author, [candidate.raw.clone()]);
    }
    run_waiting(node, speculator);
}

fn run_waiting(node: &Node, speculator: &mut Speculator) {
    let state = node.state.latest();
    while speculator.repair(&node.vm, &state, &node.env()) {}
    while let Some(waiting) = speculator.next_waiting() {
        let Ok(transaction) = verify_ordered(&waiting.raw, CHAIN_ID) else { continue };
        let tip_to = FEE_ADDRESSES[waiting.author.as_usize()];
        speculator.run(&node.vm, &state, &node.env(), waiting.author, &transaction, tip_to);
    }
}

/// Executes a block with its speculative results, compares with serial execution, and appends it.
fn execute(node: &mut Node, speculator: &mut Speculator, block: &[Candidate]) -> (BlockOutput, Statistics) {
    let env = node.env();
    execute_in(node, speculator, &env, block)
}

fn execute_in(node: &mut Node, speculator: &mut Speculator, env: &BlockEnv, block: &[Candidate]) -> (BlockOutput, Statistics) {
    let recorded = block.iter().map(|candidate| speculator.take(candidate)).collect();
    let state = node.state.latest();
    let (output, Runs { statistics, .. }) =
        parallel::execute_block(&node.vm, &state, env, block, &FEE_ADDRESSES, &SingleThread, recorded);
    assert_eq!(output, serial::execute_block(&node.vm, &state, env, block, &FEE_ADDRESSES));
    let height = node.state.head().unwrap().next();
    node.state.apply(height, &output.changes);
    speculator.retire(block, statistics.adopted == statistics.transactions);
    (output, statistics)
}

fn transfers(nonces: std::ops::Range<u64>) -> Vec<Bytes> {
    let transfer = |nonce: u64| {
        let from = (nonce % 4) as u8;
        key(from).sign(alloy_consensus::TxEip1559 { value: U256::from(1), ..draft(nonce / 4, Address::repeat_byte(0xaa)) })
    };
    nonces.map(transfer).collect()
}

/// S2: in the order in which they were seen, no transaction runs again, although each depends on its predecessor.
#[test]
fn expected_order_is_adopted_without_run() {
    let mut node = Node::new();
    let mut speculator = Speculator::new(SpeculationLimits::default());
    let all = candidates(&transfers(0..24));
    speculate(&node, &mut speculator, &all);
    assert_eq!(speculator.kept(), 24);
    for block in all.chunks(8) {
        let (_, statistics) = execute(&mut node, &mut speculator, block);
        assert_eq!((statistics.adopted, statistics.executions), (8, 0), "the second block continues what is provisional");
    }
    assert_eq!((speculator.kept(), speculator.waiting()), (0, 0));
}

/// A block in another second has another base fee, so every later balance differs from the prediction. Results built on
/// the wrong balances are repaired before new transactions run; otherwise no later result would hold.
#[test]
fn repair_after_unexpected_block() {
    let mut node = Node::new();
    let mut speculator = Speculator::new(SpeculationLimits::default());
    let all = candidates(&transfers(0..40));
    speculate(&node, &mut speculator, &all[..32]);
    let later = BlockEnv { base_fee: BASE_FEE + 1, ..node.env() };
    let (_, statistics) = execute_in(&mut node, &mut speculator, &later, &all[..8]);
    assert_eq!((statistics.adopted, statistics.executions), (0, 8));
    let state = node.state.latest();
    while speculator.repair(&node.vm, &state, &later) {}
    assert_eq!(speculator.kept(), 24);
    drop(state);
    for block in all[8..32].chunks(8) {
        let (_, statistics) = execute_in(&mut node, &mut speculator, &later, block);
        assert_eq!((statistics.adopted, statistics.executions), (8, 0));
    }
}

/// S6: the thread checks for ordered work between steps, so a step runs at most one transaction.
#[test]
fn repair_step_runs_one_transaction() {
    let mut node = Node::new();
    let mut speculator = Speculator::new(SpeculationLimits::default());
    let all = candidates(&transfers(0..40));
    speculate(&node, &mut speculator, &all);
    // With another base fee, none of the remaining 32 results holds.
    let later = BlockEnv { base_fee: BASE_FEE + 1, ..node.env() };
    execute_in(&mut node, &mut speculator, &later, &all[..8]);
    let state = node.state.latest();
    let mut steps = 0;
    loop {
        let before = speculator.counts().runs;
        let repaired = speculator.repair(&node.vm, &state, &later);
        let runs = speculator.counts().runs - before;
        assert!(runs <= 1, "{runs} runs in step {steps}");
        if !repaired {
            break;
        }
        steps += 1;
    }
    assert_eq!((steps, speculator.kept()), (32, 32), "all are run again");
    // Now all of them hold, and checking them needs no run.
    speculator.retire(&[], false);
    let before = speculator.counts().runs;
    let steps = std::iter::repeat_with(|| speculator.repair(&node.vm, &state, &later)).take_while(|repaired| *repaired).count();
    assert_eq!((steps, speculator.counts().runs - before), (2, 0));
}

/// S2, S5: in another order and mixed with other transactions, results that do not hold run again. The output equals
/// the serial one.
#[test]
fn unexpected_order_reruns_only_conflicts() {
    let mut adopted = 0;
    let mut executed = 0;
    for seed in 0..40 {
        let mut node = Node::new();
        let mut speculator = Speculator::new(SpeculationLimits::default());
        for (number, raws) in workload(seed).into_iter().enumerate() {
            let block = candidates(&raws);
            // Seen in another order, and not all of them.
            let mut seen: Vec<Candidate> =
                block.iter().enumerate().filter(|(at, _)| at % 5 != 3).map(|(_, c)| c.clone()).collect();
            let turn = (seed as usize + number) % seen.len().max(1);
            seen.rotate_left(turn);
            speculate(&node, &mut speculator, &seen);
            let (_, statistics) = execute(&mut node, &mut speculator, &block);
            adopted += statistics.adopted;
            executed += statistics.executions;
        }
    }
    assert!(adopted > 100 && executed > 100, "both happen: {adopted} adopted, {executed} run");
}

/// A result that depends on a transaction which was not ordered before it must not be adopted.
#[test]
fn stale_result_is_not_adopted() {
    let mut node = Node::new();
    let contract = key(0).address().create(0);
    node.append(&[key(0).sign(support::deployment(0))]);
    let mut speculator = Speculator::new(SpeculationLimits::default());
    let first = key(1).sign(addition(0, contract, 0, 1, 5));
    let second = key(2).sign(addition(0, contract, 0, 1, 7));
    let seen = candidates(&[first, second.clone()]);
    speculate(&node, &mut speculator, &seen);
    // The first is never ordered; the second returned 12 in speculation.
    let block = candidates(&[second]);
    let recorded: Vec<_> = block.iter().map(|candidate| speculator.take(candidate)).collect();
    let tried = recorded[0].clone().unwrap().outcome.unwrap().receipt.output;
    assert_eq!(tried.last(), Some(&12));
    let state = node.state.latest();
    let (output, runs) =
        parallel::execute_block(&node.vm, &state, &node.env(), &block, &FEE_ADDRESSES, &SingleThread, recorded);
    let Runs { statistics, .. } = runs;
    assert_eq!(output.receipts[0].output.last(), Some(&7));
    assert_eq!((statistics.adopted, statistics.executions), (0, 1));
}

/// A result that depends on a block's randomness does not hold in a block with another one.
#[test]
fn changed_randomness_forces_rerun() {
    const DRAW: &str = r#"(module
        (import "vm_hooks" "write_result" (func $write_result (param i32 i32)))
        (import "corniche" "block_randomness" (func $randomness (param i32)))
        (memory (export "memory") 1 1)
        (func (export "user_entrypoint") (param i32) (result i32)
            (call $randomness (i32.const 0)) (call $write_result (i32.const 0) (i32.const 32)) (i32.const 0)))"#;
    let mut node = Node::new();
    let contract = key(0).address().create(0);
    let deployment = alloy_consensus::TxEip1559 { input: wat::parse_str(DRAW).unwrap().into(), ..support::deployment(0) };
    node.append(&[key(0).sign(deployment)]);
    for (randomness, adopted) in [(B256::ZERO, 1), (B256::repeat_byte(3), 0)] {
        let mut speculator = Speculator::new(SpeculationLimits::default());
        let nonce = node.account(&key(1).address()).nonce;
        let block = candidates(&[key(1).sign(draft(nonce, contract))]);
        speculate(&node, &mut speculator, &block);
        let env = BlockEnv { randomness, ..node.env() };
        let (output, statistics) = execute_in(&mut node, &mut speculator, &env, &block);
        assert_eq!(output.receipts[0].output[..], randomness[..]);
        assert_eq!((statistics.adopted, statistics.executions), (adopted, 1 - adopted));
    }
}

/// S5: an author cannot exceed its share or affect others. Ordered and expired transactions free their share.
#[test]
fn author_share_is_limited() {
    let mut node = Node::new();
    let limits = SpeculationLimits { transactions_per_author: 3, blocks: 2, ..SpeculationLimits::default() };
    let mut speculator = Speculator::new(limits);
    let of = |author: u16, raws: &[Bytes]| -> Vec<Candidate> {
        let candidate = |candidate: Candidate| Candidate { author: ValidatorIndex(author), ..candidate };
        candidates(raws).into_iter().map(candidate).collect()
    };
    let raws = transfers(0..16);
    let greedy = of(0, &raws[..8]);
    for candidate in &greedy {
        speculator.enqueue(candidate.author, [candidate.raw.clone()]);
    }
    assert_eq!(speculator.waiting(), 3, "the youngest are passed over");
    speculator.enqueue(ValidatorIndex(1), [raws[8].clone()]);
    assert_eq!(speculator.waiting(), 4);
    run_waiting(&node, &mut speculator);
    assert_eq!(
        (speculator.waiting(), speculator.kept()),
        (0, 3),
        "the other author's nonce was not its turn: skipped, not kept"
    );
    speculator.enqueue(ValidatorIndex(0), [raws[9].clone()]);
    assert_eq!(speculator.waiting(), 0, "results count");
    execute(&mut node, &mut speculator, &greedy[..1]);
    speculator.enqueue(ValidatorIndex(0), [raws[9].clone()]);
    assert_eq!((speculator.waiting(), speculator.kept()), (1, 2));
    while speculator.next_waiting().is_some() {}
    for _ in 0..3 {
        execute(&mut node, &mut speculator, &[]);
    }
    assert_eq!(speculator.kept(), 0, "no block asked for them");
    speculate(&node, &mut speculator, &of(0, &raws[1..2]));
    assert_eq!(speculator.kept(), 1, "and there is room again");
}

/// S5: a result that runs again counts with its new size. The transaction logs only if another one ran before it.
#[test]
fn rerun_updates_size_of_result() {
    let ops = [vec![Load(1), SkipIfZero(12)], vec![Log; 12]].concat();
    let grows = block(&[key(0).sign(call(0, 0, &ops))]).remove(0);
    let opens = block(&[key(1).sign(call(0, 0, &[Set(1), Store(1)]))]);
    let next = key(2).sign(call(0, 0, &[Load(2)]));
    let transaction = grows.verified.clone().unwrap();
    let bytes_now = |chain: &TestChain| {
        let (view, env) = (chain.snapshot(), chain.env());
        let recorded = Recorded::run(&chain.vm, &Recorder::new(&view), &env, &transaction, chain.fees()[0]).unwrap();
        recorded.memory_bytes() + grows.raw.len()
    };
    let mut chain = TestChain::new();
    let small = bytes_now(&chain);
    let output = chain.serial(&opens);
    let closed = chain.snapshot();
    chain.append(&output.changes);
    let large = bytes_now(&chain);
    assert!(small + next.len() <= large, "there was room for another one: {small} and {} in {large}", next.len());

    for (share, fits) in [(large, true), (large - 1, false)] {
        let mut speculator = Speculator::new(SpeculationLimits { bytes_per_author: share, ..SpeculationLimits::default() });
        let env = chain.env();
        let waiting = |speculator: &mut Speculator| {
            let before = speculator.waiting();
            speculator.enqueue(grows.author, [next.clone()]);
            let took = speculator.waiting() > before;
            while speculator.next_waiting().is_some() {}
            took
        };
        speculator.run(&chain.vm, &closed, &env, grows.author, &transaction, chain.fees()[0]);
        assert_eq!(speculator.kept(), 1);
        assert!(waiting(&mut speculator), "a small result leaves room");
        // Another block satisfies the condition, and the transaction runs again.
        speculator.retire(&opens, false);
        while speculator.repair(&chain.vm, &chain.snapshot(), &env) {}
        assert_eq!(speculator.kept(), usize::from(fits), "no author keeps more than its share");
        assert_eq!(waiting(&mut speculator), !fits, "and a large one does not");
        if fits {
            let taken = speculator.take(&grows).unwrap();
            assert_eq!(taken.outcome.unwrap().receipt.logs.len(), 12);
            assert!(waiting(&mut speculator), "what was taken does not count");
        }
    }
}

/// A share of zero disables speculation.
#[test]
fn speculation_can_be_disabled() {
    let node = Node::new();
    let mut speculator = Speculator::new(SpeculationLimits { transactions_per_author: 0, ..SpeculationLimits::default() });
    speculate(&node, &mut speculator, &candidates(&transfers(0..4)));
    assert_eq!((speculator.waiting(), speculator.kept()), (0, 0));
}
