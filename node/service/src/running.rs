//! Running chain of a node: its threads, and its exchange for another state of the chain.

use crate::{
    backend::{ReaderHandle, Readers},
    chain::{Chain, NodeContext},
    clock,
    epoch_log::EpochLog,
    journal::Journal,
    keys::Keyring,
    pool_view::PoolView,
    shared::Shared,
    snapshots::{Shelf, SnapshotMaker},
    threads::{self, Connections},
};
use anyhow::{Context, ensure};
use corniche_pipeline::{Input, Pipeline};
use corniche_rpc::ChainEvent;
use corniche_store::Store;
use corniche_types::{Bytes, Resume};
use corniche_vm::Vm;
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
    thread::JoinHandle,
};

/// Chain of a node, and its threads.
pub struct RunningChain {
    context: NodeContext,
    pub(crate) shared: Arc<Shared>,
    pub(crate) readers: Arc<ReaderHandle>,
    vm: Vm,
    has_peers: bool,
    threads: Mutex<Threads>,
}

struct Threads {
    handles: Vec<JoinHandle<()>>,
    /// Makes snapshots, on a node with peers.
    maker: Option<SnapshotMaker>,
    /// True once they have ended permanently.
    stopped: bool,
}

/// Chain whose threads have ended. Users' transactions wait until [`Self::resume`] or [`RunningChain::halt`].
pub struct SuspendedChain<'a> {
    running: &'a RunningChain,
    threads: MutexGuard<'a, Threads>,
}

impl RunningChain {
    /// Starts the threads of an opened chain.
    pub(crate) fn start(
        context: NodeContext,
        chain: Chain,
        shared: Arc<Shared>,
        connections: Connections,
        shelf: Option<Arc<Shelf>>,
    ) -> Self {
        let readers = Arc::new(ReaderHandle::new(chain.readers(context.is_validator())));
        let (vm, has_peers) = (chain.vm.clone(), connections.network.is_some());
        let shelf = shelf.filter(|_| context.config.snapshots.make);
        let maker = shelf.map(|shelf| {
            let reader = chain.store.reader();
            let epoch_log = EpochLog::new(&context.data, reader.clone(), context.genesis.clone());
            SnapshotMaker::start(&context.genesis, reader, chain.state.clone(), epoch_log, shelf, shared.snapshots.clone())
        });
        let handles = run_chain(&context, chain, &shared, connections, Vec::new());
        Self { context, shared, readers, vm, has_peers, threads: Mutex::new(Threads { handles, maker, stopped: false }) }
    }

    /// Configuration and location of the chain. Opens and prepares the chain that [`SuspendedChain::resume`] starts.
    pub fn context(&self) -> &NodeContext {
        &self.context
    }

    pub fn vm(&self) -> &Vm {
        &self.vm
    }

    /// Readers of the chain as it is now.
    pub fn readers(&self) -> Arc<Readers> {
        self.readers.current()
    }

    /// Point where ordering resumes after everything that was written.
    pub fn resume_point(&self) -> Resume {
        self.shared.resume.lock().map(|resume| resume.clone()).unwrap_or_default()
    }

    /// True once the node is stopping.
    pub fn is_stopped(&self) -> bool {
        // Locked while the chain is suspended, which is not a stop.
        self.threads.try_lock().is_ok_and(|threads| threads.stopped)
    }

    /// Ends the threads and returns the store, with everything written. Blocks for that long. Users' transactions wait.
    ///
    /// # Errors
    ///
    /// The node has peers, which would send parts of the old chain; or it is stopping; or a thread failed and kept the
    /// store. Call [`Self::halt`] after the last one, because the threads have ended.
    pub fn suspend(&self) -> anyhow::Result<(Store, SuspendedChain<'_>)> {
        ensure!(!self.has_peers, "suspend: expected a node without peers");
        let mut threads = self.lock();
        ensure!(!threads.stopped, "the node is stopping");
        self.shared.hold_requests();
        self.shared.return_store.store(true, Ordering::Relaxed);
        self.end(&mut threads);
        self.shared.return_store.store(false, Ordering::Relaxed);
        let returned = self.shared.returned_store.lock().ok().and_then(|mut store| store.take());
        let store = returned.context("the store is still in use")?;
        Ok((store, SuspendedChain { running: self, threads }))
    }

    /// Sends a command to the chain's extension, after the transactions that were submitted before. `done` gets the
    /// response, with the pool at that moment, and runs on the pipeline's thread. It is dropped without a call if the
    /// chain stops or is suspended before.
    pub fn command(&self, command: Bytes, done: impl FnOnce(&PoolView, Result<Bytes, String>) + Send + 'static) {
        self.shared.command(command, Box::new(done));
    }

    /// Continues with other keys, without a restart: notices at once, engine and certificates from the next epoch on.
    ///
    /// # Errors
    ///
    /// The node was started without keys, or the engine refuses these.
    pub fn replace_keys(&self, keys: &Keyring) -> anyhow::Result<()> {
        let keys = self.context.rebuild_keys(keys)?;
        self.shared.inbox.push_response(Input::Keys(Box::new(keys)).into());
        Ok(())
    }

    /// Halts the node for good: the state of its chain is unknown. The reason is for the operator.
    pub fn halt(&self, reason: String) {
        self.shared.halt(reason);
        self.shared.release_requests();
    }

    /// Ends the threads permanently. Blocks until they have ended.
    pub(crate) fn stop(&self) {
        // Before taking the lock, which may be held by a command that waits for the threads.
        self.shared.shut_down();
        let mut threads = self.lock();
        threads.stopped = true;
        self.end(&mut threads);
    }

    fn end(&self, threads: &mut Threads) {
        threads.maker = None;
        self.shared.shut_down();
        for thread in threads.handles.drain(..) {
            // A thread that panicked has reported it through `halted`.
            let _ = thread.join();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Threads> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SuspendedChain<'_> {
    /// Starts the threads on this chain, with these transactions in the pool. Subscribers get the event before users'
    /// transactions continue.
    pub fn resume(mut self, chain: Chain, pool: Vec<Bytes>, event: ChainEvent) {
        let RunningChain { context, shared, readers, .. } = self.running;
        shared.reset();
        shared.set_start(chain.height, chain.certified, chain.base_fee, chain.resume.clone());
        shared.set_requested_base_fee(chain.pipeline.requested_base_fee());
        readers.replace(chain.readers(context.is_validator()));
        self.threads.handles = run_chain(context, chain, shared, Connections::default(), pool);
        let _ = shared.events.send(event);
        shared.release_requests();
    }
}

/// Starts the threads of a chain, with the journal's transactions of users, and then with these.
fn run_chain(
    context: &NodeContext,
    chain: Chain,
    shared: &Arc<Shared>,
    connections: Connections,
    pool: Vec<Bytes>,
) -> Vec<JoinHandle<()>> {
    if let Some(trace) = chain.trace() {
        let dag = shared.dag.clone();
        trace.on_growth(move || dag.send_replace(()));
    }
    let Chain { store, mut pipeline, verifiers, runner, sealer, threads, warm_up, .. } = chain;
    if let Some(warm_up) = warm_up {
        let shared = shared.clone();
        warm_up.start(context.is_validator(), move || shared.inbox.push_response(Input::MayVote.into()));
    }
    let (journal, raw_transactions) = Journal::open(&context.data);
    resubmit(&mut pipeline, [raw_transactions, pool].concat(), context.genesis.chain_id);
    let epoch_log = EpochLog::new(&context.data, store.reader(), context.genesis.clone());
    // The node may have stopped before it kept the committee.
    epoch_log.keep(pipeline.committee());
    threads::spawn(
        (pipeline, verifiers, journal, epoch_log),
        (runner, sealer),
        threads,
        store,
        &context.config,
        shared.clone(),
        connections,
    )
}

/// Submits the users' transactions of the last run again; those executed meanwhile are refused.
fn resubmit(pipeline: &mut Pipeline, raw_transactions: Vec<Bytes>, chain_id: u64) {
    let found = raw_transactions.len();
    for transaction in raw_transactions.into_iter().filter_map(|raw| corniche_admission::check(raw, chain_id).ok()) {
        pipeline.handle(clock::now(), Input::Submit { transaction, from: None, reply: None });
    }
    let pending = pipeline.pool().ready_len() + pipeline.pool().queued_len();
    if found > 0 {
        tracing::info!(found, pending, "users' transactions of the last run");
    }
}
