//! Own batches to others, batches of others to here.
//!
//! An engine calls [`Exchange`] with what comes, and does the returned [`Action`]s in their order. Nothing is used before it is on
//! disk: the engine calls [`Exchange::handle_durable`] once the record of a batch is.

use crate::{LaneBatch, Lanes, Tip};
use corniche_engine::{Batch, Output, TraceEvent, stretched_ms};
use corniche_types::{Bytes, TimestampMs, ValidatorIndex};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of own batches that are not delivered yet.
pub const MAX_OPEN_BATCHES: u64 = 8;
/// Batches of one author above the delivered one that others store.
pub const MAX_AHEAD: u64 = 4 * MAX_OPEN_BATCHES;
/// Calls of [`Exchange::ask_again`] before a batch that may be on its way is asked for.
const MIN_CALLS: usize = 2;
/// A missing batch is asked for this often, then only if something still needs it.
const MAX_ATTEMPTS: usize = 64;
/// It is asked for at least once in so many calls of [`Exchange::ask_again`].
const MAX_QUIET_CALLS: usize = 8;
/// Own batches are sent again at least once in so many timers.
const MAX_QUIET_TIMERS: u32 = 64;
/// Missing batches of one lane that one validator may let others ask for.
const MAX_WANTED: usize = 128;
/// Batches of one author above the delivered one that others store if something needs them.
const MAX_WANTED_AHEAD: u64 = 1_024 * MAX_OPEN_BATCHES;
/// Bytes of a batch from which batches are apart by the whole `max_stretch`.
const LONG_BATCH_BYTES: usize = 4 << 10;

/// Decides when an author sends batches again. `M` changes with progress.
#[derive(Default)]
pub struct Repetition<M> {
    mark: M,
    quiet_timers: u32,
}

impl<M: PartialEq> Repetition<M> {
    /// Call this with each timer. Returns true at the second one without progress, then each time after twice as many: most others have
    /// the batches, and over a slow link the first copies may still be on their way.
    pub fn is_due(&mut self, mark: M) -> bool {
        let has_moved = std::mem::replace(&mut self.mark, mark) != self.mark;
        self.quiet_timers = if has_moved { 0 } else { self.quiet_timers + 1 };
        self.quiet_timers > 1 && (self.quiet_timers.is_power_of_two() || self.quiet_timers.is_multiple_of(MAX_QUIET_TIMERS))
    }
}

/// Size and pace of own batches.
#[derive(Clone, Debug)]
pub struct LaneConfig {
    /// Maximum number of own undelivered batches.
    pub open_batches: u64,
    /// Minimum time between two own batches, ms.
    pub batch_interval_ms: u64,
    /// Factor by which `batch_interval_ms` grows with the own batches, up to 4 KiB; 1 switches it off.
    pub max_stretch: u64,
    /// Maximum bytes of a batch.
    pub batch_bytes: u32,
    /// Maximum declared gas of a batch, passed on in `WantBatch`.
    pub batch_gas: u64,
}

impl LaneConfig {
    /// Minimum time between an own batch of this size and the next one, ms. Large batches are not delayed.
    fn pause_ms(&self, bytes: usize) -> u64 {
        let is_large = bytes > self.batch_bytes as usize / 2;
        stretched_ms(self.batch_interval_ms, self.max_stretch, if is_large { 0 } else { bytes }, LONG_BATCH_BYTES)
    }
}

/// Task of an engine.
#[derive(Debug)]
pub enum Action {
    /// Emit this.
    Output(Output),
    /// Write this batch, which [`Lanes::get`] returns. Once it is on disk, call [`Exchange::handle_durable`].
    Persist(ValidatorIndex, Tip),
    /// Send a batch of this validator to all others.
    Broadcast(LaneBatch),
    /// Ask a validator for a batch.
    Fetch { to: ValidatorIndex, author: ValidatorIndex, tip: Tip },
}

/// A batch that is missing.
struct Wanted {
    /// The validator that knows of it.
    source: ValidatorIndex,
    attempts: usize,
    /// Calls of [`Exchange::ask_again`] since it is missing.
    calls: usize,
}

/// The batches of all authors, and their exchange. `delivered` is always the last delivered batch of each lane.
pub struct Exchange {
    config: LaneConfig,
    pub(crate) me: ValidatorIndex,
    size: usize,
    pub lanes: Lanes,
    /// The engine asked for a batch.
    wants: bool,
    next_batch_at: TimestampMs,
    /// Own batches that are sent once they are on disk.
    fresh: BTreeSet<Tip>,
    wanted: BTreeMap<(ValidatorIndex, Tip), Wanted>,
    /// Validators with a connection.
    connected: BTreeSet<ValidatorIndex>,
    /// Numbers up to which each author's own copies came, or never will, since its connection began.
    passed: Vec<u64>,
    /// Highest number of each lane that was forgotten.
    released: Vec<u64>,
    /// The last own batch that was delivered, and whether no other one is open.
    repetition: Repetition<(u64, bool)>,
}

impl Exchange {
    /// A committee of this size. The lanes are empty, or from the records.
    pub fn new(config: LaneConfig, me: ValidatorIndex, size: usize, lanes: Lanes, now: TimestampMs) -> Self {
        Self {
            config,
            me,
            size,
            lanes,
            wants: false,
            next_batch_at: now,
            fresh: BTreeSet::new(),
            wanted: BTreeMap::new(),
            connected: BTreeSet::new(),
            passed: vec![0; size],
            released: vec![0; size],
            repetition: Repetition::default(),
        }
    }

    fn indices(&self) -> impl Iterator<Item = ValidatorIndex> + use<> {
        (0u16..).map(ValidatorIndex).take(self.size)
    }

    /// Number of missing batches that are asked for, for tests.
    pub fn wanted(&self) -> usize {
        self.wanted.len()
    }

    pub fn peer_up(&mut self, peer: ValidatorIndex) {
        self.connected.insert(peer);
        // Its open batches come again. If it lost its disk, they have other numbers.
        self.passed[peer.as_usize()] = 0;
        // Requests to a validator without a connection were lost. Those that did not leave yet wait no longer than they would have.
        for wanted in self.wanted.values_mut() {
            wanted.calls = if wanted.attempts == 0 { wanted.calls.min(MIN_CALLS - 1) } else { 0 };
        }
    }

    pub fn peer_down(&mut self, peer: ValidatorIndex) -> Vec<Action> {
        self.connected.remove(&peer);
        self.ask_for_passed(peer)
    }
}

/// Own batches.
impl Exchange {
    /// The own lane has room for another batch.
    fn may_batch(&self, delivered: &[Tip]) -> bool {
        let open = self.lanes.newest(self.me).number.saturating_sub(delivered[self.me.as_usize()].number);
        open < self.config.open_batches
    }

    /// Time at which [`Self::ask_for_batch`] has something to do.
    pub fn deadline(&self, delivered: &[Tip]) -> Option<TimestampMs> {
        (!self.wants && self.may_batch(delivered)).then_some(self.next_batch_at)
    }

    /// Asks the caller for a batch when it is time for one.
    pub fn ask_for_batch(&mut self, now: TimestampMs, delivered: &[Tip]) -> Option<Output> {
        if self.deadline(delivered).is_none_or(|at| at > now) {
            return None;
        }
        self.wants = true;
        Some(Output::WantBatch { bytes: self.config.batch_bytes, gas: self.config.batch_gas })
    }

    /// The caller's batch. An empty one asks for a commit without transactions, so it is one like any other.
    pub fn handle_own_batch(&mut self, batch: Batch, now: TimestampMs) -> Vec<Action> {
        self.wants = false;
        self.next_batch_at = TimestampMs(now.0.saturating_add(self.config.pause_ms(batch.bytes.len())));
        self.add_own_batch(batch.bytes)
    }

    /// Extends the own lane.
    pub fn add_own_batch(&mut self, bytes: Bytes) -> Vec<Action> {
        let Tip { number, digest: parent } = self.lanes.newest(self.me);
        let batch = LaneBatch { author: self.me, number: number + 1, parent, bytes };
        let tip = self.lanes.tip(&batch);
        let proposed = batch.vertex(tip).map(|vertex| Action::Output(Output::Trace(TraceEvent::Proposed(vertex))));
        let mut actions: Vec<Action> = proposed.into_iter().collect();
        if let Some(stored) = self.store(tip, batch) {
            self.fresh.insert(tip);
            actions.push(stored);
        }
        self.lanes.extend(self.me, tip);
        actions
    }

    /// Own batches on disk that are not delivered.
    pub fn own_open_batches(&self, delivered: &[Tip]) -> Vec<LaneBatch> {
        let delivered = delivered[self.me.as_usize()];
        let end = self.lanes.durable_tip(self.me, delivered);
        self.lanes.chain(self.me, end, delivered.number).unwrap_or_default()
    }

    /// Own open batches to send again, at the times of [`Repetition`].
    pub fn announce_again(&mut self, delivered: &[Tip]) -> Vec<LaneBatch> {
        let open = self.own_open_batches(delivered);
        let mark = (delivered[self.me.as_usize()].number, open.is_empty());
        if self.repetition.is_due(mark) { open } else { Vec::new() }
    }

    /// After a lost disk, own batches may have numbers that were used before. Those that lost against earlier ones go back. `before` is
    /// the own delivered batch before the last delivery.
    pub fn displaced(&self, before: Tip, delivered: &[Tip]) -> Vec<Output> {
        let delivered = delivered[self.me.as_usize()];
        if delivered.number == before.number {
            return Vec::new();
        }
        let kept = self.lanes.chain(self.me, delivered, before.number).unwrap_or_default();
        let kept: BTreeSet<Tip> = kept.iter().map(|batch| self.lanes.tip(batch)).collect();
        let own =
            self.lanes.above(self.me, before.number).filter(|(tip, _)| tip.number <= delivered.number && !kept.contains(tip));
        let full = own.map(|(_, bytes)| bytes.clone()).filter(|bytes| !bytes.is_empty());
        full.map(|bytes| Output::Requeue(Batch { bytes })).collect()
    }
}

/// Batches of others, and missing ones.
impl Exchange {
    /// A batch from its author or from another holder. Batches that nobody asked for come from their author only, and are not far
    /// above the delivered one.
    pub fn handle_batch(&mut self, from: ValidatorIndex, batch: LaneBatch, delivered: &[Tip]) -> Vec<Action> {
        let (author, number) = (batch.author, batch.number);
        let stored = self.take_batch(from, batch, delivered);
        let asked = if from == author { self.handle_delivered(author, number) } else { Vec::new() };
        stored.into_iter().chain(asked).collect()
    }

    fn take_batch(&mut self, from: ValidatorIndex, batch: LaneBatch, delivered: &[Tip]) -> Option<Action> {
        let (author, tip) = (batch.author, self.lanes.tip(&batch));
        let is_wanted = self.wanted.contains_key(&(author, tip));
        let delivered = delivered[author.as_usize()].number;
        let fits = batch.number > delivered
            && batch.number <= delivered + MAX_AHEAD
            && self.lanes.count_above(author, delivered) < MAX_AHEAD;
        let is_far = batch.number > delivered.saturating_add(MAX_WANTED_AHEAD);
        if is_far || !is_wanted && (author == self.me || from != author || !fits) {
            return None;
        }
        let stored = self.store(tip, batch);
        // A lane that goes back begins again: its author lost its disk. A batch that was asked for may be older.
        if from == author && !is_wanted && (stored.is_some() || tip.number > self.lanes.newest(author).number) {
            self.lanes.extend(author, tip);
        }
        stored
    }

    /// Adds a batch, and writes it if it is new.
    fn store(&mut self, tip: Tip, batch: LaneBatch) -> Option<Action> {
        let author = batch.author;
        let is_new = self.lanes.insert(tip, batch);
        is_new.then(|| {
            self.wanted.remove(&(author, tip));
            Action::Persist(author, tip)
        })
    }

    /// A batch is on disk: it counts from now on, and an own one leaves.
    pub fn handle_durable(&mut self, author: ValidatorIndex, tip: Tip, delivered: &[Tip]) -> Vec<Action> {
        let is_fresh = author == self.me && self.fresh.remove(&tip);
        self.lanes.mark_durable(author, &tip);
        let Some(batch) = self.lanes.get(author, &tip) else { return Vec::new() };
        let accepted = batch.vertex(tip).map(|vertex| Output::Trace(TraceEvent::Accepted(vertex)));
        let is_open = !batch.bytes.is_empty() && batch.number > delivered[author.as_usize()].number;
        let available = is_open.then(|| Output::Available { author, batch: Batch { bytes: batch.bytes.clone() } });
        let outputs = accepted.into_iter().chain(available).map(Action::Output);
        outputs.chain(is_fresh.then(|| Action::Broadcast(batch.clone()))).collect()
    }

    /// An author sent this batch, or says that its batches up to this number are delivered there. So it sent those before it to all that
    /// were connected, and messages of a connection keep their order.
    pub fn handle_delivered(&mut self, author: ValidatorIndex, number: u64) -> Vec<Action> {
        self.note_passed(author, number);
        self.ask_for_passed(author)
    }

    fn note_passed(&mut self, author: ValidatorIndex, number: u64) {
        let passed = &mut self.passed[author.as_usize()];
        *passed = number.max(*passed);
    }

    /// Asks for batches of an author that were waited for, and do not come.
    fn ask_for_passed(&mut self, author: ValidatorIndex) -> Vec<Action> {
        let waiting = self.wanted.iter().filter(|((other, _), wanted)| *other == author && wanted.attempts == 0);
        let due: Vec<_> = waiting.map(|(key, _)| *key).filter(|key| !self.is_coming(key)).collect();
        due.into_iter().filter_map(|(author, tip)| self.ask_for(author, tip)).collect()
    }

    /// The author's own copy may be on its way. A second one would delay it, and everything else on a slow link.
    fn is_coming(&self, (author, tip): &(ValidatorIndex, Tip)) -> bool {
        self.connected.contains(author) && tip.number > self.passed[author.as_usize()]
    }

    /// Asks for a batch, at once the first time unless it may be on its way. `source` knows of it.
    pub fn want(&mut self, author: ValidatorIndex, tip: Tip, source: ValidatorIndex) -> Option<Action> {
        let is_held = self.lanes.get(author, &tip).is_some();
        if is_held || self.wanted.contains_key(&(author, tip)) {
            return None;
        }
        let lane = self.wanted.iter().filter(|((other, _), wanted)| *other == author && wanted.source == source);
        if lane.count() >= MAX_WANTED {
            // Whatever needs it asks again.
            return None;
        }
        self.wanted.insert((author, tip), Wanted { source, attempts: 0, calls: 0 });
        if self.is_coming(&(author, tip)) { None } else { self.ask_for(author, tip) }
    }

    /// Asks for missing batches again, each time another validator. Twice as many calls pass each time: over a slow link the first
    /// copy may still be on its way, and more copies delay everything else.
    pub fn ask_again(&mut self) -> Vec<Action> {
        let mut due = Vec::new();
        for (key, wanted) in &mut self.wanted {
            wanted.calls += 1;
            let is_early = wanted.attempts == 0 && wanted.calls < MIN_CALLS;
            if !is_early && (wanted.calls.is_power_of_two() || wanted.calls.is_multiple_of(MAX_QUIET_CALLS)) {
                due.push(*key);
            }
        }
        for (author, tip) in &due {
            // Whatever is before it in its lane does not come either.
            self.note_passed(*author, tip.number);
        }
        due.into_iter().filter_map(|(author, tip)| self.ask_for(author, tip)).collect()
    }

    fn ask_for(&mut self, author: ValidatorIndex, tip: Tip) -> Option<Action> {
        let mut others: Vec<_> = self.connected.iter().copied().filter(|member| *member != self.me).collect();
        if others.is_empty() {
            others.extend(self.indices().filter(|member| *member != self.me));
        }
        let wanted = self.wanted.get_mut(&(author, tip)).filter(|_| !others.is_empty())?;
        // An author whose copy does not come may be silent, or its uplink is slow.
        let is_source_late = wanted.calls >= MIN_CALLS && wanted.source == author;
        let to = match wanted.attempts {
            0 if others.contains(&wanted.source) && !is_source_late => wanted.source,
            attempts => others[(attempts + tip.number as usize) % others.len()],
        };
        wanted.attempts += 1;
        Some(Action::Fetch { to, author, tip })
    }
}

/// Retention.
impl Exchange {
    /// Forgets batches up to these tips: they belong to decisions that nobody asks for any more.
    pub fn release(&mut self, tips: &[Tip]) {
        for (author, tip) in self.indices().zip(tips) {
            let released = &mut self.released[author.as_usize()];
            if tip.number > *released {
                *released = tip.number;
                self.lanes.release(author, tip.number);
            }
        }
    }

    /// Forgets missing batches that nobody needs. One that is still needed is asked for again.
    pub fn release_wanted(&mut self) {
        let Self { wanted, released, .. } = self;
        wanted.retain(|(author, tip), wanted| tip.number > released[author.as_usize()] && wanted.attempts < MAX_ATTEMPTS);
    }
}
