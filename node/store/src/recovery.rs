//! Opening: from a data directory to a state at the head.
//!
//! ```text
//!  claim ─▶ safety log ─▶ block log ─▶ checkpoint ─▶ replay above it ─▶ state, tree, window
//!                                          └─ on any error: discard it, replay from genesis, or from the base
//! ```
//!
//! A log that does not begin with block 1 needs a *base*: a snapshot at or above the block before its first one.

mod chain;
mod replay;

use crate::block::StoredBlock;
use crate::directory::{DataDirectory, Identity, Lock};
use crate::log::{Log, LogReader, Position, Settings};
use crate::record;
use crate::revert::RevertPlan;
use crate::safety::{SafetyContent, SafetyLog};
use crate::segment::LogKind;
use crate::shared::Shared;
use crate::snapshots::{self, StoredSnapshot};
use crate::{Options, StoreError};
use chain::Chain;
use corniche_engine::Ticket;
use corniche_staking::genesis_changes;
use corniche_state::{CommittedBlock, State, Tree};
use corniche_types::{
    B256, Block, Bytes, Certificate, CommitIndex, Epoch, Genesis, Height, OrderingRecord, Resume, ValidatorIndex,
};
use replay::Replayed;
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// Recovered state of a data directory.
#[derive(Debug)]
pub struct Recovered {
    /// Where the chain begins here, if it is not the genesis: the snapshot from which the state can be built again.
    pub base: Option<Arc<StoredSnapshot>>,
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
        next: None,
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
    let identity = Identity::of(genesis);
    let (lock, used_before) = claim(&directory, identity)?;
    let settings = |kind, directory, segment_bytes| Settings {
        kind,
        directory,
        identity,
        segment_bytes,
        sync: options.sync,
        probe: options.probe.clone(),
    };
    let block_settings = settings(LogKind::Blocks, directory.blocks(), options.block_segment_bytes);
    let first = first_block(&directory, identity, used_before)?;
    let (mut blocks, blocks_found) = Log::open(block_settings, first.0, false)?;
    let base = find_base(&directory, identity, &blocks.reader())?;
    let plan = RevertPlan::found(&directory)?;
    if let Some(plan) = &plan {
        plan.cut(&mut blocks)?;
    }
    // A directory that was filled from a snapshot has lost what it signed before, unless its keys have signed nothing.
    let is_refilled = base.is_some() && !directory.unsigned().exists();
    let has_chain = used_before || is_refilled || blocks.reader().records_from(Position::default()).next()?.is_some();
    let safety_settings = settings(LogKind::Safety, directory.safety(), options.safety_segment_bytes);
    let (mut safety, mut content) = SafetyLog::open(safety_settings, has_chain)?;
    if !used_before {
        directory.write_version(&identity)?;
    }
    if options.check_all {
        check(&blocks.reader())?;
    }

    let chain =
        Chain { directory: &directory, identity, options: &options, genesis, log: blocks.reader(), base: base.as_ref() };
    if plan.is_some() {
        // It is unknown whether the checkpoint was already reverted.
        chain.discard()?;
    }
    let (rebuilt, replayed, kv, history_store) = chain.replay()?;
    RevertPlan::end(&directory, options.sync)?;
    settle_safety_end(&directory, &mut blocks, &mut safety, &mut content, &replayed, has_chain)?;
    let Replayed { state, tree, window, head, resume, divergence, certificate, .. } = replayed;
    let recovered = Recovered {
        base: base.clone(),
        state,
        tree,
        head,
        certificate,
        resume,
        safety: content.records,
        safety_lost: safety.is_history_lost(),
        divergence,
        rebuilt,
        cut_bytes: blocks_found.cut_bytes + content.found.cut_bytes,
    };
    let genesis = Arc::new(StoredBlock::new(Arc::new(genesis_block(genesis))));
    let shared = Shared::new(directory, lock, identity, options, genesis, blocks.reader(), kv, history_store, window, base);
    Ok(Opened { shared: Arc::new(shared), safety, blocks, recovered })
}

/// First block of a log, if the log is created now: 1, or the one above the newest snapshot.
fn first_block(directory: &DataDirectory, identity: Identity, used_before: bool) -> Result<Height, StoreError> {
    if used_before {
        return Ok(Height(0));
    }
    Ok(snapshots::list(directory, identity)?.first().map_or(Height(0), |newest| newest.height().next()))
}

/// Newest snapshot, if the log does not begin with block 1.
fn find_base(
    directory: &DataDirectory,
    identity: Identity,
    log: &LogReader,
) -> Result<Option<Arc<StoredSnapshot>>, StoreError> {
    let first = log.first_height();
    if first <= 1 {
        return Ok(None);
    }
    let newest = snapshots::list(directory, identity)?.into_iter().next().filter(|newest| newest.height().next().0 >= first);
    let newest = newest.ok_or_else(|| StoreError::NoBase { path: directory.blocks(), first: Height(first) })?;
    Ok(Some(Arc::new(newest)))
}

/// Locks the directory and creates its parts. Returns true if it already belonged to this chain.
fn claim(directory: &DataDirectory, identity: Identity) -> Result<(Lock, bool), StoreError> {
    let lock = directory.claim()?;
    let owner = directory.identity()?;
    if let Some(found) = owner.filter(|owner| *owner != identity) {
        return Err(StoreError::OtherChain { path: directory.root().into(), found, expected: identity });
    }
    let used_before = owner.is_some();
    if used_before && !has_segments(&directory.blocks()) {
        return Err(StoreError::BlocksMissing { path: directory.blocks() });
    }
    directory.create_parts()?;
    Ok((lock, used_before))
}

/// Compares the safety log with its end in the block log: discards a log that lost its end, and records the new
/// end.
fn settle_safety_end(
    directory: &DataDirectory,
    blocks: &mut Log,
    safety: &mut SafetyLog,
    content: &mut SafetyContent,
    replayed: &Replayed,
    has_chain: bool,
) -> Result<(), StoreError> {
    let expected = replayed.safety_end;
    let is_short = safety.end() < expected;
    if is_short {
        tracing::warn!(found = ?safety.end(), ?expected, "the safety log lost its end; the rest is not used");
        safety.discard()?;
        content.records.clear();
    }
    if is_short || content.found.created && has_chain {
        // Otherwise the next start could take new signatures for the end of the lost log.
        blocks.append(replayed.head.height().next().0, false, |out| record::write_safety_end(out, safety.end()))?;
        blocks.commit()?;
    }
    if safety.has_records() || safety.is_history_lost() {
        // A copy from elsewhere, or of an earlier time.
        directory.remove_unsigned()?;
    }
    if safety.is_history_lost() {
        tracing::warn!("the safety log was lost: this validator does not vote until it has learned what it signed last");
    }
    Ok(())
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
