//! The engine's state machine. It passes inputs to lanes and slots, turns their effects into outputs, and delivers commits.
//!
//! Each step passes the input to the part that handles it, then calls [`Autobahn::make_progress`]: lanes and slots exchange effects
//! until neither has more, and commits whose cars are held are executed. Outputs are queued for `poll`.

use crate::{
    config::Config,
    execution::Commit,
    journal::{AfterDurable, Journal, RecordKey},
    keys::{Signatures, Signer},
    lanes::{self, Lanes, Purpose},
    message::{Availability, Context, HashedCar, Message, Position, Slot, Tip},
    order::Order,
    record::Record,
    records::RecoveredRecords,
    repair::{self, Repair},
    rules::Schedule,
    serve::{Request, Service},
    slots::{self, Slots},
    verify::{AutobahnVerifier, Checked},
};
use corniche_engine::{Batch, Committee, Engine, Input, Offence, Output, Recipients, Resume, Ticket, TraceEvent};
use corniche_types::{Bytes, TimestampMs, ValidatorIndex, wire};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// Arguments of [`Autobahn::new`].
pub struct Setup {
    pub config: Config,
    pub committee: Committee,
    /// This validator's keys. Without them the engine follows and responds to requests, but never votes or proposes.
    pub signer: Option<Arc<dyn Signer>>,
    pub signatures: Arc<dyn Signatures>,
    /// Different at every start.
    pub seed: u64,
    /// Records that were persisted and not released, in any order.
    pub records: Vec<(Ticket, Bytes)>,
    /// True if the caller knows that this validator never signed anything, on any disk. Then commits without records are a first
    /// incarnation that followed others' blocks, and not a lost disk (R5).
    pub unsigned: bool,
    /// Position in the sequence of commits; may be ahead of the records.
    pub resume: Resume,
    pub now: TimestampMs,
}

/// The Autobahn engine. See the crate documentation.
pub struct Autobahn {
    pub(crate) config: Config,
    pub(crate) committee: Committee,
    pub(crate) now: TimestampMs,
    pub(crate) lanes: Lanes,
    pub(crate) slots: Slots,
    pub(crate) order: Order,
    pub(crate) repair: Repair,
    pub(crate) service: Service,
    /// Commits that are not executed, and executed ones that are kept for peers.
    pub(crate) commits: BTreeMap<Slot, Commit>,
    pub(crate) schedule: Schedule,
    /// Reads responses that were requested.
    reader: AutobahnVerifier,
    pub(crate) context: Context,
    pub(crate) signer: Option<Arc<dyn Signer>>,
    pub(crate) journal: Journal,
    /// Work that waits until a record is durable, by the record's ticket.
    pub(crate) waiting: BTreeMap<Ticket, AfterDurable>,
    /// The last slots with the executed positions of all lanes. When a slot is dropped, so are the cars up to its positions.
    pub(crate) floors: VecDeque<(Slot, Vec<Position>)>,
    /// The last slot that a quorum is known to have executed. Not recorded: after a restart it is 0 until the next certificate.
    pub(crate) certified: Slot,
    /// True if two values of one slot are certified, so validators with more than F votes are faulty.
    pub(crate) is_halted: bool,
    /// True if committed slots may need new fetches.
    pub(crate) is_fetch_due: bool,
    pub(crate) outputs: VecDeque<Output>,
}

impl slots::Lanes for Lanes {
    fn certified(&self, lane: ValidatorIndex) -> Option<&Availability> {
        Lanes::certified(self, lane)
    }

    fn optimistic(&self, lane: ValidatorIndex) -> Option<(Tip, Option<&Availability>)> {
        Lanes::optimistic(self, lane)
    }

    fn is_certified(&self, tip: &Tip) -> bool {
        Lanes::is_certified(self, tip)
    }

    fn may_vote_strongly(&self, tip: &Tip) -> bool {
        Lanes::may_vote_strongly(self, tip)
    }

    fn learn(&mut self, certificate: &Availability) {
        Lanes::learn(self, certificate);
    }
}

impl Engine for Autobahn {
    fn handle(&mut self, now: TimestampMs, input: Input) {
        self.now = self.now.max(now);
        match input {
            Input::Batch(batch) => self.lanes.handle_batch(self.now, batch),
            Input::Message { from, message } => {
                if let Ok(message) = message.0.downcast::<Checked>() {
                    // Usually the only reference, so this does not clone.
                    self.handle_message(from, Arc::unwrap_or_clone(message));
                }
            }
            Input::Durable(ticket) => self.handle_durable(ticket),
            Input::Deadline => self.handle_deadline(),
            Input::PeerUp(peer) => self.handle_peer_up(peer),
            // Requests lost with the connection are repeated by timers, which choose other peers by themselves.
            Input::PeerDown(peer) => self.step_slots(slots::Input::PeerDown(peer)),
            Input::Certified(commit) => self.handle_certified(Slot(commit.0)),
            Input::Packet(_) | Input::Sequencer(_) => {}
        }
        self.make_progress();
    }

    fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn deadline(&self) -> Option<TimestampMs> {
        let timers = [self.lanes.deadline(), self.slots.deadline(), self.repair_deadline(), self.service.deadline()];
        timers.into_iter().flatten().min()
    }

    fn clock_leads(&self) -> Vec<(ValidatorIndex, u64)> {
        self.slots.clock_leads()
    }
}

impl Autobahn {
    /// Creates an engine, new or recovered (R1, R4): rebuilds lanes and slots from the records, continues the sequence after
    /// `resume`, and requests the peers' progress.
    pub fn new(setup: Setup) -> Self {
        let Setup { config, committee, signer, signatures, seed, records, unsigned, resume, now } = setup;
        let context = Context::new(&committee);
        let schedule = Schedule::new(&committee, &config);
        let start = (config.genesis_time, config.genesis_randomness);
        let order = Order::new(&resume, &committee, schedule.clone(), config.open_slots, start);
        let me = signer.as_ref().map(|signer| signer.index());
        let mut journal = Journal::new(now);
        let mut recovered = RecoveredRecords::default();
        let mut records = records;
        records.sort_unstable_by_key(|(ticket, _)| *ticket);
        for (ticket, record) in records {
            let record = wire::decode(&record).expect("a record was encoded by this engine, and its log verifies checksums");
            journal.recovered(ticket, recovered.apply(record, &context));
        }
        // A record of a disk on which nothing had been signed is as good as the caller's knowledge: signatures need a later record.
        let is_unsigned = (unsigned || recovered.is_first_disk) && recovered.abstention.is_none();
        // The validator forgot what it signed if its records contain no incarnation although there are commits or an abstention to keep.
        // Its last records are also missing if own cars were executed that the records do not contain.
        let no_records = !recovered.has_signing_record;
        let is_cut = me.is_some_and(|me| order.executed()[me.as_usize()].position > recovered.highest_car(me));
        let lost_records = no_records && !is_unsigned && (!resume.is_genesis() || recovered.abstention.is_some())
            || is_cut && recovered.abstention.is_none();
        let past = repair::RecordedHistory {
            lost_records,
            no_records,
            disk_id: recovered.disk_id,
            is_unsigned,
            peer_disk: recovered.peer_disk,
            abstention: recovered.abstention,
        };
        let open = recovered.slots.into_iter().filter(|record| record.slot > order.slot()).collect();
        let lanes = Lanes::new(lanes::Setup {
            config: config.clone(),
            committee: committee.clone(),
            signer: signer.clone(),
            signatures: signatures.clone(),
            executed: order.executed().to_vec(),
            records: recovered.cars,
        });
        let slots = Slots::new(slots::Setup {
            config: config.clone(),
            committee: committee.clone(),
            signer: signer.clone(),
            signatures: signatures.clone(),
            committed: order.slot(),
            anchors: order.anchors().to_vec(),
            commits: recovered.commits.values().map(|commit| ((*commit.cut).clone(), commit.certificate.clone())).collect(),
            records: open,
            now,
        });
        let floors = VecDeque::from([(order.slot(), order.executed().iter().map(|tip| tip.position).collect())]);
        let mut engine = Self {
            repair: Repair::new(seed, past, committee.size(), now),
            reader: AutobahnVerifier::new(config.clone(), committee.clone(), signatures),
            service: Service::default(),
            commits: recovered.commits,
            waiting: BTreeMap::new(),
            certified: Slot(0),
            is_halted: false,
            is_fetch_due: true,
            outputs: VecDeque::new(),
            config,
            committee,
            now,
            lanes,
            slots,
            order,
            context,
            signer,
            schedule,
            journal,
            floors,
        };
        engine.start_recovery();
        engine.make_progress();
        engine
    }

    pub(crate) fn me(&self) -> Option<ValidatorIndex> {
        self.signer.as_ref().map(|signer| signer.index())
    }

    fn handle_message(&mut self, from: ValidatorIndex, message: Checked) {
        // Until it knows its own past, a validator handles only status messages and lane certificates. After a power cut in
        // this state it must detect the loss again, so its disk must still be as empty as before.
        if !self.repair.may_act() && !matches!(message, Checked::Status { .. } | Checked::Available(_)) {
            return;
        }
        let now = self.now;
        match message {
            Checked::Car(car) => self.lanes.handle_car(now, &car),
            Checked::CarVote { tip, share } => self.lanes.handle_vote(now, from, tip, share),
            Checked::Available(certificate) => self.lanes.learn(&certificate),
            Checked::FetchCars { tip, above } => self.handle_request(from, Request::Cars { tip, above }),
            Checked::Cars { tip, unread } => self.handle_cars(from, tip, &unread),
            Checked::Slots(_) | Checked::Commits(_) if self.is_left_behind() => {}
            Checked::Slots(message) => self.step_slots(slots::Input::Message { from, message }),
            Checked::Status { status, receiver_car } => self.handle_status(from, &status, receiver_car.as_ref()),
            Checked::FetchCommits { above } => self.handle_request(from, Request::Commits { above }),
            Checked::Commits(commits) => self.handle_commits(from, commits),
        }
    }

    /// Drops an unsolicited response unread, because reading takes a microsecond per car.
    fn handle_cars(&mut self, from: ValidatorIndex, tip: Tip, unread: &Bytes) {
        let owed = self.lanes.cars_owed(from, tip.lane);
        if owed == 0 {
            return;
        }
        // An invalid response counts as an empty one.
        let cars = self.reader.read_cars(unread, owed).unwrap_or_default();
        self.lanes.handle_cars(self.now, from, tip, &cars);
        self.is_fetch_due = true;
    }

    pub(crate) fn step_slots(&mut self, input: slots::Input) {
        self.slots.handle(self.now, &mut self.lanes, input);
    }

    fn handle_deadline(&mut self) {
        self.is_fetch_due = true;
        self.drop_bodies();
        self.lanes.tick(self.now);
        if self.slots.deadline().is_some_and(|at| at <= self.now) {
            self.step_slots(slots::Input::Deadline);
        }
        self.repair_if_due();
        self.serve_waiting();
        self.release_records();
    }

    // ---- after every input ---------------------------------------------------------------------------------------------

    fn make_progress(&mut self) {
        loop {
            self.detect_lost_cars();
            if self.repair.may_act() {
                self.lanes.build(self.now);
            }
            let mut quiet = true;
            while let Some(effect) = self.lanes.poll() {
                quiet = false;
                self.perform_lane_effect(effect);
            }
            if self.lanes.take_changed() {
                self.step_slots(slots::Input::Lanes);
            }
            while let Some(effect) = self.slots.poll() {
                quiet = false;
                self.perform_slot_effect(effect);
            }
            quiet &= !self.execute_next();
            if quiet {
                break;
            }
        }
    }

    fn perform_lane_effect(&mut self, effect: lanes::Effect) {
        match effect {
            lanes::Effect::Persist(write) => self.persist_lane_write(write),
            lanes::Effect::Send { to, message } => self.outputs.push_back(Output::Send { to, message: message.encode() }),
            lanes::Effect::CarResent(tip) => self.handle_request(tip.lane, Request::Vote { tip }),
            lanes::Effect::WantBatch => {
                let (bytes, gas) = (self.config.batch_bytes, self.config.batch_gas);
                self.outputs.push_back(Output::WantBatch { bytes, gas });
            }
            lanes::Effect::Built(car) => self.trace(TraceEvent::Proposed(car.vertex())),
            lanes::Effect::Accepted(car) => self.trace_accepted(&car),
            lanes::Effect::Certified { tip, signers } => {
                self.trace(TraceEvent::Held { vertex: tip.into(), holders: signers });
            }
            lanes::Effect::Requeue(batch) => self.outputs.push_back(Output::Requeue(batch)),
            lanes::Effect::Accuse(validator, cars) => {
                let evidence = cars.iter().map(|car| wire::encode(car.signed()).into()).collect();
                self.outputs.push_back(Output::Accuse { validator, offence: Offence::Equivocation, evidence, proof: None });
            }
        }
    }

    fn trace_accepted(&mut self, car: &HashedCar) {
        self.trace(TraceEvent::Accepted(car.vertex()));
        if !car.batch().is_empty() && car.position() > self.order.executed()[car.lane().as_usize()].position {
            let batch = Batch { bytes: car.batch().clone() };
            self.outputs.push_back(Output::Available { author: car.lane(), batch });
        }
    }

    fn perform_slot_effect(&mut self, effect: slots::Effect) {
        match effect {
            slots::Effect::Persist { id, record } => {
                self.persist(RecordKey::Slot(record.slot), &Record::Slot(record), Some(AfterDurable::Slots(id)));
            }
            slots::Effect::Send { to, message } => self.outputs.push_back(Output::Send { to, message: message.encode() }),
            slots::Effect::Committed { cut, certificate } => self.handle_commit(cut, certificate),
            slots::Effect::FetchTip { slot, tip, from } => self.lanes.fetch_body(self.now, tip, from, Purpose(slot.0)),
            slots::Effect::Sync { available, .. } => {
                // Y2, and Y4 for the cars below an optimistic tip.
                for certificate in available {
                    self.lanes.prefetch(self.now, certificate.tip, &certificate.proof.signers);
                }
            }
            slots::Effect::Accuse { validator, evidence } => {
                let proof = self.context.contradiction(&evidence).and_then(|it| self.committee.evidence(validator, it));
                let evidence = evidence.iter().map(|prepare| wire::encode(prepare).into()).collect();
                self.outputs.push_back(Output::Accuse { validator, offence: Offence::Equivocation, evidence, proof });
            }
            slots::Effect::LostVote { slot } => self.detect_lost_vote(slot),
            slots::Effect::Behind { slot } => self.note_commit(None, slot),
            slots::Effect::Requested { peer, request } => self.handle_request(peer, Request::Slots(request)),
            slots::Effect::Lagging { peer, slot } => {
                self.handle_request(peer, Request::Commits { above: Slot(slot.0.saturating_sub(1)) });
            }
            slots::Effect::ConflictingCommits { certificates } => {
                self.is_halted = true;
                let detail =
                    format!("validators with more than {} votes are faulty: {certificates:?}", self.committee.max_faulty());
                self.trace(TraceEvent::note("agreement-lost", detail));
            }
            slots::Effect::Trace(event) => self.trace(event),
        }
    }

    // ---- outputs -------------------------------------------------------------------------------------------------------

    /// Sends a message to a peer. Returns its size in bytes; 0 if the recipient is this validator.
    pub(crate) fn send(&mut self, to: ValidatorIndex, message: &Message) -> usize {
        if Some(to) == self.me() {
            return 0;
        }
        let message = message.encode();
        let bytes = message.len();
        self.outputs.push_back(Output::Send { to: Recipients::One(to), message });
        bytes
    }

    pub(crate) fn trace(&mut self, event: TraceEvent) {
        self.outputs.push_back(Output::Trace(event));
    }

    /// Highest executed, certified and supported positions of a lane on this validator.
    pub fn positions(&self, lane: ValidatorIndex) -> [Position; 3] {
        self.lanes.positions(lane)
    }

    /// Bytes of a lane's cars above its highest certificate.
    pub fn uncertified_bytes(&self, lane: ValidatorIndex) -> usize {
        self.lanes.uncertified_bytes(lane)
    }

    /// Numbers of held items that must stay bounded: in lanes, in slots, commits, records, requests.
    pub fn footprint(&self) -> [usize; 5] {
        [self.lanes.footprint(), self.slots.footprint(), self.commits.len(), self.journal.count(), self.service.count()]
    }

    /// Describes the state for debugging.
    pub fn describe(&self) -> String {
        let (committed, executed) = (self.slots.committed().0, self.order.slot().0);
        let lanes: Vec<_> = self.committee.indices().map(|lane| self.positions(lane).map(|position| position.0)).collect();
        format!(
            "committed {committed}, executed {executed}, {}; lanes {:?}; {}",
            self.repair.describe(),
            lanes,
            self.slots.describe()
        )
    }
}
