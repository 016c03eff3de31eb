//! Measures the cost of a block on small and large states, for `docs/performance.md`.
//!
//! `cargo run -p corniche-state --example size -- 10000 100000 1000000 10000000` runs blocks of 1,000 transactions,
//! each of which reads and writes three random keys. It then measures values, tree, pruning and a single read, in CPU
//! time of the thread.
#![allow(clippy::disallowed_types, clippy::print_stdout)] // a measurement reads files and prints

mod support;

use corniche_state::{Account, Changes, Snapshot, State, StateView, Tree};
use corniche_types::{Address, B256, Height, U256};
use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng, SeedableRng},
};
use support::{cpu_ns, resident_bytes};

const TRANSACTIONS: u64 = 1_000;
const BLOCKS: u64 = 100;
const KEPT: u64 = 20;
const READS: u64 = 1_000_000;

fn main() {
    let sizes: Vec<u64> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![10_000, 100_000, 1_000_000] } else { sizes };
    for keys in sizes {
        measure(keys);
    }
}

fn measure(keys: u64) {
    let (state, mut tree) = (State::default(), Tree::default());
    let start = cpu_ns();
    // Fill block by block, as a chain would; one change with everything would need extra memory.
    for (height, first) in (0..).zip((0..keys).step_by(100_000)) {
        let changes = content(first..keys.min(first + 100_000));
        state.apply(Height(height), &changes);
        state.prune_below(Height(height));
        tree.apply(&changes);
    }
    let filled = cpu_ns() - start;
    println!(
        "{keys} keys: one read: {} ns there, {} ns absent",
        read_ns(&state.latest(), 0, keys),
        read_ns(&state.latest(), keys, keys)
    );
    let (mut reading, mut writing, mut hashing, mut pruning) = (0, 0, 0, 0);
    let mut random = SplitMix64::seed_from_u64(7);
    for block in 1..=BLOCKS {
        let height = Height(keys + block);
        let numbers: Vec<u64> = (0..3 * TRANSACTIONS).map(|_| random.next_u64() % keys).collect();
        let start = cpu_ns();
        let snapshot = state.latest();
        let values: Vec<u64> = numbers.iter().map(|number| read(&snapshot, *number)).collect();
        drop(snapshot);
        reading += cpu_ns() - start;
        let mut changes = Changes::default();
        numbers.iter().zip(values).for_each(|(number, value)| set(&mut changes, *number, value + block));
        let start = cpu_ns();
        state.apply(height, &changes);
        let applied = cpu_ns();
        tree.apply(&changes);
        let hashed = cpu_ns();
        state.prune_below(Height(height.0 - KEPT));
        pruning += cpu_ns() - hashed;
        hashing += hashed - applied;
        writing += applied - start;
    }
    let per = |sum: u64| sum as f64 / (BLOCKS * TRANSACTIONS) as f64 / 1_000.0;
    let sum = reading + writing + hashing + pruning;
    println!(
        "{keys} keys: {:.2} us a transaction (reads {:.2}, writes {:.2}, tree {:.2}, pruning {:.2})",
        per(sum),
        per(reading),
        per(writing),
        per(hashing),
        per(pruning)
    );
    let (kept, values) = state.size();
    let (nodes, _) = tree.bytes();
    println!(
        "{keys} keys: {:.2} us a key to fill; bytes a key: values {}, tree {}; resident {} MiB",
        filled as f64 / keys as f64 / 1_000.0,
        values as u64 / kept as u64,
        nodes as u64 / kept as u64,
        resident_bytes() >> 20
    );
}

/// Returns nanoseconds per read, for keys from `first` on.
fn read_ns(snapshot: &Snapshot, first: u64, keys: u64) -> u64 {
    let mut random = SplitMix64::seed_from_u64(1);
    let start = cpu_ns();
    let sum = (0..READS).fold(0u64, |sum, _| sum.wrapping_add(read(snapshot, first + random.next_u64() % keys)));
    std::hint::black_box(sum);
    (cpu_ns() - start) / READS
}

fn read(view: &dyn StateView, number: u64) -> u64 {
    match number % 2 {
        0 => view.account(&address(number)).map_or(0, |account| account.nonce),
        _ => u64::from(view.storage(&address(number % 1_000), &slot(number))[31]),
    }
}

fn content(numbers: std::ops::Range<u64>) -> Changes {
    let mut changes = Changes::default();
    numbers.for_each(|number| set(&mut changes, number, 1));
    changes
}

fn set(changes: &mut Changes, number: u64, value: u64) {
    if number.is_multiple_of(2) {
        let account = Account { nonce: value, balance: U256::from(number), ..Account::default() };
        changes.accounts.insert(address(number), Some(account));
    } else {
        changes.storage.insert((address(number % 1_000), slot(number)), B256::from(U256::from(value)));
    }
}

fn address(number: u64) -> Address {
    Address::from_word(U256::from(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).into())
}

fn slot(number: u64) -> B256 {
    U256::from(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).into()
}
