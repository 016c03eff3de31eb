//! Siblings, which are blocks of one slot: how many are kept (V8), that they are reported (E2), and that their authors are no parents for a
//! while.

use crate::{
    engine::MahiMahi,
    message::{Block, BlockRef, Round, first_of},
    proposer::Shunned,
    synchroniser::MAX_UNASKED_SIBLINGS,
};
use corniche_engine::{Offence, Output};
use corniche_types::ValidatorIndex;
use std::{collections::BTreeMap, sync::Arc};

/// Slots above the floor whose equivocation is reported, per author.
const MAX_REPORTED: usize = 64;
/// For so many floor depths after its last proven equivocation an author is not taken as a parent, and for so many times as long after each
/// relapse. Whoever did it by mistake, from a restored backup, is taken again; whoever goes on costs a few slow rounds once or twice.
const SHUNNED_DEPTHS: u64 = 4;
const LONGER: u64 = 256;
/// Relapses after which an author is out for as long as this engine lives.
const MAX_RELAPSES: u32 = 4;

/// An author's equivocations.
#[derive(Default)]
pub(crate) struct Equivocations {
    /// The last round of which that is known.
    last: Round,
    /// How often it was taken as a parent again and went on.
    relapses: u32,
}

/// Weight of siblings beyond the first of a slot, by the author on whose behalf they were taken in: the one whose block needs them, or
/// their own. So an equivocator fills its account, and not the memory.
pub(crate) struct Extras {
    of: BTreeMap<BlockRef, (ValidatorIndex, usize)>,
    bytes: Vec<usize>,
}

impl Extras {
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
            self.outputs.push_back(Output::Accuse { validator: author, offence: Offence::Equivocation, evidence });
        }
    }

    /// Blocks of the same slot that are kept.
    fn siblings(&self, reference: &BlockRef) -> impl Iterator<Item = &Arc<Block>> {
        let BlockRef { round, author, .. } = *reference;
        self.dag.siblings(round, author).chain(self.synchroniser.siblings(round, author))
    }

    /// V8 keeps siblings. One that nobody references is kept only up to a bound, and all of them only as far as the accounts go that they
    /// are here for. Reads nothing but the name, so that a surplus one costs no signature check.
    pub(crate) fn is_surplus(&self, reference: &BlockRef) -> bool {
        let siblings = self.siblings(reference).take(MAX_UNASKED_SIBLINGS).count();
        let most = self.config.max_extra_bytes(self.committee.size());
        let mut accounts = self.synchroniser.needed_by(reference).peekable();
        let has_room = match accounts.peek() {
            Some(_) => accounts.any(|account| self.extras.has_room(account, most)),
            None => siblings < MAX_UNASKED_SIBLINGS && self.extras.has_room(reference.author, most),
        };
        siblings > 0 && !has_room
    }

    /// True when this is worth a report: once a slot, and not without end for one author, whose rounds cost it nothing.
    fn note_equivocation(&mut self, round: Round, author: ValidatorIndex) -> bool {
        let reported = self.accused.iter().filter(|(_, accused)| *accused == author).count();
        reported < MAX_REPORTED && self.accused.insert((round, author))
    }

    /// A second sibling of this slot was seen. An own one is a matter of K2.
    pub(crate) fn note_equivocator(&mut self, reference: &BlockRef) {
        if self.me() == Some(reference.author) {
            return;
        }
        let is_relapse = !self.is_shunned(reference.author) && self.equivocated.contains_key(&reference.author);
        let known = self.equivocated.entry(reference.author).or_default();
        known.last = reference.round.max(known.last);
        known.relapses = (known.relapses + u32::from(is_relapse)).min(MAX_RELAPSES);
    }

    /// True for a proven equivocator that is not forgiven yet.
    pub(crate) fn is_shunned(&self, author: ValidatorIndex) -> bool {
        let depth = SHUNNED_DEPTHS * self.config.gc_depth;
        let is_recent =
            |known: &Equivocations| known.last + depth.saturating_mul(LONGER.pow(known.relapses)) >= self.dag.clock();
        self.equivocated.get(&author).is_some_and(is_recent)
    }

    /// True for an author that ever signed two siblings, as far as this engine knows.
    pub(crate) fn is_equivocator(&self, author: ValidatorIndex) -> bool {
        self.equivocated.contains_key(&author)
    }

    pub(crate) fn shunned(&self) -> Shunned {
        let authors = self.equivocated.keys().copied().filter(|author| self.is_shunned(*author)).collect();
        let unlinked = self.equivocated.keys().copied().collect();
        Shunned { authors, unlinked, committee_size: self.committee.size() }
    }
}
