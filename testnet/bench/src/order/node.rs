//! One validator that only orders: the engine, its records on disk, and the network.
//!
//! ```text
//!  network ─▶ verify ─▶ ENGINE ─▶ network
//!                         ▲ │
//!                         │ └─▶ write
//!                         └─────────┘
//! ```
//!
//! Differences from a node: the certificate of a state tells engines which data no validator lacks. Here a commit counts as certified
//! when [`CERTIFIED_BELOW`] further ones were delivered, which is enough while all validators run.

use super::{
    Counted, Timing,
    generator::{Generator, creation_times},
};
use anyhow::Context;
use corniche_console::exit;
use corniche_engine::{Engine, Input, Output, Recipients, Ticket, TraceEvent, Verified, Verifier};
use corniche_network::{Channel, Event as NetworkEvent, Events, Network, NetworkConfig, NetworkHandle, PeerKey, Stats};
use corniche_pipeline::{EngineFactory, PeerMessage};
use corniche_store::{Options, Store, Synced};
use corniche_types::{Bytes, CommitIndex, Genesis, Resume, TimestampMs, ValidatorIndex};
use std::{
    collections::BTreeMap,
    io::BufRead,
    path::Path,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Commits below the newest that every validator is assumed to have.
const CERTIFIED_BELOW: u64 = 1_000;
/// Quantiles of latencies in the report.
const QUANTILES: usize = 2_001;
/// Messages of peers that may wait to be verified, and events that may wait for the engine.
const QUEUE: usize = 4_096;

/// Parts of a validator that only orders.
pub struct OrderNode<'a> {
    pub genesis: &'a Genesis,
    pub own: ValidatorIndex,
    pub verifier: Arc<dyn Verifier>,
    pub factory: EngineFactory,
    pub network: NetworkConfig,
    pub data: &'a Path,
    pub timing: Timing,
}

enum Event {
    Message { from: ValidatorIndex, message: Verified },
    Up { peer: PeerKey, validator: ValidatorIndex },
    Down(PeerKey),
    Durable(Vec<Ticket>),
}

/// Writes of the engine. A group is what waits together.
enum Write {
    Record(Ticket, Bytes),
    Progress(Resume),
    ReleaseBelow(Ticket),
}

/// Runs a validator until its measurement is over. Prints a line when it is connected to all others, starts at a line of standard
/// input, prints what it counted, and goes on until the process is killed, because the others may still measure.
pub fn run(node: OrderNode<'_>) -> anyhow::Result<()> {
    let OrderNode { genesis, own, verifier, factory, network, data, timing } = node;
    let (store, recovered) = Store::open(data, genesis, Options { checkpoint_interval: None, ..Options::default() })?;
    let engine = factory(recovered.safety, recovered.resume, now());
    let (events, events_in) = mpsc::sync_channel(QUEUE);
    let (writes, writes_in) = mpsc::channel();
    let durable = events.clone();
    thread::Builder::new().name("writer".into()).spawn(move || write(store, &writes_in, &durable))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).thread_name("socket").enable_all().build()?;
    let (handle, network_events) = runtime.block_on(Network::start(network))?;
    let (unverified, unverified_in) = mpsc::sync_channel::<(ValidatorIndex, Bytes)>(QUEUE);
    let verified = events.clone();
    thread::Builder::new().name("verify".into()).spawn(move || verify(&*verifier, &unverified_in, &verified))?;
    runtime.spawn(receive(network_events, unverified, events));
    let others = genesis.validators.len() - 1;
    let run = move || -> anyhow::Result<()> {
        let mut ordering = Ordering {
            engine,
            own,
            peers: BTreeMap::new(),
            network: handle,
            writes,
            generator: Generator::new(timing.rate),
            wanted: None,
            counted: Counted::default(),
            latencies: Vec::new(),
        };
        ordering.connect(&events_in, others)?;
        exit::result("connected");
        std::io::stdin().lock().read_line(&mut String::new()).context("standard input was closed")?;
        ordering.run(&events_in, timing)
    };
    let engine = thread::Builder::new().name("engine".into()).spawn(run)?;
    engine.join().map_err(|_| anyhow::anyhow!("the engine panicked"))?
}

/// Unix time.
fn now() -> TimestampMs {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    TimestampMs(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Group commit, as the node's writer does it. Ends with the node.
fn write(mut store: Store, writes: &mpsc::Receiver<Write>, durable: &mpsc::SyncSender<Event>) {
    while let Ok(first) = writes.recv() {
        let group: Vec<_> = [first].into_iter().chain(writes.try_iter()).collect();
        let synced = write_group(&mut store, group).expect("the disk works");
        if durable.send(Event::Durable(synced.tickets)).is_err() {
            return;
        }
    }
}

fn write_group(store: &mut Store, group: Vec<Write>) -> Result<Synced, corniche_store::StoreError> {
    let mut release = None;
    for write in group {
        match write {
            Write::Record(ticket, record) => store.append_safety(ticket, &record)?,
            Write::Progress(resume) => store.append_progress(&resume)?,
            Write::ReleaseBelow(ticket) => release = Some(ticket),
        }
    }
    let synced = store.sync()?;
    // Only durable progress makes a record unnecessary.
    release.map_or(Ok(()), |ticket| store.release_safety_below(ticket))?;
    Ok(synced)
}

fn verify(verifier: &dyn Verifier, unverified: &mpsc::Receiver<(ValidatorIndex, Bytes)>, events: &mpsc::SyncSender<Event>) {
    while let Ok((from, bytes)) = unverified.recv() {
        let Ok(PeerMessage::Engine(bytes)) = PeerMessage::decode(&bytes) else { continue };
        let Ok(message) = verifier.verify(from, &bytes) else { continue };
        if events.send(Event::Message { from, message }).is_err() {
            return;
        }
    }
}

/// Passes events of the network on. A full queue drops messages; engines fetch what they lack.
async fn receive(mut network: Events, unverified: mpsc::SyncSender<(ValidatorIndex, Bytes)>, events: mpsc::SyncSender<Event>) {
    while let Some(event) = network.recv().await {
        match event {
            NetworkEvent::Message { from, bytes, .. } => {
                if let Some(validator) = from.validator {
                    let _ = unverified.try_send((validator, bytes));
                }
            }
            NetworkEvent::PeerUp(peer) => {
                if let Some(validator) = peer.validator {
                    let _ = events.send(Event::Up { peer: peer.id, validator });
                }
            }
            NetworkEvent::PeerDown(peer) => _ = events.send(Event::Down(peer.id)),
            NetworkEvent::Request { .. } => {}
        }
    }
}

struct Ordering {
    engine: Box<dyn Engine>,
    own: ValidatorIndex,
    peers: BTreeMap<PeerKey, ValidatorIndex>,
    network: NetworkHandle,
    writes: mpsc::Sender<Write>,
    generator: Generator,
    /// Size in bytes of the batch that the engine wants.
    wanted: Option<usize>,
    counted: Counted,
    /// Of own transactions, in µs.
    latencies: Vec<u64>,
}

impl Ordering {
    /// Waits until this many validators are connected.
    fn connect(&mut self, events: &mpsc::Receiver<Event>, others: usize) -> anyhow::Result<()> {
        while self.peers.len() < others {
            self.handle(events.recv().context("the network has ended")?);
            self.drain(Duration::ZERO);
        }
        Ok(())
    }

    fn run(&mut self, events: &mpsc::Receiver<Event>, timing: Timing) -> anyhow::Result<()> {
        let started = Instant::now();
        let begin = Duration::from_secs(timing.warm_up);
        let end = begin + Duration::from_secs(timing.seconds);
        let (mut before, mut reported) = (None::<Stats>, false);
        loop {
            let elapsed = started.elapsed();
            if before.is_none() && elapsed >= begin {
                before = Some(self.network.stats());
                (self.counted, self.generator.refused) = (Counted::default(), 0);
                self.latencies.clear();
            }
            if let Some(before) = before.filter(|_| !reported && elapsed >= end) {
                exit::result(serde_json::to_string(&self.report(&before))?);
                reported = true;
            }
            self.generator.advance(elapsed);
            if self.engine.deadline().is_some_and(|deadline| deadline <= now()) {
                self.engine.handle(now(), Input::Deadline);
            }
            self.drain(elapsed);
            self.propose();
            self.drain(elapsed);
            match events.recv_timeout(self.patience(started.elapsed())) {
                Ok(event) => self.handle(event),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(()),
            }
            // What waits is handled together, as one look at the clock suffices.
            events.try_iter().take(QUEUE).for_each(|event| self.handle(event));
        }
    }

    /// Time until something has to be done without an event.
    fn patience(&self, elapsed: Duration) -> Duration {
        let engine = self.engine.deadline().map(|deadline| Duration::from_millis(deadline.0.saturating_sub(now().0)));
        // Transactions matter only while a batch is wanted.
        let next = self.wanted.map(|_| self.generator.next_due().saturating_sub(elapsed));
        [engine, next, Some(Duration::from_millis(100))].into_iter().flatten().min().unwrap_or_default()
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Message { from, message } => self.engine.handle(now(), Input::Message { from, message }),
            Event::Up { peer, validator } => {
                self.peers.insert(peer, validator);
                self.engine.handle(now(), Input::PeerUp(validator));
            }
            Event::Down(peer) => {
                if let Some(validator) = self.peers.remove(&peer) {
                    self.engine.handle(now(), Input::PeerDown(validator));
                }
            }
            Event::Durable(tickets) => {
                tickets.into_iter().for_each(|ticket| self.engine.handle(now(), Input::Durable(ticket)));
            }
        }
    }

    fn propose(&mut self) {
        let Some(batch) = self.wanted.and_then(|bytes| self.generator.batch(bytes)) else { return };
        self.wanted = None;
        self.engine.handle(now(), Input::Batch(batch));
    }

    /// Does what the engine wants.
    fn drain(&mut self, elapsed: Duration) {
        while let Some(output) = self.engine.poll() {
            match output {
                Output::WantBatch { bytes, .. } => self.wanted = Some(bytes as usize),
                Output::Send { to, message } => self.send(to, message),
                // The thread ends only with the process.
                Output::Persist(ticket, record) => _ = self.writes.send(Write::Record(ticket, record)),
                Output::ReleaseBelow(ticket) => _ = self.writes.send(Write::ReleaseBelow(ticket)),
                Output::Deliver(ordered) => self.deliver(ordered, elapsed),
                Output::Requeue(batch) => self.generator.requeue(&batch),
                Output::Trace(TraceEvent::Proposed(vertex)) => {
                    self.counted.proposals += 1;
                    self.counted.batches += u64::from(vertex.batch_digest.is_some());
                }
                Output::Available { .. } | Output::Accuse { .. } | Output::Trace(_) => {}
            }
        }
    }

    fn send(&self, to: Recipients, message: Bytes) {
        let bytes = PeerMessage::Engine(message).encode();
        let is_wanted = |validator: ValidatorIndex| match to {
            Recipients::All => true,
            Recipients::One(one) => one == validator,
        };
        for (peer, _) in self.peers.iter().filter(|(_, validator)| is_wanted(**validator)) {
            // A full queue drops messages; engines fetch what they lack.
            let _ = self.network.send(*peer, Channel::Bulk, bytes.clone());
        }
    }

    fn deliver(&mut self, ordered: corniche_engine::Ordered, elapsed: Duration) {
        let now_us = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        for (author, batch) in &ordered.batches {
            let before = self.latencies.len();
            if *author == self.own {
                self.latencies.extend(creation_times(batch).map(|created| now_us.saturating_sub(created)));
                let own = (self.latencies.len() - before) as u64;
                self.generator.unordered = self.generator.unordered.saturating_sub(own);
            }
            self.counted.ordered += creation_times(batch).count() as u64;
        }
        let _ = self.writes.send(Write::Progress(Resume { index: ordered.index, checkpoint: ordered.checkpoint }));
        if let Some(index) = ordered.index.0.checked_sub(CERTIFIED_BELOW).filter(|index| *index > 0) {
            self.engine.handle(now(), Input::Certified(CommitIndex(index)));
        }
    }

    fn report(&mut self, before: &Stats) -> Counted {
        let after = self.network.stats();
        let sum = |value: fn(&corniche_network::ChannelStats) -> u64| {
            let of = |stats: &Stats| value(&stats.votes) + value(&stats.bulk);
            of(&after) - of(before)
        };
        self.latencies.sort_unstable();
        let quantile = |number: usize| self.latencies.get(number * self.latencies.len().saturating_sub(1) / (QUANTILES - 1));
        Counted {
            refused: self.generator.refused,
            messages: sum(|channel| channel.frames_sent),
            bytes: sum(|channel| channel.bytes_sent),
            latencies: (0..QUANTILES).filter_map(quantile).copied().collect(),
            ..self.counted.clone()
        }
    }
}
