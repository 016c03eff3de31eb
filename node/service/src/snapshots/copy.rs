//! Snapshots as directories outside of a data directory, and snapshots of a node that does not run.

use super::maker;
use crate::{
    NodeConfig, Sync, VerifiedGenesis,
    chain::{NodeContext, Validator},
    clock, epoch_log,
    epoch_log::EpochLog,
};
use anyhow::{Context, ensure};
use corniche_crypto::{CommitteeKeys, Committees};
use corniche_store::{
    DataDirectory, Identity, Store,
    snapshots::{self, SnapshotDraft, StoredSnapshot},
};
use corniche_sync::verify_tail;
use corniche_types::{Epoch, EpochChange, Genesis, Height, wire};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// File with all epoch changes up to the snapshot.
const CHANGES: &str = "changes";

/// An exported snapshot that was checked.
pub struct SnapshotCopy {
    genesis: Arc<Genesis>,
    snapshot: StoredSnapshot,
    changes: Vec<EpochChange>,
}

/// Snapshots of a data directory, newest first. The node may run.
///
/// # Errors
///
/// The directory cannot be read.
pub fn list_snapshots(genesis: &Genesis, data: &Path) -> anyhow::Result<Vec<StoredSnapshot>> {
    Ok(snapshots::list(&DataDirectory::new(data), Identity::of(genesis))?)
}

/// Makes a snapshot of the newest certified state of a node that does not run. Returns its directory.
///
/// # Errors
///
/// The node runs, its data cannot be read, or the newest certified state is not in memory after a start.
pub fn make_snapshot(
    config: NodeConfig,
    genesis: VerifiedGenesis,
    validator: Option<Validator>,
    data: &Path,
) -> anyhow::Result<PathBuf> {
    let context = NodeContext::new(config, genesis, validator, data.into())?;
    let genesis = context.genesis.clone();
    let (store, recovered) = Store::open(data, &genesis, context.options())?;
    let certificate = recovered.certificate.context("the node has no certified block yet; run it for a moment")?;
    let height = certificate.height.min(recovered.head.height());
    let state = recovered.state.at(height).with_context(|| format!("the state of block {height} is not in memory"))?;
    let epoch_log = EpochLog::new(data, store.reader(), genesis.clone());
    let tail = maker::tail(&store.reader(), &epoch_log, height).context("the newest certified block is incomplete")?;
    let directory = DataDirectory::new(data);
    let made = snapshots::make(&directory, Identity::of(&genesis), &state, &tail, &mut |_| true)?;
    Ok(made.context("invariant: nothing gives up")?.path().into())
}

impl SnapshotCopy {
    /// Copies a snapshot out of a data directory, the newest one by default, and checks the copy.
    ///
    /// # Errors
    ///
    /// There is no such snapshot, it is damaged, or `out` exists.
    pub fn export(genesis: &Genesis, data: &Path, height: Option<u64>, out: &Path) -> anyhow::Result<Self> {
        ensure!(!out.exists(), "{} exists already, and is never overwritten", out.display());
        let directory = DataDirectory::new(data);
        let mut all = snapshots::list(&directory, Identity::of(genesis))?.into_iter();
        let snapshot = all.find(|snapshot| height.is_none_or(|height| snapshot.height().0 == height));
        let snapshot = snapshot.context("there is no such snapshot; `corniche snapshot list` shows those that are there")?;
        let epoch = snapshot.tail().ordering.epoch;
        let change = |epoch: u64| {
            let bytes = directory.read_epoch_change(Epoch(epoch));
            let change = bytes.and_then(|bytes| wire::decode::<EpochChange>(&bytes).ok());
            change.with_context(|| format!("the end of epoch {epoch} is not in epochs/; a node that runs writes it there"))
        };
        // A node that begins with the last block of an epoch needs the end of that one, too.
        let ended = if snapshot.tail().ordering.next.is_some() { epoch.0 + 1 } else { epoch.0 };
        let changes: Vec<EpochChange> = (0..ended).map(change).collect::<anyhow::Result<_>>()?;
        copy(&snapshot, &SnapshotDraft::open(out.into())?)?;
        let path = out.join(CHANGES);
        fs::write(&path, wire::encode(&changes)).with_context(|| format!("cannot write {}", path.display()))?;
        Self::open(genesis, out)
    }

    /// Opens an exported snapshot and checks everything: committees from the genesis on, the block, chunks and codes.
    ///
    /// # Errors
    ///
    /// It is damaged, or of another chain.
    pub fn open(genesis: &Genesis, from: &Path) -> anyhow::Result<Self> {
        let snapshot = StoredSnapshot::open(from, Identity::of(genesis))?;
        let path = from.join(CHANGES);
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let changes: Vec<EpochChange> = wire::decode(&bytes).with_context(|| format!("cannot use {}", path.display()))?;
        let mut committees = Committees::new(CommitteeKeys::from_genesis(genesis)?);
        for change in &changes {
            committees.advance(change).with_context(|| format!("cannot use {}", path.display()))?;
        }
        let header_hash = snapshot.manifest().header_hash;
        verify_tail(snapshot.tail(), &committees, snapshot.height(), header_hash)?;
        snapshot.verify()?;
        Ok(Self { genesis: Arc::new(genesis.clone()), snapshot, changes })
    }

    pub fn height(&self) -> Height {
        self.snapshot.height()
    }

    /// Copies it into an empty data directory, if a node with these settings could fetch it now.
    ///
    /// # Errors
    ///
    /// It contradicts the trust point, that or the genesis is too old, the directory has a chain, or the disk fails.
    pub fn import(&self, data: &Path, sync: &Sync) -> anyhow::Result<()> {
        let now = clock::now();
        sync.check(&self.genesis, now)?;
        sync.check_changes(&self.genesis, &self.changes, now)?;
        let directory = DataDirectory::new(data);
        let _lock = directory.claim()?;
        ensure!(directory.is_empty(), "{} has a chain already; expected an empty directory", data.display());
        let mut members = epoch_log::first_members(&self.genesis);
        for change in &self.changes {
            epoch_log::import(&directory, change, &mut members)?;
        }
        let draft = SnapshotDraft::open(directory.sync())?;
        draft.restart(&[])?;
        copy(&self.snapshot, &draft)?;
        draft.finish(&directory, self.snapshot.height())?;
        Ok(())
    }
}

fn copy(snapshot: &StoredSnapshot, draft: &SnapshotDraft) -> anyhow::Result<()> {
    for index in 0..snapshot.manifest().chunks.len() {
        let chunk = snapshot.chunk(index)?.context("invariant: the manifest has this chunk")?;
        draft.write_chunk(index, &chunk)?;
    }
    for code in &snapshot.manifest().codes {
        let bytes = snapshot.code(&code.hash)?.context("invariant: the manifest has this code")?;
        draft.write_code(&code.hash, &bytes)?;
    }
    draft.write_tail(snapshot.tail())?;
    draft.write_manifest(snapshot.manifest_bytes())?;
    Ok(())
}
