//! Siblings are blocks of one slot. This module limits how many are kept (V8), reports them (E2), and excludes their
//! authors as parents for some time.

use crate::{
    engine::MahiMahi,
    message::{Block, BlockRef, Round, first_of},
    proposer::ExcludedAuthors,
    synchroniser::MAX_UNREQUESTED_SIBLINGS,
};
use corniche_engine::{Offence, Output};
use corniche_types::ValidatorIndex;
use std::{collections::BTreeMap, sync::Arc};

/// Maximum reported equivocations per author, in slots above the floor.
const MAX_REPORTED: usize = 64;
/// Number of floor depths after its last proven equivocation for which an author is not taken as a parent. The time
/// grows by the factor `EXCLUSION_GROWTH` with each relapse. An author that equivocated by mistake, from a restored backup, is
/// taken again. One that continues costs a few slow rounds once or twice.
const EXCLUSION_DEPTHS: u64 = 4;
const EXCLUSION_GROWTH: u64 = 256;
/// After this many relapses, an author is excluded for the lifetime of this engine.
const MAX_RELAPSES: u32 = 4;

/// Equivocations of one author.
#[derive(Default)]
pub(crate) struct Equivocations {
    /// Highest round with a known equivocation.
    last: Round,
    /// Number of times it equivocated again after it was forgiven.
    relapses: u32,
}

/// Memory used by siblings beyond the first of a slot, per account. The account is the author whose block needs the
/// sibling, or the sibling's own author. So an equivocator fills its account, and not the memory.
pub(crate) struct ExtraSiblings {
    of: BTreeMap<BlockRef, (ValidatorIndex, usize)>,
    bytes: Vec<usize>,
}

impl ExtraSiblings {
    pub fn new(committee_size: usize) -> Self {
        Self { of: BTreeMap::new(), bytes: vec![0; committee_size] }
    }

    pub fn has_room(&self, account: ValidatorIndex, most: usize) -> bool {
        self.bytes[account.as_usize()] < most
    }

    pub fn add(&mut self, reference: BlockRef, account: ValidatorIndex, bytes: usize) {
        self.bytes[account.as_usize()] += bytes;
        self.of.insert(reference, (account, bytes));
    }

    pub fn prune(&mut self, floor: Round) {
        let above = self.of.split_off(&first_of(floor + 1));
        for (account, bytes) in std::mem::replace(&mut self.of, above).into_values() {
            self.bytes[account.as_usize()] -= bytes;
        }
    }
}

impl MahiMahi {
    /// E2: reports a second block of a slot. Its signature was checked.
    pub(crate) fn report_sibling(&mut self, block: &Block) {
        let reference = block.reference();
        let BlockRef { round, author, .. } = reference;
        let Some(first) = self.siblings(&reference).next().cloned() else { return };
        self.note_equivocator(&reference);
        if self.note_equivocation(round, author) {
            let evidence = vec![first.encode(), block.encode()];
            let proof = self.context.contradiction(&first, block).and_then(|it| self.committee.evidence(author, it));
            self.outputs.push_back(Output::Accuse { validator: author, offence: Offence::Equivocation, evidence, proof });
        }
    }

    /// Known blocks of the same slot.
    fn siblings(&self, reference: &BlockRef) -> impl Iterator<Item = &Arc<Block>> {
        let BlockRef { round, author, .. } = *reference;
        self.dag.siblings(round, author).chain(self.synchroniser.siblings(round, author))
    }

    /// Returns true if a sibling exceeds the bounds. V8 keeps siblings: unreferenced ones up to a number, and all of
    /// them up to the limits of their accounts. It reads only the reference, so that a surplus sibling costs no
    /// signature check.
    pub(crate) fn is_surplus(&self, reference: &BlockRef) -> bool {
        let siblings = self.siblings(reference).take(MAX_UNREQUESTED_SIBLINGS).count();
        let most = self.config.max_extra_bytes(self.committee.weights());
        let mut accounts = self.synchroniser.needed_by(reference).peekable();
        let has_room = match accounts.peek() {
            Some(_) => accounts.any(|account| self.extra_siblings.has_room(account, most)),
            None => siblings < MAX_UNREQUESTED_SIBLINGS && self.extra_siblings.has_room(reference.author, most),
        };
        siblings > 0 && !has_room
    }

    /// Returns true if this equivocation should be reported: once per slot, and at most [`MAX_REPORTED`] times per
    /// author, because signing further rounds costs the author nothing.
    fn note_equivocation(&mut self, round: Round, author: ValidatorIndex) -> bool {
        let reported = self.accused.iter().filter(|(_, accused)| *accused == author).count();
        reported < MAX_REPORTED && self.accused.insert((round, author))
    }

    /// Notes that a second sibling of this slot was seen. An own one is handled by K2.
    pub(crate) fn note_equivocator(&mut self, reference: &BlockRef) {
        if self.me() == Some(reference.author) {
            return;
        }
        let is_relapse = !self.is_excluded(reference.author) && self.equivocated.contains_key(&reference.author);
        let known = self.equivocated.entry(reference.author).or_default();
        known.last = reference.round.max(known.last);
        known.relapses = (known.relapses + u32::from(is_relapse)).min(MAX_RELAPSES);
    }

    /// Returns true for a proven equivocator that is not forgiven yet.
    pub(crate) fn is_excluded(&self, author: ValidatorIndex) -> bool {
        let depth = EXCLUSION_DEPTHS * self.config.gc_depth;
        let is_recent =
            |known: &Equivocations| known.last + depth.saturating_mul(EXCLUSION_GROWTH.pow(known.relapses)) >= self.dag.clock();
        self.equivocated.get(&author).is_some_and(is_recent)
    }

    /// Returns true for an author that ever signed two siblings, as far as this engine knows.
    pub(crate) fn is_equivocator(&self, author: ValidatorIndex) -> bool {
        self.equivocated.contains_key(&author)
    }

    pub(crate) fn excluded(&self) -> ExcludedAuthors {
        let authors = self.equivocated.keys().copied().filter(|author| self.is_excluded(*author)).collect();
        let without_weak_links = self.equivocated.keys().copied().collect();
        ExcludedAuthors { authors, without_weak_links, committee_size: self.committee.size() }
    }
}
