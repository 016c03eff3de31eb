//! Runs the chain of `corniche dev`: development commands, and reverts to earlier blocks.
//!
//! A revert is a restart: the threads end, state, tree and store undo the reverted blocks, and new threads
//! start. The cost depends on the reverted blocks, not on the length of the chain. Nothing else in the node
//! knows of reverts. The engine does not revert: it has its records, and resumes where it was. So no block
//! may be in progress when the threads end, or the engine would deliver it afterwards.

use crate::{
    control_record::ControlRecord,
    extension::{DevExtension, Done},
    mining::{ChainCommand, DevSettings, DropTarget as PooledTarget, MAX_BLOCKS_PER_COMMAND},
    revert::{old_data, remove, remove_old_data, removed_blocks, revert_store, values_before},
    snapshots::{Checkpoint, Snapshot, Snapshots},
};
use anyhow::Context;
use borsh::BorshDeserialize;
use corniche_api::{Reason, RpcError};
use corniche_console::{dev_accounts::dev_accounts, exit};
use corniche_crypto::{EthereumKey, ImpersonationPermit};
use corniche_rpc::{AccountChange, ChainEvent, DevChain, DevCommand, DropTarget, Reverted};
use corniche_service::{PoolView, RunningChain, now};
use corniche_store::{Recovered, Store};
use corniche_types::{Address, B256, Height, TimestampMs, keccak256};
use corniche_vm::THREAD_STACK_BYTES;
use futures::future::BoxFuture;
use std::{
    fmt::Display,
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};
use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};

/// Executes development commands on a chain.
pub struct DevController {
    chain: Arc<RunningChain>,
    automine: AtomicBool,
    /// Total number of seconds by which the clock was set ahead.
    time_offset: AtomicU64,
    /// Id of this process; hashed with the number of resets, it identifies the chain.
    started: B256,
    resets: AtomicU64,
    inner: Arc<Mutex<Inner>>,
    /// For the RPC server, which reads transactions also while the chain is suspended.
    _permit: ImpersonationPermit,
}

struct Inner {
    snapshots: Snapshots,
    interval_ms: u64,
    /// False while the engine may deliver again what it had ordered before the process ended; newer orders
    /// come after that.
    has_caught_up: bool,
    /// True after a failed revert.
    failed: bool,
}

impl DevController {
    pub fn new(chain: Arc<RunningChain>) -> Self {
        let inner = Inner { snapshots: Snapshots::default(), interval_ms: 0, has_caught_up: false, failed: false };
        let (automine, time_offset) = (AtomicBool::new(true), AtomicU64::new(0));
        let started = keccak256([u64::from(std::process::id()).to_be_bytes(), now().0.to_be_bytes()].concat());
        let permit = ImpersonationPermit::new(chain.context().genesis.chain_id);
        let (resets, inner) = (AtomicU64::new(0), Arc::new(Mutex::new(inner)));
        Self { chain, automine, time_offset, started, resets, inner, _permit: permit }
    }

    /// Sends a command to the pipeline and waits until it is done; then reads the pool, before the pipeline continues.
    async fn send_and_read<T: Send + 'static>(
        &self,
        command: ChainCommand,
        read: impl FnOnce(&PoolView) -> T + Send + 'static,
    ) -> Result<(Done, T), RpcError> {
        let (sender, receiver) = oneshot::channel();
        let command = borsh::to_vec(&command).expect("writing into memory cannot fail");
        self.chain.command(command.into(), move |pool, result| {
            // The requester may have gone.
            let _ = sender.send((result, read(pool)));
        });
        let Ok((result, read)) = receiver.await else {
            return Err(Reason::NotAccepting.with("the chain was reverted"));
        };
        let response = result.map_err(|reason| Reason::NotObeyed.with(reason))?;
        let done = Done::try_from_slice(&response).map_err(|error| RpcError::internal(error.to_string()))?;
        Ok((done, read))
    }

    async fn send(&self, command: ChainCommand) -> Result<u64, RpcError> {
        self.send_and_read(command, |_| ()).await.map(|_| 0)
    }

    /// Like `send`; returns the hash in the response, or zero.
    async fn send_for_hash(&self, command: ChainCommand) -> Result<B256, RpcError> {
        match self.send_and_read(command, |_| ()).await? {
            (Done::Hash(hash), ()) => Ok(hash.unwrap_or_default()),
            (Done::Idle { .. }, ()) => Ok(B256::ZERO),
        }
    }

    /// Waits until no block is in progress: with automine, until all executable transactions are in blocks.
    async fn wait_for_idle(&self) -> Result<Checkpoint, RpcError> {
        match self.send_and_read(ChainCommand::WaitForIdle, PoolView::by_arrival).await? {
            (Done::Idle { clock, height }, pool) => Ok(Checkpoint { height, clock, pool }),
            (Done::Hash(_), _) => Err(RpcError::internal("no checkpoint of an idle chain")),
        }
    }

    /// Returns 1 if a transaction left the pool.
    async fn drop_pooled(&self, target: PooledTarget) -> Result<u64, RpcError> {
        let mut dropped_hash = self.send_for_hash(ChainCommand::DropTransactions(target)).await?;
        if dropped_hash.is_zero() {
            // A transaction being ordered gets into a block, or returns to the pool.
            self.wait_for_idle().await?;
            dropped_hash = self.send_for_hash(ChainCommand::DropTransactions(target)).await?;
        }
        Ok(u64::from(!dropped_hash.is_zero()))
    }

    async fn snapshot(&self, inner: &mut Inner) -> Result<u64, RpcError> {
        let checkpoint = self.wait_for_idle().await?;
        Ok(inner.snapshots.add(checkpoint, self.time_offset.load(Ordering::Relaxed)))
    }

    /// Returns 1 if the snapshot existed. It is consumed, with all later ones.
    async fn revert(self: &Arc<Self>, mut inner: OwnedMutexGuard<Inner>, id: u64) -> Result<u64, RpcError> {
        let Some(index) = inner.snapshots.index(id) else { return Ok(0) };
        if let Err(error) = self.pause_blocks(inner.has_caught_up).await {
            // Nothing happened: restore the mining settings. Errors here repeat the first one.
            let _ = self.send(ChainCommand::SetAutomine(self.automine.load(Ordering::Relaxed))).await;
            let _ = self.send(ChainCommand::SetInterval { ms: inner.interval_ms }).await;
            return Err(error);
        }
        inner.has_caught_up = true;
        let Some(snapshot) = inner.snapshots.take(index) else { return Ok(0) };
        let to = snapshot.checkpoint.height;
        let failure = format!("cannot revert the chain to block {to}");
        self.exchange_chain(inner, failure, |controller, inner| controller.revert_to(inner, snapshot)).await.map(|()| 1)
    }

    /// Runs `exchange`, which ends the chain's threads and starts others, on a thread that may block. Halts the node if it
    /// fails.
    async fn exchange_chain(
        self: &Arc<Self>,
        mut inner: OwnedMutexGuard<Inner>,
        failure: String,
        exchange: impl FnOnce(&Self, &mut Inner) -> anyhow::Result<()> + Send + 'static,
    ) -> Result<(), RpcError> {
        let controller = self.clone();
        let (sender, exchanged) = oneshot::channel();
        let body = move || {
            let result = exchange(&controller, &mut inner);
            let result = result.map_err(|error| controller.fail(&mut inner, &format!("{failure}: {error:#}")));
            drop(inner);
            let _ = sender.send(result);
        };
        // Not a thread of the runtime: those may have served reads, and the chain's threads inherit their low priority.
        let thread = thread::Builder::new().name("exchange".into()).stack_size(THREAD_STACK_BYTES).spawn(body);
        thread.map_err(|error| command_failed(&error))?;
        exchanged.await.unwrap_or_else(|error| Err(command_failed(&error)))
    }

    /// Halts the node: the state of its chain is unknown.
    fn fail(&self, inner: &mut Inner, reason: &str) -> RpcError {
        inner.failed = true;
        self.chain.halt(reason.into());
        RpcError::internal(reason)
    }

    /// Waits until no block is in progress, and prevents new ones.
    async fn pause_blocks(&self, has_caught_up: bool) -> Result<(), RpcError> {
        self.send(ChainCommand::SetInterval { ms: 0 }).await?;
        self.send(ChainCommand::SetAutomine(false)).await?;
        if !has_caught_up {
            self.send(ChainCommand::SetAccounts(Vec::new())).await?;
        }
        self.wait_for_idle().await.map(|_| ())
    }

    fn revert_to(&self, inner: &mut Inner, snapshot: Snapshot) -> anyhow::Result<()> {
        let Snapshot { time_offset, checkpoint: Checkpoint { height: to, clock, pool }, .. } = snapshot;
        let (mut store, suspended) = self.chain.suspend()?;
        let removed = removed_blocks(&store.reader(), to);
        let recovered = self.undo_blocks(&mut store, to)?;
        self.time_offset.store(time_offset, Ordering::Relaxed);
        let (automine, interval) = (self.automine.load(Ordering::Relaxed), inner.interval_ms);
        let start = DevSettings { clock: Some(clock), automine, interval };
        let chain = self.chain.context().prepare(
            store,
            recovered,
            Some(self.chain.vm().clone()),
            Some(Box::new(DevExtension::new(self.chain_id(), start))),
        )?;
        suspended.resume(chain, pool, ChainEvent::Reverted(Arc::new(Reverted { to, removed })));
        Ok(())
    }

    /// Undoes the blocks above `to` in state, tree and store.
    fn undo_blocks(&self, store: &mut Store, to: Height) -> anyhow::Result<Recovered> {
        let (readers, reader) = (self.chain.readers(), store.reader());
        let resume = self.chain.resume_point();
        let state = readers.state.at(to).with_context(|| format!("the state of block {to} is not kept"))?;
        let before = values_before(&reader, to, &state);
        drop(state);
        revert_store(store, &self.chain.context().data, to, &resume, &before)?;
        anyhow::ensure!(readers.state.revert(to), "its state is not in memory");
        let head = reader.head();
        anyhow::ensure!(readers.tree.apply(to, &before) == head.header().state_root, "the state root differs");
        Ok(Recovered {
            base: None,
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
        })
    }

    /// Resets to the genesis, in a new data directory: nothing of the old one is needed.
    async fn reset(self: &Arc<Self>, mut inner: OwnedMutexGuard<Inner>) -> Result<u64, RpcError> {
        inner.snapshots.clear();
        self.exchange_chain(inner, "the chain could not begin again".into(), Self::reopen_at_genesis).await.map(|()| 0)
    }

    fn reopen_at_genesis(&self, inner: &mut Inner) -> anyhow::Result<()> {
        let (store, suspended) = self.chain.suspend()?;
        let removed = removed_blocks(&store.reader(), Height(0));
        drop(store);
        let context = self.chain.context();
        let old = old_data(&context.data);
        remove(&old)?;
        fs::rename(&context.data, &old).with_context(|| format!("cannot rename {}", context.data.display()))?;
        let extension = DevExtension::new(self.chain_id(), DevSettings::default());
        let chain = context.open(false, Some(self.chain.vm().clone()), Some(Box::new(extension)))?;
        remove_old_data(&context.data);
        self.time_offset.store(0, Ordering::Relaxed);
        self.automine.store(true, Ordering::Relaxed);
        self.resets.fetch_add(1, Ordering::Relaxed);
        (inner.interval_ms, inner.has_caught_up) = (0, true);
        suspended.resume(chain, Vec::new(), ChainEvent::Reverted(Arc::new(Reverted { to: Height(0), removed })));
        Ok(())
    }

    fn chain_id(&self) -> u64 {
        self.chain.context().genesis.chain_id
    }

    async fn apply(self: Arc<Self>, command: DevCommand) -> Result<u64, RpcError> {
        // One at a time: a revert must not undo blocks for which another command waits.
        let mut inner = self.inner.clone().lock_owned().await;
        if inner.failed || self.chain.is_stopped() {
            return Err(Reason::NotAccepting.with("the node is stopping"));
        }
        match command {
            DevCommand::Mine { blocks, .. } if blocks > MAX_BLOCKS_PER_COMMAND => {
                Err(Reason::NotObeyed.with(format!("at most {MAX_BLOCKS_PER_COMMAND} blocks at once, got {blocks}")))
            }
            DevCommand::Mine { blocks, interval_seconds } => self.send(ChainCommand::Mine { blocks, interval_seconds }).await,
            DevCommand::SetAccounts(changes) => {
                self.send(ChainCommand::SetAccounts(changes.into_iter().map(control_record).collect())).await
            }
            DevCommand::IncreaseTime { seconds } => {
                let ms = i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX);
                self.send(ChainCommand::IncreaseTime { ms }).await?;
                Ok(self.time_offset.fetch_add(seconds, Ordering::Relaxed).saturating_add(seconds))
            }
            DevCommand::SetNextTimestamp { timestamp } => {
                self.send(ChainCommand::SetNextTimestamp { time: TimestampMs(timestamp.saturating_mul(1_000)) }).await?;
                Ok(timestamp)
            }
            DevCommand::SetNextBaseFee { wei } => self.send(ChainCommand::SetNextBaseFee { wei }).await,
            DevCommand::SetNextRandomness(randomness) => self.send(ChainCommand::SetNextRandomness(randomness)).await,
            DevCommand::DropTransactions(target) => {
                self.drop_pooled(match target {
                    DropTarget::Transaction(hash) => PooledTarget::Transaction(hash),
                    DropTarget::Sender(sender) => PooledTarget::Sender(sender),
                    DropTarget::All => PooledTarget::All,
                })
                .await
            }
            DevCommand::SetAutomine(automine) => {
                let done = self.send(ChainCommand::SetAutomine(automine)).await?;
                self.automine.store(automine, Ordering::Relaxed);
                Ok(done)
            }
            DevCommand::SetInterval { ms } => {
                let done = self.send(ChainCommand::SetInterval { ms }).await?;
                inner.interval_ms = ms;
                Ok(done)
            }
            DevCommand::Snapshot => self.snapshot(&mut inner).await,
            DevCommand::Revert { id } => self.revert(inner, id).await,
            DevCommand::Reset => self.reset(inner).await,
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
            task.await.unwrap_or_else(|error| Err(command_failed(&error)))
        })
    }
}

fn command_failed(error: &impl Display) -> RpcError {
    RpcError::internal(format!("the command failed: {error}"))
}

fn control_record(change: AccountChange) -> ControlRecord {
    match change {
        AccountChange::Balance(address, balance) => ControlRecord::SetBalance(address, balance),
        AccountChange::Nonce(address, nonce) => ControlRecord::SetNonce(address, nonce),
        AccountChange::Code(address, code) => ControlRecord::SetCode(address, code),
        AccountChange::Storage(address, slot, value) => ControlRecord::SetStorage(address, slot, value),
    }
}
