//! Runs the chain of `corniche dev`: development commands, and reverts to earlier blocks.
//!
//! A revert is a restart: the threads end, state, tree and store undo the reverted blocks, and new threads
//! start. The cost depends on the reverted blocks, not on the length of the chain. Nothing else in the node
//! knows of reverts. The engine does not revert: it has its records, and resumes where it was. So no block
//! may be in progress when the threads end, or the engine would deliver it afterwards.

use crate::{
    backend::ReaderHandle,
    chain::{Chain, NodeContext},
    clock,
    journal::Journal,
    node::run_chain,
    shared::{DevCheckpoint, Shared},
};
use anyhow::Context;
use corniche_api::{Reason, RpcError};
use corniche_console::{dev_accounts::dev_accounts, exit};
use corniche_crypto::EthereumKey;
use corniche_pipeline::dev::{
    ControlRecord, DevCommand as PipelineCommand, DevSettings, DropTarget as PipelineDropTarget, MAX_BLOCKS_PER_COMMAND,
};
use corniche_rpc::{AccountChange, ChainBlock, ChainEvent, DevChain, DevCommand, DropTarget, Reverted};
use corniche_state::{Changes, StateView};
use corniche_store::{Reader, Recovered, Store};
use corniche_types::{Address, B256, Bytes, Height, Resume, TimestampMs, keccak256};
use corniche_vm::Vm;
use futures::future::BoxFuture;
use std::{
    collections::VecDeque,
    fmt::Display,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
};
use tokio::sync::Mutex;

/// Maximum number of snapshots; the oldest are dropped.
const MAX_SNAPSHOTS: usize = 10_000;

/// Maximum bytes of pooled transactions in all snapshots; the newest snapshot is always complete.
const MAX_POOLED_BYTES: usize = 64 << 20;

/// Chain and its threads.
pub struct DevController {
    context: NodeContext,
    shared: Arc<Shared>,
    readers: Arc<ReaderHandle>,
    vm: Vm,
    automine: AtomicBool,
    /// Total number of seconds by which the clock was set ahead.
    time_offset: AtomicU64,
    /// Id of this process; hashed with the number of resets, it identifies the chain.
    started: B256,
    resets: AtomicU64,
    inner: Mutex<Inner>,
}

struct Inner {
    threads: Vec<JoinHandle<()>>,
    snapshots: Snapshots,
    interval_ms: u64,
    /// False while the engine may deliver again what it had ordered before the process ended; newer orders
    /// come after that.
    has_caught_up: bool,
    /// True once the threads have ended permanently.
    stopped: bool,
}

/// State of a chain at a snapshot.
struct Snapshot {
    id: u64,
    time_offset: u64,
    checkpoint: DevCheckpoint,
}

impl Snapshot {
    fn bytes(&self) -> usize {
        self.checkpoint.pool.iter().map(|raw| raw.len() + size_of::<Bytes>()).sum()
    }
}

#[derive(Default)]
struct Snapshots {
    /// Sorted by name.
    entries: VecDeque<Snapshot>,
    bytes: usize,
    newest: u64,
}

impl Snapshots {
    /// Adds a snapshot and returns its name; drops old ones beyond the limits.
    fn add(&mut self, checkpoint: DevCheckpoint, time_offset: u64) -> u64 {
        self.newest += 1;
        let snapshot = Snapshot { id: self.newest, time_offset, checkpoint };
        self.bytes += snapshot.bytes();
        self.entries.push_back(snapshot);
        while self.entries.len() > MAX_SNAPSHOTS || (self.bytes > MAX_POOLED_BYTES && self.entries.len() > 1) {
            let oldest = self.entries.pop_front();
            self.bytes -= oldest.map_or(0, |oldest| oldest.bytes());
        }
        self.newest
    }

    fn index(&self, id: u64) -> Option<usize> {
        self.entries.binary_search_by_key(&id, |snapshot| snapshot.id).ok()
    }

    /// Removes the snapshot at an index and all later ones; returns the first.
    fn take(&mut self, index: usize) -> Option<Snapshot> {
        self.bytes -= self.entries.range(index..).map(Snapshot::bytes).sum::<usize>();
        self.entries.drain(index..).next()
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }
}

impl DevController {
    pub fn new(
        context: NodeContext,
        shared: Arc<Shared>,
        readers: Arc<ReaderHandle>,
        vm: Vm,
        threads: Vec<JoinHandle<()>>,
    ) -> Self {
        let inner = Inner { threads, snapshots: Snapshots::default(), interval_ms: 0, has_caught_up: false, stopped: false };
        let (automine, time_offset) = (AtomicBool::new(true), AtomicU64::new(0));
        let started = keccak256([u64::from(std::process::id()).to_be_bytes(), clock::now().0.to_be_bytes()].concat());
        let resets = AtomicU64::new(0);
        Self { context, shared, readers, vm, automine, time_offset, started, resets, inner: Mutex::new(inner) }
    }

    /// Ends the threads.
    pub async fn stop(&self) {
        // Before taking the lock, which may be held by a command that waits for the threads.
        self.shared.shut_down();
        let mut inner = self.inner.lock().await;
        inner.stopped = true;
        self.end_threads(&mut inner);
    }

    fn end_threads(&self, inner: &mut Inner) {
        self.shared.shut_down();
        for thread in inner.threads.drain(..) {
            // A thread that panicked has reported it through `halted`.
            let _ = thread.join();
        }
    }

    /// Sends a command to the pipeline and waits until it is done.
    async fn send(&self, command: PipelineCommand) -> Result<u64, RpcError> {
        self.send_for_hash(command).await.map(|_| 0)
    }

    /// Like `order`; returns the hash in the response.
    async fn send_for_hash(&self, command: PipelineCommand) -> Result<B256, RpcError> {
        match self.shared.dev_command(command).await {
            Ok(answer) => answer,
            Err(_) => Err(Reason::NotAccepting.with("the chain was reverted")),
        }
    }

    /// Waits until no block is in progress: with automine, until all executable transactions are in blocks.
    async fn wait_for_idle(&self) -> Result<DevCheckpoint, RpcError> {
        self.send(PipelineCommand::WaitForIdle).await?;
        let checkpoint = self.shared.dev_checkpoint.lock().ok().and_then(|mut checkpoint| checkpoint.take());
        checkpoint.ok_or_else(|| RpcError::internal("no checkpoint of a settled chain"))
    }

    /// Returns 1 if a transaction left the pool.
    async fn drop_pooled(&self, target: PipelineDropTarget) -> Result<u64, RpcError> {
        let mut dropped_hash = self.send_for_hash(PipelineCommand::DropTransactions(target)).await?;
        if dropped_hash.is_zero() {
            // A transaction being ordered gets into a block, or returns to the pool.
            self.wait_for_idle().await?;
            dropped_hash = self.send_for_hash(PipelineCommand::DropTransactions(target)).await?;
        }
        Ok(u64::from(!dropped_hash.is_zero()))
    }

    async fn snapshot(&self, inner: &mut Inner) -> Result<u64, RpcError> {
        let checkpoint = self.wait_for_idle().await?;
        Ok(inner.snapshots.add(checkpoint, self.time_offset.load(Ordering::Relaxed)))
    }

    /// Returns 1 if the snapshot existed. It is consumed, with all later ones.
    async fn revert(&self, inner: &mut Inner, id: u64) -> Result<u64, RpcError> {
        let Some(index) = inner.snapshots.index(id) else { return Ok(0) };
        if let Err(error) = self.pause_blocks(inner.has_caught_up).await {
            // Nothing happened: restore the mining settings. Errors here repeat the first one.
            let _ = self.send(PipelineCommand::SetAutomine(self.automine.load(Ordering::Relaxed))).await;
            let _ = self.send(PipelineCommand::SetInterval { ms: inner.interval_ms }).await;
            return Err(error);
        }
        inner.has_caught_up = true;
        let Some(snapshot) = inner.snapshots.take(index) else { return Ok(0) };
        let to = snapshot.checkpoint.height;
        let reverted = tokio::task::block_in_place(|| self.revert_to(inner, snapshot));
        reverted.map(|()| 1).map_err(|error| self.fail(inner, &format!("cannot revert the chain to block {to}: {error:#}")))
    }

    /// Stops the node: the state of its chain is unknown.
    fn fail(&self, inner: &mut Inner, reason: &str) -> RpcError {
        inner.stopped = true;
        self.shared.halt(reason.into());
        self.shared.end_revert();
        RpcError::internal(reason)
    }

    /// Waits until no block is in progress, and prevents new ones.
    async fn pause_blocks(&self, has_caught_up: bool) -> Result<(), RpcError> {
        self.send(PipelineCommand::SetInterval { ms: 0 }).await?;
        self.send(PipelineCommand::SetAutomine(false)).await?;
        if !has_caught_up {
            self.send(PipelineCommand::SetAccounts(Vec::new())).await?;
        }
        self.wait_for_idle().await.map(|_| ())
    }

    fn revert_to(&self, inner: &mut Inner, snapshot: Snapshot) -> anyhow::Result<()> {
        let Snapshot { time_offset, checkpoint: DevCheckpoint { height: to, clock, pool }, .. } = snapshot;
        self.shared.begin_revert();
        self.shared.return_store.store(true, Ordering::Relaxed);
        self.end_threads(inner);
        self.shared.return_store.store(false, Ordering::Relaxed);
        let returned = self.shared.returned_store.lock().ok().and_then(|mut store| store.take());
        let mut store = returned.context("the store is still in use")?;
        let (readers, reader) = (self.readers.current(), store.reader());
        let removed = removed_blocks(&reader, to);
        let resume = self.shared.resume.lock().map(|resume| resume.clone()).unwrap_or_default();
        let state = readers.state.at(to).with_context(|| format!("the state of block {to} is not kept"))?;
        let before = values_before(&reader, to, &state);
        drop(state);
        revert_store(&mut store, &self.context.data, to, &resume, &before)?;
        anyhow::ensure!(readers.state.revert(to), "its state is not in memory");
        let head = reader.head();
        anyhow::ensure!(readers.tree.apply(to, &before) == head.header().state_root, "the state root differs");
        let recovered = Recovered {
            state: readers.state.clone(),
            tree: readers.tree.take(),
            head,
            certificate: reader.last_certificate(),
            resume,
            safety: store.safety_records()?,
            safety_lost: false,
            divergence: None,
            rebuilt: None,
            cut_bytes: 0,
        };
        self.time_offset.store(time_offset, Ordering::Relaxed);
        let (automine, interval) = (self.automine.load(Ordering::Relaxed), inner.interval_ms);
        let start = DevSettings { clock: Some(clock), automine, interval };
        let chain = self.context.prepare(store, recovered, Some(self.vm.clone()), start)?;
        self.shared.set_requested_base_fee(clock.next.base_fee);
        self.start_threads(inner, chain, pool, Reverted { to, removed });
        Ok(())
    }

    /// Resets to the genesis, in a new data directory: nothing of the old one is needed.
    async fn reset(&self, inner: &mut Inner) -> Result<u64, RpcError> {
        inner.snapshots.clear();
        let reopened = tokio::task::block_in_place(|| self.reopen_at_genesis(inner));
        reopened.map(|()| 0).map_err(|error| self.fail(inner, &format!("the chain could not begin again: {error:#}")))
    }

    fn reopen_at_genesis(&self, inner: &mut Inner) -> anyhow::Result<()> {
        self.shared.begin_revert();
        self.end_threads(inner);
        let removed = removed_blocks(&self.readers.current().reader, Height(0));
        let old = old_data(&self.context.data);
        remove(&old)?;
        fs::rename(&self.context.data, &old).with_context(|| format!("cannot rename {}", self.context.data.display()))?;
        let chain = self.context.open(false, Some(self.vm.clone()))?;
        remove_old_data(&self.context.data);
        self.time_offset.store(0, Ordering::Relaxed);
        self.automine.store(true, Ordering::Relaxed);
        self.shared.set_requested_base_fee(None);
        self.resets.fetch_add(1, Ordering::Relaxed);
        (inner.interval_ms, inner.has_caught_up) = (0, true);
        self.start_threads(inner, chain, Vec::new(), Reverted { to: Height(0), removed });
        Ok(())
    }

    /// Starts threads on a chain after a revert.
    fn start_threads(&self, inner: &mut Inner, chain: Chain, pool: Vec<Bytes>, reverted: Reverted) {
        self.shared.reset();
        self.shared.set_start(chain.height, chain.certified, chain.base_fee, chain.resume.clone());
        self.readers.replace(chain.readers(self.context.is_validator()));
        inner.threads = run_chain(&self.context, chain, &self.shared, None, pool);
        let _ = self.shared.events.send(ChainEvent::Reverted(Arc::new(reverted)));
        self.shared.end_revert();
    }

    async fn apply(&self, command: DevCommand) -> Result<u64, RpcError> {
        // One at a time: a revert must not undo blocks for which another command waits.
        let mut inner = self.inner.lock().await;
        if inner.stopped {
            return Err(Reason::NotAccepting.with("the node is stopping"));
        }
        match command {
            DevCommand::Mine { blocks, .. } if blocks > MAX_BLOCKS_PER_COMMAND => {
                Err(Reason::NotObeyed.with(format!("at most {MAX_BLOCKS_PER_COMMAND} blocks at once, got {blocks}")))
            }
            DevCommand::Mine { blocks, interval_seconds } => {
                self.send(PipelineCommand::Mine { blocks, interval_seconds }).await
            }
            DevCommand::SetAccounts(changes) => {
                self.send(PipelineCommand::SetAccounts(changes.into_iter().map(control_record).collect())).await
            }
            DevCommand::IncreaseTime { seconds } => {
                let ms = i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX);
                self.send(PipelineCommand::IncreaseTime { ms }).await?;
                Ok(self.time_offset.fetch_add(seconds, Ordering::Relaxed).saturating_add(seconds))
            }
            DevCommand::SetNextTimestamp { timestamp } => {
                self.send(PipelineCommand::SetNextTimestamp { time: TimestampMs(timestamp.saturating_mul(1_000)) }).await?;
                Ok(timestamp)
            }
            DevCommand::SetNextBaseFee { wei } => self.send(PipelineCommand::SetNextBaseFee { wei }).await,
            DevCommand::SetNextRandomness(randomness) => self.send(PipelineCommand::SetNextRandomness(randomness)).await,
            DevCommand::DropTransactions(target) => {
                self.drop_pooled(match target {
                    DropTarget::Transaction(hash) => PipelineDropTarget::Transaction(hash),
                    DropTarget::Sender(sender) => PipelineDropTarget::Sender(sender),
                    DropTarget::All => PipelineDropTarget::All,
                })
                .await
            }
            DevCommand::SetAutomine(automine) => {
                let done = self.send(PipelineCommand::SetAutomine(automine)).await?;
                self.automine.store(automine, Ordering::Relaxed);
                Ok(done)
            }
            DevCommand::SetInterval { ms } => {
                let done = self.send(PipelineCommand::SetInterval { ms }).await?;
                inner.interval_ms = ms;
                Ok(done)
            }
            DevCommand::Snapshot => self.snapshot(&mut inner).await,
            DevCommand::Revert { id } => self.revert(&mut inner, id).await,
            DevCommand::Reset => self.reset(&mut inner).await,
        }
    }
}

/// Interface of a development chain for its RPC server.
pub struct DevRpc(pub Arc<DevController>);

impl DevChain for DevRpc {
    fn keys(&self) -> Vec<EthereumKey> {
        dev_accounts().into_iter().map(|account| account.key).collect()
    }

    fn automine(&self) -> bool {
        self.0.automine.load(Ordering::Relaxed)
    }

    fn instance(&self) -> B256 {
        let resets = self.0.resets.load(Ordering::Relaxed).to_be_bytes();
        keccak256([self.0.started.as_slice(), &resets].concat())
    }

    fn print_console(&self, run: &dyn Display, lines: &[(Address, &str)]) {
        for (contract, text) in lines {
            let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            exit::note(format_args!("{run} {contract} » {text}"));
        }
    }

    fn execute(&self, command: DevCommand) -> BoxFuture<'static, Result<u64, RpcError>> {
        let controller = self.0.clone();
        // A client may disconnect meanwhile; the command is completed anyway.
        Box::pin(async move {
            let task = tokio::spawn(async move { controller.apply(command).await });
            task.await.unwrap_or_else(|error| Err(RpcError::internal(format!("the command failed: {error}"))))
        })
    }
}

fn control_record(change: AccountChange) -> ControlRecord {
    match change {
        AccountChange::Balance(address, balance) => ControlRecord::SetBalance(address, balance),
        AccountChange::Nonce(address, nonce) => ControlRecord::SetNonce(address, nonce),
        AccountChange::Code(address, code) => ControlRecord::SetCode(address, code),
        AccountChange::Storage(address, slot, value) => ControlRecord::SetStorage(address, slot, value),
    }
}

/// Values at `to` of the keys that were written above it.
fn values_before(reader: &Reader, to: Height, then: &dyn StateView) -> Changes {
    let mut before = Changes::default();
    for block in (to.0 + 1..=reader.head().height().0).filter_map(|height| reader.block(Height(height))) {
        let written = &block.committed.changes;
        before.accounts.extend(written.accounts.keys().map(|address| (*address, then.account(address))));
        before.storage.extend(written.storage.keys().map(|(address, slot)| ((*address, *slot), then.storage(address, slot))));
    }
    before
}

/// Reverted blocks with logs. Subscribers are notified of removed logs, so blocks without logs are not read.
fn removed_blocks(reader: &Reader, to: Height) -> Vec<Arc<ChainBlock>> {
    let above = (to.0 + 1..=reader.head().height().0).map(Height);
    let with_logs = above.filter(|height| reader.header(*height).is_some_and(|header| !header.logs_bloom.is_zero()));
    let block =
        |height| reader.block(height).map(|stored| ChainBlock::new(stored.block(), stored.hash, stored.receipts().to_vec()));
    with_logs.filter_map(block).map(Arc::new).collect()
}

/// Reverts blocks. Deletes the journal of users' transactions first: after a crash in between, transactions
/// of the reverted blocks would be admitted again.
fn revert_store(store: &mut Store, data: &Path, to: Height, resume: &Resume, before: &Changes) -> anyhow::Result<()> {
    Journal::remove(data)?;
    Ok(store.revert_to(to, resume, before)?)
}

/// Location of the old data directory during a reset.
fn old_data(data: &Path) -> PathBuf {
    data.with_extension("old")
}

/// Removes the old data after a reset. It is not needed, so errors are only logged.
pub fn remove_old_data(data: &Path) {
    if let Err(error) = remove(&old_data(data)) {
        tracing::warn!("{error:#}");
    }
}

fn remove(directory: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", directory.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{genesis, transfer};
    use corniche_pipeline::dev::Clock;
    use corniche_store::{
        Options, genesis_block,
        probe::{Probe, Step},
    };
    use std::{io, sync::atomic::AtomicUsize};

    /// Fails every disk operation from this number on.
    struct PowerCut(AtomicUsize);

    impl Probe for PowerCut {
        fn before(&self, _: &Step<'_>) -> io::Result<()> {
            let left = self.0.load(Ordering::Relaxed);
            self.0.store(left.saturating_sub(1), Ordering::Relaxed);
            if left == 0 { Err(io::Error::other("the power failed")) } else { Ok(()) }
        }
    }

    fn open(data: &Path, probe: Option<Arc<PowerCut>>) -> Store {
        let probe = probe.map(|probe| probe as Arc<dyn Probe>);
        Store::open(data, &genesis(), Options { probe, ..Options::default() }).unwrap().0
    }

    /// Eight blocks; every third has logs.
    fn sample(data: &Path) -> Store {
        let mut store = open(data, None);
        let mut block = genesis_block(&genesis());
        block.changes = Changes::default();
        for number in 1..=8 {
            block.block.header.parent_hash = block.block.hash();
            block.block.header.number = number;
            block.block.header.logs_bloom.0.fill(u8::from(number % 3 == 0));
            store.append_block(block.clone()).unwrap();
        }
        store.sync().unwrap();
        store
    }

    #[test]
    fn crash_during_revert_restores_no_transactions() {
        let mut outcomes = [0, 0];
        for step in 0.. {
            let directory = tempfile::tempdir().unwrap();
            let data = directory.path();
            drop(sample(data));
            // Perhaps executed; a journal keeps it for a while.
            Journal::open(data).0.add(&transfer(0, 1));
            let probe = Arc::new(PowerCut(usize::MAX.into()));
            let mut store = open(data, Some(probe.clone()));
            probe.0.store(step, Ordering::Relaxed);
            let reverted = revert_store(&mut store, data, Height(4), &Resume::default(), &Changes::default());
            drop(store);
            let store = open(data, None);
            let is_reverted = store.reader().head().height() == Height(4);
            assert!(!is_reverted || Journal::open(data).1.is_empty(), "{step}");
            outcomes[usize::from(is_reverted)] += 1;
            if reverted.is_ok() {
                assert!(is_reverted);
                break;
            }
        }
        assert!(outcomes[1] > 1, "some crashed after it was decided: {outcomes:?}");
    }

    #[test]
    fn only_reverted_blocks_with_logs_are_reported() {
        let directory = tempfile::tempdir().unwrap();
        let reader = sample(directory.path()).reader();
        let heights = |to| removed_blocks(&reader, Height(to)).iter().map(|block| block.height().0).collect::<Vec<_>>();
        assert_eq!([heights(0), heights(3), heights(8)], [vec![3, 6], vec![6], vec![]]);
    }

    #[test]
    fn snapshots_are_bounded() {
        let long = Bytes::from(vec![0; MAX_POOLED_BYTES / 3]);
        let checkpoint = |pooled: usize| DevCheckpoint {
            height: Height(1),
            clock: Clock { time: TimestampMs(1), next: Default::default() },
            pool: vec![long.clone(); pooled],
        };
        let mut snapshots = Snapshots::default();
        let ids = |snapshots: &Snapshots| snapshots.entries.iter().map(|snapshot| snapshot.id).collect::<Vec<_>>();
        for pooled in [1, 0, 1, 1] {
            snapshots.add(checkpoint(pooled), 0);
        }
        assert_eq!(ids(&snapshots), [2, 3, 4], "the oldest made room");
        assert_eq!((snapshots.index(1), snapshots.take(1).unwrap().id), (None, 3));
        assert_eq!(ids(&snapshots), [2]);
        snapshots.add(checkpoint(2), 0);
        assert_eq!(ids(&snapshots), [2, 5], "what was used up is not counted any more");
        snapshots.add(checkpoint(9), 0);
        assert_eq!(ids(&snapshots), [6], "the newest stays in any case");
        snapshots.clear();
        assert_eq!(snapshots.add(checkpoint(2), 0), 7, "a name is given once");
        (0..MAX_SNAPSHOTS).for_each(|_| _ = snapshots.add(checkpoint(0), 0));
        assert_eq!((snapshots.entries.len(), snapshots.bytes), (MAX_SNAPSHOTS, 0));
    }
}
