//! Cache of data read from the log: log queries read the same blocks again and again.

use crate::block::StoredBlock;
use corniche_types::{Header, Height};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Limit for old blocks, in bytes of their records. They take about twice as much memory.
const MAX_BLOCK_BYTES: usize = 64 << 20;
/// Limit for headers that were read without their blocks.
const MAX_HEADER_BYTES: usize = 32 << 20;
/// Approximate size of one header, most of it the bloom.
const HEADER_SIZE: usize = 1 << 10;

/// Old blocks and headers, first in, first out.
pub(crate) struct BlockCache {
    blocks: FifoCache<Arc<StoredBlock>>,
    headers: FifoCache<Header>,
    /// Number of reverts.
    reverts: u64,
}

impl Default for BlockCache {
    fn default() -> Self {
        Self { blocks: FifoCache::new(MAX_BLOCK_BYTES), headers: FifoCache::new(MAX_HEADER_BYTES), reverts: 0 }
    }
}

impl BlockCache {
    pub(crate) fn block(&self, height: Height) -> Option<Arc<StoredBlock>> {
        self.blocks.get(height).cloned()
    }

    pub(crate) fn header(&self, height: Height) -> Option<Header> {
        let of_block = || self.blocks.get(height).map(|block| block.header());
        self.headers.get(height).or_else(of_block).cloned()
    }

    /// Read it before reading the log, and pass it to [`Self::put_block`] or [`Self::put_header`] with the
    /// result.
    pub(crate) fn reverts(&self) -> u64 {
        self.reverts
    }

    pub(crate) fn remove_above(&mut self, height: Height) {
        self.blocks.remove_above(height);
        self.headers.remove_above(height);
        self.reverts += 1;
    }

    /// Ignored if the chain reverted after `reverts` was read: the block may no longer be part of the
    /// chain.
    pub(crate) fn put_block(&mut self, block: Arc<StoredBlock>, bytes: usize, reverts: u64) {
        if reverts == self.reverts {
            self.blocks.put(block.height(), block, bytes);
        }
    }

    pub(crate) fn put_header(&mut self, header: Header, reverts: u64) {
        if reverts == self.reverts {
            self.headers.put(Height(header.number), header, HEADER_SIZE);
        }
    }
}

struct FifoCache<T> {
    by_height: HashMap<Height, (T, usize)>,
    /// Heights in order of insertion; may contain removed ones.
    order: VecDeque<Height>,
    bytes: usize,
    max_bytes: usize,
}

impl<T> FifoCache<T> {
    fn new(max_bytes: usize) -> Self {
        Self { by_height: HashMap::new(), order: VecDeque::new(), bytes: 0, max_bytes }
    }

    fn get(&self, height: Height) -> Option<&T> {
        self.by_height.get(&height).map(|(value, _)| value)
    }

    fn put(&mut self, height: Height, value: T, bytes: usize) {
        if let Some((_, before)) = self.by_height.insert(height, (value, bytes)) {
            // Two readers read it at the same time.
            self.bytes -= before;
        } else {
            self.order.push_back(height);
        }
        self.bytes += bytes;
        while self.bytes > self.max_bytes {
            let Some(oldest) = self.order.pop_front() else { return };
            self.bytes -= self.by_height.remove(&oldest).map_or(0, |(_, bytes)| bytes);
        }
    }

    fn remove_above(&mut self, height: Height) {
        self.by_height.retain(|known, _| *known <= height);
        self.order.retain(|known| *known <= height);
        self.bytes = self.by_height.values().map(|(_, bytes)| bytes).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_state::{Changes, CommittedBlock};
    use corniche_types::{B256, Block, OrderingRecord, Resume};

    fn header(height: u64) -> Header {
        Header { number: height, ..Header::default() }
    }

    fn block(height: u64) -> Arc<StoredBlock> {
        let resume = Resume::default();
        let ordering = OrderingRecord {
            protocol_version: 1,
            engine: String::new(),
            epoch: Default::default(),
            committee_hash: B256::ZERO,
            next: None,
            first_commit: Default::default(),
            last_commit: Default::default(),
            last_commit_consumed: 0,
            leader: Default::default(),
            time: Default::default(),
            randomness: B256::ZERO,
            batches: Vec::new(),
            transactions_hash: B256::ZERO,
            skipped: Vec::new(),
            resume_hash: resume.hash(),
        };
        let block = Block { header: header(height), ordering, ordered: Vec::new() };
        Arc::new(StoredBlock::new(Arc::new(CommittedBlock {
            block,
            receipts: Vec::new(),
            changes: Changes::default(),
            resume,
        })))
    }

    /// A reader that reads a block during a revert must not leave it in the cache.
    #[test]
    fn blocks_read_before_revert_are_not_cached() {
        let mut block_cache = BlockCache::default();
        block_cache.put_block(block(7), 10, 0);
        block_cache.put_header(header(8), 0);
        let seen = block_cache.reverts();
        block_cache.remove_above(Height(5));
        block_cache.put_block(block(6), 10, seen);
        block_cache.put_header(header(9), seen);
        assert!((6..10).all(|height| block_cache.header(Height(height)).is_none()));
        assert!(block_cache.blocks.bytes == 0 && block_cache.headers.bytes == 0 && block_cache.blocks.order.is_empty());
        block_cache.put_block(block(6), 10, block_cache.reverts());
        assert!(block_cache.block(Height(6)).is_some());
        assert_eq!(block_cache.header(Height(6)), Some(header(6)));
    }

    #[test]
    fn oldest_is_evicted_and_duplicates_count_once() {
        let mut kept = FifoCache::new(30);
        for height in [1, 2, 2, 3, 2] {
            kept.put(Height(height), height, 10);
        }
        assert_eq!(kept.bytes, 30);
        kept.put(Height(4), 4, 5);
        assert_eq!((kept.get(Height(1)), kept.get(Height(2)), kept.bytes), (None, Some(&2), 25));
        kept.put(Height(5), 5, 31);
        assert_eq!((kept.by_height.len(), kept.order.len(), kept.bytes), (0, 0, 0), "more than there is room for");
    }
}
