//! The engine's records: writing, outputs that wait for durability, and recovery in a new life (3.12, R1).

use crate::{
    engine::Autobahn,
    execution::Commit,
    journal::{Record, Silence, Subject},
    lanes::{Lanes, Recovered, Write},
    message::{Birth, Context, NamedCar, Position, Slot},
    slots::{self, RecordId, SlotRecord},
};
use corniche_engine::{Output, Ticket};
use corniche_types::ValidatorIndex;
use std::{collections::BTreeMap, sync::Arc};

/// An action that waits for a record.
pub(crate) enum Waiting {
    Lanes(Write),
    Slots(RecordId),
    Commit(Slot),
    Born,
    Birth,
    /// The disk of this peer, and the nonce of its request.
    Met {
        peer: ValidatorIndex,
        nonce: u64,
    },
}

impl Autobahn {
    pub(crate) fn persist(&mut self, subject: Subject, record: &Record, waiting: Option<Waiting>) {
        let ticket = self.journal.append(subject);
        self.waiting.extend(waiting.map(|waiting| (ticket, waiting)));
        self.outputs.push_back(Output::Persist(ticket, record.encode()));
    }

    /// Records that a life begins.
    pub(crate) fn record_life(&mut self) {
        self.persist(Subject::Born, &Record::Born, Some(Waiting::Born));
    }

    pub(crate) fn record_birth(&mut self, birth: Birth) {
        self.persist(Subject::Birth, &Record::Birth(birth), Some(Waiting::Birth));
    }

    pub(crate) fn record_met(&mut self, birth: Birth, nonce: u64) {
        let peer = birth.validator;
        self.persist(Subject::Met(peer), &Record::Met(birth), Some(Waiting::Met { peer, nonce }));
    }

    /// Later signatures have later records, so nothing needs to wait for this one.
    pub(crate) fn record_silence(&mut self, silence: Silence) {
        self.persist(Subject::Silence, &Record::Silence(silence), None);
    }

    /// Records a write of the lanes.
    pub(crate) fn persist_for_lanes(&mut self, write: Write) {
        let (subject, record) = match &write {
            Write::Own(car) | Write::Voted(car) => {
                (Subject::Car(car.tip()), Record::Car { car: car.signed().clone(), voted: true })
            }
            Write::Kept(car) => (Subject::Car(car.tip()), Record::Car { car: car.signed().clone(), voted: false }),
            Write::Vote(tip) => (Subject::Vote(*tip), Record::Vote(*tip)),
        };
        self.persist(subject, &record, Some(Waiting::Lanes(write)));
    }

    pub(crate) fn take_durable(&mut self, ticket: Ticket) {
        self.journal.durable(ticket);
        match self.waiting.remove(&ticket) {
            Some(Waiting::Lanes(write)) => self.lanes.durable(self.now, write),
            Some(Waiting::Slots(record)) => self.tell_slots(slots::Input::Durable(record)),
            Some(Waiting::Commit(slot)) => {
                if let Some(commit) = self.commits.get_mut(&slot) {
                    commit.is_durable = true;
                }
                self.release_records();
            }
            Some(Waiting::Born) => self.repair.born(),
            Some(Waiting::Birth) => self.announce_birth(),
            Some(Waiting::Met { peer, nonce }) => self.has_met(peer, nonce),
            None => {}
        }
    }

    /// Releases the oldest records that are not needed, and rewrites records that hold back many of them.
    pub(crate) fn release_records(&mut self) {
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

    /// Returns the record to write again for a subject. Slots are too short-lived for that.
    fn record_of(&self, subject: &Subject) -> Option<Record> {
        match subject {
            Subject::Born => Some(Record::Born),
            Subject::Car(tip) => self.lanes.record(tip).map(|(car, voted)| Record::Car { car: car.signed().clone(), voted }),
            Subject::Vote(tip) => Some(Record::Vote(*tip)),
            Subject::Commit(slot) => {
                self.commits.get(slot).map(|commit| Record::Commit((*commit.cut).clone(), commit.certificate.clone()))
            }
            Subject::Slot(_) => None,
            Subject::Birth => self.repair.birth().map(Record::Birth),
            Subject::Met(peer) => self.repair.met(*peer).map(Record::Met),
            Subject::Silence => self.repair.silence().map(Record::Silence),
        }
    }
}

/// Returns true if a restart needs the newest record of this subject.
fn needs(lanes: &Lanes, commits: &BTreeMap<Slot, Commit>, executed: Slot, subject: &Subject) -> bool {
    match subject {
        Subject::Born | Subject::Birth | Subject::Met(_) | Subject::Silence => true,
        Subject::Car(tip) | Subject::Vote(tip) => lanes.needs(tip),
        Subject::Slot(slot) => *slot > executed && commits.get(slot).is_none_or(|commit| !commit.is_durable),
        Subject::Commit(slot) => commits.contains_key(slot),
    }
}

/// Contents of the records of earlier lives.
#[derive(Default)]
pub(crate) struct Found {
    pub cars: Vec<Recovered>,
    pub slots: Vec<SlotRecord>,
    pub commits: BTreeMap<Slot, Commit>,
    /// True if there is a record that proves a life.
    pub has_life: bool,
    pub birth: Option<Birth>,
    pub met: BTreeMap<ValidatorIndex, Birth>,
    pub silence: Option<Silence>,
}

impl Found {
    pub fn highest_car(&self, lane: ValidatorIndex) -> Position {
        let tip = |record: &Recovered| match record {
            Recovered::Car { car, .. } => Some(car.tip()),
            Recovered::Vote(_) => None,
        };
        let of_lane = self.cars.iter().filter_map(tip).filter(|tip| tip.lane == lane);
        of_lane.map(|tip| tip.position).max().unwrap_or_default()
    }

    pub fn take(&mut self, record: Record, context: &Context) -> Subject {
        self.has_life |= !matches!(record, Record::Birth(_) | Record::Met(_) | Record::Silence(_));
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
                self.commits.insert(slot, Commit::new(Arc::new(cut), certificate, true));
                Subject::Commit(slot)
            }
            Record::Birth(birth) => {
                self.birth = Some(birth);
                Subject::Birth
            }
            Record::Met(birth) => {
                self.met.insert(birth.validator, birth);
                Subject::Met(birth.validator)
            }
            Record::Silence(silence) => {
                self.silence = Some(silence);
                Subject::Silence
            }
        }
    }
}
