//! One engine as a process, with its records, its position in the sequence, and its users.

use crate::{
    Action, Coalition, Double, Event, Kit, Measured, MemberContext, Micros, Process, Random, Setup,
    safety::{SafetyChecker, TransactionId, ValidatorStatus, transactions},
};
use corniche_engine::{Batch, Input, Ordered, Output, Recipients, Resume, Ticket, TraceEvent, Verified, Verifier, VertexId};
use corniche_types::{Bytes, CommitIndex, ValidatorIndex};
use std::{
    cell::{OnceCell, RefCell},
    collections::{BTreeMap, BTreeSet, VecDeque},
    rc::Rc,
    sync::Arc,
};

/// Maximum transactions per batch.
const BATCH: usize = 20;
/// Maximum bytes of a batch.
pub const MAX_BATCH_BYTES: u64 = (BATCH * size_of::<TransactionId>()) as u64;

/// A message in transit. It is verified once, however many processes receive it.
#[derive(Clone)]
pub struct Packet(Rc<Sealed>);

struct Sealed {
    bytes: Bytes,
    verified: OnceCell<Result<Verified, String>>,
}

impl Packet {
    pub fn new(bytes: Bytes) -> Self {
        Self(Rc::new(Sealed { bytes, verified: OnceCell::new() }))
    }

    pub fn bytes(&self) -> &Bytes {
        &self.0.bytes
    }

    /// Result of `verifier`, cached: the verifiers of all receivers agree.
    pub fn verified(&self, from: ValidatorIndex, verifier: &dyn Verifier) -> &Result<Verified, String> {
        self.0.verified.get_or_init(|| verifier.verify(from, &self.0.bytes).map_err(|fault| fault.0))
    }
}

/// State that survives a power cut.
#[derive(Clone, Default)]
pub struct EngineDisk {
    pub records: BTreeMap<Ticket, Bytes>,
    /// A record was written, or the disk was lost. Durable before the first record.
    pub may_have_signed: bool,
    /// The last commit whose state was stored.
    pub position: u64,
    /// Transactions submitted here: the notes of the users, not of the node. Users submit again after a restart.
    pub submitted: Vec<TransactionId>,
}

/// Runs one engine as a process.
pub struct EngineProcess {
    kit: Rc<dyn Kit>,
    me: ValidatorIndex,
    double: Option<Double>,
    /// The coalition of the run, if this process is a member.
    coalition: Option<Rc<RefCell<Box<dyn Coalition>>>>,
    engine: Box<dyn Measured>,
    verifier: Arc<dyn Verifier>,
    checker: Rc<RefCell<SafetyChecker>>,
    disk: EngineDisk,
    unsynced: BTreeMap<Ticket, Bytes>,
    /// Own proposals on disk, to check that nothing else is sent.
    durable: BTreeSet<VertexId>,
    queue: VecDeque<TransactionId>,
    wants: bool,
    random: Random,
    actions: VecDeque<Action<Packet>>,
    /// Maximum footprint of the engine so far.
    pub peak_footprint: usize,
}

/// Arguments of [`EngineProcess::start`].
pub struct EngineSetup {
    pub kit: Rc<dyn Kit>,
    pub checker: Rc<RefCell<SafetyChecker>>,
    pub me: usize,
    pub double: Option<Double>,
    /// The coalition of the run.
    pub coalition: Option<Rc<RefCell<Box<dyn Coalition>>>>,
}

impl EngineProcess {
    pub fn start(setup: EngineSetup, disk: EngineDisk, now: Micros, seed: u64) -> Self {
        let EngineSetup { kit, checker, me, double, coalition } = setup;
        let coalition = coalition.filter(|_| matches!(double, Some(Double::Own(_))));
        let me = ValidatorIndex(u16::try_from(me).expect("the committee size fits the index type"));
        let resume = if disk.position == 0 { Resume::default() } else { checker.borrow().resume(disk.position) };
        let records: Vec<_> = disk.records.iter().map(|(ticket, record)| (*ticket, record.clone())).collect();
        let own = |id: &VertexId| id.author == me;
        let durable = records.iter().filter_map(|(_, record)| kit.recorded_proposal(record)).filter(own).collect();
        let forgery = double.and_then(Double::signs);
        let unsigned = !disk.may_have_signed;
        let engine = kit.start(Setup { me, seed, records, unsigned, resume, now: now.timestamp(), forgery });
        let queue = disk.submitted.iter().copied().filter(|id| !checker.borrow().is_delivered(*id)).collect();
        let mut process = Self {
            verifier: kit.verifier(),
            kit,
            me,
            double,
            coalition,
            engine,
            checker,
            disk,
            unsynced: BTreeMap::new(),
            durable,
            queue,
            wants: false,
            random: Random::new(seed).fork("process"),
            actions: VecDeque::new(),
            peak_footprint: 0,
        };
        process.drain(now);
        process
    }

    /// Last delivered commit.
    pub fn position(&self) -> u64 {
        self.disk.position
    }

    /// Number of records on disk.
    pub fn records(&self) -> usize {
        self.disk.records.len()
    }

    /// Debug output for failed runs.
    pub fn describe(&self) -> String {
        let (queue, held, deadline) = (&self.queue, self.engine.footprint(), self.engine.deadline());
        let inside = self.engine.describe();
        format!("at commit {}, queue {queue:?}, holds {held}, deadline {deadline:?} {inside}", self.disk.position)
    }

    /// Submits a user's transaction.
    pub fn submit(&mut self, now: Micros, id: TransactionId) {
        let owed = self.status() == ValidatorStatus::Correct;
        self.checker.borrow_mut().record_submitted(id, owed);
        self.disk.submitted.push(id);
        self.queue.push_back(id);
        self.drain(now);
    }

    /// Reports that other validators executed everything up to this commit.
    pub fn certified(&mut self, now: Micros, commit: u64) {
        let commit = CommitIndex(commit.min(self.disk.position));
        self.input(now, Input::Certified(commit));
    }

    fn status(&self) -> ValidatorStatus {
        self.checker.borrow().status(self.me.as_usize())
    }

    fn input(&mut self, now: Micros, input: Input) {
        self.engine.handle(now.timestamp(), input);
        self.drain(now);
    }

    fn drain(&mut self, now: Micros) {
        loop {
            while let Some(output) = self.engine.poll() {
                self.perform(now, output);
            }
            // Same as in a node: an open block needs later commits, so an engine that asks gets an empty batch.
            if !self.wants || self.queue.is_empty() && !self.checker.borrow().is_block_open(self.disk.position) {
                break;
            }
            self.wants = false;
            let ids: Vec<_> = self.queue.drain(..self.queue.len().min(BATCH)).collect();
            ids.iter().for_each(|id| self.checker.borrow_mut().record_batched(*id));
            let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
            self.engine.handle(now.timestamp(), Input::Batch(Batch { bytes: bytes.into() }));
        }
        self.peak_footprint = self.peak_footprint.max(self.engine.footprint());
    }

    fn perform(&mut self, now: Micros, output: Output) {
        match output {
            Output::WantBatch { .. } => self.wants = true,
            Output::Send { to, message } => self.send(now, to, message),
            Output::Persist(ticket, record) => {
                self.disk.may_have_signed = true;
                self.actions.push_back(Action::Write { id: ticket.0, bytes: record.len() });
                if self.disk.records.contains_key(&ticket) || self.unsynced.insert(ticket, record).is_some() {
                    self.checker.borrow_mut().add_violation(format!("validator {} used {ticket:?} twice", self.me));
                }
            }
            Output::ReleaseBelow(ticket) => self.disk.records = self.disk.records.split_off(&ticket),
            Output::Deliver(ordered) => self.deliver(&ordered),
            Output::Requeue(batch) => {
                self.checker.borrow_mut().record_requeued(self.me.as_usize(), &batch.bytes);
                self.queue.extend(transactions(&batch.bytes));
            }
            Output::Accuse { validator, offence, .. } => {
                if self.double.is_none() {
                    self.checker.borrow_mut().record_accusation(self.me.as_usize(), validator, offence);
                }
            }
            Output::Trace(TraceEvent::Note { name, detail }) if name == "agreement-lost" && self.double.is_none() => {
                self.checker.borrow_mut().add_violation(format!("agreement: validator {}: {detail}", self.me));
            }
            Output::Available { .. } | Output::Trace(_) => {}
        }
    }

    fn deliver(&mut self, ordered: &Ordered) {
        let expected = self.disk.position + 1;
        self.disk.position = ordered.index.0;
        if self.double.is_some() {
            return;
        }
        let mut checker = self.checker.borrow_mut();
        if ordered.index.0 != expected {
            checker.add_violation(format!("validator {} delivered commit {}, expected {expected}", self.me, ordered.index));
        }
        checker.record_delivery(self.me.as_usize(), ordered);
    }

    fn send(&mut self, now: Micros, to: Recipients, message: Bytes) {
        self.checker.borrow_mut().check_message(self.me.as_usize(), &message);
        let proposal = self.kit.published_proposal(&message).filter(|id| id.author == self.me);
        if let Some(id) = proposal {
            self.checker.borrow_mut().record_proposal(self.me.as_usize(), id, self.durable.contains(&id));
        }
        let targets: Vec<usize> = match to {
            Recipients::All => (0..self.kit.committee().size()).filter(|peer| *peer != self.me.as_usize()).collect(),
            Recipients::One(peer) => vec![peer.as_usize()],
        };
        if self.coalition.is_some() {
            self.with_coalition(now, |coalition, ctx| coalition.on_send(ctx, &targets, &message));
            return;
        }
        match self.double {
            None => self.transmit(&targets, message),
            Some(double) => {
                let sent = double.distort(&*self.kit, self.me, proposal, &targets, &message, &mut self.random);
                sent.into_iter().for_each(|(targets, message)| self.transmit(&targets, message));
            }
        }
    }

    /// Lets the coalition act, if this process is a member.
    fn with_coalition<R>(
        &mut self,
        now: Micros,
        turn: impl FnOnce(&mut dyn Coalition, &mut MemberContext<'_>) -> R,
    ) -> Option<R> {
        let coalition = self.coalition.clone()?;
        let mut ctx = MemberContext::new(self.me.as_usize(), now, &mut self.random);
        let result = turn(&mut **coalition.borrow_mut(), &mut ctx);
        let MemberContext { sent, proofs, .. } = ctx;
        proofs.into_iter().for_each(|proof| self.checker.borrow_mut().add_violation(proof));
        sent.into_iter().for_each(|(targets, message)| self.transmit(&targets, message));
        Some(result)
    }

    fn transmit(&mut self, targets: &[usize], message: Bytes) {
        let packet = Packet::new(message);
        let bytes = packet.bytes().len();
        self.actions.extend(targets.iter().map(|to| Action::Send { to: *to, message: packet.clone(), bytes }));
    }

    fn written(&mut self, now: Micros, ticket: Ticket) {
        if let Some(record) = self.unsynced.remove(&ticket) {
            self.durable.extend(self.kit.recorded_proposal(&record).filter(|id| id.author == self.me));
            self.disk.records.insert(ticket, record);
        }
        self.input(now, Input::Durable(ticket));
    }

    fn receive(&mut self, now: Micros, from: usize, packet: &Packet) {
        let index = ValidatorIndex(u16::try_from(from).expect("the committee size fits the index type"));
        match packet.verified(index, &*self.verifier) {
            Ok(message) => {
                let message = message.clone();
                let is_received =
                    self.with_coalition(now, |coalition, ctx| coalition.on_receive(ctx, from, packet.bytes())).unwrap_or(true);
                if is_received {
                    self.input(now, Input::Message { from: index, message });
                }
            }
            Err(fault) => {
                let mut checker = self.checker.borrow_mut();
                if checker.status(from) != ValidatorStatus::Byzantine {
                    checker.add_violation(format!("validity: message of correct validator {from} was refused: {fault}"));
                }
            }
        }
    }
}

impl Process for EngineProcess {
    type Message = Packet;
    type Disk = EngineDisk;

    fn handle(&mut self, now: Micros, event: Event<Packet>) {
        let index = |peer: usize| ValidatorIndex(u16::try_from(peer).expect("the committee size fits the index type"));
        match event {
            Event::Up(peer) => self.input(now, Input::PeerUp(index(peer))),
            Event::Down(peer) => self.input(now, Input::PeerDown(index(peer))),
            Event::Message { from, message } => self.receive(now, from, &message),
            Event::Written(id) => self.written(now, Ticket(id)),
            Event::Deadline => self.input(now, Input::Deadline),
        }
    }

    fn poll(&mut self) -> Option<Action<Packet>> {
        self.actions.pop_front()
    }

    fn deadline(&self) -> Option<Micros> {
        self.engine.deadline().map(Micros::from_timestamp)
    }

    /// Some of the oldest unsynced records may have reached the disk anyway.
    fn power_off(mut self) -> EngineDisk {
        let survivors = self.random.below(self.unsynced.len() as u64 + 1) as usize;
        let survivors: Vec<_> = self.unsynced.into_iter().take(survivors).collect();
        self.disk.records.extend(survivors);
        self.disk
    }
}
