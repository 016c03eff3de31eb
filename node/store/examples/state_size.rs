//! Cost of a durable block with small and large states, and cost of a start:
//! `cargo run -p corniche-store --example state_size -- 10000 100000 1000000`.
//!
//! Blocks have 1,000 transactions that change three random accounts each. Prints CPU time per transaction:
//! for values and tree, for the commit (log and sync), and for the index with the state checkpoint, which
//! moves to the head every 50 blocks. The first two are times of this thread, the last of the whole process.
#![allow(clippy::print_stdout)] // The figures are the result.

mod support;

use corniche_state::{Account, Changes, CommittedBlock, StateView};
use corniche_store::{Backend, Options, Store, genesis_block};
use corniche_types::*;
use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng, SeedableRng},
};
use std::time::Duration;
use support::{genesis, process_cpu, receipt, thread_cpu_ns};

const TRANSACTIONS: u64 = 1_000;
const BLOCKS: u64 = 100;
const CHECKPOINT_BLOCKS: u64 = 50;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sizes: Vec<u64> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let sizes = if sizes.is_empty() { vec![10_000, 100_000, 1_000_000] } else { sizes };
    for backend in [Backend::Redb, Backend::Sled] {
        for keys in &sizes {
            measure(backend, *keys)?;
        }
    }
    Ok(())
}

fn measure(backend: Backend, keys: u64) -> Result<(), Box<dyn std::error::Error>> {
    let name = format!("{} {keys} keys", backend.name());
    let directory = tempfile::tempdir_in(".")?;
    let rich = GenesisAccount { balance: U256::from(1_000_000), ..GenesisAccount::default() };
    let genesis = genesis((0..keys).map(|number| (address(number), rich.clone())).collect());
    let options = Options { backend, checkpoint_interval: None, ..Options::default() };
    let start = process_cpu();
    let (mut store, recovered) = Store::open(directory.path(), &genesis, options.clone())?;
    let first = process_cpu() - start;
    let (state, mut tree) = (recovered.state, recovered.tree);
    let mut parent = genesis_block(&genesis).block;
    let (mut values, mut commit, mut index) = (0, 0, Duration::ZERO);
    let mut random = SplitMix64::seed_from_u64(7);
    for height in 1..=BLOCKS {
        let mut changes = Changes::default();
        let (mut ordered, mut receipts) = (Vec::new(), Vec::new());
        let snapshot = state.latest();
        for number in 0..TRANSACTIONS {
            for _ in 0..3 {
                let address = address(random.next_u64() % keys);
                let account = snapshot.account(&address).unwrap_or_default();
                changes.accounts.insert(address, Some(Account { nonce: account.nonce + height, ..account }));
            }
            let raw = Bytes::from([height.to_be_bytes(), number.to_be_bytes()].concat().repeat(11));
            receipts.push(receipt(keccak256(&raw), number));
            ordered.push(OrderedTransaction { author: ValidatorIndex(0), raw });
        }
        drop(snapshot);
        let start = thread_cpu_ns();
        state.apply(Height(height), &changes);
        let state_root = tree.apply(&changes);
        state.prune_below(Height(height.saturating_sub(20)));
        values += thread_cpu_ns() - start;
        let header = Header { parent_hash: parent.hash(), number: height, state_root, ..parent.header.clone() };
        let block = Block { header, ordering: parent.ordering.clone(), ordered };
        parent = block.clone();
        let resume = Resume { index: CommitIndex(height), checkpoint: Bytes::from(vec![1; 200]), ..Resume::default() };
        let committed = CommittedBlock { block, receipts, changes, resume };
        let start = thread_cpu_ns();
        store.append_block(committed)?;
        store.sync()?;
        commit += thread_cpu_ns() - start;
        if height % CHECKPOINT_BLOCKS == 0 {
            let start = process_cpu();
            store.checkpoint();
            index += process_cpu() - start;
        }
    }
    drop(store);
    let each = (BLOCKS * TRANSACTIONS) as f64;
    println!(
        "{name}: CPU us a transaction: values and tree {:.2}, commit {:.2}, index and checkpoint {:.1}",
        values as f64 / 1e3 / each,
        commit as f64 / 1e3 / each,
        index.as_micros() as f64 / each
    );
    let (root, head) = (tree.root(), Height(BLOCKS));
    drop((state, tree));
    let start = process_cpu();
    let (store, recovered) = Store::open(directory.path(), &genesis, options)?;
    assert_eq!((recovered.tree.root(), recovered.head.height()), (root, head));
    println!("{name}: CPU of the first start {first:.1?}, of the next {:.1?}", process_cpu() - start);
    drop(store);
    Ok(())
}

fn address(number: u64) -> Address {
    Address::from_word(U256::from((number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)).into())
}
