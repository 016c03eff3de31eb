//! Who runs when: the statuses of a block's transactions, who waits for whom, and how far results are final (D1, D3, D4, D7).
//!
//! ```text
//!             start               finish               settle, in order
//!   Ready ───────────▶ Running ───────────▶ Executed ───────────▶ Final
//!     ▲                 │  │ ▲                  │
//!     │  the other one  │  └─┼── stale ◀────────┘ a write below it changed what it had read
//!     └───────────── Waiting └── Parked: when all below is final
//! ```
//!
//! Positions are handed out in order by a counter, several at a time; what comes back to be run again goes through a queue, lowest first, and
//! whoever finishes a transaction goes on with one that waited for it. A worker with nothing to do sleeps.
//!
//! What always holds:
//! - one worker at a time has a position, from `start` until `finish`, `wait` or `settle` takes it back;
//! - everything below the frontier is final, and the transaction at the frontier is running, about to be run, or about to be
//!   settled by whoever executed it: nobody has to look for it, and so nothing is forgotten. Whoever executes p looks at the frontier
//!   after saying so, and whoever moves the frontier to p looks at p after that; both under the lock of p;
//! - a transaction waits only for lower ones, so the lowest that is not final never waits.

use crate::sync::{AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, PoisonError};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

/// A transaction's place in its block.
pub(crate) type Position = u32;

/// One attempt at a transaction; attempts count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reader {
    pub position: Position,
    pub incarnation: u32,
}

/// D7: after this many attempts that came to nothing a transaction waits until all before it are final.
pub(crate) const ATTEMPTS: u32 = 3;

/// `T` is what a transaction has come to: kept under its lock, touched by whoever has its position.
pub(crate) struct Schedule<T> {
    slots: Vec<Slot<T>>,
    /// The lowest position never handed out.
    fresh: AtomicUsize,
    /// How many are handed out at a time: neighbours share memory, and so better a thread.
    batch: usize,
    /// Everything below is final.
    frontier: AtomicUsize,
    queue: Mutex<Queue>,
    /// Length of the queue, to be looked at without its lock.
    queued: AtomicUsize,
    wake: Condvar,
}

struct Slot<T> {
    state: Mutex<State<T>>,
    /// Number of the newest attempt known to have read something that changed since; attempts count from 1.
    stale: AtomicUsize,
}

struct State<T> {
    status: Status,
    attempt: u32,
    /// Positions that go on when this one has executed.
    waiting: Vec<Position>,
    /// Positions that go on when this one is final.
    until_final: Vec<Position>,
    result: T,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Ready,
    Running,
    /// For a lower position to execute, or to be final.
    Waiting,
    /// For all lower positions to be final.
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

/// Until when to wait for a lower position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    Executed,
    /// What has executed may have read something wrong. Whoever is sure to depend on it would go on from there, and whoever comes next
    /// from that: a wave of wrong results just ahead of the right ones.
    Final,
}

/// What became of a position that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    Yes,
    /// It has come so far meanwhile.
    Over,
}

/// What became of a finished attempt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Finished {
    /// Something it read changed. `true`: to be run again by whoever asked; otherwise it is parked.
    Stale(bool),
    /// These waited for it, and are to be run.
    Executed(Vec<Position>),
}

/// What became of the transaction at the frontier.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// Go on with the next; these waited for it, and are to be run.
    Final(Vec<Position>),
    /// It is to be run by whoever asked, on what is final.
    Run,
    /// Somebody else will.
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

    /// A position to run: the lowest that came back, otherwise the next of `fresh`, which the caller keeps: new ones that are its own.
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

    /// Gives a position to whoever is free.
    pub fn push(&self, position: Position) {
        let mut queue = lock(&self.queue);
        queue.ready.push(Reverse(position));
        self.queued.store(queue.ready.len(), Ordering::Release);
        if queue.asleep > 0 {
            self.wake.notify_one();
        }
    }

    /// Sleeps until there may be something to do; false when nothing will be.
    pub fn sleep(&self) -> bool {
        let mut queue = lock(&self.queue);
        while !queue.done && queue.ready.is_empty() {
            queue.asleep += 1;
            queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.asleep -= 1;
        }
        !queue.done
    }

    /// Sends everybody home: all is final, or nothing can be.
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

    /// Whether [`next`](Self::next) has something.
    #[cfg(test)]
    pub fn has_next(&self) -> bool {
        self.queued.load(Ordering::Acquire) > 0 || self.fresh.load(Ordering::Relaxed) < self.slots.len()
    }

    pub fn frontier(&self) -> Position {
        self.frontier.load(Ordering::Acquire) as Position
    }

    /// Begins an attempt. Also says below which position everything was final then.
    pub fn start(&self, position: Position) -> (Reader, Position) {
        let mut state = self.state(position);
        debug_assert_eq!(state.status, Status::Ready, "{position}");
        state.status = Status::Running;
        state.attempt += 1;
        (Reader { position, incarnation: state.attempt }, self.frontier())
    }

    /// D1: lets `position` wait for `earlier`, a lower one. `Over` when it has come so far: then nothing changed.
    pub fn wait(&self, position: Position, earlier: Position, until: Until) -> Waits {
        debug_assert!(earlier < position, "waiting goes downwards");
        let of_earlier = &mut *self.state(earlier);
        let queue = match (until, of_earlier.status) {
            (_, Status::Final) | (Until::Executed, Status::Executed) => return Waits::Over,
            (Until::Executed, _) => &mut of_earlier.waiting,
            (Until::Final, _) => &mut of_earlier.until_final,
        };
        self.state(position).status = Status::Waiting;
        queue.push(position);
        Waits::Yes
    }

    /// Gives back a position that was not run, or whose attempt came to nothing. True: to be run again by whoever asked; otherwise it has used
    /// up its attempts, or asks to wait for the frontier, and is parked (D7).
    pub fn again(&self, position: Position, for_frontier: bool) -> bool {
        let mut state = self.state(position);
        self.retry(position, &mut state, for_frontier)
    }

    fn retry(&self, position: Position, state: &mut State<T>, for_frontier: bool) -> bool {
        let parked = (for_frontier || state.attempt >= ATTEMPTS) && self.frontier() < position;
        state.status = if parked { Status::Parked } else { Status::Ready };
        !parked
    }

    /// Whether this attempt has read something that changed.
    pub fn is_stale(&self, reader: Reader) -> bool {
        self.slots[reader.position as usize].stale.load(Ordering::Acquire) >= reader.incarnation as usize
    }

    /// D3: what `reader` has read changed. A result of it is taken back by `take_back` and it is run again. Says whether there was
    /// an attempt to make void.
    pub fn invalidate(&self, reader: Reader, take_back: impl FnOnce(&mut T)) -> bool {
        let mut state = self.state(reader.position);
        if state.attempt != reader.incarnation || !matches!(state.status, Status::Running | Status::Executed) {
            return false;
        }
        self.slots[reader.position as usize].stale.store(reader.incarnation as usize, Ordering::Release);
        if state.status == Status::Executed {
            take_back(&mut state.result);
            let ready = self.retry(reader.position, &mut state, false);
            drop(state);
            if ready {
                self.push(reader.position);
            }
        }
        true
    }

    /// Ends an attempt with `result`, unless something it read changed: then `take_back` undoes what it published.
    pub fn finish(&self, reader: Reader, result: T, take_back: impl FnOnce(&mut T)) -> Finished {
        let mut state = self.state(reader.position);
        debug_assert_eq!((state.status, state.attempt), (Status::Running, reader.incarnation), "{reader:?}");
        state.result = result;
        if self.is_stale(reader) {
            take_back(&mut state.result);
            return Finished::Stale(self.retry(reader.position, &mut state, false));
        }
        state.status = Status::Executed;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        Finished::Executed(self.ready(waiting))
    }

    fn ready(&self, waiting: Vec<Position>) -> Vec<Position> {
        for position in &waiting {
            self.state(*position).status = Status::Ready;
        }
        waiting
    }

    /// D4: makes `position` final when it is the lowest that is not, has executed, and `holds` says yes to its result.
    pub fn settle(&self, position: Position, holds: impl FnOnce(&mut T) -> bool) -> Settled {
        let Some(slot) = self.slots.get(position as usize) else {
            self.close();
            return Settled::Later;
        };
        let mut guard = lock(&slot.state);
        let state = &mut *guard;
        if self.frontier() != position {
            return Settled::Later;
        }
        match state.status {
            Status::Executed if holds(&mut state.result) => {
                state.status = Status::Final;
                self.frontier.store(position as usize + 1, Ordering::Release);
                let waiting = std::mem::take(&mut state.until_final);
                drop(guard);
                Settled::Final(self.ready(waiting))
            }
            Status::Executed | Status::Parked => {
                state.status = Status::Ready;
                Settled::Run
            }
            Status::Ready | Status::Running | Status::Waiting | Status::Final => Settled::Later,
        }
    }

    /// Looks at what `position` has come to.
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
