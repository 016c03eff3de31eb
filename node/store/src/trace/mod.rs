//! What the engine did lately, for people who look: a ring of bounded size under `trace/`.
//!
//! Nothing depends on it. It is written without a sync, so a power cut may take its end; content that fails its check is
//! skipped with a line in the log; the directory may be deleted. Nobody waits for it either: [`Trace::record`] puts an event
//! into a queue, a thread writes what it finds there, and while that thread is behind by the whole queue, events are dropped
//! and counted.
//!
//! ```text
//!  record ─▶ queue ─▶ thread ─▶ segment 7 │ 8 │ ... │ 14        the oldest goes when a new one begins
//!                        ├─▶ index: pages and their rounds ─▶ read(rounds)
//!                        └─▶ listener: there is more to read
//! ```

mod ring;

use crate::{Identity, StoreError};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_engine::TraceEvent;
use corniche_types::TimestampMs;
use ring::{Index, Ring};
use std::fmt;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Events that may wait for the thread.
const QUEUE: usize = 4_096;
/// Events written at once.
const GROUP: usize = 256;

/// One event, and when it happened by this node's clock.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct TraceRecord {
    pub time: TimestampMs,
    pub event: TraceEvent,
}

impl TraceRecord {
    /// `None` for notes, which belong to no round and are not kept.
    fn round(&self) -> Option<u64> {
        match &self.event {
            TraceEvent::Proposed(vertex) | TraceEvent::Accepted(vertex) => Some(vertex.id.round),
            TraceEvent::Held { vertex, .. } => Some(vertex.round),
            TraceEvent::Elected { round, .. }
            | TraceEvent::Decided { round, .. }
            | TraceEvent::Delivered { round, .. }
            | TraceEvent::Agreed { round, .. } => Some(*round),
            TraceEvent::Note { .. } => None,
        }
    }
}

/// What [`Trace::read`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceWindow {
    /// In the order in which they were recorded.
    pub records: Vec<TraceRecord>,
    /// There are more than were asked for.
    pub more: bool,
    /// Bytes read from disk to find them.
    pub scanned_bytes: u64,
}

/// The ring. Clones share it; the last one to go waits until what was recorded is written.
#[derive(Clone, Debug)]
pub struct Trace {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    index: Arc<Mutex<Index>>,
    dropped: Arc<AtomicU64>,
    listener: Arc<Listener>,
    /// `None` only while being dropped.
    queue: Option<SyncSender<TraceRecord>>,
    thread: Option<JoinHandle<()>>,
}

impl Trace {
    /// Opens or creates the ring in `directory`, which will hold at most `bytes`. What is damaged or another chain's goes.
    pub fn open(directory: &Path, identity: Identity, bytes: u64) -> Result<Self, StoreError> {
        let ring = Ring::open(directory, identity, bytes)?;
        let index = ring.index();
        let dropped = Arc::new(AtomicU64::new(0));
        let (queue, receiver) = sync_channel(QUEUE);
        let listener = Arc::new(Listener::default());
        let (lost, told) = (dropped.clone(), listener.clone());
        let thread = std::thread::Builder::new().name("store-trace".into());
        let thread = thread.spawn(move || write(ring, &receiver, &lost, &told));
        let thread = Some(thread.map_err(StoreError::io("start the thread that writes", directory))?);
        Ok(Self { inner: Arc::new(Inner { index, dropped, listener, queue: Some(queue), thread }) })
    }

    /// Calls this whenever [`Self::read`] finds more, on the thread that writes: it must not wait, and must not hold the ring. There is one
    /// listener; another one takes its place.
    pub fn on_growth(&self, listener: impl Fn() + Send + 'static) {
        *self.inner.listener.lock() = Some(Box::new(listener));
    }

    /// Keeps an event, unless too many wait to be written. Never waits.
    pub fn record(&self, time: TimestampMs, event: TraceEvent) {
        let record = TraceRecord { time, event };
        let queue = self.inner.queue.as_ref().filter(|_| record.round().is_some());
        if queue.is_some_and(|queue| queue.try_send(record).is_err()) {
            self.inner.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Events of these rounds, the oldest `max` of them. Reads no more of the ring than the index says is needed.
    pub fn read(&self, rounds: RangeInclusive<u64>, max: usize) -> TraceWindow {
        let pages = ring::lock(&self.inner.index).pages(&rounds);
        let mut window = TraceWindow::default();
        for page in pages {
            let bytes = page.read();
            window.scanned_bytes += bytes.len() as u64;
            for record in page.records(&bytes).filter(|record| record.round().is_some_and(|round| rounds.contains(&round))) {
                if window.records.len() == max {
                    window.more = true;
                    return window;
                }
                window.records.push(record);
            }
        }
        window
    }

    /// The newest round of any event in the ring.
    pub fn newest_round(&self) -> Option<u64> {
        ring::lock(&self.inner.index).newest_round()
    }

    /// Events that were not kept since the start, because too many waited or the disk refused.
    pub fn dropped(&self) -> u64 {
        self.inner.dropped.load(Ordering::Relaxed)
    }
}

/// Who is told that there is more to read.
#[derive(Default)]
struct Listener(Mutex<Option<Box<dyn Fn() + Send>>>);

impl Listener {
    fn tell(&self) {
        if let Some(tell) = &*self.lock() {
            tell();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<dyn Fn() + Send>>> {
        // Nothing is left half done: there is a listener or there is none.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}

fn write(mut ring: Ring, queue: &Receiver<TraceRecord>, dropped: &AtomicU64, listener: &Listener) {
    let mut failing = false;
    while let Ok(first) = queue.recv() {
        let group: Vec<_> = std::iter::once(first).chain(queue.try_iter().take(GROUP - 1)).collect();
        let result = ring.append(&group);
        if let Err(failure) = &result {
            dropped.fetch_add(failure.lost, Ordering::Relaxed);
            if !failing {
                tracing::warn!(problem = failure.problem, "what the engine does is not traced for now");
            }
        }
        failing = result.is_err();
        if result.err().map_or(0, |failure| failure.lost) < group.len() as u64 {
            listener.tell();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The thread ends when it has written what the queue holds.
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_types::B256;

    fn elected(round: u64) -> TraceEvent {
        TraceEvent::Elected { round, leaders: vec![] }
    }

    /// Whoever looks when told finds what was recorded before, and a later listener hears what comes later.
    #[test]
    fn a_listener_is_told_once_there_is_more_to_read() {
        let directory = tempfile::tempdir().unwrap();
        let identity = Identity { chain_id: 1, genesis_hash: B256::ZERO };
        let trace = Trace::open(directory.path(), identity, 8 << 20).unwrap();
        for round in 1..=3 {
            let (told, hears) = std::sync::mpsc::channel();
            trace.on_growth(move || told.send(()).unwrap_or_default());
            trace.record(TimestampMs(round), elected(round));
            hears.recv().unwrap();
            assert_eq!(trace.newest_round(), Some(round));
        }
    }

    /// The thread is held where it would tell readers of what it wrote; the caller of `record` goes on all the same.
    #[test]
    fn what_the_thread_has_no_time_for_is_dropped_and_counted() {
        let directory = tempfile::tempdir().unwrap();
        let identity = Identity { chain_id: 1, genesis_hash: B256::ZERO };
        let trace = Trace::open(directory.path(), identity, 8 << 20).unwrap();
        let held = ring::lock(&trace.inner.index);
        let mut sent = 0;
        while trace.dropped() < 10 {
            trace.record(TimestampMs(sent), elected(sent));
            sent += 1;
        }
        assert!(sent as usize >= QUEUE, "the queue has room for {QUEUE}");
        drop(held);
        let dropped = trace.dropped();
        drop(trace);
        let trace = Trace::open(directory.path(), identity, 8 << 20).unwrap();
        let kept = trace.read(0..=u64::MAX, usize::MAX);
        assert_eq!(kept.records.len() as u64 + dropped, sent);
        let rounds: Vec<_> = kept.records.iter().filter_map(TraceRecord::round).collect();
        assert!(rounds.is_sorted(), "what is kept keeps its order");
    }
}
