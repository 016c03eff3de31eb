//! The chain of `corniche dev` while it runs: what it is told beside transactions, and how it goes back to an earlier block.
//!
//! Going back is a restart: the threads end, state, tree and store undo the blocks above (which costs what these blocks cost, however long
//! the chain is), and threads begin on what is left. Nothing else in the node knows of blocks that are taken back. The engine does not go
//! back: it has its records, and resumes where it was. So nothing may be under way when the threads end, or it would deliver that afterwards.

use super::{
    backend::Views,
    chain::{Chain, Site},
    clock,
    journal::Journal,
    open::run_chain,
    shared::Shared,
};
use crate::genesis::dev_accounts;
use anyhow::Context;
use corniche_api::{Reason, RpcError};
use corniche_crypto::EthereumKey;
use corniche_pipeline::dev::{Clock, DevOrder as Order, Dropped, MOST_BLOCKS, Start, Word};
use corniche_rpc::{AccountChange, ChainBlock, ChainEvent, DevChain, DevOrder, DropOrder, Reverted};
use corniche_state::{Changes, StateView};
use corniche_store::{Reader, Recovered};
use corniche_types::{B256, Bytes, Height, TimestampMs, keccak256};
use corniche_vm::Vm;
use futures::future::BoxFuture;
use std::{
    collections::VecDeque,
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
};
use tokio::sync::Mutex;

/// Most snapshots kept; older ones are forgotten.
const MOST_SNAPSHOTS: usize = 10_000;

/// A chain and its threads.
pub struct Running {
    site: Site,
    shared: Arc<Shared>,
    view: Arc<Views>,
    vm: Vm,
    automine: AtomicBool,
    /// Seconds that the clock was set ahead by, all together.
    skipped: AtomicU64,
    /// Names this run of the process, with how often the chain began again.
    started: B256,
    begun: AtomicU64,
    inner: Mutex<Inner>,
}

struct Inner {
    threads: Vec<JoinHandle<()>>,
    /// By name.
    snapshots: VecDeque<Snapshot>,
    next_snapshot: u64,
    interval_ms: u64,
    /// An engine may have to deliver again what it had ordered before the process ended; what was ordered since, comes after that.
    has_caught_up: bool,
}

/// A chain as it was when nothing was under way.
struct Snapshot {
    name: u64,
    height: Height,
    clock: Clock,
    skipped: u64,
    /// What waited for a block.
    pool: Vec<Bytes>,
}

impl Running {
    pub fn new(site: Site, shared: Arc<Shared>, view: Arc<Views>, vm: Vm, threads: Vec<JoinHandle<()>>) -> Self {
        let inner = Inner { threads, snapshots: VecDeque::new(), next_snapshot: 1, interval_ms: 0, has_caught_up: false };
        let (automine, skipped) = (AtomicBool::new(true), AtomicU64::new(0));
        let started = keccak256([u64::from(std::process::id()).to_be_bytes(), clock::now().0.to_be_bytes()].concat());
        let begun = AtomicU64::new(0);
        Self { site, shared, view, vm, automine, skipped, started, begun, inner: Mutex::new(inner) }
    }

    /// Ends the threads.
    pub async fn stop(&self) {
        // Before the lock, which whoever waits for an answer may hold.
        self.shared.dismiss();
        self.end_threads(&mut *self.inner.lock().await);
    }

    fn end_threads(&self, inner: &mut Inner) {
        self.shared.dismiss();
        for thread in inner.threads.drain(..) {
            // A thread that panicked has told why through `halted`.
            let _ = thread.join();
        }
    }

    /// Waits until the pipeline has done it.
    async fn order(&self, order: Order) -> Result<u64, RpcError> {
        self.tell(order).await.map(|_| 0)
    }

    /// The same with the hash of what came of it.
    async fn tell(&self, order: Order) -> Result<B256, RpcError> {
        match self.shared.order(order).await {
            Ok(answer) => answer,
            Err(_) => Err(Reason::NotAccepting.with("the chain went back to an earlier block")),
        }
    }

    /// Waits until nothing is under way: with automine, until everything that can be in a block is in one.
    async fn quiet(&self) -> Result<(Clock, Vec<Bytes>), RpcError> {
        self.order(Order::Quiet).await?;
        let said = self.shared.quiet.lock().ok().and_then(|mut quiet| quiet.take());
        said.ok_or_else(|| RpcError::internal("a quiet chain did not say what time it is"))
    }

    /// 1 when something left the pool.
    async fn drop_waiting(&self, which: Dropped) -> Result<u64, RpcError> {
        let mut gone = self.tell(Order::Drop(which)).await?;
        if gone.is_zero() {
            // What is being ordered comes into a block, or it waits again.
            self.quiet().await?;
            gone = self.tell(Order::Drop(which)).await?;
        }
        Ok(u64::from(!gone.is_zero()))
    }

    async fn snapshot(&self, inner: &mut Inner) -> Result<u64, RpcError> {
        let (clock, pool) = self.quiet().await?;
        let name = inner.next_snapshot;
        inner.next_snapshot += 1;
        if inner.snapshots.len() == MOST_SNAPSHOTS {
            inner.snapshots.pop_front();
        }
        let (height, skipped) = (self.view.now().reader.head().height(), self.skipped.load(Ordering::Relaxed));
        inner.snapshots.push_back(Snapshot { name, height, clock, skipped, pool });
        Ok(name)
    }

    /// 1 when there was such a snapshot. It is used up, and so are later ones.
    async fn revert(&self, inner: &mut Inner, name: u64) -> Result<u64, RpcError> {
        let Ok(place) = inner.snapshots.binary_search_by_key(&name, |snapshot| snapshot.name) else { return Ok(0) };
        let Some(snapshot) = inner.snapshots.drain(place..).next() else { return Ok(0) };
        self.order(Order::Interval { ms: 0 }).await?;
        self.order(Order::Automine(false)).await?;
        if !std::mem::replace(&mut inner.has_caught_up, true) {
            self.order(Order::Set(Vec::new())).await?;
        }
        self.quiet().await?;
        let to = snapshot.height;
        match tokio::task::block_in_place(|| self.go_back(inner, snapshot)) {
            Ok(()) => Ok(1),
            Err(error) => {
                let reason = format!("the chain could not go back to block {to}: {error:#}");
                self.shared.halt(reason.clone());
                Err(RpcError::internal(reason))
            }
        }
    }

    fn go_back(&self, inner: &mut Inner, snapshot: Snapshot) -> anyhow::Result<()> {
        let Snapshot { height: to, clock, skipped, pool, .. } = snapshot;
        self.shared.keep_store.store(true, Ordering::Relaxed);
        self.end_threads(inner);
        self.shared.keep_store.store(false, Ordering::Relaxed);
        let left = self.shared.left.lock().ok().and_then(|mut left| left.take());
        let mut store = left.context("its last store was not left behind")?;
        let (view, reader) = (self.view.now(), store.reader());
        let above = (to.0 + 1..=reader.head().height().0).filter_map(|height| reader.block(Height(height)));
        let removed =
            above.map(|stored| Arc::new(ChainBlock::new(stored.block(), stored.hash, stored.receipts().to_vec()))).collect();
        let resume = self.shared.resume.lock().map(|resume| resume.clone()).unwrap_or_default();
        let then = view.state.at(to).with_context(|| format!("the state of block {to} is not kept"))?;
        let before = before(&reader, to, &then);
        drop(then);
        store.take_back(to, &resume, &before)?;
        anyhow::ensure!(view.state.take_back(to), "its state is not in memory");
        let head = reader.head();
        anyhow::ensure!(view.tree.apply(to, &before) == head.header().state_root, "its state is another one");
        let recovered = Recovered {
            state: view.state.clone(),
            tree: view.tree.take(),
            head,
            certificate: reader.last_certificate(),
            resume,
            safety: store.safety_records()?,
            safety_lost: false,
            divergence: None,
            rebuilt: None,
            cut_bytes: 0,
        };
        self.skipped.store(skipped, Ordering::Relaxed);
        let (automine, interval) = (self.automine.load(Ordering::Relaxed), inner.interval_ms);
        let start = Start { clock: Some(clock), automine, interval };
        let chain = self.site.ready(store, recovered, Some(self.vm.clone()), start)?;
        Journal::remove(&self.site.data)?;
        self.shared.say_base_fee(clock.next.base_fee);
        self.begin(inner, chain, pool, Reverted { to, removed });
        Ok(())
    }

    /// Back to the genesis: in a new data directory, for nothing of the old one is needed.
    async fn reset(&self, inner: &mut Inner) -> Result<u64, RpcError> {
        inner.snapshots.clear();
        tokio::task::block_in_place(|| self.begin_again(inner)).map(|()| 0).map_err(|error| {
            let reason = format!("the chain could not begin again: {error:#}");
            self.shared.halt(reason.clone());
            RpcError::internal(reason)
        })
    }

    fn begin_again(&self, inner: &mut Inner) -> anyhow::Result<()> {
        self.end_threads(inner);
        let reader = self.view.now().reader.clone();
        let blocks = (1..=reader.head().height().0).filter_map(|height| reader.block(Height(height)));
        let removed =
            blocks.map(|stored| Arc::new(ChainBlock::new(stored.block(), stored.hash, stored.receipts().to_vec()))).collect();
        let old = self.site.data.with_extension("old");
        remove(&old)?;
        fs::rename(&self.site.data, &old).with_context(|| format!("cannot rename {}", self.site.data.display()))?;
        let chain = self.site.open(false, Some(self.vm.clone()))?;
        remove(&old)?;
        self.skipped.store(0, Ordering::Relaxed);
        self.automine.store(true, Ordering::Relaxed);
        self.shared.say_base_fee(None);
        self.begun.fetch_add(1, Ordering::Relaxed);
        (inner.interval_ms, inner.has_caught_up) = (0, true);
        self.begin(inner, chain, Vec::new(), Reverted { to: Height(0), removed });
        Ok(())
    }

    /// Starts threads on a chain that went back.
    fn begin(&self, inner: &mut Inner, chain: Chain, pool: Vec<Bytes>, reverted: Reverted) {
        self.shared.start_over();
        self.shared.starts_at(chain.height, chain.certified, chain.base_fee, chain.resume.clone());
        self.view.replace(chain.view(self.site.is_validator()));
        inner.threads = run_chain(&self.site, chain, &self.shared, None, pool);
        let _ = self.shared.events.send(ChainEvent::Reverted(Arc::new(reverted)));
    }

    async fn obey(&self, order: DevOrder) -> Result<u64, RpcError> {
        // One after the other: what is waited for must not be taken back meanwhile.
        let mut inner = self.inner.lock().await;
        match order {
            DevOrder::Mine { blocks, .. } if blocks > MOST_BLOCKS => {
                Err(Reason::NotObeyed.with(format!("at most {MOST_BLOCKS} blocks at once, not {blocks}")))
            }
            DevOrder::Mine { blocks, apart_seconds } => self.order(Order::Mine { blocks, apart: apart_seconds }).await,
            DevOrder::Set(changes) => self.order(Order::Set(changes.into_iter().map(word).collect())).await,
            DevOrder::Skip { seconds } => {
                let ms = i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX);
                self.order(Order::Skip { ms }).await?;
                Ok(self.skipped.fetch_add(seconds, Ordering::Relaxed).saturating_add(seconds))
            }
            DevOrder::Next { timestamp } => {
                self.order(Order::Next { time: TimestampMs(timestamp.saturating_mul(1_000)) }).await?;
                Ok(timestamp)
            }
            DevOrder::BaseFee { wei } => self.order(Order::BaseFee { wei }).await,
            DevOrder::Randomness(said) => self.order(Order::Randomness(said)).await,
            DevOrder::Drop(dropped) => {
                self.drop_waiting(match dropped {
                    DropOrder::One(hash) => Dropped::One(hash),
                    DropOrder::Of(sender) => Dropped::Of(sender),
                    DropOrder::All => Dropped::All,
                })
                .await
            }
            DevOrder::Automine(automine) => {
                self.automine.store(automine, Ordering::Relaxed);
                self.order(Order::Automine(automine)).await
            }
            DevOrder::Interval { ms } => {
                inner.interval_ms = ms;
                self.order(Order::Interval { ms }).await
            }
            DevOrder::Snapshot => self.snapshot(&mut inner).await,
            DevOrder::Revert { id } => self.revert(&mut inner, id).await,
            DevOrder::Reset => self.reset(&mut inner).await,
        }
    }
}

/// A development chain, as its RPC server tells it what to do.
pub struct Told(pub Arc<Running>);

impl DevChain for Told {
    fn keys(&self) -> Vec<EthereumKey> {
        dev_accounts().into_iter().map(|account| account.key).collect()
    }

    fn automine(&self) -> bool {
        self.0.automine.load(Ordering::Relaxed)
    }

    fn instance(&self) -> B256 {
        let begun = self.0.begun.load(Ordering::Relaxed).to_be_bytes();
        keccak256([self.0.started.as_slice(), &begun].concat())
    }

    fn order(&self, order: DevOrder) -> BoxFuture<'static, Result<u64, RpcError>> {
        let running = self.0.clone();
        Box::pin(async move { running.obey(order).await })
    }
}

fn word(change: AccountChange) -> Word {
    match change {
        AccountChange::Balance(address, balance) => Word::SetBalance(address, balance),
        AccountChange::Nonce(address, nonce) => Word::SetNonce(address, nonce),
        AccountChange::Code(address, code) => Word::SetCode(address, code),
        AccountChange::Storage(address, slot, value) => Word::SetStorage(address, slot, value),
    }
}

/// What the keys that were written above `to` held then.
fn before(reader: &Reader, to: Height, then: &dyn StateView) -> Changes {
    let mut before = Changes::default();
    for block in (to.0 + 1..=reader.head().height().0).filter_map(|height| reader.block(Height(height))) {
        let written = &block.committed.changes;
        before.accounts.extend(written.accounts.keys().map(|address| (*address, then.account(address))));
        before.storage.extend(written.storage.keys().map(|(address, slot)| ((*address, *slot), then.storage(address, slot))));
    }
    before
}

fn remove(directory: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", directory.display()))
        }
        _ => Ok(()),
    }
}
