//! From a data directory and a configuration to a running node, and its orderly end.

use super::{
    NodeConfig,
    backend::{Dag, NodeBackend},
    clock, core,
    journal::Journal,
    metrics::NodeMetrics,
    shared::{Shared, count},
    verify::Verifiers,
};
use crate::{
    engines,
    exit::{Exit, Failed},
    keys::{self, NetworkKey, ValidatorKeys},
    threads::Threads,
};
use anyhow::{Context, bail};
use corniche_admission::{PoolConfig, Rotation};
use corniche_engine::Committee;
use corniche_executor::{Alone, Pool, SpeculationLimits};
use corniche_network::{Event, Events, NetworkConfig, NetworkHandle, NetworkIdentity};
use corniche_pipeline::{
    CertificateKeys, ExecutionStage, ExecutionStart, FollowedBlock, Input, Pipeline, Request, Setup, answer_blocks,
};
use corniche_rpc::{Metrics, RpcServer, ServerParts};
use corniche_store::{CodeCache, History, Options, Reader, Recovered, Store};
use corniche_types::{B256, Bytes, Genesis, Header, Height, ValidatorIndex, header_hash, wire};
use corniche_vm::{Vm, VmConfig, wasm::ModuleCache};
use prometheus_client::registry::Registry;
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
};
use tokio::net::TcpListener;

/// More are not started: instances of contracts take address space for each.
const MAX_EXECUTION_THREADS: usize = 16;

/// Blocks between two checkpoints, and from the last one to the head, of a node that keeps old states on disk: those that are not there yet have
/// to be in memory, which holds several times as many.
const HISTORY_STEP: u64 = 32;

/// Everything `run` needs.
pub struct Job {
    pub config: NodeConfig,
    pub genesis: Genesis,
    /// A validator's keys; `None`: a full node.
    pub keys: Option<ValidatorKeys>,
    pub data: PathBuf,
    pub rebuild: bool,
    /// Called once with the RPC address when the node serves.
    pub ready: Box<dyn FnOnce(SocketAddr)>,
}

/// Runs a node until it is told to stop or halts.
pub fn run(job: Job) -> anyhow::Result<()> {
    start_logging();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(job.config.limits.socket_threads.max(1))
        .enable_all()
        .build()?;
    let result = runtime.block_on(serve(job));
    // Threads that still wait for a client end with the process.
    runtime.shutdown_background();
    result
}

fn start_logging() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("CORNICHE_LOG").unwrap_or_else(|_| "info,libp2p=warn".into());
    // A second node in the same process keeps the first one's logging.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).try_init();
}

async fn serve(job: Job) -> anyhow::Result<()> {
    let Job { config, genesis, keys, data, rebuild, ready } = job;
    let genesis = Arc::new(genesis);
    let listener = TcpListener::bind(config.rpc).await.with_context(|| format!("cannot serve RPC on {}", config.rpc))?;
    let own = own_place(&genesis, keys.as_ref())?;
    // Only a validator's engine has something to tell.
    let trace_bytes = if own.is_some() { config.limits.trace_mib.saturating_mul(1 << 20) } else { 0 };
    let (default, keeps_history) = (Options::default(), config.state.history != History::Off);
    let least_recent = if keeps_history { default.checkpoint_lag } else { 0 };
    let options = Options {
        backend: config.index,
        rebuild,
        trace_bytes,
        history: config.state.history,
        checkpoint_lag: if keeps_history { HISTORY_STEP } else { default.checkpoint_lag },
        checkpoint_blocks: if keeps_history { HISTORY_STEP } else { default.checkpoint_blocks },
        ..default
    };
    let (store, recovered) = Store::open(&data, &genesis, options)?;
    if let Some(keys) = &keys {
        claim(&data, keys)?;
    }
    if recovered.safety_lost {
        tracing::warn!("the safety log is gone: this validator asks a quorum what it signed before it votes");
    }
    if let Some(why) = &recovered.rebuilt {
        tracing::warn!(why, "state and indices were built again from the log");
    }
    if let Some(certificate) = &recovered.divergence {
        let message = format!("this node executed block {} differently than a quorum; see docs/operate.md", certificate.height);
        return Err(Failed::new(Exit::Halted, message).into());
    }
    let reader = store.reader();
    let trace = store.trace();
    let threads = config.limits.execution_threads.clamp(1, MAX_EXECUTION_THREADS);
    let [a, b, c, d, e, f, g, h, ..] = B256::random().0;
    let sizes = VmConfig {
        executors: threads as u32,
        table_secret: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        ..VmConfig::default()
    };
    let vm = Vm::new(&sizes, Arc::new(CodeOnDisk(store.code_cache())))?;

    let (verifier, engine_factory) = keys.clone().map(|keys| engines::build(&genesis, keys)).transpose()?.unzip();
    let certified = recovered.certificate.as_ref().map_or(Height(0), |certificate| certificate.height);
    let start = Start::new(&reader, &recovered, certified);
    let state = recovered.state.clone();
    let stage = ExecutionStage::new(
        genesis.clone(),
        vm.clone(),
        ExecutionStart {
            state: state.clone(),
            tree: recovered.tree,
            head: start.head.clone(),
            gas_in_second: start.gas_in_second,
        },
    );
    let base_fee = stage.base_fee_at(clock::now().0 / 1000);
    let (runner, sealer) = stage.split();
    let tree = sealer.tree();
    let runner = if config.limits.speculation { runner.speculating(SpeculationLimits::default()) } else { runner };
    // The execution thread is one already.
    let threads: Arc<dyn Pool> = if threads > 1 { Arc::new(Threads::start(threads)?) } else { Arc::new(Alone) };
    let runner = runner.on(threads.clone());
    let shared = Arc::new(Shared::new(config.limits.inbox, base_fee));
    shared.counters.head.store(start.height.0, Ordering::Relaxed);
    shared.counters.finalized.store(certified.0, Ordering::Relaxed);
    let mut pipeline = Pipeline::new(Setup {
        genesis: genesis.clone(),
        certificate_keys: CertificateKeys::bls(
            &Committee::from_genesis(&genesis),
            own.zip(keys.as_ref().map(|keys| keys.bls.clone())),
        ),
        engine_factory,
        records: recovered.safety,
        state: state.clone(),
        head: (start.height > Height(0)).then(|| recovered.head.block().clone()),
        head_hash: header_hash(&start.head),
        base_fee,
        resume: recovered.resume,
        certificate: recovered.certificate.as_deref().cloned(),
        uncertified: start.uncertified,
        recent_states: config.limits.recent_states.max(least_recent),
        pool: PoolConfig { max_transactions: config.limits.pool_transactions, ..PoolConfig::from_genesis(&genesis) },
        rotation: Some(start.rotation),
        now: clock::now(),
    });

    let network = start_network(&config, &genesis, keys.as_ref()).await?;
    let handle = network.as_ref().map(|(handle, _)| handle.clone());
    let runtime = tokio::runtime::Handle::current();
    let (journal, kept) = Journal::open(&data);
    admit_again(&mut pipeline, kept, genesis.chain_id);
    let threads = core::spawn(
        (pipeline, journal),
        (runner, sealer),
        threads,
        store,
        shared.clone(),
        trace.clone(),
        handle.clone().map(|handle| (handle, runtime)),
    );
    if let Some((handle, events)) = network {
        let verifiers = Verifiers::spawn(config.limits.verify_threads, genesis.chain_id, verifier, &shared, &handle);
        tokio::spawn(pump(events, verifiers, shared.clone(), reader.clone()));
    }

    let backend = NodeBackend {
        genesis: genesis.clone(),
        genesis_header: genesis_header(&reader),
        reader,
        state,
        tree,
        shared: shared.clone(),
        network: handle.clone(),
        dag: match (own, trace.clone()) {
            (None, _) => Dag::FullNode,
            (Some(_), None) => Dag::NotTraced,
            (Some(_), Some(trace)) => Dag::Traced(trace),
        },
        vm,
        starting: start.height,
    };
    let mut registry = Registry::default();
    let parts = ServerParts {
        metrics: Metrics::register(&mut registry),
        registry: Arc::new(NodeMetrics::register(registry, &genesis.engine.name, &shared, handle.as_ref(), trace.as_ref())),
        config: config.serve.rpc(),
        listener,
        backend: Arc::new(backend),
        clock: Arc::new(clock::now),
    };
    let server = RpcServer::start(parts)?;
    let role = own.map_or("full node".to_owned(), |index| format!("validator {index}"));
    let (engine, chain_id) = (&genesis.engine.name, genesis.chain_id);
    tracing::info!(rpc = %server.address(), height = start.height.0, chain_id, %engine, "{role} is up");
    ready(server.address());

    let halted = wait_for_the_end(&shared).await;
    server.stop().await;
    if let Some(handle) = handle {
        handle.shutdown().await;
    }
    shared.inbox.close();
    for thread in threads {
        // A thread that panicked has told why through `halted`.
        let _ = thread.join();
    }
    match halted {
        Some(reason) => Err(Failed::new(Exit::Halted, reason).into()),
        None => Ok(()),
    }
}

/// Gives the pipeline what users had given to the last run; what was executed meanwhile is refused.
fn admit_again(pipeline: &mut Pipeline, kept: Vec<Bytes>, chain_id: u64) {
    let found = kept.len();
    for transaction in kept.into_iter().filter_map(|raw| corniche_admission::check(raw, chain_id).ok()) {
        pipeline.handle(clock::now(), Input::Submit { transaction, from: None, reply: None });
    }
    let pending = pipeline.pool().ready_len() + pipeline.pool().queued_len();
    if found > 0 {
        tracing::info!(found, pending, "users' transactions of the last run");
    }
}

/// Which validator of the genesis the keys belong to.
fn own_place(genesis: &Genesis, keys: Option<&ValidatorKeys>) -> anyhow::Result<Option<ValidatorIndex>> {
    let Some(keys) = keys else { return Ok(None) };
    let index = keys.index_in(genesis)?;
    let index = index.context("these keys are of no validator in this genesis; without keys the node is a full node")?;
    Ok(Some(index))
}

/// A data directory belongs to one validator: on another's, it would not find what it signed itself.
fn claim(data: &Path, keys: &ValidatorKeys) -> anyhow::Result<()> {
    let (path, own) = (data.join("VALIDATOR"), keys.consensus.public().to_string());
    match std::fs::read_to_string(&path) {
        Ok(owner) if owner.trim() == own => Ok(()),
        Ok(owner) => bail!(
            "{} belongs to the validator with the consensus key {}, these keys are of {own}; start each on its own directory",
            data.display(),
            owner.trim()
        ),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            std::fs::write(&path, own + "\n").with_context(|| format!("cannot write {}", path.display()))
        }
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

async fn wait_for_the_end(shared: &Shared) -> Option<String> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).ok()?;
    tokio::select! {
        _ = tokio::signal::ctrl_c() => None,
        _ = terminate.recv() => None,
        reason = shared.halted() => Some(reason),
    }
}

/// Where execution and certification continue.
struct Start {
    height: Height,
    head: Header,
    gas_in_second: u64,
    uncertified: Vec<(Height, B256)>,
    rotation: Rotation,
}

impl Start {
    fn new(reader: &Reader, recovered: &Recovered, certified: Height) -> Self {
        let height = recovered.head.height();
        let head = header_at(reader, height);
        let mut gas_in_second = 0;
        let mut below = height;
        while below > Height(0) {
            let header = header_at(reader, below);
            if header.timestamp != head.timestamp {
                break;
            }
            gas_in_second += header.gas_used;
            below = Height(below.0 - 1);
        }
        let uncertified = (certified.0 + 1..=height.0)
            .filter_map(|number| reader.header(Height(number)).map(|header| (Height(number), header_hash(&header))))
            .collect();
        // As many as a rotation has, which are thousands where blocks come fast.
        let down = (1..=height.0).rev().map_while(|number| reader.header(Height(number)));
        Self { height, head, gas_in_second, uncertified, rotation: Rotation::of_chain(down) }
    }
}

fn header_at(reader: &Reader, height: Height) -> Header {
    reader.header(height).expect("invariant: every height up to the head is stored")
}

fn genesis_header(reader: &Reader) -> Header {
    header_at(reader, Height(0))
}

// ---- peers -------------------------------------------------------------------------------------------------------------

async fn start_network(
    config: &NodeConfig,
    genesis: &Genesis,
    keys: Option<&ValidatorKeys>,
) -> anyhow::Result<Option<(NetworkHandle, Events)>> {
    if config.listen.is_empty() && config.peers.is_empty() {
        return Ok(None);
    }
    let key = match (keys, &config.network_key) {
        (Some(keys), _) => keys.network.clone(),
        (None, Some(path)) => network_key(path)?,
        (None, None) => NetworkKey::from_seed(B256::random().0),
    };
    let mut network = NetworkConfig::from_genesis(NetworkIdentity::from_seed(key.seed()), genesis);
    network.learn_addresses = config.learn_addresses;
    for address in &config.listen {
        network.listen.push(address.parse().with_context(|| format!("listen address {address}"))?);
    }
    for peer in &config.peers {
        network = network.with_bootstrap(peer).with_context(|| format!("peer address {peer}"))?;
    }
    Ok(Some(corniche_network::Network::start(network).await?))
}

/// The identity in `path`, made when there is none.
fn network_key(path: &Path) -> anyhow::Result<NetworkKey> {
    if !path.exists() {
        keys::write_secret(path, &hex::encode(B256::random()))?;
    }
    keys::read_secret(path, |text| hex::FromHex::from_hex(text).map(NetworkKey::from_seed))
}

/// Carries network events to the verifiers and the pipeline, and answers followers from the store.
async fn pump(mut events: Events, verifiers: Verifiers, shared: Arc<Shared>, reader: Reader) {
    while let Some(event) = events.recv().await {
        match event {
            Event::PeerUp(peer) => {
                tracing::info!(%peer, "connected");
                shared.inbox.answer(Input::PeerUp { peer: peer.id.0.0, validator: peer.validator });
            }
            Event::PeerDown(peer) => {
                tracing::info!(%peer, "disconnected");
                shared.inbox.answer(Input::PeerDown { peer: peer.id.0.0 });
            }
            Event::Message { from, bytes, .. } => {
                let taken = verifiers.check(from.id, from.validator, bytes);
                count(&shared.counters.inbox_dropped, usize::from(!taken));
            }
            Event::Request { bytes, reply, .. } => {
                let reader = reader.clone();
                tokio::task::spawn_blocking(move || {
                    // Dropping `reply` refuses what does not decode.
                    if let Ok(Request::Blocks { from }) = wire::decode(&bytes) {
                        reply.send(wire::encode(&answer(&reader, from)).into());
                    }
                });
            }
        }
    }
}

fn answer(reader: &Reader, from: Height) -> corniche_pipeline::Response {
    let block = |height| {
        let committed = reader.block(height)?.committed.clone();
        Some(FollowedBlock { block: committed.block.clone(), resume: committed.resume.clone() })
    };
    answer_blocks(from, block, |height| reader.certificate(height).filter(|found| found.height == height).as_deref().cloned())
}

// ---- compiled code -----------------------------------------------------------------------------------------------------

/// Compiled contracts in the data directory.
struct CodeOnDisk(CodeCache);

impl ModuleCache for CodeOnDisk {
    fn get(&self, key: &B256) -> Option<Vec<u8>> {
        self.0.get(&key.0)
    }

    fn put(&self, key: &B256, artefact: &[u8]) {
        self.0.put(&key.0, artefact);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_directory_of_another_validator_is_refused_naming_both() {
        let directory = tempfile::tempdir().unwrap();
        let [owner, other] = [1, 2].map(|seed| ValidatorKeys::from_seed([seed; 32]));
        claim(directory.path(), &owner).unwrap();
        claim(directory.path(), &owner).unwrap();
        let refusal = claim(directory.path(), &other).unwrap_err().to_string();
        for key in [&owner, &other] {
            assert!(refusal.contains(&key.consensus.public().to_string()), "{refusal}");
        }
        claim(directory.path(), &owner).unwrap();
        // What is not text at all is nobody's.
        std::fs::write(directory.path().join("VALIDATOR"), [0xff; 4]).unwrap();
        assert!(claim(directory.path(), &owner).unwrap_err().to_string().starts_with("cannot read "));
    }
}
