//! The engine's state machine: inputs to rules, rules to outputs.
//!
//! Each step passes the input to the part that handles it, then calls [`Neobft::make_progress`]: the log takes what the receiver
//! has, replies make slots final, and final slots are executed.

use crate::{
    bodies::Bodies,
    config::Config,
    gaps::Gap,
    hints::Hints,
    journal::Journal,
    keys::{Signature, Signatures, Signer},
    log::Log,
    message::{BodyId, Confirmed, Context, Entry, Message, Slot, Statement, View, ViewChange},
    normal::Replies,
    order::Order,
    record::{Promises, Record, Recovered},
    requests::Requests,
    rules,
    sync::{Goal, Sync},
    verify::{Checked, NeobftVerifier},
    views::SequencerFaults,
};
use corniche_aom_receiver::{Config as ReceiverConfig, EpochKey, OrderingCertificate, Receiver};
use corniche_aom_wire::{Kind, Suite, TagKey, TagScope, VerifyingKey};
use corniche_engine::{Batch, Committee, Engine, Input, Output, Recipients, Resume, SequencerKey, Ticket, TraceEvent};
use corniche_types::{B256, Bytes, TimestampMs, ValidatorIndex, wire};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// Arguments of [`Neobft::new`].
pub struct Setup {
    pub config: Config,
    pub committee: Committee,
    pub signer: Arc<dyn Signer>,
    pub signatures: Arc<dyn Signatures>,
    /// Records that were persisted and not released, in any order.
    pub records: Vec<(Ticket, Bytes)>,
    /// True if the caller knows that this validator never signed anything, on any disk.
    pub unsigned: bool,
    /// Position in the sequence of commits; may be ahead of the records.
    pub resume: Resume,
    pub now: TimestampMs,
}

/// The NeoBFT engine. See the crate documentation.
pub struct Neobft {
    pub(crate) config: Config,
    pub(crate) committee: Committee,
    pub(crate) context: Context,
    pub(crate) signer: Arc<dyn Signer>,
    pub(crate) verifier: NeobftVerifier,
    pub(crate) me: ValidatorIndex,
    pub(crate) now: TimestampMs,
    pub(crate) receiver: Receiver,
    pub(crate) log: Log,
    pub(crate) order: Order,
    pub(crate) hints: Hints,
    pub(crate) promises: Promises,
    /// The record with which the current view was entered is on disk.
    pub(crate) has_entered: bool,
    pub(crate) replies: Replies,
    pub(crate) gaps: BTreeMap<Slot, Gap>,
    pub(crate) sync: Sync,
    pub(crate) goal: Option<Goal>,
    pub(crate) requests: Requests,
    pub(crate) bodies: Bodies,
    // ---- view change
    /// The view that each member would move to.
    pub(crate) suspects: BTreeMap<ValidatorIndex, View>,
    pub(crate) faults: SequencerFaults,
    /// VIEW-CHANGEs for a view that this replica leads.
    pub(crate) changes: BTreeMap<ValidatorIndex, ViewChange>,
    /// VIEW-CHANGEs for the target of this replica, from its leader.
    pub(crate) relayed: BTreeMap<ValidatorIndex, ViewChange>,
    /// The VIEW-START that this replica sent.
    pub(crate) start: Option<(View, Vec<ViewChange>)>,
    /// The last VIEW-CONFIRM of each member.
    pub(crate) confirms: BTreeMap<ValidatorIndex, (Confirmed, Signature)>,
    /// The own VIEW-CHANGE may be sent: everything before it is on disk.
    pub(crate) has_left: bool,
    /// The last VIEW-CONFIRM whose record, and merged log, is on disk.
    pub(crate) has_confirmed: Option<Confirmed>,
    /// Number of times that logs were sent again in the current attempt to change the view.
    pub(crate) logs_sent: u32,
    /// Start of the current attempt to change the view.
    pub(crate) changing_since: TimestampMs,
    /// Time since which a quorum would move to the target or to a later view.
    pub(crate) joined_since: TimestampMs,
    /// Views in a row without a new final slot, which double the timers (V2).
    pub(crate) failed_views: u32,
    /// The last final slot when the current view was entered.
    pub(crate) entered_at: Slot,
    /// Time of the last progress towards finality, while something is pending (G11).
    pub(crate) progress_at: TimestampMs,
    /// Highest number of the epoch that a packet had, and the time when it came or the view began.
    pub(crate) heard: (u64, TimestampMs),
    // ---- disk
    pub(crate) journal: Journal,
    pub(crate) waiting: BTreeMap<Ticket, AfterDurable>,
    /// Time at which unanswered messages are sent again.
    pub(crate) resend_at: TimestampMs,
    /// The peer that is asked next.
    pub(crate) next_peer: usize,
    /// A contradiction of something final was certified: members with more than F votes are faulty.
    pub(crate) is_halted: bool,
    pub(crate) outputs: VecDeque<Output>,
}

/// An action that waits for a record.
pub(crate) enum AfterDurable {
    /// An entry of the log.
    Entry(Slot),
    GapDrop(View, Slot, Signature),
    Voted(View, Slot),
    Prepared(View, Slot),
    Left(View),
    Confirm(Confirmed),
    Entered(View),
    Promises(Ticket),
    Body(BodyId),
    AomConfirm(u32, corniche_aom_receiver::ConfirmVote),
}

impl Engine for Neobft {
    fn handle(&mut self, now: TimestampMs, input: Input) {
        self.now = self.now.max(now);
        if self.is_halted {
            return;
        }
        match input {
            Input::Batch(batch) => self.handle_batch(batch),
            Input::Message { from, message } => {
                if let Ok(message) = message.0.downcast::<Checked>() {
                    self.handle_message(from, Arc::unwrap_or_clone(message).0);
                }
            }
            Input::Durable(ticket) => self.handle_durable(ticket),
            Input::Deadline => self.handle_deadline(),
            Input::PeerUp(peer) => self.send_progress(peer, true),
            // Whatever the connection lost is sent again by timers.
            Input::PeerDown(_) => {}
            Input::Certified(commit) => self.handle_certified(Slot(commit.0)),
            Input::Packet(datagram) => self.receiver.handle(self.now, &datagram),
            Input::Sequencer(key) => self.handle_sequencer(&key),
        }
        self.make_progress();
    }

    fn poll(&mut self) -> Option<Output> {
        if self.outputs.is_empty() {
            // Not after each input: one REPLY is enough for all records that became durable together.
            self.send_reply();
        }
        self.outputs.pop_front().or_else(|| self.next_hint())
    }

    fn deadline(&self) -> Option<TimestampMs> {
        if self.is_halted {
            return None;
        }
        let timers = [self.receiver.deadline(), Some(self.resend_at), self.requests_deadline()];
        timers.into_iter().flatten().min()
    }
}

/// Number of the first slot that is not final, in the epoch after `base`. Numbers before it are never needed again.
pub(crate) fn first_number(log: &Log, base: Slot) -> u64 {
    log.finalized().next().0.saturating_sub(base.0).max(1)
}

impl Neobft {
    /// Creates an engine, new or recovered: log and promises from the records, commits after `resume`.
    pub fn new(setup: Setup) -> Self {
        let Setup { config, committee, signer, signatures, records, unsigned, resume, now } = setup;
        let context = Context::new(&committee, config.group);
        let me = signer.index();
        let mut records: Vec<_> = records
            .iter()
            .map(|(ticket, record)| {
                (
                    *ticket,
                    wire::decode::<Record>(record)
                        .expect("a record was encoded by this engine, and its log verifies checksums"),
                )
            })
            .collect();
        records.sort_unstable_by_key(|(ticket, _)| *ticket);
        let recovered = Recovered::new(&records, context);
        let mut journal = Journal::new(now, records.last().map(|(ticket, _)| *ticket));
        journal.recover(&records);
        let order = Order::new(&resume, config.clone(), context, committee.clone(), signatures.clone());
        let (slot, hash) = (order.slot(), order.state().hash);
        // S5: the state may be ahead of the log, or on another branch of it than rolled-back records.
        let log = recovered.log.filter(|log| log.hash(slot) == Some(hash) || log.floor() > slot);
        let mut log = log.unwrap_or_else(|| Log::new(context, slot, hash));
        log.finalize(slot);
        let mut promises = recovered.promises;
        // A lost disk: this replica forgot what it promised. It follows, and signs nothing about views or packets (S5).
        let has_others = committee.votes(me) < committee.quorum();
        let lost = View { epoch: u32::MAX, leader: u32::MAX };
        let has_lost = records.is_empty() && !unsigned && !resume.is_genesis() && has_others;
        if has_lost {
            promises.silent_before = lost;
        }
        // Also after another restart, until `regain_votes`.
        let is_forgetful = promises.silent_before == lost;
        let view = promises.view();
        let receiver_config = ReceiverConfig {
            chain_id: committee.chain_id(),
            group: config.group,
            me: me.0,
            weights: committee.weights().clone(),
            byzantine: config.byzantine_network,
            reorder_ms: config.reorder_ms,
            reorder_packets: config.reorder_packets,
            max_jump: config.max_jump,
            max_buffered: usize::try_from(config.max_buffered).unwrap_or(usize::MAX),
            max_payload: config.payload_bytes as usize,
        };
        let mut receiver = Receiver::new(receiver_config, view.epoch, first_number(&log, promises.base()));
        recovered.confirms.iter().for_each(|(epoch, vote)| receiver.restore_confirm(*epoch, vote));
        let mut engine = Self {
            verifier: NeobftVerifier::new(config.clone(), committee.clone(), signatures),
            requests: Requests::new(now),
            bodies: Bodies::new(recovered.bodies),
            sync: Sync::new(is_forgetful.then_some(now)),
            replies: Replies::default(),
            resend_at: TimestampMs(now.0.saturating_add(config.query_ms)),
            has_left: promises.target.is_some(),
            has_confirmed: promises.confirmed,
            has_entered: true,
            hints: Hints::default(),
            gaps: BTreeMap::new(),
            goal: None,
            suspects: BTreeMap::new(),
            faults: SequencerFaults::default(),
            changes: BTreeMap::new(),
            relayed: BTreeMap::new(),
            start: None,
            confirms: BTreeMap::new(),
            changing_since: now,
            joined_since: now,
            logs_sent: 0,
            failed_views: 0,
            entered_at: Slot(0),
            progress_at: now,
            heard: (0, now),
            waiting: BTreeMap::new(),
            next_peer: me.as_usize(),
            is_halted: false,
            outputs: VecDeque::new(),
            config,
            committee,
            context,
            signer,
            me,
            now,
            receiver,
            log,
            order,
            promises,
            journal,
        };
        if has_lost {
            engine.persist_promises();
        }
        for slot in engine.promises.blocked.clone() {
            engine.gaps.entry(slot).or_default().block = Some(true);
        }
        engine.fill_receiver();
        engine.keep_executed_bodies();
        let first_clock = now.0.saturating_add(engine.config.query_ms).saturating_sub(engine.config.clock_ms);
        engine.requests.delay_clock(TimestampMs(first_clock));
        engine.resume_view_change();
        engine.ask_for_sequencer();
        engine.make_progress();
        engine
    }

    /// The last view in which this replica was normal.
    pub(crate) fn view(&self) -> View {
        self.promises.view()
    }

    /// L_e of the current view's epoch.
    pub(crate) fn base(&self) -> Slot {
        self.promises.base()
    }

    pub(crate) fn is_normal(&self) -> bool {
        self.promises.target.is_none()
    }

    /// True if this replica lost its disk and does not know yet what it may have promised (S5).
    pub(crate) fn is_forgetful(&self) -> bool {
        self.sync.lost.is_some()
    }

    /// True if this replica may send votes in its current view.
    pub(crate) fn may_vote(&self) -> bool {
        self.is_normal() && self.view() >= self.promises.silent_before
    }

    pub(crate) fn leader(&self) -> ValidatorIndex {
        rules::leader(self.view(), &self.committee)
    }

    pub(crate) fn is_leader(&self) -> bool {
        self.leader() == self.me
    }

    /// Number of a slot in the current epoch; `None` for slots of earlier epochs.
    pub(crate) fn seq(&self, slot: Slot) -> Option<u64> {
        slot.0.checked_sub(self.base().0).filter(|seq| *seq > 0)
    }

    /// Gives the packets of the log's tail to a new receiver. They are not final: a view that begins lower takes them again (L7).
    pub(crate) fn fill_receiver(&mut self) {
        let epoch = self.view().epoch;
        for (slot, entry) in self.log.after(self.log.finalized()) {
            if let Entry::Request(packet) = entry
                && packet.epoch == epoch
                && self.seq(slot) == Some(packet.seq)
            {
                self.receiver.insert(self.now, packet.clone());
            }
        }
        self.receiver.set_next(self.seq(self.log.end().next()).unwrap_or(1));
    }

    pub(crate) fn sign(&self, statement: &Statement) -> Option<Signature> {
        self.context.sign(statement, &*self.signer)
    }

    /// Checks a packet's certificate from a peer, and that it belongs to this slot of the current epoch.
    pub(crate) fn is_valid_for(&self, certificate: &OrderingCertificate, slot: Slot) -> bool {
        self.fits(certificate, slot) && self.is_authentic(certificate)
    }

    pub(crate) fn fits(&self, certificate: &OrderingCertificate, slot: Slot) -> bool {
        certificate.epoch == self.view().epoch && Some(certificate.seq) == self.seq(slot)
    }

    pub(crate) fn is_authentic(&self, certificate: &OrderingCertificate) -> bool {
        self.own_packet(certificate).is_some()
            || self.receiver.verify(certificate, |epoch, vote| self.verifier.is_confirm_signed(epoch, vote))
    }

    /// The own certificate of an equal packet. A member may show a damaged one that only some can check (pitfall 6).
    pub(crate) fn own_packet(&self, other: &OrderingCertificate) -> Option<&OrderingCertificate> {
        let in_log = self.log.get(Slot(self.base().0.saturating_add(other.seq))).and_then(|entry| match entry {
            Entry::Request(packet) => Some(packet),
            Entry::NoOp(_) => None,
        });
        let is_equal =
            |own: &&OrderingCertificate| (own.epoch, own.seq) == (other.epoch, other.seq) && own.payload == other.payload;
        self.receiver.get(other.seq).filter(is_equal).or(in_log.filter(is_equal))
    }

    fn handle_message(&mut self, from: ValidatorIndex, message: Message) {
        match message {
            Message::Reply { view, slot, hash } => self.handle_reply(from, view, slot, hash),
            Message::Sync { view, slot, hash, drops } => self.handle_sync(from, view, slot, hash, drops),
            Message::Query { from: slot } => self.handle_query(from, slot),
            Message::QueryReply { view, from: slot, entries, checkpoint } => {
                self.handle_query_reply(from, view, slot, entries, checkpoint);
            }
            Message::GapFind { view, slot } => self.handle_gap_find(view, slot),
            Message::GapReceive { view, slot, certificate } => self.handle_gap_receive(from, view, slot, certificate),
            Message::GapDrop { view, slot, signature } => self.handle_gap_drop(from, view, slot, signature),
            Message::GapDecision { view, slot, evidence, signature } => {
                self.handle_gap_decision(view, slot, evidence, signature)
            }
            Message::GapPrepare(vote) => self.handle_gap_prepare(from, vote),
            Message::GapCommit(vote) => self.handle_gap_commit(from, vote),
            Message::Suspect { view } => self.handle_suspect(from, view),
            Message::ViewChange(change) => self.handle_view_change(from, *change),
            Message::ViewStart { view, changes } => self.handle_view_start(from, view, &changes),
            Message::ViewConfirm { confirmed, signature } => self.handle_view_confirm(from, confirmed, signature),
            Message::Checkpoint { slot, hash, signature } => self.handle_checkpoint(from, slot, hash, signature),
            Message::Progress { view, left, slot, hash, certificate, checkpoint, asks } => {
                certificate.into_iter().for_each(|certificate| self.handle_certificate(certificate));
                checkpoint.into_iter().for_each(|checkpoint| self.learn_checkpoint(checkpoint));
                self.note_view(from, left);
                self.handle_reply(from, view, slot, hash);
                if asks {
                    self.send_progress(from, false);
                }
            }
            Message::Body { body, batch } => self.handle_body(from, body, batch),
            Message::Holding { body, signature } => self.handle_holding(from, body, signature),
            Message::FetchBody { body } => self.handle_fetch_body(from, &body),
            Message::Copy(request) => self.handle_copy(&request),
            Message::Confirm { epoch, vote, asks } => {
                self.receiver.handle_confirm(self.now, epoch, &vote);
                if asks && epoch == self.receiver.epoch() {
                    let own = self.receiver.own_confirm(vote.from).cloned();
                    own.into_iter().for_each(|vote| self.send(from, Message::Confirm { epoch, vote, asks: false }));
                }
            }
        }
    }

    /// E3: installs the key of an epoch's sequencer.
    fn handle_sequencer(&mut self, key: &SequencerKey) {
        let Ok(suite) = Suite::try_from(key.suite) else {
            return self.note("sequencer", format!("unknown suite {}", key.suite));
        };
        if key.group != self.config.group {
            return self.note("sequencer", format!("key of group {}, expected {}", key.group, self.config.group));
        }
        let parsed = match suite.kind() {
            Kind::Hm => {
                let (chain_id, group, receiver) = (self.committee.chain_id(), key.group, self.me.0);
                TagKey::from_bytes(TagScope { chain_id, group, epoch: key.epoch, receiver, suite }, &key.key).map(EpochKey::Hm)
            }
            Kind::Pk => VerifyingKey::from_bytes(suite, &key.key).map(EpochKey::Pk),
        };
        match parsed {
            Ok(parsed) => self.receiver.install(self.now, key.epoch, parsed),
            Err(error) => self.note("sequencer", format!("key of epoch {}: {error}", key.epoch)),
        }
    }

    fn handle_deadline(&mut self) {
        self.receiver.tick(self.now);
        if self.resend_at <= self.now {
            self.resend_at = TimestampMs(self.now.0.saturating_add(self.config.query_ms));
            self.resend();
        }
        self.drive_requests();
    }

    /// Repeats what may have been lost, and checks the timers that suspect someone.
    fn resend(&mut self) {
        self.ask_for_sequencer();
        self.resend_gaps();
        self.resend_progress();
        self.resend_bodies();
        self.check_timers();
        self.resend_view_change();
        self.claim_after_lost_disk();
    }

    fn make_progress(&mut self) {
        self.drain_receiver();
        self.advance_log();
        self.drive_gaps();
        self.apply_drops();
        self.take_pending_checkpoint();
        self.try_start_view();
        self.update_finality();
        self.execute();
        self.regain_votes();
        self.drive_requests();
    }

    fn handle_durable(&mut self, ticket: Ticket) {
        match self.waiting.remove(&ticket) {
            // An equal entry may have been rolled back and appended again: then its newest record counts.
            Some(AfterDurable::Entry(slot)) if self.journal.is_newest(slot, ticket) => self.log.mark_durable(slot),
            Some(AfterDurable::GapDrop(view, slot, signature)) => self.send_gap_drop(view, slot, signature),
            Some(AfterDurable::Voted(view, slot)) => self.handle_voted(view, slot),
            Some(AfterDurable::Prepared(view, slot)) => self.handle_prepared(view, slot),
            Some(AfterDurable::Left(view)) => self.handle_left(view),
            Some(AfterDurable::Confirm(confirmed)) => {
                self.has_confirmed = Some(confirmed);
                self.send_view_confirm(confirmed);
            }
            Some(AfterDurable::Entered(view)) => self.has_entered |= view == self.view(),
            Some(AfterDurable::Promises(ticket)) => self.release_records(ticket),
            Some(AfterDurable::Body(body)) => self.handle_body_durable(body),
            Some(AfterDurable::AomConfirm(epoch, vote)) => {
                self.receiver.handle_confirm(self.now, epoch, &vote);
                self.broadcast(&Message::Confirm { epoch, vote, asks: false });
            }
            Some(AfterDurable::Entry(_)) | None => {}
        }
    }

    pub(crate) fn persist(&mut self, record: &Record, after: Option<AfterDurable>) -> Ticket {
        let ticket = self.journal.take();
        self.waiting.extend(after.map(|after| (ticket, after)));
        self.outputs.push_back(Output::Persist(ticket, record.encode()));
        ticket
    }

    pub(crate) fn send(&mut self, to: ValidatorIndex, message: Message) {
        self.send_to(Recipients::One(to), &message);
    }

    pub(crate) fn broadcast(&mut self, message: &Message) {
        self.send_to(Recipients::All, message);
    }

    pub(crate) fn send_to(&mut self, to: Recipients, message: &Message) {
        if to != Recipients::One(self.me) {
            self.outputs.push_back(Output::Send { to, message: message.encode() });
        }
    }

    /// The next other member, in turn.
    pub(crate) fn take_peer(&mut self) -> Option<ValidatorIndex> {
        let size = self.committee.size();
        self.next_peer = (self.next_peer + 1) % size;
        if self.next_peer == self.me.as_usize() {
            self.next_peer = (self.next_peer + 1) % size;
        }
        (size > 1).then_some(ValidatorIndex(self.next_peer as u16))
    }

    pub(crate) fn note(&mut self, name: &str, detail: String) {
        self.outputs.push_back(Output::Trace(TraceEvent::note(name, detail)));
    }

    /// A certificate contradicts a final slot.
    pub(crate) fn halt(&mut self, detail: String) {
        self.is_halted = true;
        self.note("agreement-lost", detail);
    }

    pub(crate) fn requeue(&mut self, batch: Bytes) {
        if !batch.is_empty() {
            self.outputs.push_back(Output::Requeue(Batch { bytes: batch }));
        }
    }

    /// The view, and the last slots of the log, of its durable part, of its final part, and that was executed.
    pub fn progress(&self) -> (View, [Slot; 4]) {
        (self.view(), [self.log.end(), self.log.durable(), self.log.finalized(), self.order.slot()])
    }

    /// Returns true while this replica changes its view.
    pub fn is_changing_view(&self) -> bool {
        !self.is_normal()
    }

    /// The view that a member would move to, as far as this replica knows.
    pub fn suspects(&self, member: ValidatorIndex) -> Option<View> {
        self.suspects.get(&member).copied()
    }

    /// The log entry of a slot that is still kept.
    pub fn entry(&self, slot: Slot) -> Option<&crate::message::Entry> {
        self.log.get(slot)
    }

    /// Log-hash after a slot that is still kept.
    pub fn log_hash(&self, slot: Slot) -> Option<B256> {
        self.log.hash(slot)
    }

    /// Number of items that must stay bounded.
    pub fn footprint(&self) -> usize {
        self.log.count()
            + self.receiver.footprint()
            + self.gaps.len()
            + self.hints.count()
            + self.replies.count()
            + self.sync.count()
            + self.goal.as_ref().map_or(0, |goal| goal.entries.len())
            + self.requests.count()
            + self.bodies.count()
            + self.waiting.len()
    }

    /// Describes the state for debugging.
    pub fn describe(&self) -> String {
        let (view, [end, durable, finalized, executed]) = self.progress();
        let gaps: Vec<_> = self.gaps.iter().map(|(slot, gap)| format!("{}: {}", slot.0, gap.describe())).collect();
        format!(
            "view {view}, target {:?}, left {}, silent before {}, log {}..{} durable {} final {} executed {}; receiver epoch {} next {} highest {} {:?}; gaps {gaps:?}; blocked {:?}; goal {:?}; suspects {:?}; replies {}; {}; {}",
            self.promises.target,
            self.has_left,
            self.promises.silent_before,
            self.log.floor().0,
            end.0,
            durable.0,
            finalized.0,
            executed.0,
            self.receiver.epoch(),
            self.receiver.next(),
            self.receiver.highest(),
            self.receiver.counters(),
            self.promises.blocked,
            self.goal.as_ref().map(|goal| goal.slot),
            self.suspects,
            self.replies.describe(),
            self.requests.describe(),
            self.bodies.describe(),
        )
    }
}
