//! Cost of old states: `cargo run -p corniche-store --example history_cost`.
//!
//! Equal blocks go, in turns, into stores that keep no old states, some, and all. CPU time is that of the
//! whole process while the checkpoint moves over 64 blocks, so only lines of the same backend are comparable.
//! Bytes are the size of `state/` at the end. Reads use random accounts at random heights.
#![allow(clippy::print_stdout)] // The figures are the result.

#[path = "support/chain.rs"]
mod chain;
mod support;

use chain::{ACCOUNTS, KEYS_PER_TRANSACTION, chain};
use corniche_store::{Backend, History, Options, Store};
use corniche_types::*;
use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng, SeedableRng},
};
use std::{path::Path, time::Duration};
use support::{genesis, process_cpu, thread_cpu_ns};

const TRANSACTIONS: u64 = 200;
const BLOCKS: u64 = 1_024;
const STEP: u64 = 64;
const READS: u64 = 20_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let blocks = chain(TRANSACTIONS, BLOCKS);
    let genesis = genesis(Default::default());
    for backend in [Backend::Sled, Backend::Redb] {
        let mut runs = Vec::new();
        for (name, history) in [("none", History::Off), ("256_blocks", History::Blocks(256)), ("archive", History::Archive)] {
            let directory = tempfile::tempdir_in(".")?;
            let options = Options { backend, history, checkpoint_interval: None, ..Options::default() };
            let (store, _) = Store::open(directory.path(), &genesis, options)?;
            runs.push((name, directory, store, Duration::ZERO));
        }
        for step in blocks.chunks(STEP as usize) {
            for (_, _, store, spent) in &mut runs {
                step.iter().try_for_each(|block| store.append_block(block.clone()))?;
                store.sync()?;
                let before = process_cpu();
                store.checkpoint();
                *spent += process_cpu() - before;
            }
        }
        let transactions = (TRANSACTIONS * BLOCKS) as f64;
        let none = runs[0].3.as_micros() as f64;
        for (name, directory, store, spent) in runs {
            let (cpu, reads) = (spent.as_micros() as f64, reads(&store));
            drop(store);
            let bytes = bytes(&directory.path().join("state"))? as f64 / transactions;
            println!(
                "{}_history_{name}_transactions_{TRANSACTIONS}_keys_{KEYS_PER_TRANSACTION}: CPU {:.1} us a transaction, {:.2} of none; {bytes:.0} bytes a \
                 transaction; a read {reads}",
                backend.name(),
                cpu / transactions,
                cpu / none,
            );
        }
    }
    Ok(())
}

/// CPU time of this thread per successful read.
fn reads(store: &Store) -> String {
    let reader = store.reader();
    let (mut random, mut read, mut spent) = (SplitMix64::seed_from_u64(7), 0u64, 0);
    for _ in 0..READS {
        let (height, number) = (Height(random.next_u64() % BLOCKS), random.next_u64() % ACCOUNTS);
        let before = thread_cpu_ns();
        if let Some(state) = reader.state(height) {
            state.account(&Address::from_word(B256::from(U256::from(number))));
            read += 1;
            spent += thread_cpu_ns() - before;
        }
    }
    if read == 0 { "-".into() } else { format!("{:.1} us", spent as f64 / 1e3 / read as f64) }
}

fn bytes(directory: &Path) -> std::io::Result<u64> {
    let mut sum = 0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        sum += if metadata.is_dir() { bytes(&entry.path())? } else { metadata.len() };
    }
    Ok(sum)
}
