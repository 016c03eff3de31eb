//! A whole node as a process of the testkit: a pipeline with its verification, execution and disk.
//!
//! It corresponds to `corniche node`, without threads: the same [`Pipeline`] gets the same inputs for the same outputs.
//! Work that the node does on other threads happens immediately here, and costs virtual time where that matters.
//! Signatures are charged to the node's processor ([`Meter`]). Writes take the disk's time, and writes requested during
//! a write are grouped into the next one (group commit).

use crate::{
    byzantine::ByzantineNode,
    crypto::{Meter, metered},
    disk::{Disk, Write},
    engines::EngineEvents,
    execution::Executor,
    genesis::node_key,
    network::{Message, Network, SharedMessage, identity_of, validator},
    scenario::Behaviour,
};
use corniche_admission::{PoolConfig, Refusal};
use corniche_crypto::VerifiedTransaction;
use corniche_engine::TraceEvent;
use corniche_pipeline::{Input, Output, PeerMessage, Pipeline, Plan, Request, Response, Setup, serve_blocks};
use corniche_testkit::{Action, Event, Micros, Process, Random};
use corniche_types::{B256, header_hash, wire};
use std::{collections::VecDeque, rc::Rc};

/// Number of readable states below the newest; the default of a node. Nothing here reads an older one.
const RECENT_STATES: u64 = 256;

/// A running node.
pub struct NodeProcess {
    network: Rc<Network>,
    /// Number of this process.
    process: usize,
    pipeline: Pipeline,
    executor: Executor,
    /// Work of the engine's keys.
    meter: Meter,
    /// Work of the certificate keys.
    certificate_meter: Meter,
    /// Time for recovering senders of transactions since it was last taken, µs.
    recovering_us: u64,
    engine_events: EngineEvents,
    disk: Disk,
    /// Plans being executed, each with its completion time.
    executing: VecDeque<(Micros, Plan)>,
    execute_longer: Micros,
    write_longer: Micros,
    /// Start of the next write on a slow disk.
    write_at: Option<Micros>,
    /// The write in progress, with its number.
    writing: (u64, Vec<Write>),
    /// Writes for the next group.
    waiting: Vec<Write>,
    /// The last message sent; its other recipients get the same one.
    last_shared: Option<Rc<SharedMessage>>,
    actions: VecDeque<Action<Message>>,
    /// True if the node stopped by itself; the checks have the reason.
    halted: bool,
    /// Decides which unsynced writes survive a power cut.
    random: Random,
    /// Behaviour of a Byzantine validator, and its start time.
    byzantine: Option<(Micros, ByzantineNode)>,
    now: Micros,
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
        let (meter, certificate_meter, engine_events) = (Meter::default(), Meter::default(), EngineEvents::default());
        let me = validator(identity);
        let executors = &network.executors;
        let state = executors.state(disk.blocks());
        let executor = Executor::new(executors, state.clone(), disk.blocks());
        let head = disk.blocks().last().map(|committed| committed.block.clone());
        let header = head.as_ref().map_or(executors.genesis_header(), |block| &block.header);
        let is_copy = process != identity;
        let byzantine = behaviour
            .map(|(behaviour, since)| (since, ByzantineNode::new(network, behaviour, identity, is_copy, random.fork("enemy"))));
        let factory = network.engines.factory(
            me,
            &network.secrets,
            random.fork("engine"),
            &meter,
            &engine_events,
            behaviour.map(|(behaviour, _)| behaviour),
        );
        let certificate_keys = metered(&network.certificate_keys(me), network.cost, &certificate_meter);
        let pipeline = Pipeline::new(Setup {
            genesis: network.genesis.clone(),
            certificate_keys,
            engine_factory: Some(factory),
            may_vote: true,
            records: disk.records(),
            state,
            head_hash: header_hash(header),
            base_fee: header.base_fee_per_gas.unwrap_or(1),
            resume: disk.resume(),
            certificate: disk.newest_certificate().cloned(),
            uncertified: disk.uncertified(),
            head,
            pool: PoolConfig::from_genesis(&network.genesis),
            recent_states: RECENT_STATES,
            // Clients choose the proposer, as in the papers measured here.
            rotation: None,
            extension: None,
            now: now.timestamp(),
        });
        let mut node = Self {
            network: network.clone(),
            process,
            pipeline,
            executor,
            meter,
            certificate_meter,
            recovering_us: 0,
            engine_events,
            halted: disk.diverged(),
            disk,
            executing: VecDeque::new(),
            execute_longer: Micros::ZERO,
            write_longer: Micros::ZERO,
            write_at: None,
            writing: (0, Vec::new()),
            waiting: Vec::new(),
            last_shared: None,
            actions: VecDeque::new(),
            random: random.fork("power"),
            byzantine,
            now,
        };
        node.process_outputs(now);
        node
    }

    /// Submits a client's transaction.
    pub fn submit(&mut self, now: Micros, transaction: VerifiedTransaction) -> Result<(), Refusal> {
        self.recovering_us += self.network.cost.recover_us;
        self.pipeline.handle(now.timestamp(), Input::Submit { transaction, from: None, reply: Some(0) });
        self.process_outputs(now).expect("invariant: a pipeline answers every submission")
    }

    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    pub fn has_halted(&self) -> bool {
        self.halted
    }

    #[cfg(test)]
    pub(crate) fn tamper_with_execution(&mut self) {
        self.executor.tampered = true;
    }

    /// Number of items that the engine holds in memory.
    pub fn held(&self) -> usize {
        self.engine_events.footprint()
    }

    /// Number of transactions in the pool.
    pub fn pooled(&self) -> usize {
        self.pipeline.pool().ready_len() + self.pipeline.pool().queued_len()
    }

    fn apply(&mut self, now: Micros, input: Input) {
        self.pipeline.handle(now.timestamp(), input);
        self.process_outputs(now);
    }

    fn message(&mut self, now: Micros, from: usize, message: Message) {
        let peer = node_key(from);
        match message {
            Message::Request(request) => self.answer(from, request),
            Message::Response(response) => {
                self.apply(now, Input::Response { from: peer, response: Some(Response::clone(&response)) });
            }
            Message::Peer(shared) => match shared.message() {
                PeerMessage::Engine(bytes) => {
                    let (verdict, work) = shared.check(&self.network, from, bytes);
                    self.meter.add(*work);
                    match verdict {
                        Ok(message) => self.apply(now, Input::Engine { from: validator(from), message: message.clone() }),
                        Err(fault) => self.network.checks.borrow_mut().peer_fault(self.process, from, &fault.0),
                    }
                }
                PeerMessage::CertificateShare(bytes) => {
                    self.apply(now, Input::CertificateShare { from: validator(from), bytes: bytes.clone() });
                }
                // Same as in a node: certificates that are not newer are ignored.
                PeerMessage::Certificate(certificate) if certificate.height <= self.pipeline.certified_height() => {}
                PeerMessage::Certificate(certificate) => match self.pipeline.certificate_verifier().verify(certificate.clone())
                {
                    Some(certificate) => self.apply(now, Input::Certificate { from: peer, certificate }),
                    None => self.network.checks.borrow_mut().peer_fault(self.process, from, "invalid certificate"),
                },
                PeerMessage::Transactions(raw) => {
                    let chain_id = self.network.genesis.chain_id;
                    let checked = raw.iter().filter_map(|raw| corniche_admission::check(raw.clone(), chain_id).ok());
                    for transaction in checked.collect::<Vec<_>>() {
                        self.recovering_us += self.network.cost.recover_us;
                        self.apply(now, Input::Submit { transaction, from: Some(peer), reply: None });
                    }
                }
            },
        }
    }

    /// Responds to a follower from durable data.
    fn answer(&mut self, to: usize, request: Request) {
        let response = serve_blocks(request, &self.disk);
        let bytes = wire::encode(&response).len();
        self.actions.push_back(Action::Send { to, message: Message::Response(Rc::new(response)), bytes });
    }

    /// Processes all outputs of the pipeline. Returns the result of a submission, if there was one.
    fn process_outputs(&mut self, now: Micros) -> Option<Result<(), Refusal>> {
        let mut submitted = None;
        self.record_engine_events(now);
        while let Some(output) = self.pipeline.poll() {
            match output {
                Output::Submitted { result, .. } => submitted = Some(result.map(|_: B256| ())),
                Output::Send { to, message } => self.send(identity_of(&to), message),
                Output::Request { to, request } => {
                    let message = Message::Request(request);
                    self.actions.push_back(Action::Send { to: identity_of(&to), message, bytes: 24 });
                }
                Output::Execute(plan) => {
                    let free = self.executing.back().map_or(now, |(until, _)| *until);
                    self.executing.push_back((free + self.execute_longer, plan));
                    self.execute_due(now);
                }
                Output::Persist(ticket, record) => {
                    let record = self.network.records.borrow_mut().share(record);
                    self.waiting.push(Write::Record(ticket, record));
                }
                Output::ReleaseBelow(ticket) => self.waiting.push(Write::ReleaseBelow(ticket)),
                Output::ReadSafetyLog => self.waiting.push(Write::ReadSafetyLog),
                Output::Append(block) => self.waiting.push(Write::Block(block)),
                Output::AppendCertificate(certificate) => self.waiting.push(Write::Certificate(certificate)),
                Output::AppendProgress(resume) => self.waiting.push(Write::Progress(resume)),
                Output::Halt { reason, .. } => {
                    self.halted = true;
                    self.waiting.push(Write::Divergence);
                    self.network.checks.borrow_mut().halted(self.process, &reason);
                }
                Output::Penalise { peer, fault } => {
                    self.network.checks.borrow_mut().peer_fault(self.process, identity_of(&peer), &fault.0);
                }
                Output::Accuse { validator, offence, .. } => {
                    self.network.checks.borrow_mut().accused(self.process, validator, offence);
                }
                Output::Trace(event) => self.traced(now, event),
                Output::Pending { .. } | Output::Dropped { .. } | Output::Available { .. } | Output::CommandDone(_) => {}
            }
        }
        self.write(now);
        let work = self.work();
        if work > Micros::ZERO {
            self.actions.push_front(Action::Work(work));
        }
        submitted
    }

    /// Executes the plans that are due.
    fn execute_due(&mut self, now: Micros) {
        while let Some((_, plan)) = self.executing.pop_front_if(|(until, _)| *until <= now) {
            let executed = self.executor.execute(plan.block);
            self.network.checks.borrow_mut().executed(self.process, now, &executed);
            self.pipeline.handle(now.timestamp(), Input::Executed(Box::new(executed)));
            self.record_engine_events(now);
        }
    }

    /// From now on, blocks take this much longer to execute and writes to become durable.
    pub fn slow_down(&mut self, now: Micros, execute: Micros, write: Micros) {
        (self.execute_longer, self.write_longer) = (execute, write);
        // Work in progress continues at the new speed.
        let mut until = now;
        for (due, _) in &mut self.executing {
            until += execute;
            *due = until;
        }
        self.write_at = self.write_at.map(|at| at.min(now + write));
        self.execute_due(now);
        self.process_outputs(now);
    }

    /// Returns the pending processor time, and adds the work to the network's totals.
    fn work(&mut self) -> Micros {
        let works = [self.meter.take(), self.certificate_meter.take()];
        let mut totals = self.network.spent.borrow_mut();
        totals.iter_mut().zip(works).for_each(|(spent, work)| spent.work += work);
        Micros(works.iter().map(|work| work.micros).sum::<u64>() + std::mem::take(&mut self.recovering_us))
    }

    fn traced(&mut self, now: Micros, event: TraceEvent) {
        if self.byzantine.is_some() {
            return;
        }
        if let Some(observer) = &self.network.observer {
            (observer.borrow_mut())(now, self.process, &event);
        }
        match event {
            TraceEvent::Elected { round, leaders } => {
                let mut elected = self.network.elected.borrow_mut();
                if round > elected.0 {
                    *elected = (round, leaders);
                }
            }
            // If leaders take turns, the newest leader is the last proposer.
            TraceEvent::Note { name, .. } if name == "prepare" => {
                self.network.elected.borrow_mut().1 = vec![validator(self.process)];
            }
            TraceEvent::Decided { why, .. } => self.network.checks.borrow_mut().decided(self.process, &why),
            _ => {}
        }
    }

    fn record_engine_events(&mut self, now: Micros) {
        for event in self.engine_events.take() {
            self.network.checks.borrow_mut().on_engine_event(self.process, now, event);
        }
    }

    fn send(&mut self, to: usize, message: PeerMessage) {
        let same = |shared: &&Rc<SharedMessage>| match (shared.message(), &message) {
            (PeerMessage::Engine(one), PeerMessage::Engine(other))
            | (PeerMessage::CertificateShare(one), PeerMessage::CertificateShare(other)) => {
                // The shared message keeps its bytes alive, so equal addresses mean equal bytes.
                one.as_ptr() == other.as_ptr() && one.len() == other.len()
            }
            (PeerMessage::Certificate(one), PeerMessage::Certificate(other)) => one == other,
            _ => false,
        };
        let shared = self.last_shared.as_ref().filter(same).cloned().unwrap_or_else(|| SharedMessage::new(message));
        self.last_shared = Some(shared.clone());
        let bytes = shared.bytes();
        self.actions.push_back(Action::Send { to, message: Message::Peer(shared), bytes });
    }

    // ---- disk ----------------------------------------------------------------------------------------------------------

    /// Starts the next write when the last one is done.
    fn write(&mut self, now: Micros) {
        let (number, group) = &mut self.writing;
        if !group.is_empty() || self.waiting.is_empty() {
            return;
        }
        if *self.write_at.get_or_insert(now + self.write_longer) > now {
            return;
        }
        self.write_at = None;
        *number += 1;
        *group = std::mem::take(&mut self.waiting);
        let bytes = group.iter().map(Write::bytes).sum();
        self.actions.push_back(Action::Write { id: *number, bytes });
    }

    /// A group is durable: notifies the pipeline, tickets first, as the node's writer does.
    fn written(&mut self, now: Micros) {
        let (mut appended, mut read) = (None, false);
        let mut tickets = Vec::new();
        for write in std::mem::take(&mut self.writing.1) {
            match &write {
                Write::Record(ticket, _) => tickets.push(*ticket),
                Write::Block(block) => appended = Some(block.block.height()),
                Write::ReadSafetyLog => read = true,
                _ => {}
            }
            self.disk.apply(write);
        }
        // The outputs of these inputs may already start the next group.
        tickets.into_iter().for_each(|ticket| self.pipeline.handle(now.timestamp(), Input::Durable(ticket)));
        if let Some(height) = appended {
            self.pipeline.handle(now.timestamp(), Input::Appended(height));
        }
        if read {
            self.pipeline.handle(now.timestamp(), Input::SafetyLog(self.disk.records()));
        }
        self.process_outputs(now);
    }
}

impl Process for NodeProcess {
    type Message = Message;
    type Disk = Disk;

    fn handle(&mut self, now: Micros, event: Event<Message>) {
        self.now = now;
        if self.halted {
            return;
        }
        match event {
            Event::Up(peer) => self.apply(now, Input::PeerUp { peer: node_key(peer), validator: Some(validator(peer)) }),
            Event::Down(peer) => self.apply(now, Input::PeerDown { peer: node_key(peer) }),
            Event::Message { from, message } => self.message(now, from, message),
            Event::Written(number) => {
                assert_eq!(number, self.writing.0, "invariant: one write at a time");
                self.written(now);
            }
            Event::Deadline => {
                self.execute_due(now);
                self.apply(now, Input::Deadline);
            }
        }
    }

    fn poll(&mut self) -> Option<Action<Message>> {
        loop {
            let action = self.actions.pop_front()?;
            let transformed = match &mut self.byzantine {
                None => Some(action),
                Some((since, _)) if self.now < *since => Some(action),
                Some((_, byzantine)) => byzantine.transform(&self.network, action),
            };
            if let Some(Action::Send { message: Message::Peer(shared), .. }) = &transformed {
                shared.count(&mut self.network.spent.borrow_mut());
            }
            if transformed.is_some() {
                return transformed;
            }
        }
    }

    fn deadline(&self) -> Option<Micros> {
        let pipeline = self.pipeline.deadline().map(Micros::from_timestamp);
        let executed = self.executing.front().map(|(until, _)| *until);
        [pipeline, executed, self.write_at].into_iter().flatten().min().filter(|_| !self.halted)
    }

    /// All completed writes survive, and a random prefix of the others, in writing order.
    fn power_off(mut self) -> Disk {
        let unsynced: Vec<Write> = self.writing.1.into_iter().chain(self.waiting).collect();
        let survive = self.random.below(unsynced.len() as u64 + 1) as usize;
        unsynced.into_iter().take(survive).for_each(|write| self.disk.apply(write));
        self.disk
    }
}
