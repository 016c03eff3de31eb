//! Blocks as RPC reads them. All readers share the newest ones: every subscriber reads each new block, and a copy of a full block takes
//! milliseconds.

use corniche_rpc::ChainBlock;
use corniche_store::{Reader, StoredBlock};
use corniche_types::{B256, Header, Height};
use lru::LruCache;
use std::{
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError},
};

/// Number of shared blocks. A copy of a block of 80,000 logs takes about 10 MiB.
const MAX_BLOCKS: NonZeroUsize = NonZeroUsize::new(4).expect("above 0");

/// Blocks of the store, and block 0, of which the store has the header only.
pub struct NewestBlocks {
    genesis: Header,
    /// By hash, because a development chain may replace the block of a height.
    newest: Mutex<LruCache<B256, Arc<ChainBlock>>>,
}

impl NewestBlocks {
    pub fn new(genesis: Header) -> Self {
        Self { genesis, newest: Mutex::new(LruCache::new(MAX_BLOCKS)) }
    }

    pub fn header(&self, reader: &Reader, height: Height) -> Option<Header> {
        if height == Height(0) { Some(self.genesis.clone()) } else { reader.header(height) }
    }

    pub fn block(&self, reader: &Reader, height: Height) -> Option<Arc<ChainBlock>> {
        if height == Height(0) {
            return Some(Arc::new(ChainBlock::genesis(self.genesis.clone())));
        }
        Some(self.get(&*reader.block(height)?, reader.head().height()))
    }

    /// Returns the copy of a stored block. Only copies of the newest blocks below `head` are kept.
    fn get(&self, stored: &StoredBlock, head: Height) -> Arc<ChainBlock> {
        let copy = || Arc::new(ChainBlock::new(stored.block(), stored.hash, stored.receipts().to_vec()));
        if stored.height().0 + MAX_BLOCKS.get() as u64 <= head.0 {
            return copy();
        }
        // Copied under the lock: readers that ask at the same time need one copy. Only readers take the lock.
        self.newest.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(stored.hash, copy).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::genesis;
    use corniche_state::CommittedBlock;

    fn stored(height: u64) -> StoredBlock {
        let genesis = corniche_store::genesis_block(&genesis());
        let mut block = genesis.block.clone();
        block.header.number = height;
        StoredBlock { hash: block.hash(), committed: Arc::new(CommittedBlock { block, ..genesis }) }
    }

    #[test]
    fn newest_blocks_are_copied_once() {
        let blocks = NewestBlocks::new(Header::default());
        let first = blocks.get(&stored(1), Height(1));
        assert_eq!(first.height(), Height(1));
        assert!(Arc::ptr_eq(&first, &blocks.get(&stored(1), Height(4))));
        // Readers of old blocks do not displace it.
        (10..20).for_each(|height| drop(blocks.get(&stored(height), Height(100))));
        assert!(Arc::ptr_eq(&first, &blocks.get(&stored(1), Height(4))));
        (2..6).for_each(|height| drop(blocks.get(&stored(height), Height(height))));
        assert_eq!(Arc::strong_count(&first), 1, "four newer ones displace it");
    }
}
