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
    Counted, command,
    generator::{Generator, creation_times, microseconds},
};
use corniche_console::exit;
use corniche_engine::{Committee, Engine, Input, Ordered, Output, Recipients, Ticket, TraceEvent, Verified, Verifier};
use corniche_network::{
    Channel, ChannelStats, Event as NetworkEvent, Events, Network, NetworkConfig, NetworkHandle, PeerKey, Stats,
};
use corniche_pipeline::{EngineFactory, EngineStart, EpochStart, PeerMessage, Write};

use corniche_store::{DataDirectory, Options, Store, Synced};
use corniche_types::{Bytes, CommitIndex, Genesis, Resume, TimestampMs, ValidatorIndex};
use std::{
    collections::BTreeMap,
    io::{self, BufRead},
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
const QUEUE: usize = 512;

/// Parts of a validator that only orders.
pub struct OrderNode<'a> {
    pub genesis: &'a Genesis,
    pub own: ValidatorIndex,
    pub verifier: Arc<dyn Verifier>,
    pub factory: EngineFactory,
    pub network: NetworkConfig,
    pub data: &'a Path,
    /// Transactions per second.
    pub rate: f64,
}

enum Event {
    Message {
        from: ValidatorIndex,
        message: Verified,
    },
    Up {
        peer: PeerKey,
        validator: ValidatorIndex,
    },
    Down(PeerKey),
    Durable(Vec<Ticket>),
    /// A line of standard input; `None` at its end.
    Command(Option<String>),
}

/// Runs a validator until its standard input ends. Prints a line when it is connected to all others. Then it follows the lines of
/// [`command`].
pub fn run(node: OrderNode<'_>) -> anyhow::Result<()> {
    let OrderNode { genesis, own, verifier, factory, network, data, rate } = node;
    let (store, recovered) = Store::open(data, genesis, Options { checkpoint_interval: None, ..Options::default() })?;
    let committee = Committee::from_genesis(genesis);
    let engine = factory(EngineStart {
        committee,
        epoch: EpochStart::genesis(genesis),
        records: recovered.safety,
        has_all_records: DataDirectory::new(data).unsigned().exists(),
        resume: recovered.resume,
        coin: None,
        now: now(),
    });
    let (events, events_in) = mpsc::sync_channel(QUEUE);
    let (writes, writes_in) = mpsc::channel();
    let durable = events.clone();
    spawn("writer", move || write(store, &writes_in, &durable))?;
    let commands = events.clone();
    spawn("commands", move || read_commands(&commands))?;
    let (unverified, unverified_in) = mpsc::sync_channel::<(ValidatorIndex, Bytes)>(QUEUE);
    let verified = events.clone();
    spawn("verify", move || verify(&*verifier, &unverified_in, &verified))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).thread_name("socket").enable_all().build()?;
    let (network, network_events) = runtime.block_on(Network::start(network))?;
    runtime.spawn(receive(network_events, Committee::from_genesis(genesis), unverified, events));
    let others = genesis.validators.len() - 1;
    let generator = Generator::new(rate);
    let ordering = Ordering {
        engine,
        own,
        others,
        peers: BTreeMap::new(),
        network,
        writes,
        generator,
        started: None,
        requested_bytes: None,
        stats_before: Stats::default(),
        counted: Counted::default(),
        latencies: Vec::new(),
    };
    let engine = spawn("engine", move || ordering.run(&events_in))?;
    engine.join().map_err(|_| anyhow::anyhow!("the engine panicked"))?
}

fn spawn<T: Send + 'static>(name: &str, body: impl FnOnce() -> T + Send + 'static) -> io::Result<thread::JoinHandle<T>> {
    thread::Builder::new().name(name.into()).spawn(body)
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
        let event = match write_group(&mut store, group) {
            Ok(synced) => Event::Durable(synced.tickets),
            Err(error) => {
                exit::note(format_args!("the disk failed: {error}"));
                // Ends the node.
                Event::Command(None)
            }
        };
        if durable.send(event).is_err() {
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
            Write::ReadSafetyLog | Write::Block(_) | Write::Certificate(_) | Write::Evidence(_) | Write::Halt { .. } => {}
        }
    }
    let synced = store.sync()?;
    // Only durable progress makes a record unnecessary.
    release.map_or(Ok(()), |ticket| store.release_safety_below(ticket))?;
    Ok(synced)
}

fn read_commands(events: &mpsc::SyncSender<Event>) {
    let lines = io::stdin().lock().lines().map_while(Result::ok).map(Some);
    for line in lines.chain([None]) {
        if events.send(Event::Command(line)).is_err() {
            return;
        }
    }
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
async fn receive(
    mut network: Events,
    committee: Committee,
    unverified: mpsc::SyncSender<(ValidatorIndex, Bytes)>,
    events: mpsc::SyncSender<Event>,
) {
    while let Some(event) = network.recv().await {
        match event {
            NetworkEvent::Message { from, bytes, .. } => {
                if let Some(validator) = committee.index_of(&from.id.0) {
                    let _ = unverified.try_send((validator, bytes));
                }
            }
            NetworkEvent::PeerUp(peer) => {
                if let Some(validator) = committee.index_of(&peer.id.0) {
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
    /// Number of other validators.
    others: usize,
    peers: BTreeMap<PeerKey, ValidatorIndex>,
    network: NetworkHandle,
    writes: mpsc::Sender<Write>,
    generator: Generator,
    /// Start of the generator.
    started: Option<Instant>,
    /// Size of the batch that the engine wants.
    requested_bytes: Option<usize>,
    /// The network's counters at the beginning of the measurement.
    stats_before: Stats,
    counted: Counted,
    /// Latencies of own transactions, in µs.
    latencies: Vec<u64>,
}

impl Ordering {
    fn run(mut self, events: &mpsc::Receiver<Event>) -> anyhow::Result<()> {
        self.report_connected();
        loop {
            if self.started.is_some() {
                self.generator.advance(self.elapsed());
            }
            if self.engine.deadline().is_some_and(|deadline| deadline <= now()) {
                self.engine.handle(now(), Input::Deadline);
            }
            self.drain();
            self.propose();
            self.drain();
            let waiting = match events.recv_timeout(self.timeout()) {
                Ok(event) => Some(event),
                Err(mpsc::RecvTimeoutError::Timeout) => None,
                Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(()),
            };
            for event in waiting.into_iter().chain(events.try_iter().take(QUEUE)) {
                if let Event::Command(None) = event {
                    return Ok(());
                }
                self.handle(event)?;
            }
        }
    }

    /// Time since the start of the generator.
    fn elapsed(&self) -> Duration {
        self.started.map(|started| started.elapsed()).unwrap_or_default()
    }

    /// Time until something has to be done without an event.
    fn timeout(&self) -> Duration {
        let engine = self.engine.deadline().map(|deadline| Duration::from_millis(deadline.0.saturating_sub(now().0)));
        // Transactions matter only while a batch is wanted.
        let is_waiting = self.started.is_some() && self.requested_bytes.is_some();
        let next = is_waiting.then(|| self.generator.next_due().saturating_sub(self.elapsed()));
        [engine, next, Some(Duration::from_millis(100))].into_iter().flatten().min().unwrap_or_default()
    }

    fn handle(&mut self, event: Event) -> anyhow::Result<()> {
        match event {
            Event::Message { from, message } => self.engine.handle(now(), Input::Message { from, message }),
            Event::Up { peer, validator } => {
                self.peers.insert(peer, validator);
                self.engine.handle(now(), Input::PeerUp(validator));
                self.report_connected();
            }
            Event::Down(peer) => {
                if let Some(validator) = self.peers.remove(&peer) {
                    self.engine.handle(now(), Input::PeerDown(validator));
                }
            }
            Event::Durable(tickets) => {
                tickets.into_iter().for_each(|ticket| self.engine.handle(now(), Input::Durable(ticket)));
            }
            Event::Command(line) => return self.command(line.as_deref().unwrap_or_default()),
        }
        // The engine expects its outputs to be taken after each input.
        self.drain();
        Ok(())
    }

    /// Tells the parent once that all validators are connected.
    fn report_connected(&self) {
        if self.peers.len() == self.others && self.started.is_none() {
            exit::result("connected");
        }
    }

    fn command(&mut self, line: &str) -> anyhow::Result<()> {
        match line {
            command::START => self.started = Some(Instant::now()),
            command::RESET => {
                self.stats_before = self.network.stats();
                (self.counted, self.generator.refused) = (Counted::default(), 0);
                self.latencies.clear();
            }
            command::REPORT => exit::result(serde_json::to_string(&self.report())?),
            _ => anyhow::bail!("unknown command {line:?}"),
        }
        Ok(())
    }

    fn propose(&mut self) {
        let Some(batch) = self.requested_bytes.and_then(|bytes| self.generator.batch(bytes)) else { return };
        self.requested_bytes = None;
        self.engine.handle(now(), Input::Batch(batch));
    }

    /// Performs the engine's outputs.
    fn drain(&mut self) {
        while let Some(output) = self.engine.poll() {
            match output {
                Output::WantBatch { bytes, .. } => self.requested_bytes = Some(bytes as usize),
                Output::Send { to, message } => self.send(to, message),
                // The thread ends only with the process.
                Output::Persist(ticket, record) => _ = self.writes.send(Write::Record(ticket, record)),
                Output::ReleaseBelow(ticket) => _ = self.writes.send(Write::ReleaseBelow(ticket)),
                Output::Deliver(ordered) => self.deliver(ordered),
                Output::Requeue(batch) => self.generator.requeue(&batch),
                Output::Trace(TraceEvent::Proposed(vertex)) => {
                    self.counted.proposals += 1;
                    self.counted.batches += u64::from(vertex.batch_digest.is_some());
                }
                Output::Available { .. } | Output::Accuse { .. } | Output::Twin(_) | Output::Trace(_) => {}
                // All members are up.
                Output::Proposers(_) => {}
                // No engine of this benchmark has a multicast group.
                Output::Multicast(_) | Output::AskSequencer { .. } => {}
            }
        }
    }

    fn send(&self, to: Recipients, message: Bytes) {
        let bytes = PeerMessage::Engine(message).encode();
        let wanted = self.peers.iter().filter(|(_, validator)| to.includes(**validator));
        // A full queue drops messages; engines fetch missing data.
        self.network.broadcast(wanted.map(|(peer, _)| *peer), Channel::Bulk, bytes);
    }

    fn deliver(&mut self, ordered: Ordered) {
        let now_us = microseconds(self.elapsed());
        for (author, batch) in &ordered.batches {
            let created: Vec<_> = creation_times(batch).collect();
            self.counted.ordered += created.len() as u64;
            if *author == self.own {
                self.generator.unordered = self.generator.unordered.saturating_sub(created.len() as u64);
                self.latencies.extend(created.into_iter().map(|created| now_us.saturating_sub(created)));
            }
        }
        let _ = self.writes.send(Write::Progress(Resume {
            index: ordered.index,
            checkpoint: ordered.checkpoint,
            ..Resume::default()
        }));
        if let Some(index) = ordered.index.0.checked_sub(CERTIFIED_BELOW).filter(|index| *index > 0) {
            self.engine.handle(now(), Input::Certified(CommitIndex(index)));
        }
    }

    fn report(&mut self) -> Counted {
        let (before, after) = (self.stats_before, self.network.stats());
        let sum = |value: fn(&ChannelStats) -> u64| {
            let of = |stats: &Stats| value(&stats.votes) + value(&stats.bulk);
            of(&after) - of(&before)
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
