//! Compares blocks of native transfers on our executor and on Block-STM, as published by Aptos
//! (`aptos-parallel-executor` 0.2.2):
//!
//! ```text
//! cargo run --locked --manifest-path runtime/bench/compare/Cargo.toml [-- TRANSACTIONS [BLOCKS [REPEATS]]]
//! ```
//!
//! Both run the same signed transactions through the same virtual machine on the same state in memory. Both
//! must have the results of serial execution: receipts, changes, gas, roots. Block-STM cannot add to a value
//! without reading it, so all transactions would conflict on the tip. Therefore tips are kept outside its state
//! and credited after the block, as in Block-STM executors for Ethereum. Everything else is read and written
//! through Block-STM. Its post-processing of a block (sums, one map of changes, the two roots) runs on one thread
//! and is measured separately.

mod block_stm;
mod chain;

use chain::Chain;
use corniche_executor::{BlockOutput, WorkerPool, parallel, serial};
use std::time::{Duration, Instant};

/// Threads of our executor, started once.
struct Threads(rayon::ThreadPool);

impl WorkerPool for Threads {
    fn threads(&self) -> usize {
        self.0.current_num_threads()
    }

    fn run(&self, job: &(dyn Fn(usize) + Sync)) {
        self.0.broadcast(|context| job(context.index()));
    }
}

/// Method of executing a block.
struct Way<'a> {
    name: &'a str,
    /// Returns the results, if any. For Block-STM also returns the time without post-processing.
    run: Box<dyn Fn(&Chain) -> (Option<BlockOutput>, Option<Duration>) + 'a>,
}

#[derive(Default)]
struct Took {
    wall: Vec<f64>,
    cpu: Vec<f64>,
    part: Vec<f64>,
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<usize>().expect("a number"));
    let mut number = |default| arguments.next().unwrap_or(default);
    let (transactions, blocks, repeats) = (number(1_000), number(6), number(12));
    let pool = |threads: usize| {
        let builder = rayon::ThreadPoolBuilder::new().num_threads(threads).stack_size(corniche_vm::THREAD_STACK_BYTES);
        Threads(builder.build().expect("threads"))
    };
    let (one, two) = (pool(1), pool(2));
    let ours = |pool: &Threads, chain: &Chain| {
        let tips = chain.fee_addresses();
        parallel::execute_block(&chain.vm, &chain.view, &chain.env, &chain.candidates, &tips, pool, Vec::new()).0
    };
    let judge =
        |chain: &Chain| serial::execute_block(&chain.vm, &chain.view, &chain.env, &chain.candidates, &chain.fee_addresses());
    let ways = [
        Way { name: "serial.rs", run: Box::new(|chain| (Some(judge(chain)), None)) },
        Way { name: "ours, 1 thread", run: Box::new(|chain| (Some(ours(&one, chain)), None)) },
        Way { name: "ours, 2 threads", run: Box::new(|chain| (Some(ours(&two, chain)), None)) },
        Way {
            name: "Block-STM, 2 threads",
            run: Box::new(|chain| {
                let start = Instant::now();
                let outputs = block_stm::execute(chain);
                let part = start.elapsed();
                (Some(block_stm::finish(chain, outputs)), Some(part))
            }),
        },
        Way {
            name: "Block-STM, 2 threads, overhead only (no VM)",
            run: Box::new(|chain| {
                block_stm::bare(chain);
                (None, None)
            }),
        },
    ];
    let mut chain = Chain::new();
    let mut took: Vec<Took> = ways.iter().map(|_| Took::default()).collect();
    for block in 0..=blocks {
        chain.next_block(transactions);
        let expected = judge(&chain);
        assert_eq!((expected.receipts.len(), expected.skipped.len()), (transactions, 0));
        // The first block is the warm-up.
        for repeat in 0..if block == 0 { 2 } else { repeats } {
            let turn = |at: usize| if repeat % 2 == 0 { at } else { ways.len() - 1 - at };
            for way in (0..ways.len()).map(turn) {
                let (wall, cpu) = (Instant::now(), process_cpu());
                let (output, part) = (ways[way].run)(&chain);
                let (wall, cpu) = (wall.elapsed(), process_cpu() - cpu);
                assert!(
                    output.is_none_or(|output| output == expected),
                    "{}: result differs from serial execution",
                    ways[way].name
                );
                if block > 0 {
                    took[way].wall.push(wall.as_secs_f64());
                    took[way].cpu.push(cpu.as_secs_f64());
                    took[way].part.extend(part.map(|part| part.as_secs_f64()));
                }
            }
        }
        chain.append(&expected);
    }
    let per_second = |seconds: &[f64]| transactions as f64 / median(seconds.to_vec());
    let against =
        |figures: &[f64], serial: &[f64]| median(figures.iter().zip(serial).map(|(one, other)| one / other).collect());
    println!("{:<55} {:>9} {:>9} {:>6}", "", "tx/s", "speedup", "CPU");
    for (way, took_here) in ways.iter().zip(&took) {
        let (speedup, cpu) = (1.0 / against(&took_here.wall, &took[0].wall), against(&took_here.cpu, &took[0].cpu));
        println!("{:<55} {:>9.0} {speedup:>8.2}x {cpu:>5.2}x", way.name, per_second(&took_here.wall));
        if !took_here.part.is_empty() {
            let speedup = 1.0 / against(&took_here.part, &took[0].wall);
            println!("{:<55} {:>9.0} {speedup:>8.2}x", "  without sums, changes and roots", per_second(&took_here.part));
        }
    }
    let ratio = 1.0 / against(&took[2].wall, &took[3].wall);
    println!(
        "speedup of ours over Block-STM, both on 2 threads, whole blocks: {ratio:.2}x (median of {} pairs)",
        took[0].wall.len()
    );
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// CPU time of all threads of this process since its start.
fn process_cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec, which we own and which outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
