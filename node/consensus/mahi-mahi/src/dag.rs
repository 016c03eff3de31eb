//! The blocks with complete history. Their votes and certificates are computed once, on insertion (F1–F4).
//!
//! A vote looks back w − 2 rounds. So each block stores, for each of the w − 2 rounds before it, which sibling of each
//! author it supports. This table is the merge of its parents' tables in list order, which equals the first find of a
//! pre-order depth-first walk. Certificates are counted from the parents' tables. Queries are then look-ups, linear in
//! the committee size.

use crate::message::{Block, BlockRef, Round, first_of};
use corniche_types::{ValidatorIndex, Votes, Weights};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Holds every sibling of an equivocator (V8): certificates of other validators may need any of them.
pub struct Dag {
    weights: Weights,
    wave_length: u64,
    rounds: BTreeMap<Round, DagRound>,
    /// Highest round in which authors with a quorum of votes have blocks.
    quorum_round: Round,
}

struct DagRound {
    /// Per author, the siblings in order of acceptance; almost always at most one.
    slots: Vec<Vec<Node>>,
    /// Votes of the authors with at least one block.
    votes: Votes,
}

struct Node {
    block: Arc<Block>,
    /// For depth d in 1..=w−2 and author a, at `(d − 1)·n + a`: the sibling of (round − d, a) that this block supports.
    supports: Vec<SiblingIndex>,
    /// For author a: the sibling of (round − (w − 1), a) that this block certifies.
    certifies: Vec<SiblingIndex>,
}

/// A parent in the DAG, relative to a new block.
struct Parent<'a> {
    /// Rounds between the parent and the new block.
    gap: u64,
    author: ValidatorIndex,
    sibling: SiblingIndex,
    node: &'a Node,
}

/// Position among the blocks of one (round, author), local to this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SiblingIndex(u16);

impl SiblingIndex {
    const NONE: Self = Self(u16::MAX);
}

impl Dag {
    pub fn new(weights: &Weights, wave_length: u64) -> Self {
        Self { weights: weights.clone(), wave_length, rounds: BTreeMap::new(), quorum_round: Round(0) }
    }

    pub fn wave_length(&self) -> u64 {
        self.wave_length
    }

    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    pub fn quorum(&self) -> Votes {
        self.weights.quorum()
    }

    /// Bytes of a batch that an honest author of this round reaches: authors with F + 1 votes have batches at least as large.
    pub fn batch_bytes(&self, round: Round) -> usize {
        let slots = self.rounds.get(&round).into_iter().flat_map(|blocks| &blocks.slots);
        let first = slots.filter_map(|siblings| siblings.first().map(|node| &node.block));
        let batches = first.map(|block| (block.author(), block.content().batch.len()));
        self.weights.reached(batches, self.weights.validity()).unwrap_or(0)
    }

    /// Bytes of the batches from a round on, of one block per author.
    pub fn batch_bytes_from(&self, from: Round) -> usize {
        let slots = self.rounds.range(from..).flat_map(|(_, blocks)| &blocks.slots);
        slots.filter_map(|siblings| Some(siblings.first()?.block.content().batch.len())).sum()
    }

    /// Highest round with any block; 0 if the DAG is empty.
    pub fn top(&self) -> Round {
        self.rounds.last_key_value().map_or(Round(0), |(round, _)| *round)
    }

    /// E4: the round that may be proposed now: one above the highest round with a quorum of authors.
    pub fn clock(&self) -> Round {
        self.quorum_round + 1
    }

    /// Votes of the distinct authors with a block in `round`.
    pub fn votes_at(&self, round: Round) -> Votes {
        self.rounds.get(&round).map_or(Votes(0), |blocks| blocks.votes)
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

    /// Highest block of an author; among siblings, the first accepted one.
    pub fn latest_of(&self, author: ValidatorIndex) -> Option<&Arc<Block>> {
        self.rounds.keys().rev().find_map(|round| self.siblings(*round, author).next())
    }

    /// Blocks of an author above `after`, in ascending rounds.
    pub fn chain_of(&self, author: ValidatorIndex, after: Round) -> impl Iterator<Item = &Arc<Block>> {
        self.rounds.range(after + 1..).flat_map(move |(round, _)| self.siblings(*round, author))
    }

    /// Number of blocks in the DAG.
    pub fn len(&self) -> usize {
        self.rounds.values().flat_map(|blocks| &blocks.slots).map(Vec::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.rounds.is_empty()
    }

    /// Adds a block. Every parent above the floor must be in the DAG already (V8). Returns false if the block is in the
    /// DAG already.
    pub fn insert(&mut self, block: Arc<Block>) -> bool {
        let slot = self.slot(block.round(), block.author());
        // An index limits the number of siblings. The synchroniser's bounds are far below it.
        if self.contains(&block.reference()) || slot.len() >= usize::from(SiblingIndex::NONE.0) {
            return false;
        }
        let parents: Vec<Parent> = block.parents().iter().filter_map(|parent| self.parent(&block, parent)).collect();
        let (supports, certifies) = (self.compute_supports(&parents), self.compute_certificates(block.round(), &parents));
        let node = Node { block, supports, certifies };
        let (round, author) = (node.block.round(), node.block.author());
        let size = self.weights.members();
        let empty = || DagRound { slots: (0..size).map(|_| Vec::new()).collect(), votes: Votes(0) };
        let blocks = self.rounds.entry(round).or_insert_with(empty);
        let siblings = &mut blocks.slots[author.as_usize()];
        if siblings.is_empty() {
            blocks.votes += self.weights.of(author);
        }
        siblings.push(node);
        if blocks.votes >= self.weights.quorum() {
            self.quorum_round = self.quorum_round.max(round);
        }
        true
    }

    /// Drops rounds up to `floor`.
    pub fn prune(&mut self, floor: Round) {
        self.rounds = self.rounds.split_off(&(floor + 1));
    }

    /// F2: the block of (`round`, `author`) that `voter`, a block of the vote round, supports.
    pub fn vote(&self, voter: &BlockRef, author: ValidatorIndex) -> Option<BlockRef> {
        let (_, node) = self.node(voter)?;
        let depth = self.wave_length - 2;
        self.resolve(voter.round - depth, author, node.supports[self.index(depth, author)])
    }

    /// F3: the block of `author` in the propose round that `certifier`, a block of the certify round, certifies. At
    /// most one exists: two quorums would need more votes than the authors of the parents have.
    pub fn certificate(&self, certifier: &BlockRef, author: ValidatorIndex) -> Option<BlockRef> {
        let (_, node) = self.node(certifier)?;
        self.resolve(certifier.round - (self.wave_length - 1), author, node.certifies[author.as_usize()])
    }

    /// For each block of the slot, in order of acceptance: votes of the authors that certify it. Authors are weighed, not
    /// blocks (P2): an equivocator's extra blocks must not forge a quorum.
    pub fn certified(&self, round: Round, author: ValidatorIndex) -> impl Iterator<Item = (BlockRef, Votes)> {
        let certify_round = round + (self.wave_length - 1);
        self.weigh_authors(round, author, certify_round, move |node, sibling| node.certifies[author.as_usize()] == sibling)
    }

    /// For each block of the slot: votes of the authors with a block in the vote round that does not vote for it.
    pub fn non_votes(&self, round: Round, author: ValidatorIndex) -> impl Iterator<Item = (BlockRef, Votes)> {
        let depth = self.wave_length - 2;
        let column = self.index(depth, author);
        self.weigh_authors(round, author, round + depth, move |node, sibling| node.supports[column] != sibling)
    }

    fn weigh_authors(
        &self,
        round: Round,
        author: ValidatorIndex,
        weighed_round: Round,
        counts: impl Fn(&Node, SiblingIndex) -> bool,
    ) -> impl Iterator<Item = (BlockRef, Votes)> {
        let weighed = self.rounds.get(&weighed_round).map_or(&[][..], |blocks| &blocks.slots);
        (0u16..).map(SiblingIndex).zip(self.slot(round, author)).map(move |(sibling, node)| {
            let agrees = |siblings: &Vec<Node>| siblings.iter().any(|voter| counts(voter, sibling));
            let authors = (0u16..).map(ValidatorIndex).zip(weighed).filter(|(_, siblings)| agrees(siblings));
            (node.block.reference(), self.weights.weigh(authors.map(|(author, _)| author)))
        })
    }

    /// Walks the history of a block, round by round from the top.
    pub fn history(&self, from: BlockRef) -> History<'_> {
        History { dag: self, open: BTreeSet::from([from]) }
    }

    fn parent(&self, block: &Block, parent: &BlockRef) -> Option<Parent<'_>> {
        let (sibling, node) = self.node(parent)?;
        Some(Parent { gap: block.round().0 - parent.round.0, author: parent.author, sibling, node })
    }

    /// F4: pre-order in list order. A parent comes before its own history, and the first find is kept.
    fn compute_supports(&self, parents: &[Parent]) -> Vec<SiblingIndex> {
        let depth = self.wave_length - 2;
        let mut table = vec![SiblingIndex::NONE; self.index(depth + 1, ValidatorIndex(0))];
        for Parent { gap, author, sibling, node } in parents.iter().filter(|parent| parent.gap <= depth) {
            fill(&mut table[self.index(*gap, *author)], *sibling);
            let deeper = self.index(gap + 1, ValidatorIndex(0));
            table[deeper..].iter_mut().zip(&node.supports).for_each(|(mine, theirs)| fill(mine, *theirs));
        }
        table
    }

    /// F3 counts only votes in the vote round itself; other links do not count (P4). V4 makes their authors distinct.
    fn compute_certificates(&self, round: Round, parents: &[Parent]) -> Vec<SiblingIndex> {
        let column = self.index(self.wave_length - 2, ValidatorIndex(0));
        let voters = parents.iter().filter(|voter| voter.gap == 1);
        let votes: Vec<_> = voters.map(|voter| (self.weights.of(voter.author), &voter.node.supports[column..])).collect();
        // A slot almost always has one block, so the votes for the first siblings are weighed together, row by row.
        let mut first = vec![0u16; self.weights.members()];
        for (weight, row) in &votes {
            let weight = u16::try_from(weight.0).expect("a committee has at most 1000 votes");
            first.iter_mut().zip(*row).for_each(|(sum, vote)| *sum += weight * u16::from(*vote == SiblingIndex(0)));
        }
        let proposed = self.rounds.get(&(round - (self.wave_length - 1))).map_or(&[][..], |blocks| &blocks.slots);
        let mut certified = vec![SiblingIndex::NONE; self.weights.members()];
        for (author, siblings) in proposed.iter().enumerate() {
            let weigh = |sibling: SiblingIndex| match sibling {
                SiblingIndex(0) => Votes(first[author].into()),
                other => votes.iter().filter(|(_, row)| row[author] == other).map(|(weight, _)| *weight).sum(),
            };
            let mut siblings = (0u16..).map(SiblingIndex).take(siblings.len());
            certified[author] = siblings.find(|sibling| weigh(*sibling) >= self.quorum()).unwrap_or(SiblingIndex::NONE);
        }
        certified
    }

    fn index(&self, depth: u64, author: ValidatorIndex) -> usize {
        usize::try_from(depth - 1).expect("at most the wave length") * self.weights.members() + author.as_usize()
    }

    fn resolve(&self, round: Round, author: ValidatorIndex, sibling: SiblingIndex) -> Option<BlockRef> {
        self.slot(round, author).get(usize::from(sibling.0)).map(|node| node.block.reference())
    }

    fn slot(&self, round: Round, author: ValidatorIndex) -> &[Node] {
        self.rounds.get(&round).and_then(|blocks| blocks.slots.get(author.as_usize())).map_or(&[], Vec::as_slice)
    }

    fn node(&self, reference: &BlockRef) -> Option<(SiblingIndex, &Node)> {
        let numbered = (0u16..).map(SiblingIndex).zip(self.slot(reference.round, reference.author));
        numbered.into_iter().find(|(_, node)| node.block.reference() == *reference)
    }
}

/// A walk down the history of a block. Skips blocks that are not in the DAG (below the floor).
pub struct History<'a> {
    dag: &'a Dag,
    /// Blocks that were reached but not expanded, by round.
    open: BTreeSet<BlockRef>,
}

impl History<'_> {
    /// Walks down to `round` and returns the blocks there. `round` must not exceed that of an earlier call.
    pub fn down_to(&mut self, round: Round) -> impl Iterator<Item = &BlockRef> {
        while let Some(last) = self.open.last().copied().filter(|last| last.round > round) {
            self.open.remove(&last);
            let parents = self.dag.get(&last).map_or(&[][..], |block| block.parents());
            self.open.extend(parents.iter().filter(|parent| self.dag.contains(parent)));
        }
        self.open.range(first_of(round)..)
    }
}

/// Branch-free, so that the compiler can vectorise the merge of rows.
fn fill(mine: &mut SiblingIndex, theirs: SiblingIndex) {
    *mine = if *mine == SiblingIndex::NONE { theirs } else { *mine };
}
