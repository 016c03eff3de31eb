//! What an append costs: `cargo run -p corniche-store --example append_sync`; `-- 1000` for blocks of 1,000 transactions alone.
//!
//! Each line names its parameters: transactions in a block, state keys a transaction changes, backend. Latency is that of
//! `append_safety` + `append_block` + `append_certificate` + `sync`. The commit's CPU is that of the thread that does this, system
//! time included; the index's is that of the whole process while the checkpoint is brought to the head afterwards.
#![allow(clippy::print_stdout)] // The figures are the result.

mod support;

use corniche_engine::Ticket;
use corniche_state::{Account, Changes, CommittedBlock, Tree};
use corniche_store::{Backend, Options, Store, genesis_block};
use corniche_types::*;
use std::time::{Duration, Instant};
use support::{genesis, process_cpu, receipt, thread_cpu_ns};

const KEYS_PER_TRANSACTION: u64 = 3;
const ACCOUNTS: u64 = 100_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let wanted: Option<u64> = std::env::args().nth(1).and_then(|text| text.parse().ok());
    for backend in [Backend::Sled, Backend::Redb] {
        for (transactions, blocks) in [(0, 2000), (1, 2000), (50, 1000), (250, 400), (1000, 100)] {
            if wanted.is_none_or(|wanted| wanted == transactions) {
                measure(backend, transactions, blocks)?;
            }
        }
    }
    Ok(())
}

fn measure(backend: Backend, transactions: u64, count: u64) -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir_in(".")?;
    let genesis = genesis(Default::default());
    let blocks = chain(&genesis, transactions, count);
    let name = format!("{}_transactions_{transactions}_keys_{KEYS_PER_TRANSACTION}", backend.name());
    let options = Options { backend, checkpoint_interval: None, ..Options::default() };
    let (mut store, _) = Store::open(directory.path(), &genesis, options.clone())?;
    let (mut commit, mut latencies) = (0, Vec::new());
    let proposal = Bytes::from(vec![7; 1000 + 180 * transactions as usize]);
    for (ticket, committed) in (1..).zip(blocks) {
        let certificate = certificate(&committed);
        let (start, cpu) = (Instant::now(), thread_cpu_ns());
        store.append_safety(Ticket(ticket), &proposal)?;
        store.release_safety_below(Ticket(ticket.saturating_sub(100)))?;
        store.append_block(committed)?;
        store.append_certificate(&certificate)?;
        store.sync()?;
        latencies.push(start.elapsed());
        commit += thread_cpu_ns() - cpu;
    }
    let index = process_cpu();
    store.checkpoint();
    let index = process_cpu() - index;
    drop(store);
    let tenth = latencies.len() / 10;
    let (first, last) = (median(&latencies[..tenth]), median(&latencies[latencies.len() - tenth..]));
    let (half, most) = (median(&latencies), percentile(&latencies, 99));
    let each = (transactions.max(1) * count) as f64;
    let (commit, index) = (commit as f64 / 1e3 / each, index.as_micros() as f64 / each);
    println!(
        "{name}: append+sync p50 {half:.1?} p99 {most:.1?} (first tenth {first:.1?}, last tenth {last:.1?}); \
         CPU per {}: commit {commit:.2} us, index {index:.1} us",
        if transactions == 0 { "empty block" } else { "transaction" },
    );
    for (what, rebuild) in [("open", false), ("rebuild", true)] {
        let start = Instant::now();
        let (store, recovered) = Store::open(directory.path(), &genesis, Options { rebuild, ..options.clone() })?;
        assert_eq!(recovered.head.height(), Height(count));
        println!("{name}_blocks_{count}: {what} {:.1?}", start.elapsed());
        drop(store);
    }
    Ok(())
}

fn chain(genesis: &Genesis, transactions: u64, count: u64) -> Vec<CommittedBlock> {
    let start = genesis_block(genesis);
    let mut tree = Tree::default();
    tree.apply(&start.changes);
    let (mut parent, mut blocks, mut seed) = (start.block, Vec::new(), 1u64);
    let mut random = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed >> 33
    };
    for height in 1..=count {
        let mut changes = Changes::default();
        let (mut ordered, mut receipts) = (Vec::new(), Vec::new());
        for index in 0..transactions {
            for key in 0..KEYS_PER_TRANSACTION {
                let number = random() % ACCOUNTS;
                let address = Address::from_word(B256::from(U256::from(number)));
                if key == 2 {
                    changes.storage.insert((Address::ZERO, B256::from(U256::from(number))), B256::from(U256::from(height)));
                } else {
                    changes.accounts.insert(address, Some(Account { nonce: height, ..Default::default() }));
                }
            }
            let raw = Bytes::from([height.to_be_bytes(), index.to_be_bytes()].concat().repeat(11));
            receipts.push(receipt(keccak256(&raw), index));
            ordered.push(OrderedTransaction { author: ValidatorIndex(0), raw });
        }
        let header =
            Header { parent_hash: parent.hash(), number: height, state_root: tree.apply(&changes), ..parent.header.clone() };
        let block = Block { header, ordering: parent.ordering.clone(), ordered };
        parent = block.clone();
        let resume = Resume { index: CommitIndex(height), checkpoint: Bytes::from(vec![1; 200]) };
        blocks.push(CommittedBlock { block, receipts, changes, resume });
    }
    blocks
}

fn certificate(committed: &CommittedBlock) -> Certificate {
    Certificate {
        epoch: Epoch(0),
        committee_hash: B256::ZERO,
        height: committed.block.height(),
        header_hash: committed.block.hash(),
        fault_model: FaultModel::Byzantine,
        signers: SignerBitmap(Bytes::from_static(&[15])),
        signature: Bytes::from(vec![1; 48]),
    }
}

fn median(latencies: &[Duration]) -> Duration {
    percentile(latencies, 50)
}

fn percentile(latencies: &[Duration], percent: usize) -> Duration {
    let mut sorted = latencies.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() * percent / 100).copied().unwrap_or_default()
}
