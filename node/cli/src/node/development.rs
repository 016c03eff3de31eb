//! Runs the chain of `corniche dev`: development commands, and reverts to earlier blocks.
//!
//! A revert is a restart: the threads end, state, tree and store undo the reverted blocks, and new threads
//! start. The cost depends on the reverted blocks, not on the length of the chain. Nothing else in the node
//! knows of reverts. The engine does not revert: it has its records, and resumes where it was. So no block
//! may be in progress when the threads end, or the engine would deliver it afterwards.

use super::{
    backend::Views,
    chain::{Chain, Site},
    clock,
    journal::Journal,
    open::run_chain,
    shared::{Shared, Still},
};
use anyhow::Context;
use corniche_api::{Reason, RpcError};
use corniche_console::{dev_accounts::dev_accounts, exit};
use corniche_crypto::EthereumKey;
use corniche_pipeline::dev::{DevOrder as Order, Dropped, MOST_BLOCKS, Start, Word};
use corniche_rpc::{AccountChange, ChainBlock, ChainEvent, DevChain, DevOrder, DropOrder, Reverted};
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
const MOST_SNAPSHOTS: usize = 10_000;

/// Maximum bytes of pooled transactions in all snapshots; the newest snapshot is always complete.
const MOST_POOLED_BYTES: usize = 64 << 20;

/// Chain and its threads.
pub struct Running {
    site: Site,
    shared: Arc<Shared>,
    view: Arc<Views>,
    vm: Vm,
    automine: AtomicBool,
    /// Total number of seconds by which the clock was set ahead.
    skipped: AtomicU64,
    /// Id of this process; hashed with the number of resets, it identifies the chain.
    started: B256,
    begun: AtomicU64,
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
    over: bool,
}

/// State of a chain at a snapshot.
struct Snapshot {
    name: u64,
    skipped: u64,
    still: Still,
}

impl Snapshot {
    fn bytes(&self) -> usize {
        self.still.pool.iter().map(|raw| raw.len() + size_of::<Bytes>()).sum()
    }
}

#[derive(Default)]
struct Snapshots {
    /// Sorted by name.
    kept: VecDeque<Snapshot>,
    bytes: usize,
    newest: u64,
}

impl Snapshots {
    /// Adds a snapshot and returns its name; drops old ones beyond the limits.
    fn keep(&mut self, still: Still, skipped: u64) -> u64 {
        self.newest += 1;
        let snapshot = Snapshot { name: self.newest, skipped, still };
        self.bytes += snapshot.bytes();
        self.kept.push_back(snapshot);
        while self.kept.len() > MOST_SNAPSHOTS || (self.bytes > MOST_POOLED_BYTES && self.kept.len() > 1) {
            let oldest = self.kept.pop_front();
            self.bytes -= oldest.map_or(0, |oldest| oldest.bytes());
        }
        self.newest
    }

    fn place(&self, name: u64) -> Option<usize> {
        self.kept.binary_search_by_key(&name, |snapshot| snapshot.name).ok()
    }

    /// Removes the snapshot at an index and all later ones; returns the first.
    fn take(&mut self, place: usize) -> Option<Snapshot> {
        self.bytes -= self.kept.range(place..).map(Snapshot::bytes).sum::<usize>();
        self.kept.drain(place..).next()
    }

    fn clear(&mut self) {
        self.kept.clear();
        self.bytes = 0;
    }
}

impl Running {
    pub fn new(site: Site, shared: Arc<Shared>, view: Arc<Views>, vm: Vm, threads: Vec<JoinHandle<()>>) -> Self {
        let inner = Inner { threads, snapshots: Snapshots::default(), interval_ms: 0, has_caught_up: false, over: false };
        let (automine, skipped) = (AtomicBool::new(true), AtomicU64::new(0));
        let started = keccak256([u64::from(std::process::id()).to_be_bytes(), clock::now().0.to_be_bytes()].concat());
        let begun = AtomicU64::new(0);
        Self { site, shared, view, vm, automine, skipped, started, begun, inner: Mutex::new(inner) }
    }

    /// Ends the threads.
    pub async fn stop(&self) {
        // Before taking the lock, which may be held by a command that waits for the threads.
        self.shared.dismiss();
        let mut inner = self.inner.lock().await;
        inner.over = true;
        self.end_threads(&mut inner);
    }

    fn end_threads(&self, inner: &mut Inner) {
        self.shared.dismiss();
        for thread in inner.threads.drain(..) {
            // A thread that panicked has reported it through `halted`.
            let _ = thread.join();
        }
    }

    /// Sends a command to the pipeline and waits until it is done.
    async fn order(&self, order: Order) -> Result<u64, RpcError> {
        self.tell(order).await.map(|_| 0)
    }

    /// Like `order`; returns the hash in the response.
    async fn tell(&self, order: Order) -> Result<B256, RpcError> {
        match self.shared.order(order).await {
            Ok(answer) => answer,
            Err(_) => Err(Reason::NotAccepting.with("the chain went back to an earlier block")),
        }
    }

    /// Waits until no block is in progress: with automine, until all executable transactions are in blocks.
    async fn quiet(&self) -> Result<Still, RpcError> {
        self.order(Order::Quiet).await?;
        let said = self.shared.quiet.lock().ok().and_then(|mut quiet| quiet.take());
        said.ok_or_else(|| RpcError::internal("a quiet chain did not say what time it is"))
    }

    /// Returns 1 if a transaction left the pool.
    async fn drop_waiting(&self, which: Dropped) -> Result<u64, RpcError> {
        let mut gone = self.tell(Order::Drop(which)).await?;
        if gone.is_zero() {
            // A transaction being ordered gets into a block, or returns to the pool.
            self.quiet().await?;
            gone = self.tell(Order::Drop(which)).await?;
        }
        Ok(u64::from(!gone.is_zero()))
    }

    async fn snapshot(&self, inner: &mut Inner) -> Result<u64, RpcError> {
        let still = self.quiet().await?;
        Ok(inner.snapshots.keep(still, self.skipped.load(Ordering::Relaxed)))
    }

    /// Returns 1 if the snapshot existed. It is consumed, with all later ones.
    async fn revert(&self, inner: &mut Inner, name: u64) -> Result<u64, RpcError> {
        let Some(place) = inner.snapshots.place(name) else { return Ok(0) };
        if let Err(error) = self.hold_still(inner.has_caught_up).await {
            // Nothing happened: restore the mining settings. Errors here repeat the first one.
            let _ = self.order(Order::Automine(self.automine.load(Ordering::Relaxed))).await;
            let _ = self.order(Order::Interval { ms: inner.interval_ms }).await;
            return Err(error);
        }
        inner.has_caught_up = true;
        let Some(snapshot) = inner.snapshots.take(place) else { return Ok(0) };
        let to = snapshot.still.height;
        let gone = tokio::task::block_in_place(|| self.go_back(inner, snapshot));
        gone.map(|()| 1).map_err(|error| self.fail(inner, &format!("the chain could not go back to block {to}: {error:#}")))
    }

    /// Stops the node: the state of its chain is unknown.
    fn fail(&self, inner: &mut Inner, reason: &str) -> RpcError {
        inner.over = true;
        self.shared.halt(reason.into());
        self.shared.has_gone_back();
        RpcError::internal(reason)
    }

    /// Waits until no block is in progress, and prevents new ones.
    async fn hold_still(&self, has_caught_up: bool) -> Result<(), RpcError> {
        self.order(Order::Interval { ms: 0 }).await?;
        self.order(Order::Automine(false)).await?;
        if !has_caught_up {
            self.order(Order::Set(Vec::new())).await?;
        }
        self.quiet().await.map(|_| ())
    }

    fn go_back(&self, inner: &mut Inner, snapshot: Snapshot) -> anyhow::Result<()> {
        let Snapshot { skipped, still: Still { height: to, clock, pool }, .. } = snapshot;
        self.shared.goes_back();
        self.shared.keep_store.store(true, Ordering::Relaxed);
        self.end_threads(inner);
        self.shared.keep_store.store(false, Ordering::Relaxed);
        let left = self.shared.left.lock().ok().and_then(|mut left| left.take());
        let mut store = left.context("its last store was not left behind")?;
        let (view, reader) = (self.view.now(), store.reader());
        let removed = removed(&reader, to);
        let resume = self.shared.resume.lock().map(|resume| resume.clone()).unwrap_or_default();
        let then = view.state.at(to).with_context(|| format!("the state of block {to} is not kept"))?;
        let before = before(&reader, to, &then);
        drop(then);
        take_back(&mut store, &self.site.data, to, &resume, &before)?;
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
        self.shared.say_base_fee(clock.next.base_fee);
        self.begin(inner, chain, pool, Reverted { to, removed });
        Ok(())
    }

    /// Resets to the genesis, in a new data directory: nothing of the old one is needed.
    async fn reset(&self, inner: &mut Inner) -> Result<u64, RpcError> {
        inner.snapshots.clear();
        let begun = tokio::task::block_in_place(|| self.begin_again(inner));
        begun.map(|()| 0).map_err(|error| self.fail(inner, &format!("the chain could not begin again: {error:#}")))
    }

    fn begin_again(&self, inner: &mut Inner) -> anyhow::Result<()> {
        self.shared.goes_back();
        self.end_threads(inner);
        let removed = removed(&self.view.now().reader, Height(0));
        let old = old(&self.site.data);
        remove(&old)?;
        fs::rename(&self.site.data, &old).with_context(|| format!("cannot rename {}", self.site.data.display()))?;
        let chain = self.site.open(false, Some(self.vm.clone()))?;
        tidy(&self.site.data);
        self.skipped.store(0, Ordering::Relaxed);
        self.automine.store(true, Ordering::Relaxed);
        self.shared.say_base_fee(None);
        self.begun.fetch_add(1, Ordering::Relaxed);
        (inner.interval_ms, inner.has_caught_up) = (0, true);
        self.begin(inner, chain, Vec::new(), Reverted { to: Height(0), removed });
        Ok(())
    }

    /// Starts threads on a chain after a revert.
    fn begin(&self, inner: &mut Inner, chain: Chain, pool: Vec<Bytes>, reverted: Reverted) {
        self.shared.start_over();
        self.shared.starts_at(chain.height, chain.certified, chain.base_fee, chain.resume.clone());
        self.view.replace(chain.view(self.site.is_validator()));
        inner.threads = run_chain(&self.site, chain, &self.shared, None, pool);
        let _ = self.shared.events.send(ChainEvent::Reverted(Arc::new(reverted)));
        self.shared.has_gone_back();
    }

    async fn obey(&self, order: DevOrder) -> Result<u64, RpcError> {
        // One at a time: a revert must not undo blocks for which another command waits.
        let mut inner = self.inner.lock().await;
        if inner.over {
            return Err(Reason::NotAccepting.with("the node is stopping"));
        }
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
                let done = self.order(Order::Automine(automine)).await?;
                self.automine.store(automine, Ordering::Relaxed);
                Ok(done)
            }
            DevOrder::Interval { ms } => {
                let done = self.order(Order::Interval { ms }).await?;
                inner.interval_ms = ms;
                Ok(done)
            }
            DevOrder::Snapshot => self.snapshot(&mut inner).await,
            DevOrder::Revert { id } => self.revert(&mut inner, id).await,
            DevOrder::Reset => self.reset(&mut inner).await,
        }
    }
}

/// Interface of a development chain for its RPC server.
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

    fn said(&self, run: &dyn Display, lines: &[(Address, &str)]) {
        for (contract, text) in lines {
            let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            exit::note(format_args!("{run} {contract} » {text}"));
        }
    }

    fn order(&self, order: DevOrder) -> BoxFuture<'static, Result<u64, RpcError>> {
        let running = self.0.clone();
        // A client may disconnect meanwhile; the command is completed anyway.
        Box::pin(async move {
            let obeying = tokio::spawn(async move { running.obey(order).await });
            obeying.await.unwrap_or_else(|error| Err(RpcError::internal(format!("the order was not obeyed: {error}"))))
        })
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

/// Values at `to` of the keys that were written above it.
fn before(reader: &Reader, to: Height, then: &dyn StateView) -> Changes {
    let mut before = Changes::default();
    for block in (to.0 + 1..=reader.head().height().0).filter_map(|height| reader.block(Height(height))) {
        let written = &block.committed.changes;
        before.accounts.extend(written.accounts.keys().map(|address| (*address, then.account(address))));
        before.storage.extend(written.storage.keys().map(|(address, slot)| ((*address, *slot), then.storage(address, slot))));
    }
    before
}

/// Reverted blocks with logs. Subscribers are notified of removed logs, so blocks without logs are not read.
fn removed(reader: &Reader, to: Height) -> Vec<Arc<ChainBlock>> {
    let above = (to.0 + 1..=reader.head().height().0).map(Height);
    let with_logs = above.filter(|height| reader.header(*height).is_some_and(|header| !header.logs_bloom.is_zero()));
    let block =
        |height| reader.block(height).map(|stored| ChainBlock::new(stored.block(), stored.hash, stored.receipts().to_vec()));
    with_logs.filter_map(block).map(Arc::new).collect()
}

/// Reverts blocks. Deletes the journal of users' transactions first: after a crash in between, transactions
/// of the reverted blocks would be admitted again.
fn take_back(store: &mut Store, data: &Path, to: Height, resume: &Resume, before: &Changes) -> anyhow::Result<()> {
    Journal::remove(data)?;
    Ok(store.take_back(to, resume, before)?)
}

/// Location of the old data directory during a reset.
fn old(data: &Path) -> PathBuf {
    data.with_extension("old")
}

/// Removes the old data after a reset. It is not needed, so errors are only logged.
pub fn tidy(data: &Path) {
    if let Err(error) = remove(&old(data)) {
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
    use crate::node::testing::{genesis, transfer};
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
    fn a_crash_while_it_goes_back_brings_nothing_of_what_goes_into_the_pool() {
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
            let taken = take_back(&mut store, data, Height(4), &Resume::default(), &Changes::default());
            drop(store);
            let store = open(data, None);
            let went_back = store.reader().head().height() == Height(4);
            assert!(!went_back || Journal::open(data).1.is_empty(), "{step}");
            outcomes[usize::from(went_back)] += 1;
            if taken.is_ok() {
                assert!(went_back);
                break;
            }
        }
        assert!(outcomes[1] > 1, "some crashed after it was decided: {outcomes:?}");
    }

    #[test]
    fn of_the_blocks_that_go_only_those_with_logs_are_told() {
        let directory = tempfile::tempdir().unwrap();
        let reader = sample(directory.path()).reader();
        let heights = |to| removed(&reader, Height(to)).iter().map(|block| block.height().0).collect::<Vec<_>>();
        assert_eq!([heights(0), heights(3), heights(8)], [vec![3, 6], vec![6], vec![]]);
    }

    #[test]
    fn snapshots_are_bounded_in_number_and_in_what_they_hold() {
        let long = Bytes::from(vec![0; MOST_POOLED_BYTES / 3]);
        let still = |pooled: usize| Still {
            height: Height(1),
            clock: Clock { time: TimestampMs(1), next: Default::default() },
            pool: vec![long.clone(); pooled],
        };
        let mut snapshots = Snapshots::default();
        let names = |snapshots: &Snapshots| snapshots.kept.iter().map(|kept| kept.name).collect::<Vec<_>>();
        for pooled in [1, 0, 1, 1] {
            snapshots.keep(still(pooled), 0);
        }
        assert_eq!(names(&snapshots), [2, 3, 4], "the oldest made room");
        assert_eq!((snapshots.place(1), snapshots.take(1).unwrap().name), (None, 3));
        assert_eq!(names(&snapshots), [2]);
        snapshots.keep(still(2), 0);
        assert_eq!(names(&snapshots), [2, 5], "what was used up is not counted any more");
        snapshots.keep(still(9), 0);
        assert_eq!(names(&snapshots), [6], "the newest stays in any case");
        snapshots.clear();
        assert_eq!(snapshots.keep(still(2), 0), 7, "a name is given once");
        (0..MOST_SNAPSHOTS).for_each(|_| _ = snapshots.keep(still(0), 0));
        assert_eq!((snapshots.kept.len(), snapshots.bytes), (MOST_SNAPSHOTS, 0));
    }
}
