//! Threads, handed in by whoever may start them.

/// Threads that wait for work, each with [`corniche_vm::THREAD_STACK_BYTES`] of stack. Contracts run on them.
pub trait Pool: Send + Sync {
    /// How many there are; at least one.
    fn threads(&self) -> usize;

    /// Runs `job(0)` to `job(threads() - 1)` at the same time, each on a thread of its own (one of them may be the caller's),
    /// and returns when all have returned. Jobs wait for each other, so none may be put off until another has returned. A panic
    /// in a job is passed on to the caller, after the others returned.
    fn run(&self, job: &(dyn Fn(usize) + Sync));
}

/// The caller's own thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl Pool for Alone {
    fn threads(&self) -> usize {
        1
    }

    fn run(&self, job: &(dyn Fn(usize) + Sync)) {
        job(0);
    }
}
