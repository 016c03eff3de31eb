//! Cost of an append: `cargo run -p corniche-store --example append_sync`. With `-- 1000`, only blocks of
//! 1,000 transactions.
//!
//! Each line names its parameters: transactions per block, state keys changed per transaction, backend. The
//! latency covers `append_safety`, `append_block`, `append_certificate` and `sync`. The commit's CPU time is
//! that of the calling thread, including system time. The index's CPU time is that of the whole process while
//! the checkpoint is then moved to the head.
#![allow(clippy::print_stdout)] // The figures are the result.

#[path = "support/chain.rs"]
mod chain;
mod support;

use chain::{KEYS_PER_TRANSACTION, chain};
use corniche_engine::Ticket;
use corniche_state::CommittedBlock;
use corniche_store::{Backend, Options, Store};
use corniche_types::*;
use std::time::{Duration, Instant};
use support::{genesis, process_cpu, thread_cpu_ns};

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
    let blocks = chain(transactions, count);
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
