//! Prints what one contract call costs, beside the same module on bare wasmtime:
//!
//! ```text
//! CONTRACTS_WASM_DIR=... cargo run -p corniche-vm --features bench --example call [ROUNDS [CALLS [SUBJECT]]]
//! ```
//!
//! All subjects run one after another, again and again; a figure is the median over ROUNDS of thread CPU time for each of CALLS calls,
//! and `x bare` is the median of the ratios to bare wasmtime in the same round. "beside": another thread of the process is busy. "two":
//! two threads make the calls, CPU time of each. With SUBJECT (`ours`), it makes ROUNDS times CALLS calls of that one and nothing else,
//! to be counted from outside: the system calls of two runs that differ in CALLS, by `strace -f -c`, differ by those of the calls.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, clippy::print_stdout, clippy::unwrap_used, unsafe_code)]

use corniche_vm::bench::{Subject, Workload, subjects};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, ScopedJoinHandle, scope};

thread_local!(static ALLOCATIONS: Cell<u64> = const { Cell::new(0) });

struct Counting;

// SAFETY: hands everything to the system's allocator and counts beside it, in a cell that is never dropped.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// CPU time of this thread, in nanoseconds.
fn cpu() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to `time` and nothing else.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn thread<'s, 'e, T: Send + 's>(
    scope: &'s std::thread::Scope<'s, 'e>,
    body: impl FnOnce() -> T + Send + 's,
) -> ScopedJoinHandle<'s, T> {
    Builder::new().stack_size(corniche_vm::THREAD_STACK_BYTES * 2).spawn_scoped(scope, body).unwrap()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Microseconds of each call, by round and subject.
type Figures = Vec<Vec<f64>>;

/// Runs all subjects interleaved on this thread, in step with others that do the same.
fn measure(subjects: &[Subject], rounds: u32, calls: u32, step: &Barrier) -> Figures {
    let mut runners: Vec<_> = subjects.iter().map(|subject| (subject.runner)()).collect();
    let mut round = || {
        let mut figures = Vec::new();
        for run in &mut runners {
            run(calls / 10 + 1);
            step.wait();
            let start = cpu();
            run(calls);
            figures.push((cpu() - start) as f64 / f64::from(calls) / 1_000.0);
        }
        figures
    };
    round();
    (0..rounds).map(|_| round()).collect()
}

fn columns(figures: &Figures, bare: usize) -> Vec<(f64, f64)> {
    let column = |at: usize, by: &dyn Fn(&Vec<f64>) -> f64| median(figures.iter().map(|round| round[at] / by(round)).collect());
    (0..figures[0].len()).map(|at| (column(at, &|_| 1.0), column(at, &|round| round[bare]))).collect()
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default| arguments.next().map_or(default, |text| text.parse().expect("a number"));
    let (rounds, calls) = (number(25), number(2_000));
    let only = arguments.next();
    let folder = std::env::var("CONTRACTS_WASM_DIR").expect("CONTRACTS_WASM_DIR: where `make contracts` builds to");
    for workload in Workload::ALL {
        let wasm = std::fs::read(format!("{folder}/{}.wasm", workload.contract())).unwrap();
        let subjects = subjects(workload, &wasm, 2).unwrap();
        if let Some(only) = &only {
            let subject = subjects.iter().find(|subject| subject.name == *only).expect("no such subject");
            scope(|scope| {
                thread(scope, || {
                    (0..rounds).fold((subject.runner)(), |mut run, _| {
                        run(calls);
                        run
                    })
                })
                .join()
                .map(drop)
                .unwrap()
            });
            continue;
        }
        let bare = subjects.iter().position(|subject| subject.name == "bare wasmtime").unwrap();
        let alone = scope(|scope| thread(scope, || measure(&subjects, rounds, calls, &Barrier::new(1))).join().unwrap());
        let stop = AtomicBool::new(false);
        let beside = scope(|scope| {
            thread(scope, || {
                let mut sum = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
                }
            });
            let figures = thread(scope, || measure(&subjects, rounds, calls, &Barrier::new(1))).join().unwrap();
            stop.store(true, Ordering::Relaxed);
            figures
        });
        let step = Barrier::new(2);
        let two = scope(|scope| {
            let other = thread(scope, || measure(&subjects, rounds, calls, &step));
            let figures = thread(scope, || measure(&subjects, rounds, calls, &step)).join().unwrap();
            other.join().unwrap();
            figures
        });
        let allocations: Vec<f64> = scope(|scope| {
            let count = || {
                let mut count = Vec::new();
                for subject in &subjects {
                    let mut run = (subject.runner)();
                    run(10);
                    let before = ALLOCATIONS.with(Cell::get);
                    run(1_000);
                    count.push((ALLOCATIONS.with(Cell::get) - before) as f64 / 1_000.0);
                }
                count
            };
            thread(scope, count).join().unwrap()
        });
        println!("{}: us of CPU per call (x bare wasmtime in the same round)", workload.name());
        println!("{:<50} {:>16} {:>16} {:>16} {:>12}", "", "alone", "beside", "two", "allocations");
        let (alone, beside, two) = (columns(&alone, bare), columns(&beside, bare), columns(&two, bare));
        for (at, subject) in subjects.iter().enumerate() {
            let cell = |(us, ratio): (f64, f64)| format!("{us:.2} ({ratio:.2})");
            println!(
                "{:<50} {:>16} {:>16} {:>16} {:>12.1}",
                subject.name,
                cell(alone[at]),
                cell(beside[at]),
                cell(two[at]),
                allocations[at]
            );
        }
    }
}
