//! Common case: PRE-PREPARE, PREPARE, COMMIT and delivery (3.4).

use crate::{
    config::{Config, MAX_CLOCK_AHEAD_MS},
    engine::Mir,
    instance::Step,
    journal::AfterDurable,
    keys::Signature,
    message::{EpochNumber, Message, NULL, Proposal, Sn, Statement},
    record::Record,
    rules,
    verify::Checked,
};
use corniche_engine::{Batch, Offence, Output};
use corniche_types::{B256, TimestampMs, ValidatorIndex};
use std::collections::{BTreeMap, VecDeque};

/// Maximum number of messages of later epochs that are kept for each member.
pub const MAX_EARLY: usize = 512;
/// Maximum bytes of them, in batches of maximum size.
const MAX_EARLY_BATCHES: usize = 4;

/// Common-case messages of later epochs (M34). Members enter an epoch at different times.
#[derive(Default)]
pub(crate) struct Early(BTreeMap<ValidatorIndex, VecDeque<(Checked, usize)>>);

impl Early {
    /// Keeps a message of a later epoch; returns any other one.
    pub fn keep(&mut self, from: ValidatorIndex, checked: Checked, epoch: EpochNumber, config: &Config) -> Option<Checked> {
        let (of, bytes) = match &checked.message {
            Message::PrePrepare { epoch, proposal, .. } => (*epoch, proposal.batch.len()),
            Message::Prepare { epoch, .. } | Message::Commit { epoch, .. } => (*epoch, 0),
            _ => return Some(checked),
        };
        if of <= epoch {
            return Some(checked);
        }
        let kept = self.0.entry(from).or_default();
        let total: usize = kept.iter().map(|(_, bytes)| bytes).sum();
        if kept.len() < MAX_EARLY && total + bytes <= MAX_EARLY_BATCHES * config.batch_bytes as usize {
            kept.push_back((checked, bytes));
        }
        None
    }

    pub fn take(&mut self) -> Vec<(ValidatorIndex, Checked)> {
        let kept = std::mem::take(&mut self.0).into_iter();
        kept.flat_map(|(from, kept)| kept.into_iter().map(move |(checked, _)| (from, checked))).collect()
    }

    pub fn count(&self) -> usize {
        self.0.values().map(VecDeque::len).sum()
    }
}

impl Mir {
    /// N2: conditions that never become true drop the batch; the others make it wait (N4).
    pub(crate) fn handle_pre_prepare(
        &mut self,
        from: ValidatorIndex,
        epoch: EpochNumber,
        proposal: Proposal,
        digest: B256,
        signature: Signature,
    ) {
        let sn = proposal.sn;
        let leads = rules::leader(&self.epoch, sn, &self.committee) == Some(from);
        if epoch != self.epoch.epoch || !leads || !self.is_kept(sn) {
            return;
        }
        let instance = self.instances.entry(sn).or_default();
        if instance.offered.is_none() {
            instance.offered = Some(digest);
            self.clock_leads.note(from, proposal.time, self.now);
            self.proposer.note_offer(sn);
            self.keep_body(digest, proposal);
        }
        self.handle_prepare(from, epoch, sn, digest, signature);
        self.accept(sn);
    }

    /// N3: accepts the offered batch of a number if this is possible now. X1: the first offer of an epoch is the only one.
    pub(crate) fn accept(&mut self, sn: Sn) {
        let Some(instance) = self.instances.get(&sn).filter(|instance| instance.step == Step::Idle) else { return };
        let Some(digest) = instance.offered.filter(|_| sn <= self.window_end() && self.may_vote()) else { return };
        let is_fresh = rules::is_fresh(&self.epoch, sn);
        let proposal = self.bodies.get(sn, digest).cloned();
        // U8: a listed batch is accepted unseen, but with its body.
        let is_early = is_fresh && proposal.as_ref().is_some_and(|proposal| self.accept_at(proposal) > self.now);
        if is_early {
            let at = proposal.map(|proposal| self.accept_at(&proposal));
            self.deferred_until = self.deferred_until.into_iter().chain(at).min();
            return;
        }
        if proposal.is_none() && digest != NULL {
            return;
        }
        let epoch = self.epoch.epoch;
        let is_written = !is_fresh && self.bodies.is_written(sn, digest);
        let record = Record::Accepted { epoch, sn, digest, proposal: proposal.clone().filter(|_| !is_written) };
        self.bodies.note_written(sn, digest);
        self.persist(&record, Some(AfterDurable::Accepted(epoch, sn)));
        if let Some(instance) = self.instances.get_mut(&sn) {
            instance.step = Step::Accepted;
        }
        if let Some(proposal) = proposal.filter(|_| is_fresh) {
            self.trace_accepted(&proposal, digest);
            if !proposal.batch.is_empty() && sn > self.order.sn() {
                self.outputs.push_back(Output::Available { author: proposal.author, batch: Batch { bytes: proposal.batch } });
            }
        }
    }

    /// The time from which this member votes for a batch: no leader can move time far ahead.
    fn accept_at(&self, proposal: &Proposal) -> TimestampMs {
        TimestampMs(proposal.time.0.saturating_sub(MAX_CLOCK_AHEAD_MS))
    }

    /// Tries again with all batches that wait.
    pub(crate) fn accept_all(&mut self) {
        let waiting = self.instances.iter().filter(|(_, instance)| instance.step == Step::Idle && instance.offered.is_some());
        let waiting: Vec<_> = waiting.map(|(sn, _)| *sn).collect();
        waiting.into_iter().for_each(|sn| self.accept(sn));
    }

    /// Accepts batches that are not too early any more.
    pub(crate) fn accept_deferred(&mut self) {
        if self.deferred_until.take_if(|at| *at <= self.now).is_some() {
            self.accept_all();
        }
    }

    /// N3: the batch is on disk, so the PREPARE may leave. A leader sends its own batch with it.
    pub(crate) fn handle_accepted(&mut self, epoch: EpochNumber, sn: Sn) {
        let is_open = epoch == self.epoch.epoch && self.may_vote();
        let Some(instance) = self.instances.get(&sn).filter(|it| is_open && it.step == Step::Accepted) else { return };
        let Some(digest) = instance.offered else { return };
        let Some(signature) = self.sign(&Statement::Prepare { epoch, sn, digest }) else {
            self.unsigned.insert(sn);
            return;
        };
        let Some(instance) = self.instances.get_mut(&sn) else { return };
        instance.step = Step::Preparing;
        instance.add_prepare(self.me, digest, signature);
        let message = self.own_prepare(sn);
        if matches!(message, Some(Message::PrePrepare { .. })) {
            let others = self.committee.indices().filter(|member| *member != self.me);
            self.sync.note_sent(others, sn, self.now);
        }
        message.iter().for_each(|message| self.broadcast(message));
        self.check_prepared(sn);
    }

    /// Tries again to sign what the signer did not.
    pub(crate) fn sign_again(&mut self) {
        let epoch = self.epoch.epoch;
        std::mem::take(&mut self.unsigned).into_iter().for_each(|sn| self.handle_accepted(epoch, sn));
        self.send_change();
        if !self.changes.has_echoed() {
            self.send_echo();
        }
        self.vote_checkpoints(self.durable);
    }

    /// The own PREPARE of a number, for members that have its batch.
    pub(crate) fn own_vote(&self, sn: Sn) -> Option<Message> {
        let (digest, signature) = self.instances.get(&sn)?.own_prepare(self.me)?;
        Some(Message::Prepare { epoch: self.epoch.epoch, sn, digest, signature })
    }

    /// The own PREPARE of a number, with the batch if this member leads it.
    pub(crate) fn own_prepare(&self, sn: Sn) -> Option<Message> {
        let (digest, signature) = self.instances.get(&sn)?.own_prepare(self.me)?;
        let leads = rules::leader(&self.epoch, sn, &self.committee) == Some(self.me);
        match self.bodies.get(sn, digest).filter(|_| leads).cloned() {
            Some(proposal) => Some(Message::PrePrepare { epoch: self.epoch.epoch, proposal, signature }),
            None => self.own_vote(sn),
        }
    }

    pub(crate) fn handle_prepare(
        &mut self,
        from: ValidatorIndex,
        epoch: EpochNumber,
        sn: Sn,
        digest: B256,
        signature: Signature,
    ) {
        if epoch != self.epoch.epoch || !self.is_kept(sn) {
            return;
        }
        let first = self.instances.entry(sn).or_default().add_prepare(from, digest, signature);
        if let Some((other, other_signature)) = first {
            let signed = [(other, other_signature), (digest, signature)];
            let evidence = signed.map(|(digest, signature)| Message::Prepare { epoch, sn, digest, signature }.encode());
            let (offence, proof) = (Offence::Equivocation, None);
            self.outputs.push_back(Output::Accuse { validator: from, offence, evidence: evidence.to_vec(), proof });
        }
        self.check_prepared(sn);
    }

    /// N5: prepared. The certificate must be on disk before the COMMIT leaves.
    fn check_prepared(&mut self, sn: Sn) {
        let epoch = self.epoch.epoch;
        if !self.may_vote() {
            return;
        }
        let Some(instance) = self.instances.get_mut(&sn) else { return };
        let Some(certificate) = instance.prepared(epoch, sn, &self.committee) else { return };
        instance.step = Step::Prepared;
        self.persist(&Record::Prepared(certificate.clone()), Some(AfterDurable::Prepared(epoch, sn)));
        self.prepared.insert(sn, certificate);
    }

    /// N5: the certificate is on disk, so the COMMIT may leave.
    pub(crate) fn handle_prepared(&mut self, epoch: EpochNumber, sn: Sn) {
        let is_open = epoch == self.epoch.epoch && self.may_vote();
        let me = self.me;
        let Some(instance) = self.instances.get_mut(&sn).filter(|it| is_open && it.step == Step::Prepared) else { return };
        let Some(digest) = instance.accepted() else { return };
        instance.step = Step::Committing;
        instance.add_commit(me, digest);
        self.broadcast(&Message::Commit { epoch, sn, digest });
        self.check_committed(sn, digest);
    }

    pub(crate) fn handle_commit(&mut self, from: ValidatorIndex, epoch: EpochNumber, sn: Sn, digest: B256) {
        if epoch == self.epoch.epoch && self.is_kept(sn) {
            self.instances.entry(sn).or_default().add_commit(from, digest);
            self.check_committed(sn, digest);
        }
    }

    /// N6. Also without a batch: a quorum with COMMITs contains correct members that prepared it.
    fn check_committed(&mut self, sn: Sn, digest: B256) {
        if self.instances.get(&sn).is_some_and(|instance| instance.is_committed(digest, &self.committee)) {
            self.decided_in.entry(sn).or_insert(self.epoch.epoch);
            self.commit(sn, digest);
        }
    }

    /// The batch of a number is decided.
    pub(crate) fn commit(&mut self, sn: Sn, digest: B256) {
        match self.log.get(&sn) {
            Some(before) if *before != digest => return self.halt(format!("two batches of {sn}: {before} and {digest}")),
            Some(_) => return,
            None if sn <= self.order.sn() => return,
            None => {}
        }
        self.log.insert(sn, digest);
        self.persist(&Record::Committed { sn, digest }, None);
        self.handle_committed_timers(sn);
    }

    /// N7: strictly in order, across epochs.
    pub(crate) fn deliver(&mut self) {
        while !self.is_halted {
            let sn = self.order.sn().next();
            let Some(digest) = self.log.get(&sn).copied() else { return };
            let proposal = self.bodies.get(sn, digest).cloned();
            if proposal.is_none() && digest != NULL {
                return;
            }
            let ordered = self.order.deliver(sn, digest, proposal.as_ref());
            self.trace_delivered(sn, digest, &ordered);
            self.outputs.push_back(Output::Deliver(ordered));
            self.handle_delivered(sn, digest);
        }
    }

    fn handle_delivered(&mut self, sn: Sn, digest: B256) {
        // U7: an own batch returns to the pool when its number has another one, because only then is this certain.
        for lost in self.bodies.keep_only(sn, digest) {
            if lost.author == self.me {
                self.requeue(lost.batch);
            }
        }
        self.sync.forget_claims(sn);
        self.handle_delivered_timers();
        if self.order.mark(sn).is_some() {
            // K1. Records are written in order: then all commits up to the checkpoint are on disk.
            self.persist_promises(AfterDurable::Checkpoint(sn));
        }
        self.collect_garbage();
    }
}
