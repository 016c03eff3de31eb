//! Compares serial with parallel execution in interleaved runs of equal blocks: medians of wall time and of total CPU
//! time.
//!
//! ```text
//! cargo bench -p corniche-executor --bench blocks [-- TRANSACTIONS ROUNDS]
//! ```
#![allow(clippy::unwrap_used, clippy::print_stdout)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // a benchmark has clocks and threads

#[path = "../tests/support/mod.rs"]
mod support;

use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, B256, Bytes, TxKind, U256, keccak256};
use corniche_crypto::EthereumKey;
use corniche_executor::{BlockOutput, Candidate, SingleThread, Statistics, WorkerPool, parallel, serial};
use corniche_state::{Account, Changes, Snapshot, State};
use corniche_types::Height;
use corniche_vm::wasm::THREAD_STACK_BYTES;
use corniche_vm::{BlockEnv, NoCache, Vm, VmConfig};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use support::{CHAIN_ID, candidates, draft};

/// transfer(to, amount): two balances of 64 bits and a log of three topics.
const TOKEN: &str = r#"(module
  (import "vm_hooks" "read_args" (func $read_args (param i32)))
  (import "vm_hooks" "msg_sender" (func $sender (param i32)))
  (import "vm_hooks" "storage_load_bytes32" (func $load (param i32 i32)))
  (import "vm_hooks" "storage_cache_bytes32" (func $cache (param i32 i32)))
  (import "vm_hooks" "storage_flush_cache" (func $flush (param i32)))
  (import "vm_hooks" "emit_log" (func $log (param i32 i32 i32)))
  (memory (export "memory") 1 1)
  ;; 0 selector, 4 to, 36 amount (its low 64 bits at 60), 128 topic, 160 from, 192 to, 224 amount, 256 and 288 balances
  (func (export "user_entrypoint") (param $length i32) (result i32)
    (local $amount i64)
    (call $read_args (i32.const 0))
    (call $sender (i32.const 172))
    (i64.store (i32.const 192) (i64.load (i32.const 4)))
    (i64.store (i32.const 200) (i64.load (i32.const 12)))
    (i64.store (i32.const 208) (i64.load (i32.const 20)))
    (i64.store (i32.const 216) (i64.load (i32.const 28)))
    (local.set $amount (i64.load (i32.const 60)))
    (call $load (i32.const 160) (i32.const 256))
    (i64.store (i32.const 280) (i64.sub (i64.load (i32.const 280)) (local.get $amount)))
    (call $cache (i32.const 160) (i32.const 256))
    (call $load (i32.const 192) (i32.const 288))
    (i64.store (i32.const 312) (i64.add (i64.load (i32.const 312)) (local.get $amount)))
    (call $cache (i32.const 192) (i32.const 288))
    (call $flush (i32.const 0))
    (i64.store (i32.const 248) (local.get $amount))
    (call $log (i32.const 128) (i32.const 128) (i32.const 3))
    (i32.const 0)))"#;

struct Bench {
    vm: Vm,
    snapshot: Snapshot,
    env: BlockEnv,
    keys: Vec<EthereumKey>,
    token: Address,
}

const FEES: [Address; 2] = [Address::repeat_byte(0xf0), Address::repeat_byte(0xf1)];

impl Bench {
    fn new(accounts: usize) -> Self {
        let key = |index: usize| EthereumKey::from_bytes(&keccak256(index.to_be_bytes()).0).unwrap();
        let keys: Vec<_> = (0..accounts).map(key).collect();
        let rich = Account { balance: U256::from(u64::MAX), ..Account::default() };
        let code: Bytes = wat::parse_str(TOKEN).unwrap().into();
        let token = Address::repeat_byte(0x70);
        let mut genesis = Changes::default();
        for key in &keys {
            genesis.accounts.insert(key.address(), Some(rich.clone()));
            genesis.storage.insert((token, key.address().into_word()), B256::repeat_byte(1));
        }
        let contract = Account { nonce: 1, code_hash: keccak256(&code), abi_version: 1, gas_version: 1, ..Account::default() };
        genesis.accounts.insert(token, Some(contract));
        genesis.code.insert(keccak256(&code), code);
        let state = State::default();
        state.apply(Height(0), &genesis);
        let config = VmConfig { executors: 8, ..VmConfig::default() };
        let env = BlockEnv {
            rules: corniche_types::ProtocolRules::LATEST,
            chain_id: CHAIN_ID,
            number: 1,
            timestamp: 1,
            base_fee: 10,
            coinbase: Address::repeat_byte(0xc0),
            gas_limit: u64::MAX,
            randomness: B256::repeat_byte(3),
        };
        Self { vm: Vm::new(&config, Arc::new(NoCache)).unwrap(), snapshot: state.latest(), env, keys, token }
    }

    /// One transaction per sender; `to` chooses the receiver.
    fn native(&self, to: impl Fn(usize) -> Address) -> Vec<Candidate> {
        self.block(|index| TxEip1559 { value: U256::from(1), gas_limit: 21_000, ..draft(0, TxKind::Call(to(index))) })
    }

    fn tokens(&self, to: impl Fn(usize) -> Address) -> Vec<Candidate> {
        self.block(|index| {
            let input =
                [&[0xa9, 0x05, 0x9c, 0xbb], to(index).into_word().as_slice(), &U256::from(1).to_le_bytes::<32>()].concat();
            TxEip1559 { input: input.into(), ..draft(0, TxKind::Call(self.token)) }
        })
    }

    fn block(&self, draft: impl Fn(usize) -> TxEip1559) -> Vec<Candidate> {
        let raws: Vec<Bytes> = self.keys.iter().enumerate().map(|(index, key)| key.sign(draft(index))).collect();
        candidates(&raws)
    }

    fn serial(&self, candidates: &[Candidate]) -> BlockOutput {
        serial::execute_block(&self.vm, &self.snapshot, &self.env, candidates, &FEES)
    }

    fn parallel(&self, candidates: &[Candidate], pool: &dyn WorkerPool) -> (BlockOutput, Statistics) {
        let (output, runs) = parallel::execute_block(&self.vm, &self.snapshot, &self.env, candidates, &FEES, pool, Vec::new());
        (output, runs.statistics)
    }
}

/// Starts threads for each run, and counts their CPU time.
struct Counted {
    threads: usize,
    nanoseconds: AtomicU64,
}

impl WorkerPool for Counted {
    fn threads(&self) -> usize {
        self.threads
    }

    fn run(&self, job: &(dyn Fn(usize) + Sync)) {
        std::thread::scope(|scope| {
            for index in 1..self.threads {
                let thread = std::thread::Builder::new().stack_size(THREAD_STACK_BYTES);
                let work = move || {
                    job(index);
                    self.nanoseconds.fetch_add(cpu(), Ordering::Relaxed);
                };
                thread.spawn_scoped(scope, work).unwrap();
            }
            job(0);
        });
    }
}

/// CPU time of the calling thread in nanoseconds.
fn cpu() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split_whitespace().next().unwrap().parse().unwrap()
}

#[derive(Clone, Copy)]
struct Cost {
    wall: f64,
    cpu: f64,
}

/// Returns microseconds per transaction.
fn cost<T>(transactions: usize, others: &AtomicU64, work: impl FnOnce() -> T) -> (Cost, T) {
    others.store(0, Ordering::Relaxed);
    let (before, start) = (cpu(), Instant::now());
    let done = work();
    let each = |nanoseconds: u64| nanoseconds as f64 / 1_000.0 / transactions as f64;
    let wall = each(start.elapsed().as_nanos() as u64);
    (Cost { wall, cpu: each(cpu() - before + others.load(Ordering::Relaxed)) }, done)
}

fn median(of: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = of.collect();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn main() {
    let numbers: Vec<usize> = std::env::args().filter_map(|text| text.parse().ok()).collect();
    let (transactions, rounds) = (numbers.first().copied().unwrap_or(2_000), numbers.get(1).copied().unwrap_or(15));
    let work = std::thread::Builder::new().stack_size(THREAD_STACK_BYTES).spawn(move || compare(transactions, rounds));
    work.unwrap().join().unwrap();
}

fn compare(transactions: usize, rounds: usize) {
    let bench = Bench::new(transactions);
    let own = |index: usize| Address::from_word(keccak256([index as u8, (index >> 8) as u8, 9]));
    let same = |_: usize| Address::repeat_byte(0x11);
    let workloads = [
        ("native transfers, uniform", bench.native(own)),
        ("native transfers, all to one", bench.native(same)),
        ("token transfers, uniform", bench.tokens(own)),
        ("token transfers, all to one", bench.tokens(same)),
    ];
    println!(
        "{transactions} transactions a block, {rounds} rounds; microseconds a transaction, medians; ratios of the same round"
    );
    for (name, candidates) in workloads {
        let none = AtomicU64::new(0);
        let two = Counted { threads: 2, nanoseconds: AtomicU64::new(0) };
        let expected = bench.serial(&candidates);
        assert!(expected.receipts.len() == transactions && expected.receipts.iter().all(|receipt| receipt.success));
        let mut runs = Vec::new();
        let mut statistics = Statistics::default();
        for _ in 0..rounds {
            let (by_serial, _) = cost(transactions, &none, || bench.serial(&candidates));
            let (by_one, (output, _)) = cost(transactions, &none, || bench.parallel(&candidates, &SingleThread));
            assert!(output == expected, "one thread");
            let (by_two, (output, counts)) = cost(transactions, &two.nanoseconds, || bench.parallel(&candidates, &two));
            assert!(output == expected, "two threads");
            statistics = counts;
            runs.push([by_serial, by_one, by_two]);
        }
        let wall = |way: usize| median(runs.iter().map(|run| run[way].wall));
        let total = |way: usize| median(runs.iter().map(|run| run[way].cpu));
        let faster = |way: usize| median(runs.iter().map(|run| run[0].wall / run[way].wall));
        let dearer = |way: usize| median(runs.iter().map(|run| run[way].cpu / run[0].cpu));
        println!("{name}: serial {:.2} (cpu {:.2})", wall(0), total(0));
        println!("  1 thread  {:.2}  speed {:.2}x  cpu {:.2}x", wall(1), faster(1), dearer(1));
        println!("  2 threads {:.2}  speed {:.2}x  cpu {:.2}x", wall(2), faster(2), dearer(2));
        println!("  {statistics:?}");
    }
}
