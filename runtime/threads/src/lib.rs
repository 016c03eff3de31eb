//! The executor's pool on threads of the operating system: started once, asleep between blocks, each with the stack
//! size that the virtual machine needs. The caller is one of them, so no thread has to wake for the first
//! transaction. rayon starts, wakes and joins the threads.

use corniche_executor::WorkerPool;
use corniche_vm::THREAD_STACK_BYTES;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::{
    io,
    sync::{Mutex, PoisonError},
};

/// Pool of threads that run one job at a time, all of them at once; the first is the caller's.
pub struct Threads {
    /// All threads but the caller's; `None` if there are no others.
    others: Option<ThreadPool>,
    /// Held while a job runs: a second caller waits. Two jobs at once could wait for each other.
    turn: Mutex<()>,
}

impl Threads {
    /// Starts `count` threads minus the caller's. Fails if the system cannot start them.
    pub fn start(count: usize) -> io::Result<Self> {
        let start = |others| {
            let named = ThreadPoolBuilder::new().thread_name(|index| format!("execute-{}", index + 1));
            named.num_threads(others).stack_size(THREAD_STACK_BYTES).build().map_err(io::Error::other)
        };
        // rayon reads 0 as "one per processor".
        let others = (count > 1).then(|| start(count - 1)).transpose()?;
        Ok(Self { others, turn: Mutex::default() })
    }
}

impl WorkerPool for Threads {
    fn threads(&self) -> usize {
        1 + self.others.as_ref().map_or(0, ThreadPool::current_num_threads)
    }

    /// A job that calls the pool itself waits forever.
    ///
    /// # Panics
    /// Panics like the caller's own job, or else like the first job that panicked, after all have ended. Jobs
    /// must not wait forever for one that panicked.
    fn run(&self, job: &(dyn Fn(usize) + Sync)) {
        let Some(others) = &self.others else { return job(0) };
        // The lock guards no data that a panic could leave inconsistent.
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        others.in_place_scope(|scope| {
            scope.spawn_broadcast(|_, context| job(context.index() + 1));
            job(0);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        collections::{BTreeMap, BTreeSet},
        panic::{self, AssertUnwindSafe},
        sync::{
            Barrier,
            atomic::{AtomicUsize, Ordering},
        },
        thread::{self, ThreadId},
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
            seen.lock().unwrap().insert(index);
        });
        assert_eq!(seen.into_inner().unwrap(), (0..4).collect());
    }

    #[test]
    fn jobs_end_before_run_returns() {
        let pool = pool(3);
        let ids = || {
            let ids = Mutex::new(Vec::new());
            pool.run(&|index| ids.lock().unwrap().push((index, thread::current().id())));
            ids.into_inner().unwrap().into_iter().collect::<BTreeMap<usize, ThreadId>>()
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
    fn panic_reaches_caller_and_pool_continues() {
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
