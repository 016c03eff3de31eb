//! Bounded, fair job queue: a fixed number of jobs runs, a fixed number waits, further ones get "server
//! busy". So a flood of calls costs the node a known number of threads and does not block other methods.
//!
//! Clients take turns, however many jobs each has queued. If the queue is full, the client with the most jobs
//! loses its newest one to a client with fewer. So a client that floods the node delays only itself. A client
//! is an [`Origin`]: all connections of one address are one client, and so are all clients behind one
//! untrusted proxy.

use crate::priority;
use corniche_api::{Reason, RpcError};
use corniche_origin::Origin;
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Limits the jobs of one kind.
pub(crate) struct FairExecutor {
    queue: Arc<FairQueue>,
}

struct FairQueue {
    state: Mutex<State>,
    max_running: usize,
    max_waiting: usize,
}

#[derive(Default)]
struct State {
    running: usize,
    waiting: usize,
    next_ticket: u64,
    /// Clients with queued jobs, in the order of their turns.
    turns: VecDeque<Origin>,
    jobs: BTreeMap<Origin, VecDeque<Waiting>>,
}

/// Queued job. If it is dropped, its client gets "server busy".
struct Waiting {
    ticket: u64,
    job: Job,
}

/// Returns a closure that sends the result. It runs after the job's place is freed, so a client that has its
/// result can count on the free place.
type Job = Box<dyn FnOnce() -> Box<dyn FnOnce()> + Send>;

impl FairExecutor {
    pub fn new(max_running: usize, max_waiting: usize) -> Self {
        let queue = FairQueue { state: Mutex::default(), max_running: max_running.max(1), max_waiting };
        Self { queue: Arc::new(queue) }
    }

    /// Runs `job` on a thread that may block. A running job is finished even if its client disconnects. A
    /// panic becomes an internal error.
    pub async fn run<T: Send + 'static>(
        &self,
        client: Origin,
        job: impl FnOnce() -> Result<T, RpcError> + Send + 'static,
    ) -> Result<T, RpcError> {
        let (sender, result) = oneshot::channel();
        let job: Job = Box::new(move || {
            let outcome = catch_unwind(AssertUnwindSafe(job));
            Box::new(move || drop(sender.send(outcome)))
        });
        let _ticket = self.enqueue(client, job)?;
        match result.await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => {
                tracing::error!("an RPC job panicked");
                Err(RpcError::internal("internal error"))
            }
            Err(_) => Err(Reason::ServerBusy.error()),
        }
    }

    fn enqueue(&self, client: Origin, job: Job) -> Result<Option<QueueTicket<'_>>, RpcError> {
        let mut state = self.queue.lock();
        if state.running < self.queue.max_running {
            state.running += 1;
            drop(state);
            let queue = Arc::clone(&self.queue);
            tokio::task::spawn_blocking(move || queue.run_jobs(job));
            return Ok(None);
        }
        if state.waiting >= self.queue.max_waiting && !state.evict_for(client) {
            return Err(Reason::ServerBusy.error());
        }
        let ticket = state.push(client, job);
        Ok(Some(QueueTicket { queue: &self.queue, client, ticket }))
    }
}

impl FairQueue {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every critical section leaves the state consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a job; returns the next one, if any, which takes its place.
    fn finish_job(&self) -> Option<Job> {
        let mut state = self.lock();
        let next = state.next().map(|waiting| waiting.job);
        state.running -= usize::from(next.is_none());
        next
    }

    /// Loop of one thread: runs a job, then queued ones. Starting a thread per job would wake two threads
    /// each time, which costs several times as much as a cheap call.
    fn run_jobs(&self, first: Job) {
        priority::yield_to_ordering();
        let mut next = Some(first);
        while let Some(job) = next {
            let send_result = job();
            next = self.finish_job();
            send_result();
        }
    }
}

impl State {
    fn push(&mut self, client: Origin, job: Job) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.waiting += 1;
        let jobs = self.jobs.entry(client).or_default();
        if jobs.is_empty() {
            self.turns.push_back(client);
        }
        jobs.push_back(Waiting { ticket, job });
        ticket
    }

    /// Removes the newest job of the client with the most jobs, if that client has at least two more than
    /// `client`; it gets "server busy".
    fn evict_for(&mut self, client: Origin) -> bool {
        let own = self.jobs.get(&client).map_or(0, VecDeque::len);
        let busiest = self.jobs.iter().max_by_key(|(_, jobs)| jobs.len()).filter(|(_, jobs)| jobs.len() > own + 1);
        let Some((&greedy, jobs)) = busiest else { return false };
        let newest = jobs.back().map(|waiting| waiting.ticket);
        newest.is_some_and(|ticket| self.cancel(greedy, ticket))
    }

    /// Takes the next job in turn.
    fn next(&mut self) -> Option<Waiting> {
        let client = self.turns.pop_front()?;
        let jobs = self.jobs.get_mut(&client)?;
        let next = jobs.pop_front();
        if jobs.is_empty() {
            self.jobs.remove(&client);
        } else {
            self.turns.push_back(client);
        }
        self.waiting -= usize::from(next.is_some());
        next
    }

    /// Removes a queued job; returns true if it was still queued.
    fn cancel(&mut self, client: Origin, ticket: u64) -> bool {
        let Some(jobs) = self.jobs.get_mut(&client) else { return false };
        let before = jobs.len();
        jobs.retain(|waiting| waiting.ticket != ticket);
        let removed = jobs.len() < before;
        if jobs.is_empty() {
            self.jobs.remove(&client);
            self.turns.retain(|turn| *turn != client);
        }
        self.waiting -= usize::from(removed);
        removed
    }
}

/// Place in the queue, given back when dropped, also if the client disconnects while waiting.
struct QueueTicket<'a> {
    queue: &'a FairQueue,
    client: Origin,
    ticket: u64,
}

impl Drop for QueueTicket<'_> {
    fn drop(&mut self) {
        self.queue.lock().cancel(self.client, self.ticket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::Pin;
    use std::sync::mpsc;
    use std::task::Poll;

    fn client(number: u8) -> Origin {
        Origin::of([10, 0, 0, number].into())
    }

    /// Starts a job that runs until the returned sender fires; returns once it runs.
    async fn occupy(executor: &Arc<FairExecutor>) -> (mpsc::Sender<()>, tokio::task::JoinHandle<Result<(), RpcError>>) {
        let (release, gate) = mpsc::channel::<()>();
        let (started, running) = oneshot::channel();
        let executor = Arc::clone(executor);
        let job = tokio::spawn(async move {
            let job = move || {
                let _ = started.send(());
                gate.recv().map_err(|_| RpcError::internal("gate"))
            };
            executor.run(client(1), job).await
        });
        running.await.unwrap();
        (release, job)
    }

    type JobResult<'a> = Pin<Box<dyn Future<Output = Result<u8, RpcError>> + 'a>>;

    /// Job that records its number when it runs.
    fn recording_job<'a>(executor: &'a FairExecutor, from: u8, number: u8, recorded: &mpsc::Sender<u8>) -> JobResult<'a> {
        let recorded = recorded.clone();
        let job = move || {
            let _ = recorded.send(number);
            Ok(number)
        };
        Box::pin(executor.run(client(from), job))
    }

    #[tokio::test]
    async fn jobs_run_at_lower_priority() {
        let executor = FairExecutor::new(1, 1);
        let niceness = || Ok(rustix::process::getpriority_process(None).unwrap());
        assert!(executor.run(client(1), niceness).await.unwrap() >= priority::NICENESS);
        assert!(niceness().unwrap() < priority::NICENESS, "only threads that run jobs");
    }

    #[tokio::test]
    async fn jobs_above_limit_are_rejected() {
        let executor = Arc::new(FairExecutor::new(1, 1));
        let (release, first) = occupy(&executor).await;
        // One job may wait; after one poll it is queued.
        let mut second = Box::pin(executor.run(client(1), || Ok(2)));
        assert!(futures::poll!(&mut second).is_pending());
        let third = futures::poll!(Box::pin(executor.run(client(1), || Ok(3))));
        assert_eq!(third, Poll::Ready(Err(Reason::ServerBusy.error())));
        // The queued job is dropped: its place is free again.
        drop(second);
        let mut fourth = Box::pin(executor.run(client(1), || Ok(4)));
        assert!(futures::poll!(&mut fourth).is_pending());
        release.send(()).unwrap();
        assert_eq!(fourth.await, Ok(4));
        assert_eq!(first.await.unwrap(), Ok(()));
        assert_eq!(executor.run(client(1), || Ok(5)).await, Ok(5));
    }

    #[tokio::test]
    async fn clients_take_turns() {
        let executor = Arc::new(FairExecutor::new(1, 10));
        let (release, first) = occupy(&executor).await;
        let (recorded, received) = mpsc::channel();
        let requests = [(1, 10), (1, 11), (1, 12), (2, 20), (2, 21), (3, 30)];
        let mut results: Vec<_> =
            requests.iter().map(|(from, number)| recording_job(&executor, *from, *number, &recorded)).collect();
        for result in &mut results {
            assert!(futures::poll!(result).is_pending());
        }
        release.send(()).unwrap();
        first.await.unwrap().unwrap();
        for result in futures::future::join_all(results).await {
            result.unwrap();
        }
        drop(recorded);
        assert_eq!(received.iter().collect::<Vec<_>>(), [10, 20, 30, 11, 21, 12]);
    }

    #[tokio::test]
    async fn full_queue_evicts_heaviest_client() {
        let executor = Arc::new(FairExecutor::new(1, 4));
        let (release, first) = occupy(&executor).await;
        let (recorded, received) = mpsc::channel();
        let mut flooded: Vec<_> = (10..14).map(|number| recording_job(&executor, 1, number, &recorded)).collect();
        for result in &mut flooded {
            assert!(futures::poll!(result).is_pending());
        }
        let busy = Poll::Ready(Err(Reason::ServerBusy.error()));
        assert_eq!(futures::poll!(recording_job(&executor, 1, 14, &recorded)), busy, "it has all the places there are");
        let mut others: Vec<_> =
            [(2, 20), (2, 21)].map(|(from, number)| recording_job(&executor, from, number, &recorded)).into();
        for other in &mut others {
            assert!(futures::poll!(other).is_pending());
        }
        assert_eq!(
            futures::poll!(recording_job(&executor, 2, 22, &recorded)),
            busy,
            "half of the places are half of the places"
        );
        let refused = flooded.split_off(2);
        for result in refused {
            assert_eq!(result.await, Err(Reason::ServerBusy.error()), "the newest of the flood gave way");
        }
        release.send(()).unwrap();
        first.await.unwrap().unwrap();
        for result in futures::future::join_all(flooded.into_iter().chain(others)).await {
            result.unwrap();
        }
        drop(recorded);
        assert_eq!(received.iter().collect::<Vec<_>>(), [10, 20, 11, 21]);
    }

    /// Otherwise two clients would take the last place from each other forever.
    #[tokio::test]
    async fn equal_clients_do_not_evict() {
        let executor = Arc::new(FairExecutor::new(1, 3));
        let (release, first) = occupy(&executor).await;
        let (recorded, _received) = mpsc::channel();
        let mut waiting: Vec<_> =
            [(1, 10), (1, 11), (2, 20)].map(|(from, number)| recording_job(&executor, from, number, &recorded)).into();
        for result in &mut waiting {
            assert!(futures::poll!(result).is_pending());
        }
        for from in [1, 2] {
            let busy = Poll::Ready(Err(Reason::ServerBusy.error()));
            assert_eq!(futures::poll!(recording_job(&executor, from, 30, &recorded)), busy, "client {from}");
        }
        release.send(()).unwrap();
        first.await.unwrap().unwrap();
        for result in futures::future::join_all(waiting).await {
            result.unwrap();
        }
    }

    #[tokio::test]
    async fn panicking_job_is_internal_error() {
        let executor = FairExecutor::new(1, 0);
        let result: Result<(), _> = executor.run(client(1), || panic!("planted")).await;
        assert_eq!(result.unwrap_err().code, -32603);
        assert_eq!(executor.run(client(1), || Ok(1)).await, Ok(1));
    }
}
