//! Replays the block log from a state at one height to the head.

use crate::block::{Recent, StoredBlock};
use crate::checkpoint::{self, CertificateAt, Meta};
use crate::directory::Identity;
use crate::history::HistoryStore;
use crate::kv::{Kv, KvError, PanicGuard};
use crate::log::{BLOCKS_ADVICE, LogReader, LogRecord, Position};
use crate::record::{self, BlockRecord};
use crate::segment;
use crate::window::Window;
use crate::{Options, StoreError};
use corniche_state::{Changes, State, Tree};
use corniche_types::{B256, Certificate, Genesis, Height, Resume};
use std::collections::VecDeque;
use std::sync::Arc;

/// Reason why a replay did not reach the head.
pub(super) enum Failure {
    /// The checkpoint is wrong: it is rebuilt from the log.
    Checkpoint(String),
    /// The log is wrong.
    Log(StoreError),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Log(error)
    }
}

impl From<KvError> for Failure {
    fn from(error: KvError) -> Self {
        Self::Checkpoint(error.0)
    }
}

/// State at one height, from which the replay continues.
pub(super) struct Base {
    pub changes: Changes,
    pub tree: Tree,
    pub head: Arc<StoredBlock>,
    pub meta: Meta,
    pub certificate: Option<Arc<Certificate>>,
}

/// Result of a replay, at the head.
pub(super) struct Replayed {
    pub state: State,
    pub tree: Tree,
    pub window: Window,
    pub head: Arc<StoredBlock>,
    pub resume: Resume,
    pub divergence: Option<Certificate>,
    pub certificate: Option<Arc<Certificate>>,
    /// Durable end of the safety log.
    pub safety_end: Position,
}

/// Replay of the block log from a base to the head.
pub(super) struct Replay<'a> {
    identity: Identity,
    genesis: &'a Genesis,
    kv: &'a PanicGuard,
    history_store: &'a HistoryStore,
    log: &'a LogReader,
    /// True if the replay began at a checkpoint; errors are then attributed to the checkpoint first.
    trusted_checkpoint: bool,
    base: Base,
    /// Blocks above the base.
    queue: VecDeque<Recent>,
    queue_bytes: usize,
    newest: Arc<StoredBlock>,
    /// Certificates that are not in the index yet.
    certificates: Vec<(Position, Arc<Certificate>)>,
    resume: Resume,
    divergence: Option<Certificate>,
    safety_end: Position,
}

impl<'a> Replay<'a> {
    pub fn new(
        identity: Identity,
        genesis: &'a Genesis,
        kv: &'a PanicGuard,
        history_store: &'a HistoryStore,
        log: &'a LogReader,
        base: Base,
    ) -> Self {
        Self {
            identity,
            genesis,
            kv,
            history_store,
            log,
            trusted_checkpoint: base.meta.height > Height(0),
            resume: base.head.committed.resume.clone(),
            newest: base.head.clone(),
            base,
            queue: VecDeque::new(),
            queue_bytes: 0,
            certificates: Vec::new(),
            divergence: None,
            safety_end: Position::default(),
        }
    }

    /// Replays the log above the base. Blocks further behind the head than the lag enter the checkpoint.
    pub fn run(mut self, options: &Options) -> Result<Replayed, Failure> {
        self.check_rules(&self.newest)?;
        let lag = usize::try_from(options.checkpoint_lag).unwrap_or(usize::MAX);
        let step = usize::try_from(options.checkpoint_blocks).unwrap_or(usize::MAX).clamp(1, 1024);
        let mut records = self.log.records_from(self.base.meta.end);
        while let Some(record) = records.next()? {
            self.apply_record(record)?;
            if self.queue.len() >= lag.saturating_add(step) {
                self.apply_blocks(step)?;
            } else if self.queue_bytes > options.window_bytes {
                self.apply_blocks(self.queue.len().div_ceil(2))?;
            }
        }
        self.finish()
    }

    fn apply_record(&mut self, record: LogRecord) -> Result<(), Failure> {
        let (at, after) = (record.at, record.after);
        match record::read_block_record(&record.payload).map_err(|problem| record::unreadable(&record, &problem))? {
            BlockRecord::Block(committed) => {
                let block = Arc::new(StoredBlock::new(Arc::new(*committed)));
                let recent = Recent { block, at, after };
                let block = &recent.block;
                if block.height() <= self.base.meta.height {
                    return self.index_block(&recent);
                }
                self.check_follows(block)?;
                self.check_rules(block)?;
                self.advance(&block.committed.resume);
                self.newest = block.clone();
                self.queue_bytes += recent.bytes();
                self.queue.push_back(recent);
            }
            BlockRecord::Certificate(certificate) => self.certificates.push((at, Arc::new(certificate))),
            BlockRecord::Progress(resume) => self.advance(&resume),
            BlockRecord::Divergence(certificate) => self.divergence = Some(certificate),
            BlockRecord::SafetyEnd(end) => self.safety_end = end,
        }
        Ok(())
    }

    /// Adds a block to the indices that the base already contains. It is below a snapshot from which the state was built.
    fn index_block(&mut self, recent: &Recent) -> Result<(), Failure> {
        let height = recent.block.height();
        if height == self.base.meta.height {
            if recent.block.hash != self.base.meta.hash {
                return Err(self.contradiction(
                    height,
                    format!("its hash is {}, the snapshot's {}", recent.block.hash, self.base.meta.hash),
                ));
            }
            self.base.meta.end = recent.after;
        }
        Ok(self.kv.apply(&checkpoint::index_batch(recent))?)
    }

    fn advance(&mut self, resume: &Resume) {
        if resume.place() > self.resume.place() {
            self.resume = resume.clone();
        }
    }

    fn check_follows(&self, block: &StoredBlock) -> Result<(), Failure> {
        let expected = self.newest.height().next();
        if block.height() != expected {
            return Err(self.contradiction(block.height(), format!("expected block {expected}")));
        }
        if block.header().parent_hash != self.newest.hash {
            let problem = format!("its parent is {}, the block before it {}", block.header().parent_hash, self.newest.hash);
            return Err(self.contradiction(expected, problem));
        }
        Ok(())
    }

    /// Detects a genesis file whose upgrades were changed after blocks had been built under them. Where epochs end, blocks name
    /// the versions, and the genesis has no upgrades.
    fn check_rules(&self, block: &StoredBlock) -> Result<(), Failure> {
        if self.genesis.epochs().is_some() {
            return Ok(());
        }
        let (height, found) = (block.height(), block.committed.block.ordering.protocol_version);
        let expected = self.genesis.rules_at(height).version;
        if found == expected {
            return Ok(());
        }
        Err(Failure::Log(StoreError::Rules { height, found, expected }))
    }

    fn contradiction(&self, height: Height, problem: String) -> Failure {
        if self.trusted_checkpoint {
            return Failure::Checkpoint(format!("the log does not follow from it at height {height}: {problem}"));
        }
        Failure::Log(StoreError::Contradiction { height, problem, advice: BLOCKS_ADVICE })
    }

    fn check_root(&self, root: B256, block: &StoredBlock) -> Result<(), Failure> {
        let header = block.header().state_root;
        if root == header {
            return Ok(());
        }
        let problem = format!("the state changes lead to root {root}, the header says {header}");
        Err(self.contradiction(block.height(), problem))
    }

    /// Moves the oldest `count` blocks of the queue into the base and the checkpoint.
    fn apply_blocks(&mut self, count: usize) -> Result<(), Failure> {
        let blocks: Vec<Recent> = self.queue.drain(..count).collect();
        let mut merged = Changes::default();
        for recent in &blocks {
            self.queue_bytes -= recent.bytes();
            merged.merge(recent.block.committed.changes.clone());
        }
        let Some(last) = blocks.last() else { return Ok(()) };
        let root = self.base.tree.apply(&merged);
        self.check_root(root, &last.block)?;
        let (known, above): (Vec<_>, Vec<_>) = self.certificates.drain(..).partition(|(at, _)| *at < last.after);
        self.certificates = above;
        let entries: Vec<_> = known.iter().map(|(at, known)| CertificateAt { height: known.height, at: *at }).collect();
        if let Some((mut batch, meta)) = checkpoint::batch(self.identity, &blocks, &entries, self.base.meta.certified) {
            self.history_store.extend(self.kv, self.log, &mut batch, &blocks, self.base.meta.height)?;
            self.kv.apply(&batch)?;
            self.base.meta = meta;
        }
        for (_, certificate) in known {
            self.base.certificate = greater(self.base.certificate.take(), certificate);
        }
        self.base.changes.merge(merged);
        self.base.head = last.block.clone();
        Ok(())
    }

    fn finish(mut self) -> Result<Replayed, Failure> {
        // Random seed: contracts choose keys, and must not be able to produce hash collisions.
        let state = State::with_seed(segment::fresh_nonce());
        state.apply(self.base.head.height(), &std::mem::take(&mut self.base.changes));
        let mut tree = std::mem::take(&mut self.base.tree);
        for recent in &self.queue {
            let changes = &recent.block.committed.changes;
            let root = tree.apply(changes);
            self.check_root(root, &recent.block)?;
            state.apply(recent.block.height(), changes);
        }
        let Base { head, meta, certificate, .. } = self.base;
        let mut window = Window::new(head, meta, certificate.clone());
        self.queue.into_iter().for_each(|recent| window.push(recent));
        let mut last = certificate;
        for (at, certificate) in self.certificates {
            last = greater(last, certificate.clone());
            window.certify(at, certificate);
        }
        let (resume, divergence, safety_end) = (self.resume, self.divergence, self.safety_end);
        Ok(Replayed { state, tree, window, head: self.newest, resume, divergence, certificate: last, safety_end })
    }
}

fn greater(one: Option<Arc<Certificate>>, other: Arc<Certificate>) -> Option<Arc<Certificate>> {
    match one {
        Some(one) if one.height > other.height => Some(one),
        _ => Some(other),
    }
}
