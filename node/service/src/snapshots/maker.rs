//! Makes snapshots beside the node: of the last block of each epoch, and of the first block in each period of `snapshot_ms` (Y1).
//!
//! All nodes make the same ones. Making takes a quarter of a core at most. The state of the block is pinned when the block is written,
//! and the snapshot is made once the block is certified.

use super::Shelf;
use crate::epoch_log::EpochLog;
use corniche_state::{Snapshot, State};
use corniche_store::{
    Reader, Space,
    snapshots::{self, StoredSnapshot},
};
use corniche_sync::build_below;
use corniche_types::{EncodedHeader, Epoch, Genesis, Height, SnapshotTail, StakingParameters, TimestampMs, certified};
use std::{
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Interval at which new blocks are looked at. Much less than the time for which states stay in memory.
const INTERVAL: Duration = Duration::from_millis(100);
/// Time of rest for each time of work.
const REST: u32 = 3;
/// Bytes a second at most.
const BYTES_PER_SECOND: u64 = 64 << 20;

/// Figures for metrics.
#[derive(Debug, Default)]
pub struct SnapshotStats {
    /// Height of the newest snapshot.
    pub height: AtomicU64,
    /// Bytes of its chunks.
    pub bytes: AtomicU64,
    /// Time it took, in milliseconds; 0 if it is from before the start.
    pub milliseconds: AtomicU64,
    /// Snapshots that were given up since the newest one.
    pub given_up: AtomicU64,
    /// Bytes of responses to requests for state.
    pub served_bytes: AtomicU64,
}

impl SnapshotStats {
    /// Notes the newest snapshot of an earlier process.
    pub fn note_newest(&self, shelf: &Shelf) {
        if let Some(newest) = shelf.all().first() {
            self.note(&newest.snapshot);
        }
    }

    fn note(&self, snapshot: &StoredSnapshot) {
        self.height.store(snapshot.height().0, Ordering::Relaxed);
        self.bytes.store(snapshot.manifest().chunk_bytes(), Ordering::Relaxed);
    }
}

/// Thread that makes snapshots. Dropping it stops the thread.
pub struct SnapshotMaker {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Stop {
    stopped: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    /// Waits, or less long if the thread should stop. Returns true if it should.
    fn wait(&self, time: Duration) -> bool {
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(stopped, time, |stopped| !*stopped);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl SnapshotMaker {
    pub fn start(
        genesis: &Genesis,
        reader: Reader,
        state: State,
        epoch_log: EpochLog,
        shelf: Arc<Shelf>,
        stats: Arc<SnapshotStats>,
    ) -> Self {
        let period = genesis.staking.as_ref().map_or_else(|| StakingParameters::default().snapshot_ms, |it| it.snapshot_ms);
        let stop = Arc::new(Stop::default());
        // The newest block of a node that starts may be one of them, but not the base, of which there is a snapshot.
        let base = reader.base().map_or(Height(0), StoredSnapshot::height);
        let seen = Height(reader.head().height().0.saturating_sub(1)).max(base);
        let time = reader.ordering(seen).map(|(record, _)| record.time);
        let mut work = Work { period, reader, state, epoch_log, shelf, stats, stop: stop.clone(), seen, time, wanted: None };
        let body = move || {
            while !work.stop.wait(INTERVAL) {
                work.look();
            }
        };
        let thread = thread::Builder::new().name("snapshots".into()).spawn(body).expect("the system has room for a thread");
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for SnapshotMaker {
    fn drop(&mut self) {
        *self.stop.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic was logged; the node then makes no snapshots.
            let _ = thread.join();
        }
    }
}

struct Work {
    period: u64,
    reader: Reader,
    state: State,
    epoch_log: EpochLog,
    shelf: Arc<Shelf>,
    stats: Arc<SnapshotStats>,
    stop: Arc<Stop>,
    /// Newest block that was looked at, and its time.
    seen: Height,
    time: Option<TimestampMs>,
    /// A state of which a snapshot is to be made.
    wanted: Option<Snapshot>,
}

impl Work {
    /// Looks at the new blocks. Makes a snapshot if one is due and certified.
    fn look(&mut self) {
        let head = self.reader.head().height();
        for height in (self.seen.0 + 1..=head.0).map(Height) {
            if self.is_due(height) {
                // `None`: the node executes faster than this thread looks. Nodes that make each snapshot are enough.
                self.wanted = self.state.at(height).or(self.wanted.take());
            }
        }
        self.seen = head;
        let wanted = self.wanted.as_ref().map(Snapshot::height);
        if wanted.is_some_and(|height| self.reader.certificate(height).is_some())
            && let Some(state) = self.wanted.take()
        {
            match tail(&self.reader, &self.epoch_log, state.height()) {
                Some(tail) => self.make(&state, &tail),
                // The node caught up with few certificates. Others make this snapshot.
                None => tracing::info!(height = state.height().0, "no snapshot: its block cannot be proved from here"),
            }
        }
    }

    /// Returns whether a snapshot of the next block is due.
    fn is_due(&mut self, height: Height) -> bool {
        let Some(block) = self.reader.block(height) else { return false };
        let record = &block.block().ordering;
        let before = self.time.replace(record.time);
        record.next.is_some() || before.is_some_and(|before| begins_period(self.period, before, record.time))
    }

    fn make(&self, state: &Snapshot, tail: &SnapshotTail) {
        let (started, height) = (Instant::now(), tail.height());
        let mut last = started;
        let mut pace = |bytes: u64| {
            // All nodes make snapshots at once: none may fill the disk that the chain needs.
            if bytes > 0 && !self.has_space() {
                return false;
            }
            let rest = (last.elapsed() * REST).max(Duration::from_micros(bytes * 1_000_000 / BYTES_PER_SECOND));
            let is_stopped = self.stop.wait(rest);
            last = Instant::now();
            !is_stopped && started.elapsed() < Duration::from_millis(self.period)
        };
        match snapshots::make(self.shelf.data(), self.shelf.identity(), state, tail, &mut pace) {
            Ok(Some(snapshot)) => self.keep(snapshot, started.elapsed()),
            Ok(None) => {
                self.stats.given_up.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(
                    height = height.0,
                    "a snapshot was given up: it took too long, the disk is nearly full, or the node stops"
                );
            }
            Err(error) => {
                self.stats.given_up.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(%error, height = height.0, "cannot make a snapshot");
            }
        }
    }

    fn has_space(&self) -> bool {
        self.reader.space().is_ok_and(|space| space == Space::Enough)
    }

    fn keep(&self, snapshot: StoredSnapshot, took: Duration) {
        let (height, bytes) = (snapshot.height().0, snapshot.manifest().chunk_bytes());
        let (entries, chunks) = (snapshot.manifest().entries(), snapshot.manifest().chunks.len());
        tracing::info!(height, entries, chunks, bytes, seconds = took.as_secs_f32(), "made a snapshot");
        self.stats.note(&snapshot);
        self.stats.given_up.store(0, Ordering::Relaxed);
        self.stats.milliseconds.store(u64::try_from(took.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.shelf.add(snapshot);
    }
}

/// Tail of the snapshot of a block. `None` until the block is certified by a block of its epoch, at most 64 blocks above.
pub(super) fn tail(reader: &Reader, epoch_log: &EpochLog, height: Height) -> Option<SnapshotTail> {
    let header = reader.header(height)?;
    let (ordering, resume) = reader.ordering(height)?;
    // The last block of an epoch has a certificate of its own. A node that was filled from its snapshot does not store it.
    let is_near = |at: Height| at.0.saturating_sub(height.0) <= certified::DEPTH;
    let certificate = reader.certificate(height).filter(|at| at.epoch == ordering.epoch && is_near(at.height))?;
    let encoded = |height: u64| reader.header(Height(height)).map(EncodedHeader);
    let above = (height.0 + 1..=certificate.height.0).map(encoded).collect::<Option<_>>()?;
    let below = build_below(&header, |height| reader.header(height))?;
    let change = match ordering.epoch.0.checked_sub(1).map(Epoch) {
        Some(before) => Some(epoch_log.change(before)?),
        None => None,
    };
    let (header, certificate) = (EncodedHeader(header), (*certificate).clone());
    Some(SnapshotTail { header, ordering, resume, above, certificate, below, change })
}

/// Returns whether the time `now` is in another period than the time before.
fn begins_period(period: u64, before: TimestampMs, now: TimestampMs) -> bool {
    now.0 / period > before.0 / period
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_begins_once() {
        for (before, now, expected) in
            [(0, 0, false), (0, 59_999, false), (59_999, 60_000, true), (60_000, 60_001, false), (1, 600_000, true)]
        {
            assert_eq!(begins_period(60_000, TimestampMs(before), TimestampMs(now)), expected, "{before} to {now}");
        }
    }
}
