//! The blocks of one author in one round: almost always one.
//!
//! An equivocator can sign thousands of siblings, and those that other blocks need are all kept (V8). So no query visits all
//! siblings of a slot: an index finds them, and the sums that the rules read are kept up to date.

use crate::message::{Block, BlockRef};
use corniche_types::{B256, ValidatorIndex, Votes, Weights};
use std::{collections::BTreeMap, sync::Arc};

/// A block of the DAG, with its votes and certificates.
pub(super) struct Node {
    pub block: Arc<Block>,
    /// For depth d in 1..=w−2 and author a, at `(d − 1)·n + a`: the sibling of (round − d, a) that this block supports.
    pub supports: Vec<SiblingIndex>,
    /// For author a: the sibling of (round − (w − 1), a) that this block certifies.
    pub certifies: Vec<SiblingIndex>,
}

/// Position among the blocks of one (round, author), local to this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SiblingIndex(pub u16);

#[derive(Default)]
pub(super) struct Slot {
    /// In order of acceptance.
    siblings: Vec<Node>,
    /// All siblings but the first, by digest.
    further: BTreeMap<B256, SiblingIndex>,
    /// From the second sibling on, for author a: the sibling of a that all blocks of this slot vote for, if they agree.
    common_votes: Vec<SiblingIndex>,
    /// The certified siblings: at most one, up to the fault bound (I2).
    certified: BTreeMap<SiblingIndex, Certifiers>,
}

/// Authors with a block that certifies one sibling. Authors are weighed, not blocks (P2): an equivocator's extra blocks must
/// not forge a quorum.
struct Certifiers {
    authors: Vec<bool>,
    votes: Votes,
}

impl SiblingIndex {
    pub const FIRST: Self = Self(0);
    pub const NONE: Self = Self(u16::MAX);
}

impl Node {
    /// F2: the last row of `supports`. For author a: the sibling of (round − (w − 2), a) that this block votes for.
    pub fn votes(&self) -> &[SiblingIndex] {
        &self.supports[self.supports.len() - self.certifies.len()..]
    }
}

impl Slot {
    pub fn len(&self) -> usize {
        self.siblings.len()
    }

    pub fn is_empty(&self) -> bool {
        self.siblings.is_empty()
    }

    /// Returns true if there is no index for another sibling.
    pub fn is_full(&self) -> bool {
        self.len() >= usize::from(SiblingIndex::NONE.0)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Node> {
        self.siblings.iter().inspect(|_| count_visit())
    }

    pub fn first(&self) -> Option<&Node> {
        self.get(SiblingIndex::FIRST)
    }

    pub fn get(&self, sibling: SiblingIndex) -> Option<&Node> {
        self.siblings.get(usize::from(sibling.0)).inspect(|_| count_visit())
    }

    pub fn find(&self, digest: &B256) -> Option<(SiblingIndex, &Node)> {
        let is_first = self.first().is_some_and(|first| first.block.reference().digest == *digest);
        let sibling = if is_first { SiblingIndex::FIRST } else { *self.further.get(digest)? };
        Some((sibling, self.get(sibling)?))
    }

    /// Adds a block. The slot is not full.
    pub fn push(&mut self, node: Node) {
        if let Some(first) = self.first() {
            if self.common_votes.is_empty() {
                self.common_votes = first.votes().to_vec();
            }
            for (common, vote) in self.common_votes.iter_mut().zip(node.votes()) {
                *common = if common == vote { *common } else { SiblingIndex::NONE };
            }
            let index = u16::try_from(self.len()).expect("below the limit of a slot");
            self.further.insert(node.block.reference().digest, SiblingIndex(index));
        }
        self.siblings.push(node);
    }

    /// The sibling of `author` that all blocks of this slot vote for, if they agree.
    pub fn common_vote(&self, author: ValidatorIndex) -> Option<SiblingIndex> {
        let votes = if self.common_votes.is_empty() { self.first()?.votes() } else { &self.common_votes };
        votes.get(author.as_usize()).copied().filter(|sibling| *sibling != SiblingIndex::NONE)
    }

    /// A block of author `by` certifies this sibling.
    pub fn add_certificate(&mut self, sibling: SiblingIndex, by: ValidatorIndex, weights: &Weights) {
        let none = || Certifiers { authors: vec![false; weights.members()], votes: Votes(0) };
        let certifiers = self.certified.entry(sibling).or_insert_with(none);
        if !std::mem::replace(&mut certifiers.authors[by.as_usize()], true) {
            certifiers.votes += weights.of(by);
        }
    }

    /// The certified siblings, in order of acceptance, with the votes of the authors that certify them.
    pub fn certified(&self) -> impl Iterator<Item = (BlockRef, Votes)> {
        self.certified.iter().filter_map(|(sibling, by)| Some((self.get(*sibling)?.block.reference(), by.votes)))
    }
}

#[cfg(test)]
thread_local! {
    /// Number of blocks that queries looked at, so that tests bound their work without a clock.
    pub(super) static VISITS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

fn count_visit() {
    #[cfg(test)]
    VISITS.set(VISITS.get() + 1);
}
