//! Bounded work: so many jobs run, so many wait, and the next is told that the server is busy. A flood of calls then costs the
//! node a known number of threads and leaves the other methods alone.

use corniche_api::{Reason, RpcError};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Semaphore;

/// A bound on jobs of one kind.
#[derive(Debug)]
pub(crate) struct Work {
    running: Arc<Semaphore>,
    waiting: AtomicUsize,
    max_waiting: usize,
}

impl Work {
    pub fn new(max_running: usize, max_waiting: usize) -> Self {
        Self { running: Arc::new(Semaphore::new(max_running.max(1))), waiting: AtomicUsize::new(0), max_waiting }
    }

    /// Runs `job` on a thread that may block. A job whose client has gone runs to its end and keeps its place until then; one
    /// that panics is answered as a fault of this node.
    pub async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> Result<T, RpcError> + Send + 'static,
    ) -> Result<T, RpcError> {
        let permit = match Arc::clone(&self.running).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                let _place = Place::take(&self.waiting, self.max_waiting)?;
                let acquired = Arc::clone(&self.running).acquire_owned().await;
                acquired.map_err(|_| Reason::ServerBusy.error())?
            }
        };
        let job = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            job()
        });
        job.await.unwrap_or_else(|error| {
            tracing::error!(%error, "an RPC job did not finish");
            Err(RpcError::internal("internal error"))
        })
    }
}

/// A place in the queue, given back when dropped: also when the client goes while waiting.
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    fn take(waiting: &'a AtomicUsize, max: usize) -> Result<Self, RpcError> {
        let grown = waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |waiting| (waiting < max).then(|| waiting + 1));
        grown.map(|_| Self(waiting)).map_err(|_| Reason::ServerBusy.error())
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[tokio::test]
    async fn jobs_beyond_the_bounds_are_refused_and_places_are_given_back() {
        let work = Arc::new(Work::new(1, 1));
        let (release, gate) = mpsc::channel::<()>();
        let (started, running) = tokio::sync::oneshot::channel();
        let first = tokio::spawn({
            let work = Arc::clone(&work);
            async move {
                work.run(move || {
                    let _ = started.send(());
                    gate.recv().map_err(|_| RpcError::internal("gate"))
                })
                .await
            }
        });
        running.await.unwrap();
        // One may wait; polled once, it has its place.
        let mut second = Box::pin(work.run(|| Ok(2)));
        assert!(futures::poll!(&mut second).is_pending());
        let third = futures::poll!(Box::pin(work.run(|| Ok(3))));
        assert_eq!(third, std::task::Poll::Ready(Err(Reason::ServerBusy.error())));
        // The one that waited goes away: its place is free again.
        drop(second);
        let mut fourth = Box::pin(work.run(|| Ok(4)));
        assert!(futures::poll!(&mut fourth).is_pending());
        release.send(()).unwrap();
        assert_eq!(fourth.await, Ok(4));
        assert_eq!(first.await.unwrap(), Ok(()));
    }

    #[tokio::test]
    async fn a_panicking_job_is_an_internal_error_and_frees_its_thread() {
        let work = Work::new(1, 0);
        let result: Result<(), _> = work.run(|| panic!("planted")).await;
        assert_eq!(result.unwrap_err().code, -32603);
        assert_eq!(work.run(|| Ok(1)).await, Ok(1));
    }
}
