//! The one writer.

use crate::code_cache::CodeCache;
use crate::directory::{DataDirectory, Space};
use crate::indexer::Indexer;
use crate::kv::KvError;
use crate::log::{Log, Position};
use crate::probe::Step;
use crate::reader::{Reader, Recent, Shared, StoredBlock};
use crate::recovery::{self, Opened, Recovered};
use crate::safety::SafetyLog;
use crate::undo::Undoing;
use crate::{Identity, Options, StoreError, Trace, record};
use corniche_engine::Ticket;
use corniche_state::{Changes, CommittedBlock};
use corniche_types::{B256, Bytes, Certificate, CommitIndex, Genesis, Height, Resume};
use std::path::Path;
use std::sync::Arc;

/// A group that grows beyond this is synced without being asked.
const GROUP_BYTES: usize = 32 << 20;

/// Appends to both logs. Owned by one thread; everything appended is durable, and visible to readers, after the next
/// [`Store::sync`]. Dropping it without `sync` forgets what was appended since the last one, as a crash would.
pub struct Store {
    // Dropped first: its thread uses what follows.
    indexer: Option<Indexer>,
    shared: Arc<Shared>,
    safety: SafetyLog,
    blocks: Log,
    /// The newest block appended, durable or not.
    head: (Height, B256),
    /// Where ordering resumes according to everything appended.
    resumes_after: CommitIndex,
    group: Group,
    code: CodeCache,
    trace: Option<Trace>,
    /// Why nothing can be written any more.
    stopped: Option<String>,
}

/// What was appended since the last sync, beside its bytes.
#[derive(Default)]
struct Group {
    tickets: Vec<Ticket>,
    blocks: Vec<Recent>,
    certificates: Vec<(Position, Arc<Certificate>)>,
    progress: Option<Resume>,
    /// Became durable in a sync that nobody asked for; reported with the next one.
    early: Vec<Ticket>,
}

/// What a sync made durable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Synced {
    /// Tickets of safety records, in the order they were appended: what the engine is told with `Input::Durable`.
    pub tickets: Vec<Ticket>,
    /// Height of the newest durable block.
    pub head: Height,
}

impl Store {
    /// Opens or creates the data directory of the chain that begins with `genesis`.
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
            resumes_after: recovered.resume.index,
            group: Group::default(),
            code,
            trace,
            stopped: None,
            shared,
        };
        Ok((store, recovered))
    }

    /// Appends what the engine must find again after a crash. It may speak of it once [`Store::sync`] names the ticket.
    pub fn append_safety(&mut self, ticket: Ticket, record: &Bytes) -> Result<(), StoreError> {
        self.running()?;
        let appended = self.safety.append(ticket, record);
        self.keep(appended)?;
        self.group.tickets.push(ticket);
        self.bound_group()
    }

    /// Records with smaller tickets are not needed any more; the one with this ticket stays. Segments that hold only
    /// released records are deleted by the next sync, after everything appended before it is durable. So if a record is
    /// released because ordering went on, append the block or the progress first.
    pub fn release_safety_below(&mut self, ticket: Ticket) -> Result<(), StoreError> {
        self.running()?;
        self.safety.release_below(ticket);
        Ok(())
    }

    /// [`Recovered::safety_lost`], and [`Self::append_history_known`] was not called since.
    pub fn is_history_lost(&self) -> bool {
        self.safety.is_history_lost()
    }

    /// After [`Recovered::safety_lost`]: the engine has learned from a quorum what it signed last. Until the next sync the
    /// loss would be reported again.
    pub fn append_history_known(&mut self) -> Result<(), StoreError> {
        self.running()?;
        let appended = self.safety.append_history_known();
        self.keep(appended)
    }

    /// What the engine would find again if the node restarted now: every durable record that is not released.
    pub fn safety_records(&mut self) -> Result<Vec<(Ticket, Bytes)>, StoreError> {
        self.running()?;
        let scanned = self.safety.scan();
        self.keep(scanned)
    }

    /// Appends the next block with all that it led to, in one record.
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
        let resumes_after = block.committed.resume.index;
        if resumes_after < self.resumes_after {
            return Err(StoreError::Resume { height, expected: self.resumes_after, found: resumes_after });
        }
        let appended = self.blocks.append(height.0, false, |out| record::write_block(out, &block.committed));
        let (at, size) = self.keep(appended)?;
        self.head = (height, block.hash);
        self.resumes_after = resumes_after;
        // The block says at least as much.
        self.group.progress = None;
        self.group.blocks.push(Recent { block, at, after: at.after(size) });
        self.bound_group()
    }

    /// Appends a certificate for a block of ours. A certificate for another block is a divergence: see
    /// [`Store::append_divergence`].
    pub fn append_certificate(&mut self, certificate: &Certificate) -> Result<(), StoreError> {
        self.running()?;
        let (height, certified) = (certificate.height, certificate.header_hash);
        let ours = self.hash_at(height);
        if ours != Some(certified) {
            return Err(StoreError::Certificate { height, ours, certified });
        }
        let appended = self.blocks.append(self.head.0.next().0, false, |out| record::write_certificate(out, certificate));
        let (at, _) = self.keep(appended)?;
        self.group.certificates.push((at, Arc::new(certificate.clone())));
        self.bound_group()
    }

    /// Remembers that others signed another block than ours (a quorum, or f + 1 validators), so that a restarted node does not go on.
    pub fn append_divergence(&mut self, certificate: &Certificate) -> Result<(), StoreError> {
        self.running()?;
        let appended = self.blocks.append(self.head.0.next().0, false, |out| record::write_divergence(out, certificate));
        self.keep(appended).map(|_| ())
    }

    /// Remembers that ordering resumes later than after the last block: commits since then made none. Only the last one of
    /// a group is written, and one that is not ahead of what is known changes nothing. Never to be called for a commit
    /// before the blocks of earlier commits are appended: a block that resumes earlier is then refused.
    pub fn append_progress(&mut self, resume: &Resume) -> Result<(), StoreError> {
        self.running()?;
        if resume.index > self.resumes_after {
            self.resumes_after = resume.index;
            self.group.progress = Some(resume.clone());
        }
        Ok(())
    }

    /// Makes everything appended durable, the safety log first, then shows it to readers. One `fdatasync` for each log
    /// that has something to sync, however much that is.
    pub fn sync(&mut self) -> Result<Synced, StoreError> {
        self.running()?;
        let committed = self.commit();
        self.keep(committed)?;
        Ok(Synced { tickets: std::mem::take(&mut self.group.early), head: self.head.0 })
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
        self.group.early.append(&mut self.group.tickets);
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
        self.keep(committed)
    }

    /// Takes the blocks above `to` off the chain, durably and for readers; ordering resumes at `resume`. `before`: what the keys that those
    /// blocks wrote held at `to`. For a chain that goes back, which no network does. After an error the chain on disk may be either; a
    /// restart finds out.
    pub fn take_back(&mut self, to: Height, resume: &Resume, before: &Changes) -> Result<(), StoreError> {
        self.sync()?;
        if to >= self.head.0 {
            return self.append_progress(resume).and_then(|()| self.sync()).map(|_| ());
        }
        let taken = self.undo(to, resume, before);
        self.keep(taken)
    }

    fn undo(&mut self, to: Height, resume: &Resume, before: &Changes) -> Result<(), StoreError> {
        let state = |error: KvError| StoreError::State { path: self.shared.directory.state(), problem: error.0 };
        let end = self.shared.end_of(to).map_err(state)?;
        let end = end.ok_or_else(|| state(KvError(format!("block {} is not in the index", to.next()))))?;
        let undoing = Undoing { to, end, resume: resume.clone() };
        undoing.begin(&self.shared.directory, self.shared.options.sync)?;
        self.shared.take_back(&undoing, before).map_err(state)?;
        undoing.cut(&mut self.blocks)?;
        self.shared.forget_above(to);
        Undoing::end(&self.shared.directory, self.shared.options.sync)?;
        self.head = (to, self.reader().head().hash);
        self.resumes_after = resume.index;
        Ok(())
    }

    /// Moves the checkpoint to the head, on this thread. Not needed for correctness: it makes the next start faster.
    pub fn checkpoint(&mut self) {
        self.shared.checkpoint(true);
    }

    pub fn reader(&self) -> Reader {
        Reader { shared: self.shared.clone() }
    }

    pub fn code_cache(&self) -> CodeCache {
        self.code.clone()
    }

    /// Where the engine's deeds go; `None` when [`Options::trace_bytes`] is 0, or when the directory refuses.
    pub fn trace(&self) -> Option<Trace> {
        self.trace.clone()
    }

    pub fn directory(&self) -> &DataDirectory {
        &self.shared.directory
    }

    pub fn identity(&self) -> Identity {
        self.shared.identity
    }

    /// Free space against the marks in the options.
    pub fn space(&self) -> Result<Space, StoreError> {
        self.reader().space()
    }

    /// Free bytes on the disk of the data directory.
    pub fn free_space(&self) -> Result<u64, StoreError> {
        self.reader().free_space()
    }

    fn hash_at(&self, height: Height) -> Option<B256> {
        let unsynced = self.group.blocks.iter().rev().find(|recent| recent.block.height() == height);
        unsynced.map(|recent| recent.block.hash).or_else(|| self.reader().block(height).map(|block| block.hash))
    }

    fn running(&self) -> Result<(), StoreError> {
        match &self.stopped {
            Some(cause) => Err(StoreError::Stopped { cause: cause.clone() }),
            None => Ok(()),
        }
    }

    /// After a failed write nobody knows what is on disk: nothing more is written until a restart has read it.
    fn keep<T>(&mut self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        result.inspect_err(|error| self.stopped = Some(error.to_string()))
    }
}

/// A ring that cannot be opened is no reason to stop a node.
fn open_trace(shared: &Shared) -> Option<Trace> {
    let bytes = shared.options.trace_bytes;
    let opened = (bytes > 0).then(|| Trace::open(&shared.directory.trace(), shared.identity, bytes))?;
    opened.inspect_err(|error| tracing::warn!(%error, "what the engine does is not traced")).ok()
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("directory", &self.shared.directory).field("head", &self.head).finish_non_exhaustive()
    }
}
