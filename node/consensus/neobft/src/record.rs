//! Format of the records on disk (§2.5, column "persist first"), and what they say together.

use crate::{
    log::Log,
    message::{BodyId, CheckpointCertificate, Confirmed, Context, DropProof, Entry, Slot, Value, View, ViewCertificate},
};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_aom_receiver::ConfirmVote;
use corniche_types::{B256, Bytes, wire};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Record {
    /// All promises so far. Later records add to it; earlier ones are obsolete except entries, bodies and CONFIRMs.
    Promises(Box<Promises>),
    /// An entry, with the log-hash before it. Entries of later slots that were recorded before are rolled back.
    Entry {
        slot: Slot,
        before: B256,
        entry: Entry,
    },
    /// A GAP-DROP was signed (G5).
    Blocked {
        view: View,
        slot: Slot,
    },
    /// A GAP-PREPARE was signed, or the leader's GAP-DECISION (G7).
    Voted {
        view: View,
        slot: Slot,
        value: Value,
    },
    /// A drop is prepared (G8).
    Prepared(DropProof),
    /// The replica left its view for this one (V2).
    Leaving(View),
    /// Entries from `from` on replace the log. With `confirmed` they are a merged log (V6, V7) of the view of `certificate`; with
    /// `certificate` alone, a view was entered whose log was fetched. One record, because a half of it would lose entries that this replica replied to.
    Replaced {
        from: Slot,
        before: B256,
        entries: Vec<Entry>,
        confirmed: Option<Confirmed>,
        certificate: Option<ViewCertificate>,
    },
    /// A view was entered; the log ends at `end` (V7, V8).
    Entered {
        certificate: ViewCertificate,
        end: Slot,
    },
    Checkpoint(CheckpointCertificate),
    Body {
        body: BodyId,
        batch: Bytes,
    },
    /// An own CONFIRM (pitfall 16).
    Confirm {
        epoch: u32,
        vote: ConfirmVote,
    },
}

impl Record {
    pub fn encode(&self) -> Bytes {
        wire::encode(self).into()
    }
}

/// Everything that a replica must not forget, besides log and bodies.
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Promises {
    /// Certificate of the view that the log is from: the last normal one, or that of an adopted merge. Absent in the first view.
    pub certificate: Option<ViewCertificate>,
    /// The view that the replica moves to; absent while it is normal.
    pub target: Option<View>,
    /// The replica votes in no view before this one, because it sent a VIEW-CHANGE for it.
    pub silent_before: View,
    /// The replica confirms packets of no sequencer epoch before this one, because it lost a disk (S5).
    pub confirms_from: u32,
    /// The last VIEW-CONFIRM.
    pub confirmed: Option<Confirmed>,
    pub checkpoint: Option<CheckpointCertificate>,
    /// Slots with a GAP-DROP in the last normal view.
    pub blocked: BTreeSet<Slot>,
    /// GAP-PREPAREs and GAP-DECISIONs in the last normal view.
    pub voted: BTreeMap<Slot, Value>,
    /// Prepared drops of the last normal view.
    pub prepared: BTreeMap<Slot, DropProof>,
}

impl Promises {
    /// The last view in which the replica was normal.
    pub fn view(&self) -> View {
        self.certificate.as_ref().map(|certificate| certificate.confirmed.view).unwrap_or_default()
    }

    /// L_e: last slot before the view's epoch.
    pub fn base(&self) -> Slot {
        self.certificate.as_ref().map(|certificate| certificate.confirmed.base).unwrap_or_default()
    }

    /// Last slot of the log that the view began with.
    pub fn start(&self) -> Slot {
        self.certificate.as_ref().map(|certificate| certificate.confirmed.slot).unwrap_or_default()
    }

    /// V8: promises about gaps end with their view.
    pub fn enter(&mut self, certificate: ViewCertificate) {
        *self = Self {
            certificate: Some(certificate),
            confirmed: self.confirmed,
            checkpoint: self.checkpoint.take(),
            silent_before: self.silent_before,
            confirms_from: self.confirms_from,
            ..Self::default()
        };
    }

    /// V6: the log is one of this view now, although the replica was never normal in it. A VIEW-CHANGE must name it (V3). Returns
    /// false, and does nothing, if the replica knows this view or a later one.
    pub fn adopt(&mut self, certificate: ViewCertificate) -> bool {
        let is_newer = certificate.confirmed.view > self.view();
        if is_newer {
            let target = self.target;
            self.enter(certificate);
            self.target = target;
        }
        is_newer
    }

    /// Slots up to this one are final and forgotten.
    pub fn forget_gaps(&mut self, through: Slot) {
        self.blocked = self.blocked.split_off(&through.next());
        self.voted = self.voted.split_off(&through.next());
        self.prepared = self.prepared.split_off(&through.next());
    }

    /// V2.
    pub fn leave(&mut self, target: View) {
        self.target = Some(target);
        self.silent_before = self.silent_before.max(target);
    }
}

/// Contents of the records of earlier incarnations.
pub struct Recovered {
    pub promises: Promises,
    pub log: Option<Log>,
    pub bodies: BTreeMap<BodyId, (corniche_engine::Ticket, Bytes)>,
    pub confirms: Vec<(u32, ConfirmVote)>,
}

impl Recovered {
    /// Applies the records in the order in which they were written.
    pub fn new(records: &[(corniche_engine::Ticket, Record)], context: Context) -> Self {
        let mut recovered = Self { promises: Promises::default(), log: None, bodies: BTreeMap::new(), confirms: Vec::new() };
        for (ticket, record) in records {
            recovered.apply(*ticket, record.clone(), context);
        }
        if let Some(log) = &mut recovered.log {
            log.mark_all_durable();
        }
        recovered
    }

    fn apply(&mut self, ticket: corniche_engine::Ticket, record: Record, context: Context) {
        match record {
            Record::Promises(promises) => self.promises = *promises,
            Record::Entry { slot, before, entry } => self.append(slot, before, vec![entry], context),
            Record::Blocked { view, slot } if view == self.promises.view() => _ = self.promises.blocked.insert(slot),
            Record::Voted { view, slot, value } if view == self.promises.view() => _ = self.promises.voted.insert(slot, value),
            Record::Prepared(proof) if proof.view == self.promises.view() => {
                _ = self.promises.prepared.insert(proof.slot, proof)
            }
            Record::Blocked { .. } | Record::Voted { .. } | Record::Prepared(_) => {}
            Record::Leaving(target) => self.promises.leave(target),
            Record::Replaced { from, before, entries, confirmed, certificate } => {
                self.append(from, before, entries, context);
                self.promises.confirmed = confirmed.or(self.promises.confirmed);
                match certificate {
                    Some(certificate) if confirmed.is_some() => _ = self.promises.adopt(certificate),
                    Some(certificate) => self.promises.enter(certificate),
                    None => {}
                }
            }
            Record::Entered { certificate, end } => {
                // Nothing is final in a log that is being recovered.
                _ = self.log.as_mut().map(|log| log.truncate(end));
                self.promises.enter(certificate);
            }
            Record::Checkpoint(certificate) => self.promises.checkpoint = Some(certificate),
            Record::Body { body, batch } => _ = self.bodies.insert(body, (ticket, batch)),
            Record::Confirm { epoch, vote } => self.confirms.push((epoch, vote)),
        }
    }

    fn append(&mut self, from: Slot, before: B256, entries: Vec<Entry>, context: Context) {
        let fits = |log: &Log| log.floor() < from && from <= log.end().next() && log.hash(from.before()) == Some(before);
        if !self.log.as_ref().is_some_and(fits) {
            // The first entry that is still on disk, or the first after following certified commits.
            self.log = Some(Log::new(context, from.before(), before));
        }
        let Some(log) = &mut self.log else { return };
        _ = log.truncate(from.before());
        entries.into_iter().for_each(|entry| _ = log.push(entry));
    }
}
