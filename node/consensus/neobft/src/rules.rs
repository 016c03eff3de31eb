//! Pure verdicts: the leader of a view, and the merge of logs in a view change (V3–V5).

use crate::{
    keys::Signature,
    message::{Confirmed, Context, DropProof, Entry, Slot, View, ViewCertificate, ViewChange, Votes},
};
use corniche_aom_receiver::OrderingCertificate;
use corniche_engine::Committee;
use corniche_types::{B256, ValidatorIndex};
use std::collections::BTreeMap;

/// The leader of ⟨e, l⟩: member l mod n.
pub fn leader(view: View, committee: &Committee) -> ValidatorIndex {
    ValidatorIndex((view.leader as usize % committee.size()) as u16)
}

/// The votes for `value`, by ascending member.
pub(crate) fn votes_for<T: PartialEq>(votes: &BTreeMap<ValidatorIndex, (T, Signature)>, value: &T) -> Votes {
    votes.iter().filter(|(_, (of, _))| of == value).map(|(member, (_, signature))| (*member, *signature)).collect()
}

/// Returns whether these members have a quorum of votes.
pub(crate) fn is_quorum(votes: &Votes, committee: &Committee) -> bool {
    committee.weigh(votes.iter().map(|(member, _)| *member)) >= committee.quorum()
}

/// The log with which a view begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    pub confirmed: Confirmed,
    /// Certificate of the newest view among the logs, which the merged log is a log of; absent for the first view.
    pub certificate: Option<ViewCertificate>,
    /// Slot before the first of `entries`, and its log-hash: the highest checkpoint, which is final.
    pub after: Slot,
    pub after_hash: B256,
    pub entries: Vec<Entry>,
}

/// A VIEW-CHANGE that is not valid, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    pub sender: ValidatorIndex,
    pub reason: String,
}

/// One replica's log from where its message begins.
struct Run<'a> {
    change: &'a ViewChange,
    after: Slot,
    /// Log-hashes from `after` on.
    hashes: Vec<B256>,
    /// It begins at a checkpoint or at the beginning of the log.
    is_anchored: bool,
}

impl Run<'_> {
    fn end(&self) -> Slot {
        Slot(self.after.0 + self.change.entries.len() as u64)
    }

    fn slots(&self) -> impl Iterator<Item = (Slot, &Entry)> {
        (self.after.0 + 1..).map(Slot).zip(&self.change.entries)
    }

    fn hash(&self, slot: Slot) -> Option<B256> {
        self.hashes.get(usize::try_from(slot.0.checked_sub(self.after.0)?).ok()?).copied()
    }
}

/// V5: the safe merge. `changes` are for one target, from distinct members with a quorum of votes; signatures and certificates
/// in them were checked. `is_valid` checks a packet's certificate with the own key.
///
/// `max_log` is the maximum number of slots after the highest checkpoint.
///
/// A packet that the own key does not confirm counts if members with F + 1 votes have it in their logs: their signatures attest
/// that their tags verified (pitfall 6).
pub fn merge(
    context: &Context,
    committee: &Committee,
    max_log: u64,
    changes: &[ViewChange],
    is_valid: impl Fn(&OrderingCertificate) -> bool,
) -> Result<Merged, Invalid> {
    let target = changes.first().map(|change| change.target).unwrap_or_default();
    // (a) The highest view with a certificate.
    let view = changes.iter().map(last_view).max().unwrap_or_default();
    let newest: Vec<&ViewChange> = changes.iter().filter(|change| last_view(change) == view).collect();
    let attested = attestations(context, changes);
    let mut runs = Vec::new();
    for change in newest {
        let check = |packet: &OrderingCertificate, slot: Slot| {
            let members = attested.get(&(slot, context.value(packet)));
            is_valid(packet) || members.is_some_and(|members| committee.weigh(members.iter().copied()) >= committee.validity())
        };
        let run = check_log(context, change, view, check).map_err(|reason| Invalid { sender: change.sender, reason })?;
        runs.push(run);
    }
    let certificate = runs.first().and_then(|run| run.change.certificate.clone());
    let (base, start) = certificate.as_ref().map_or((Slot(0), Slot(0)), |it| (it.confirmed.base, it.confirmed.slot));
    // The highest checkpoint is final, so every valid log that reaches it contains it.
    let top = runs.iter().filter(|run| run.is_anchored).max_by_key(|run| run.after);
    let (after, after_hash) = top.map_or((Slot(0), context.genesis_hash()), |run| (run.after, run.hashes[0]));
    for run in &runs {
        if run.after > after {
            let is_known = runs.iter().any(|other| other.is_anchored && other.hash(run.after) == Some(run.hashes[0]));
            if !is_known {
                let reason = format!("nobody else knows where its log begins, slot {}", run.after.0);
                return Err(Invalid { sender: run.change.sender, reason });
            }
        } else if run.end() >= after && run.hash(after) != Some(after_hash) {
            let reason = format!("log does not contain the checkpoint of slot {}", after.0);
            return Err(Invalid { sender: run.change.sender, reason });
        }
    }
    // (b), (c) The longest log of that view.
    let longest = runs.iter().filter(|run| run.end() >= after).max_by_key(|run| run.end());
    let mut entries: Vec<Entry> = Vec::new();
    if let Some(run) = longest {
        // The part before a log that begins late comes from one that contains its beginning.
        let before =
            runs.iter().find(|other| run.after > after && other.is_anchored && other.hash(run.after) == Some(run.hashes[0]));
        for (slot, entry) in before.into_iter().flat_map(Run::slots).filter(|(slot, _)| *slot <= run.after).chain(run.slots()) {
            if slot > after {
                entries.push(entry.clone());
            }
        }
        if entries.len() as u64 > max_log {
            let reason = format!("expected at most {max_log} slots after slot {}, got {}", after.0, entries.len());
            return Err(Invalid { sender: run.change.sender, reason });
        }
    }
    // (c) Drops of that view win over packets; (d) drops of older views are in the base or do not count.
    for run in &runs {
        let in_log = run.change.entries.iter().filter_map(|entry| match entry {
            Entry::NoOp(proof) => Some(proof),
            Entry::Request(_) => None,
        });
        for proof in in_log.chain(&run.change.prepared).filter(|proof| proof.view == view && proof.slot > start) {
            overlay(&mut entries, after, proof);
        }
    }
    let (mut slot, mut hash) = (after, after_hash);
    for entry in &entries {
        slot = slot.next();
        hash = context.log_hash(hash, slot, entry);
    }
    // B.1: a new epoch begins after the merged log.
    let base = if target.epoch > view.epoch { slot } else { base };
    Ok(Merged { confirmed: Confirmed { view: target, base, slot, hash }, certificate, after, after_hash, entries })
}

/// The last view in which the sender was normal.
pub fn last_view(change: &ViewChange) -> View {
    change.certificate.as_ref().map(|certificate| certificate.confirmed.view).unwrap_or_default()
}

fn overlay(entries: &mut [Entry], after: Slot, proof: &DropProof) {
    let place = proof.slot.0.checked_sub(after.0 + 1).and_then(|place| usize::try_from(place).ok());
    if let Some(entry) = place.and_then(|place| entries.get_mut(place))
        && matches!(entry, Entry::Request(_))
    {
        *entry = Entry::NoOp(proof.clone());
    }
}

/// Members whose signed logs contain a packet at a slot.
fn attestations(context: &Context, changes: &[ViewChange]) -> BTreeMap<(Slot, crate::message::Value), Vec<ValidatorIndex>> {
    let mut attested: BTreeMap<_, Vec<ValidatorIndex>> = BTreeMap::new();
    for change in changes {
        for (slot, entry) in (change.after.0.saturating_add(1)..).map(Slot).zip(&change.entries) {
            if let Entry::Request(packet) = entry {
                attested.entry((slot, context.value(packet))).or_default().push(change.sender);
            }
        }
    }
    attested
}

/// V3: a log is valid if it contains the base of its view, and beyond that only packets at their slots and drops of that view.
fn check_log<'a>(
    context: &Context,
    change: &'a ViewChange,
    view: View,
    is_valid: impl Fn(&OrderingCertificate, Slot) -> bool,
) -> Result<Run<'a>, String> {
    let anchor =
        change.checkpoint.as_ref().map_or((Slot(0), context.genesis_hash()), |checkpoint| (checkpoint.slot, checkpoint.hash));
    let (after, mut hash) = (change.after, change.after_hash);
    let is_anchored = anchor == (after, hash);
    if !is_anchored && after <= anchor.0 {
        return Err("log does not begin at its checkpoint".into());
    }
    let confirmed = change.certificate.as_ref().map(|certificate| certificate.confirmed);
    let (base, start) = confirmed.map_or((Slot(0), Slot(0)), |confirmed| (confirmed.base, confirmed.slot));
    let mut hashes = vec![hash];
    let mut slot = after;
    for entry in &change.entries {
        slot = slot.next();
        if slot > start {
            match entry {
                Entry::Request(packet) => {
                    if packet.epoch != view.epoch || base.0.checked_add(packet.seq) != Some(slot.0) {
                        return Err(format!("packet {} of epoch {} is not for slot {}", packet.seq, packet.epoch, slot.0));
                    }
                    if !is_valid(packet, slot) {
                        return Err(format!("certificate of slot {} is not valid", slot.0));
                    }
                }
                Entry::NoOp(proof) => {
                    if proof.view != view || proof.slot != slot {
                        return Err(format!("drop of slot {} was decided for slot {} in {}", slot.0, proof.slot.0, proof.view));
                    }
                }
            }
        }
        hash = context.log_hash(hash, slot, entry);
        hashes.push(hash);
    }
    let run = Run { change, after, hashes, is_anchored };
    match confirmed {
        // Pitfall 4: the hash, not only the length.
        Some(confirmed) if after <= confirmed.slot && run.hash(confirmed.slot) != Some(confirmed.hash) => {
            Err(format!("log does not contain the base of {view}"))
        }
        _ => Ok(run),
    }
}
