//! An engine of a checked cluster: its users, its double's misbehaviour, and the safety checker.

use crate::{
    Coalition, Double, EngineDisk, EngineHost, Group, HostSetup, Kit, Measured, MemberContext, Micros, Outbox, Random, Sending,
    Setup, Surroundings,
    engine_host::index,
    safety::{SafetyChecker, TransactionId, ValidatorStatus, transactions},
};
use corniche_engine::{Batch, Engine, Input, Ordered, Output, Resume, Ticket, TraceEvent, VertexId};
use corniche_types::{Bytes, CommitIndex, ValidatorIndex};
use std::{
    cell::RefCell,
    collections::{BTreeSet, VecDeque},
    rc::Rc,
};

/// Maximum transactions per batch.
const BATCH: usize = 20;
/// Maximum bytes of a batch.
pub const MAX_BATCH_BYTES: u64 = (BATCH * size_of::<TransactionId>()) as u64;

/// Data that survives a power cut, besides the records.
#[derive(Clone, Debug, Default)]
pub struct ProcessNotes {
    /// The last commit whose state was stored.
    pub position: u64,
    /// Transactions submitted here: the notes of the users, not of the node. Users submit again after a restart.
    pub submitted: Vec<TransactionId>,
}

/// The surroundings of an engine in a [`TestCluster`](crate::TestCluster).
pub struct CheckedSurroundings {
    kit: Rc<dyn Kit>,
    me: ValidatorIndex,
    double: Option<Double>,
    /// The coalition of the run, if this process is a member.
    coalition: Option<Rc<RefCell<Box<dyn Coalition>>>>,
    checker: Rc<RefCell<SafetyChecker>>,
    group: Option<Rc<RefCell<dyn Group>>>,
    notes: ProcessNotes,
    /// Own proposals on disk, to check that nothing else is sent.
    durable: BTreeSet<VertexId>,
    queue: VecDeque<TransactionId>,
    random: Random,
    /// Maximum footprint of the engine so far.
    peak_footprint: usize,
}

/// One engine of a [`TestCluster`](crate::TestCluster).
pub type EngineProcess = EngineHost<CheckedSurroundings>;

/// Arguments of [`EngineProcess::launch`].
pub struct EngineSetup {
    pub kit: Rc<dyn Kit>,
    pub checker: Rc<RefCell<SafetyChecker>>,
    pub me: usize,
    pub double: Option<Double>,
    /// The coalition of the run.
    pub coalition: Option<Rc<RefCell<Box<dyn Coalition>>>>,
    /// The multicast group of the run.
    pub group: Option<Rc<RefCell<dyn Group>>>,
}

impl EngineProcess {
    pub fn launch(setup: EngineSetup, disk: EngineDisk<ProcessNotes>, now: Micros, seed: u64) -> Self {
        let EngineSetup { kit, checker, me, double, coalition, group } = setup;
        let EngineDisk { records, may_have_signed, notes } = disk;
        let coalition = coalition.filter(|_| matches!(double, Some(Double::Own(_))));
        let author = index(me);
        let resume = if notes.position == 0 { Resume::default() } else { checker.borrow().resume(notes.position) };
        let own = |id: &VertexId| id.author == author;
        let durable = records.values().filter_map(|record| kit.recorded_proposal(record)).filter(own).collect();
        let engine = kit.start(Setup {
            me: author,
            seed,
            records: records.iter().map(|(ticket, record)| (*ticket, record.clone())).collect(),
            unsigned: !may_have_signed,
            resume,
            now: now.timestamp(),
            forgery: double.and_then(Double::signs),
        });
        let queue = notes.submitted.iter().copied().filter(|id| !checker.borrow().is_delivered(*id)).collect();
        let (verifier, committee_size) = (kit.verifier(), kit.committee().size());
        let random = Random::new(seed).fork("process");
        let surroundings = CheckedSurroundings {
            kit,
            me: author,
            double,
            coalition,
            checker,
            group,
            notes,
            durable,
            queue,
            random,
            peak_footprint: 0,
        };
        let setup = HostSetup { me, committee_size, engine, verifier, records, may_have_signed, surroundings };
        Self::start(setup, now)
    }

    /// Last delivered commit.
    pub fn position(&self) -> u64 {
        self.surroundings.notes.position
    }

    /// Maximum number of items that the engine held so far, or of records that it holds now.
    pub fn footprint(&self) -> usize {
        self.surroundings.peak_footprint.max(self.records.len())
    }

    /// Debug output for failed runs.
    pub fn describe(&self) -> String {
        let CheckedSurroundings { queue, notes, .. } = &self.surroundings;
        let (held, deadline) = (self.engine.footprint(), self.engine.deadline());
        let inside = self.engine.describe();
        let records = self.records.len();
        format!(
            "at commit {}, queue {queue:?}, holds {held}, {records} records, deadline {deadline:?} {inside}",
            notes.position
        )
    }

    /// Submits a user's transaction.
    pub fn submit(&mut self, now: Micros, id: TransactionId) {
        let users = &mut self.surroundings;
        let owed = users.status() == ValidatorStatus::Correct;
        users.checker.borrow_mut().record_submitted(id, owed);
        users.notes.submitted.push(id);
        users.queue.push_back(id);
        self.drain(now);
    }

    /// Reports that other validators executed everything up to this commit.
    pub fn certified(&mut self, now: Micros, commit: u64) {
        let commit = CommitIndex(commit.min(self.position()));
        self.input(now, Input::Certified(commit));
    }
}

impl CheckedSurroundings {
    fn status(&self) -> ValidatorStatus {
        self.checker.borrow().status(self.me.as_usize())
    }

    fn deliver(&mut self, ordered: &Ordered) {
        let expected = self.notes.position + 1;
        self.notes.position = ordered.index.0;
        if self.double.is_some() {
            return;
        }
        let mut checker = self.checker.borrow_mut();
        if ordered.index.0 != expected {
            checker.add_violation(format!("validator {} delivered commit {}, expected {expected}", self.me, ordered.index));
        }
        checker.record_delivery(self.me.as_usize(), ordered);
    }

    /// Lets the coalition act, if this process is a member.
    fn with_coalition<R>(
        &mut self,
        now: Micros,
        outbox: &mut Outbox,
        turn: impl FnOnce(&mut dyn Coalition, &mut MemberContext<'_>) -> R,
    ) -> Option<R> {
        let coalition = self.coalition.clone()?;
        let mut ctx = MemberContext::new(self.me.as_usize(), now, &mut self.random);
        let result = turn(&mut **coalition.borrow_mut(), &mut ctx);
        let MemberContext { sent, proofs, .. } = ctx;
        proofs.into_iter().for_each(|proof| self.checker.borrow_mut().add_violation(proof));
        sent.into_iter().for_each(|(targets, message)| outbox.send(&targets, message));
        Some(result)
    }
}

impl Surroundings for CheckedSurroundings {
    type Engine = Box<dyn Measured>;
    type Notes = ProcessNotes;

    /// Same as in a node: an open block needs later commits, so an engine that asks gets an empty batch.
    fn next_batch(&mut self) -> Option<Batch> {
        if self.queue.is_empty() && !self.checker.borrow().is_block_open(self.notes.position) {
            return None;
        }
        let ids: Vec<_> = self.queue.drain(..self.queue.len().min(BATCH)).collect();
        ids.iter().for_each(|id| self.checker.borrow_mut().record_batched(*id));
        let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        Some(Batch { bytes: bytes.into() })
    }

    fn on_send(&mut self, now: Micros, sending: Sending<'_>, outbox: &mut Outbox) {
        let Sending { to, message, .. } = sending;
        self.checker.borrow_mut().check_message(self.me.as_usize(), message);
        let proposal = self.kit.published_proposal(message).filter(|id| id.author == self.me);
        if let Some(id) = proposal {
            self.checker.borrow_mut().record_proposal(self.me.as_usize(), id, self.durable.contains(&id));
        }
        if self.coalition.is_some() {
            self.with_coalition(now, outbox, |coalition, ctx| coalition.on_send(ctx, to, message));
            return;
        }
        match self.double {
            None => outbox.send(to, message.clone()),
            Some(double) => {
                let sent = double.distort(&*self.kit, self.me, proposal, to, message, &mut self.random);
                sent.into_iter().for_each(|(to, message)| outbox.send(&to, message));
            }
        }
    }

    fn group(&self) -> Option<Rc<RefCell<dyn Group>>> {
        self.group.clone()
    }

    fn on_multicast(&mut self, request: Bytes) -> Option<Bytes> {
        match self.double {
            None => Some(request),
            Some(double) => double.distort_request(&request, &mut self.random),
        }
    }

    fn on_receive(&mut self, now: Micros, from: usize, message: &Bytes, outbox: &mut Outbox) -> bool {
        self.with_coalition(now, outbox, |coalition, ctx| coalition.on_receive(ctx, from, message)).unwrap_or(true)
    }

    fn on_refused(&mut self, from: usize, fault: &str) {
        let mut checker = self.checker.borrow_mut();
        if checker.status(from) != ValidatorStatus::Byzantine {
            checker.add_violation(format!("validity: message of correct validator {from} was refused: {fault}"));
        }
    }

    fn on_written(&mut self, record: &Bytes) {
        self.durable.extend(self.kit.recorded_proposal(record).filter(|id| id.author == self.me));
    }

    fn on_ticket_reused(&mut self, ticket: Ticket) {
        self.checker.borrow_mut().add_violation(format!("validator {} used {ticket:?} twice", self.me));
    }

    fn on_output(&mut self, _: Micros, output: Output) {
        match output {
            Output::Deliver(ordered) => self.deliver(&ordered),
            Output::Requeue(batch) => {
                self.checker.borrow_mut().record_requeued(self.me.as_usize(), &batch.bytes);
                self.queue.extend(transactions(&batch.bytes));
            }
            Output::Accuse { validator, offence, .. } if self.double.is_none() => {
                self.checker.borrow_mut().record_accusation(self.me.as_usize(), validator, offence);
            }
            Output::Twin(detail) if self.double.is_none() => {
                self.checker.borrow_mut().add_violation(format!("validator {} has no twin: {detail}", self.me));
            }
            Output::Trace(TraceEvent::Note { name, detail }) if name == "agreement-lost" && self.double.is_none() => {
                self.checker.borrow_mut().add_violation(format!("agreement: validator {}: {detail}", self.me));
            }
            _ => {}
        }
    }

    fn after_step(&mut self, engine: &Self::Engine) {
        self.peak_footprint = self.peak_footprint.max(engine.footprint());
    }

    /// Some of the oldest unsynced records may have reached the disk anyway.
    fn surviving_writes(&mut self, in_writing: usize) -> usize {
        self.random.below(in_writing as u64 + 1) as usize
    }

    fn into_notes(self) -> ProcessNotes {
        self.notes
    }
}
