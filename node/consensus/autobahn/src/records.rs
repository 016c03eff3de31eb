//! What the engine writes down, what waits for it to be durable, and what a new life makes of it (3.12, R1).

use crate::{
    engine::Autobahn,
    execution::Commit,
    journal::{Record, Subject},
    lanes::{Lanes, Recovered, Write},
    message::{Context, NamedCar, Slot},
    slots::{self, RecordId, SlotRecord},
};
use corniche_engine::{Output, Ticket};
use std::{collections::BTreeMap, sync::Arc};

/// What waits for a record.
pub(crate) enum Waiting {
    Lanes(Write),
    Slots(RecordId),
    Commit(Slot),
    Born,
}

impl Autobahn {
    pub(crate) fn persist(&mut self, subject: Subject, record: &Record, waiting: Option<Waiting>) {
        let ticket = self.journal.append(subject);
        self.waiting.extend(waiting.map(|waiting| (ticket, waiting)));
        self.outputs.push_back(Output::Persist(ticket, record.encode()));
    }

    /// The first record of a life.
    pub(crate) fn record_birth(&mut self) {
        self.persist(Subject::Born, &Record::Born, Some(Waiting::Born));
    }

    /// A write of the lanes.
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
            None => {}
        }
    }

    /// Gives up the oldest records that nobody needs, and writes again what holds back many of them.
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
pub(crate) struct Found {
    pub cars: Vec<Recovered>,
    pub slots: Vec<SlotRecord>,
    pub commits: BTreeMap<Slot, Commit>,
}

impl Found {
    pub fn take(&mut self, record: Record, context: &Context) -> Subject {
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
        }
    }
}
