//! The blocks whose whole history is known, with their votes and certificates worked out once, on insertion (F1–F4).
//!
//! A vote looks back w − 2 rounds, so each block carries, for each of the w − 2 rounds before it, which sibling of each
//! author it supports: the merge of its parents' tables in list order, which is what a pre-order depth-first walk finds first. A
//! certificate is counted from the parents' tables. Queries are then look-ups, linear in the committee.

use crate::message::{Block, BlockRef, Round, first_of};
use corniche_types::ValidatorIndex;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The DAG. Holds every sibling of an equivocator (V8): other validators' certificates may need any of them.
pub struct Dag {
    committee_size: usize,
    quorum: usize,
    wave_length: u64,
    rounds: BTreeMap<Round, DagRound>,
    /// Highest round with blocks of a quorum of authors.
    quorum_round: Round,
}

struct DagRound {
    /// Per author the siblings in order of acceptance, almost always at most one.
    slots: Vec<Vec<Node>>,
    /// Authors with at least one block.
    authors: usize,
}

struct Node {
    block: Arc<Block>,
    /// For depth d in 1..=w−2 and author a, at `(d − 1)·n + a`: the sibling of (round − d, a) that this block supports.
    supports: Vec<Sibling>,
    /// For author a: the sibling of (round − (w − 1), a) that this block certifies.
    certifies: Vec<Sibling>,
}

/// A parent that is here, as seen from a new block.
struct Parent<'a> {
    /// How many rounds below.
    gap: u64,
    author: ValidatorIndex,
    sibling: Sibling,
    node: &'a Node,
}

/// Position among the blocks of one (round, author), local to this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sibling(u16);

impl Sibling {
    const NONE: Self = Self(u16::MAX);
}

impl Dag {
    pub fn new(committee_size: usize, quorum: usize, wave_length: u64) -> Self {
        Self { committee_size, quorum, wave_length, rounds: BTreeMap::new(), quorum_round: Round(0) }
    }

    pub fn wave_length(&self) -> u64 {
        self.wave_length
    }

    pub fn quorum(&self) -> usize {
        self.quorum
    }

    /// Highest round with any block; 0 when empty.
    pub fn top(&self) -> Round {
        self.rounds.last_key_value().map_or(Round(0), |(round, _)| *round)
    }

    /// E4: the round that may be proposed now: one above the highest with a quorum of authors.
    pub fn clock(&self) -> Round {
        self.quorum_round + 1
    }

    /// Distinct authors with a block in `round`.
    pub fn authors_at(&self, round: Round) -> usize {
        self.rounds.get(&round).map_or(0, |blocks| blocks.authors)
    }

    pub fn get(&self, reference: &BlockRef) -> Option<&Arc<Block>> {
        self.node(reference).map(|(_, node)| &node.block)
    }

    pub fn contains(&self, reference: &BlockRef) -> bool {
        self.node(reference).is_some()
    }

    /// The siblings of one author in one round, in order of acceptance.
    pub fn siblings(&self, round: Round, author: ValidatorIndex) -> impl Iterator<Item = &Arc<Block>> {
        self.slot(round, author).iter().map(|node| &node.block)
    }

    /// All blocks of a round, by author.
    pub fn round(&self, round: Round) -> impl Iterator<Item = &Arc<Block>> {
        self.rounds.get(&round).into_iter().flat_map(|blocks| blocks.slots.iter().flatten()).map(|node| &node.block)
    }

    /// Highest block of an author, the first accepted among siblings.
    pub fn latest_of(&self, author: ValidatorIndex) -> Option<&Arc<Block>> {
        self.rounds.keys().rev().find_map(|round| self.siblings(*round, author).next())
    }

    /// Blocks of an author above `after`, in ascending rounds.
    pub fn chain_of(&self, author: ValidatorIndex, after: Round) -> impl Iterator<Item = &Arc<Block>> {
        self.rounds.range(after + 1..).flat_map(move |(round, _)| self.siblings(*round, author))
    }

    /// How many blocks are held.
    pub fn len(&self) -> usize {
        self.rounds.values().flat_map(|blocks| &blocks.slots).map(Vec::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.rounds.is_empty()
    }

    /// Adds a block. Every parent above the floor must be here already (V8). False when it is here already.
    pub fn insert(&mut self, block: Arc<Block>) -> bool {
        let slot = self.slot(block.round(), block.author());
        // More siblings than a number can name are never needed; the synchroniser's bounds are far below.
        if self.contains(&block.reference()) || slot.len() >= usize::from(Sibling::NONE.0) {
            return false;
        }
        let parents: Vec<Parent> = block.parents().iter().filter_map(|parent| self.parent(&block, parent)).collect();
        let (supports, certifies) = (self.work_out_supports(&parents), self.work_out_certificates(block.round(), &parents));
        let node = Node { block, supports, certifies };
        let (round, author) = (node.block.round(), node.block.author());
        let size = self.committee_size;
        let blocks =
            self.rounds.entry(round).or_insert_with(|| DagRound { slots: (0..size).map(|_| Vec::new()).collect(), authors: 0 });
        let siblings = &mut blocks.slots[author.as_usize()];
        blocks.authors += usize::from(siblings.is_empty());
        siblings.push(node);
        if blocks.authors >= self.quorum {
            self.quorum_round = self.quorum_round.max(round);
        }
        true
    }

    /// Forgets rounds up to `floor`.
    pub fn prune(&mut self, floor: Round) {
        self.rounds = self.rounds.split_off(&(floor + 1));
    }

    /// F2: which block of (`round`, `author`) does `voter`, a block of the vote round, support?
    pub fn vote(&self, voter: &BlockRef, author: ValidatorIndex) -> Option<BlockRef> {
        let (_, node) = self.node(voter)?;
        let depth = self.wave_length - 2;
        self.resolve(voter.round - depth, author, node.supports[self.index(depth, author)])
    }

    /// F3: which block of `author` in the propose round does `certifier`, a block of the certify round, certify? At most
    /// one can be: two quorums of votes would need more parents than there are authors.
    pub fn certificate(&self, certifier: &BlockRef, author: ValidatorIndex) -> Option<BlockRef> {
        let (_, node) = self.node(certifier)?;
        self.resolve(certifier.round - (self.wave_length - 1), author, node.certifies[author.as_usize()])
    }

    /// Per block of the slot, in order of acceptance: how many authors certify it. Authors are counted, not blocks (P2): an
    /// equivocator's further blocks must not forge a quorum.
    pub fn certified(&self, round: Round, author: ValidatorIndex) -> impl Iterator<Item = (BlockRef, usize)> {
        let certify_round = round + (self.wave_length - 1);
        self.count_authors(round, author, certify_round, move |node, sibling| node.certifies[author.as_usize()] == sibling)
    }

    /// Per block of the slot: how many authors have a block in the vote round that does not vote for it.
    pub fn refused(&self, round: Round, author: ValidatorIndex) -> impl Iterator<Item = (BlockRef, usize)> {
        let depth = self.wave_length - 2;
        let column = self.index(depth, author);
        self.count_authors(round, author, round + depth, move |node, sibling| node.supports[column] != sibling)
    }

    fn count_authors(
        &self,
        round: Round,
        author: ValidatorIndex,
        judging_round: Round,
        judges: impl Fn(&Node, Sibling) -> bool,
    ) -> impl Iterator<Item = (BlockRef, usize)> {
        let judging = self.rounds.get(&judging_round).map_or(&[][..], |blocks| &blocks.slots);
        (0u16..).map(Sibling).zip(self.slot(round, author)).map(move |(sibling, node)| {
            let agrees = |siblings: &&Vec<Node>| siblings.iter().any(|judge| judges(judge, sibling));
            (node.block.reference(), judging.iter().filter(agrees).count())
        })
    }

    /// The history of a block, round by round from the top.
    pub fn history(&self, from: BlockRef) -> History<'_> {
        History { dag: self, open: BTreeSet::from([from]) }
    }

    fn parent(&self, block: &Block, parent: &BlockRef) -> Option<Parent<'_>> {
        let (sibling, node) = self.node(parent)?;
        Some(Parent { gap: block.round().0 - parent.round.0, author: parent.author, sibling, node })
    }

    /// F4: pre-order in list order: a parent itself comes before what it stands on, and the first finding stays.
    fn work_out_supports(&self, parents: &[Parent]) -> Vec<Sibling> {
        let depth = self.wave_length - 2;
        let mut table = vec![Sibling::NONE; self.index(depth + 1, ValidatorIndex(0))];
        for Parent { gap, author, sibling, node } in parents.iter().filter(|parent| parent.gap <= depth) {
            fill(&mut table[self.index(*gap, *author)], *sibling);
            let deeper = self.index(gap + 1, ValidatorIndex(0));
            table[deeper..].iter_mut().zip(&node.supports).for_each(|(mine, theirs)| fill(mine, *theirs));
        }
        table
    }

    /// F3 counts only votes in the vote round itself, whatever else a block links (P4). V4 makes their authors distinct.
    fn work_out_certificates(&self, round: Round, parents: &[Parent]) -> Vec<Sibling> {
        let column = self.index(self.wave_length - 2, ValidatorIndex(0));
        let votes: Vec<_> = parents.iter().filter(|voter| voter.gap == 1).map(|voter| &voter.node.supports[column..]).collect();
        // Almost always a slot has one block: the votes for these are counted together, row by row.
        let mut first = vec![0u16; self.committee_size];
        for row in &votes {
            first.iter_mut().zip(*row).for_each(|(count, vote)| *count += u16::from(*vote == Sibling(0)));
        }
        let proposed = self.rounds.get(&(round - (self.wave_length - 1))).map_or(&[][..], |blocks| &blocks.slots);
        let mut certified = vec![Sibling::NONE; self.committee_size];
        for (author, siblings) in proposed.iter().enumerate() {
            let count = |sibling: Sibling| match sibling {
                Sibling(0) => usize::from(first[author]),
                other => votes.iter().filter(|row| row[author] == other).count(),
            };
            let mut siblings = (0u16..).map(Sibling).take(siblings.len());
            certified[author] = siblings.find(|sibling| count(*sibling) >= self.quorum).unwrap_or(Sibling::NONE);
        }
        certified
    }

    fn index(&self, depth: u64, author: ValidatorIndex) -> usize {
        usize::try_from(depth - 1).expect("at most the wave length") * self.committee_size + author.as_usize()
    }

    fn resolve(&self, round: Round, author: ValidatorIndex, sibling: Sibling) -> Option<BlockRef> {
        self.slot(round, author).get(usize::from(sibling.0)).map(|node| node.block.reference())
    }

    fn slot(&self, round: Round, author: ValidatorIndex) -> &[Node] {
        self.rounds.get(&round).and_then(|blocks| blocks.slots.get(author.as_usize())).map_or(&[], Vec::as_slice)
    }

    fn node(&self, reference: &BlockRef) -> Option<(Sibling, &Node)> {
        let numbered = (0u16..).map(Sibling).zip(self.slot(reference.round, reference.author));
        numbered.into_iter().find(|(_, node)| node.block.reference() == *reference)
    }
}

/// A walk down the history of a block. What is not in the DAG (below the floor) is left out.
pub struct History<'a> {
    dag: &'a Dag,
    /// Met and not passed yet, by round.
    open: BTreeSet<BlockRef>,
}

impl History<'_> {
    /// Walks down to `round`, which is not above that of an earlier call, and gives the blocks there.
    pub fn down_to(&mut self, round: Round) -> impl Iterator<Item = &BlockRef> {
        while let Some(last) = self.open.last().copied().filter(|last| last.round > round) {
            self.open.remove(&last);
            let parents = self.dag.get(&last).map_or(&[][..], |block| block.parents());
            self.open.extend(parents.iter().filter(|parent| self.dag.contains(parent)));
        }
        self.open.range(first_of(round)..)
    }
}

/// Without a branch, so that whole rows are merged at once.
fn fill(mine: &mut Sibling, theirs: Sibling) {
    *mine = if *mine == Sibling::NONE { theirs } else { *mine };
}
