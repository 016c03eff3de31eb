//! The engine's records: writing, outputs that wait for durability, and recovery in a new incarnation (3.12, R1).

use crate::{
    engine::Autobahn,
    execution::Commit,
    journal::{AfterDurable, RecordKey},
    lanes::{Lanes, Recovered, Write},
    message::{Context, DiskId, HashedCar, Position, Slot},
    record::{Abstention, Record},
    slots::{self, SlotRecord},
};
use corniche_engine::{Output, Ticket};
use corniche_types::ValidatorIndex;
use std::{collections::BTreeMap, sync::Arc};

impl Autobahn {
    pub(crate) fn persist(&mut self, key: RecordKey, record: &Record, waiting: Option<AfterDurable>) {
        let ticket = self.journal.append(key);
        self.waiting.extend(waiting.map(|waiting| (ticket, waiting)));
        self.outputs.push_back(Output::Persist(ticket, record.encode()));
    }

    /// Records that an incarnation begins.
    pub(crate) fn record_started(&mut self) {
        self.persist(RecordKey::Started, &Record::Started, Some(AfterDurable::Started));
    }

    pub(crate) fn record_disk_id(&mut self, disk_id: DiskId) {
        let record = self.repair.disk_record(disk_id);
        self.persist(RecordKey::DiskId, &record, Some(AfterDurable::DiskId));
    }

    pub(crate) fn record_peer_disk(&mut self, disk_id: DiskId, nonce: u64) {
        let peer = disk_id.validator;
        self.persist(RecordKey::PeerDisk(peer), &Record::PeerDisk(disk_id), Some(AfterDurable::PeerDisk { peer, nonce }));
    }

    /// Later signatures have later records, so nothing needs to wait for this one.
    pub(crate) fn record_abstention(&mut self, abstention: Abstention) {
        self.persist(RecordKey::Abstention, &Record::Abstention(abstention), None);
    }

    /// Records a write of the lanes.
    pub(crate) fn persist_lane_write(&mut self, write: Write) {
        let (key, record) = match &write {
            Write::Own(car) | Write::Voted(car) => {
                (RecordKey::Car(car.tip()), Record::Car { car: car.signed().clone(), voted: true })
            }
            Write::Kept(car) => (RecordKey::Car(car.tip()), Record::Car { car: car.signed().clone(), voted: false }),
            Write::Vote(tip) => (RecordKey::Vote(*tip), Record::Vote(*tip)),
        };
        self.persist(key, &record, Some(AfterDurable::Lanes(write)));
    }

    pub(crate) fn handle_durable(&mut self, ticket: Ticket) {
        self.journal.durable(ticket);
        match self.waiting.remove(&ticket) {
            Some(AfterDurable::Lanes(write)) => self.lanes.durable(self.now, write),
            Some(AfterDurable::Slots(record)) => self.step_slots(slots::Input::Durable(record)),
            Some(AfterDurable::Commit(slot)) => {
                if let Some(commit) = self.commits.get_mut(&slot) {
                    commit.is_durable = true;
                }
                self.release_records();
            }
            Some(AfterDurable::Started) => self.repair.mark_started(),
            Some(AfterDurable::DiskId) => self.handle_disk_id_durable(),
            Some(AfterDurable::PeerDisk { peer, nonce }) => self.handle_peer_disk_durable(peer, nonce),
            None => {}
        }
    }

    /// Releases the oldest records that are not needed, and rewrites records that hold back many of them.
    pub(crate) fn release_records(&mut self) {
        let executed = self.order.slot();
        let is_needed = |key: &RecordKey| needs(&self.lanes, &self.commits, executed, key);
        let keys = self.journal.records_to_rewrite(is_needed);
        let released = self.journal.release(is_needed);
        for key in keys {
            if let Some(record) = self.record_of(&key) {
                self.persist(key, &record, None);
            }
        }
        self.outputs.extend(released.map(Output::ReleaseBelow));
    }

    /// Returns the record to write again for a key. Slots are too short-lived for that.
    fn record_of(&self, key: &RecordKey) -> Option<Record> {
        match key {
            RecordKey::Started => Some(Record::Started),
            RecordKey::Car(tip) => self.lanes.record(tip).map(|(car, voted)| Record::Car { car: car.signed().clone(), voted }),
            RecordKey::Vote(tip) => Some(Record::Vote(*tip)),
            RecordKey::Commit(slot) => {
                self.commits.get(slot).map(|commit| Record::Commit((*commit.cut).clone(), commit.certificate.clone()))
            }
            RecordKey::Slot(_) => None,
            RecordKey::DiskId => self.repair.disk_id().map(|disk_id| self.repair.disk_record(disk_id)),
            RecordKey::PeerDisk(peer) => self.repair.peer_disk(*peer).map(Record::PeerDisk),
            RecordKey::Abstention => self.repair.abstention().map(Record::Abstention),
        }
    }
}

/// Returns true if a restart needs the newest record of this key.
fn needs(lanes: &Lanes, commits: &BTreeMap<Slot, Commit>, executed: Slot, key: &RecordKey) -> bool {
    match key {
        RecordKey::Started | RecordKey::DiskId | RecordKey::PeerDisk(_) | RecordKey::Abstention => true,
        RecordKey::Car(tip) | RecordKey::Vote(tip) => lanes.needs(tip),
        RecordKey::Slot(slot) => *slot > executed && commits.get(slot).is_none_or(|commit| !commit.is_durable),
        RecordKey::Commit(slot) => commits.contains_key(slot),
    }
}

/// Contents of the records of earlier incarnations.
#[derive(Default)]
pub(crate) struct RecoveredRecords {
    pub cars: Vec<Recovered>,
    pub slots: Vec<SlotRecord>,
    pub commits: BTreeMap<Slot, Commit>,
    /// True if there is a record that proves an incarnation.
    pub has_signing_record: bool,
    pub disk_id: Option<DiskId>,
    /// Nothing had been signed when the disk's identifier was recorded.
    pub is_first_disk: bool,
    pub peer_disk: BTreeMap<ValidatorIndex, DiskId>,
    pub abstention: Option<Abstention>,
}

impl RecoveredRecords {
    pub fn highest_car(&self, lane: ValidatorIndex) -> Position {
        let tip = |record: &Recovered| match record {
            Recovered::Car { car, .. } => Some(car.tip()),
            Recovered::Vote(_) => None,
        };
        let of_lane = self.cars.iter().filter_map(tip).filter(|tip| tip.lane == lane);
        of_lane.map(|tip| tip.position).max().unwrap_or_default()
    }

    pub fn apply(&mut self, record: Record, context: &Context) -> RecordKey {
        self.has_signing_record |=
            !matches!(record, Record::DiskId(_) | Record::FirstDisk(_) | Record::PeerDisk(_) | Record::Abstention(_));
        match record {
            Record::Started => RecordKey::Started,
            Record::Car { car, voted } => {
                let car = Arc::new(HashedCar::trusted(car, context));
                let tip = car.tip();
                self.cars.push(Recovered::Car { car, voted });
                RecordKey::Car(tip)
            }
            Record::Vote(tip) => {
                self.cars.push(Recovered::Vote(tip));
                RecordKey::Vote(tip)
            }
            Record::Slot(record) => {
                let slot = record.slot;
                self.slots.push(*record);
                RecordKey::Slot(slot)
            }
            Record::Commit(cut, certificate) => {
                let slot = cut.slot;
                self.commits.insert(slot, Commit::new(Arc::new(cut), certificate, true));
                RecordKey::Commit(slot)
            }
            Record::DiskId(disk_id) => {
                self.disk_id = Some(disk_id);
                RecordKey::DiskId
            }
            Record::FirstDisk(disk_id) => {
                (self.disk_id, self.is_first_disk) = (Some(disk_id), true);
                RecordKey::DiskId
            }
            Record::PeerDisk(disk_id) => {
                self.peer_disk.insert(disk_id.validator, disk_id);
                RecordKey::PeerDisk(disk_id.validator)
            }
            Record::Abstention(abstention) => {
                self.abstention = Some(abstention);
                RecordKey::Abstention
            }
        }
    }
}
