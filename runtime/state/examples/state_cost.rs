//! What the values in memory cost: time of one read and one write, bytes per key, for `docs/performance.md`.
//!
//! `cargo run -p corniche-state --example state_cost -- 1000000`: times are the CPU time of the thread, so other work on the
//! machine shows in them only by what it takes of caches and memory.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, clippy::print_stdout)] // a measurement reads a clock and prints

use corniche_state::{Account, Changes, State, StateView};
use corniche_types::{Address, B256, Height, U256};
use std::time::Instant;

const READS: u64 = 2_000_000;
/// Keys a block changes, and blocks.
const WRITES: u64 = 3_000;
const BLOCKS: u64 = 300;

fn main() {
    let keys: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let changes = content(keys);
    let (before, start) = (resident_bytes(), cpu_ns());
    let state = State::default();
    state.apply(Height(0), &changes);
    let (filled, after) = (cpu_ns() - start, resident_bytes());
    drop(changes);
    println!("{keys} keys, half of them accounts");
    println!("fill: {} ns a key, {} bytes a key resident", filled / keys, after.saturating_sub(before) / keys);
    for (what, first) in [("hit", 0), ("absent", keys)] {
        let start = cpu_ns();
        read(&state, keys, first, 1);
        println!("read, {what}: {} ns", (cpu_ns() - start) / READS);
    }
    for threads in [1u64, 2, 4, 8] {
        let start = Instant::now();
        std::thread::scope(|scope| {
            (0..threads).for_each(|seed| {
                drop(scope.spawn({
                    let state = &state;
                    move || read(state, keys, 0, seed)
                }))
            });
        });
        let seconds = start.elapsed().as_secs_f64();
        println!("read, {threads} threads: {:.1} million a second together (wall)", (threads * READS) as f64 / seconds / 1e6);
    }
    let blocks: Vec<Changes> = (1..=BLOCKS).map(|height| block(keys, height)).collect();
    let (mut applying, mut pruning) = (0, 0);
    for (height, changes) in (1..).zip(&blocks) {
        let start = cpu_ns();
        state.apply(Height(height), changes);
        let applied = cpu_ns();
        state.prune_below(Height(height.saturating_sub(100)));
        applying += applied - start;
        pruning += cpu_ns() - applied;
    }
    println!("write: {} ns a key; pruning: {} ns a key", applying / (BLOCKS * WRITES), pruning / ((BLOCKS - 100) * WRITES));
    println!("after {BLOCKS} blocks: {} bytes a key resident", resident_bytes().saturating_sub(before) / keys);
}

fn read(state: &State, keys: u64, first: u64, seed: u64) {
    let snapshot = state.latest();
    let mut sum = 0u64;
    let mut random = seed;
    // Keys are made in groups, so that their hash is not measured.
    for _ in 0..READS / 10_000 {
        let group: Vec<u64> = (0..10_000).map(|_| first + next(&mut random) % keys).collect();
        for number in group {
            sum += match number % 2 {
                0 => snapshot.account(&address(number)).map_or(0, |account| account.nonce),
                _ => u64::from(snapshot.storage(&address(number % 1_000), &slot(number))[31]),
            };
        }
    }
    std::hint::black_box(sum);
}

fn next(random: &mut u64) -> u64 {
    *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *random >> 20
}

fn content(keys: u64) -> Changes {
    let mut changes = Changes::default();
    (0..keys).for_each(|number| set(&mut changes, number, 1));
    changes
}

fn block(keys: u64, height: u64) -> Changes {
    let (mut changes, mut random) = (Changes::default(), height);
    (0..WRITES).for_each(|_| set(&mut changes, next(&mut random) % keys, height + 1));
    changes
}

fn set(changes: &mut Changes, number: u64, value: u64) {
    if number.is_multiple_of(2) {
        changes
            .accounts
            .insert(address(number), Some(Account { nonce: value, balance: U256::from(number), ..Account::default() }));
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

/// CPU time of this thread.
fn cpu_ns() -> u64 {
    let schedule = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    schedule.split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).unwrap_or(0) * 1024
}
