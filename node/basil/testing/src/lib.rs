//! A network of shards and clients in virtual time, doubles that lie, workloads, and the checker that judges histories.
#![allow(clippy::unwrap_used)] // test helpers, as the tests they serve

pub mod checker;
pub mod costs;
pub mod doubles;
pub mod workload;

use corniche_basil::attestation::{Attestation, Signatures, Signer};
use corniche_basil::certificate::Decided;
use corniche_basil::client::{Client, Output as ClientOutput};
use corniche_basil::config::Config;
use corniche_basil::copy::StateCopy;
use corniche_basil::message::{Message, Peer};
use corniche_basil::record::Record;
use corniche_basil::replica::{Input, Output, Program, Replica, Setup, Ticket};
use corniche_basil::shards::{ClientId, Key, ReplicaId, ShardId, Shards};
use corniche_basil::shared::Shared;
use corniche_basil::transaction::{
    Read, Signature, SignedTransaction, Timestamp, Transaction, TransactionId, Value, Version, Write,
};
use corniche_basil::verify::{Checked, Verifier};
use corniche_types::{Address, B256, Bytes, TimestampMs, wire};
use costs::{Costs, Counted, Job, Processor, Work};
use doubles::{ClientLie, Liar, SeenVotes, distort_client};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Modelled signatures: a hash with the public key. Liars sign with their own keys only.
pub struct Keys;

pub struct Secret(pub B256);

fn model(key: &B256, digest: &B256) -> Signature {
    let mut signature = [0; 64];
    signature[..32].copy_from_slice(blake3::hash(&[key.as_slice(), digest.as_slice()].concat()).as_bytes());
    signature
}

impl Signatures for Keys {
    fn verify(&self, key: &B256, digest: &B256, signature: &Signature) -> bool {
        model(key, digest) == *signature
    }
}

impl Signer for Secret {
    fn sign(&self, digest: &B256) -> Signature {
        model(&self.0, digest)
    }
}

/// xorshift64*.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 16) % limit.max(1)
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// A program whose writes depend on everything that was read: each written value is a hash of the salt and all reads.
pub struct Mixer;

/// Number of constants in the genesis of tests.
pub const CONSTANTS: u64 = 8;

/// A constant of [`Mixer`]: its key contains the hash of its value.
pub fn constant(number: u64) -> (Key, Bytes) {
    let value = Bytes::from(format!("constant {number}").into_bytes());
    (constant_key(&value), value)
}

fn constant_key(value: &[u8]) -> Key {
    let hash = blake3::hash(value);
    Key { account: Address::from_slice(&hash.as_bytes()[..20]), item: [CONSTANT, hash.as_bytes()].concat().into() }
}

/// Beginning of a constant's item.
const CONSTANT: &[u8] = b"constant ";

fn is_constant(key: &Key) -> bool {
    key.item.starts_with(CONSTANT)
}

/// Values in the genesis of tests.
pub fn genesis() -> BTreeMap<Key, Value> {
    (0..CONSTANTS).map(constant).map(|(key, value)| (key, Some(value))).collect()
}

/// The writes of [`Mixer`]: to all keys except constants.
pub fn mixed(reads: &[Read], keys: &[Key], salt: u64) -> Vec<Write> {
    let values: Vec<_> = reads.iter().map(|read| (&read.key, &read.value)).collect();
    let value = |key: &Key| blake3::hash(&wire::encode(&(key, salt, &values)));
    keys.iter()
        .filter(|key| !is_constant(key))
        .map(|key| Write { key: key.clone(), value: Some(Bytes::copy_from_slice(&value(key).as_bytes()[..8])) })
        .collect()
}

/// A call that needs the constants among these keys, and writes to the others.
pub fn call(keys: &[Key], salt: u64) -> Bytes {
    wire::encode(&(keys.to_vec(), salt)).into()
}

impl Program for Mixer {
    fn check(&self, transaction: &Transaction, constants: &BTreeMap<Key, Bytes>) -> Result<(), String> {
        let (keys, salt): (Vec<Key>, u64) = wire::decode(&transaction.call).map_err(|error| error.to_string())?;
        let is_known = |key: &Key| constants.get(key).is_some_and(|value| self.is_constant(key, value));
        if !self.constants(transaction).iter().all(is_known) {
            return Err("a constant is missing".into());
        }
        let expected = mixed(&transaction.reads, &keys, salt);
        if expected == transaction.writes { Ok(()) } else { Err("other writes".into()) }
    }

    fn constants(&self, transaction: &Transaction) -> BTreeSet<Key> {
        let keys = wire::decode::<(Vec<Key>, u64)>(&transaction.call).map(|(keys, _)| keys);
        keys.unwrap_or_default().into_iter().filter(is_constant).collect()
    }

    fn is_constant(&self, key: &Key, value: &Bytes) -> bool {
        *key == constant_key(value)
    }
}

pub fn key(number: u64) -> Key {
    Key { account: Address::left_padding_from(&number.to_be_bytes()), item: Bytes::new() }
}

pub fn client_id(number: u8) -> ClientId {
    B256::left_padding_from(&[0xc1, number])
}

pub struct ReplicaNode {
    pub replica: Option<Replica>,
    /// The copy that precedes the replica after it lost its disk.
    copy: Option<StateCopy>,
    pub verifier: Verifier,
    pub disk: Vec<Record>,
    /// Number of records at which a snapshot replaces them.
    replace_at: usize,
    pub liar: Option<Liar>,
    /// Milliseconds by which its clock is ahead.
    pub skew: i64,
    deadline: Option<TimestampMs>,
}

pub struct ClientNode {
    pub client: Client,
    pub verifier: Verifier,
    pub skew: i64,
    pub is_down: bool,
    pub values: Vec<(Timestamp, Key, Value)>,
    pub finished: Vec<(TransactionId, Shared<Decided>)>,
    pub recovered: Vec<TransactionId>,
    pub exported: BTreeMap<(u64, u64), Vec<Shared<Decided>>>,
    pub certified: BTreeMap<(u64, u64), Vec<Attestation>>,
    /// See [`ClientOutput::Late`].
    pub late: Option<u64>,
    pub lie: Option<ClientLie>,
    /// Transactions for which a lying client could propose both decisions, and did.
    pub equivocated: BTreeSet<TransactionId>,
    seen: SeenVotes,
    deadline: Option<TimestampMs>,
}

pub enum Event {
    Deliver {
        from: Peer,
        to: Peer,
        message: Arc<Message>,
    },
    Wake(Peer),
    /// An append is on disk.
    Durable(ReplicaId, Ticket, Vec<Record>),
    /// A processor is done with what it did.
    Resume(Peer),
}

/// Delay of a message in ms; `None` if it is lost.
pub type Delay = Box<dyn FnMut(&mut Random, Peer, Peer, &Message) -> Option<u64>>;

/// A snapshot replaces a disk with at least as many records, so that schedules with restarts test it.
const SNAPSHOT_RECORDS: usize = 64;

pub struct World {
    pub shards: Arc<Shards>,
    pub config: Config,
    pub now: u64,
    pub random: Random,
    program: Arc<dyn Program>,
    pub genesis: BTreeMap<Key, Value>,
    /// Verified messages for clients outside of this network.
    pub mail: Vec<(ClientId, Checked)>,
    pub replicas: BTreeMap<ReplicaId, ReplicaNode>,
    pub clients: BTreeMap<ClientId, ClientNode>,
    pub delay: Delay,
    /// Time of a write to disk, ms.
    pub disk_ms: u64,
    /// Processor time; `None`: everything except the network takes no time.
    pub costs: Option<Costs>,
    /// Signatures made and checked so far.
    pub work: Work,
    /// Clients that got an output since the caller emptied this.
    pub touched: BTreeSet<ClientId>,
    keys: Arc<Counted>,
    processors: BTreeMap<Peer, Processor>,
    /// Events by their time in µs, in the order of their scheduling.
    events: BTreeMap<(u64, u64), Event>,
    next: u64,
    /// Time of the last event. `now` is the same in ms, or later.
    event_us: u64,
    /// Messages sent, by kind.
    pub sent: BTreeMap<&'static str, usize>,
    /// Every decision that a replica applied or a client reported.
    pub decided: Vec<Shared<Decided>>,
}

/// One message delay in ms.
pub const DELAY: u64 = 10;
/// Time of the start.
pub const START: u64 = 1_000_000;

pub fn kind(message: &Message) -> &'static str {
    match message {
        Message::Read { .. } => "read",
        Message::ReadReply { .. } => "read-reply",
        Message::Abandon { .. } => "abandon",
        Message::Prepare(_) => "st1",
        Message::Vote { .. } => "st1r",
        Message::Log(_) => "st2",
        Message::Logged(_) => "st2r",
        Message::Writeback(_) => "writeback",
        Message::Recover(_) => "rp",
        Message::Fetch(_) => "fetch",
        Message::Known(_) => "known",
        Message::AskConstant(_) => "ask-constant",
        Message::Constant { .. } => "constant",
        Message::AskClosed { .. } => "ask-closed",
        Message::Closed { .. } => "closed",
        Message::InvokeFallback { .. } => "invoke",
        Message::Elect(_) => "elect",
        Message::Decide { .. } => "decide",
        Message::Pruned { .. } => "pruned",
        Message::AskState { .. } => "ask-state",
        Message::State { .. } => "state",
    }
}

/// Replies leave at once, so that delays are exact.
pub fn exact() -> Config {
    Config { reply_batch: 1, reply_delay_ms: 0, ..Config::default() }
}

impl World {
    /// Replicas with f = 1 that run [`Mixer`], and clients.
    pub fn new(shards: u16, clients: u8, config: Config, seed: u64) -> Self {
        Self::with_program(shards, clients, config, seed, Arc::new(Mixer), genesis())
    }

    /// As [`World::new`], with another program and values in the genesis.
    pub fn with_program(
        shards: u16,
        clients: u8,
        config: Config,
        seed: u64,
        program: Arc<dyn Program>,
        genesis: BTreeMap<Key, Value>,
    ) -> Self {
        let faulty = 1;
        let member = |shard: u16, member: u16| B256::left_padding_from(&[1, shard as u8, member as u8]);
        let members = (0..shards).map(|shard| (0..5 * faulty as u16 + 1).map(|index| member(shard, index)).collect()).collect();
        let shards = Arc::new(Shards::new(7, 0, faulty, members).unwrap());
        let mut world = Self {
            shards,
            config,
            now: START,
            random: Random::new(seed),
            program,
            genesis,
            mail: Vec::new(),
            replicas: BTreeMap::new(),
            clients: BTreeMap::new(),
            delay: Box::new(|_, _, _, _| Some(DELAY)),
            disk_ms: 0,
            costs: None,
            work: Work::default(),
            touched: BTreeSet::new(),
            keys: Arc::default(),
            processors: BTreeMap::new(),
            events: BTreeMap::new(),
            next: 0,
            event_us: START * 1_000,
            sent: BTreeMap::new(),
            decided: Vec::new(),
        };
        for id in world.all_replicas() {
            let verifier = Verifier::new(Arc::clone(&world.shards), world.keys.clone());
            let node = ReplicaNode {
                replica: None,
                copy: None,
                verifier,
                disk: Vec::new(),
                replace_at: SNAPSHOT_RECORDS,
                liar: None,
                skew: 0,
                deadline: None,
            };
            world.replicas.insert(id, node);
            world.start_replica(id);
        }
        for number in 0..clients {
            world.add_client(number);
        }
        world
    }

    pub fn add_client(&mut self, number: u8) {
        let id = client_id(number);
        let signer = self.keys.signer(Secret(id));
        let client = Client::new(self.config.clone(), Arc::clone(&self.shards), id, signer, 0);
        let verifier = Verifier::new(Arc::clone(&self.shards), self.keys.clone());
        let (values, finished, recovered) = (Vec::new(), Vec::new(), Vec::new());
        let (lie, seen, exported, certified) = (None, SeenVotes::default(), BTreeMap::new(), BTreeMap::new());
        let node = ClientNode {
            client,
            verifier,
            skew: 0,
            is_down: false,
            values,
            finished,
            recovered,
            exported,
            certified,
            late: None,
            lie,
            equivocated: BTreeSet::new(),
            seen,
            deadline: None,
        };
        self.clients.insert(id, node);
    }

    pub fn all_replicas(&self) -> Vec<ReplicaId> {
        self.shards.ids().flat_map(|shard| self.shards.replicas(shard)).collect()
    }

    /// Starts a replica from its disk.
    pub fn start_replica(&mut self, id: ReplicaId) {
        let is_own = |(key, _): &(&Key, &Value)| self.shards.shard_of(key) == id.shard;
        let genesis = self.genesis.iter().filter(is_own).map(|(key, value)| (key.clone(), value.clone())).collect();
        let setup = Setup {
            config: self.config.clone(),
            shards: Arc::clone(&self.shards),
            id,
            signer: self.keys.signer(Secret(*self.shards.key(id).unwrap())),
            program: Arc::clone(&self.program),
            genesis,
            // Clocks of clients may be late.
            genesis_us: (START - 1_000) * 1_000,
            records: self.replicas[&id].disk.clone(),
        };
        let now = self.replica_time(id);
        self.replicas.get_mut(&id).unwrap().replica = Some(Replica::new(now, setup));
        self.drain_replica(id);
    }

    /// Replaces a replica by one with an empty disk, which copies the state first.
    pub fn lose_disk(&mut self, id: ReplicaId) {
        self.stop_replica(id);
        let now = self.replica_time(id);
        let node = self.replicas.get_mut(&id).unwrap();
        node.disk.clear();
        node.copy = Some(StateCopy::new(now, &self.config, Arc::clone(&self.shards), id));
        self.drain_copy(id);
    }

    /// True while a replica copies the state.
    pub fn is_copying(&self, id: ReplicaId) -> bool {
        self.replicas[&id].copy.is_some()
    }

    fn drain_copy(&mut self, id: ReplicaId) {
        let skew = self.replicas[&id].skew;
        while let Some((to, message)) = self.replicas.get_mut(&id).unwrap().copy.as_mut().and_then(StateCopy::poll) {
            self.post(Peer::Replica(id), to, message);
        }
        let node = self.replicas.get_mut(&id).unwrap();
        let Some(copy) = &node.copy else { return };
        if let Some(records) = copy.records() {
            (node.disk, node.copy) = (records, None);
            return self.start_replica(id);
        }
        let at = copy.deadline().0.saturating_add_signed(-skew);
        self.schedule(at, Event::Wake(Peer::Replica(id)));
    }

    /// Stops a replica. Appends that are not durable are lost.
    pub fn stop_replica(&mut self, id: ReplicaId) {
        let node = self.replicas.get_mut(&id).unwrap();
        (node.replica, node.copy) = (None, None);
        self.processors.remove(&Peer::Replica(id));
        self.events.retain(|_, event| !matches!(event, Event::Durable(replica, ..) if *replica == id));
    }

    fn replica_time(&self, id: ReplicaId) -> TimestampMs {
        TimestampMs(self.now.saturating_add_signed(self.replicas[&id].skew))
    }

    pub fn client_time(&self, id: ClientId) -> TimestampMs {
        TimestampMs(self.now.saturating_add_signed(self.clients[&id].skew))
    }

    /// Time in µs. Only a cost model makes it finer than `now`.
    pub fn now_us(&self) -> u64 {
        self.event_us.max(self.now * 1_000)
    }

    pub fn schedule(&mut self, at: u64, event: Event) {
        self.schedule_us(at * 1_000, event);
    }

    fn schedule_us(&mut self, at_us: u64, event: Event) {
        self.next += 1;
        self.events.insert((at_us.max(self.now_us()), self.next), event);
    }

    /// Sends a message over the network.
    pub fn post(&mut self, from: Peer, to: Peer, message: Arc<Message>) {
        *self.sent.entry(kind(&message)).or_default() += 1;
        let send_us = self.costs.map_or(0, |costs| costs.send_us);
        let departs_us = self.charge(from, send_us);
        if let Some(delay) = (self.delay)(&mut self.random, from, to, &message) {
            let jitter_us = self.costs.map_or(0, |costs| self.random.below(costs.jitter_us + 1));
            self.schedule_us(departs_us + delay * 1_000 + jitter_us, Event::Deliver { from, to, message });
        }
    }

    pub fn with_client<T>(&mut self, id: ClientId, act: impl FnOnce(&mut Client, TimestampMs) -> T) -> T {
        let now = self.client_time(id);
        let result = act(&mut self.clients.get_mut(&id).unwrap().client, now);
        self.charge_made(Peer::Client(id));
        self.drain_client(id);
        result
    }

    fn drain_client(&mut self, id: ClientId) {
        self.touched.insert(id);
        while let Some(output) = self.clients.get_mut(&id).unwrap().client.poll() {
            let node = self.clients.get_mut(&id).unwrap();
            match output {
                ClientOutput::Send { to, message } => match node.lie {
                    None => self.post(Peer::Client(id), to, message),
                    Some(lie) => {
                        if let (ClientLie::EquivocateIfPossible, Message::Log(proposal)) = (lie, &*message)
                            && node.seen.allow_both(&self.shards, &proposal.transaction)
                        {
                            node.equivocated.insert(proposal.transaction.id(&self.shards));
                        }
                        let distorted = distort_client(lie, &node.seen, &self.shards, &mut self.random, to, message);
                        distorted.into_iter().for_each(|(to, message)| self.post(Peer::Client(id), to, message));
                    }
                },
                ClientOutput::Value { timestamp, key, value } => node.values.push((timestamp, key, value)),
                ClientOutput::Finished { id, decided } => {
                    node.finished.push((id, Shared::clone(&decided)));
                    self.decided.push(decided);
                }
                ClientOutput::Exported { from_us, below_us, transactions } => {
                    node.exported.insert((from_us, below_us), transactions);
                }
                ClientOutput::Late { below_us } => node.late = Some(below_us),
                ClientOutput::Certified { from_us, below_us, certificate } => {
                    node.certified.insert((from_us, below_us), certificate);
                }
                ClientOutput::Recovered { id, decided, .. } => {
                    node.recovered.push(id);
                    self.decided.push(decided);
                }
            }
        }
        let node = self.clients.get_mut(&id).unwrap();
        let deadline = node.client.deadline();
        if deadline != node.deadline {
            node.deadline = deadline;
            let skew = node.skew;
            if let Some(at) = deadline {
                self.schedule(at.0.saturating_add_signed(-skew), Event::Wake(Peer::Client(id)));
            }
        }
    }

    fn drain_replica(&mut self, id: ReplicaId) {
        while let Some(output) = self.replicas.get_mut(&id).unwrap().replica.as_mut().and_then(Replica::poll) {
            match output {
                Output::Send { to, message } => {
                    let liar = self.replicas.get_mut(&id).unwrap().liar.take();
                    match liar {
                        None => self.post(Peer::Replica(id), to, message),
                        Some(mut liar) => {
                            let messages = liar.distort(id, &self.shards, &mut self.random, to, message);
                            self.replicas.get_mut(&id).unwrap().liar = Some(liar);
                            messages.into_iter().for_each(|(to, message)| self.post(Peer::Replica(id), to, message));
                        }
                    }
                }
                Output::Persist(ticket, records) => {
                    self.schedule(self.now + self.disk_ms, Event::Durable(id, ticket, records));
                }
                Output::Behind => {
                    let now = self.replica_time(id);
                    let node = self.replicas.get_mut(&id).unwrap();
                    (node.replica, node.copy) = (None, Some(StateCopy::new(now, &self.config, Arc::clone(&self.shards), id)));
                    return self.drain_copy(id);
                }
                Output::Decided(decided) => {
                    if self.replicas[&id].liar.is_none() {
                        self.decided.push(decided);
                    }
                }
            }
        }
        let node = self.replicas.get_mut(&id).unwrap();
        let deadline = node.replica.as_ref().and_then(Replica::deadline);
        if deadline != node.deadline {
            node.deadline = deadline;
            let skew = node.skew;
            if let Some(at) = deadline {
                self.schedule(at.0.saturating_add_signed(-skew), Event::Wake(Peer::Replica(id)));
            }
        }
    }

    /// Runs the next event. Returns false if there is none before `until`.
    pub fn step(&mut self, until: u64) -> bool {
        let Some(((at_us, _), _)) = self.events.first_key_value() else { return false };
        if *at_us > until * 1_000 {
            return false;
        }
        let ((at_us, _), event) = self.events.pop_first().unwrap();
        self.event_us = at_us;
        self.now = at_us / 1_000;
        let (peer, job) = match event {
            Event::Deliver { from, to, message } => (to, Job::Message(from, message)),
            Event::Wake(peer) => (peer, Job::Wake),
            Event::Durable(id, ticket, records) => (Peer::Replica(id), Job::Durable(ticket, records)),
            Event::Resume(peer) => {
                self.resume(peer);
                return true;
            }
        };
        if self.costs.is_some() {
            self.enqueue(peer, job);
            return true;
        }
        match job {
            Job::Message(from, message) => {
                if let Some(checked) = self.check(peer, from, &message) {
                    self.apply(peer, checked);
                }
            }
            Job::Wake => self.wake(peer),
            Job::Durable(ticket, records) => self.durable(peer, ticket, records),
        }
        true
    }

    fn wake(&mut self, peer: Peer) {
        match peer {
            Peer::Client(id) => {
                let now = self.client_time(id);
                let node = self.clients.get_mut(&id).unwrap();
                if !node.is_down && node.client.deadline().is_some_and(|deadline| deadline <= now) {
                    node.deadline = None;
                    node.client.tick(now);
                    self.charge_made(peer);
                    self.drain_client(id);
                }
            }
            Peer::Replica(id) => self.input(id, Input::Deadline),
        }
    }

    fn durable(&mut self, peer: Peer, ticket: Ticket, records: Vec<Record>) {
        if let Peer::Replica(id) = peer {
            let node = self.replicas.get_mut(&id).unwrap();
            node.disk.extend(records);
            if node.disk.len() >= node.replace_at
                && let Some(replica) = &node.replica
            {
                node.disk = replica.snapshot();
                node.replace_at = 2 * node.disk.len() + SNAPSHOT_RECORDS;
            }
            self.input(id, Input::Durable(ticket));
        }
    }

    fn input(&mut self, id: ReplicaId, input: Input) {
        let now = self.replica_time(id);
        let node = self.replicas.get_mut(&id).unwrap();
        if let Some(copy) = &mut node.copy {
            match input {
                Input::Message(checked) => copy.handle(now, *checked),
                Input::Deadline => copy.tick(now),
                Input::Durable(_) => {}
            }
            return self.drain_copy(id);
        }
        if let Some(replica) = &mut node.replica {
            if matches!(input, Input::Deadline) {
                if replica.deadline().is_none_or(|deadline| deadline > now) {
                    return;
                }
                node.deadline = None;
            }
            replica.handle(now, input);
            self.charge_made(Peer::Replica(id));
            self.drain_replica(id);
        }
    }

    /// Verifies a message at its receiver.
    fn check(&mut self, to: Peer, from: Peer, message: &Message) -> Option<Checked> {
        let verifier = match to {
            Peer::Client(id) => match self.clients.get_mut(&id) {
                Some(node) if node.is_down => return None,
                Some(node) => &mut node.verifier,
                None => {
                    let mut verifier = Verifier::new(Arc::clone(&self.shards), Arc::new(Keys));
                    self.mail.extend(verifier.check(from, message.clone()).ok().map(|checked| (id, checked)));
                    return None;
                }
            },
            Peer::Replica(id) => &mut self.replicas.get_mut(&id)?.verifier,
        };
        let before = verifier.verifications();
        // A replica's liar may send anything; an honest peer's message always passes.
        let checked = verifier.check(from, message.clone()).ok();
        let of_replicas = verifier.verifications() - before;
        self.charge_checked(to, of_replicas);
        if let (Peer::Client(id), Message::Vote { vote, .. }, Some(_)) = (to, message, &checked) {
            self.clients.get_mut(&id)?.seen.insert(vote);
        }
        checked
    }

    fn apply(&mut self, to: Peer, checked: Checked) {
        match to {
            Peer::Client(id) => {
                let now = self.client_time(id);
                let Some(node) = self.clients.get_mut(&id).filter(|node| !node.is_down) else { return };
                node.client.handle(now, checked);
                self.charge_made(to);
                self.drain_client(id);
            }
            Peer::Replica(id) => self.input(id, Input::Message(Box::new(checked))),
        }
    }

    /// Runs until `now` is this many ms later, or nothing is left to do.
    pub fn run(&mut self, ms: u64) {
        let until = self.now + ms;
        while self.step(until) {}
        self.now = until;
    }

    /// Starts a transaction of a client, and waits for the values.
    pub fn execute(&mut self, client: ClientId, reads: &[Key]) -> Timestamp {
        let timestamp = self.with_client(client, |client, now| client.begin(now));
        for key in reads {
            self.with_client(client, |client, now| client.read(now, timestamp, key.clone()));
        }
        let until = self.now + 60_000;
        while self.clients[&client].client.reads(timestamp).len() < reads.len() {
            assert!(self.step(until), "reads got no values");
        }
        timestamp
    }

    /// Commits a started transaction that writes these keys.
    pub fn commit(&mut self, client: ClientId, timestamp: Timestamp, writes: &[Key], salt: u64) -> TransactionId {
        let reads = self.clients[&client].client.reads(timestamp);
        let writes_of_program = mixed(&reads, writes, salt);
        let call = call(writes, salt);
        self.with_client(client, |client, now| client.commit(now, timestamp, writes_of_program, call)).unwrap()
    }

    /// The decision that a client reported, with the time since `from` in message delays.
    pub fn wait(&mut self, client: ClientId, id: TransactionId) -> (corniche_basil::attestation::Decision, u64) {
        let start = self.now;
        loop {
            if let Some((_, decided)) = self.clients[&client].finished.iter().find(|(finished, _)| *finished == id) {
                return (decided.decision(), (self.now - start) / DELAY);
            }
            assert!(self.step(start + 600_000), "no decision in ten minutes");
        }
    }

    /// The ids that a client exports in a range.
    pub fn export(&mut self, client: ClientId, from_us: u64, below_us: u64) -> Result<Vec<TransactionId>, String> {
        self.with_client(client, |client, now| client.export(now, from_us, below_us));
        let until = self.now + 600_000;
        while !self.clients[&client].exported.contains_key(&(from_us, below_us)) {
            if !self.step(until) {
                return Err("the range was not exported in ten minutes".into());
            }
        }
        let exported = &self.clients[&client].exported[&(from_us, below_us)];
        Ok(exported.iter().map(|decided| decided.transaction.id(&self.shards)).collect())
    }

    pub fn count(&self, kind: &str) -> usize {
        self.sent.get(kind).copied().unwrap_or(0)
    }

    /// One key of each shard, in their order.
    pub fn keys_on_each_shard(&self) -> Vec<Key> {
        let mut keys: Vec<_> = self.shards.ids().flat_map(|shard| self.keys_on(shard, 1)).collect();
        keys.sort();
        keys
    }

    /// `count` keys on one shard.
    pub fn keys_on(&self, shard: ShardId, count: usize) -> Vec<Key> {
        (0..).map(key).filter(|key| self.shards.shard_of(key) == shard).take(count).collect()
    }

    /// Signs a transaction of a client that does not use the state machine.
    pub fn forge(
        &self,
        client: ClientId,
        time_us: u64,
        reads: Vec<Read>,
        writes: &[Key],
        salt: u64,
    ) -> (TransactionId, Shared<SignedTransaction>) {
        let writes_of_program = mixed(&reads, writes, salt);
        let timestamp = Timestamp { time_us, client };
        let transaction = Transaction { timestamp, reads, writes: writes_of_program, call: call(writes, salt) };
        let id = transaction.id(&self.shards);
        let signature = Secret(client).sign(&id);
        (id, Shared::new(SignedTransaction { transaction, signature }))
    }

    pub fn honest(&self) -> BTreeSet<ReplicaId> {
        self.replicas.iter().filter(|(_, node)| node.liar.is_none()).map(|(id, _)| *id).collect()
    }
}

/// A read of a key that was never written.
pub fn unwritten(key: &Key) -> Read {
    Read { key: key.clone(), version: Version::GENESIS, value: None }
}
