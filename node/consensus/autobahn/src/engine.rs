//! The engine's state machine. It passes inputs to lanes and slots, turns their effects into outputs, and delivers commits.
//!
//! Each step passes the input to the part that handles it, then calls [`Autobahn::settle`]: lanes and slots exchange effects
//! until neither has more, and commits whose cars are held are executed. Outputs are queued for `poll`.

use crate::{
    config::Config,
    execution::Commit,
    journal::{Journal, Record, Subject},
    keys::{Signatures, Signer},
    lanes::{self, Lanes, Purpose},
    message::{Availability, Context, Message, NamedCar, Position, Slot, Tip},
    order::Order,
    records::{Found, Waiting},
    repair::{self, Repair},
    rules::Schedule,
    serve::{Question, Service},
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
    pub(crate) waiting: BTreeMap<Ticket, Waiting>,
    /// The last slots with the executed positions of all lanes. When a slot is dropped, so are the cars up to its positions.
    pub(crate) floors: VecDeque<(Slot, Vec<Position>)>,
    /// The last slot that a quorum is known to have executed. Not recorded: after a restart it is 0 until the next certificate.
    pub(crate) certified: Slot,
    /// True if two values of one slot are certified, so more than f validators are faulty.
    pub(crate) is_broken: bool,
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

    fn vouches(&self, tip: &Tip) -> bool {
        Lanes::vouches(self, tip)
    }

    fn learn(&mut self, certificate: &Availability) {
        Lanes::learn(self, certificate);
    }
}

impl Engine for Autobahn {
    fn handle(&mut self, now: TimestampMs, input: Input) {
        self.now = self.now.max(now);
        match input {
            Input::Batch(batch) => self.lanes.take_batch(self.now, batch),
            Input::Message { from, message } => {
                if let Ok(message) = message.0.downcast::<Checked>() {
                    // Usually the only reference, so this does not clone.
                    self.take_message(from, Arc::unwrap_or_clone(message));
                }
            }
            Input::Durable(ticket) => self.take_durable(ticket),
            Input::Deadline => self.take_deadline(),
            Input::PeerUp(peer) => self.meet(peer),
            // Requests lost with the connection are repeated by timers, which choose other peers by themselves.
            Input::PeerDown(peer) => self.tell_slots(slots::Input::PeerDown(peer)),
            Input::Certified(commit) => self.take_certified(Slot(commit.0)),
        }
        self.settle();
    }

    fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn deadline(&self) -> Option<TimestampMs> {
        let timers = [self.lanes.deadline(), self.slots.deadline(), self.repair_deadline(), self.service.deadline()];
        timers.into_iter().flatten().min()
    }
}

impl Autobahn {
    /// Creates an engine, new or recovered (R1, R4): rebuilds lanes and slots from the records, continues the sequence after
    /// `resume`, and requests the peers' progress.
    pub fn new(setup: Setup) -> Self {
        let Setup { config, committee, signer, signatures, seed, records, resume, now } = setup;
        let context = Context::new(&committee);
        let schedule = Schedule::new(&committee, &config);
        let order = Order::new(&resume, &committee, schedule, config.open_slots, config.genesis_time);
        let me = signer.as_ref().map(|signer| signer.index());
        let mut journal = Journal::new(now);
        let mut found = Found::default();
        let mut records = records;
        records.sort_unstable_by_key(|(ticket, _)| *ticket);
        for (ticket, record) in records {
            let record = wire::decode(&record).expect("a record was encoded by this engine and its log checks sums");
            journal.recovered(ticket, found.take(record, &context));
        }
        // The validator forgot what it signed if its records contain no life although there are commits or a silence to keep.
        // Its last records are also missing if own cars were executed that the records do not contain.
        let blank = !found.has_life;
        let is_cut = me.is_some_and(|me| order.executed()[me.as_usize()].position > found.highest_car(me));
        let forgot = blank && (resume.index.0 > 0 || found.silence.is_some()) || is_cut && found.silence.is_none();
        let past = repair::Past { forgot, blank, birth: found.birth, met: found.met, silence: found.silence };
        let open = found.slots.into_iter().filter(|record| record.slot > order.slot()).collect();
        let lanes = Lanes::new(lanes::Setup {
            config: config.clone(),
            committee: committee.clone(),
            signer: signer.clone(),
            signatures: signatures.clone(),
            executed: order.executed().to_vec(),
            records: found.cars,
        });
        let slots = Slots::new(slots::Setup {
            config: config.clone(),
            committee: committee.clone(),
            signer: signer.clone(),
            signatures: signatures.clone(),
            committed: order.slot(),
            anchors: order.anchors().to_vec(),
            commits: found.commits.values().map(|commit| ((*commit.cut).clone(), commit.certificate.clone())).collect(),
            records: open,
            now,
        });
        let floors = VecDeque::from([(order.slot(), order.executed().iter().map(|tip| tip.position).collect())]);
        let mut engine = Self {
            repair: Repair::new(seed, past, committee.size(), now),
            reader: AutobahnVerifier::new(config.clone(), committee.clone(), signatures),
            service: Service::default(),
            commits: found.commits,
            waiting: BTreeMap::new(),
            certified: Slot(0),
            is_broken: false,
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
        engine.start_greeting();
        engine.settle();
        engine
    }

    pub(crate) fn me(&self) -> Option<ValidatorIndex> {
        self.signer.as_ref().map(|signer| signer.index())
    }

    fn take_message(&mut self, from: ValidatorIndex, message: Checked) {
        // Until it knows its own past, a validator handles only status messages and lane certificates. After a power cut in
        // this state it must detect the loss again, so its disk must still be as empty as before.
        if !self.repair.may_act() && !matches!(message, Checked::Standing { .. } | Checked::Available(_)) {
            return;
        }
        let now = self.now;
        match message {
            Checked::Car(car) => self.lanes.take_car(now, &car),
            Checked::Held { tip, share } => self.lanes.take_vote(now, from, tip, share),
            Checked::Available(certificate) => self.lanes.learn(&certificate),
            Checked::FetchCars { tip, above } => self.take_question(from, Question::Cars { tip, above }),
            Checked::Cars { tip, unread } => self.take_cars(from, tip, &unread),
            Checked::Slots(_) | Checked::Commits(_) if self.is_left_behind() => {}
            Checked::Slots(message) => self.tell_slots(slots::Input::Message { from, message }),
            Checked::Standing { standing, yours } => self.take_standing(from, &standing, yours.as_ref()),
            Checked::FetchCommits { above } => self.take_question(from, Question::Commits { above }),
            Checked::Commits(commits) => self.take_commits(from, commits),
        }
    }

    /// Drops an unsolicited response unread, because reading takes a microsecond per car.
    fn take_cars(&mut self, from: ValidatorIndex, tip: Tip, unread: &Bytes) {
        let owed = self.lanes.cars_owed(from, tip.lane);
        if owed == 0 {
            return;
        }
        // An invalid response counts as an empty one.
        let cars = self.reader.read_cars(unread, owed).unwrap_or_default();
        self.lanes.take_cars(self.now, from, tip, &cars);
        self.is_fetch_due = true;
    }

    pub(crate) fn tell_slots(&mut self, input: slots::Input) {
        self.slots.handle(self.now, &mut self.lanes, input);
    }

    fn take_deadline(&mut self) {
        self.is_fetch_due = true;
        self.drop_bodies();
        self.lanes.tick(self.now);
        if self.slots.deadline().is_some_and(|at| at <= self.now) {
            self.tell_slots(slots::Input::Deadline);
        }
        self.repair_if_due();
        self.serve_waiting();
        self.release_records();
    }

    // ---- after every input ---------------------------------------------------------------------------------------------

    fn settle(&mut self) {
        loop {
            self.notice_lost_cars();
            if self.repair.may_act() {
                self.lanes.build(self.now);
            }
            let mut quiet = true;
            while let Some(effect) = self.lanes.poll() {
                quiet = false;
                self.perform_for_lanes(effect);
            }
            if self.lanes.take_changed() {
                self.tell_slots(slots::Input::Lanes);
            }
            while let Some(effect) = self.slots.poll() {
                quiet = false;
                self.perform_for_slots(effect);
            }
            quiet &= !self.execute_next();
            if quiet {
                break;
            }
        }
    }

    fn perform_for_lanes(&mut self, effect: lanes::Effect) {
        match effect {
            lanes::Effect::Persist(write) => self.persist_for_lanes(write),
            lanes::Effect::Send { to, message } => self.outputs.push_back(Output::Send { to, message: message.encode() }),
            lanes::Effect::Asked(tip) => self.take_question(tip.lane, Question::Vote { tip }),
            lanes::Effect::WantBatch => {
                let (bytes, gas) = (self.config.batch_bytes, self.config.batch_gas);
                self.outputs.push_back(Output::WantBatch { bytes, gas });
            }
            lanes::Effect::Built(car) => self.trace(TraceEvent::Proposed(car.vertex())),
            lanes::Effect::Taken(car) => self.tell_taken(&car),
            lanes::Effect::Certified { tip, signers } => {
                self.trace(TraceEvent::Held { vertex: tip.into(), holders: signers });
            }
            lanes::Effect::Requeue(batch) => self.outputs.push_back(Output::Requeue(batch)),
            lanes::Effect::Accuse(validator, cars) => {
                let evidence = cars.iter().map(|car| wire::encode(car.signed()).into()).collect();
                self.outputs.push_back(Output::Accuse { validator, offence: Offence::Equivocation, evidence });
            }
        }
    }

    fn tell_taken(&mut self, car: &NamedCar) {
        self.trace(TraceEvent::Accepted(car.vertex()));
        if !car.batch().is_empty() && car.position() > self.order.executed()[car.lane().as_usize()].position {
            let batch = Batch { bytes: car.batch().clone() };
            self.outputs.push_back(Output::Available { author: car.lane(), batch });
        }
    }

    fn perform_for_slots(&mut self, effect: slots::Effect) {
        match effect {
            slots::Effect::Persist { id, record } => {
                self.persist(Subject::Slot(record.slot), &Record::Slot(record), Some(Waiting::Slots(id)));
            }
            slots::Effect::Send { to, message } => self.outputs.push_back(Output::Send { to, message: message.encode() }),
            slots::Effect::Committed { cut, certificate } => self.take_commit(cut, certificate),
            slots::Effect::FetchTip { slot, tip, from } => self.lanes.fetch_body(self.now, tip, from, Purpose(slot.0)),
            slots::Effect::Sync { available, .. } => {
                // Y2, and Y4 for the cars below an optimistic tip.
                for certificate in available {
                    self.lanes.prefetch(self.now, certificate.tip, &certificate.proof.signers);
                }
            }
            slots::Effect::Accuse { validator, evidence } => {
                let evidence = evidence.iter().map(|prepare| wire::encode(prepare).into()).collect();
                self.outputs.push_back(Output::Accuse { validator, offence: Offence::Equivocation, evidence });
            }
            slots::Effect::LostVote { slot } => self.notice_lost_vote(slot),
            slots::Effect::Behind { slot } => self.learn_of_commit(None, slot),
            slots::Effect::Asked { peer, question } => self.take_question(peer, Question::Slots(question)),
            slots::Effect::Lagging { peer, slot } => {
                self.take_question(peer, Question::Commits { above: Slot(slot.0.saturating_sub(1)) });
            }
            slots::Effect::Broken { certificates } => {
                self.is_broken = true;
                let detail = format!("more than {} validators are faulty: {certificates:?}", self.committee.faulty());
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
