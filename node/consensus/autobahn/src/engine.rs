//! The state machine: inputs to lanes and slots, what they owe to outputs, committed cuts to deliveries.
//!
//! One step is: hand the input to the part it is for, then [`Autobahn::settle`]: let lanes and slots hear of each other until both are
//! quiet, execute what is committed and held. What a step owes the world is queued and taken by `poll`.

use crate::{
    config::Config,
    journal::{Journal, Record, Subject},
    keys::{Signatures, Signer},
    lanes::{self, Lanes, Purpose, Recovered, Write},
    message::{Availability, CommitQc, Context, Cut, Message, NamedCar, Position, Slot, Tip},
    order::Order,
    repair::Repair,
    rules::Schedule,
    serve::{Question, Service},
    slots::{self, RecordId, SlotRecord, Slots},
    verify::Checked,
};
use corniche_engine::{Batch, Committee, Engine, Input, Offence, Output, Recipients, Resume, Ticket, TraceEvent};
use corniche_types::{Bytes, TimestampMs, ValidatorIndex, wire};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

/// Committed slots whose cars are fetched at once, in the order of slots (row 36: what comes first is executed first).
const FETCH_AHEAD: u64 = 16;

/// Everything an engine is built from.
pub struct Setup {
    pub config: Config,
    pub committee: Committee,
    /// This validator's keys; without them the engine follows and answers, but never votes or proposes.
    pub signer: Option<Arc<dyn Signer>>,
    pub signatures: Arc<dyn Signatures>,
    /// Different at every start.
    pub seed: u64,
    /// The records persisted and not released, in any order.
    pub records: Vec<(Ticket, Bytes)>,
    /// Where the sequence of commits stands; may be ahead of the records.
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
    /// Commits that are not executed, and executed ones that are kept for others.
    pub(crate) commits: BTreeMap<Slot, Commit>,
    schedule: Schedule,
    me: Option<ValidatorIndex>,
    journal: Journal,
    /// What waits for a record, by its ticket.
    waiting: BTreeMap<Ticket, Waiting>,
    /// Executed positions per lane after each of the last slots: cars up to there are forgotten when the slot is.
    floors: VecDeque<Vec<Position>>,
    /// More validators are faulty than may be: two values of one slot are certified.
    is_broken: bool,
    outputs: VecDeque<Output>,
}

/// The value of a slot.
pub(crate) struct Commit {
    pub cut: Arc<Cut>,
    pub certificate: CommitQc,
    is_durable: bool,
    is_fetched: bool,
}

enum Waiting {
    Lanes(Write),
    Slots(RecordId),
    Commit(Slot),
    Born,
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
                if let Some(message) = message.0.downcast_ref::<Checked>() {
                    self.take_message(from, message);
                }
            }
            Input::Durable(ticket) => self.take_durable(ticket),
            Input::Deadline => self.take_deadline(),
            Input::PeerUp(peer) => self.greet(peer),
            // What was lost with the connection is asked for again; timers turn to others by themselves.
            Input::PeerDown(_) => {}
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
    /// Recovery is construction (R1, R4): rebuilds lanes and slots from the records, continues the sequence after `resume`, and asks
    /// the peers what they know.
    pub fn new(setup: Setup) -> Self {
        let Setup { config, committee, signer, signatures, seed, records, resume, now } = setup;
        let context = Context::new(&committee);
        let schedule = Schedule::new(&committee, &config);
        let order = Order::new(&resume, &committee, schedule, config.open_slots, config.genesis_time);
        // A chain that has commits and a validator that has no record: what it signed is forgotten.
        let (blank, forgot) = (records.is_empty(), records.is_empty() && resume.index.0 > 0);
        let me = signer.as_ref().map(|signer| signer.index());
        let mut journal = Journal::new(now);
        let mut found = Found::default();
        let mut records = records;
        records.sort_unstable_by_key(|(ticket, _)| *ticket);
        for (ticket, record) in records {
            let record = wire::decode(&record).expect("a record was encoded by this engine and its log checks sums");
            journal.recovered(ticket, found.take(record, &context));
        }
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
            signer,
            signatures,
            committed: order.slot(),
            anchors: order.anchors().to_vec(),
            commits: found.commits.values().map(|commit| ((*commit.cut).clone(), commit.certificate.clone())).collect(),
            records: open,
            now,
        });
        let floors = VecDeque::from([order.executed().iter().map(|tip| tip.position).collect()]);
        let mut engine = Self {
            repair: Repair::new(seed, forgot, blank, now),
            service: Service::default(),
            commits: found.commits,
            waiting: BTreeMap::new(),
            is_broken: false,
            outputs: VecDeque::new(),
            config,
            committee,
            now,
            lanes,
            slots,
            order,
            schedule,
            me,
            journal,
            floors,
        };
        engine.start_greeting();
        engine.settle();
        engine
    }

    pub(crate) fn me(&self) -> Option<ValidatorIndex> {
        self.me
    }

    fn take_message(&mut self, from: ValidatorIndex, message: &Checked) {
        // Whoever does not know itself asks, and answers nothing else: if its power fails now, it must find itself as empty as before.
        if !self.repair.may_act() && !matches!(message, Checked::Standing { .. } | Checked::Available(_)) {
            return;
        }
        let now = self.now;
        match message {
            Checked::Car(car) => self.lanes.take_car(now, car),
            Checked::Held { tip, share } => self.lanes.take_vote(now, from, *tip, share.clone()),
            Checked::Available(certificate) => self.lanes.learn(certificate),
            Checked::FetchCars { tip, above } => self.take_question(from, Question::Cars { tip: *tip, above: *above }),
            Checked::Cars { tip, cars } => self.lanes.take_cars(now, from, *tip, cars),
            Checked::Slots(message) => self.tell_slots(slots::Input::Message { from, message: message.clone() }),
            Checked::Standing { standing, yours } => self.take_standing(from, standing, yours.as_ref()),
            Checked::FetchCommits { above } => self.take_question(from, Question::Commits { above: *above }),
            Checked::Commits(commits) => self.take_commits(from, commits.clone()),
        }
    }

    pub(crate) fn tell_slots(&mut self, input: slots::Input) {
        self.slots.handle(self.now, &mut self.lanes, input);
    }

    fn take_durable(&mut self, ticket: Ticket) {
        self.journal.durable(ticket);
        match self.waiting.remove(&ticket) {
            Some(Waiting::Lanes(write)) => self.lanes.durable(self.now, write),
            Some(Waiting::Slots(record)) => self.tell_slots(slots::Input::Durable(record)),
            Some(Waiting::Commit(slot)) => {
                if let Some(commit) = self.commits.get_mut(&slot) {
                    commit.is_durable = true;
                }
            }
            Some(Waiting::Born) => self.repair.born(),
            None => {}
        }
    }

    fn take_deadline(&mut self) {
        self.drop_bodies();
        self.lanes.tick(self.now);
        if self.slots.deadline().is_some_and(|at| at <= self.now) {
            self.tell_slots(slots::Input::Deadline);
        }
        self.repair_if_due();
        self.serve_waiting();
    }

    // ---- after every input ---------------------------------------------------------------------------------------------

    fn settle(&mut self) {
        loop {
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
            lanes::Effect::Persist(write) => {
                let record = match &write {
                    Write::Own(car) | Write::Voted(car) => Record::Car { car: car.signed().clone(), voted: true },
                    Write::Kept(car) => Record::Car { car: car.signed().clone(), voted: false },
                    Write::Vote(tip) => Record::Vote(*tip),
                };
                let subject = match &write {
                    Write::Own(car) | Write::Voted(car) | Write::Kept(car) => Subject::Car(car.tip()),
                    Write::Vote(tip) => Subject::Vote(*tip),
                };
                self.persist(subject, &record, Some(Waiting::Lanes(write)));
            }
            lanes::Effect::Send { to, message } => self.outputs.push_back(Output::Send { to, message: message.encode() }),
            lanes::Effect::WantBatch => {
                let (bytes, gas) = (self.config.batch_bytes, self.config.batch_gas);
                self.outputs.push_back(Output::WantBatch { bytes, gas });
            }
            lanes::Effect::Built(car) => self.trace(TraceEvent::Proposed(car.vertex())),
            lanes::Effect::Taken(car) => self.tell_taken(&car),
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
                // Y2, and Y4 for what is below an optimistic tip.
                for certificate in available {
                    self.lanes.prefetch(self.now, certificate.tip, &certificate.proof.signers);
                }
            }
            slots::Effect::Accuse { validator, evidence } => {
                let evidence = evidence.iter().map(|prepare| wire::encode(prepare).into()).collect();
                self.outputs.push_back(Output::Accuse { validator, offence: Offence::Equivocation, evidence });
            }
            slots::Effect::Behind { slot } => self.learn_of_commit(None, slot),
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

    // ---- commits -------------------------------------------------------------------------------------------------------

    /// C8: durable before it is executed.
    fn take_commit(&mut self, cut: Arc<Cut>, certificate: CommitQc) {
        let slot = certificate.slot;
        self.repair.progress(self.now);
        if self.commits.contains_key(&slot) || slot <= self.order.slot() {
            return;
        }
        let leader = self.schedule.leader(slot, certificate.view);
        let why = format!("{:?} in view {}", certificate.kind, certificate.view.0).to_lowercase();
        self.trace(TraceEvent::Decided { round: slot.0, rank: 0, leader, committed: Some(certificate.cut), why });
        let record = Record::Commit((*cut).clone(), certificate.clone());
        self.persist(Subject::Commit(slot), &record, Some(Waiting::Commit(slot)));
        self.commits.insert(slot, Commit { cut, certificate, is_durable: false, is_fetched: false });
        self.drop_bodies();
    }

    /// Y4: bodies for which no vote waits, and those that neither an open slot nor a committed one names.
    fn drop_bodies(&mut self) {
        let (slots, commits) = (&self.slots, self.commits.range(Slot(self.order.slot().0 + 1)..));
        let is_committed = |tip: &Tip| commits.clone().any(|(_, commit)| commit.cut.names(tip));
        self.lanes.drop_bodies(|slot| slots.awaits_bodies(Slot(slot.0)), |tip| slots.names(tip) || is_committed(tip));
    }

    /// O1. Whether a slot was executed.
    fn execute_next(&mut self) -> bool {
        if self.is_broken || !self.repair.may_deliver() {
            return false;
        }
        self.fetch_committed();
        let next = Slot(self.order.slot().0 + 1);
        let Some(commit) = self.commits.get(&next).filter(|commit| commit.is_durable) else { return false };
        let cut = commit.cut.clone();
        let Some(ordered) = self.order.execute(&cut, |tip| self.lanes.chain(tip)) else { return false };
        let detail = format!("{} with {} cars", ordered.index, ordered.batches.len());
        self.trace(TraceEvent::note("commit", detail));
        self.outputs.push_back(Output::Deliver(ordered));
        self.repair.progress(self.now);
        self.lanes.execute(&cut.tips);
        self.drop_bodies();
        self.collect_garbage();
        true
    }

    /// Cars of committed slots that are not here: of the first slots first (Y3).
    fn fetch_committed(&mut self) {
        let executed = self.order.slot().0;
        let mut above: Vec<_> = self.order.executed().iter().map(|tip| tip.position).collect();
        for (slot, commit) in self.commits.range_mut(Slot(executed + 1)..=Slot(executed + FETCH_AHEAD)) {
            // The slot that is next may find that an earlier one took another fork than it did.
            if !std::mem::replace(&mut commit.is_fetched, true) || slot.0 == executed + 1 {
                // Y4, Y5: the certificate's signers hold what was not certified; what was has signers of its own, who were asked when the
                // cut was proposed. Whoever executed the slot holds everything.
                let mut sources = self.repair.informant(*slot).into_iter().collect::<Vec<_>>();
                sources.extend(&commit.certificate.proof.signers);
                sources.extend(self.committee.indices());
                for tip in &commit.cut.tips {
                    self.lanes.fetch_history(self.now, *tip, above[tip.lane.as_usize()], &sources);
                }
            }
            for (position, tip) in above.iter_mut().zip(&commit.cut.tips) {
                *position = tip.position.max(*position);
            }
        }
    }

    /// G1, G3: what is older than `retain_slots` goes, from memory and from the disk.
    fn collect_garbage(&mut self) {
        self.floors.push_back(self.order.executed().iter().map(|tip| tip.position).collect());
        while self.floors.len() as u64 > self.config.retain_slots {
            let positions = self.floors.pop_front().expect("there are more");
            self.lanes.forget(&positions);
        }
        let retained = self.order.slot().0.saturating_sub(self.config.retain_slots);
        self.commits = self.commits.split_off(&Slot(retained + 1));
        let executed = self.order.slot();
        let is_needed = |subject: &Subject| needs(&self.lanes, &self.commits, executed, subject);
        let crowd = self.journal.crowded_by(is_needed);
        let released = self.journal.release(is_needed);
        for subject in crowd {
            if let Some(record) = self.record_of(&subject) {
                self.persist(subject, &record, None);
            }
        }
        self.outputs.extend(released.map(Output::ReleaseBelow));
    }

    /// What to write again about a subject; slots are too short-lived for that.
    fn record_of(&self, subject: &Subject) -> Option<Record> {
        match subject {
            Subject::Born => Some(Record::Born),
            Subject::Car(tip) => self.lanes.record(tip).map(|(car, voted)| Record::Car { car: car.signed().clone(), voted }),
            Subject::Vote(tip) => Some(Record::Vote(*tip)),
            Subject::Commit(slot) => {
                self.commits.get(slot).map(|commit| Record::Commit((*commit.cut).clone(), commit.certificate.clone()))
            }
            Subject::Slot(_) => None,
        }
    }

    // ---- outputs -------------------------------------------------------------------------------------------------------

    fn persist(&mut self, subject: Subject, record: &Record, waiting: Option<Waiting>) {
        let ticket = self.journal.append(subject);
        self.waiting.extend(waiting.map(|waiting| (ticket, waiting)));
        self.outputs.push_back(Output::Persist(ticket, record.encode()));
    }

    /// The first record of a life.
    pub(crate) fn record_birth(&mut self) {
        self.persist(Subject::Born, &Record::Born, Some(Waiting::Born));
    }

    pub(crate) fn send(&mut self, to: ValidatorIndex, message: &Message) {
        if Some(to) != self.me() {
            self.outputs.push_back(Output::Send { to: Recipients::One(to), message: message.encode() });
        }
    }

    pub(crate) fn trace(&mut self, event: TraceEvent) {
        self.outputs.push_back(Output::Trace(event));
    }

    /// How far a lane is executed, certified and supported here.
    pub fn positions(&self, lane: ValidatorIndex) -> [Position; 3] {
        self.lanes.positions(lane)
    }

    /// Bytes of a lane's cars above its highest certificate.
    pub fn uncertified_bytes(&self, lane: ValidatorIndex) -> usize {
        self.lanes.uncertified_bytes(lane)
    }

    /// How many things are held that could become too many: in lanes, in slots, commits, records, questions.
    pub fn footprint(&self) -> [usize; 5] {
        [self.lanes.footprint(), self.slots.footprint(), self.commits.len(), self.journal.count(), self.service.count()]
    }

    /// For people who look into a failure.
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

/// Whether a restart needs the newest record of this subject.
fn needs(lanes: &Lanes, commits: &BTreeMap<Slot, Commit>, executed: Slot, subject: &Subject) -> bool {
    match subject {
        Subject::Born => true,
        Subject::Car(tip) | Subject::Vote(tip) => lanes.needs(tip),
        Subject::Slot(slot) => *slot > executed && commits.get(slot).is_none_or(|commit| !commit.is_durable),
        Subject::Commit(slot) => commits.contains_key(slot),
    }
}

/// What the records of earlier lives hold.
#[derive(Default)]
struct Found {
    cars: Vec<Recovered>,
    slots: Vec<SlotRecord>,
    commits: BTreeMap<Slot, Commit>,
}

impl Found {
    fn take(&mut self, record: Record, context: &Context) -> Subject {
        match record {
            Record::Born => Subject::Born,
            Record::Car { car, voted } => {
                let car = Arc::new(NamedCar::trusted(car, context));
                let tip = car.tip();
                self.cars.push(Recovered::Car { car, voted });
                Subject::Car(tip)
            }
            Record::Vote(tip) => {
                self.cars.push(Recovered::Vote(tip));
                Subject::Vote(tip)
            }
            Record::Slot(record) => {
                let slot = record.slot;
                self.slots.push(*record);
                Subject::Slot(slot)
            }
            Record::Commit(cut, certificate) => {
                let slot = cut.slot;
                let commit = Commit { cut: Arc::new(cut), certificate, is_durable: true, is_fetched: false };
                self.commits.insert(slot, commit);
                Subject::Commit(slot)
            }
        }
    }
}
