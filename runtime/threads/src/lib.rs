//! Threads that execute blocks: started once, parked between blocks, each with the stack size that the
//! virtual machine needs. The caller is one of them, so no thread has to be woken for the first transaction.

use corniche_executor::Pool;
use corniche_vm::THREAD_STACK_BYTES;
use std::{
    any::Any,
    io,
    panic::{self, AssertUnwindSafe},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
};

type Job = dyn Fn(usize) + Sync;

/// Pool of threads that run one job at a time, all of them at once; the first is the caller's.
pub struct Threads {
    shared: Arc<Shared>,
    handles: Vec<JoinHandle<()>>,
    /// Held while a job runs: a second caller waits.
    turn: Mutex<()>,
}

#[derive(Default)]
struct Shared {
    round: Mutex<Round>,
    /// Signals a new job, or the end.
    begin: Condvar,
    /// Signals that the last thread has returned from the job.
    done: Condvar,
}

#[derive(Default)]
struct Round {
    /// Number of jobs so far; a thread with a smaller number has work.
    number: u64,
    /// Present while threads run it.
    job: Option<&'static Job>,
    running: usize,
    /// First panic of this job.
    panic: Option<Box<dyn Any + Send>>,
    stopped: bool,
}

impl Threads {
    /// Starts `count` threads minus the caller's. Fails if the system cannot start them.
    pub fn start(count: usize) -> io::Result<Self> {
        let mut pool = Self { shared: Arc::default(), handles: Vec::new(), turn: Mutex::default() };
        for index in 1..count {
            let shared = pool.shared.clone();
            let builder = thread::Builder::new().name(format!("execute-{index}")).stack_size(THREAD_STACK_BYTES);
            // If this one fails, dropping the pool ends the earlier ones.
            pool.handles.push(builder.spawn(move || shared.work(index))?);
        }
        Ok(pool)
    }
}

impl Pool for Threads {
    fn threads(&self) -> usize {
        self.handles.len() + 1
    }

    /// A job that calls the pool itself waits forever.
    ///
    /// # Panics
    /// Panics like the caller's own job, or else like the first job that panicked, after all have ended. Jobs
    /// must not wait forever for one that panicked.
    fn run(&self, job: &(dyn Fn(usize) + Sync)) {
        let turn = lock(&self.turn);
        // SAFETY: only the lifetime changes. The threads use the reference until they count themselves out of
        // this round. This function returns only after all did, and takes the reference back before; nothing
        // in between can unwind.
        #[allow(unsafe_code)]
        let job = unsafe { std::mem::transmute::<&(dyn Fn(usize) + Sync + '_), &'static Job>(job) };
        let mut round = lock(&self.shared.round);
        round.number += 1;
        round.job = Some(job);
        round.running = self.handles.len();
        drop(round);
        self.shared.begin.notify_all();
        let own = panic::catch_unwind(AssertUnwindSafe(|| job(0)));
        let mut round = lock(&self.shared.round);
        while round.running > 0 {
            round = wait(&self.shared.done, round);
        }
        round.job = None;
        let panic = round.panic.take();
        drop((round, turn));
        if let Some(panic) = own.err().or(panic) {
            panic::resume_unwind(panic);
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        lock(&self.shared.round).stopped = true;
        self.shared.begin.notify_all();
        for handle in self.handles.drain(..) {
            // Jobs' panics are caught, and the thread has no other code that could panic.
            let _ = handle.join();
        }
    }
}

impl Shared {
    fn work(&self, index: usize) {
        let mut seen = 0;
        let mut round = lock(&self.round);
        loop {
            while round.number == seen && !round.stopped {
                round = wait(&self.begin, round);
            }
            if round.stopped {
                return;
            }
            seen = round.number;
            let job = round.job.expect("a round has its job until every thread has returned");
            drop(round);
            let ended = panic::catch_unwind(AssertUnwindSafe(|| job(index)));
            round = lock(&self.round);
            if let Err(panic) = ended {
                round.panic.get_or_insert(panic);
            }
            round.running -= 1;
            if round.running == 0 {
                self.done.notify_one();
            }
        }
    }
}

/// No job runs under these locks, so a poisoned lock is still consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        collections::BTreeSet,
        sync::{
            Barrier,
            atomic::{AtomicUsize, Ordering},
        },
        thread::ThreadId,
    };

    fn pool(count: usize) -> Threads {
        Threads::start(count).unwrap()
    }

    #[test]
    fn all_indices_run_at_the_same_time() {
        let pool = pool(4);
        assert_eq!(pool.threads(), 4);
        // Only passed if all four threads are there at once.
        let barrier = Barrier::new(4);
        let seen = Mutex::new(BTreeSet::new());
        pool.run(&|index| {
            barrier.wait();
            lock(&seen).insert(index);
        });
        assert_eq!(seen.into_inner().unwrap(), (0..4).collect());
    }

    #[test]
    fn every_job_runs_on_the_same_threads_and_is_over_when_run_returns() {
        let pool = pool(3);
        let ids = || {
            let ids = Mutex::new(Vec::new());
            pool.run(&|index| lock(&ids).push((index, thread::current().id())));
            ids.into_inner().unwrap().into_iter().collect::<std::collections::BTreeMap<usize, ThreadId>>()
        };
        let first = ids();
        assert_eq!(first.len(), 3);
        let sum = AtomicUsize::new(0);
        for round in 1..=1_000 {
            pool.run(&|_| {
                sum.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(sum.load(Ordering::Relaxed), 3 * round);
        }
        assert_eq!(ids(), first);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_goes_on() {
        let pool = pool(2);
        let finished = AtomicUsize::new(0);
        let run = AssertUnwindSafe(|| {
            pool.run(&|index| {
                assert_ne!(index, 1, "job 1 fails");
                finished.fetch_add(1, Ordering::Relaxed);
            });
        });
        let panic = panic::catch_unwind(run).unwrap_err();
        assert!(panic.downcast_ref::<String>().unwrap().contains("job 1 fails"));
        assert_eq!(finished.load(Ordering::Relaxed), 1, "the other one was waited for");
        pool.run(&|_| {
            finished.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(finished.into_inner(), 3, "and the panic is not raised twice");
    }

    #[test]
    fn callers_take_turns() {
        let pool = pool(2);
        let inside = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        pool.run(&|_| {
                            assert!(inside.fetch_add(1, Ordering::SeqCst) < 2, "two jobs at once");
                            thread::yield_now();
                            inside.fetch_sub(1, Ordering::SeqCst);
                        });
                    }
                });
            }
        });
    }

    #[test]
    fn threads_have_the_stack_of_the_virtual_machine() {
        fn deep(bytes: usize) -> u8 {
            let here = [1u8; 4096];
            let here = std::hint::black_box(here);
            if bytes < here.len() { here[0] } else { deep(bytes - here.len()).wrapping_add(here[7]) }
        }
        // Far above the default stack of 2 MiB, with which the process would abort here.
        pool(2).run(&|index| {
            if index > 0 {
                std::hint::black_box(deep(THREAD_STACK_BYTES / 2));
            }
        });
    }
}
