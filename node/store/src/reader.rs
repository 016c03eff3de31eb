//! Read access from any number of threads, concurrent with the single writer.
//!
//! The newest blocks are in a *window* in memory ([`crate::window`]). Older blocks are found through the indices and read from their segment; some of them are cached.

use crate::StoreError;
use crate::block::StoredBlock;
use crate::checkpoint::{self, CertificateAt};
use crate::directory::Space;
use crate::historical_state::HistoricalState;
use crate::record::{self, BlockRecord};
use crate::shared::Shared;
use crate::snapshots::StoredSnapshot;
use corniche_state::StateView;
use corniche_types::{B256, Bytes, Certificate, Header, Height, OrderingRecord, Receipt, Resume, header_hash, wire};
use std::sync::Arc;

/// Reads durable data. Clones are cheap and independent. A clone that outlives the [`crate::Store`] keeps the
/// data directory locked.
#[derive(Clone)]
pub struct Reader {
    pub(crate) shared: Arc<Shared>,
}

impl Reader {
    /// Newest durable block; the genesis at first.
    pub fn head(&self) -> Arc<StoredBlock> {
        self.shared.window().head.clone()
    }

    /// Lowest block that is stored; 1 for a whole chain.
    pub fn first_block(&self) -> Height {
        self.shared.first_block()
    }

    /// Snapshot from which this node was filled, or could be again. `None` if it has all blocks.
    pub fn base(&self) -> Option<&StoredSnapshot> {
        self.shared.base.as_deref()
    }

    /// Block at `height`; `None` above the head, and below [`Self::first_block`]. Height 0 is the genesis, which is in no log.
    pub fn block(&self, height: Height) -> Option<Arc<StoredBlock>> {
        if height != Height(0) && height < self.first_block() {
            return None;
        }
        {
            let window = self.shared.window();
            if height > window.head.height() {
                return None;
            }
            if let Some(recent) = window.get(height) {
                return Some(recent.block.clone());
            }
            if height == window.head.height() {
                return Some(window.head.clone());
            }
        }
        if height == Height(0) {
            return Some(self.shared.genesis.clone());
        }
        let reverts = {
            let block_cache = self.shared.block_cache();
            if let Some(block) = block_cache.block(height) {
                return Some(block);
            }
            block_cache.reverts()
        };
        let payload = self.shared.stored_record(height)?;
        let Ok(BlockRecord::Block(committed)) = record::read_block_record(&payload) else { return None };
        let block = Arc::new(StoredBlock::new(Arc::new(*committed)));
        self.shared.block_cache().put_block(block.clone(), payload.len(), reverts);
        Some(block)
    }

    /// Ordering record of the block at `height`, and the point where ordering resumes after it. Also that of the base.
    pub fn ordering(&self, height: Height) -> Option<(OrderingRecord, Resume)> {
        if let Some(base) = self.shared.base.as_ref().filter(|base| base.height() == height) {
            let tail = base.tail();
            return Some((tail.ordering.clone(), tail.resume.clone()));
        }
        let block = self.block(height)?;
        Some((block.committed.block.ordering.clone(), block.committed.resume.clone()))
    }

    /// Header of the block at `height`, also of the blocks shortly below the first one. Reads one KiB, where [`Self::block`] reads the whole block with its
    /// results.
    pub fn header(&self, height: Height) -> Option<Header> {
        if let Some(recent) = self.shared.window().get(height) {
            return Some(recent.block.header().clone());
        }
        if height != Height(0) && height < self.first_block() {
            return self.shared.base.as_ref()?.header(height).cloned();
        }
        let reverts = {
            let block_cache = self.shared.block_cache();
            if let Some(header) = block_cache.header(height) {
                return Some(header);
            }
            block_cache.reverts()
        };
        // A header that was read alone is trusted if its hash is in the index; otherwise the whole record is
        // read and checked.
        let known = |header: &Header| self.height_of(&header_hash(header)) == Some(height);
        let Some(header) = self.shared.stored_header(height).filter(known) else {
            return Some(self.block(height)?.header().clone());
        };
        self.shared.block_cache().put_header(header.clone(), reverts);
        Some(header)
    }

    pub fn receipts(&self, height: Height) -> Option<Vec<Receipt>> {
        self.block(height).map(|block| block.receipts().to_vec())
    }

    /// Height of the block with this hash.
    pub fn height_of(&self, hash: &B256) -> Option<Height> {
        if *hash == self.shared.genesis.hash {
            return Some(Height(0));
        }
        let recent = self.shared.window().by_hash.get(hash).copied();
        recent.or_else(|| self.shared.index_result(checkpoint::height_of(&self.shared.kv, hash)))
    }

    pub fn block_by_hash(&self, hash: &B256) -> Option<Arc<StoredBlock>> {
        let block = self.block(self.height_of(hash)?)?;
        (block.hash == *hash).then_some(block)
    }

    /// Height of an executed transaction's block, and its index among the receipts.
    pub fn transaction(&self, hash: &B256) -> Option<(Height, u32)> {
        let recent = self.shared.window().by_transaction.get(hash).copied();
        recent.or_else(|| self.shared.index_result(checkpoint::transaction(&self.shared.kv, hash)))
    }

    /// Certificate with the lowest height at or above `height`; it covers the block at `height`.
    pub fn certificate(&self, height: Height) -> Option<Arc<Certificate>> {
        let (last, recent) = {
            let window = self.shared.window();
            let recent = window.certificates.range(height..).next().map(|(_, (_, certificate))| certificate.clone());
            (window.last_certificate.clone()?, recent)
        };
        if last.height < height {
            return None;
        }
        if recent.as_ref().is_some_and(|recent| recent.height == height) {
            return recent;
        }
        let indexed = self.shared.index_result(checkpoint::certificate_from(&self.shared.kv, height));
        let indexed = indexed.filter(|indexed| recent.as_ref().is_none_or(|recent| indexed.height < recent.height));
        match indexed.and_then(|indexed| self.certificate_at(indexed)) {
            Some(certificate) => Some(Arc::new(certificate)),
            None => recent.or(Some(last)),
        }
    }

    fn certificate_at(&self, indexed: CertificateAt) -> Option<Certificate> {
        match record::read_block_record(&self.shared.record(indexed.at)?) {
            Ok(BlockRecord::Certificate(certificate)) if certificate.height == indexed.height => Some(certificate),
            _ => None,
        }
    }

    /// Certificate with the highest height: everything up to it is final.
    pub fn last_certificate(&self) -> Option<Arc<Certificate>> {
        self.shared.window().last_certificate.clone()
    }

    /// Height up to which everything is final: that of the last certificate, or of the snapshot with which the chain begins here.
    pub fn certified(&self) -> Height {
        let base = self.base().map_or(Height(0), StoredSnapshot::height);
        self.last_certificate().map_or(base, |certificate| certificate.height.max(base))
    }

    /// Result of `wire::encode` for the [`CommittedBlock`] at `height`, for peers that catch up.
    pub fn committed(&self, height: Height) -> Option<Bytes> {
        let recent = {
            let window = self.shared.window();
            if height > window.head.height() {
                return None;
            }
            window.get(height).map(|recent| recent.at)
        };
        if height == Height(0) {
            return Some(wire::encode(&*self.shared.genesis.committed).into());
        }
        let payload = match recent {
            Some(at) => self.shared.record(at),
            None => self.shared.stored_record(height),
        };
        record::block_bytes(payload?)
    }

    /// Number of failed reads since the start. If it is not 0, the operator should read the log.
    pub fn read_failures(&self) -> u64 {
        self.shared.read_failures()
    }

    /// Height of the checkpoint.
    pub fn checkpoint_height(&self) -> Height {
        self.shared.checkpoint_height()
    }

    /// State after the block at `height`, if [`Options::history`] keeps it and the checkpoint has passed it;
    /// newer states are in memory. Reads from disk. A failed read, for instance because the state was pruned
    /// meanwhile, marks the view as [`interrupted`](StateView::interrupted).
    pub fn state(&self, height: Height) -> Option<Arc<dyn StateView>> {
        HistoricalState::new(self.shared.clone(), height).map(|state| Arc::new(state) as Arc<dyn StateView>)
    }

    /// Free bytes on the disk of the data directory.
    pub fn free_space(&self) -> Result<u64, StoreError> {
        self.shared.directory.free_bytes()
    }

    /// Free disk space, compared with the limits in the options.
    pub fn space(&self) -> Result<Space, StoreError> {
        let (free, options) = (self.free_space()?, &self.shared.options);
        Ok(match free {
            _ if free < options.exhausted_space_bytes => Space::Exhausted,
            _ if free < options.low_space_bytes => Space::Low,
            _ => Space::Enough,
        })
    }
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("head", &self.head().height()).finish_non_exhaustive()
    }
}
