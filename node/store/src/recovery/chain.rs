//! Loads the checkpoint and checks it against the log; rebuilds it if it is wrong.

use super::genesis_block;
use super::replay::{Base, Failure, Replay, Replayed};
use crate::block::StoredBlock;
use crate::checkpoint::{self, CertificateAt, Meta};
use crate::directory::{DataDirectory, Identity};
use crate::history::{self, HistoryStore};
use crate::kv::{self, Kv, PanicGuard};
use crate::log::{LogReader, Position};
use crate::record::{self, BlockRecord};
use crate::snapshots::{self, StoredSnapshot};
use crate::{Options, StoreError};
use corniche_state::{Changes, CommittedBlock, Tree};
use corniche_types::{Certificate, Genesis, Height};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Number of blocks below the checkpoint whose indices are checked when it is loaded.
const SPOT_CHECKED_BLOCKS: usize = 64;

/// Chain of a data directory, whose state is to be recovered.
pub(super) struct Chain<'a> {
    pub directory: &'a DataDirectory,
    pub identity: Identity,
    pub options: &'a Options,
    pub genesis: &'a Genesis,
    pub log: LogReader,
    /// Beginning of the chain, if it is not the genesis.
    pub base: Option<&'a Arc<StoredSnapshot>>,
}

impl Chain<'_> {
    pub fn replay(&self) -> Result<(Option<String>, Replayed, PanicGuard, HistoryStore), StoreError> {
        let reason = match self.rebuild_reason() {
            Some(reason) => reason,
            None => match self.try_replay() {
                Ok((replayed, kv, history_store)) => return Ok((None, replayed, kv, history_store)),
                Err(Failure::Checkpoint(reason)) => reason,
                Err(Failure::Log(error)) => return Err(error),
            },
        };
        tracing::warn!(%reason, "rebuilding the state from the block log");
        self.discard()?;
        match self.try_replay() {
            Ok((replayed, kv, history_store)) => Ok((Some(reason), replayed, kv, history_store)),
            Err(Failure::Checkpoint(problem)) => Err(StoreError::State { path: self.directory.state(), problem }),
            Err(Failure::Log(error)) => Err(error),
        }
    }

    /// Reason to ignore the checkpoint, if there is one.
    fn rebuild_reason(&self) -> Option<String> {
        if self.options.rebuild {
            return Some("asked for".into());
        }
        if let Ok(reason) = fs::read_to_string(self.directory.failed_marker(self.options.backend)) {
            return Some(format!("it failed while the node ran: {reason}"));
        }
        let interrupted = self.directory.opening_marker(self.options.backend).exists();
        interrupted.then(|| "the last attempt to open it did not end".into())
    }

    fn state_directory(&self) -> PathBuf {
        self.directory.state().join(self.options.backend.name())
    }

    pub fn discard(&self) -> Result<(), StoreError> {
        let backend = self.options.backend;
        let remove = |path: &Path, result: std::io::Result<()>| match result {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            result => result.map_err(StoreError::io("remove", path)),
        };
        let files = self.state_directory();
        // Also removes a file in place of the directory.
        let removed = if files.is_dir() { fs::remove_dir_all(&files) } else { fs::remove_file(&files) };
        remove(&files, removed)?;
        for marker in [self.directory.failed_marker(backend), self.directory.opening_marker(backend)] {
            remove(&marker, fs::remove_file(&marker))?;
        }
        Ok(())
    }

    fn try_replay(&self) -> Result<(Replayed, PanicGuard, HistoryStore), Failure> {
        let marker = self.directory.opening_marker(self.options.backend);
        fs::write(&marker, "").map_err(StoreError::io("write", &marker))?;
        let opened = kv::open(self.options.backend, &self.state_directory(), self.options.kv_cache_bytes);
        let loaded = opened.map_err(Failure::from).and_then(|kv| Ok((self.load(&kv)?, kv)));
        fs::remove_file(&marker).map_err(StoreError::io("remove", &marker))?;
        let (base, kv) = loaded?;
        let history_store = self.history_store(&kv, base.meta.height)?;
        let replay = Replay::new(self.identity, self.genesis, &kv, &history_store, &self.log, base);
        Ok((replay.run(self.options)?, kv, history_store))
    }

    fn history_store(&self, kv: &PanicGuard, height: Height) -> Result<HistoryStore, Failure> {
        let history = self.options.history;
        match history::open(kv, history, height) {
            Ok(first) => Ok(HistoryStore::new(history, first)),
            Err(Some(error)) => Err(error.into()),
            Err(None) => Err(Failure::Checkpoint("an archive is configured, but old states are missing".into())),
        }
    }

    /// Loads the checkpoint and checks it against the log; the genesis if there is none.
    fn load(&self, kv: &PanicGuard) -> Result<Base, Failure> {
        let genesis = Arc::new(genesis_block(self.genesis));
        let Some(meta) = checkpoint::meta(kv)? else { return self.start_empty(kv, genesis) };
        if (Identity { chain_id: meta.chain_id, genesis_hash: meta.genesis_hash }) != self.identity {
            return Err(Failure::Checkpoint("it belongs to another chain".into()));
        }
        let head = match meta.height {
            Height(0) => Arc::new(StoredBlock::new(genesis)),
            height => match self.snapshot_below(height)? {
                Some(snapshot) => Arc::new(StoredBlock::new(Arc::new(snapshot.block()))),
                None => self.checkpoint_block(kv, height, &meta)?,
            },
        };
        if head.hash != meta.hash {
            return Err(Failure::Checkpoint(format!("its block {} is {}, in the log {}", meta.height, meta.hash, head.hash)));
        }
        let changes = checkpoint::load_state(kv)?;
        let mut tree = Tree::default();
        let (found, expected) = (tree.apply(&changes), head.header().state_root);
        if found != expected {
            return Err(Failure::Checkpoint(format!("its root at height {} is {found}, must be {expected}", meta.height)));
        }
        let certificate = meta.certified.map(|height| self.checkpoint_certificate(kv, height)).transpose()?;
        self.spot_check(kv, meta.height)?;
        Ok(Base { changes, tree, head, meta, certificate })
    }

    fn start_empty(&self, kv: &PanicGuard, genesis: Arc<CommittedBlock>) -> Result<Base, Failure> {
        if kv.next(&[])?.is_some() {
            return Err(Failure::Checkpoint("its height is missing".into()));
        }
        if let Some(base) = self.base {
            return self.load_base(kv, base);
        }
        let changes = genesis.changes.clone();
        let mut tree = Tree::default();
        tree.apply(&changes);
        let head = Arc::new(StoredBlock::new(genesis));
        kv.apply(&checkpoint::genesis_batch(self.identity, head.hash, &changes))?;
        let meta = checkpoint::meta(kv)?.ok_or_else(|| Failure::Checkpoint("data just written is missing".into()))?;
        Ok(Base { changes, tree, head, meta, certificate: None })
    }

    /// Snapshot of a block below the first one in the log. It need not be the base, if there is a newer one.
    fn snapshot_below(&self, height: Height) -> Result<Option<StoredSnapshot>, StoreError> {
        if height.0 >= self.log.first_height() {
            return Ok(None);
        }
        Ok(snapshots::list(self.directory, self.identity)?.into_iter().find(|snapshot| snapshot.height() == height))
    }

    /// Builds the checkpoint from a snapshot.
    fn load_base(&self, kv: &PanicGuard, base: &StoredSnapshot) -> Result<Base, Failure> {
        let (mut changes, mut tree) = (Changes::default(), Tree::default());
        base.load(|part| {
            tree.apply(&part);
            changes.merge(part);
            Ok::<_, Failure>(())
        })?;
        let head = Arc::new(StoredBlock::new(Arc::new(base.block())));
        let (found, expected) = (tree.root(), head.header().state_root);
        if found != expected {
            let problem = format!("expected state root {expected}, got {found}");
            return Err(Failure::Log(StoreError::Snapshot { path: base.path().into(), problem }));
        }
        checkpoint::write_state(kv, &changes)?;
        let Identity { chain_id, genesis_hash } = self.identity;
        let (height, hash, end) = (head.height(), head.hash, Position::default());
        let meta = Meta { chain_id, genesis_hash, height, hash, end, certified: None };
        // Last: without it everything else is discarded at the next start.
        kv.apply(&checkpoint::meta_batch(&meta))?;
        Ok(Base { changes, tree, head, meta, certificate: None })
    }

    fn checkpoint_block(&self, kv: &PanicGuard, height: Height, meta: &Meta) -> Result<Arc<StoredBlock>, Failure> {
        let suspect = |problem: String| Failure::Checkpoint(format!("the block of its height {height}: {problem}"));
        let at = checkpoint::block_position(kv, height)?.ok_or_else(|| suspect("is not in the index".into()))?;
        // If the log itself is damaged here, rebuilding from it will report that.
        let payload = self.log.read(at).map_err(|error| suspect(error.to_string()))?;
        if at.after(payload.len()) != meta.end {
            return Err(suspect("ends at another position of the log".into()));
        }
        match record::read_block_record(&payload) {
            Ok(BlockRecord::Block(committed)) => Ok(Arc::new(StoredBlock::new(Arc::new(*committed)))),
            _ => Err(suspect("is not a block in the log".into())),
        }
    }

    fn checkpoint_certificate(&self, kv: &PanicGuard, height: Height) -> Result<Arc<Certificate>, Failure> {
        let suspect = || Failure::Checkpoint(format!("its certificate of height {height} is not in the log"));
        let CertificateAt { at, .. } = checkpoint::certificate_from(kv, height)?.ok_or_else(suspect)?;
        match self.log.read(at).map(|payload| record::read_block_record(&payload)) {
            Ok(Ok(BlockRecord::Certificate(certificate))) if certificate.height == height => Ok(Arc::new(certificate)),
            _ => Err(suspect()),
        }
    }

    /// The root does not cover the indices: check those of the newest blocks, which are the most likely to be
    /// incomplete.
    fn spot_check(&self, kv: &PanicGuard, newest: Height) -> Result<(), Failure> {
        let suspect = |height, problem: &str| Failure::Checkpoint(format!("its indices at height {height}: {problem}"));
        for height in (self.log.first_height().max(1)..=newest.0).rev().take(SPOT_CHECKED_BLOCKS).map(Height) {
            let at = checkpoint::block_position(kv, height)?.ok_or_else(|| suspect(height, "the block is missing"))?;
            let payload = self.log.read(at).map_err(|error| suspect(height, &error.to_string()))?;
            let Ok(BlockRecord::Block(committed)) = record::read_block_record(&payload) else {
                return Err(suspect(height, "there is no block at its position in the log"));
            };
            let block = StoredBlock::new(Arc::new(*committed));
            if block.height() != height || checkpoint::height_of(kv, &block.hash)? != Some(height) {
                return Err(suspect(height, "the block's hash is missing or wrong in the index"));
            }
            for (index, receipt) in (0u32..).zip(block.receipts()) {
                if checkpoint::transaction(kv, &receipt.transaction_hash)? != Some((height, index)) {
                    return Err(suspect(height, "a transaction is missing or wrong in the index"));
                }
            }
        }
        Ok(())
    }
}
