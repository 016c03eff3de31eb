//! Bounded, fair job queue: a fixed number of jobs runs, a fixed number waits, further ones get "server
//! busy". So a flood of calls costs the node a known number of threads and does not block other methods.
//!
//! Clients take turns, however many jobs each has queued. If the queue is full, the client with the most jobs
//! loses its newest one to a client with fewer. So a client that floods the node delays only itself. A client
//! is an [`Origin`]: all connections of one address are one client, and so are all clients behind one
//! untrusted proxy.

use corniche_api::{Reason, RpcError};
use corniche_origin::Origin;
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Limits the jobs of one kind.
pub(crate) struct Work {
    line: Arc<Line>,
}

struct Line {
    state: Mutex<State>,
    max_running: usize,
    max_waiting: usize,
}

#[derive(Default)]
struct State {
    running: usize,
    waiting: usize,
    next_place: u64,
    /// Clients with queued jobs, in the order of their turns.
    turns: VecDeque<Origin>,
    jobs: BTreeMap<Origin, VecDeque<Waiting>>,
}

/// Queued job. If it is dropped, its client gets "server busy".
struct Waiting {
    place: u64,
    job: Job,
}

/// Returns a closure that sends the result. It runs after the job's place is freed, so a client that has its
/// result can count on the free place.
type Job = Box<dyn FnOnce() -> Box<dyn FnOnce()> + Send>;

impl Work {
    pub fn new(max_running: usize, max_waiting: usize) -> Self {
        let line = Line { state: Mutex::default(), max_running: max_running.max(1), max_waiting };
        Self { line: Arc::new(line) }
    }

    /// Runs `job` on a thread that may block. A running job is finished even if its client disconnects. A
    /// panic becomes an internal error.
    pub async fn run<T: Send + 'static>(
        &self,
        client: Origin,
        job: impl FnOnce() -> Result<T, RpcError> + Send + 'static,
    ) -> Result<T, RpcError> {
        let (told, answer) = oneshot::channel();
        let job: Job = Box::new(move || {
            let outcome = catch_unwind(AssertUnwindSafe(job));
            Box::new(move || drop(told.send(outcome)))
        });
        let _place = self.enter(client, job)?;
        match answer.await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => {
                tracing::error!("an RPC job panicked");
                Err(RpcError::internal("internal error"))
            }
            Err(_) => Err(Reason::ServerBusy.error()),
        }
    }

    fn enter(&self, client: Origin, job: Job) -> Result<Option<Place<'_>>, RpcError> {
        let mut state = self.line.lock();
        if state.running < self.line.max_running {
            state.running += 1;
            drop(state);
            let line = Arc::clone(&self.line);
            tokio::task::spawn_blocking(move || line.serve(job));
            return Ok(None);
        }
        if state.waiting >= self.line.max_waiting && !state.make_room_for(client) {
            return Err(Reason::ServerBusy.error());
        }
        let place = state.wait(client, job);
        Ok(Some(Place { line: &self.line, client, place }))
    }
}

impl Line {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every critical section leaves the state consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a job; returns the next one, if any, which takes its place.
    fn end_one(&self) -> Option<Job> {
        let mut state = self.lock();
        let next = state.next().map(|waiting| waiting.job);
        state.running -= usize::from(next.is_none());
        next
    }

    /// Loop of one thread: runs a job, then queued ones. Starting a thread per job would wake two threads
    /// each time, which costs several times as much as a cheap call.
    fn serve(&self, first: Job) {
        let mut next = Some(first);
        while let Some(job) = next {
            let tell = job();
            next = self.end_one();
            tell();
        }
    }
}

impl State {
    fn wait(&mut self, client: Origin, job: Job) -> u64 {
        let place = self.next_place;
        self.next_place += 1;
        self.waiting += 1;
        let jobs = self.jobs.entry(client).or_default();
        if jobs.is_empty() {
            self.turns.push_back(client);
        }
        jobs.push_back(Waiting { place, job });
        place
    }

    /// Removes the newest job of the client with the most jobs, if that client has at least two more than
    /// `client`; it gets "server busy".
    fn make_room_for(&mut self, client: Origin) -> bool {
        let own = self.jobs.get(&client).map_or(0, VecDeque::len);
        let most = self.jobs.iter().max_by_key(|(_, jobs)| jobs.len()).filter(|(_, jobs)| jobs.len() > own + 1);
        let Some((&greedy, jobs)) = most else { return false };
        let newest = jobs.back().map(|waiting| waiting.place);
        newest.is_some_and(|place| self.leave(greedy, place))
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
    fn leave(&mut self, client: Origin, place: u64) -> bool {
        let Some(jobs) = self.jobs.get_mut(&client) else { return false };
        let before = jobs.len();
        jobs.retain(|waiting| waiting.place != place);
        let left = jobs.len() < before;
        if jobs.is_empty() {
            self.jobs.remove(&client);
            self.turns.retain(|turn| *turn != client);
        }
        self.waiting -= usize::from(left);
        left
    }
}

/// Place in the queue, given back when dropped, also if the client disconnects while waiting.
struct Place<'a> {
    line: &'a Line,
    client: Origin,
    place: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.line.lock().leave(self.client, self.place);
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
    async fn occupy(work: &Arc<Work>) -> (mpsc::Sender<()>, tokio::task::JoinHandle<Result<(), RpcError>>) {
        let (release, gate) = mpsc::channel::<()>();
        let (started, running) = oneshot::channel();
        let work = Arc::clone(work);
        let job = tokio::spawn(async move {
            let job = move || {
                let _ = started.send(());
                gate.recv().map_err(|_| RpcError::internal("gate"))
            };
            work.run(client(1), job).await
        });
        running.await.unwrap();
        (release, job)
    }

    type Answer<'a> = Pin<Box<dyn Future<Output = Result<u8, RpcError>> + 'a>>;

    /// Job that records its number when it runs.
    fn noting<'a>(work: &'a Work, from: u8, number: u8, notes: &mpsc::Sender<u8>) -> Answer<'a> {
        let notes = notes.clone();
        let job = move || {
            let _ = notes.send(number);
            Ok(number)
        };
        Box::pin(work.run(client(from), job))
    }

    #[tokio::test]
    async fn jobs_beyond_the_bounds_are_refused_and_places_are_given_back() {
        let work = Arc::new(Work::new(1, 1));
        let (release, first) = occupy(&work).await;
        // One job may wait; after one poll it is queued.
        let mut second = Box::pin(work.run(client(1), || Ok(2)));
        assert!(futures::poll!(&mut second).is_pending());
        let third = futures::poll!(Box::pin(work.run(client(1), || Ok(3))));
        assert_eq!(third, Poll::Ready(Err(Reason::ServerBusy.error())));
        // The queued job is dropped: its place is free again.
        drop(second);
        let mut fourth = Box::pin(work.run(client(1), || Ok(4)));
        assert!(futures::poll!(&mut fourth).is_pending());
        release.send(()).unwrap();
        assert_eq!(fourth.await, Ok(4));
        assert_eq!(first.await.unwrap(), Ok(()));
        assert_eq!(work.run(client(1), || Ok(5)).await, Ok(5));
    }

    #[tokio::test]
    async fn clients_take_turns_however_much_each_asks() {
        let work = Arc::new(Work::new(1, 10));
        let (release, first) = occupy(&work).await;
        let (notes, noted) = mpsc::channel();
        let asked = [(1, 10), (1, 11), (1, 12), (2, 20), (2, 21), (3, 30)];
        let mut answers: Vec<_> = asked.iter().map(|(from, number)| noting(&work, *from, *number, &notes)).collect();
        for answer in &mut answers {
            assert!(futures::poll!(answer).is_pending());
        }
        release.send(()).unwrap();
        first.await.unwrap().unwrap();
        for answer in futures::future::join_all(answers).await {
            answer.unwrap();
        }
        drop(notes);
        assert_eq!(noted.iter().collect::<Vec<_>>(), [10, 20, 30, 11, 21, 12]);
    }

    #[tokio::test]
    async fn who_fills_the_line_makes_room_for_others() {
        let work = Arc::new(Work::new(1, 4));
        let (release, first) = occupy(&work).await;
        let (notes, noted) = mpsc::channel();
        let mut flood: Vec<_> = (10..14).map(|number| noting(&work, 1, number, &notes)).collect();
        for answer in &mut flood {
            assert!(futures::poll!(answer).is_pending());
        }
        let busy = Poll::Ready(Err(Reason::ServerBusy.error()));
        assert_eq!(futures::poll!(noting(&work, 1, 14, &notes)), busy, "it has all the places there are");
        let mut others: Vec<_> = [(2, 20), (2, 21)].map(|(from, number)| noting(&work, from, number, &notes)).into();
        for other in &mut others {
            assert!(futures::poll!(other).is_pending());
        }
        assert_eq!(futures::poll!(noting(&work, 2, 22, &notes)), busy, "half of the places are half of the places");
        let refused = flood.split_off(2);
        for answer in refused {
            assert_eq!(answer.await, Err(Reason::ServerBusy.error()), "the newest of the flood gave way");
        }
        release.send(()).unwrap();
        first.await.unwrap().unwrap();
        for answer in futures::future::join_all(flood.into_iter().chain(others)).await {
            answer.unwrap();
        }
        drop(notes);
        assert_eq!(noted.iter().collect::<Vec<_>>(), [10, 20, 11, 21]);
    }

    /// Otherwise two clients would take the last place from each other forever.
    #[tokio::test]
    async fn nobody_gives_way_to_who_would_then_have_as_many() {
        let work = Arc::new(Work::new(1, 3));
        let (release, first) = occupy(&work).await;
        let (notes, _noted) = mpsc::channel();
        let mut waiting: Vec<_> = [(1, 10), (1, 11), (2, 20)].map(|(from, number)| noting(&work, from, number, &notes)).into();
        for answer in &mut waiting {
            assert!(futures::poll!(answer).is_pending());
        }
        for from in [1, 2] {
            let busy = Poll::Ready(Err(Reason::ServerBusy.error()));
            assert_eq!(futures::poll!(noting(&work, from, 30, &notes)), busy, "client {from}");
        }
        release.send(()).unwrap();
        first.await.unwrap().unwrap();
        for answer in futures::future::join_all(waiting).await {
            answer.unwrap();
        }
    }

    #[tokio::test]
    async fn a_panicking_job_is_an_internal_error_and_frees_its_thread() {
        let work = Work::new(1, 0);
        let result: Result<(), _> = work.run(client(1), || panic!("planted")).await;
        assert_eq!(result.unwrap_err().code, -32603);
        assert_eq!(work.run(client(1), || Ok(1)).await, Ok(1));
    }
}
