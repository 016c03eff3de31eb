//! Blocks: the committed log, and what may become part of it.
//!
//! A block is held only if all its ancestors down to the committed ones are. So a block that this validator votes for is whole, and a
//! block of another history never comes in.

use crate::message::{Block, BlockId, Context, Round, View};
use std::collections::{BTreeMap, BTreeSet};

pub struct Chain {
    context: Context,
    /// Committed blocks above the floor.
    log: BTreeMap<Round, (BlockId, Block)>,
    /// Blocks above the last committed one.
    open: BTreeMap<BlockId, Block>,
    /// The last committed block. It may be unknown but for its identifier, after a start from a checkpoint.
    commit: BlockId,
    max_blocks: usize,
}

impl Chain {
    pub fn new(context: Context, commit: BlockId, max_blocks: usize) -> Self {
        Self { context, log: BTreeMap::new(), open: BTreeMap::new(), commit, max_blocks }
    }

    /// From records: `last` is the newest committed block on disk, `commit` that of the checkpoint.
    pub fn recover(context: Context, blocks: Vec<Block>, commit: BlockId, last: Option<BlockId>, max_blocks: usize) -> Self {
        let known: BTreeMap<BlockId, Block> = blocks.into_iter().map(|block| (context.id(&block), block)).collect();
        let mut chain = Self::new(context, commit, max_blocks);
        // Above the checkpoint, all: votes rely on them. A parent has a lower rank.
        chain.max_blocks = usize::MAX;
        known.values().for_each(|block| _ = chain.insert(block.clone()));
        chain.max_blocks = max_blocks;
        // Below it, for others, as far as there is room.
        let mut at = commit;
        while let Some(block) = known.get(&at).filter(|_| chain.count() < max_blocks) {
            chain.log.insert(at.rank.round, (at, block.clone()));
            at = block.parent;
        }
        if let Some(last) = last.filter(|last| last.rank.round > commit.rank.round) {
            chain.commit(last);
        }
        chain
    }

    pub fn committed(&self) -> BlockId {
        self.commit
    }

    pub fn get(&self, id: &BlockId) -> Option<&Block> {
        let committed = || self.log.get(&id.rank.round).filter(|(known, _)| known == id);
        self.open.get(id).or_else(|| committed().map(|(_, block)| block))
    }

    pub fn count(&self) -> usize {
        self.open.len() + self.log.len()
    }

    /// Returns true if the block is the last committed one, or above it with all ancestors.
    pub fn holds(&self, id: &BlockId) -> bool {
        *id == self.commit || self.open.contains_key(id)
    }

    /// Adds a block whose parent is held. Returns its identifier if it is new.
    pub fn insert(&mut self, block: Block) -> Option<BlockId> {
        let id = self.context.id(&block);
        let is_new = !self.holds(&id) && self.holds(&block.parent) && self.count() < self.max_blocks;
        if !is_new {
            return None;
        }
        self.open.insert(id, block);
        Some(id)
    }

    pub fn id(&self, block: &Block) -> BlockId {
        self.context.id(block)
    }

    /// Blocks above the last committed one up to this one, ascending. `None` if it is not held.
    pub fn path(&self, to: &BlockId) -> Option<Vec<BlockId>> {
        let (mut at, mut path) = (*to, Vec::new());
        while at != self.commit {
            path.push(at);
            at = self.open.get(&at)?.parent;
        }
        path.reverse();
        Some(path)
    }

    /// Commits a held block and its ancestors. Returns the new ones, ascending.
    pub fn commit(&mut self, id: BlockId) -> Option<Vec<BlockId>> {
        let path = self.path(&id)?;
        for id in &path {
            let block = self.open.remove(id)?;
            self.log.insert(id.rank.round, (*id, block));
        }
        self.commit = id;
        self.retain(|_| true);
        Some(path)
    }

    /// Forgets blocks that are not committed, of earlier views, and no ancestors of a block that counts.
    pub fn enter(&mut self, view: View, named: &BTreeSet<BlockId>) {
        self.retain(|id| id.rank.view >= view || named.contains(id));
    }

    /// Keeps open blocks on the log that are wanted, with their ancestors.
    fn retain(&mut self, is_wanted: impl Fn(&BlockId) -> bool) {
        let mut whole = BTreeSet::from([self.commit]);
        for (id, block) in &self.open {
            if whole.contains(&block.parent) {
                whole.insert(*id);
            }
        }
        let mut kept = BTreeSet::new();
        // A parent has a lower rank, so children come first here.
        for (id, block) in self.open.iter().rev() {
            if whole.contains(id) && (kept.contains(id) || is_wanted(id)) {
                kept.extend([*id, block.parent]);
            }
        }
        self.open.retain(|id, _| kept.contains(id));
    }

    /// A committed block above the floor.
    pub fn decided(&self, round: Round) -> Option<&Block> {
        self.log.get(&round).map(|(_, block)| block)
    }

    /// Committed blocks from this round on, consecutive.
    pub fn decided_from(&self, round: Round) -> impl Iterator<Item = &Block> {
        (round.0..).map_while(|round| self.decided(Round(round)))
    }

    /// The blocks above a round up to this block, ascending, as far down as they are held.
    pub fn ancestors(&self, id: &BlockId, above: Round) -> Vec<&Block> {
        let (mut at, mut blocks) = (*id, Vec::new());
        while let Some(block) = self.get(&at).filter(|_| at.rank.round > above) {
            blocks.push(block);
            at = block.parent;
        }
        blocks.reverse();
        blocks
    }

    /// Forgets a committed block, and returns it.
    pub fn forget(&mut self, round: Round) -> Option<Block> {
        self.log.remove(&round).map(|(_, block)| block)
    }

    /// Lowest committed round that is held.
    pub fn first(&self) -> Option<Round> {
        self.log.first_key_value().map(|(round, _)| *round)
    }
}
