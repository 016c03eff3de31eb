//! The engine's state machine: inputs to rules, rules to outputs.
//!
//! Each step passes the input to the part that handles it, then calls [`Mir::make_progress`]: committed batches are delivered,
//! timers are compared with the time, epochs change, and this member proposes.

use crate::{
    absence::Absence,
    bodies::Bodies,
    checkpoints::DurableCheckpoints,
    config::Config,
    epochs::Changes,
    instance::{Instance, Step},
    journal::{AfterDurable, Journal},
    keys::{Signature, Signer},
    lost_disk::LostDisk,
    message::{Context, EpochConfig, EpochNumber, Message, PreparedCertificate, Sn, Statement},
    normal::Early,
    order::Order,
    propose::Proposer,
    record::{Promises, Record, Recovered},
    rules,
    sync::Sync,
    timers::Timers,
    verify::Checked,
};
use corniche_engine::{Batch, ClockLeads, Committee, Engine, Input, Output, Recipients, Resume, Ticket, TraceEvent};
use corniche_types::{B256, Bytes, TimestampMs, ValidatorIndex, wire};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

/// Arguments of [`Mir::new`].
pub struct Setup {
    pub config: Config,
    pub committee: Committee,
    pub signer: Arc<dyn Signer>,
    /// Records that were persisted and not released, in any order.
    pub records: Vec<(Ticket, Bytes)>,
    /// True if the caller knows that this validator never signed anything, on any disk.
    pub unsigned: bool,
    /// Position in the sequence of commits; may be ahead of the records.
    pub resume: Resume,
    pub now: TimestampMs,
}

/// The Mir-BFT engine. See the crate documentation.
pub struct Mir {
    pub(crate) config: Config,
    pub(crate) committee: Committee,
    pub(crate) context: Context,
    pub(crate) signer: Arc<dyn Signer>,
    pub(crate) me: ValidatorIndex,
    pub(crate) now: TimestampMs,
    pub(crate) order: Order,
    pub(crate) promises: Promises,
    /// Configuration of the current epoch.
    pub(crate) epoch: EpochConfig,
    /// Open numbers of the current epoch, above the stable checkpoint.
    pub(crate) instances: BTreeMap<Sn, Instance>,
    /// Per number above the stable checkpoint: the certificate of the highest epoch in which this member prepared a batch (U2).
    pub(crate) prepared: BTreeMap<Sn, PreparedCertificate>,
    /// Digests of committed batches above the floor.
    pub(crate) log: BTreeMap<Sn, B256>,
    /// The epochs in which COMMITs of a quorum came here, for numbers of the log.
    pub(crate) decided_in: BTreeMap<Sn, EpochNumber>,
    /// Numbers up to this one are forgotten.
    pub(crate) floor: Sn,
    pub(crate) bodies: Bodies,
    /// Messages of later epochs.
    pub(crate) early: Early,
    /// The first time at which a batch is not too early any more (N4).
    pub(crate) deferred_until: Option<TimestampMs>,
    /// Accepted numbers of this epoch, on disk, whose PREPARE the signer did not sign.
    pub(crate) unsigned: BTreeSet<Sn>,
    pub(crate) proposer: Proposer,
    pub(crate) changes: Changes,
    pub(crate) timers: Timers,
    pub(crate) absence: Absence,
    /// Votes for checkpoints above the stable one.
    pub(crate) checkpoint_votes: BTreeMap<Sn, BTreeMap<ValidatorIndex, (B256, Signature)>>,
    pub(crate) durable: DurableCheckpoints,
    pub(crate) sync: Sync,
    /// After a lost disk, until this member knows what it may have signed.
    pub(crate) lost: LostDisk,
    pub(crate) journal: Journal,
    pub(crate) waiting: BTreeMap<Ticket, AfterDurable>,
    /// A contradiction of something committed was certified: members with more than F votes are faulty.
    pub(crate) is_halted: bool,
    pub(crate) clock_leads: ClockLeads,
    pub(crate) outputs: VecDeque<Output>,
}

impl Engine for Mir {
    fn handle(&mut self, now: TimestampMs, input: Input) {
        self.now = self.now.max(now);
        if self.is_halted {
            return;
        }
        match input {
            Input::Batch(batch) => self.handle_batch(batch),
            Input::Message { from, message } => {
                if let Ok(checked) = message.0.downcast::<Checked>() {
                    self.handle_message(from, Arc::unwrap_or_clone(checked));
                }
            }
            Input::Durable(ticket) => self.handle_durable(ticket),
            Input::Deadline => self.handle_deadline(),
            Input::PeerUp(peer) => {
                self.absence.note_up(peer, self.now);
                self.sync.forget_sent_to(peer);
                self.bodies.ask_by(TimestampMs(self.now.0.saturating_add(self.config.resend_ms)));
                self.send_status(Recipients::One(peer), true);
            }
            // Lost messages are asked for by timers.
            Input::PeerDown(peer) => self.absence.note_down(peer, self.now, &self.config),
            Input::Certified(commit) => self.handle_certified(Sn(commit.0)),
            Input::Packet(_) | Input::Sequencer(_) => {}
        }
        self.make_progress();
    }

    fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn clock_leads(&self) -> Vec<(ValidatorIndex, u64)> {
        self.clock_leads.milliseconds()
    }

    fn deadline(&self) -> Option<TimestampMs> {
        if self.is_halted {
            return None;
        }
        let timers = [Some(self.sync.resend_at), self.timers_deadline(), self.proposal_deadline(), self.deferred_until];
        timers.into_iter().flatten().min()
    }
}

impl Mir {
    /// Creates an engine, new or recovered (T4): promises and batches from the records, commits after `resume`.
    pub fn new(setup: Setup) -> Self {
        let Setup { config, committee, signer, mut records, unsigned, resume, now } = setup;
        let (context, me) = (Context::new(&committee), signer.index());
        records.sort_unstable_by_key(|(ticket, _)| *ticket);
        let decoded = |record: &Bytes| {
            wire::decode::<Record>(record).expect("a record was encoded by this engine, and its log verifies checksums")
        };
        let records: Vec<_> = records.iter().map(|(ticket, record)| (*ticket, decoded(record))).collect();
        let has_others = committee.votes(me) < committee.quorum();
        // X9: a lost disk.
        let has_lost_disk = records.is_empty() && !unsigned && !resume.is_genesis() && has_others;
        let journal = Journal::new(now, &records);
        let mut recovered = Recovered::default();
        records.into_iter().for_each(|(_, record)| recovered.apply(record, &context));
        recovered.promises.has_lost_disk |= has_lost_disk;
        let order = Order::new(&resume, config.clone(), context, committee.size());
        let epoch = recovered.promises.certificate.as_ref().map(|certificate| certificate.config.clone());
        let mut engine = Self {
            epoch: epoch.unwrap_or_else(|| rules::first_epoch(&committee)),
            instances: BTreeMap::new(),
            prepared: BTreeMap::new(),
            log: BTreeMap::new(),
            decided_in: BTreeMap::new(),
            floor: Sn(0),
            bodies: Bodies::default(),
            early: Early::default(),
            deferred_until: None,
            unsigned: BTreeSet::new(),
            proposer: Proposer::new(now),
            changes: Changes::default(),
            timers: Timers::default(),
            absence: Absence::new(committee.indices().filter(|member| *member != me), now, &config),
            checkpoint_votes: BTreeMap::new(),
            durable: DurableCheckpoints::default(),
            sync: Sync::new(me, TimestampMs(now.0.saturating_add(config.resend_ms))),
            lost: LostDisk::default(),
            waiting: BTreeMap::new(),
            is_halted: false,
            clock_leads: ClockLeads::default(),
            outputs: VecDeque::new(),
            promises: Promises::default(),
            config,
            committee,
            context,
            signer,
            me,
            now,
            order,
            journal,
        };
        engine.recover(recovered);
        if has_lost_disk {
            engine.persist_promises(AfterDurable::Promises);
        }
        engine.make_progress();
        engine
    }

    /// T4: continues with the epoch, the votes and the batches of the records.
    fn recover(&mut self, recovered: Recovered) {
        let Recovered { promises, accepted, prepared, committed, bodies } = recovered;
        self.promises = promises;
        self.floor = self.floor_now();
        let (stable, epoch, floor) = (self.promises.stable(), self.epoch.epoch, self.floor);
        self.prepared = prepared.into_iter().filter(|(sn, _)| *sn > stable).collect();
        self.log = committed.into_iter().filter(|(sn, _)| *sn > floor).collect();
        for (digest, proposal) in bodies.into_iter().filter(|(_, proposal)| proposal.sn > floor) {
            let sn = proposal.sn;
            self.keep_body(digest, proposal);
            self.bodies.note_written(sn, digest);
        }
        for (sn, (_, digest)) in accepted.into_iter().filter(|(sn, (of, _))| *of == epoch && *sn > stable) {
            let instance = self.instances.entry(sn).or_default();
            (instance.offered, instance.step) = (Some(digest), Step::Accepted);
            self.proposer.note_offer(sn);
            self.handle_accepted(epoch, sn);
            let certificate = self.prepared.get(&sn).filter(|certificate| certificate.epoch == epoch).cloned();
            if let Some((instance, certificate)) = self.instances.get_mut(&sn).zip(certificate) {
                for (member, signature) in certificate.votes {
                    instance.add_prepare(member, digest, signature);
                }
                instance.step = Step::Prepared;
                self.handle_prepared(epoch, sn);
            }
        }
        self.begin_epoch();
        // The stored state contains everything up to its last checkpoint.
        let delivered = self.order.marks().last().map_or(Sn(0), |(sn, _)| sn);
        self.vote_checkpoints(DurableCheckpoints { delivered, stable });
        if let Some(target) = self.promises.target {
            self.timers.begin_change(&self.config);
            self.handle_left(target);
        }
        if let Some((epoch, _)) = self.promises.echoed {
            self.handle_echoed(epoch);
        }
    }

    fn handle_message(&mut self, from: ValidatorIndex, checked: Checked) {
        let digest = checked.digest;
        self.absence.note_heard(from, self.now);
        if let Some(checked) = self.early.keep(from, checked, self.epoch.epoch, &self.config) {
            self.handle_timely(from, checked.message, digest);
        }
    }

    /// Handles a message that is not of a later epoch's common case.
    pub(crate) fn handle_timely(&mut self, from: ValidatorIndex, message: Message, digest: B256) {
        match message {
            Message::PrePrepare { epoch, proposal, signature } => {
                self.handle_pre_prepare(from, epoch, proposal, digest, signature);
            }
            Message::Prepare { epoch, sn, digest, signature } => self.handle_prepare(from, epoch, sn, digest, signature),
            Message::Commit { epoch, sn, digest } => self.handle_commit(from, epoch, sn, digest),
            Message::Checkpoint { sn, hash, signature } => self.handle_checkpoint(from, sn, hash, signature),
            Message::StableCheckpoint(checkpoint) => self.learn_checkpoint(checkpoint),
            Message::EpochChange(change) => self.handle_change(from, *change, digest),
            Message::NewEpoch(offer) => self.handle_offer(*offer),
            Message::FetchChanges { epoch, members } => self.handle_fetch_changes(from, epoch, &members),
            Message::Echo { epoch, config, signature } => self.handle_echo(from, epoch, config, signature),
            Message::Epoch(certificate) => self.handle_certificate(*certificate),
            Message::Status(status) => self.handle_status(from, status),
            Message::Committed(committed) => self.handle_committed(from, committed),
            Message::FetchBody { sn, digest } => self.handle_fetch_body(from, sn, digest),
            Message::Body(proposal) => self.handle_body(proposal, digest),
        }
    }

    fn handle_deadline(&mut self) {
        if self.sync.resend_at <= self.now {
            self.sync.resend_at = TimestampMs(self.now.0.saturating_add(self.config.resend_ms));
            self.resend();
        }
    }

    fn make_progress(&mut self) {
        self.accept_deferred();
        self.deliver();
        self.check_timers();
        self.consider_leaving();
        self.drive_changes();
        self.regain_votes();
        self.fetch_bodies();
        self.propose();
    }

    fn handle_durable(&mut self, ticket: Ticket) {
        match self.waiting.remove(&ticket) {
            Some(AfterDurable::Accepted(epoch, sn)) => self.handle_accepted(epoch, sn),
            Some(AfterDurable::Prepared(epoch, sn)) => self.handle_prepared(epoch, sn),
            Some(AfterDurable::Left(target)) => self.handle_left(target),
            Some(AfterDurable::Echoed(epoch)) => self.handle_echoed(epoch),
            Some(AfterDurable::Promises) => self.release_records(ticket),
            Some(AfterDurable::Checkpoint(sn)) => {
                self.release_records(ticket);
                self.vote_checkpoints(DurableCheckpoints { delivered: sn, ..self.durable });
            }
            Some(AfterDurable::Stable(sn)) => self.vote_checkpoints(DurableCheckpoints { stable: sn, ..self.durable }),
            None => {}
        }
    }

    // ---- common questions ----------------------------------------------------------------------------------------------------

    /// w: the last stable checkpoint.
    pub(crate) fn stable(&self) -> Sn {
        self.promises.stable()
    }

    /// W, S5: this member votes only about numbers up to this one.
    pub(crate) fn window_end(&self) -> Sn {
        self.stable().plus(self.config.window)
    }

    /// The last number whose messages are kept: another window, for members with a later checkpoint (M34).
    pub(crate) fn last_kept(&self) -> Sn {
        self.window_end().plus(self.config.window)
    }

    pub(crate) fn is_kept(&self, sn: Sn) -> bool {
        self.stable() < sn && sn <= self.last_kept()
    }

    pub(crate) fn is_committed(&self, sn: Sn) -> bool {
        sn <= self.order.sn() || self.log.contains_key(&sn)
    }

    pub(crate) fn is_normal(&self) -> bool {
        self.promises.is_normal()
    }

    /// X2, X9: true if this member may vote in its epoch.
    pub(crate) fn may_vote(&self) -> bool {
        self.promises.may_vote()
    }

    /// The leader of a number; the primary for numbers that the epoch proposes again.
    pub(crate) fn leader(&self, sn: Sn) -> ValidatorIndex {
        rules::leader(&self.epoch, sn, &self.committee).unwrap_or_else(|| rules::primary(self.epoch.epoch, &self.committee))
    }

    pub(crate) fn sign(&self, statement: &Statement) -> Option<Signature> {
        self.context.sign(statement, &*self.signer)
    }

    // ---- outputs -------------------------------------------------------------------------------------------------------------

    pub(crate) fn persist(&mut self, record: &Record, after: Option<AfterDurable>) {
        let ticket = self.journal.take(record);
        self.waiting.extend(after.map(|after| (ticket, after)));
        self.outputs.push_back(Output::Persist(ticket, record.encode()));
    }

    /// Writes all promises again, so that earlier records can be released.
    pub(crate) fn persist_promises(&mut self, after: AfterDurable) {
        let record = Record::Promises(Box::new(self.promises.clone()));
        self.persist(&record, Some(after));
    }

    /// The record of all promises with this ticket is on disk.
    fn release_records(&mut self, promises: Ticket) {
        self.journal.set_promises(promises);
        self.outputs.extend(self.journal.release(self.floor).map(Output::ReleaseBelow));
    }

    pub(crate) fn send(&mut self, to: ValidatorIndex, message: &Message) {
        self.send_to(Recipients::One(to), message);
    }

    pub(crate) fn broadcast(&mut self, message: &Message) {
        self.send_to(Recipients::All, message);
    }

    pub(crate) fn send_to(&mut self, to: Recipients, message: &Message) {
        if to != Recipients::One(self.me) && self.committee.size() > 1 {
            self.outputs.push_back(Output::Send { to, message: message.encode() });
        }
    }

    pub(crate) fn note(&mut self, name: &str, detail: String) {
        self.outputs.push_back(Output::Trace(TraceEvent::note(name, detail)));
    }

    /// Something certified contradicts what is committed.
    pub(crate) fn halt(&mut self, detail: String) {
        self.is_halted = true;
        self.note("agreement-lost", detail);
    }

    pub(crate) fn requeue(&mut self, batch: Bytes) {
        if !batch.is_empty() {
            self.outputs.push_back(Output::Requeue(Batch { bytes: batch }));
        }
    }

    // ---- inspection ----------------------------------------------------------------------------------------------------------

    /// Configuration of the current epoch.
    pub fn epoch_config(&self) -> &EpochConfig {
        &self.epoch
    }

    /// The epoch that this member left its own for.
    pub fn target(&self) -> Option<EpochNumber> {
        self.promises.target
    }

    /// The last delivered number, and the last stable checkpoint.
    pub fn progress(&self) -> (Sn, Sn) {
        (self.order.sn(), self.stable())
    }

    /// Time from the commit of a number until the next one is overdue, ms.
    pub fn timeout_ms(&self) -> u64 {
        self.timers.timeout_ms(&self.config)
    }

    /// True while this member does not take part fully, after a lost disk.
    pub fn is_silent(&self) -> bool {
        self.promises.has_lost_disk || self.promises.silent.is_some()
    }

    /// Number of items that must stay bounded.
    pub fn footprint(&self) -> usize {
        self.instances.values().map(Instance::count).sum::<usize>()
            + self.prepared.len()
            + self.log.len()
            + self.bodies.count()
            + self.early.count()
            + self.changes.count()
            + self.sync.count()
            + self.waiting.len()
            + self.checkpoint_votes.values().map(BTreeMap::len).sum::<usize>()
    }

    /// Describes the state for debugging.
    pub fn describe(&self) -> String {
        let open: Vec<_> = self
            .instances
            .iter()
            .filter(|(sn, _)| !self.is_committed(**sn))
            .map(|(sn, it)| format!("{sn}:{}:{:?}", self.leader(*sn), it.step))
            .collect();
        format!(
            "{:?}, delivered {}, stable {}, target {:?}, {}, silent {:?} {}, open {open:?}, {}, {}, {}, committed above {:?}",
            self.epoch,
            self.order.sn(),
            self.stable(),
            self.promises.target,
            self.timers.describe(),
            self.promises.silent,
            self.promises.has_lost_disk,
            self.changes.describe(),
            self.proposer.describe(),
            self.sync.describe(),
            self.log.range(self.order.sn().next()..).map(|(sn, _)| sn.0).collect::<Vec<_>>(),
        )
    }
}
