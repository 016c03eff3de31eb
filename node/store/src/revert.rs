//! Reverting the newest blocks, only on development chains.
//!
//! Blocks are removed in place, so the cost depends on their number, not on the length of the chain. Before
//! anything changes, the plan is written to a file ([`RevertPlan`]). A start that finds this file repeats the
//! plan, so that a crash leaves either chain, never a mixture.

use crate::block::StoredBlock;
use crate::checkpoint::{self, CertificateAt, Meta};
use crate::directory::{DataDirectory, sync_directory};
use crate::kv::{Batch, Kv, KvError};
use crate::log::{Log, Position};
use crate::reader::Reader;
use crate::record::{self, BlockRecord};
use crate::shared::Shared;
use crate::{StoreError, history};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_state::Changes;
use corniche_types::{Certificate, Height, Resume, wire};
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

/// Number of heights below the new head that are searched for certificates. Blocks without one are certified
/// again.
const CERTIFICATE_SEARCH_HEIGHTS: u64 = 128;

/// Plan of a revert.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub(crate) struct RevertPlan {
    /// Newest block that stays.
    pub to: Height,
    /// New end of the block log.
    pub end: Position,
    /// Point where ordering resumes: commits that led to the reverted blocks must not be delivered again.
    pub resume: Resume,
}

impl RevertPlan {
    fn path(directory: &DataDirectory) -> PathBuf {
        directory.root().join("UNDOING")
    }

    /// Plan of an interrupted revert, if there is one.
    pub fn found(directory: &DataDirectory) -> Result<Option<Self>, StoreError> {
        let path = Self::path(directory);
        match fs::read(&path) {
            // An incomplete file means that the revert had not begun.
            Ok(bytes) => Ok(wire::decode(&bytes).ok()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::io("read", &path)(error)),
        }
    }

    pub fn begin(&self, directory: &DataDirectory, sync: bool) -> Result<(), StoreError> {
        let path = Self::path(directory);
        let draft = path.with_extension("new");
        fs::write(&draft, wire::encode(self)).map_err(StoreError::io("write", &draft))?;
        if sync {
            fs::File::open(&draft).and_then(|file| file.sync_all()).map_err(StoreError::io("sync", &draft))?;
        }
        fs::rename(&draft, &path).map_err(StoreError::io("rename", &draft))?;
        if sync { sync_directory(directory.root()) } else { Ok(()) }
    }

    /// Cuts the block log. Idempotent.
    pub fn cut(&self, blocks: &mut Log) -> Result<(), StoreError> {
        blocks.cut(self.end)?;
        blocks.append(self.to.next().0, false, |out| record::write_progress(out, &self.resume))?;
        blocks.commit()
    }

    pub fn end(directory: &DataDirectory, sync: bool) -> Result<(), StoreError> {
        let path = Self::path(directory);
        match fs::remove_file(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(StoreError::io("remove", &path)(error)),
            // The file must not reappear when there are new blocks.
            Ok(()) if sync => sync_directory(directory.root()),
            Ok(()) => Ok(()),
        }
    }
}

impl Shared {
    /// End of the block log if `to` is the newest block.
    pub(crate) fn end_of(&self, to: Height) -> Result<Option<Position>, KvError> {
        let next = to.next();
        let held = self.window().get(next).map(|recent| recent.at);
        held.map_or_else(|| checkpoint::block_position(&self.kv, next), |at| Ok(Some(at)))
    }

    /// Removes everything above `plan.to` from the checkpoint, the window and the cache. `before` has the
    /// values at that height of the keys that the blocks wrote.
    pub(crate) fn revert_to(self: &Arc<Self>, plan: &RevertPlan, before: &Changes) -> Result<(), KvError> {
        let _one_at_a_time = self.checkpointing.lock().unwrap_or_else(PoisonError::into_inner);
        let meta = self.window().meta.clone();
        let meta = if meta.height > plan.to { self.revert_checkpoint(plan, before, &meta)? } else { meta };
        let certified = meta.certified.map(|height| checkpoint::certificate_from(&self.kv, height)).transpose()?.flatten();
        let certified = certified.and_then(|certificate| self.certificate_at(certificate)).map(Arc::new);
        let head = self.stored(plan.to).ok_or_else(|| KvError(format!("block {} is not there", plan.to)))?;
        self.revert_window(plan.end, head, meta, certified);
        Ok(())
    }

    /// In one batch, like every move of the checkpoint.
    fn revert_checkpoint(self: &Arc<Self>, plan: &RevertPlan, before: &Changes, now: &Meta) -> Result<Meta, KvError> {
        let missing = |height: Height| KvError(format!("block {height} is not in the index"));
        let to = plan.to;
        let mut batch = Batch::new();
        batch.extend(checkpoint::entries(before));
        for height in (to.0 + 1..=now.height.0).map(Height) {
            let block = self.stored(height).ok_or_else(|| missing(height))?;
            checkpoint::remove_block(&mut batch, &block);
            history::remove_rows(&mut batch, &block);
        }
        let mut certified = None;
        for height in (1..=now.certified.unwrap_or_default().0).rev().map(Height) {
            let found = checkpoint::certificate_from(&self.kv, height)?.filter(|found| found.height == height);
            match found {
                Some(CertificateAt { at, .. }) if height <= to && at < plan.end => {
                    certified = Some(height);
                    break;
                }
                Some(found) => checkpoint::remove_certificate(&mut batch, found.height),
                None if height.0 + CERTIFICATE_SEARCH_HEIGHTS < to.0 => break,
                None => {}
            }
        }
        let end = match to {
            Height(0) => Position::default(),
            _ => {
                let at = checkpoint::block_position(&self.kv, to)?.ok_or_else(|| missing(to))?;
                at.after(self.log.read(at).map_err(|error| KvError(error.to_string()))?.len())
            }
        };
        let head = self.stored(to).ok_or_else(|| missing(to))?;
        let meta = Meta { height: to, hash: head.hash, end, certified, ..now.clone() };
        checkpoint::put_meta(&mut batch, &meta);
        self.history_store.revert_to(&mut batch, to);
        self.kv.apply(&batch)?;
        Ok(meta)
    }

    fn certificate_at(&self, CertificateAt { at, .. }: CertificateAt) -> Option<Certificate> {
        match record::read_block_record(&self.log.read(at).ok()?) {
            Ok(BlockRecord::Certificate(certificate)) => Some(certificate),
            _ => None,
        }
    }

    fn stored(self: &Arc<Self>, height: Height) -> Option<Arc<StoredBlock>> {
        Reader { shared: self.clone() }.block(height)
    }
}
