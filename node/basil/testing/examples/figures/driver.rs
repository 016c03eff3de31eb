//! Closed-loop clients over one network, measured after a warm-up. The checker judges every run.

use crate::mixes::{Access, Mix};
use corniche_basil::attestation::Decision;
use corniche_basil::certificate::Certificate;
use corniche_basil::client::backoff_ms;
use corniche_basil::config::Config;
use corniche_basil::shards::{ClientId, Key, ReplicaId};
use corniche_basil::transaction::{Timestamp, TransactionId};
use corniche_basil_testing::costs::{Costs, Work};
use corniche_basil_testing::doubles::{ClientLie, Liar, Lie};
use corniche_basil_testing::{Random, World, call, checker, client_id, mixed};
use std::collections::{BTreeMap, BTreeSet};

/// One-way delay. The paper's is 75 µs, but clocks and timers of the protocol count milliseconds.
pub const ONE_WAY_MS: u64 = 1;
/// A lying client goes on without a decision after this time.
const PATIENCE_MS: u64 = 20;

/// One run.
pub struct Run {
    pub shards: u16,
    pub clients: u8,
    pub mix: Box<dyn Mix>,
    pub config: Config,
    pub costs: Option<Costs>,
    /// The last replica of each shard sends nothing.
    pub is_one_silent: bool,
    /// This many of the clients lie, in every transaction.
    pub liars: Option<(ClientLie, u8)>,
    pub warm_up_ms: u64,
    pub measured_ms: u64,
    pub seed: u64,
}

/// Counts of the measured time. Those without another word are of correct clients.
#[derive(Debug, Default)]
pub struct Measured {
    pub ms: u64,
    pub correct_clients: usize,
    pub commits: usize,
    pub aborts: usize,
    /// Decisions on the fast path.
    pub fast: usize,
    /// From the first attempt to the commit.
    latency_us: Vec<u64>,
    /// From ST1 to the decision, for commits.
    decision_us: Vec<u64>,
    /// Transactions that liars prepared.
    pub faulty: usize,
    /// Faulty ones for which both decisions were proposed.
    pub equivocated: usize,
    pub messages: usize,
    /// Signed replies.
    pub replies: usize,
    pub work: Work,
}

impl Measured {
    /// Adds another run with as many clients.
    pub fn add(&mut self, other: Self) {
        self.ms += other.ms;
        self.correct_clients = other.correct_clients;
        self.commits += other.commits;
        self.aborts += other.aborts;
        self.fast += other.fast;
        self.latency_us.extend(other.latency_us);
        self.decision_us.extend(other.decision_us);
        self.faulty += other.faulty;
        self.equivocated += other.equivocated;
        self.messages += other.messages;
        self.replies += other.replies;
        self.work = self.work + other.work;
    }

    pub fn per_second(&self) -> f64 {
        self.commits as f64 * 1_000.0 / self.ms as f64
    }

    pub fn commit_share(&self) -> f64 {
        self.commits as f64 / (self.commits + self.aborts).max(1) as f64
    }

    pub fn fast_share(&self) -> f64 {
        self.fast as f64 / (self.commits + self.aborts).max(1) as f64
    }

    pub fn faulty_share(&self) -> f64 {
        self.faulty as f64 / (self.faulty + self.commits + self.aborts).max(1) as f64
    }

    pub fn latency_ms(&self) -> f64 {
        median(&self.latency_us) / 1_000.0
    }

    pub fn decision_ms(&self) -> f64 {
        median(&self.decision_us) / 1_000.0
    }

    pub fn each(&self, count: u64) -> f64 {
        count as f64 / self.commits.max(1) as f64
    }
}

fn median(values: &[u64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0) as f64
}

#[derive(Clone, Copy)]
enum Stage {
    Idle,
    Reading { timestamp: Timestamp, left: usize },
    Deciding { id: TransactionId, since_us: u64 },
}

struct Driver {
    stage: Stage,
    access: Access,
    attempts: u32,
    started_us: u64,
    is_liar: bool,
    /// It starts the next transaction once it sent ST1.
    is_hasty: bool,
}

struct State {
    world: World,
    mix: Box<dyn Mix>,
    random: Random,
    drivers: BTreeMap<ClientId, Driver>,
    /// Clients that start, or lose patience.
    timers: BTreeSet<(u64, ClientId)>,
    measured: Measured,
    salt: u64,
}

impl Run {
    /// # Errors
    /// The history is not serializable, or has two decisions of one transaction.
    pub fn measure(self) -> Result<Measured, String> {
        let mut world = World::new(self.shards, self.clients, self.config, self.seed);
        world.costs = self.costs;
        world.delay = Box::new(|_, _, _, _| Some(ONE_WAY_MS));
        for shard in world.shards.ids().filter(|_| self.is_one_silent) {
            world.replicas.get_mut(&ReplicaId { shard, member: 5 }).expect("six members").liar = Some(Liar::new(Lie::Silent));
        }
        let (lie, liars) = self.liars.map_or((None, 0), |(lie, count)| (Some(lie), count));
        let mut random = Random::new(self.seed + 1);
        let mut state_drivers = BTreeMap::new();
        let mut timers = BTreeSet::new();
        for number in 0..self.clients {
            let id = client_id(number);
            let is_liar = number < liars;
            world.clients.get_mut(&id).expect("added").lie = lie.filter(|_| is_liar);
            let is_hasty = is_liar && lie == Some(ClientLie::StallEarly);
            let access = Access::default();
            state_drivers.insert(id, Driver { stage: Stage::Idle, access, attempts: 0, started_us: 0, is_liar, is_hasty });
            // Clients start at different times of the warm-up's first tenth.
            timers.insert((world.now + random.below(1 + self.warm_up_ms / 10), id));
        }
        let (measured, salt) = (Measured::default(), 0);
        let mut state = State { world, mix: self.mix, random, drivers: state_drivers, timers, measured, salt };
        state.run(self.warm_up_ms);
        let (work, messages, replies) = (state.world.work, state.messages(), state.replies());
        state.measured = Measured::default();
        let equivocated = state.equivocated();
        state.run(self.measured_ms);
        let history = checker::check(&state.world.shards, &state.world.decided)?;
        let mut measured = std::mem::take(&mut state.measured);
        if measured.commits == 0 || history.commits == 0 {
            return Err("nothing was committed".into());
        }
        measured.work = state.world.work - work;
        measured.ms = self.measured_ms;
        measured.correct_clients = usize::from(self.clients - liars);
        measured.messages = state.messages() - messages;
        measured.replies = state.replies() - replies;
        measured.equivocated = state.equivocated() - equivocated;
        Ok(measured)
    }
}

impl State {
    fn messages(&self) -> usize {
        self.world.sent.values().sum()
    }

    fn replies(&self) -> usize {
        self.world.count("st1r") + self.world.count("st2r") + self.world.count("elect")
    }

    fn equivocated(&self) -> usize {
        self.world.clients.values().map(|node| node.equivocated.len()).sum()
    }

    fn run(&mut self, ms: u64) {
        let end = self.world.now + ms;
        loop {
            let next = self.timers.first().map_or(end, |(at, _)| *at).min(end);
            if self.world.step(next) {
                for client in std::mem::take(&mut self.world.touched) {
                    self.advance(client);
                }
                continue;
            }
            self.world.now = self.world.now.max(next);
            if self.world.now >= end {
                return;
            }
            if let Some((_, client)) = self.timers.pop_first() {
                self.wake(client);
            }
        }
    }

    fn wake(&mut self, client: ClientId) {
        let now_us = self.world.now_us();
        let driver = &self.drivers[&client];
        match driver.stage {
            Stage::Idle => self.start(client),
            Stage::Deciding { since_us, .. } if driver.is_liar && since_us + PATIENCE_MS * 1_000 <= now_us => {
                self.start(client);
            }
            Stage::Reading { .. } | Stage::Deciding { .. } => {}
        }
    }

    /// Begins an attempt, and all its reads at once.
    fn start(&mut self, client: ClientId) {
        let Self { world, mix, random, drivers, .. } = self;
        let driver = drivers.get_mut(&client).expect("a driver of each client");
        if driver.attempts == 0 {
            driver.access = mix.next(random);
            driver.started_us = world.now_us();
        }
        let keys: Vec<_> = driver.access.reads.iter().cloned().collect();
        let timestamp = world.with_client(client, |client, now| client.begin(now));
        driver.stage = Stage::Reading { timestamp, left: keys.len() };
        for key in keys {
            world.with_client(client, |client, now| client.read(now, timestamp, key));
        }
        self.advance(client);
    }

    fn advance(&mut self, client: ClientId) {
        let driver = self.drivers.get_mut(&client).expect("a driver of each client");
        let node = self.world.clients.get_mut(&client).expect("a client of each driver");
        match &mut driver.stage {
            Stage::Idle => {}
            Stage::Reading { timestamp, left } => {
                *left -= node.values.drain(..).filter(|(of, _, _)| of == timestamp).count();
                if *left == 0 {
                    let timestamp = *timestamp;
                    self.prepare(client, timestamp);
                }
            }
            Stage::Deciding { id, since_us } => {
                let (id, since_us) = (*id, *since_us);
                let decided = node.finished.drain(..).find(|(finished, _)| *finished == id);
                if let Some((_, decided)) = decided {
                    let is_fast = !matches!(decided.certificate, Certificate::Logged(..));
                    self.finish(client, decided.decision(), is_fast, since_us);
                }
            }
        }
    }

    fn prepare(&mut self, client: ClientId, timestamp: Timestamp) {
        self.salt += 1;
        let salt = self.salt;
        let driver = self.drivers.get_mut(&client).expect("a driver of each client");
        let keys: Vec<Key> = driver.access.writes.iter().cloned().collect();
        let since_us = self.world.now_us();
        let id = self.world.with_client(client, |client, now| {
            let writes = mixed(&client.reads(timestamp), &keys, salt);
            client.commit(now, timestamp, writes, call(&keys, salt)).expect("a valid transaction")
        });
        driver.stage = Stage::Deciding { id, since_us };
        if driver.is_liar {
            self.measured.faulty += 1;
            if driver.is_hasty {
                return self.start(client);
            }
            self.timers.insert((self.world.now + PATIENCE_MS + 1, client));
        }
    }

    fn finish(&mut self, client: ClientId, decision: Decision, is_fast: bool, since_us: u64) {
        let now_us = self.world.now_us();
        let driver = self.drivers.get_mut(&client).expect("a driver of each client");
        driver.stage = Stage::Idle;
        if driver.is_liar {
            // Never retried.
            return self.start(client);
        }
        self.measured.fast += usize::from(is_fast);
        if decision == Decision::Commit {
            self.measured.commits += 1;
            self.measured.latency_us.push(now_us - driver.started_us);
            self.measured.decision_us.push(now_us - since_us);
            driver.attempts = 0;
            return self.start(client);
        }
        self.measured.aborts += 1;
        driver.attempts += 1;
        let wait = self.random.below(backoff_ms(driver.attempts)) + 1;
        self.timers.insert((self.world.now + wait, client));
    }
}
