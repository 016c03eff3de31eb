//! Slots, or views, in which a validator says nothing, because it may have said something else before.

use crate::Slot;
use corniche_engine::Committee;
use corniche_types::ValidatorIndex;
use std::collections::BTreeMap;

/// After a lost disk, or beside records from which older slots are gone. `S` is a slot or a view.
///
/// An engine without records has lost its disk, unless the caller knows that it never sent anything. This also holds at the genesis, where
/// engines for Byzantine validators begin anew: there, a node with an empty directory starts its engine, whether its validator is new,
/// lost power before its first record, or lost its disk. Byzantine quorums bear a member that forgot, as one of the faulty. Here two quorums
/// may share this validator alone, and without its memory they could decide a slot twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence<S> {
    Nowhere,
    /// In slots up to this one: in no later one it can have said anything before.
    Through(S),
    /// In slots up to this one, which are delivered. The record that says so is not on disk yet. Only for slots.
    Ending(S),
    /// Until enough others report the slots in use.
    Everywhere,
}

impl<S: Copy + Ord> Silence<S> {
    /// Returns true if this validator may take part in a slot.
    pub fn allows(&self, slot: S) -> bool {
        match self {
            Self::Nowhere => true,
            Self::Through(last) | Self::Ending(last) => slot > *last,
            Self::Everywhere => false,
        }
    }

    /// Content of the record: the last silent slot, or `None` for all. There is no record without silence.
    pub fn record(&self) -> Option<Option<S>> {
        match self {
            Self::Nowhere => None,
            Self::Through(last) | Self::Ending(last) => Some(Some(*last)),
            Self::Everywhere => Some(None),
        }
    }

    pub fn recovered(record: Option<S>) -> Self {
        record.map_or(Self::Everywhere, Self::Through)
    }

    /// Highest slot in use, as this validator reports it to others that lost their disks. It may have forgotten higher ones than the
    /// `known` one itself. `None` if it does not know.
    pub fn report(&self, known: S) -> Option<S> {
        match self {
            Self::Nowhere => Some(known),
            Self::Through(last) | Self::Ending(last) => Some(known.max(*last)),
            Self::Everywhere => None,
        }
    }

    /// Returns true if the silence can end, because its last slot is delivered: a delivered slot cannot be forgotten, but a decision
    /// that is not on disk can. The silence ends once the log has a record of another kind: an empty log would count as lost again.
    pub fn begin_end(&mut self, delivered: S) -> bool {
        let Self::Through(last) = *self else { return false };
        if delivered < last {
            return false;
        }
        *self = Self::Ending(last);
        true
    }
}

impl Silence<Slot> {
    /// The silence beside records whose first decision is that of the slot `first`. If it is far above the delivered slot, the chain is
    /// executed again: up to there this validator took part, and forgot it. `open` slots may be undecided at a time.
    pub fn beside(self, first: Option<Slot>, delivered: Slot, open: u64) -> Self {
        match first {
            Some(first) if self == Self::Nowhere && first.0 > delivered.0 + open + 1 => Self::Through(Slot(first.0 - 1)),
            _ => self,
        }
    }
}

/// Reports of other validators, for one that lost its disk. `S` is as in [`Silence`].
pub struct Reports<S>(BTreeMap<ValidatorIndex, S>);

impl<S> Default for Reports<S> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<S: Copy + Ord> Reports<S> {
    /// Adds a report. Returns the highest one, once members with a quorum of votes reported.
    pub fn add(&mut self, from: ValidatorIndex, report: S, committee: &Committee) -> Option<S> {
        self.0.insert(from, report);
        if committee.weigh(self.0.keys().copied()) < committee.quorum() {
            return None;
        }
        std::mem::take(&mut self.0).into_values().max()
    }
}
