//! Read access from any number of threads, concurrent with the single writer.
//!
//! The newest blocks are in a *window* in memory: at least those above the checkpoint, which are in no index
//! yet. Older blocks are found through the indices and read from their segment; some of them are cached.

use crate::block_cache::BlockCache;
use crate::checkpoint::{self, CertificateAt, Meta};
use crate::directory::{DataDirectory, Lock, Space};
use crate::history::{HistoricalState, HistoryStore};
use crate::kv::{Kv, KvError, PanicGuard};
use crate::log::{LogReader, Position};
use crate::record::{self, BlockRecord};
use crate::{Identity, Options, StoreError};
use corniche_state::{CommittedBlock, StateView};
use corniche_types::{B256, Block, Bytes, Certificate, Header, Height, Receipt, header_hash, wire};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Maximum number of blocks, and of their bytes, per batch of the checkpoint.
const MAX_BATCH_BLOCKS: usize = 1024;
const MAX_BATCH_BYTES: usize = 32 << 20;

/// Block with its results and its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBlock {
    pub committed: Arc<CommittedBlock>,
    pub hash: B256,
}

impl StoredBlock {
    pub(crate) fn new(committed: Arc<CommittedBlock>) -> Self {
        Self { hash: committed.block.hash(), committed }
    }

    pub fn block(&self) -> &Block {
        &self.committed.block
    }

    pub fn header(&self) -> &Header {
        &self.committed.block.header
    }

    pub fn height(&self) -> Height {
        self.committed.block.height()
    }

    pub fn receipts(&self) -> &[Receipt] {
        &self.committed.receipts
    }
}

/// Block in the window, and the position of its record.
#[derive(Clone, Debug)]
pub(crate) struct Recent {
    pub block: Arc<StoredBlock>,
    pub at: Position,
    /// Position after its record.
    pub after: Position,
}

impl Recent {
    pub(crate) fn bytes(&self) -> usize {
        usize::try_from(self.after.offset - self.at.offset).unwrap_or(usize::MAX)
    }
}

/// Newest part of the chain; all of it is durable.
pub(crate) struct Window {
    head: Arc<StoredBlock>,
    /// Consecutive heights that end at the head; may be empty only while the head is in the checkpoint.
    blocks: VecDeque<Recent>,
    bytes: usize,
    by_hash: HashMap<B256, Height>,
    by_transaction: HashMap<B256, (Height, u32)>,
    /// Certificates that are not in the index yet.
    certificates: BTreeMap<Height, (Position, Arc<Certificate>)>,
    last_certificate: Option<Arc<Certificate>>,
    /// State of the checkpoint.
    pub(crate) meta: Meta,
}

impl Window {
    pub(crate) fn new(head: Arc<StoredBlock>, meta: Meta, last_certificate: Option<Arc<Certificate>>) -> Self {
        Self {
            head,
            blocks: VecDeque::new(),
            bytes: 0,
            by_hash: HashMap::new(),
            by_transaction: HashMap::new(),
            certificates: BTreeMap::new(),
            last_certificate,
            meta,
        }
    }

    pub(crate) fn push(&mut self, recent: Recent) {
        let height = recent.block.height();
        self.by_hash.insert(recent.block.hash, height);
        for (index, receipt) in (0u32..).zip(recent.block.receipts()) {
            self.by_transaction.insert(receipt.transaction_hash, (height, index));
        }
        self.bytes += recent.bytes();
        self.head = recent.block.clone();
        self.blocks.push_back(recent);
    }

    pub(crate) fn certify(&mut self, at: Position, certificate: Arc<Certificate>) {
        let height = certificate.height;
        if self.last_certificate.as_ref().is_none_or(|last| last.height <= height) {
            self.last_certificate = Some(certificate.clone());
        }
        self.certificates.insert(height, (at, certificate));
    }

    /// Reverts to `head`, an earlier block of the chain.
    fn revert_to(&mut self, end: Position, head: Arc<StoredBlock>, meta: Meta, certified: Option<Arc<Certificate>>) {
        while let Some(gone) = self.blocks.pop_back_if(|newest| newest.block.height() > head.height()) {
            self.bytes -= gone.bytes();
            self.by_hash.remove(&gone.block.hash);
            for receipt in gone.block.receipts() {
                self.by_transaction.remove(&receipt.transaction_hash);
            }
        }
        self.certificates.retain(|height, (at, _)| *height <= head.height() && *at < end);
        let newest = self.certificates.last_key_value().map(|(_, (_, certificate))| certificate.clone());
        self.last_certificate = newest.or(certified);
        (self.head, self.meta) = (head, meta);
    }

    /// Removes the oldest blocks beyond the limits. Blocks above the checkpoint stay, unless `evict_all`.
    fn evict(&mut self, options: &Options, evict_all: bool) {
        let beyond = |window: &Self| window.blocks.len() > options.window_blocks || window.bytes > options.window_bytes;
        while beyond(self) {
            let Some(oldest) = self.blocks.front() else { return };
            if oldest.block.height() > self.meta.height && !evict_all {
                return;
            }
            self.bytes -= oldest.bytes();
            self.by_hash.remove(&oldest.block.hash);
            for receipt in oldest.block.receipts() {
                self.by_transaction.remove(&receipt.transaction_hash);
            }
            self.blocks.pop_front();
        }
    }

    pub(crate) fn get(&self, height: Height) -> Option<&Recent> {
        let first = self.blocks.front()?.block.height();
        self.blocks.get(usize::try_from(height.0.checked_sub(first.0)?).ok()?)
    }

    /// Height to which the checkpoint should move.
    fn checkpoint_target(&self, options: &Options) -> Height {
        let lag = if self.bytes > options.window_bytes { 0 } else { options.checkpoint_lag };
        Height(self.head.height().0.saturating_sub(lag))
    }

    pub(crate) fn checkpoint_is_due(&self, options: &Options) -> bool {
        self.checkpoint_target(options).0.saturating_sub(self.meta.height.0) >= options.checkpoint_blocks.max(1)
    }
}

/// State shared by writer, readers and the background thread.
pub(crate) struct Shared {
    pub(crate) directory: DataDirectory,
    pub(crate) identity: Identity,
    pub(crate) options: Options,
    genesis: Arc<StoredBlock>,
    pub(crate) log: LogReader,
    pub(crate) kv: PanicGuard,
    pub(crate) history_store: HistoryStore,
    /// True if the key-value store failed; it is rebuilt at the next start.
    kv_failed: AtomicBool,
    window: RwLock<Window>,
    block_cache: Mutex<BlockCache>,
    /// Held while the checkpoint moves.
    pub(crate) checkpointing: Mutex<()>,
    read_failures: AtomicU64,
    /// Last field, so that everything else is closed when the lock is released.
    _lock: Lock,
}

impl Shared {
    #[allow(clippy::too_many_arguments)] // One caller; each is a different type.
    pub(crate) fn new(
        directory: DataDirectory,
        lock: Lock,
        identity: Identity,
        options: Options,
        genesis: Arc<StoredBlock>,
        log: LogReader,
        kv: PanicGuard,
        history_store: HistoryStore,
        window: Window,
    ) -> Self {
        Self {
            directory,
            identity,
            options,
            genesis,
            log,
            kv,
            history_store,
            kv_failed: AtomicBool::new(false),
            window: RwLock::new(window),
            block_cache: Mutex::default(),
            checkpointing: Mutex::default(),
            read_failures: AtomicU64::new(0),
            _lock: lock,
        }
    }

    pub(crate) fn window(&self) -> RwLockReadGuard<'_, Window> {
        self.window.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn window_mut(&self) -> RwLockWriteGuard<'_, Window> {
        self.window.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes durable blocks and certificates to readers. Returns true if the checkpoint should move.
    pub(crate) fn publish(&self, blocks: Vec<Recent>, certificates: Vec<(Position, Arc<Certificate>)>) -> bool {
        let mut window = self.window_mut();
        blocks.into_iter().for_each(|recent| window.push(recent));
        certificates.into_iter().for_each(|(at, certificate)| window.certify(at, certificate));
        let kv_failed = self.kv_failed.load(Ordering::Relaxed);
        while kv_failed && window.certificates.len() > self.options.window_blocks {
            window.certificates.pop_first();
        }
        window.evict(&self.options, kv_failed);
        window.checkpoint_is_due(&self.options)
    }

    /// True if the window exceeds four times its limit, so that the writer must wait for the checkpoint.
    pub(crate) fn is_behind(&self) -> bool {
        let window = self.window();
        window.bytes > self.options.window_bytes.saturating_mul(4) && window.head.height() > window.meta.height
    }

    /// Moves the checkpoint to its target, or to the head.
    pub(crate) fn checkpoint(&self, to_head: bool) {
        let _one_at_a_time = self.checkpointing.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.kv_failed.load(Ordering::Relaxed) {
            let (blocks, certificates, before) = self.next_batch(to_head);
            let made = checkpoint::batch(self.identity, &blocks, &certificates, before.certified);
            let Some((mut batch, meta)) = made else { return };
            let extended = self.history_store.extend(&self.kv, &self.log, &mut batch, &blocks, before.height);
            if let Err(error) = extended.and_then(|()| self.kv.apply(&batch)) {
                self.mark_kv_failed(&error);
                return;
            }
            let mut window = self.window_mut();
            window.certificates.retain(|_, (at, _)| *at >= meta.end);
            window.meta = meta;
            window.evict(&self.options, false);
        }
    }

    /// Blocks and certificates for the next batch, and the checkpoint's state before it.
    fn next_batch(&self, to_head: bool) -> (Vec<Recent>, Vec<CertificateAt>, Meta) {
        let window = self.window();
        let target = if to_head { window.head.height() } else { window.checkpoint_target(&self.options) };
        let mut bytes = 0;
        let mut blocks = Vec::new();
        let mut height = window.meta.height.next();
        while height <= target && blocks.len() < MAX_BATCH_BLOCKS && bytes < MAX_BATCH_BYTES {
            let Some(recent) = window.get(height) else { break };
            bytes += recent.bytes();
            blocks.push(recent.clone());
            height = height.next();
        }
        let end = blocks.last().map(|recent| recent.after).unwrap_or_default();
        let reached = window.certificates.iter().filter(|(_, (at, _))| *at < end);
        let certificates = reached.map(|(&height, &(at, _))| CertificateAt { height, at }).collect();
        (blocks, certificates, window.meta.clone())
    }

    pub(crate) fn checkpoint_height(&self) -> Height {
        self.window().meta.height
    }

    pub(crate) fn kv_has_failed(&self) -> bool {
        self.kv_failed.load(Ordering::Relaxed)
    }

    /// From here on the node runs without the checkpoint; the next start rebuilds it.
    fn mark_kv_failed(&self, error: &KvError) {
        if self.kv_failed.swap(true, Ordering::Relaxed) {
            return;
        }
        tracing::error!(%error, "the state checkpoint failed; the next start rebuilds it from the block log");
        let marker = crate::recovery::failed_marker(&self.directory, self.options.backend);
        if let Err(error) = std::fs::write(&marker, error.to_string()) {
            tracing::error!(%error, file = %marker.display(), "cannot write");
        }
    }

    /// Result of an index lookup; `None` if it failed.
    fn index_result<T>(&self, result: Result<Option<T>, KvError>) -> Option<T> {
        result.unwrap_or_else(|error| {
            self.read_failures.fetch_add(1, Ordering::Relaxed);
            self.mark_kv_failed(&error);
            None
        })
    }

    fn record(&self, at: Position) -> Option<Vec<u8>> {
        let read = self.log.read(at);
        read.map_err(|error| {
            self.read_failures.fetch_add(1, Ordering::Relaxed);
            tracing::error!(%error, "cannot read from the block log");
        })
        .ok()
    }

    /// Header of a block, found by the index; unchecked.
    fn stored_header(&self, height: Height) -> Option<Header> {
        let at = self.index_result(checkpoint::block_position(&self.kv, height))?;
        record::header_at_start(&self.log.read_unchecked(at, record::MAX_HEADER_BYTES).ok()?)
    }

    /// Record of a block outside the window.
    fn stored_record(&self, height: Height) -> Option<Vec<u8>> {
        let known = self.index_result(checkpoint::block_position(&self.kv, height));
        if let Some(payload) = known.and_then(|at| self.record(at)).filter(|payload| height_in(payload) == Some(height)) {
            return Some(payload);
        }
        self.search(height)
    }

    /// Scans the segment that must contain the block. Slow, and needed only if the index fails.
    fn search(&self, height: Height) -> Option<Vec<u8>> {
        let mut records = self.log.records_from(self.log.segment_of(height.0));
        loop {
            match records.next() {
                Ok(Some(record)) => match height_in(&record.payload) {
                    Some(found) if found == height => return Some(record.payload),
                    Some(found) if found > height => return None,
                    _ => {}
                },
                Ok(None) => return None,
                Err(error) => {
                    self.read_failures.fetch_add(1, Ordering::Relaxed);
                    tracing::error!(%error, "cannot read from the block log");
                    return None;
                }
            }
        }
    }

    pub(crate) fn revert_window(&self, end: Position, head: Arc<StoredBlock>, meta: Meta, certified: Option<Arc<Certificate>>) {
        let height = head.height();
        self.window_mut().revert_to(end, head, meta, certified);
        self.remove_above(height);
    }

    /// Call it once window and index no longer have these blocks, and again once the log no longer has them.
    pub(crate) fn remove_above(&self, height: Height) {
        self.block_cache().remove_above(height);
    }

    fn block_cache(&self) -> MutexGuard<'_, BlockCache> {
        self.block_cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn height_in(payload: &[u8]) -> Option<Height> {
    match record::read_block_record(payload) {
        Ok(BlockRecord::Block(committed)) => Some(committed.block.height()),
        _ => None,
    }
}

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

    /// Block at `height`; `None` above the head. Height 0 is the genesis, which is in no log.
    pub fn block(&self, height: Height) -> Option<Arc<StoredBlock>> {
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

    /// Header of the block at `height`. Reads one KiB, where [`Self::block`] reads the whole block with its
    /// results.
    pub fn header(&self, height: Height) -> Option<Header> {
        if let Some(recent) = self.shared.window().get(height) {
            return Some(recent.block.header().clone());
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
        self.shared.read_failures.load(Ordering::Relaxed)
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
