//! Measures the authenticated tree, for `docs/performance.md`: CPU time per updated key, and memory.
//!
//! `cargo run -p corniche-state --example tree_cost -- 1000000` prints CPU time of the thread.
#![allow(clippy::disallowed_types, clippy::print_stdout)] // a measurement reads a clock and prints

mod support;

use corniche_state::{Changes, Tree, TreeKey};
use corniche_types::{Address, B256, U256};
use support::{cpu_ns, resident_bytes};

fn main() {
    let keys: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let mut tree = Tree::default();
    let start = cpu_ns();
    for first in (0..keys).step_by(10_000) {
        tree.apply(&slots(first..(first + 10_000).min(keys), 1));
    }
    report("load", "10000", keys, start);
    for batch in [1u64, 100, 1_000, 4_000, 16_000] {
        let rounds = (64_000 / batch).max(1);
        // Prepare the changes first, so that only the tree is measured.
        let all: Vec<Changes> = (0..rounds).map(|round| scattered(keys, batch, round)).collect();
        let start = cpu_ns();
        for changes in &all {
            tree.apply(changes);
        }
        report("overwrite", &batch.to_string(), rounds * batch, start);
    }
    // The copy that the first `eth_getProof` makes, while blocks wait to be sealed.
    let start = cpu_ns();
    let kept = tree.clone();
    report("copy", "all", keys, start);
    println!("copied {} MB", kept.bytes().0 >> 20);
    let changes = scattered(keys, 4_000, 99);
    let start = cpu_ns();
    tree.apply(&changes);
    report("overwrite beside a kept version", "4000", 4_000, start);
    drop(kept);
    let start = cpu_ns();
    let length: usize = (0..10_000u64).map(|number| tree.prove(&key(number * 7 % keys)).siblings.len()).sum();
    report("prove", "1", 10_000, start);
    println!("mean path {:.1}, resident {} MB", length as f64 / 10_000.0, resident_bytes() >> 20);
}

fn slots(range: std::ops::Range<u64>, value: u64) -> Changes {
    let storage = range.map(|number| ((Address::ZERO, slot(number)), B256::from(U256::from(value))));
    Changes { storage: storage.collect(), ..Changes::default() }
}

fn scattered(keys: u64, batch: u64, round: u64) -> Changes {
    let numbers = (0..batch).map(|index| (index * 2_654_435_761 + round * 40_503) % keys);
    let storage = numbers.map(|number| ((Address::ZERO, slot(number)), B256::from(U256::from(round + 2))));
    Changes { storage: storage.collect(), ..Changes::default() }
}

fn slot(number: u64) -> B256 {
    B256::from(U256::from(number))
}

fn key(number: u64) -> TreeKey {
    TreeKey::storage(&Address::ZERO, &slot(number))
}

fn report(what: &str, batch: &str, keys: u64, start: u64) {
    println!("{what}, batch {batch}: {:.2} us a key", (cpu_ns() - start) as f64 / 1e3 / keys as f64);
}
