//! One run: a scenario and a seed produce a report.

use crate::{
    adversary,
    checks::Checks,
    engines::{Engines, Tune},
    execution::Executors,
    genesis::{self, KeySet, Secrets},
    load::{CONTRACT, Clients, Sender, Turn},
    multicast::Multicast,
    network::{Network, Observer},
    node::{NodeProcess, Role},
    report::{Report, Verdict},
    scenario::{Behaviour, Fault, Payload, Scenario},
    schedule::{Change, Schedule},
    stake,
    stall::Stall,
};
use corniche_crypto::VerifiedTransaction;
use corniche_staking::ValidatorId;
use corniche_testkit::{DiskModel, Jitter, Links, Micros, Simulation};
use corniche_types::{Address, GenesisAccount, U256, keccak256};
use corniche_vm::{
    Rules, Vm, VmConfig,
    wasm::{self, NoCache},
};
use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
    sync::Arc,
};

/// Time that the network has after the end of a scenario to commit accepted transactions.
pub const DRAIN: Micros = Micros::from_seconds(30);
/// Time after which a validator that is not registered yet tries to leave again.
const RETRY: Micros = Micros::from_millis(200);
/// Interval of memory checks.
const MEMORY_CHECK_INTERVAL: Micros = Micros::from_seconds(1);

/// Runs a scenario. `contract` is the wasm of [`Scenario::contract`].
///
/// # Errors
/// The payload calls a contract and `contract` is missing, or the engine rejects its parameters.
pub fn simulate(scenario: &Scenario, seed: u64, contract: Option<&[u8]>) -> Result<Report, String> {
    simulate_with(scenario, seed, contract, Probe::default())
}

/// Like [`simulate`], with an observer, or with an experiment that changes more than a scenario file can express.
pub fn simulate_with(scenario: &Scenario, seed: u64, contract: Option<&[u8]>, probe: Probe) -> Result<Report, String> {
    let mut run = Run::with_probe(scenario, seed, contract, probe)?;
    run.finish();
    Ok(run.report())
}

/// Observer and changes of an experiment. The default has neither.
#[derive(Default)]
pub struct Probe {
    pub observer: Option<Observer>,
    pub tune: Option<Tune>,
}

/// A run in progress.
pub(crate) struct Run<'a> {
    scenario: &'a Scenario,
    seed: u64,
    pub(crate) network: Rc<Network>,
    pub(crate) simulation: Simulation<NodeProcess>,
    clients: Clients,
    schedule: Schedule,
    stall: Stall,
    memory_check_at: Micros,
    /// Next nonces of the owners of stake.
    nonces: BTreeMap<usize, u64>,
    /// Height that all nodes must reach, from the time on at which everything else is done.
    last_height: Option<u64>,
}

impl<'a> Run<'a> {
    #[cfg(test)]
    pub(crate) fn new(scenario: &'a Scenario, seed: u64, contract: Option<&[u8]>) -> Result<Self, String> {
        Self::with_probe(scenario, seed, contract, Probe::default())
    }

    pub(crate) fn with_probe(scenario: &'a Scenario, seed: u64, contract: Option<&[u8]>, probe: Probe) -> Result<Self, String> {
        let clients = Clients::new(scenario, seed);
        let accounts = contract_accounts(scenario.load.payload, contract, &clients)?;
        let (genesis, secrets) = genesis::make(scenario, seed, clients.senders.iter().map(Sender::address), accounts);
        let engines = Engines::new(&genesis, &secrets, scenario.cost, probe.tune)?;
        let genesis = Arc::new(genesis);
        let multicast = engines.multicast(scenario, seed, &genesis);
        let rules = Rules { console: genesis.is_development() };
        let config = VmConfig { rules, staking: genesis.staking.clone().map(Arc::new), ..VmConfig::default() };
        let vm = Vm::new(&config, Arc::new(NoCache)).map_err(|error| error.to_string())?;
        let roles = roles(scenario);
        let identities: Vec<usize> = roles.iter().map(|role| role.identity).collect();
        let is_honest = |process: usize| roles[process].behaviour.is_none();
        let checks = Checks::new(&identities, is_honest, secrets.names.clone(), genesis.staking.clone());
        let network = Rc::new(Network {
            checker: engines.checker(&genesis),
            engines,
            secrets,
            conduct: roles.iter().map(|_| Arc::default()).collect(),
            unstarted: RefCell::new((0..roles.len()).collect()),
            cost: scenario.cost,
            executors: Executors::new(genesis.clone(), vm, scenario),
            checks: RefCell::new(checks),
            records: RefCell::default(),
            multicast,
            copies: Cell::default(),
            spent: RefCell::default(),
            elected: RefCell::default(),
            observer: probe.observer.map(RefCell::new),
            genesis,
        });
        let schedule = Schedule::new(scenario, &roles);
        let shared = network.clone();
        let start = move |process: usize, disk, now, seed| NodeProcess::start(&shared, roles[process], disk, now, seed);
        let mut simulation = Simulation::with_identities(identities, links(scenario), disk(scenario), seed, Box::new(start));
        simulation.set_adversary(adversary::of(scenario, &network, seed));
        (0..scenario.nodes).for_each(|process| simulation.restart(process));
        let stall = Stall::new(network.clone());
        let (memory_check_at, nonces, last_height) = (Micros::START, BTreeMap::new(), None);
        Ok(Self { scenario, seed, network, simulation, clients, schedule, stall, memory_check_at, nonces, last_height })
    }

    pub(crate) fn finish(&mut self) {
        let end = Micros::START + Micros(self.scenario.duration_us);
        self.run_until(end);
        // All faults of the scenario have ended; now everything accepted must be committed.
        let last = end + DRAIN;
        while self.simulation.now() < last && !self.is_drained() {
            self.run_until((self.simulation.now() + Micros::from_millis(100)).min(last));
        }
    }

    /// Returns true if everything accepted is committed, and every node has it.
    fn is_drained(&mut self) -> bool {
        let checks = self.network.checks.borrow();
        if !checks.all_committed() {
            return false;
        }
        if self.scenario.epoch_ms.is_none() {
            return self.behind(checks.height()).is_empty();
        }
        // An idle chain with epochs grows, too.
        let is_changed = !self.schedule.has_changes_of_committee() && self.missing_changes().is_empty();
        if self.last_height.is_none() && is_changed {
            self.last_height = Some(checks.height());
        }
        self.last_height.is_some_and(|height| self.behind(height).is_empty())
    }

    /// Honest nodes that are up and have fewer blocks.
    pub(crate) fn behind(&self, height: u64) -> Vec<usize> {
        let checks = self.network.checks.borrow();
        let is_behind = |process: &usize| {
            self.simulation
                .process(*process)
                .is_some_and(|node| checks.is_honest_process(*process) && node.disk().height().0 < height)
        };
        (0..self.simulation.size()).filter(is_behind).collect()
    }

    /// Honest nodes that are up and should be members of the newest committee, and nodes that should not.
    fn missing_changes(&self) -> Vec<String> {
        if !self.scenario.changes_committee() {
            return Vec::new();
        }
        let checks = self.network.checks.borrow();
        let (leaving, members) = (self.scenario.leaving(), checks.committees().pop().unwrap_or_default());
        let should_sit = |node: &usize| {
            !leaving.contains(node) && checks.is_honest_process(*node) && self.simulation.process(*node).is_some()
        };
        let absent = (0..self.scenario.nodes).filter(should_sit).filter(|node| !members.contains(node));
        let left = leaving.iter().filter(|node| members.contains(node));
        let (newest, secrets) = (self.network.checker.newest(), &self.network.secrets);
        let has_first_keys = |node: &usize| members.contains(node) && secrets.key_set(&newest, *node) == KeySet::First;
        let rotating = self.scenario.rotating();
        let outdated = rotating.iter().filter(|node| should_sit(node) && has_first_keys(node));
        let absent = absent.map(|node| format!("node {node} is no member of the last committee"));
        let left = left.map(|node| format!("node {node} is still a member of the last committee"));
        absent.chain(left).chain(outdated.map(|node| format!("node {node} still has its first keys"))).collect()
    }

    /// Reasons why a run with epochs did not end as it should.
    fn unfinished(&self) -> Vec<String> {
        if self.scenario.epoch_ms.is_none() {
            return Vec::new();
        }
        let height = self.last_height.unwrap_or_else(|| self.network.checks.borrow().height());
        let missing = self.missing_changes().into_iter().filter(|_| self.last_height.is_none());
        let behind = self.behind(height).into_iter().filter(|_| self.last_height.is_some());
        let behind = behind.map(|node| format!("node {node} lacks blocks up to {height}"));
        missing.chain(behind).collect()
    }

    pub(crate) fn run_until(&mut self, end: Micros) {
        loop {
            let next = self.schedule.next_at().min(self.clients.next_at()).min(self.memory_check_at);
            self.simulation.run_until(next.min(end));
            let now = self.simulation.now();
            self.stall.observe(&self.simulation, &self.network.checks.borrow());
            if next > end {
                return;
            }
            if let Some(change) = self.schedule.take(now) {
                self.change(change);
            } else if let Some(turn) = self.clients.turn(now) {
                self.serve(turn);
            } else {
                self.check_memory();
                self.memory_check_at = now + MEMORY_CHECK_INTERVAL;
            }
        }
    }

    fn change(&mut self, change: Change) {
        match change {
            Change::Crash(node) => self.simulation.crash(node),
            Change::LoseDisk(node) => {
                self.simulation.lose_disk(node);
                self.network.checks.borrow_mut().disk_lost(node);
            }
            Change::Restart(node) => {
                self.simulation.restart(node);
                let height = self.simulation.process(node).map_or(0, |node| node.disk().height().0);
                self.network.checks.borrow_mut().restarted(node, height);
                self.set_speed(node);
            }
            Change::Partition(groups) => self.simulation.partition(&groups),
            Change::Heal => self.simulation.heal(),
            Change::Links => self.schedule.set_links(self.scenario, self.simulation.now(), &mut self.simulation.links),
            Change::Join(node) => self.join(node),
            Change::Leave(node) => self.call_validator(node, change, |secrets, id, nonce| {
                stake::unbond(secrets, node, id, self.scenario.votes_of(node), nonce)
            }),
            Change::Rotate(node) => {
                self.call_validator(node, change, |secrets, id, nonce| stake::rotate(secrets, node, id, nonce))
            }
            Change::Notices => {
                let now = self.simulation.now();
                for (node, conduct) in self.network.conduct.iter().take(self.scenario.nodes).enumerate() {
                    let (silent, deals_badly) = self.schedule.conduct(self.scenario, now, node);
                    conduct.set(silent, deals_badly);
                }
            }
            Change::Sequencer(fault) => {
                if let Some(multicast) = &self.network.multicast {
                    multicast.begin(&fault);
                }
            }
            Change::Speeds => (0..self.scenario.nodes).for_each(|node| self.set_speed(node)),
        }
        self.stall.observe(&self.simulation, &self.network.checks.borrow());
    }

    fn set_speed(&mut self, node: usize) {
        let now = self.simulation.now();
        let (execute, write) = self.schedule.slowness(self.scenario, now, node);
        self.simulation.with(node, |node| node.slow_down(now, execute, write));
    }

    // ---- stake ---------------------------------------------------------------------------------------------------------

    fn join(&mut self, node: usize) {
        let nonce = self.next_nonce(node);
        let transaction = stake::register(&self.network.secrets, node, self.scenario.votes_of(node), nonce);
        self.submit_call(node, transaction);
    }

    /// Submits a call of a validator's owner, or tries again later if the node is not registered yet.
    fn call_validator(
        &mut self,
        node: usize,
        change: Change,
        call: impl Fn(&Secrets, ValidatorId, u64) -> VerifiedTransaction,
    ) {
        let now = self.simulation.now();
        let mut up = (0..self.scenario.nodes).filter_map(|node| self.simulation.process(node));
        let Some(id) = up.find_map(|process| stake::id_of(&self.network.secrets, node, process.state())) else {
            return self.schedule.retry(now + RETRY, change);
        };
        let nonce = self.next_nonce(node);
        let transaction = call(&self.network.secrets, id, nonce);
        self.submit_call(node, transaction);
    }

    fn next_nonce(&mut self, node: usize) -> u64 {
        let next = self.nonces.entry(node).or_default();
        *next += 1;
        *next - 1
    }

    fn submit_call(&mut self, node: usize, transaction: VerifiedTransaction) {
        self.network.executors.know(&transaction);
        let number = self.network.checks.borrow_mut().submitted(self.simulation.now(), transaction, None);
        self.offer(number, node);
    }

    // ---- clients -------------------------------------------------------------------------------------------------------

    fn serve(&mut self, turn: Turn) {
        match turn {
            Turn::Submit(home) => {
                let transaction = self.clients.make();
                self.network.executors.know(&transaction);
                let number = self.network.checks.borrow_mut().submitted(self.simulation.now(), transaction.clone(), Some(home));
                self.offer(number, home);
            }
            Turn::Check(number) => {
                let waits_at = self.network.checks.borrow().waits_at(number);
                if let Some(process) = waits_at {
                    self.offer(number, (process + 1) % self.scenario.nodes);
                }
            }
        }
    }

    /// Submits a transaction to `first`, or to the next node that is up.
    fn offer(&mut self, number: u32, first: usize) {
        let now = self.simulation.now();
        self.clients.wait_for(now, number);
        let mut nodes = (0..self.scenario.nodes).map(|turn| (first + turn) % self.scenario.nodes);
        let Some(process) = nodes.find(|node| self.simulation.process(*node).is_some_and(|node| !node.has_halted())) else {
            return self.network.checks.borrow_mut().target(number, first);
        };
        let transaction = self.network.checks.borrow().transaction(number);
        let result = self.simulation.with(process, |node| node.submit(now, transaction)).expect("it is up");
        self.network.checks.borrow_mut().offered(now, number, process, result.is_ok());
    }

    // ---- memory checks -------------------------------------------------------------------------------------------------

    fn check_memory(&mut self) {
        let most_pooled = corniche_admission::PoolConfig::from_genesis(&self.network.genesis).max_transactions;
        let max_held = self.network.engines.max_held();
        for process in 0..self.simulation.size() {
            let Some(node) = self.simulation.process(process) else { continue };
            let mut checks = self.network.checks.borrow_mut();
            checks.bounded(process, "pooled transactions", node.pooled(), most_pooled);
            checks.bounded(process, "records in the safety log", node.disk().record_count(), max_held);
            checks.bounded(process, "items in its engine", node.held(), max_held);
        }
    }

    pub(crate) fn report(&self) -> Report {
        let checks = self.network.checks.borrow();
        let (now, lost) = (self.simulation.now(), checks.lost());
        let upright = (0..self.simulation.size()).filter(|process| checks.is_honest_process(*process));
        let heights = upright.filter_map(|process| Some(self.simulation.process(process)?.disk().height().0));
        let shortest = heights.min().unwrap_or(0);
        let unfinished = self.unfinished();
        let load = &self.scenario.load;
        let [load_from, load_until] = [load.start_us + 1_000_000, load.stop_us].map(|at| Micros::START + Micros(at));
        let stood_still = checks.offered_count() > 0 && checks.height() == 0;
        let verdict = match () {
            () if !checks.violations().is_empty() => Verdict::Diverged,
            () if lost > 0 || stood_still || !unfinished.is_empty() => Verdict::NoProgress,
            () => Verdict::Pass,
        };
        Report {
            engine: self.scenario.engine.clone(),
            nodes: self.scenario.nodes,
            seed: self.seed,
            virtual_us: (now - Micros::START).0,
            submitted: checks.accepted(),
            committed: checks.committed(),
            lost,
            duplicated: checks.duplicated(),
            delay_us: self.scenario.delay_us(),
            latency: checks.latency(),
            commit: checks.commit_delay(),
            messages: self.simulation.statistics.messages - self.network.copies.get(),
            bytes: self.simulation.statistics.bytes,
            ordering: self.network.spent.borrow()[0],
            certificates: self.network.spent.borrow()[1],
            received: self.network.multicast.as_ref().map_or((0, 0), Multicast::received),
            failovers: self.network.multicast.as_ref().map_or(0, Multicast::epoch),
            transactions: checks.samples(),
            timeline: checks.timeline(now),
            verdict,
            violation_count: checks.violation_count(),
            violations: checks.violations().to_vec(),
            epochs_ended: checks.epochs_ended(),
            epochs_kept: checks.epochs_kept(),
            epoch_gap: checks.epoch_gap(load_from, load_until),
            epoch_throughput: checks.epoch_throughput(load_from, load_until),
            coin_dealing: checks.coin_dealing(),
            committees: checks.committees(),
            unfinished,
            convicted: checks.convicted.clone(),
            stalled_us: self.stall.longest().0,
            digest: checks.digest(shortest),
        }
    }
}

/// One process per validator, and a second one for twins and equivocators. A Byzantine validator is never checked,
/// although its behaviour begins only with its fault.
fn roles(scenario: &Scenario) -> Vec<Role> {
    let mut roles: Vec<Role> =
        (0..scenario.nodes).map(|identity| Role { process: identity, identity, behaviour: None }).collect();
    for fault in &scenario.faults {
        let Fault::Byzantine { nodes, behaviour, at_us } = fault else { continue };
        let behaviour = Some((*behaviour, Micros::START + Micros(*at_us)));
        for node in nodes {
            roles[*node].behaviour = behaviour;
            if matches!(behaviour, Some((Behaviour::Equivocator | Behaviour::Twin, _))) {
                roles.push(Role { process: roles.len(), identity: *node, behaviour });
            }
        }
    }
    roles
}

fn links(scenario: &Scenario) -> Links {
    let network = &scenario.network;
    let mut links = Links::matrix(scenario.nodes, |from, to| Micros(network.one_way_us(from, to)));
    links.jitter = match network.model {
        _ if network.jitter_ppm == 0 => Jitter::None,
        crate::scenario::Jitter::Uniform => Jitter::Uniform(network.jitter_ppm),
        crate::scenario::Jitter::Pareto => Jitter::Pareto(network.jitter_ppm),
    };
    links.loss = network.loss_ppm;
    links.duplication = network.duplicate_ppm;
    links.reordering = network.reorder_ppm;
    links.egress = Some(network.bytes_per_second);
    links
}

fn disk(scenario: &Scenario) -> DiskModel {
    DiskModel { sync: Micros(scenario.disk.latency_us), rate: Some(scenario.disk.bytes_per_second) }
}

/// The contract that the payload calls, deployed in the genesis.
fn contract_accounts(
    payload: Payload,
    contract: Option<&[u8]>,
    clients: &Clients,
) -> Result<BTreeMap<Address, GenesisAccount>, String> {
    let storage = match payload {
        Payload::None | Payload::Transfer => return Ok(BTreeMap::new()),
        Payload::Counter => BTreeMap::new(),
        Payload::Erc20 => {
            // `balances` is the fifth field of the token.
            let slot = |holder: Address| keccak256([holder.into_word().0, U256::from(4).to_be_bytes::<32>()].concat());
            let holders = clients.senders.iter().map(|sender| (slot(sender.address()), U256::from(1u64 << 40).into()));
            holders.collect()
        }
    };
    let code = contract.ok_or("payload: expected the wasm of its contract, got none")?;
    wasm::validate::check(code).map_err(|error| format!("contract cannot be deployed: {error}"))?;
    let account = GenesisAccount { code: code.to_vec().into(), storage, nonce: 1, ..GenesisAccount::default() };
    Ok(BTreeMap::from([(CONTRACT, account)]))
}
