//! A pool of real threads, started for each run.

use corniche_executor::WorkerPool;
use corniche_vm::wasm::THREAD_STACK_BYTES;

pub struct Threads(pub usize);

impl WorkerPool for Threads {
    fn threads(&self) -> usize {
        self.0
    }

    #[allow(clippy::disallowed_methods)] // tests start the threads that cli starts elsewhere
    fn run(&self, job: &(dyn Fn(usize) + Sync)) {
        std::thread::scope(|scope| {
            for index in 0..self.0 {
                let thread = std::thread::Builder::new().stack_size(THREAD_STACK_BYTES);
                thread.spawn_scoped(scope, move || job(index)).unwrap();
            }
        });
    }
}
