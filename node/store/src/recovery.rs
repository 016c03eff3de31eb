//! Opening: from a data directory to a state at the head.
//!
//! ```text
//!  claim ─▶ safety log ─▶ block log ─▶ checkpoint ─▶ replay above it ─▶ state, tree, window
//!                                          └─ on any error: discard it, replay from genesis
//! ```

use crate::block::{Recent, StoredBlock};
use crate::checkpoint::{self, CertificateAt, Meta};
use crate::directory::{DataDirectory, Identity};
use crate::history::{self, HistoryStore};
use crate::kv::{self, Kv, KvError, PanicGuard};
use crate::log::{BLOCKS_ADVICE, Log, LogReader, LogRecord, Position, Settings};
use crate::record::{self, BlockRecord};
use crate::revert::RevertPlan;
use crate::safety::SafetyLog;
use crate::segment::{self, LogKind};
use crate::shared::Shared;
use crate::window::Window;
use crate::{Options, StoreError};
use corniche_engine::Ticket;
use corniche_state::{Changes, CommittedBlock, State, Tree, genesis_changes};
use corniche_types::{
    B256, Block, Bytes, Certificate, CommitIndex, Epoch, Genesis, Height, OrderingRecord, Resume, ValidatorIndex,
};
use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Number of blocks below the checkpoint whose indices are checked when it is loaded.
const SPOT_CHECKED_BLOCKS: usize = 64;

/// Recovered state of a data directory.
#[derive(Debug)]
pub struct Recovered {
    /// State at the head; also readable at the replayed heights, usually the last
    /// [`Options::checkpoint_lag`].
    pub state: State,
    /// Tree of the state at the head; its root equals the one in the head's header.
    pub tree: Tree,
    pub head: Arc<StoredBlock>,
    /// Certificate with the highest height.
    pub certificate: Option<Arc<Certificate>>,
    /// Point where ordering resumes.
    pub resume: Resume,
    /// Engine records in the order of appending, without released ones. After a crash, some released records
    /// may be included.
    pub safety: Vec<(Ticket, Bytes)>,
    /// True if the safety log is missing or lost durable bytes: then it is unknown what this validator
    /// signed. It must not vote before it has learned that from a quorum; then call
    /// [`crate::Store::append_history_known`].
    pub safety_lost: bool,
    /// A quorum certified a different block than ours. The node halted because of it and must not continue.
    pub divergence: Option<Certificate>,
    /// Reason why the checkpoint was rebuilt from the log, if it was.
    pub rebuilt: Option<String>,
    /// Number of bytes cut as torn tails from both logs.
    pub cut_bytes: u64,
}

/// Block 0 in the form of the other blocks. It is made from the genesis and not stored.
pub fn genesis_block(genesis: &Genesis) -> CommittedBlock {
    let changes = genesis_changes(genesis);
    let root = Tree::default().apply(&changes);
    let committee_hash = genesis.committee_hash();
    let resume = Resume::default();
    let ordering = OrderingRecord {
        protocol_version: genesis.protocol_version,
        engine: genesis.engine.name.clone(),
        epoch: Epoch(0),
        committee_hash,
        next_committee_hash: committee_hash,
        first_commit: CommitIndex(0),
        last_commit: CommitIndex(0),
        last_commit_consumed: 0,
        leader: ValidatorIndex(0),
        time: genesis.timestamp_ms,
        randomness: B256::ZERO,
        batches: Vec::new(),
        transactions_hash: Block::transactions_hash(&[]),
        skipped: Vec::new(),
        resume_hash: resume.hash(),
    };
    let block = Block { header: genesis.header(root), ordering, ordered: Vec::new() };
    CommittedBlock { block, receipts: Vec::new(), changes, resume }
}

/// Parts that [`crate::Store::open`] needs.
pub(crate) struct Opened {
    pub shared: Arc<Shared>,
    pub safety: SafetyLog,
    pub blocks: Log,
    pub recovered: Recovered,
}

pub(crate) fn open(root: &Path, genesis: &Genesis, options: Options) -> Result<Opened, StoreError> {
    let directory = DataDirectory::new(root);
    let identity = Identity { chain_id: genesis.chain_id, genesis_hash: genesis.hash() };
    let lock = directory.claim()?;
    let owner = directory.identity()?;
    if let Some(found) = owner.filter(|owner| *owner != identity) {
        return Err(StoreError::OtherChain { path: root.into(), found, expected: identity });
    }
    let used_before = owner.is_some();
    if used_before && !has_segments(&directory.blocks()) {
        return Err(StoreError::BlocksMissing { path: directory.blocks() });
    }
    directory.create_parts()?;

    let settings = |kind, directory, segment_bytes| Settings {
        kind,
        directory,
        identity,
        segment_bytes,
        sync: options.sync,
        probe: options.probe.clone(),
    };
    let block_settings = settings(LogKind::Blocks, directory.blocks(), options.block_segment_bytes);
    let (mut blocks, blocks_found) = Log::open(block_settings, false)?;
    let plan = RevertPlan::found(&directory)?;
    if let Some(plan) = &plan {
        plan.cut(&mut blocks)?;
    }
    let has_chain = used_before || blocks.reader().records_from(Position::default()).next()?.is_some();
    let safety_settings = settings(LogKind::Safety, directory.safety(), options.safety_segment_bytes);
    let (mut safety, content) = SafetyLog::open(safety_settings, has_chain)?;
    if !used_before {
        directory.write_version(&identity)?;
    }
    if options.check_all {
        check(&blocks.reader())?;
    }

    let chain = Chain { directory: &directory, identity, options: &options, genesis, log: blocks.reader() };
    if plan.is_some() {
        // It is unknown whether the checkpoint was already reverted.
        chain.discard()?;
    }
    let (rebuilt, replayed, kv, history_store) = chain.replay()?;
    RevertPlan::end(&directory, options.sync)?;
    let Replayed { state, tree, window, head, resume, divergence, certificate, safety_end } = replayed;
    let mut records = content.records;
    let is_short = safety.end() < safety_end;
    if is_short {
        tracing::warn!(found = ?safety.end(), expected = ?safety_end, "the safety log lost its end; the rest is not used");
        safety.discard()?;
        records.clear();
    }
    if is_short || content.found.created && has_chain {
        // Otherwise the next start could take new signatures for the end of the lost log.
        blocks.append(head.height().next().0, false, |out| record::write_safety_end(out, safety.end()))?;
        blocks.commit()?;
    }
    if safety.has_records() || safety.is_history_lost() {
        // A copy from elsewhere, or of an earlier time.
        directory.remove_unsigned()?;
    }
    if safety.is_history_lost() {
        tracing::warn!("the safety log was lost: this validator does not vote until it has learned what it signed last");
    }
    let recovered = Recovered {
        state,
        tree,
        head,
        certificate,
        resume,
        safety: records,
        safety_lost: safety.is_history_lost(),
        divergence,
        rebuilt,
        cut_bytes: blocks_found.cut_bytes + content.found.cut_bytes,
    };
    let genesis = Arc::new(StoredBlock::new(Arc::new(genesis_block(genesis))));
    let shared = Shared::new(directory, lock, identity, options, genesis, blocks.reader(), kv, history_store, window);
    Ok(Opened { shared: Arc::new(shared), safety, blocks, recovered })
}

fn has_segments(directory: &Path) -> bool {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|path| path.extension().is_some_and(|extension| extension == "log"))
}

/// Reads every record once.
fn check(log: &LogReader) -> Result<(), StoreError> {
    let mut records = log.records_from(Position::default());
    while records.next()?.is_some() {}
    Ok(())
}

/// Reason why a replay did not reach the head.
enum Failure {
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

struct Chain<'a> {
    directory: &'a DataDirectory,
    identity: Identity,
    options: &'a Options,
    genesis: &'a Genesis,
    log: LogReader,
}

/// State at one height, from which the replay continues.
struct Base {
    changes: Changes,
    tree: Tree,
    head: Arc<StoredBlock>,
    meta: Meta,
    certificate: Option<Arc<Certificate>>,
}

struct Replayed {
    state: State,
    tree: Tree,
    window: Window,
    head: Arc<StoredBlock>,
    resume: Resume,
    divergence: Option<Certificate>,
    certificate: Option<Arc<Certificate>>,
    /// Durable end of the safety log.
    safety_end: Position,
}

impl Chain<'_> {
    fn replay(&self) -> Result<(Option<String>, Replayed, PanicGuard, HistoryStore), StoreError> {
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

    fn discard(&self) -> Result<(), StoreError> {
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
        Ok((self.replay_log(base, &kv, &history_store)?, kv, history_store))
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
            height => self.checkpoint_block(kv, height, &meta)?,
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
        let changes = genesis.changes.clone();
        let mut tree = Tree::default();
        tree.apply(&changes);
        let head = Arc::new(StoredBlock::new(genesis));
        kv.apply(&checkpoint::genesis_batch(self.identity, head.hash, &changes))?;
        let meta = checkpoint::meta(kv)?.ok_or_else(|| Failure::Checkpoint("data just written is missing".into()))?;
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
        for height in (1..=newest.0).rev().take(SPOT_CHECKED_BLOCKS).map(Height) {
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

    /// Replays the log above `base`. Blocks further behind the head than the lag enter the checkpoint.
    fn replay_log(&self, base: Base, kv: &PanicGuard, history_store: &HistoryStore) -> Result<Replayed, Failure> {
        let mut replay = Replay {
            identity: self.identity,
            genesis: self.genesis,
            kv,
            history_store,
            log: &self.log,
            trusted_checkpoint: base.meta.height > Height(0),
            resume: base.head.committed.resume.clone(),
            newest: base.head.clone(),
            base,
            queue: VecDeque::new(),
            queue_bytes: 0,
            certificates: Vec::new(),
            divergence: None,
            safety_end: Position::default(),
        };
        replay.check_rules(&replay.newest)?;
        let lag = usize::try_from(self.options.checkpoint_lag).unwrap_or(usize::MAX);
        let step = usize::try_from(self.options.checkpoint_blocks).unwrap_or(usize::MAX).clamp(1, 1024);
        let mut records = self.log.records_from(replay.base.meta.end);
        while let Some(record) = records.next()? {
            replay.apply_record(record)?;
            if replay.queue.len() >= lag.saturating_add(step) {
                replay.apply_blocks(step)?;
            } else if replay.queue_bytes > self.options.window_bytes {
                replay.apply_blocks(replay.queue.len().div_ceil(2))?;
            }
        }
        replay.finish()
    }
}

/// Replay of the block log from a base to the head.
struct Replay<'a> {
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

impl Replay<'_> {
    fn apply_record(&mut self, record: LogRecord) -> Result<(), Failure> {
        let (at, after) = (record.at, record.after);
        match record::read_block_record(&record.payload).map_err(|problem| record::unreadable(&record, &problem))? {
            BlockRecord::Block(committed) => {
                let block = Arc::new(StoredBlock::new(Arc::new(*committed)));
                self.check_follows(&block)?;
                self.check_rules(&block)?;
                self.advance(&block.committed.resume);
                self.newest = block.clone();
                let recent = Recent { block, at, after };
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

    fn advance(&mut self, resume: &Resume) {
        if resume.index > self.resume.index {
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

    /// Detects a genesis file whose upgrades were changed after blocks had been built under them.
    fn check_rules(&self, block: &StoredBlock) -> Result<(), Failure> {
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
