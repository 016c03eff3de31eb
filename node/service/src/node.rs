//! A node from its start to its stop.

use crate::{
    NodeConfig,
    backend::{NodeBackend, own_version},
    block_server::BlockServers,
    chain::{NodeContext, Validator, header_at},
    clock,
    config::{Faucet, MetricsAddress, SyncMode},
    epoch_log::EpochLog,
    genesis::VerifiedGenesis,
    keys::{Keyring, MemberKeys, NetworkKey},
    metrics::{NodeMetrics, SyncMetrics},
    multicast::GroupMember,
    newest_blocks::NewestBlocks,
    open_files,
    running::RunningChain,
    shared::{Shared, count},
    snapshots::{FetchProgress, FetchSetup, Shelf, StateSource, fetch_state},
    status::fetch_status,
    threads::Connections,
    verify::{MessageChecks, Verifiers},
};
use anyhow::Context;
use corniche_api::{RpcError, TransactionStatus};
use corniche_console::secret;
use corniche_engine::Committee;
use corniche_network::{Event, Events, NetworkConfig, NetworkHandle, NetworkIdentity, Peer, PeerKey};
use corniche_pipeline::{Extension, Halted, Input};
use corniche_rpc::{Backend, Metrics, RpcConfig, RpcServer, ServerParts, StartingParts, StartingServer};
use corniche_store::{DataDirectory, History, Reader, Store};
use corniche_types::{B256, Bytes, Genesis, Header, Height, Receipt, TimestampMs};
use prometheus_client::registry::Registry;
use std::{
    io,
    net::SocketAddr,
    os::fd::AsFd,
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::{net::TcpListener, runtime::Runtime, sync::broadcast::error::RecvError};

/// Parts of a node.
pub struct NodeSetup {
    pub config: NodeConfig,
    pub genesis: VerifiedGenesis,
    /// `None`: a full node, which does not order.
    pub validator: Option<Validator>,
    /// Data directory; created if it does not exist.
    pub data: PathBuf,
    /// Rebuilds state and indices from the log.
    pub rebuild: bool,
    /// Commands and directives that a real network does not have. `None` for a node of a network.
    pub extension: Option<Box<dyn Extension>>,
    /// True if the data directory is deleted with the process, so that nothing has to wait for the disk.
    pub temporary: bool,
    /// Response to `web3_clientVersion`, if it differs from the default.
    pub version: Option<String>,
}

impl NodeSetup {
    pub fn new(config: NodeConfig, genesis: VerifiedGenesis, validator: Option<Validator>, data: PathBuf) -> Self {
        Self { config, genesis, validator, data, rebuild: false, extension: None, temporary: false, version: None }
    }
}

/// Node whose chain runs, before it serves requests.
pub struct Node {
    chain: Arc<RunningChain>,
    genesis: Arc<Genesis>,
    network: Option<NetworkHandle>,
    /// Snapshots of this node; `None` without a network.
    shelf: Option<Arc<Shelf>>,
    /// Identity among peers, with or without a network.
    identity: Option<PeerKey>,
    starting: Height,
    version: String,
    rpc: RpcConfig,
    listener: TcpListener,
    metrics_listener: Option<TcpListener>,
    /// Progress of the fetch before the chain was opened.
    progress: FetchProgress,
}

/// Running node. It stops with [`Self::stop`]; a dropped handle leaves its threads running.
pub struct NodeHandle {
    chain: Arc<RunningChain>,
    backend: Arc<NodeBackend>,
    server: RpcServer,
    network: Option<NetworkHandle>,
}

/// Runtime for a node. Contract calls run on its threads; with smaller stacks each call would map and unmap its own stack.
///
/// # Errors
///
/// The system has no room for the threads.
pub fn runtime(config: &NodeConfig) -> io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(config.limits.socket_threads.max(1))
        .thread_name("socket")
        .thread_stack_size(corniche_vm::THREAD_STACK_BYTES)
        .enable_all()
        .build()
}

impl Node {
    /// Opens the chain and starts its threads, the network and the RPC server. Call it on a [`runtime`].
    ///
    /// # Errors
    ///
    /// An address is in use, the system allows too few open files, the data directory cannot be opened, or continuing would be
    /// unsafe ([`Halted`]).
    pub async fn start(setup: NodeSetup) -> anyhow::Result<NodeHandle> {
        Self::open(setup).await?.serve(RpcServer::start)
    }

    /// Opens the chain and starts its threads and the network. [`Self::serve`] does the rest of [`Self::start`].
    ///
    /// # Errors
    ///
    /// See [`Self::start`].
    pub async fn open(setup: NodeSetup) -> anyhow::Result<Self> {
        let NodeSetup { config, genesis, validator, data, rebuild, extension, temporary, version } = setup;
        open_files::check(&config, genesis.max_validators(), open_files::raise_open_files())?;
        let listener = TcpListener::bind(config.rpc).await.with_context(|| format!("cannot serve RPC on {}", config.rpc))?;
        let metrics_listener = MetricsAddress::bind(config.metrics, config.rpc).await?;
        let faucet = config.faucet.as_ref().map(Faucet::rpc).transpose()?;
        let rpc = RpcConfig { faucet, ..config.serve.rpc() };
        let context = NodeContext { temporary, ..NodeContext::new(config, genesis, validator, data)? };
        let genesis = context.genesis.clone();
        let group = GroupMember::start(context.config.multicast.as_ref(), &genesis, context.keys())?;
        let mut network = None;
        let progress = FetchProgress::new(None);
        if DataDirectory::new(&context.data).is_empty() {
            context.config.sync.check(&genesis, clock::now())?;
        }
        if wants_snapshot(&context) {
            network = Network::start(&context).await?;
            if let Some(network) = &mut network {
                let parts = starting_parts(&genesis, &rpc, &progress, &listener, metrics_listener.as_ref())?;
                let server = StartingServer::start(parts);
                let fetched = network.fetch_state(&context, &progress).await;
                server.stop().await;
                fetched?;
            }
        }
        let chain = context.open(rebuild, None, extension)?;
        check_trust(&context, &chain.store)?;
        let starting = chain.height;
        let shared = Shared::new(context.config.limits.inbox, chain.base_fee, chain.pipeline.committee().clone());
        let shared = if context.is_validator() { shared.with_attested_senders(&genesis) } else { shared };
        let shared = Arc::new(shared);
        shared.set_start(chain.height, chain.certified, chain.base_fee, chain.resume.clone());
        let (state, verifiers) = (chain.state.clone(), chain.verifiers.clone());
        let checks = MessageChecks { genesis: genesis.clone(), state, verifiers, shared: shared.clone() };
        let network = match network {
            None => Network::start(&context).await?,
            started => started,
        };
        let (shelf, network) = match network {
            None => (None, None),
            Some(network) => {
                let shelf = Arc::new(Shelf::open(&context.data, chain.store.identity())?);
                shared.snapshots.note_newest(&shelf);
                let epoch_log = EpochLog::new(&context.data, chain.store.reader(), genesis.clone());
                let source = StateSource {
                    reader: chain.store.reader(),
                    state: chain.state.clone(),
                    epoch_log,
                    shelf: shelf.clone(),
                    stats: shared.snapshots.clone(),
                };
                (Some(shelf), Some(network.connect(&context, checks, &source)))
            }
        };
        let key = context.keys().map(|keys| PeerKey(keys.network.public()));
        let identity = network.as_ref().map(NetworkHandle::key).or(key);
        let runtime = tokio::runtime::Handle::current();
        let connections = Connections { network: network.clone().map(|network| (network, runtime)), group };
        let chain = RunningChain::start(context, chain, shared, connections, shelf.clone());
        Ok(Self {
            chain: Arc::new(chain),
            genesis,
            network,
            shelf,
            identity,
            starting,
            version: version.unwrap_or_else(own_version),
            rpc,
            listener,
            metrics_listener,
            progress,
        })
    }

    /// Chain of the node, and its threads.
    pub fn chain(&self) -> &Arc<RunningChain> {
        &self.chain
    }

    /// Starts the RPC server with `start`, usually [`RpcServer::start`].
    ///
    /// # Errors
    ///
    /// The server cannot start.
    pub fn serve(self, start: impl FnOnce(ServerParts) -> io::Result<RpcServer>) -> anyhow::Result<NodeHandle> {
        let Self { chain, genesis, network, shelf, identity, starting, version, rpc, listener, metrics_listener, progress } =
            self;
        let (shared, readers) = (&chain.shared, &chain.readers);
        let backend = Arc::new(NodeBackend {
            genesis: genesis.clone(),
            readers: readers.clone(),
            epoch_log: EpochLog::new(&chain.context().data, readers.current().reader.clone(), genesis.clone()),
            shelf,
            newest_blocks: NewestBlocks::new(genesis_header(&readers.current().reader)),
            shared: shared.clone(),
            network: network.clone(),
            identity,
            vm: chain.vm().clone(),
            starting,
            version,
        });
        let node_metrics = NodeMetrics {
            genesis: genesis.clone(),
            shared: shared.clone(),
            network: network.clone(),
            identity,
            consensus_key: chain.context().keys().map(MemberKeys::consensus_key),
            readers: readers.clone(),
            signer: chain.context().remote_signer().cloned(),
        };
        let mut registry = Registry::default();
        registry.register_collector(Box::new(SyncMetrics(progress.subscribe())));
        let parts = ServerParts {
            metrics: Metrics::register(&mut registry),
            registry: Arc::new(node_metrics.register(registry)),
            config: rpc,
            listener,
            metrics_listener,
            backend: backend.clone(),
            clock: Arc::new(clock::now),
        };
        // Otherwise the threads would keep the data directory.
        let server = start(parts).inspect_err(|_| chain.stop())?;
        let role = if chain.context().is_validator() { "validator" } else { "full node" };
        let (engine, chain_id, metrics) = (&genesis.engine.name, genesis.chain_id, server.metrics_address());
        let tolerates = genesis.fault_model().tolerates();
        tracing::info!(rpc = %server.address(), ?metrics, height = starting.0, chain_id, %engine, tolerates, "{role} is up");
        Ok(NodeHandle { chain, backend, server, network })
    }
}

impl NodeHandle {
    /// Address of JSON-RPC.
    pub fn rpc_address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Address of `/metrics`, if it is served.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.server.metrics_address()
    }

    /// Submits a signed transaction; returns its hash when it is in the pool.
    ///
    /// # Errors
    ///
    /// The node refuses the transaction, or is stopping.
    pub async fn submit(&self, raw: Bytes) -> Result<B256, RpcError> {
        self.backend.submit(raw).await
    }

    /// Receipt of a transaction; waits until the transaction is in a block. `None`: the node stopped before, or the
    /// transaction left the pool without being executed.
    pub async fn receipt(&self, transaction: &B256) -> Option<Receipt> {
        // Before the look-up, so that no block is missed.
        let mut events = self.backend.subscribe();
        loop {
            if let Some((height, index)) = self.backend.transaction(transaction) {
                return self.backend.block(height)?.receipts.get(index as usize).cloned();
            }
            if let Some(TransactionStatus::Dropped { .. } | TransactionStatus::Replaced { .. }) =
                self.backend.status(transaction)
            {
                return None;
            }
            let event = tokio::select! {
                event = events.recv() => event,
                _ = self.chain.shared.halted() => return None,
            };
            if let Err(RecvError::Closed) = event {
                return None;
            }
        }
    }

    /// Continues with other keys, without a restart: notices at once, engine and certificates from the next epoch on.
    ///
    /// # Errors
    ///
    /// The node was started without keys, or the engine refuses these.
    pub fn replace_keys(&self, keys: &Keyring) -> anyhow::Result<()> {
        self.chain.replace_keys(keys)
    }

    /// Committee of the running epoch.
    pub fn committee(&self) -> Arc<Committee> {
        self.chain.shared.committee()
    }

    /// Waits until the node halts by itself, which it does only if continuing would be unsafe.
    pub async fn halted(&self) -> Halted {
        self.chain.shared.halted().await
    }

    /// Stops the node: the RPC server first, the threads of the chain last.
    pub async fn stop(self) {
        self.server.stop().await;
        if let Some(network) = self.network {
            network.shutdown().await;
        }
        let chain = self.chain;
        // Waits for the threads.
        let _ = tokio::task::spawn_blocking(move || chain.stop()).await;
    }
}

/// Server for the time in which a snapshot is fetched, on duplicates of the listeners.
fn starting_parts(
    genesis: &Genesis,
    config: &RpcConfig,
    progress: &FetchProgress,
    listener: &TcpListener,
    metrics: Option<&TcpListener>,
) -> io::Result<StartingParts> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(SyncMetrics(progress.subscribe())));
    let progress = progress.subscribe();
    Ok(StartingParts {
        config: config.clone(),
        listener: duplicate(listener)?,
        metrics_listener: metrics.map(duplicate).transpose()?,
        registry: Arc::new(registry),
        chain_id: genesis.chain_id,
        progress: Arc::new(move || progress.borrow().map(fetch_status).unwrap_or_default()),
    })
}

fn duplicate(listener: &TcpListener) -> io::Result<TcpListener> {
    TcpListener::from_std(std::net::TcpListener::from(listener.as_fd().try_clone_to_owned()?))
}

fn genesis_header(reader: &Reader) -> Header {
    header_at(reader, Height(0))
}

// ---- peers -------------------------------------------------------------------------------------------------------------

/// A network whose events nobody forwards yet.
struct Network {
    handle: NetworkHandle,
    events: Events,
    /// Peers whose connection was seen already.
    connected: Vec<Peer>,
}

impl Network {
    /// Starts the network, if the configuration has addresses.
    async fn start(context: &NodeContext) -> anyhow::Result<Option<Self>> {
        let network = start_network(&context.config, &context.genesis, context.keys()).await?;
        Ok(network.map(|(handle, events)| Self { handle, events, connected: Vec::new() }))
    }

    /// Fills the data directory from a snapshot of peers, or leaves it empty.
    async fn fetch_state(&mut self, context: &NodeContext, progress: &FetchProgress) -> anyhow::Result<()> {
        let Self { handle, events, connected } = self;
        let only_if_ahead_by = (context.config.sync.mode == SyncMode::Auto).then_some(AUTO_SYNC_BLOCKS);
        let setup = FetchSetup {
            genesis: &context.genesis,
            data: &context.data,
            only_if_ahead_by,
            trust: context.config.sync.trust_point(),
            progress,
        };
        fetch_state(setup, handle, events, connected).await
    }

    /// Starts the threads that receive from it.
    fn connect(self, context: &NodeContext, checks: MessageChecks, source: &StateSource) -> NetworkHandle {
        let Self { handle, events, connected } = self;
        let shared = checks.shared.clone();
        let verifiers = Verifiers::spawn(context.config.limits.verify_threads, checks, &handle);
        let servers = BlockServers::spawn(source);
        let first = Committee::from_genesis(&context.genesis);
        tokio::spawn(forward_network_events(connected, events, verifiers, first, shared, servers));
        handle
    }
}

/// Refuses data of another chain than the trusted one. The pipeline checks epochs that end later.
fn check_trust(context: &NodeContext, store: &Store) -> Result<(), Halted> {
    let log = EpochLog::new(&context.data, store.reader(), context.genesis.clone());
    let contradiction = context.config.sync.trust_point().and_then(|trust| log.contradiction(trust));
    contradiction.map_or(Ok(()), |reason| Err(reason.into()))
}

/// Blocks behind the peers' newest certificate from which a new node begins with a snapshot.
const AUTO_SYNC_BLOCKS: u64 = 20_000;

/// Time since the genesis for which no chain has as many blocks, so that a network that begins does not look for snapshots.
const YOUNG_MS: u64 = 15 * 60 * 1_000;

fn is_young(genesis: &Genesis, now: TimestampMs) -> bool {
    now.0 < genesis.timestamp_ms.0.saturating_add(YOUNG_MS)
}

/// Returns whether the data directory has no chain yet, and the configuration asks for a snapshot.
fn wants_snapshot(context: &NodeContext) -> bool {
    let config = &context.config;
    let may = match config.sync.mode {
        SyncMode::Auto => config.state.history != History::Archive && !is_young(&context.genesis, clock::now()),
        SyncMode::Blocks => false,
        SyncMode::Snapshot => true,
    };
    may && !context.temporary && DataDirectory::new(&context.data).is_empty()
}

/// Starts the network with the addresses of a configuration; `None` if it has none.
///
/// # Errors
///
/// An address is not valid, or in use.
pub async fn start_network(
    config: &NodeConfig,
    genesis: &Genesis,
    keys: Option<&MemberKeys>,
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
    network.limits.guests = config.limits.guests;
    network.limits.guests_per_address = config.limits.guests_per_address;
    for address in &config.listen {
        network.listen.push(address.parse().with_context(|| format!("listen address {address}"))?);
    }
    for peer in &config.peers {
        network = network.with_bootstrap(peer).with_context(|| format!("peer address {peer}"))?;
    }
    Ok(Some(corniche_network::Network::start(network).await?))
}

/// Identity in `path`; created if it does not exist.
fn network_key(path: &Path) -> anyhow::Result<NetworkKey> {
    if !path.exists() {
        secret::write(path, &hex::encode(B256::random()))?;
    }
    secret::read(path, |text| hex::FromHex::from_hex(text).map(NetworkKey::from_seed))
}

/// Forwards network events to the verifiers and the pipeline, and answers followers from the store.
async fn forward_network_events(
    connected: Vec<Peer>,
    mut events: Events,
    verifiers: Verifiers,
    first: Committee,
    shared: Arc<Shared>,
    servers: BlockServers,
) {
    let peer_up = |peer: Peer| {
        shared.inbox.push_response(Input::PeerUp { peer: peer.id.0.0, validator: first.index_of(&peer.id.0) }.into());
    };
    connected.into_iter().for_each(peer_up);
    while let Some(event) = events.recv().await {
        match event {
            Event::PeerUp(peer) => {
                tracing::info!(%peer, "connected");
                peer_up(peer);
            }
            Event::PeerDown(peer) => {
                tracing::info!(%peer, "disconnected");
                shared.inbox.push_response(Input::PeerDown { peer: peer.id.0.0 }.into());
            }
            Event::Message { from, bytes, .. } => {
                let is_queued = verifiers.offer(from.id, bytes);
                count(&shared.counters.inbox_dropped, usize::from(!is_queued));
            }
            Event::Request { from, bytes, reply } => servers.serve(from, bytes, reply),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Trust, epoch_log, testing::spec};
    use corniche_types::{Certificate, Epoch, EpochChange, SignerBitmap, TrustPoint};

    /// The pipeline checks only epochs that end while the node runs.
    #[test]
    fn data_of_another_chain_than_the_trusted_one_are_refused_at_the_start() {
        let directory = tempfile::tempdir().unwrap();
        let genesis = crate::make_network(&spec()).unwrap().genesis;
        let store = Store::open(directory.path(), &genesis, Default::default()).unwrap().0;
        // The genesis is the only block, so it ends the epoch here.
        let header = genesis_header(&store.reader());
        let hash = corniche_types::header_hash(&header);
        let certificate = Certificate {
            epoch: Epoch(0),
            committee_hash: genesis.committee_hash(),
            height: Height(0),
            header_hash: hash,
            fault_model: genesis.fault_model(),
            signers: SignerBitmap(Bytes::new()),
            signature: Bytes::new(),
        };
        let change = EpochChange { header, head: Bytes::new(), certificate, members: None };
        let mut members = epoch_log::first_members(&genesis);
        epoch_log::import(&DataDirectory::new(directory.path()), &change, &mut members).unwrap();
        drop(store);
        let start = |trusted: B256| {
            let point = TrustPoint { chain_id: genesis.chain_id, epoch: Epoch(0), hash: trusted };
            let mut config: NodeConfig = toml::from_str("genesis = 'g.json'\nrpc = '127.0.0.1:0'\nmetrics = 'off'").unwrap();
            config.sync.trust = Some(Trust::Point(point));
            let setup =
                NodeSetup::new(config, VerifiedGenesis::new(genesis.clone()).unwrap(), None, directory.path().to_owned());
            let runtime = runtime(&setup.config).unwrap();
            runtime.block_on(async { Node::open(setup).await.map(|node| node.chain.stop()) })
        };
        start(hash).unwrap();
        let error = start(B256::repeat_byte(1)).unwrap_err();
        assert!(error.downcast_ref::<Halted>().is_some_and(|halted| halted.reason.contains("another chain")), "{error}");
    }
}
