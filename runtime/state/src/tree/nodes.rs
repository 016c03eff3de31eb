//! Nodes of a tree in memory, and batch updates.
//!
//! A branch holds the hashes of both sides: exactly the bytes that its own hash covers. So updates and proofs access
//! only nodes on their path. Links are stored apart from hashes: a descent reads only links, eight bytes per branch,
//! many of which fit into the cache. Nodes are stored in chunks and refer to each other by number. Chunks never move,
//! so growth costs the same at any size.
//!
//! A batch descends level by level, with all keys at once, so the processor can fetch the nodes of many paths in
//! parallel. Places change in order on the way down. Then the batch ascends level by level: a branch with too few
//! leaves is replaced by its remaining node, and the other nodes of the level are hashed many at a time.

use super::hash::{Kind, LANES, Pair, hash_pairs};
use super::{Update, side};
use crate::{Proof, Terminal};
use corniche_types::B256;
use std::ops::{Index, IndexMut, Range};

/// Place of the top node: the first side of a branch that belongs to no tree.
const TOP: BranchSide = BranchSide { branch: 0, side: 0 };

#[derive(Clone, Debug)]
pub(super) struct Nodes {
    /// Links of each branch. A branch has at least two leaves under it, except the one that holds the top.
    links: Slab<[Link; 2]>,
    /// Per branch: hash of the 0 side ‖ hash of the 1 side. Invalid during an update.
    hashes: Slab<HashPair>,
    /// Key ‖ value hash.
    leaves: Slab<HashPair>,
}

/// Two hashes in one cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct HashPair(Pair);

/// One side of a branch.
#[derive(Clone, Copy, Debug)]
struct BranchSide {
    branch: u32,
    side: u8,
}

/// Node at a place: 0 if empty, otherwise the node's number plus one, shifted left by one; the lowest bit marks a leaf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Link(u32);

enum Node {
    Empty,
    Leaf(u32),
    Branch(u32),
}

impl Link {
    const EMPTY: Self = Self(0);

    fn leaf(number: u32) -> Self {
        Self((number + 1) << 1 | 1)
    }

    fn branch(number: u32) -> Self {
        Self((number + 1) << 1)
    }

    fn node(self) -> Node {
        match (self.0 >> 1, self.0 & 1) {
            (0, _) => Node::Empty,
            (number, 1) => Node::Leaf(number - 1),
            (number, _) => Node::Branch(number - 1),
        }
    }
}

impl HashPair {
    const ZERO: Self = Self([0; 64]);

    fn new(left: &B256, right: &B256) -> Self {
        let mut line = Self::ZERO;
        (*line.half_mut(0), *line.half_mut(1)) = (left.0, right.0);
        line
    }

    fn half(&self, side: u8) -> &[u8; 32] {
        &self.0.as_chunks().0[usize::from(side)]
    }

    fn half_mut(&mut self, side: u8) -> &mut [u8; 32] {
        &mut self.0.as_chunks_mut().0[usize::from(side)]
    }
}

/// A branch with updates below it.
struct PendingBranch {
    branch: u32,
    place: BranchSide,
    updates: Range<u32>,
}

/// A batch during its descent.
struct Descent<'a> {
    updates: &'a [Update],
    /// Branches to visit on the next level.
    next: Vec<PendingBranch>,
    /// Leaves to hash, with their new places.
    leaves: Vec<(u32, BranchSide)>,
}

impl Default for Nodes {
    fn default() -> Self {
        let mut nodes = Self { links: Slab::default(), hashes: Slab::default(), leaves: Slab::default() };
        nodes.insert([Link::EMPTY; 2], HashPair::ZERO);
        nodes
    }
}

impl Nodes {
    pub(super) fn root(&self) -> B256 {
        B256::from(*self.hash(TOP))
    }

    /// Applies updates, which must be sorted by key and contain each key once.
    pub(super) fn update(&mut self, updates: &[Update]) {
        let all = 0..u32::try_from(updates.len()).expect("a block changes less than 2^32 keys");
        let mut descent = Descent { updates, next: Vec::new(), leaves: Vec::with_capacity(updates.len()) };
        let mut levels: Vec<Vec<PendingBranch>> = Vec::new();
        self.descend(TOP, 0, all, &mut descent);
        while !descent.next.is_empty() {
            let room = Vec::with_capacity(updates.len().min(2 * descent.next.len()));
            let level = std::mem::replace(&mut descent.next, room);
            let depth = levels.len();
            for visit in &level {
                let Range { start, end } = visit.updates.clone();
                let under = &updates[start as usize..end as usize];
                let middle = start + under.partition_point(|update| !side(&update.key.0, depth)) as u32;
                for (side, updates) in [(0, start..middle), (1, middle..end)] {
                    self.descend(BranchSide { branch: visit.branch, side }, depth + 1, updates, &mut descent);
                }
            }
            levels.push(level);
        }
        for leaves in descent.leaves.chunks(LANES) {
            self.hash_leaves(leaves);
        }
        levels.iter().rev().for_each(|level| self.ascend(level));
    }

    /// Applies a range of updates at a place; its node is `depth` branches below the top.
    fn descend(&mut self, place: BranchSide, depth: usize, range: Range<u32>, descent: &mut Descent) {
        let updates = &descent.updates[range.start as usize..range.end as usize];
        if updates.is_empty() {
            return;
        }
        let mut present = updates.iter().filter(|update| update.value.is_some());
        match self.link(place).node() {
            Node::Branch(branch) => descent.next.push(PendingBranch { branch, place, updates: range }),
            Node::Empty => match (present.next(), present.next()) {
                (None, _) => {}
                (Some(Update { key, value: Some(value) }), None) => {
                    let leaf = self.leaves.insert(HashPair::new(&key.0, value));
                    self.set(place, Link::leaf(leaf), &[0; 32]);
                    descent.leaves.push((leaf, place));
                }
                _ => {
                    let branch = self.branch_at(place, [Link::EMPTY; 2], HashPair::ZERO);
                    descent.next.push(PendingBranch { branch, place, updates: range });
                }
            },
            Node::Leaf(leaf) => {
                let key = B256::from(*self.leaves[leaf].half(0));
                if present.any(|update| update.key.0 != key) {
                    // The leaf moves below a branch; the next level handles updates of the leaf itself.
                    let (mut links, mut hashes) = ([Link::EMPTY; 2], HashPair::ZERO);
                    let own_side = u8::from(side(&key, depth));
                    links[usize::from(own_side)] = Link::leaf(leaf);
                    *hashes.half_mut(own_side) = *self.hash(place);
                    let branch = self.branch_at(place, links, hashes);
                    descent.next.push(PendingBranch { branch, place, updates: range });
                } else if let Some(own) = updates.iter().find(|update| update.key.0 == key) {
                    match &own.value {
                        Some(value) => {
                            self.leaves[leaf] = HashPair::new(&key, value);
                            descent.leaves.push((leaf, place));
                        }
                        None => {
                            self.leaves.remove(leaf);
                            self.set(place, Link::EMPTY, &[0; 32]);
                        }
                    }
                }
            }
        }
    }

    /// Writes the hashes of at most [`LANES`] leaves to their places.
    fn hash_leaves(&mut self, leaves: &[(u32, BranchSide)]) {
        let mut pairs = [&[0; 64]; LANES];
        for (pair, (leaf, _)) in pairs.iter_mut().zip(leaves) {
            *pair = &self.leaves[*leaf].0;
        }
        let hashes = hash_pairs(Kind::Leaf, &pairs[..leaves.len()]);
        for (hash, (_, place)) in hashes.iter().zip(leaves) {
            *self.hash_mut(*place) = *hash;
        }
    }

    /// Finishes a level after all lower levels: replaces a branch that has fewer than two leaves by its remaining node,
    /// and hashes the other branches.
    fn ascend(&mut self, level: &[PendingBranch]) {
        let mut waiting = Vec::with_capacity(LANES);
        for visit in level {
            let links = self.links[visit.branch];
            let moved_up = match links.map(Link::node) {
                [Node::Empty, Node::Empty | Node::Leaf(_)] => Some(1),
                [Node::Leaf(_), Node::Empty] => Some(0),
                _ => None,
            };
            match moved_up {
                Some(side) => {
                    let hash = *self.hashes[visit.branch].half(side);
                    self.set(visit.place, links[usize::from(side)], &hash);
                    self.links.remove(visit.branch);
                    self.hashes.remove(visit.branch);
                }
                None => waiting.push(visit),
            }
            if waiting.len() == LANES {
                self.hash_branches(&waiting);
                waiting.clear();
            }
        }
        self.hash_branches(&waiting);
    }

    /// Writes the hashes of at most [`LANES`] branches to their places.
    fn hash_branches(&mut self, visits: &[&PendingBranch]) {
        let mut pairs = [&[0; 64]; LANES];
        for (pair, visit) in pairs.iter_mut().zip(visits) {
            *pair = &self.hashes[visit.branch].0;
        }
        let hashes = hash_pairs(Kind::Branch, &pairs[..visits.len()]);
        for (hash, visit) in hashes.iter().zip(visits) {
            *self.hash_mut(visit.place) = *hash;
        }
    }

    fn link(&self, place: BranchSide) -> Link {
        self.links[place.branch][usize::from(place.side)]
    }

    fn hash(&self, place: BranchSide) -> &[u8; 32] {
        self.hashes[place.branch].half(place.side)
    }

    fn hash_mut(&mut self, place: BranchSide) -> &mut [u8; 32] {
        self.hashes[place.branch].half_mut(place.side)
    }

    fn set(&mut self, place: BranchSide, link: Link, hash: &[u8; 32]) {
        self.links[place.branch][usize::from(place.side)] = link;
        *self.hash_mut(place) = *hash;
    }

    fn insert(&mut self, links: [Link; 2], hashes: HashPair) -> u32 {
        let number = self.links.insert(links);
        let same = self.hashes.insert(hashes);
        assert_eq!(number, same, "invariant: links and hashes of branches come and go together");
        number
    }

    /// Puts a new branch at a place; the ascent hashes it.
    fn branch_at(&mut self, place: BranchSide, links: [Link; 2], hashes: HashPair) -> u32 {
        let number = self.insert(links, hashes);
        self.links[place.branch][usize::from(place.side)] = Link::branch(number);
        number
    }

    pub(super) fn prove(&self, key: &B256) -> Proof {
        let (mut siblings, mut place) = (Vec::new(), TOP);
        loop {
            match self.link(place).node() {
                Node::Empty => return Proof { siblings, terminal: Terminal::Empty },
                Node::Leaf(leaf) => {
                    let [key, value_hash] = [0, 1].map(|side| B256::from(*self.leaves[leaf].half(side)));
                    return Proof { siblings, terminal: Terminal::Leaf { key, value_hash } };
                }
                Node::Branch(branch) => {
                    let side = u8::from(side(key, siblings.len()));
                    siblings.push(B256::from(*self.hashes[branch].half(1 - side)));
                    place = BranchSide { branch, side };
                }
            }
        }
    }

    /// Returns the bytes held, and the bytes in use.
    pub(super) fn bytes(&self) -> (usize, usize) {
        let parts = [self.links.bytes(), self.hashes.bytes(), self.leaves.bytes()];
        parts.into_iter().fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1))
    }
}

/// Numbered items in chunks that never move. Numbers of removed items are reused.
#[derive(Clone, Debug)]
struct Slab<T> {
    chunks: Vec<Vec<T>>,
    free: Vec<u32>,
}

const CHUNK: usize = 1 << 12;

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    fn insert(&mut self, thing: T) -> u32 {
        if let Some(number) = self.free.pop() {
            self[number] = thing;
            return number;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            // The first chunk grows on demand, because many trees are small.
            let room = if self.chunks.is_empty() { 0 } else { CHUNK };
            self.chunks.push(Vec::with_capacity(room));
        }
        let before = (self.chunks.len() - 1) * CHUNK;
        let chunk = self.chunks.last_mut().expect("a chunk was just created");
        chunk.push(thing);
        let number = before + chunk.len() - 1;
        // A link has 31 bits for the number plus one.
        u32::try_from(number).ok().filter(|number| *number < u32::MAX >> 1).expect("2^31 nodes do not fit into memory")
    }

    fn remove(&mut self, number: u32) {
        self.free.push(number);
    }

    fn bytes(&self) -> (usize, usize) {
        let held: usize = self.chunks.iter().map(Vec::capacity).sum();
        let used: usize = self.chunks.iter().map(Vec::len).sum();
        (held * size_of::<T>() + self.free.capacity() * 4, (used - self.free.len()) * size_of::<T>())
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, number: u32) -> &T {
        &self.chunks[number as usize / CHUNK][number as usize % CHUNK]
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, number: u32) -> &mut T {
        &mut self.chunks[number as usize / CHUNK][number as usize % CHUNK]
    }
}
