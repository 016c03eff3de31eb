//! The single writer.

use crate::block::{Recent, StoredBlock};
use crate::code_cache::CodeCache;
use crate::directory::{DataDirectory, Space};
use crate::indexer::Indexer;
use crate::kv::KvError;
use crate::log::{Log, Position};
use crate::probe::Step;
use crate::reader::Reader;
use crate::recovery::{self, Opened, Recovered};
use crate::revert::RevertPlan;
use crate::safety::SafetyLog;
use crate::shared::Shared;
use crate::snapshots::{self, StoredSnapshot};
use crate::{Identity, Options, StoreError, Trace, record};
use corniche_engine::Ticket;
use corniche_state::{Changes, CommittedBlock};
use corniche_types::{B256, Bytes, Certificate, CommitIndex, Epoch, Genesis, Height, Resume, header_hash};
use std::path::Path;
use std::sync::Arc;

/// Size in bytes at which a group is synced without a request.
const GROUP_BYTES: usize = 32 << 20;

/// Appends to both logs. Owned by one thread. Everything appended is durable, and visible to readers, after
/// the next [`Store::sync`]. Dropping the store without `sync` loses what was appended since the last one,
/// like a crash.
pub struct Store {
    // Dropped first: its thread uses the following fields.
    indexer: Option<Indexer>,
    shared: Arc<Shared>,
    safety: SafetyLog,
    blocks: Log,
    /// Newest appended block, durable or not.
    head: (Height, B256),
    /// Point where ordering resumes, according to everything appended.
    resumes_after: (Epoch, CommitIndex),
    group: Group,
    code: CodeCache,
    trace: Option<Trace>,
    /// Reason why nothing can be written any more.
    stopped: Option<String>,
}

/// Data appended since the last sync, besides the bytes.
#[derive(Default)]
struct Group {
    tickets: Vec<Ticket>,
    blocks: Vec<Recent>,
    certificates: Vec<(Position, Arc<Certificate>)>,
    progress: Option<Resume>,
    /// Became durable in an automatic sync; reported with the next requested one.
    early_tickets: Vec<Ticket>,
}

/// Result of a sync.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Synced {
    /// Tickets of safety records in the order of appending; the engine gets them with `Input::Durable`.
    pub tickets: Vec<Ticket>,
    /// Height of the newest durable block.
    pub head: Height,
}

impl Store {
    /// Opens or creates the data directory of the chain with this `genesis`.
    pub fn open(directory: &Path, genesis: &Genesis, options: Options) -> Result<(Self, Recovered), StoreError> {
        let opened = recovery::open(directory, genesis, options)?;
        let Opened { shared, safety, blocks, recovered } = opened;
        let code = CodeCache::open(shared.directory.code(), shared.options.code_cache_bytes)?;
        let trace = open_trace(&shared);
        let start = |interval| Indexer::start(shared.clone(), interval);
        let indexer = shared.options.checkpoint_interval.map(start).transpose();
        let indexer = indexer.map_err(StoreError::io("start the checkpoint thread of", directory))?;
        let store = Self {
            indexer,
            safety,
            blocks,
            head: (recovered.head.height(), recovered.head.hash),
            resumes_after: recovered.resume.place(),
            group: Group::default(),
            code,
            trace,
            stopped: None,
            shared,
        };
        Ok((store, recovered))
    }

    /// Appends a record that the engine needs after a crash. The engine may send messages that depend on it
    /// once [`Store::sync`] returns the ticket.
    pub fn append_safety(&mut self, ticket: Ticket, record: &Bytes) -> Result<(), StoreError> {
        self.running()?;
        if !self.safety.has_records() {
            // From here on, nobody may claim that nothing was signed.
            let removed = self.shared.directory.remove_unsigned();
            self.stop_on_error(removed)?;
        }
        let appended = self.safety.append(ticket, record);
        self.stop_on_error(appended)?;
        self.group.tickets.push(ticket);
        self.bound_group()
    }

    /// Releases records with smaller tickets; the one with this ticket stays. The next sync deletes segments
    /// that contain only released records, after everything appended before is durable. So if a record is
    /// released because ordering advanced, append the block or the progress first.
    pub fn release_safety_below(&mut self, ticket: Ticket) -> Result<(), StoreError> {
        self.running()?;
        self.safety.release_below(ticket);
        Ok(())
    }

    /// True after [`Recovered::safety_lost`], until [`Self::append_history_known`] is called.
    pub fn is_history_lost(&self) -> bool {
        self.safety.is_history_lost()
    }

    /// Ends [`Recovered::safety_lost`]: the engine has learned from a quorum what it signed last. Until the
    /// next sync, a restart would report the loss again.
    pub fn append_history_known(&mut self) -> Result<(), StoreError> {
        self.running()?;
        let appended = self.safety.append_history_known();
        self.stop_on_error(appended)
    }

    /// Records that the engine would get after a restart now: all durable records that are not released.
    pub fn safety_records(&mut self) -> Result<Vec<(Ticket, Bytes)>, StoreError> {
        self.running()?;
        let scanned = self.safety.scan();
        self.stop_on_error(scanned)
    }

    /// Appends the next block with its results, in one record.
    pub fn append_block(&mut self, committed: impl Into<Arc<CommittedBlock>>) -> Result<(), StoreError> {
        self.running()?;
        let block = Arc::new(StoredBlock::new(committed.into()));
        let (height, parent) = (block.height(), block.header().parent_hash);
        let (head, hash) = self.head;
        if height != head.next() {
            return Err(StoreError::Height { expected: head.next(), found: height });
        }
        if parent != hash {
            return Err(StoreError::Parent { height, expected: hash, found: parent });
        }
        let resumes_after = block.committed.resume.place();
        if resumes_after < self.resumes_after {
            let (expected, found) = (self.resumes_after, resumes_after);
            return Err(StoreError::Resume { height, expected, found });
        }
        let appended = self.blocks.append(height.0, false, |out| record::write_block(out, &block.committed));
        let (at, size) = self.stop_on_error(appended)?;
        self.head = (height, block.hash);
        self.resumes_after = resumes_after;
        // The block contains a later point of ordering.
        self.group.progress = None;
        self.group.blocks.push(Recent { block, at, after: at.after(size) });
        self.bound_group()
    }

    /// Appends a certificate for a block of this chain. A certificate for another block is a divergence: see
    /// [`Store::append_divergence`].
    pub fn append_certificate(&mut self, certificate: &Certificate) -> Result<(), StoreError> {
        self.running()?;
        let (height, certified) = (certificate.height, certificate.header_hash);
        let ours = self.hash_at(height);
        if ours != Some(certified) {
            return Err(StoreError::Certificate { height, ours, certified });
        }
        let appended = self.blocks.append(self.head.0.next().0, false, |out| record::write_certificate(out, certificate));
        let (at, _) = self.stop_on_error(appended)?;
        self.group.certificates.push((at, Arc::new(certificate.clone())));
        self.bound_group()
    }

    /// Records that others (a quorum, or f + 1 validators) signed a different block, so that a restarted node
    /// does not continue.
    pub fn append_divergence(&mut self, certificate: &Certificate) -> Result<(), StoreError> {
        self.running()?;
        let appended = self.blocks.append(self.head.0.next().0, false, |out| record::write_divergence(out, certificate));
        self.stop_on_error(appended).map(|_| ())
    }

    /// Records that ordering resumes later than after the last block, because later commits made no block.
    /// Only the last call of a group is written; one that is not ahead of the known point is ignored. Do not
    /// call it for a commit before the blocks of earlier commits are appended: a block that resumes earlier
    /// would be refused.
    pub fn append_progress(&mut self, resume: &Resume) -> Result<(), StoreError> {
        self.running()?;
        if resume.place() > self.resumes_after {
            self.resumes_after = resume.place();
            self.group.progress = Some(resume.clone());
        }
        Ok(())
    }

    /// Makes everything appended durable, the safety log first, then publishes it to readers. One `fdatasync`
    /// per log with new data, whatever its amount.
    pub fn sync(&mut self) -> Result<Synced, StoreError> {
        self.running()?;
        let committed = self.commit();
        self.stop_on_error(committed)?;
        Ok(Synced { tickets: std::mem::take(&mut self.group.early_tickets), head: self.head.0 })
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        if let Some(resume) = self.group.progress.take() {
            self.blocks.append(self.head.0.next().0, false, |out| record::write_progress(out, &resume))?;
        }
        self.safety.commit()?;
        if self.blocks.pending_bytes() > 0 {
            let (end, base) = (self.safety.end(), self.head.0.next().0);
            self.blocks.append(base, false, |out| record::write_safety_end(out, end))?;
        }
        self.blocks.commit()?;
        self.safety.apply_release()?;
        self.group.early_tickets.append(&mut self.group.tickets);
        let (blocks, certificates) = (std::mem::take(&mut self.group.blocks), std::mem::take(&mut self.group.certificates));
        if blocks.is_empty() && certificates.is_empty() {
            return Ok(());
        }
        if let Some(probe) = &self.shared.options.probe {
            let _ = probe.before(&Step::Publish { head: self.head.0 });
        }
        let due = self.shared.publish(blocks, certificates);
        if self.shared.is_behind() {
            self.shared.checkpoint(true);
        } else if let Some(indexer) = self.indexer.as_ref().filter(|_| due) {
            indexer.wake();
        }
        Ok(())
    }

    fn bound_group(&mut self) -> Result<(), StoreError> {
        if self.safety.pending_bytes() + self.blocks.pending_bytes() < GROUP_BYTES {
            return Ok(());
        }
        let committed = self.commit();
        self.stop_on_error(committed)
    }

    /// Reverts the blocks above `to`, durably and for readers; ordering resumes at `resume`. `before` has the
    /// values at `to` of the keys that those blocks wrote. Only for development chains. After an error, the
    /// chain on disk may be either one; a restart finds out.
    pub fn revert_to(&mut self, to: Height, resume: &Resume, before: &Changes) -> Result<(), StoreError> {
        self.sync()?;
        if to >= self.head.0 {
            return self.append_progress(resume).and_then(|()| self.sync()).map(|_| ());
        }
        let taken = self.try_revert(to, resume, before);
        self.stop_on_error(taken)
    }

    fn try_revert(&mut self, to: Height, resume: &Resume, before: &Changes) -> Result<(), StoreError> {
        let state = |error: KvError| StoreError::State { path: self.shared.directory.state(), problem: error.0 };
        let end = self.shared.end_of(to).map_err(state)?;
        let end = end.ok_or_else(|| state(KvError(format!("block {} is not in the index", to.next()))))?;
        let plan = RevertPlan { to, end, resume: resume.clone() };
        plan.begin(&self.shared.directory, self.shared.options.sync)?;
        self.shared.revert_to(&plan, before).map_err(state)?;
        plan.cut(&mut self.blocks)?;
        self.shared.remove_above(to);
        RevertPlan::end(&self.shared.directory, self.shared.options.sync)?;
        self.head = (to, self.reader().head().hash);
        self.resumes_after = resume.place();
        Ok(())
    }

    /// Moves the checkpoint to the head, on this thread. Optional: it makes the next start faster.
    pub fn checkpoint(&mut self) {
        self.shared.checkpoint(true);
    }

    /// Deletes the oldest segment of blocks if all of them are below a height, and as far as the checkpoint and a snapshot allow (Y14).
    /// One segment at a time, because the writer waits for it. Returns the lowest block that is left. Certificates of deleted blocks go,
    /// too.
    pub fn prune_below(&mut self, height: Height) -> Result<Height, StoreError> {
        self.running()?;
        let pruned = self.try_prune(height);
        self.stop_on_error(pruned)?;
        Ok(self.shared.first_block())
    }

    fn try_prune(&mut self, height: Height) -> Result<(), StoreError> {
        // The checkpoint's own block must stay.
        let limit = height.min(self.shared.checkpoint_height());
        let Some((oldest, first_left)) = self.blocks.reader().oldest_below(limit.0) else { return Ok(()) };
        let newest = snapshots::list(&self.shared.directory, self.shared.identity)?.first().map(StoredSnapshot::height);
        if newest.is_none_or(|base| base.next().0 < first_left) {
            return Ok(());
        }
        // Indices first: they must not point to blocks that are gone.
        if let Err(error) = self.shared.forget_below(Height(first_left)) {
            tracing::warn!(%error, "old blocks are not deleted");
            return Ok(());
        }
        self.blocks.remove_through(oldest)
    }

    pub fn reader(&self) -> Reader {
        Reader { shared: self.shared.clone() }
    }

    pub fn code_cache(&self) -> CodeCache {
        self.code.clone()
    }

    /// Trace of the engine's events; `None` if [`Options::trace_bytes`] is 0, or if the directory could not
    /// be opened.
    pub fn trace(&self) -> Option<Trace> {
        self.trace.clone()
    }

    pub fn directory(&self) -> &DataDirectory {
        &self.shared.directory
    }

    pub fn identity(&self) -> Identity {
        self.shared.identity
    }

    /// Free disk space, compared with the limits in the options.
    pub fn space(&self) -> Result<Space, StoreError> {
        self.reader().space()
    }

    /// Free bytes on the disk of the data directory.
    pub fn free_space(&self) -> Result<u64, StoreError> {
        self.reader().free_space()
    }

    fn hash_at(&self, height: Height) -> Option<B256> {
        let unsynced = self.group.blocks.iter().rev().find(|recent| recent.block.height() == height);
        unsynced.map(|recent| recent.block.hash).or_else(|| self.reader().header(height).map(|header| header_hash(&header)))
    }

    fn running(&self) -> Result<(), StoreError> {
        match &self.stopped {
            Some(cause) => Err(StoreError::Stopped { cause: cause.clone() }),
            None => Ok(()),
        }
    }

    /// After a failed write the content of the disk is unknown: nothing more is written until a restart has
    /// read it.
    fn stop_on_error<T>(&mut self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        result.inspect_err(|error| self.stopped = Some(error.to_string()))
    }
}

/// The node runs without a trace if the ring cannot be opened.
fn open_trace(shared: &Shared) -> Option<Trace> {
    let bytes = shared.options.trace_bytes;
    let opened = (bytes > 0).then(|| Trace::open(&shared.directory.trace(), shared.identity, bytes))?;
    opened.inspect_err(|error| tracing::warn!(%error, "cannot open the trace")).ok()
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("directory", &self.shared.directory).field("head", &self.head).finish_non_exhaustive()
    }
}
