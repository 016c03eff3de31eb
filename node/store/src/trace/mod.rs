//! Recent events of the engine, for people: a ring of bounded size under `trace/`.
//!
//! Nothing depends on it. It is written without a sync, so a power cut may lose its end. Content with a wrong
//! checksum is skipped with a log line. The directory may be deleted. Nothing waits for it either:
//! [`Trace::record`] puts an event into a queue, from which a thread writes to disk. While the queue is full,
//! events are dropped and counted.
//!
//! ```text
//!  record ─▶ queue ─▶ thread ─▶ segment 7 │ 8 │ ... │ 14        a new segment replaces the oldest
//!                        ├─▶ index: pages and their rounds ─▶ read(rounds)
//!                        └─▶ listener: called on new events
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

/// Capacity of the queue, in events.
const QUEUE_RECORDS: usize = 4_096;
/// Maximum number of events per write.
const MAX_GROUP_RECORDS: usize = 256;

/// Event, with the time of this node's clock.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct TraceRecord {
    pub time: TimestampMs,
    pub event: TraceEvent,
}

impl TraceRecord {
    /// `None` for notes, which belong to no round and are not stored.
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

/// Result of [`Trace::read`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceWindow {
    /// In the order of recording.
    pub records: Vec<TraceRecord>,
    /// True if there are more events than requested.
    pub more: bool,
    /// Bytes read from disk.
    pub scanned_bytes: u64,
}

/// Handle of the ring. Clones share it; dropping the last one waits until all events are written.
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
    /// Opens or creates the ring in `directory`, with at most `bytes`. Damaged segments and those of another
    /// chain are deleted.
    pub fn open(directory: &Path, identity: Identity, bytes: u64) -> Result<Self, StoreError> {
        let ring = Ring::open(directory, identity, bytes)?;
        let index = ring.index();
        let dropped = Arc::new(AtomicU64::new(0));
        let (queue, receiver) = sync_channel(QUEUE_RECORDS);
        let listener = Arc::new(Listener::default());
        let (lost, told) = (dropped.clone(), listener.clone());
        let thread = std::thread::Builder::new().name("store-trace".into());
        let thread = thread.spawn(move || write(ring, &receiver, &lost, &told));
        let thread = Some(thread.map_err(StoreError::io("start the thread that writes", directory))?);
        Ok(Self { inner: Arc::new(Inner { index, dropped, listener, queue: Some(queue), thread }) })
    }

    /// Sets the listener, which is called whenever [`Self::read`] finds more. It runs on the writing thread:
    /// it must not block, and must not hold the ring. It replaces an earlier listener.
    pub fn on_growth(&self, listener: impl Fn() + Send + 'static) {
        *self.inner.listener.lock() = Some(Box::new(listener));
    }

    /// Records an event, or drops it if the queue is full. Never blocks.
    pub fn record(&self, time: TimestampMs, event: TraceEvent) {
        let record = TraceRecord { time, event };
        let queue = self.inner.queue.as_ref().filter(|_| record.round().is_some());
        if queue.is_some_and(|queue| queue.try_send(record).is_err()) {
            self.inner.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns events of these rounds, the oldest `max` of them. Uses the index to read only the pages that
    /// it needs.
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

    /// Newest round of all events in the ring.
    pub fn newest_round(&self) -> Option<u64> {
        ring::lock(&self.inner.index).newest_round()
    }

    /// Number of events dropped since the start, because the queue was full or the disk failed.
    pub fn dropped(&self) -> u64 {
        self.inner.dropped.load(Ordering::Relaxed)
    }
}

/// Listener for new events.
#[derive(Default)]
struct Listener(Mutex<Option<Box<dyn Fn() + Send>>>);

impl Listener {
    fn notify(&self) {
        if let Some(tell) = &*self.lock() {
            tell();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<dyn Fn() + Send>>> {
        // Every critical section leaves the listener consistent.
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
        let group: Vec<_> = std::iter::once(first).chain(queue.try_iter().take(MAX_GROUP_RECORDS - 1)).collect();
        let result = ring.append(&group);
        if let Err(failure) = &result {
            dropped.fetch_add(failure.lost, Ordering::Relaxed);
            if !failing {
                tracing::warn!(problem = failure.problem, "cannot write the trace; events are dropped");
            }
        }
        failing = result.is_err();
        if result.err().map_or(0, |failure| failure.lost) < group.len() as u64 {
            listener.notify();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The thread ends after it has written all queued events.
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

    /// A listener finds the events recorded before it was called; a later listener gets later calls.
    #[test]
    fn listener_is_notified_of_new_records() {
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

    /// The test blocks the thread where it publishes its writes; the caller of `record` is not blocked.
    #[test]
    fn overflowing_records_are_dropped_and_counted() {
        let directory = tempfile::tempdir().unwrap();
        let identity = Identity { chain_id: 1, genesis_hash: B256::ZERO };
        let trace = Trace::open(directory.path(), identity, 8 << 20).unwrap();
        let held = ring::lock(&trace.inner.index);
        let mut sent = 0;
        while trace.dropped() < 10 {
            trace.record(TimestampMs(sent), elected(sent));
            sent += 1;
        }
        assert!(sent as usize >= QUEUE_RECORDS, "the queue has room for {QUEUE_RECORDS}");
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
