//! Schedule: each transaction's status, which transactions wait for which, and how far results are final (D1, D3, D4,
//! D7).
//!
//! ```text
//!             start               finish               finalize, in order
//!   Ready ───────────▶ Running ───────────▶ Executed ───────────▶ Final
//!     ▲                 │  │ ▲                  │
//!     │  the other one  │  └─┼── stale ◀────────┘ a write below it changed what it had read
//!     └───────────── Waiting └── Parked: when all below is final
//! ```
//!
//! A counter hands out positions in order, several at a time. Positions to be run again go through a queue, lowest
//! first. A worker that finishes a transaction continues with one that waited for it. A worker without work sleeps.
//!
//! Invariants:
//! - One worker at a time owns a position, from `start` until `finish`, `wait` or `finalize` takes it back.
//! - Everything below the frontier is final. The transaction at the frontier is running, about to run, or about to be
//!   made final by the worker that executed it, so no search is needed and none is forgotten. The worker that executes p
//!   reads the frontier after it has set the status. The worker that moves the frontier to p reads p's status after
//!   that. Both hold the lock of p.
//! - A transaction waits only for lower ones, so the lowest that is not final never waits.

use crate::sync::{AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, PoisonError};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

/// Index of a transaction in its block.
pub(crate) type Position = u32;

/// One attempt at a transaction; incarnations count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reader {
    pub position: Position,
    pub incarnation: u32,
}

/// D7: after this many attempts without a result, a transaction waits until all earlier ones are final.
pub(crate) const MAX_ATTEMPTS: u32 = 3;

/// `T` is a transaction's result so far: protected by its lock, used only by the owner of its position.
pub(crate) struct Schedule<T> {
    slots: Vec<Slot<T>>,
    /// The lowest position not handed out yet.
    fresh: AtomicUsize,
    /// Number of positions handed out at a time. Neighbours share memory, so one thread should run them.
    batch: usize,
    /// All positions below this are final.
    frontier: AtomicUsize,
    queue: Mutex<Queue>,
    /// Length of the queue, readable without its lock.
    queued: AtomicUsize,
    wake: Condvar,
}

struct Slot<T> {
    state: Mutex<State<T>>,
    /// Newest attempt known to have read a value that changed since; 0 if none.
    stale: AtomicUsize,
}

struct State<T> {
    status: Status,
    attempt: u32,
    /// Positions that become ready when this one has executed.
    waiting: Vec<Position>,
    /// Positions that become ready when this one is final.
    until_final: Vec<Position>,
    result: T,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Ready,
    Running,
    /// Waits until a lower position has executed, or is final.
    Waiting,
    /// Waits until all lower positions are final.
    Parked,
    Executed,
    Final,
}

#[derive(Default)]
struct Queue {
    ready: BinaryHeap<Reverse<Position>>,
    asleep: usize,
    done: bool,
}

/// How long to wait for a lower position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitFor {
    Executed,
    /// An executed transaction may have read a wrong value. Certain dependents would continue from its result, and
    /// theirs from that one: a wave of wrong results just ahead of the right ones.
    Final,
}

/// Result of [`Schedule::wait`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitResult {
    Waiting,
    /// The lower position has already reached that status.
    AlreadyReached,
}

/// Result of [`Schedule::finish`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FinishResult {
    /// A value it read changed. `true`: the caller must run it again; `false`: it is parked.
    Stale(bool),
    /// These positions waited for it; the caller must run them.
    Executed(Vec<Position>),
}

/// Result of [`Schedule::finalize`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FinalizeResult {
    /// Continue with the next position. The listed ones waited for this one; the caller must run them.
    Final(Vec<Position>),
    /// The caller must run it, on final values.
    Run,
    /// Another worker will make it final.
    Later,
}

impl<T> Schedule<T> {
    pub fn new(results: impl Iterator<Item = T>, batch: usize) -> Self {
        let state = |result| State { status: Status::Ready, attempt: 0, waiting: Vec::new(), until_final: Vec::new(), result };
        let slots: Vec<_> =
            results.map(|result| Slot { state: Mutex::new(state(result)), stale: AtomicUsize::new(0) }).collect();
        let queue = Queue { done: slots.is_empty(), ..Queue::default() };
        Self {
            slots,
            fresh: AtomicUsize::new(0),
            batch,
            frontier: AtomicUsize::new(0),
            queue: Mutex::new(queue),
            queued: AtomicUsize::new(0),
            wake: Condvar::new(),
        }
    }

    /// Returns a position to run: the lowest in the queue, otherwise the next of `fresh`. `fresh` belongs to the
    /// caller; it is refilled with new positions when it is empty.
    pub fn next(&self, fresh: &mut Range<Position>) -> Option<Position> {
        if self.queued.load(Ordering::Acquire) > 0 {
            let mut queue = lock(&self.queue);
            if let Some(Reverse(position)) = queue.ready.pop() {
                self.queued.store(queue.ready.len(), Ordering::Release);
                return Some(position);
            }
        }
        if fresh.start >= fresh.end && self.fresh.load(Ordering::Relaxed) < self.slots.len() {
            let first = self.fresh.fetch_add(self.batch, Ordering::Relaxed);
            let end = (first + self.batch).min(self.slots.len());
            *fresh = first.min(end) as Position..end as Position;
        }
        fresh.next()
    }

    /// Queues a position and wakes a sleeping worker.
    pub fn push(&self, position: Position) {
        let mut queue = lock(&self.queue);
        queue.ready.push(Reverse(position));
        self.queued.store(queue.ready.len(), Ordering::Release);
        if queue.asleep > 0 {
            self.wake.notify_one();
        }
    }

    /// Sleeps until there may be work. Returns false when the block is done.
    pub fn sleep(&self) -> bool {
        let mut queue = lock(&self.queue);
        while !queue.done && queue.ready.is_empty() {
            queue.asleep += 1;
            queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.asleep -= 1;
        }
        !queue.done
    }

    /// Ends the work of all workers: everything is final, or nothing more can become final.
    pub fn close(&self) {
        self.fresh.store(self.slots.len(), Ordering::Relaxed);
        lock(&self.queue).done = true;
        self.wake.notify_all();
    }

    pub fn closed(&self) -> bool {
        lock(&self.queue).done
    }

    pub fn all_final(&self) -> bool {
        self.frontier() as usize == self.slots.len()
    }

    /// Returns whether the queue or the counter still has positions for [`next`](Self::next).
    #[cfg(test)]
    pub fn has_next(&self) -> bool {
        self.queued.load(Ordering::Acquire) > 0 || self.fresh.load(Ordering::Relaxed) < self.slots.len()
    }

    pub fn frontier(&self) -> Position {
        self.frontier.load(Ordering::Acquire) as Position
    }

    /// Begins an attempt. Also returns the frontier at that moment.
    pub fn start(&self, position: Position) -> (Reader, Position) {
        let mut state = self.state(position);
        debug_assert_eq!(state.status, Status::Ready, "{position}");
        state.status = Status::Running;
        state.attempt += 1;
        (Reader { position, incarnation: state.attempt }, self.frontier())
    }

    /// D1: makes `position` wait for the lower `earlier`. Returns `AlreadyReached`, without a change, if that one has already
    /// reached the status.
    pub fn wait(&self, position: Position, earlier: Position, until: WaitFor) -> WaitResult {
        debug_assert!(earlier < position, "waiting goes downwards");
        let of_earlier = &mut *self.state(earlier);
        let queue = match (until, of_earlier.status) {
            (_, Status::Final) | (WaitFor::Executed, Status::Executed) => return WaitResult::AlreadyReached,
            (WaitFor::Executed, _) => &mut of_earlier.waiting,
            (WaitFor::Final, _) => &mut of_earlier.until_final,
        };
        self.state(position).status = Status::Waiting;
        queue.push(position);
        WaitResult::Waiting
    }

    /// Returns a position that was not run, or whose attempt had no result. True: the caller must run it again. False:
    /// it is parked, because it has used up its attempts or `for_frontier` is set (D7).
    pub fn requeue(&self, position: Position, for_frontier: bool) -> bool {
        let mut state = self.state(position);
        self.retry(position, &mut state, for_frontier)
    }

    fn retry(&self, position: Position, state: &mut State<T>, for_frontier: bool) -> bool {
        let parked = (for_frontier || state.attempt >= MAX_ATTEMPTS) && self.frontier() < position;
        state.status = if parked { Status::Parked } else { Status::Ready };
        !parked
    }

    /// Returns whether this attempt has read a value that changed.
    pub fn is_stale(&self, reader: Reader) -> bool {
        self.slots[reader.position as usize].stale.load(Ordering::Acquire) >= reader.incarnation as usize
    }

    /// D3: handles a change of a value that `reader` has read. If it has executed, `withdraw_result` withdraws its result,
    /// and it runs again. Returns false if the attempt is no longer current.
    pub fn invalidate(&self, reader: Reader, withdraw_result: impl FnOnce(&mut T)) -> bool {
        let mut state = self.state(reader.position);
        if state.attempt != reader.incarnation || !matches!(state.status, Status::Running | Status::Executed) {
            return false;
        }
        self.slots[reader.position as usize].stale.store(reader.incarnation as usize, Ordering::Release);
        if state.status == Status::Executed {
            withdraw_result(&mut state.result);
            let ready = self.retry(reader.position, &mut state, false);
            drop(state);
            if ready {
                self.push(reader.position);
            }
        }
        true
    }

    /// Ends an attempt with `result`. If a value it read has changed, `withdraw_result` withdraws what it published.
    pub fn finish(&self, reader: Reader, result: T, withdraw_result: impl FnOnce(&mut T)) -> FinishResult {
        let mut state = self.state(reader.position);
        debug_assert_eq!((state.status, state.attempt), (Status::Running, reader.incarnation), "{reader:?}");
        state.result = result;
        if self.is_stale(reader) {
            withdraw_result(&mut state.result);
            return FinishResult::Stale(self.retry(reader.position, &mut state, false));
        }
        state.status = Status::Executed;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        FinishResult::Executed(self.ready(waiting))
    }

    fn ready(&self, waiting: Vec<Position>) -> Vec<Position> {
        for position in &waiting {
            self.state(*position).status = Status::Ready;
        }
        waiting
    }

    /// D4: makes `position` final if it is at the frontier, has executed, and `holds` accepts its result.
    pub fn finalize(&self, position: Position, holds: impl FnOnce(&mut T) -> bool) -> FinalizeResult {
        let Some(slot) = self.slots.get(position as usize) else {
            self.close();
            return FinalizeResult::Later;
        };
        let mut guard = lock(&slot.state);
        let state = &mut *guard;
        if self.frontier() != position {
            return FinalizeResult::Later;
        }
        match state.status {
            Status::Executed if holds(&mut state.result) => {
                state.status = Status::Final;
                self.frontier.store(position as usize + 1, Ordering::Release);
                let waiting = std::mem::take(&mut state.until_final);
                drop(guard);
                FinalizeResult::Final(self.ready(waiting))
            }
            Status::Executed | Status::Parked => {
                state.status = Status::Ready;
                FinalizeResult::Run
            }
            Status::Ready | Status::Running | Status::Waiting | Status::Final => FinalizeResult::Later,
        }
    }

    /// Gives `look` access to the result of `position`.
    pub fn with_result<R>(&self, position: Position, look: impl FnOnce(&mut T) -> R) -> R {
        look(&mut self.state(position).result)
    }

    fn state(&self, position: Position) -> MutexGuard<'_, State<T>> {
        lock(&self.slots[position as usize].state)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
