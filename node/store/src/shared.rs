//! State shared by writer, readers and the background thread: moves the checkpoint, reads the log.

use crate::block::{Recent, StoredBlock};
use crate::block_cache::BlockCache;
use crate::checkpoint::{self, CertificateAt, Meta};
use crate::directory::{DataDirectory, Lock};
use crate::history::HistoryStore;
use crate::kv::{Batch, Kv, KvError, PanicGuard};
use crate::log::{LogReader, Position};
use crate::record::{self, BlockRecord};
use crate::snapshots::StoredSnapshot;
use crate::window::Window;
use crate::{Identity, Options, StoreError};
use corniche_types::{Certificate, Header, Height};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Maximum number of blocks, and of their bytes, per batch of the checkpoint.
const MAX_BATCH_BLOCKS: usize = 1024;
const MAX_BATCH_BYTES: usize = 32 << 20;

/// State shared by writer, readers and the background thread.
pub(crate) struct Shared {
    pub(crate) directory: DataDirectory,
    pub(crate) identity: Identity,
    pub(crate) options: Options,
    pub(crate) genesis: Arc<StoredBlock>,
    pub(crate) log: LogReader,
    pub(crate) kv: PanicGuard,
    pub(crate) history_store: HistoryStore,
    /// True if the key-value store failed; it is rebuilt at the next start.
    kv_failed: AtomicBool,
    /// Beginning of the chain, if it is not the genesis.
    pub(crate) base: Option<Arc<StoredSnapshot>>,
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
        base: Option<Arc<StoredSnapshot>>,
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
            base,
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

    /// Removes blocks below a height, and their transactions and certificates, from the indices.
    pub(crate) fn forget_below(&self, height: Height) -> Result<(), StoreError> {
        let _one_at_a_time = self.checkpointing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut records = self.log.records_from(Position::default());
        let mut batch = Batch::new();
        while let Some(record) = records.next()? {
            match record::read_block_record(&record.payload) {
                Ok(BlockRecord::Block(committed)) if committed.block.height() < height => {
                    checkpoint::remove_block(&mut batch, &StoredBlock::new(Arc::new(*committed)));
                }
                Ok(BlockRecord::Certificate(certificate)) if certificate.height < height => {
                    checkpoint::remove_certificate(&mut batch, certificate.height);
                }
                Ok(BlockRecord::Block(_)) => break,
                _ => {}
            }
            if batch.len() >= MAX_BATCH_BLOCKS {
                self.apply_removal(&mut batch);
            }
        }
        self.apply_removal(&mut batch);
        Ok(())
    }

    fn apply_removal(&self, batch: &mut Batch) {
        if let Err(error) = self.kv.apply(&std::mem::take(batch)) {
            self.mark_kv_failed(&error);
        }
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
        let marker = self.directory.failed_marker(self.options.backend);
        if let Err(error) = std::fs::write(&marker, error.to_string()) {
            tracing::error!(%error, file = %marker.display(), "cannot write");
        }
    }

    /// Number of failed reads since the start.
    pub(crate) fn read_failures(&self) -> u64 {
        self.read_failures.load(Ordering::Relaxed)
    }

    /// Result of an index lookup; `None` if it failed.
    pub(crate) fn index_result<T>(&self, result: Result<Option<T>, KvError>) -> Option<T> {
        result.unwrap_or_else(|error| {
            self.read_failures.fetch_add(1, Ordering::Relaxed);
            self.mark_kv_failed(&error);
            None
        })
    }

    pub(crate) fn record(&self, at: Position) -> Option<Vec<u8>> {
        let read = self.log.read(at);
        read.map_err(|error| {
            self.read_failures.fetch_add(1, Ordering::Relaxed);
            tracing::error!(%error, "cannot read from the block log");
        })
        .ok()
    }

    /// Lowest block in the log; 1 for a whole chain.
    pub(crate) fn first_block(&self) -> Height {
        Height(self.log.first_height().max(1))
    }

    /// Header of a block, found by the index; unchecked.
    pub(crate) fn stored_header(&self, height: Height) -> Option<Header> {
        let at = self.index_result(checkpoint::block_position(&self.kv, height))?;
        record::header_at_start(&self.log.read_unchecked(at, record::MAX_HEADER_BYTES).ok()?)
    }

    /// Record of a block outside the window.
    pub(crate) fn stored_record(&self, height: Height) -> Option<Vec<u8>> {
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

    pub(crate) fn block_cache(&self) -> MutexGuard<'_, BlockCache> {
        self.block_cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn height_in(payload: &[u8]) -> Option<Height> {
    match record::read_block_record(payload) {
        Ok(BlockRecord::Block(committed)) => Some(committed.block.height()),
        _ => None,
    }
}
