//! Committed slots: accepted in any order, delivered with their cuts, and kept as long as open slots and laggards need
//! them.

use super::{Effect, context::SlotContext, slot::Anchor};
use crate::message::{CommitQc, Cut, Message, Slot};
use corniche_types::{B256, TimestampMs};
use std::{collections::BTreeMap, sync::Arc};

pub(crate) struct Commits {
    /// k: maximum number of open slots.
    open_slots: u64,
    /// Every slot up to this one is committed, with its cut.
    through: Slot,
    slots: BTreeMap<Slot, Committed>,
    /// Time to request missing cuts again.
    pub fetch: Option<TimestampMs>,
    attempts: usize,
    /// Time to request a commit that is missing below others.
    pub gap: Option<TimestampMs>,
    gap_attempts: usize,
}

struct Committed {
    value: B256,
    /// Missing only for slots before this validator's records.
    certificate: Option<CommitQc>,
    /// Missing while a certificate has overtaken its PREPARE (P6).
    cut: Option<Arc<Cut>>,
}

impl Commits {
    pub fn new(open_slots: u64, through: Slot, anchors: Vec<(B256, Cut)>) -> Self {
        let anchor = |(value, cut): (B256, Cut)| (cut.slot, Committed { value, certificate: None, cut: Some(Arc::new(cut)) });
        let slots = anchors.into_iter().map(anchor).collect();
        Self { open_slots, through, slots, fetch: None, attempts: 0, gap: None, gap_attempts: 0 }
    }

    pub fn through(&self) -> Slot {
        self.through
    }

    /// S2: no correct validator signs anything about a slot beyond this one before this validator can know more
    /// commits.
    pub fn horizon(&self) -> Slot {
        Slot(self.through.0.saturating_add(2 * self.open_slots))
    }

    pub fn contains(&self, slot: Slot) -> bool {
        slot <= self.through || self.slots.contains_key(&slot)
    }

    /// Returns true if a slot is committed and a lower one is not delivered.
    pub fn has_gap(&self) -> bool {
        self.slots.last_key_value().is_some_and(|(last, _)| *last > self.through)
    }

    pub fn certificate(&self, slot: Slot) -> Option<&CommitQc> {
        self.slots.get(&slot)?.certificate.as_ref()
    }

    pub fn cut(&self, slot: Slot) -> Option<&Arc<Cut>> {
        self.slots.get(&slot)?.cut.as_ref()
    }

    /// The committed cut, if it has this digest.
    pub fn body(&self, slot: Slot, digest: B256) -> Option<&Arc<Cut>> {
        self.slots.get(&slot).filter(|committed| committed.value == digest)?.cut.as_ref()
    }

    /// Returns true if this is the missing cut of a committed slot.
    pub fn wants(&self, slot: Slot, digest: B256) -> bool {
        self.slots.get(&slot).is_some_and(|committed| committed.cut.is_none() && committed.value == digest)
    }

    /// P14: reference for a slot's cut.
    pub fn anchor(&self, slot: Slot) -> Anchor<'_> {
        match slot.0.checked_sub(self.open_slots) {
            None | Some(0) => Anchor::Start,
            Some(anchor) => self.cut(Slot(anchor)).map_or(Anchor::Unknown, |cut| Anchor::Cut(cut)),
        }
    }

    /// C8: stores a commit, with `cut` if it is known already. Returns true if the slot was open until now.
    pub fn insert(
        &mut self,
        ctx: &mut SlotContext,
        certificate: CommitQc,
        cut: Option<Arc<Cut>>,
    ) -> Result<bool, Box<[CommitQc; 2]>> {
        let slot = certificate.slot;
        if let Some(known) = self.slots.get_mut(&slot) {
            if known.value == certificate.cut {
                known.certificate.get_or_insert(certificate);
                return Ok(false);
            }
            let first = known.certificate.clone().unwrap_or_else(|| certificate.clone());
            return Err(Box::new([first, certificate]));
        }
        if slot <= self.through {
            return Ok(false);
        }
        ctx.note(if cut.is_some() { "commit" } else { "commit-without-cut" }, slot, certificate.view);
        let value = certificate.cut;
        self.slots.insert(slot, Committed { value, certificate: Some(certificate), cut: None });
        match cut {
            Some(cut) => self.complete(ctx, &cut),
            None if self.fetch.is_none() => self.fetch_missing(ctx),
            None => {}
        }
        Ok(true)
    }

    /// The cut of a committed slot arrived: delivers it.
    pub fn complete(&mut self, ctx: &mut SlotContext, cut: &Arc<Cut>) {
        let Some(committed) = self.slots.get_mut(&cut.slot) else { return };
        committed.cut = Some(cut.clone());
        if let Some(certificate) = committed.certificate.clone() {
            ctx.effects.push_back(Effect::Committed { cut: cut.clone(), certificate });
        }
        while self.slots.get(&Slot(self.through.0 + 1)).is_some_and(|next| next.cut.is_some()) {
            self.through.0 += 1;
        }
        // Keeps the anchors of the open slots, and as many for validators that are behind (G1).
        self.slots = self.slots.split_off(&Slot((self.through.0 + 1).saturating_sub(2 * self.open_slots)));
    }

    /// P6: fetches cuts of certificates without one. A validator that acknowledged may lack the cut too, but correct
    /// validators with Q − F votes voted for it.
    pub fn fetch_missing(&mut self, ctx: &mut SlotContext) {
        let missing: Vec<_> = self.slots.values().filter(|committed| committed.cut.is_none()).collect();
        self.fetch = (!missing.is_empty()).then(|| ctx.in_ms(ctx.config.fetch_retry_ms));
        for certificate in missing.iter().filter_map(|committed| committed.certificate.as_ref()) {
            ctx.request_cut(certificate.slot, certificate.cut, &certificate.proof.signers, self.attempts);
        }
        self.attempts = if missing.is_empty() { 0 } else { self.attempts + 1 };
    }

    /// Commits come in any order (P27). A commit that is still missing when later ones have been known for some time
    /// was lost, perhaps with its leader. This timer recovers it without the end of a view. Called after every change.
    pub fn watch_gap(&mut self, ctx: &SlotContext) {
        let has_gap = self.slots.last_key_value().is_some_and(|(last, _)| *last > self.through) && self.fetch.is_none();
        if !has_gap {
            (self.gap, self.gap_attempts) = (None, 0);
        } else if self.gap.is_none() {
            self.gap = Some(ctx.in_ms(ctx.config.fetch_retry_ms));
        }
    }

    /// The leader of a later commit probably has it.
    pub fn request_gap(&mut self, ctx: &mut SlotContext) {
        let later = self.slots.values().rev().filter_map(|committed| committed.certificate.as_ref());
        let leaders: Vec<_> = later.map(|certificate| ctx.schedule.leader(certificate.slot, certificate.view)).collect();
        ctx.request_from(&Message::FetchCommits { above: self.through }, &leaders, self.gap_attempts);
        self.gap_attempts += 1;
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }
}
