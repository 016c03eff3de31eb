//! A whole node as a process of the testkit: the driver of `corniche node`, with the effects of virtual time.

use crate::{
    byzantine::ByzantineNode,
    crypto::metered,
    disk::Disk,
    effects::VirtualEffects,
    engines::Surroundings,
    execution::Executor,
    network::{Message, Network, SharedMessage},
    scenario::Behaviour,
};
use corniche_admission::{PoolConfig, Refusal};
use corniche_crypto::VerifiedTransaction;
use corniche_engine::{Committee, PeerFault, Verified};
use corniche_pipeline::{
    Checks, Driver, Event, Input, NodeKey, NodeKeys, Pipeline, Request, Response, Setup, VerifiedCertificate, serve_blocks,
};
use corniche_staking::VerifiedNotice;
use corniche_state::State;
use corniche_testkit::{self as testkit, Action, Micros, Process, Random};
use corniche_types::{Bytes, Certificate, Epoch, Height, KnownVersions, ValidatorIndex, header_hash, wire};
use std::{rc::Rc, sync::Arc};

/// Number of readable states below the newest; the default of a node. Nothing here reads an older one.
const RECENT_STATES: u64 = 256;

/// A running node.
pub struct NodeProcess {
    driver: Driver,
    effects: VirtualEffects,
    /// True if it found at its start that a quorum had executed differently.
    diverged: bool,
    /// Decides which unsynced writes survive a power cut.
    random: Random,
    /// Behaviour of a Byzantine validator, and its start time.
    byzantine: Option<(Micros, ByzantineNode)>,
}

/// Arguments for starting a node.
#[derive(Clone, Copy, Debug)]
pub struct Role {
    pub process: usize,
    /// The validator it plays.
    pub identity: usize,
    /// Byzantine behaviour and its start time, if any.
    pub behaviour: Option<(Behaviour, Micros)>,
}

impl NodeProcess {
    /// Starts from the contents of the disk, as `corniche node` does.
    pub fn start(network: &Rc<Network>, role: Role, disk: Disk, now: Micros, seed: u64) -> Self {
        let Role { process, identity, behaviour } = role;
        let random = Random::new(seed);
        let byzantine = behaviour.map(|(behaviour, since)| {
            let random = random.fork("enemy");
            (since, ByzantineNode::new(network, behaviour, identity, process != identity, random))
        });
        let disk = if network.unstarted.borrow_mut().remove(&process) { Disk::unsigned() } else { disk };
        let state = network.executors.state(disk.blocks());
        let executor = Executor::new(&network.executors, state.clone(), disk.blocks());
        let diverged = disk.diverged();
        let mut effects = VirtualEffects::new(network.clone(), [process, identity], now, executor, disk);
        effects.byzantine = byzantine.is_some();
        let driver = Driver::new(pipeline(&effects, role, state, random.fork("engine")));
        // After a power cut a node may be the first one in an epoch.
        network.checker.start_epoch(&network.engines, driver.pipeline().committee());
        let mut node = Self { driver, effects, diverged, random: random.fork("power"), byzantine };
        node.apply([]);
        let keys = node.effects.multicast_keys();
        keys.into_iter().for_each(|key| node.apply([Input::Sequencer(key).into()]));
        node
    }

    /// Submits a client's transaction.
    pub fn submit(&mut self, now: Micros, transaction: VerifiedTransaction) -> Result<(), Refusal> {
        self.effects.now = now;
        self.effects.charge_recovery();
        self.apply([Input::Submit { transaction, from: None, reply: Some(0) }.into()]);
        self.effects.submitted.take().expect("invariant: a pipeline answers every submission")
    }

    /// Newest state.
    pub fn state(&self) -> &State {
        self.effects.executor.state()
    }

    pub fn disk(&self) -> &Disk {
        &self.effects.disk
    }

    /// True if the node stopped by itself; the checks have the reason.
    pub fn has_halted(&self) -> bool {
        self.diverged || self.driver.is_halted()
    }

    /// Its epoch, its height, the certified height, and whether it orders.
    #[cfg(test)]
    pub(crate) fn progress(&self) -> String {
        let (pipeline, height) = (self.driver.pipeline(), self.effects.disk.height());
        let (epoch, certified) = (pipeline.committee().epoch(), pipeline.certified_height());
        let role = if pipeline.is_ordering() { "orders" } else { "follows" };
        format!("epoch {epoch}, height {height}, certified {certified}, {role} {}", self.effects.engine_events.description())
    }

    #[cfg(test)]
    pub(crate) fn tamper_with_execution(&mut self) {
        self.effects.executor.tampered = true;
    }

    /// Number of items that the engine holds in memory.
    pub fn held(&self) -> usize {
        self.effects.engine_events.footprint()
    }

    /// Number of transactions in the pool.
    pub fn pooled(&self) -> usize {
        let pool = self.driver.pipeline().pool();
        pool.ready_len() + pool.queued_len()
    }

    /// From now on, blocks take this much longer to execute and writes to become durable.
    pub fn slow_down(&mut self, now: Micros, execute: Micros, write: Micros) {
        self.effects.now = now;
        self.effects.slow_down(execute, write);
        let executed = self.effects.executed_events();
        self.apply(executed);
    }

    fn apply(&mut self, events: impl IntoIterator<Item = Event>) {
        self.driver.handle(self.effects.now.timestamp(), events, &mut self.effects);
        self.effects.charge();
    }

    fn message(&mut self, from: usize, message: Message) {
        match message {
            Message::Request(request) => self.answer(from, request),
            Message::Response(response) => {
                let (from, response) = (self.key(from), Some(Response::clone(&response)));
                self.apply([Input::Response { from, response }.into()]);
            }
            Message::Peer(shared) => self.peer_message(from, &shared),
            Message::Multicast(request) => {
                self.effects.receive(&request);
                self.take_arrived();
            }
        }
    }

    /// Handles what has arrived from the multicast group.
    fn take_arrived(&mut self) {
        while let Some(input) = self.effects.arrived() {
            self.apply([input.into()]);
        }
    }

    fn peer_message(&mut self, from: usize, shared: &SharedMessage) {
        let checks = ModelledChecks { shared, effects: &self.effects, pipeline: self.driver.pipeline() };
        let sender = self.effects.network.secrets.names.index(self.driver.pipeline().committee(), from);
        let verdict = shared.message().check(self.key(from), sender, &checks);
        match verdict {
            Ok(inputs) => inputs.into_iter().for_each(|input| self.apply([input.into()])),
            Err(fault) => self.effects.network.checks.borrow_mut().peer_fault(self.effects.process, from, &fault.0),
        }
    }

    fn key(&self, node: usize) -> NodeKey {
        self.effects.network.secrets.names.key(node)
    }

    /// Responds to a follower from durable data.
    fn answer(&mut self, to: usize, request: Request) {
        let response = serve_blocks(request, &self.effects.disk);
        let bytes = wire::encode(&response).len();
        self.effects.actions.push_back(Action::Send { to, message: Message::Response(Rc::new(response)), bytes });
    }
}

/// Builds the pipeline of a node from the contents of its disk.
fn pipeline(effects: &VirtualEffects, role: Role, state: State, random: Random) -> Pipeline {
    let VirtualEffects { network, disk, .. } = effects;
    let (me, conduct) = (role.identity, &network.conduct[role.process]);
    let behaviour = role.behaviour.map(|(behaviour, _)| behaviour);
    let surroundings = Surroundings { conduct, meter: &effects.meter, engine_events: &effects.engine_events };
    let factory = network.engines.factory(me, &network.secrets, surroundings, random, behaviour);
    let certificate = disk.newest_certificate().cloned();
    let certified = certificate.as_ref().map_or(Height(0), |certificate| certificate.height);
    let restart = network.executors.restart_point(disk.blocks(), certified, disk.resume());
    let (secrets, cost, meter) = (network.secrets.clone(), network.cost, effects.certificate_meter.clone());
    let certificate_keys = move |committee: &Committee| metered(&secrets.certificate_keys(committee, me), cost, &meter);
    Pipeline::new(Setup {
        genesis: network.genesis.clone(),
        known: KnownVersions::default(),
        keys: NodeKeys {
            certificates: Arc::new(certificate_keys),
            engine: Some(factory),
            notices: Some(network.secrets.notice_author(me, conduct)),
        },
        evidence: disk.evidence(),
        may_vote: true,
        never_signed: disk.is_unsigned(),
        lost_blocks: false,
        records: disk.records(),
        state,
        head: disk.blocks().last().map(|committed| committed.block.clone()),
        head_hash: header_hash(&restart.head),
        base_fee: restart.head.base_fee_per_gas.unwrap_or(1),
        ordering: restart.ordering,
        certificate,
        certified,
        uncertified: restart.uncertified,
        pool: PoolConfig::from_genesis(&network.genesis),
        recent_states: RECENT_STATES,
        // Clients choose the proposer, as in the papers measured here.
        rotation: None,
        extension: None,
        now: effects.now.timestamp(),
    })
}

/// Checks a message once for all recipients, and charges each of them.
struct ModelledChecks<'a> {
    shared: &'a SharedMessage,
    effects: &'a VirtualEffects,
    pipeline: &'a Pipeline,
}

impl Checks for ModelledChecks<'_> {
    fn epoch(&self) -> Epoch {
        self.pipeline.committee().epoch()
    }

    fn epochs_end(&self) -> bool {
        self.effects.network.genesis.epochs().is_some()
    }

    fn engine(&self, epoch: Epoch, from: ValidatorIndex, bytes: &Bytes) -> Option<Result<Verified, PeerFault>> {
        if epoch != self.epoch() {
            return None;
        }
        let (verdict, work) = self.shared.check(&self.effects.network, epoch, from, bytes);
        self.effects.meter.add(*work);
        Some(verdict.clone())
    }

    fn certificate(&self, certificate: &Certificate) -> Option<VerifiedCertificate> {
        self.pipeline.certificate_verifier().verify(certificate.clone())
    }

    fn certified(&self) -> Height {
        self.pipeline.certified_height()
    }

    fn notice(&self, bytes: &Bytes) -> Option<VerifiedNotice> {
        self.pipeline.verify_notice(bytes)
    }

    fn transaction(&self, raw: Bytes) -> Result<VerifiedTransaction, Refusal> {
        self.effects.charge_recovery();
        corniche_admission::check(raw, self.effects.network.genesis.chain_id)
    }
}

impl Process for NodeProcess {
    type Message = Message;
    type Disk = Disk;

    fn handle(&mut self, now: Micros, event: testkit::Event<Message>) {
        self.effects.now = now;
        match event {
            testkit::Event::Written(number) => {
                let written = self.effects.written(number);
                self.apply([written]);
            }
            _ if self.has_halted() => {}
            testkit::Event::Up(peer) => {
                let genesis = Committee::from_genesis(&self.effects.network.genesis);
                let validator = self.effects.network.secrets.names.index(&genesis, peer);
                self.apply([Input::PeerUp { peer: self.key(peer), validator }.into()]);
            }
            testkit::Event::Down(peer) => self.apply([Input::PeerDown { peer: self.key(peer) }.into()]),
            testkit::Event::Message { from, message } => self.message(from, message),
            testkit::Event::Deadline => {
                self.take_arrived();
                let executed = self.effects.executed_events();
                self.apply(executed.chain([Input::Deadline.into()]));
            }
        }
    }

    fn poll(&mut self) -> Option<Action<Message>> {
        let VirtualEffects { network, actions, now, identity, .. } = &mut self.effects;
        loop {
            let action = actions.pop_front()?;
            let transformed = match &mut self.byzantine {
                Some((since, byzantine)) if *now >= *since => byzantine.transform(network, action),
                _ => Some(action),
            };
            match &transformed {
                Some(Action::Send { message: Message::Peer(shared), .. }) => shared.count(&mut network.spent.borrow_mut()),
                Some(Action::Send { message: Message::Multicast(_), bytes: 0, to }) if to != identity => {
                    network.copies.set(network.copies.get() + 1);
                }
                Some(Action::Send { message: Message::Multicast(_), bytes: bytes @ 1.., .. }) => {
                    let ordering = &mut network.spent.borrow_mut()[0];
                    (ordering.messages, ordering.bytes) = (ordering.messages + 1, ordering.bytes + *bytes as u64);
                }
                _ => {}
            }
            if transformed.is_some() {
                return transformed;
            }
        }
    }

    fn deadline(&self) -> Option<Micros> {
        let pipeline = self.driver.deadline().map(Micros::from_timestamp);
        [pipeline, self.effects.deadline()].into_iter().flatten().min().filter(|_| !self.has_halted())
    }

    /// All completed writes survive, and a random prefix of the others, in writing order.
    fn power_off(mut self) -> Disk {
        let waiting = self.driver.into_waiting_writes();
        self.effects.power_off(waiting, |unsynced| self.random.below(unsynced as u64 + 1) as usize)
    }
}
