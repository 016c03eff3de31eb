//! A replica: how it starts, and its thread.

use crate::journal::{Identity, Journal};
use crate::keys::MemberKey;
use crate::mail::{self, Mail, Post, receive};
use crate::metrics::{MemberMetrics, Role};
use crate::{Parts, Running, chain_of, spawn};
use anyhow::Context;
use corniche_basil::attestation::Decision;
use corniche_basil::copy::StateCopy;
use corniche_basil::record::Record;
use corniche_basil::replica::{Input, Output, Replica, Setup, Ticket};
use corniche_basil::shards::ReplicaId;
use corniche_basil_contracts::chain;
use corniche_network::Events;
use corniche_rpc::serve_metrics;
use corniche_service::now;
use corniche_store::{CodeCache, DataDirectory, genesis_block};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::Receiver;
use std::{fs, mem};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Bytes of compiled code that a replica keeps on disk.
const CODE_CACHE_BYTES: u64 = 1 << 30;
/// Messages between two syncs of the journal.
const MAX_AT_ONCE: usize = 256;

/// State of a replica, for metrics.
#[derive(Debug, Default)]
pub struct Progress {
    pub committed: Counter,
    pub aborted: Counter,
    /// Transactions, keys and ongoing reads in memory.
    pub footprint: Level,
    /// Everything below is decided, and known here; µs.
    pub complete_us: Level,
    pub journal_bytes: Level,
}

type Level = Gauge<u64, AtomicU64>;

impl Parts {
    pub fn start_replica(self, id: ReplicaId, events: Events) -> anyhow::Result<Running> {
        let identity = Identity { genesis: self.genesis.hash(), replica: id };
        let (mut journal, mut records) = Journal::open(&self.data, identity)?;
        let recovered = records.len();
        let may_start = self.may_start(&mut journal, &mut records)?;
        let chain = chain_of(&self.genesis, CodeCache::open(self.data.join("code"), CODE_CACHE_BYTES)?)?;
        let owned = chain::genesis(&genesis_block(&self.genesis).changes);
        let owned = owned.into_iter().filter(|(key, _)| self.members.shards.shard_of(key) == id.shard).collect();
        let setup = Setup {
            config: self.members.config.clone(),
            shards: Arc::clone(&self.members.shards),
            id,
            signer: Arc::new(MemberKey::new(self.consensus.clone(), self.genesis.chain_id)),
            program: Arc::new(chain),
            genesis: owned,
            genesis_us: self.genesis_us(),
            records,
        };
        let progress = Arc::new(Progress::default());
        let (mail, inbox) = mail::queue();
        let thread = ReplicaThread { setup, journal, post: self.post, progress: Arc::clone(&progress) };
        let (ended, thread) = spawn("replica", move || thread.run(may_start, &inbox))?;
        let forward = mail::forward(events, self.members, mail.clone(), Arc::clone(&self.counters), |_: &[u8]| None);
        tokio::spawn(forward);
        let mut registry = Registry::default();
        registry.register_collector(Box::new(MemberMetrics { mail: self.counters, role: Role::Replica(progress) }));
        let (stopping, stopped) = watch::channel(false);
        let metrics = self.metrics_listener.as_ref().map(TcpListener::local_addr).transpose()?;
        if let Some(listener) = self.metrics_listener {
            tokio::spawn(serve_metrics(listener, Arc::new(registry), stopped));
        }
        let (shard, member, chain_id) = (id.shard.0, id.member, self.genesis.chain_id);
        tracing::info!(shard, member, chain_id, recovered, ?metrics, "replica is up");
        let stop = Box::new(move || {
            stopping.send_replace(true);
            _ = mail.send(Mail::Stop);
        });
        Ok(Running { server: None, network: self.network, stop, ended, thread })
    }

    /// True if a replica may vote at once: it has the records of everything that it signed, or its keys signed nothing yet.
    fn may_start(&self, journal: &mut Journal, records: &mut Vec<Record>) -> anyhow::Result<bool> {
        let unsigned = DataDirectory::new(&self.data).unsigned();
        let key = self.consensus.public().to_string();
        if records.is_empty() && fs::read_to_string(&unsigned).is_ok_and(|listed| listed.trim() == key) {
            records.push(Record::Closed { below_us: self.genesis_us() });
            journal.append(records.clone());
            journal.sync()?;
        }
        if unsigned.exists() {
            // From here on, nobody may claim that nothing was signed.
            fs::remove_file(&unsigned).with_context(|| format!("cannot remove {}", unsigned.display()))?;
        }
        Ok(!records.is_empty())
    }

    fn genesis_us(&self) -> u64 {
        self.genesis.timestamp_ms.0.saturating_mul(1_000)
    }
}

/// A replica's files, and its end of the network.
struct ReplicaThread {
    /// With the records from which the replica starts.
    setup: Setup,
    journal: Journal,
    post: Post,
    progress: Arc<Progress>,
}

/// Why a replica stopped.
enum End {
    Stopped,
    /// The others forgot what it misses: it must copy the state.
    Behind,
}

impl ReplicaThread {
    /// Runs until [`Mail::Stop`]. `may_start` is false for a replica that must copy the state before it votes.
    ///
    /// # Errors
    ///
    /// The journal cannot be written. The replica must not go on.
    fn run(mut self, mut may_start: bool, mail: &Receiver<Mail<()>>) -> anyhow::Result<()> {
        loop {
            if !may_start {
                tracing::warn!(
                    "this replica lost its records, or was away for too long: it copies the state before it votes again"
                );
                let Some(copied) = self.copy_state(mail) else { return Ok(()) };
                self.journal.replace(&copied)?;
                tracing::info!(records = copied.len(), "the state is copied");
                self.setup.records = copied;
            }
            let records = mem::take(&mut self.setup.records);
            let replica = Replica::new(now(), Setup { records, ..self.setup.clone() });
            match self.serve(replica, mail)? {
                End::Stopped => return Ok(()),
                End::Behind => may_start = false,
            }
        }
    }

    /// Copies the state of the shard from its other replicas. Returns the records from which this one starts, or `None` if it was stopped
    /// meanwhile.
    fn copy_state(&mut self, mail: &Receiver<Mail<()>>) -> Option<Vec<Record>> {
        let mut copy = StateCopy::new(now(), &self.setup.config, Arc::clone(&self.setup.shards), self.setup.id);
        loop {
            while let Some((to, message)) = copy.poll() {
                self.post.send(to, message);
            }
            if let Some(records) = copy.records() {
                return Some(records);
            }
            match receive(mail, now(), Some(copy.deadline())) {
                Some(Mail::Message { from, bytes }) => {
                    if let Some(checked) = self.post.open(from, &bytes) {
                        copy.handle(now(), checked);
                    }
                }
                Some(Mail::Stop) => return None,
                Some(Mail::Own(())) => {}
                None => copy.tick(now()),
            }
        }
    }

    fn serve(&mut self, mut replica: Replica, mail: &Receiver<Mail<()>>) -> anyhow::Result<End> {
        loop {
            if self.carry_out(&mut replica)? {
                return Ok(End::Behind);
            }
            let mut next = receive(mail, now(), replica.deadline());
            if next.is_none() {
                replica.handle(now(), Input::Deadline);
            }
            let mut count = 0;
            while let Some(one) = next {
                match one {
                    Mail::Message { from, bytes } => {
                        if let Some(checked) = self.post.open(from, &bytes) {
                            replica.handle(now(), Input::Message(Box::new(checked)));
                        }
                    }
                    Mail::Own(()) => {}
                    Mail::Stop => return self.journal.sync().map(|()| End::Stopped),
                }
                count += 1;
                next = if count < MAX_AT_ONCE { mail.try_recv().ok() } else { None };
            }
            if self.journal.is_due() {
                self.journal.replace(&replica.snapshot())?;
            }
            self.progress.footprint.set(replica.footprint() as u64);
            self.progress.complete_us.set(replica.complete_us());
            self.progress.journal_bytes.set(self.journal.bytes());
        }
    }

    /// Carries out everything that the replica asks for, with one sync for all records that wait. Returns true if it is behind.
    fn carry_out(&mut self, replica: &mut Replica) -> anyhow::Result<bool> {
        loop {
            let mut newest: Option<Ticket> = None;
            while let Some(output) = replica.poll() {
                match output {
                    Output::Send { to, message } => self.post.send(to, message),
                    Output::Persist(ticket, records) => {
                        self.journal.append(records);
                        newest = Some(ticket);
                    }
                    Output::Behind => return Ok(true),
                    Output::Decided(decided) => {
                        let count = match decided.decision() {
                            Decision::Commit => &self.progress.committed,
                            Decision::Abort => &self.progress.aborted,
                        };
                        count.inc();
                    }
                }
            }
            let Some(ticket) = newest else { return Ok(false) };
            self.journal.sync()?;
            replica.handle(now(), Input::Durable(ticket));
        }
    }
}
