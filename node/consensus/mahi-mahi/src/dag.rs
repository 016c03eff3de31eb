//! The blocks with complete history. Their votes and certificates are computed once, on insertion (F1–F4).
//!
//! A vote looks back w − 2 rounds. So each block stores, for each of the w − 2 rounds before it, which sibling of each
//! author it supports. This table is the merge of its parents' tables in list order, which equals the first find of a
//! pre-order depth-first walk. Certificates are counted from the parents' tables. Queries are then look-ups, linear in
//! the committee size, however many siblings an equivocator signed.

mod slot;

use self::slot::{Node, SiblingIndex, Slot};
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
    /// Per author.
    slots: Vec<Slot>,
    /// Votes of the authors with at least one block.
    votes: Votes,
}

/// A parent in the DAG, relative to a new block.
struct Parent<'a> {
    /// Rounds between the parent and the new block.
    gap: u64,
    author: ValidatorIndex,
    sibling: SiblingIndex,
    node: &'a Node,
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
        let first = slots.filter_map(|slot| slot.first().map(|node| &node.block));
        let batches = first.map(|block| (block.author(), block.content().batch.len()));
        self.weights.reached(batches, self.weights.validity()).unwrap_or(0)
    }

    /// Bytes of the batches from a round on, of one block per author.
    pub fn batch_bytes_from(&self, from: Round) -> usize {
        let slots = self.rounds.range(from..).flat_map(|(_, blocks)| &blocks.slots);
        slots.filter_map(|slot| Some(slot.first()?.block.content().batch.len())).sum()
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
        self.slot(round, author).into_iter().flat_map(Slot::iter).map(|node| &node.block)
    }

    /// All blocks of a round, by author.
    pub fn round(&self, round: Round) -> impl Iterator<Item = &Arc<Block>> {
        let slots = self.rounds.get(&round).into_iter().flat_map(|blocks| &blocks.slots);
        slots.flat_map(Slot::iter).map(|node| &node.block)
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
        self.rounds.values().flat_map(|blocks| &blocks.slots).map(Slot::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.rounds.is_empty()
    }

    /// Adds a block. Every parent above the floor must be in the DAG already (V8). Returns false if the block is in the
    /// DAG already.
    pub fn insert(&mut self, block: Arc<Block>) -> bool {
        let (round, author) = (block.round(), block.author());
        // An index limits the number of siblings. The synchroniser's bounds are far below it.
        if self.contains(&block.reference()) || self.slot(round, author).is_some_and(Slot::is_full) {
            return false;
        }
        let parents: Vec<Parent> = block.parents().iter().filter_map(|parent| self.parent(&block, parent)).collect();
        let (supports, certifies) = (self.compute_supports(&parents), self.compute_certificates(round, &parents));
        if let Some(proposed) = self.rounds.get_mut(&(round - (self.wave_length - 1))) {
            let certified = proposed.slots.iter_mut().zip(&certifies).filter(|(_, sibling)| **sibling != SiblingIndex::NONE);
            certified.for_each(|(slot, sibling)| slot.add_certificate(*sibling, author, &self.weights));
        }
        let size = self.weights.members();
        let empty = || DagRound { slots: (0..size).map(|_| Slot::default()).collect(), votes: Votes(0) };
        let blocks = self.rounds.entry(round).or_insert_with(empty);
        let slot = &mut blocks.slots[author.as_usize()];
        if slot.is_empty() {
            blocks.votes += self.weights.of(author);
        }
        slot.push(Node { block, supports, certifies });
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

    /// For each certified block of the slot, in order of acceptance: votes of the authors that certify it.
    pub fn certified(&self, round: Round, author: ValidatorIndex) -> impl Iterator<Item = (BlockRef, Votes)> {
        self.slot(round, author).into_iter().flat_map(Slot::certified)
    }

    /// Fewest non-votes of any block of the slot; `None` if it has no block. Non-votes of a block are the votes of the
    /// authors with a block in the vote round that does not vote for it. So only the authors whose blocks there all vote for
    /// it are missing.
    pub fn fewest_non_votes(&self, round: Round, author: ValidatorIndex) -> Option<Votes> {
        self.slot(round, author).filter(|slot| !slot.is_empty())?;
        let vote_round = round + (self.wave_length - 2);
        let voters = self.rounds.get(&vote_round).map_or(&[][..], |blocks| &blocks.slots);
        let mut votes = BTreeMap::<_, Votes>::new();
        for (voter, slot) in (0u16..).map(ValidatorIndex).zip(voters) {
            if let Some(sibling) = slot.common_vote(author) {
                *votes.entry(sibling).or_default() += self.weights.of(voter);
            }
        }
        let most = votes.into_values().max().unwrap_or_default();
        Some(self.votes_at(vote_round) - most)
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
            first.iter_mut().zip(*row).for_each(|(sum, vote)| *sum += weight * u16::from(*vote == SiblingIndex::FIRST));
        }
        let proposed = self.rounds.get(&(round - (self.wave_length - 1))).map_or(&[][..], |blocks| &blocks.slots);
        let mut certified = vec![SiblingIndex::NONE; self.weights.members()];
        for (author, slot) in proposed.iter().enumerate() {
            if Votes(first[author].into()) >= self.quorum() {
                certified[author] = SiblingIndex::FIRST;
            } else if slot.len() > 1 {
                let voted = || votes.iter().map(|(weight, row)| (*weight, row[author]));
                let candidate = majority(voted());
                let sum: Votes = voted().filter(|(_, sibling)| *sibling == candidate).map(|(weight, _)| weight).sum();
                certified[author] = if sum >= self.quorum() { candidate } else { SiblingIndex::NONE };
            }
        }
        certified
    }

    fn index(&self, depth: u64, author: ValidatorIndex) -> usize {
        usize::try_from(depth - 1).expect("at most the wave length") * self.weights.members() + author.as_usize()
    }

    fn resolve(&self, round: Round, author: ValidatorIndex, sibling: SiblingIndex) -> Option<BlockRef> {
        self.slot(round, author)?.get(sibling).map(|node| node.block.reference())
    }

    fn slot(&self, round: Round, author: ValidatorIndex) -> Option<&Slot> {
        self.rounds.get(&round)?.slots.get(author.as_usize())
    }

    fn node(&self, reference: &BlockRef) -> Option<(SiblingIndex, &Node)> {
        self.slot(reference.round, reference.author)?.find(&reference.digest)
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

/// The sibling with more than half of these votes, such as a quorum; otherwise any sibling (Boyer and Moore).
fn majority(votes: impl Iterator<Item = (Votes, SiblingIndex)>) -> SiblingIndex {
    let (mut leading, mut lead) = (SiblingIndex::NONE, Votes(0));
    for (votes, sibling) in votes {
        if sibling == leading {
            lead += votes;
        } else if votes > lead {
            (leading, lead) = (sibling, votes - lead);
        } else {
            lead = lead - votes;
        }
    }
    leading
}

/// Branch-free, so that the compiler can vectorise the merge of rows.
fn fill(mine: &mut SiblingIndex, theirs: SiblingIndex) {
    *mine = if *mine == SiblingIndex::NONE { theirs } else { *mine };
}

#[cfg(test)]
mod tests {
    use super::{slot::VISITS, *};
    use crate::{
        message::{Content, Context, SignedBlock},
        rules::{Verdict, Waves, direct},
    };
    use corniche_testkit::committee_of;
    use corniche_types::{Bytes, TimestampMs};

    const EQUIVOCATOR: ValidatorIndex = ValidatorIndex(0);

    /// Number of blocks visited to insert one more block, and to decide by it, when the equivocator has this many siblings in
    /// every round.
    fn visits_of_one_block(siblings: u16) -> usize {
        let committee = committee_of("mahi-mahi", &[1; 4]);
        let (context, waves) = (Context::new(&committee), Waves::mahi_mahi(4, 1));
        let mut dag = Dag::new(committee.weights(), waves.length);
        let block = |author: ValidatorIndex, round, mut parents: Vec<BlockRef>, number: u16| {
            parents.swap(0, author.as_usize());
            let batch = Bytes::from(number.to_le_bytes().to_vec());
            let content = Content { author, round, timestamp: TimestampMs(0), parents, coin_shares: vec![[7; 48]], batch };
            Arc::new(Block::trusted(SignedBlock { content, signature: [0; 64] }, &context))
        };
        // All blocks name the newest siblings.
        let mut parents: Vec<_> = committee.indices().map(|author| context.genesis(author)).collect();
        let mut newest = Vec::new();
        for round in (1..=4).map(Round) {
            let previous = parents.clone();
            for author in committee.indices() {
                for number in 0..if author == EQUIVOCATOR { siblings } else { 1 } {
                    let block = block(author, round, previous.clone(), number);
                    parents[author.as_usize()] = block.reference();
                    assert!(dag.insert(block));
                }
            }
            newest.push(parents[EQUIVOCATOR.as_usize()]);
        }
        let parents: Vec<_> = committee.indices().filter_map(|author| dag.siblings(Round(3), author).last()).collect();
        let one_more = block(EQUIVOCATOR, Round(4), parents.into_iter().map(|parent| parent.reference()).collect(), siblings);
        VISITS.set(0);
        assert!(one_more.parents().iter().all(|parent| dag.contains(parent)));
        assert!(dag.insert(one_more));
        assert!(committee.indices().all(|author| dag.certified(Round(1), author).count() == 1));
        let verdict = |round, author| direct(&dag, &waves, Round(round), author).map(|(verdict, _)| verdict);
        assert_eq!(verdict(1, EQUIVOCATOR), Some(Verdict::Commit(newest[0])));
        assert_eq!(verdict(2, EQUIVOCATOR), None);
        assert_eq!(dag.fewest_non_votes(Round(2), EQUIVOCATOR), Some(Votes(0)));
        VISITS.get()
    }

    /// All ways in which four voters with one to three votes vote for three siblings.
    #[test]
    fn majority_of_votes_is_found() {
        let voter = |way: u32| (Votes(1 + way % 3), SiblingIndex([0, 1, 2][(way / 3 % 3) as usize]));
        let mut found = 0;
        for way in 0..9u32.pow(4) {
            let votes = (0..4).map(|place| voter(way / 9u32.pow(place)));
            let total: Votes = votes.clone().map(|(votes, _)| votes).sum();
            for sibling in (0..3).map(SiblingIndex) {
                let sum: Votes = votes.clone().filter(|(_, other)| *other == sibling).map(|(votes, _)| votes).sum();
                if sum > total - sum {
                    assert_eq!(majority(votes.clone()), sibling, "{:?}", votes.clone().collect::<Vec<_>>());
                    found += 1;
                }
            }
        }
        assert!(found > 1_000);
    }

    /// An equivocator may have tens of thousands of siblings that others need.
    #[test]
    fn work_per_block_does_not_grow_with_siblings() {
        assert_eq!(visits_of_one_block(400), visits_of_one_block(40));
    }
}
