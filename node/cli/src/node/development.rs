//! The chain of `corniche dev` while it runs: what it is told beside transactions, and how it goes back to an earlier block.
//!
//! Going back is a restart: the threads end, the blocks up to there are written into a new data directory, and the chain is
//! opened from it like any other. Nothing else in the node knows of blocks that are taken back. The engine does not go back: it
//! has its records, and resumes where it was; what it ordered since the block that is left made no blocks, as far as the new
//! directory tells.

use super::{
    backend::Views,
    chain::{Site, claim},
    open::run_chain,
    shared::Shared,
};
use crate::genesis::dev_accounts;
use anyhow::Context;
use corniche_api::{Reason, RpcError};
use corniche_crypto::EthereumKey;
use corniche_pipeline::dev::{DevOrder as Order, MOST_BLOCKS, Word};
use corniche_rpc::{AccountChange, ChainBlock, ChainEvent, DevChain, DevOrder, Reverted};
use corniche_store::Store;
use corniche_types::{Height, Resume, TimestampMs};
use corniche_vm::Vm;
use futures::future::BoxFuture;
use std::{
    fs,
    path::{Path, PathBuf},
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
    inner: Mutex<Inner>,
}

struct Inner {
    threads: Vec<JoinHandle<()>>,
    /// (name, height), ascending in both.
    snapshots: Vec<(u64, Height)>,
    next_snapshot: u64,
    interval_ms: u64,
}

impl Running {
    pub fn new(site: Site, shared: Arc<Shared>, view: Arc<Views>, vm: Vm, threads: Vec<JoinHandle<()>>) -> Self {
        let inner = Inner { threads, snapshots: Vec::new(), next_snapshot: 1, interval_ms: 0 };
        let (automine, skipped) = (AtomicBool::new(true), AtomicU64::new(0));
        Self { site, shared, view, vm, automine, skipped, inner: Mutex::new(inner) }
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
        match self.shared.order(order).await {
            Ok(answer) => answer.map(|_| 0),
            Err(_) => Err(Reason::NotAccepting.with("the chain went back to an earlier block")),
        }
    }

    fn snapshot(&self, inner: &mut Inner) -> u64 {
        let id = inner.next_snapshot;
        inner.next_snapshot += 1;
        if inner.snapshots.len() == MOST_SNAPSHOTS {
            inner.snapshots.remove(0);
        }
        inner.snapshots.push((id, self.view.now().reader.head().height()));
        id
    }

    /// 1 when there was such a snapshot. It is used up, and so are later ones.
    async fn revert(&self, inner: &mut Inner, id: u64) -> Result<u64, RpcError> {
        let Ok(place) = inner.snapshots.binary_search_by_key(&id, |(id, _)| *id) else { return Ok(0) };
        let (_, to) = inner.snapshots[place];
        // What was proposed becomes blocks that go with the others: an engine that is opened again delivers what it has ordered and not
        // seen executed.
        self.order(Order::Interval { ms: 0 }).await?;
        self.order(Order::Automine(false)).await?;
        self.order(Order::Set(Vec::new())).await?;
        inner.snapshots.truncate(place);
        match tokio::task::block_in_place(|| self.go_back(inner, to)) {
            Ok(()) => Ok(1),
            Err(error) => {
                let reason = format!("the chain could not go back to block {to}: {error:#}");
                self.shared.halt(reason.clone());
                Err(RpcError::internal(reason))
            }
        }
    }

    fn go_back(&self, inner: &mut Inner, to: Height) -> anyhow::Result<()> {
        self.shared.keep_store.store(true, Ordering::Relaxed);
        self.end_threads(inner);
        self.shared.keep_store.store(false, Ordering::Relaxed);
        let left = self.shared.left.lock().ok().and_then(|mut left| left.take());
        let mut left = left.context("its last store was not left behind")?;
        let reader = self.view.now().reader.clone();
        let above = (to.0 + 1..=reader.head().height().0).filter_map(|height| reader.block(Height(height)));
        let removed =
            above.map(|stored| Arc::new(ChainBlock::new(stored.block(), stored.hash, stored.receipts().to_vec()))).collect();
        let resume = self.shared.resume.lock().map(|resume| resume.clone()).unwrap_or_default();
        shorten(&self.site, &mut left, &resume, to)?;
        drop(left);
        let chain = self.site.open(false, Some(self.vm.clone()))?;
        self.shared.start_over();
        self.shared.starts_at(chain.height, chain.certified, chain.base_fee, chain.resume.clone());
        self.view.replace(chain.view(self.site.is_validator()));
        inner.threads = run_chain(&self.site, chain, &self.shared, None);
        // Nobody waits for these answers.
        if !self.automine.load(Ordering::Relaxed) {
            drop(self.shared.order(Order::Automine(false)));
        }
        if inner.interval_ms > 0 {
            drop(self.shared.order(Order::Interval { ms: inner.interval_ms }));
        }
        let _ = self.shared.events.send(ChainEvent::Reverted(Arc::new(Reverted { to, removed })));
        Ok(())
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
            DevOrder::Automine(automine) => {
                self.automine.store(automine, Ordering::Relaxed);
                self.order(Order::Automine(automine)).await
            }
            DevOrder::Interval { ms } => {
                inner.interval_ms = ms;
                self.order(Order::Interval { ms }).await
            }
            DevOrder::Snapshot => Ok(self.snapshot(&mut inner)),
            DevOrder::Revert { id } => self.revert(&mut inner, id).await,
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

/// Puts a data directory in the place of this one that holds the blocks up to `to` only, and what the engine has to find again.
fn shorten(site: &Site, left: &mut Store, resume: &Resume, to: Height) -> anyhow::Result<()> {
    let reader = left.reader();
    let (fresh, old) = (beside(&site.data, "shorter"), beside(&site.data, "longer"));
    remove(&fresh)?;
    remove(&old)?;
    let (mut store, _) = Store::open(&fresh, &site.genesis, site.options())?;
    for (ticket, record) in left.safety_records()? {
        store.append_safety(ticket, &record)?;
    }
    for height in (1..=to.0).map(Height) {
        let stored = reader.block(height).with_context(|| format!("block {height} is not there"))?;
        store.append_block(stored.committed.clone())?;
        if let Some(certificate) = reader.certificate(height).filter(|certificate| certificate.height == height) {
            store.append_certificate(&certificate)?;
        }
    }
    store.append_progress(resume)?;
    store.sync()?;
    drop(store);
    if let Some(keys) = &site.keys {
        claim(&fresh, keys)?;
    }
    rename(&site.data, &old)?;
    rename(&fresh, &site.data)?;
    remove(&old)
}

fn beside(data: &Path, word: &str) -> PathBuf {
    data.with_extension(word)
}

/// A start after a crash in the middle of [`shorten`] finds the longer chain in its place.
pub fn put_back(data: &Path) -> anyhow::Result<()> {
    let old = beside(data, "longer");
    if !data.exists() && old.exists() { rename(&old, data) } else { Ok(()) }
}

fn rename(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::rename(from, to).with_context(|| format!("cannot rename {} to {}", from.display(), to.display()))
}

fn remove(directory: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", directory.display()))
        }
        _ => Ok(()),
    }
}
