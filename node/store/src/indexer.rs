//! Background thread that moves the checkpoint towards the head.

use crate::shared::Shared;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

#[derive(Default)]
struct Signal {
    wanted: bool,
    stop: bool,
}

/// Stops and joins its thread when dropped.
pub(crate) struct Indexer {
    signal: Arc<(Mutex<Signal>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Indexer {
    /// Wakes every `interval`, and whenever [`Indexer::wake`] is called.
    pub(crate) fn start(shared: Arc<Shared>, interval: Duration) -> std::io::Result<Self> {
        let signal = Arc::new((Mutex::new(Signal::default()), Condvar::new()));
        let theirs = signal.clone();
        let run = move || {
            while wait(&theirs, interval) {
                shared.checkpoint(false);
            }
        };
        let thread = std::thread::Builder::new().name("store-checkpoint".into()).spawn(run)?;
        Ok(Self { signal, thread: Some(thread) })
    }

    pub(crate) fn wake(&self) {
        lock(&self.signal.0).wanted = true;
        self.signal.1.notify_one();
    }
}

impl Drop for Indexer {
    fn drop(&mut self) {
        lock(&self.signal.0).stop = true;
        self.signal.1.notify_one();
        if let Some(thread) = self.thread.take() {
            // The panic was logged; the checkpoint is then only behind.
            let _ = thread.join();
        }
    }
}

/// Returns false when the thread should end.
fn wait(signal: &(Mutex<Signal>, Condvar), interval: Duration) -> bool {
    let (mutex, changed) = signal;
    let waiting = |signal: &mut Signal| !signal.wanted && !signal.stop;
    let result = changed.wait_timeout_while(lock(mutex), interval, waiting);
    let (mut signal, _) = result.unwrap_or_else(PoisonError::into_inner);
    signal.wanted = false;
    !signal.stop
}

fn lock(mutex: &Mutex<Signal>) -> MutexGuard<'_, Signal> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
