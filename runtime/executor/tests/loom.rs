//! The scheduler's locks, atomics and condition variable in every order of events, up to a number of preemptions.
//! Compiles the crate's source with loom's primitives in place of std's.
#![allow(dead_code)] // a part of the scheduler is enough here
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicUsize, Ordering};
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use std::sync::PoisonError;
}

#[path = "../src/schedule.rs"]
mod schedule;

use loom::sync::{Arc, Mutex};
use schedule::{FinalizeResult, FinishResult, Position, Reader, Schedule, WaitFor, WaitResult};

/// One key: its value and its readers. A minimal store for testing the schedule.
#[derive(Default)]
struct Cell {
    value: u32,
    readers: Vec<Reader>,
}

/// The first transaction writes 1, the others read the value and add 1: a chain through one cell.
struct Block {
    schedule: Schedule<u32>,
    cells: Vec<Mutex<Cell>>,
    /// True if readers wait for their writers without running first.
    predicted_conflicts: bool,
}

impl Block {
    fn new(transactions: usize, predicted_conflicts: bool) -> Self {
        let cells = (0..transactions).map(|_| Mutex::new(Cell::default())).collect();
        Self { schedule: Schedule::new(vec![0; transactions].into_iter(), 1), cells, predicted_conflicts }
    }

    fn work(&self) {
        let mut next_position: Option<Position> = None;
        let mut fresh = 0..0;
        loop {
            let Some(position) = next_position.take().or_else(|| self.schedule.next(&mut fresh)) else {
                if self.schedule.sleep() {
                    continue;
                }
                return;
            };
            let below = position.checked_sub(1);
            if self.predicted_conflicts
                && let Some(below) = below
                && self.schedule.wait(position, below, WaitFor::Final) == WaitResult::Waiting
            {
                continue;
            }
            let (reader, frontier) = self.schedule.start(position);
            let read = below.map_or(0, |below| {
                let mut cell = self.cells[below as usize].lock().unwrap();
                if frontier != position {
                    cell.readers.push(reader);
                }
                cell.value
            });
            let stale = {
                let mut cell = self.cells[position as usize].lock().unwrap();
                let changed = cell.value != read + 1;
                cell.value = read + 1;
                if changed { std::mem::take(&mut cell.readers) } else { Vec::new() }
            };
            for reader in stale {
                self.schedule.invalidate(reader, |_| {});
            }
            match self.schedule.finish(reader, read + 1, |_| {}) {
                FinishResult::Stale(again) => next_position = again.then_some(position),
                FinishResult::Executed(waiting) => {
                    waiting.into_iter().for_each(|position| self.take(&mut next_position, position));
                    let mut next = position;
                    loop {
                        match self.schedule.finalize(next, |_| true) {
                            FinalizeResult::Final(waiting) => {
                                next += 1;
                                waiting.into_iter().for_each(|position| self.take(&mut next_position, position));
                            }
                            FinalizeResult::Run => {
                                self.take(&mut next_position, next);
                                break;
                            }
                            FinalizeResult::Later => break,
                        }
                    }
                }
            }
        }
    }
}

impl Block {
    fn take(&self, next_position: &mut Option<Position>, position: Position) {
        if let Some(held) = next_position.replace(position) {
            self.schedule.push(held);
        }
    }
}

fn explore(transactions: usize, threads: usize, predicted_conflicts: bool, preemptions: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(move || {
        let block = Arc::new(Block::new(transactions, predicted_conflicts));
        let others: Vec<_> = (1..threads)
            .map(|_| {
                let block = block.clone();
                loom::thread::spawn(move || block.work())
            })
            .collect();
        block.work();
        others.into_iter().for_each(|thread| thread.join().unwrap());
        // All workers have ended, everything is final, and each transaction has read its predecessor's last value.
        assert_eq!(block.schedule.frontier() as usize, transactions);
        for position in 0..transactions {
            assert_eq!(block.schedule.with_result(position as Position, |result| *result), position as u32 + 1);
        }
    });
}

#[test]
fn writer_and_reader() {
    explore(2, 2, false, 3);
}

#[test]
fn chain_of_three() {
    explore(3, 2, false, 2);
}

#[test]
fn wait_for_predecessor() {
    explore(3, 2, true, 2);
}

#[test]
fn three_threads() {
    explore(2, 3, false, 2);
}

/// Pushing a transaction wakes a sleeping worker. In a real block a missing wake-up costs only speed, since the pushing
/// worker returns to the queue. Here it returns only after another worker has taken the transaction.
#[test]
fn sleeping_worker_is_woken() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let schedule = Arc::new(Schedule::new([(), ()].into_iter(), 1));
        let given: Vec<Position> = std::iter::from_fn(|| schedule.next(&mut (0..0))).collect();
        let (taken, sleepers) = (Arc::new(loom::sync::Notify::new()), [schedule.clone(), schedule.clone()]);
        let sleepers = sleepers.map(|schedule| {
            let taken = taken.clone();
            loom::thread::spawn(move || {
                while schedule.sleep() {
                    if schedule.next(&mut (0..0)).is_some() {
                        taken.notify();
                    }
                }
            })
        });
        for position in given {
            schedule.push(position);
            taken.wait();
        }
        schedule.close();
        sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
    });
}
