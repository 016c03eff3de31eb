//! Closed-loop clients: read, write, commit, and try again after an abort.

use crate::{CONSTANTS, Random, World, call, constant, key, mixed};
use corniche_basil::attestation::Decision;
use corniche_basil::client::backoff_ms;
use corniche_basil::shards::{ClientId, Key};
use corniche_basil::transaction::{Timestamp, TransactionId};
use std::collections::BTreeMap;

/// Transactions of one kind.
#[derive(Clone, Debug)]
pub struct Shape {
    pub keys: u64,
    /// Percent of accesses that go to `hot_keys` keys.
    pub hot_percent: u64,
    pub hot_keys: u64,
    pub reads: usize,
    /// Written keys; the first of them are read too.
    pub writes: usize,
}

impl Shape {
    fn pick(&self, random: &mut Random, count: usize) -> Vec<Key> {
        let mut keys = Vec::new();
        while keys.len() < count {
            let range = if random.chance(self.hot_percent) { self.hot_keys } else { self.keys };
            let key = key(random.below(range));
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    }
}

enum Stage {
    Idle { at: u64 },
    Reading { timestamp: Timestamp, since: u64 },
    Deciding { id: TransactionId, since: u64 },
}

struct Driver {
    stage: Stage,
    reads: Vec<Key>,
    writes: Vec<Key>,
    attempts: u32,
    started: u64,
    left: usize,
}

/// Results of a workload.
#[derive(Debug, Default)]
pub struct Results {
    pub committed: usize,
    pub aborted: usize,
    /// Milliseconds from the first attempt to the commit.
    pub latency_ms: Vec<u64>,
    /// Transactions of clients that did not finish in time.
    pub stuck: usize,
}

pub struct Workload {
    drivers: BTreeMap<ClientId, Driver>,
    shape: Shape,
    random: Random,
    pub results: Results,
    /// A lying client gives up on an attempt after this time.
    patience_ms: u64,
    salt: u64,
    /// Some transactions need constants, of any shard.
    pub needs_constants: bool,
}

impl Workload {
    /// Every client runs `transactions` transactions.
    pub fn new(world: &World, shape: Shape, transactions: usize, seed: u64) -> Self {
        let driver = |id: &ClientId| {
            let stage = Stage::Idle { at: world.now };
            (*id, Driver { stage, reads: vec![], writes: vec![], attempts: 0, started: world.now, left: transactions })
        };
        let drivers = world.clients.keys().map(driver).collect();
        Self {
            drivers,
            shape,
            random: Random::new(seed),
            results: Results::default(),
            patience_ms: 2_000,
            salt: 0,
            needs_constants: false,
        }
    }

    /// Runs until every honest client is done, at most until `now` is `ms` later.
    pub fn run(&mut self, world: &mut World, ms: u64) {
        let until = world.now + ms;
        loop {
            self.advance(world);
            let honest_left = self.drivers.iter().any(|(id, driver)| driver.left > 0 && world.clients[id].lie.is_none());
            if !honest_left {
                break;
            }
            let idle = self.drivers.values().filter(|driver| driver.left > 0).filter_map(|driver| match driver.stage {
                Stage::Idle { at } => Some(at),
                _ => None,
            });
            let next = idle.min().unwrap_or(u64::MAX).min(until);
            if !world.step(next) {
                if next >= until {
                    break;
                }
                world.now = world.now.max(next);
            }
        }
        let stuck = |(id, driver): (&ClientId, &Driver)| driver.left > 0 && world.clients[id].lie.is_none();
        self.results.stuck = self.drivers.iter().filter(|driver| stuck((driver.0, driver.1))).count();
    }

    fn advance(&mut self, world: &mut World) {
        let ids: Vec<_> = self.drivers.keys().copied().collect();
        for id in ids {
            self.advance_one(world, id);
        }
    }

    fn advance_one(&mut self, world: &mut World, client: ClientId) {
        let driver = self.drivers.get_mut(&client).unwrap();
        let is_liar = world.clients[&client].lie.is_some();
        match driver.stage {
            Stage::Idle { at } if at <= world.now && driver.left > 0 => {
                if driver.attempts == 0 {
                    driver.started = world.now;
                    let count = self.shape.reads.max(self.shape.writes);
                    let keys = self.shape.pick(&mut self.random, count);
                    driver.reads = keys[..self.shape.reads].to_vec();
                    driver.writes = keys[..self.shape.writes].to_vec();
                    driver.writes.sort();
                }
                let timestamp = world.with_client(client, |client, now| client.begin(now));
                for key in driver.reads.clone() {
                    world.with_client(client, |client, now| client.read(now, timestamp, key));
                }
                driver.stage = Stage::Reading { timestamp, since: world.now };
            }
            Stage::Reading { timestamp, since } => {
                let reads = world.clients[&client].client.reads(timestamp);
                if reads.len() < driver.reads.len() {
                    if is_liar && world.now > since + self.patience_ms {
                        driver.stage = Stage::Idle { at: world.now };
                    }
                    return;
                }
                self.salt += 1;
                let mut keys = driver.writes.clone();
                if self.needs_constants {
                    let count = self.random.below(3);
                    keys.extend((0..count).map(|_| constant(self.random.below(CONSTANTS)).0));
                }
                let writes = mixed(&reads, &keys, self.salt);
                let call = call(&keys, self.salt);
                let id = world.with_client(client, |client, now| client.commit(now, timestamp, writes, call)).unwrap();
                driver.stage = Stage::Deciding { id, since: world.now };
            }
            Stage::Deciding { id, since } => {
                let node = &world.clients[&client];
                let Some((_, decided)) = node.finished.iter().rev().find(|(finished, _)| *finished == id) else {
                    if is_liar && world.now > since + self.patience_ms {
                        driver.left -= 1;
                        driver.stage = Stage::Idle { at: world.now };
                    }
                    return;
                };
                let is_commit = decided.decision() == Decision::Commit;
                if is_commit || is_liar {
                    driver.left -= 1;
                    driver.attempts = 0;
                    driver.stage = Stage::Idle { at: world.now };
                    if !is_liar {
                        self.results.committed += 1;
                        self.results.latency_ms.push(world.now - driver.started);
                    }
                } else {
                    driver.attempts += 1;
                    self.results.aborted += 1;
                    let wait = self.random.below(backoff_ms(driver.attempts)) + 1;
                    driver.stage = Stage::Idle { at: world.now + wait };
                }
            }
            Stage::Idle { .. } => {}
        }
    }
}
