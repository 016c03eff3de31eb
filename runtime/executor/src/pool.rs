//! Thread pools, provided by the caller: this crate starts no threads.

/// Worker threads, each with [`corniche_vm::THREAD_STACK_BYTES`] of stack, because contracts run on them.
pub trait WorkerPool: Send + Sync {
    /// Number of threads; at least 1.
    fn threads(&self) -> usize;

    /// Runs `job(0)` to `job(threads() - 1)` concurrently, each on its own thread (one of them may be the caller's),
    /// and returns when all have returned. Jobs wait for each other, so the pool must not delay a job until another one
    /// has returned. A panic in a job is passed on to the caller after the other jobs have returned.
    fn run(&self, job: &(dyn Fn(usize) + Sync));
}

/// Runs the job on the caller's thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct SingleThread;

impl WorkerPool for SingleThread {
    fn threads(&self) -> usize {
        1
    }

    fn run(&self, job: &(dyn Fn(usize) + Sync)) {
        job(0);
    }
}
