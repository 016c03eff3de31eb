//! Processes of a sharded chain: a replica of a shard, and a gateway, which serves wallets.
//!
//! ```text
//!   wallets ─ JSON-RPC ─▶ backend ─▶ pool ─▶ GATEWAY thread ◀─ libp2p ─▶ REPLICA threads (12 with two shards)
//!                            ▲                 │ certificates               │ journal
//!                            └── live state ◀──┤                            ▼
//!                                blocks     ◀──┘ closed ranges             disk
//! ```
//!
//! The genesis lists the members ([`members`]); a process finds its own place by its keys. Each member runs its state machine on one
//! thread, which owns its files.
//!
//! Modules, lowest first: [`members`], [`keys`] (of signatures), [`mail`] (messages between members); [`journal`], [`replica`]; [`archive`] (certificates), [`block`], [`ledger`],
//! [`certified_blocks`] (for other gateways),
//! [`live`] (committed since the last block), [`state`] (shared with RPC), [`gateway`], [`backend`] (for RPC),
//! [`history`] (checks a ledger); [`metrics`].

mod archive;
mod backend;
mod block;
mod certified_blocks;
mod gateway;
mod history;
mod journal;
mod keys;
mod ledger;
mod live;
mod mail;
mod members;
mod metrics;
mod replica;
mod state;

use anyhow::{Context, ensure};
use backend::GatewayBackend;
use certified_blocks::{CertifiedBlocks, Fetcher};
use corniche_admission::{Pool, PoolConfig};
use corniche_basil::client::Client;
use corniche_basil::copy::StateCopy;
use corniche_basil::message::Peer;
use corniche_basil::record::Record;
use corniche_basil::replica::{Replica, Setup as ReplicaSetup};
use corniche_basil::shards::{ClientId, ReplicaId};
use corniche_basil::verify::Verifier;
use corniche_basil_contracts::gateway::Gateway;
use corniche_basil_contracts::{Chain, chain};
use corniche_crypto::ConsensusKey;
use corniche_engine::Committee;
use corniche_network::NetworkHandle;
use corniche_rpc::{Metrics, RpcServer, ServerParts, serve_metrics};
use corniche_service::{
    Faucet, Keyring, MetricsAddress, NewestBlocks, NodeConfig, Signing, VerifiedGenesis, check_open_files, fresh_seed, now,
    open_vm, raise_open_files, start_network,
};
use corniche_store::{CodeCache, DataDirectory, Options, genesis_block};
use corniche_types::{Genesis, Height, ProtocolRules};
use gateway::GatewayThread;
pub use history::CheckedHistory;
use journal::{Identity, Journal};
use keys::{MemberKey, MemberSignatures};
use ledger::Ledger;
use live::Live;
use mail::{Counters, Mail, Post};
pub use members::ENGINE;
use members::Members;
use metrics::{MemberMetrics, Role};
use prometheus_client::registry::Registry;
use replica::{End, Progress, ReplicaThread, copy_state};
use state::GatewayState;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};

/// Bytes of compiled code that a replica keeps on disk.
const CODE_CACHE_BYTES: u64 = 1 << 30;
const STACK_BYTES: usize = corniche_vm::THREAD_STACK_BYTES;

/// Everything that a member is started from.
pub struct Setup {
    pub config: NodeConfig,
    pub genesis: VerifiedGenesis,
    pub keys: Keyring,
    pub data: PathBuf,
}

/// A running member.
pub struct Running {
    rpc: Option<SocketAddr>,
    metrics: Option<SocketAddr>,
    server: Option<RpcServer>,
    network: NetworkHandle,
    stop: Box<dyn FnOnce() + Send>,
    stopping: watch::Sender<bool>,
    ended: oneshot::Receiver<anyhow::Error>,
    thread: JoinHandle<()>,
}

/// Checks that the genesis describes a sharded chain.
///
/// # Errors
///
/// See [`Members::of`].
pub fn check(genesis: &Genesis) -> anyhow::Result<()> {
    Members::of(genesis).map(drop)
}

/// f: replicas of each shard that may be faulty.
///
/// # Errors
///
/// See [`check`].
pub fn faulty(genesis: &Genesis) -> anyhow::Result<usize> {
    Ok(Members::of(genesis)?.shards.validity() - 1)
}

/// Checks the data directory of a stopped gateway; see [`CheckedHistory`].
///
/// # Errors
///
/// The directory cannot be read, a gateway uses it, or its content contradicts itself.
pub fn check_history(config: &NodeConfig, genesis: VerifiedGenesis, data: &Path) -> anyhow::Result<CheckedHistory> {
    let genesis: Arc<Genesis> = Arc::new(genesis.into());
    let members = Arc::new(Members::of(&genesis)?);
    let options = Options { backend: config.index, history: config.state.history, ..Options::default() };
    let ledger = Ledger::open(data, Arc::clone(&genesis), Arc::clone(&members), options, 0)?;
    history::check(&genesis, &members, &ledger)
}

/// Starts the member with these keys. Call it on [`corniche_service::runtime`].
///
/// # Errors
///
/// The genesis does not list the keys, an address is in use, or the data directory cannot be opened.
pub async fn start(setup: Setup) -> anyhow::Result<Running> {
    let Setup { config, genesis, keys, data } = setup;
    let genesis: Arc<Genesis> = Arc::new(genesis.into());
    let members = Arc::new(Members::of(&genesis)?);
    let index = keys.current.index_in(&genesis)?.context("the genesis does not list these keys")?;
    let own = members.peer(index).context("invariant: every validator of the genesis is a member")?;
    let Signing::Own { consensus, .. } = &keys.current.signing else {
        anyhow::bail!("a remote signer does not know the statements of {ENGINE}; use keys in `keys`, without `signer`");
    };
    check_open_files(&config, genesis.validators.len(), raise_open_files())?;
    let metrics_listener = MetricsAddress::bind(config.metrics, config.rpc).await?;
    let network = start_network(&config, &genesis, Some(&keys.current)).await?;
    let (network, events) = network.context("expected addresses in `listen` and `peers`")?;
    let counters = Arc::new(Counters::default());
    let verifier = Verifier::new(Arc::clone(&members.shards), Arc::new(MemberSignatures::of(&genesis, &members)));
    let post = Post::new(Arc::clone(&members), network.clone(), verifier, Arc::clone(&counters));
    let parts =
        Parts { config, genesis, members, consensus: consensus.clone(), data, network, post, counters, metrics_listener };
    match own {
        Peer::Replica(id) => parts.start_replica(id, events),
        Peer::Client(id) => parts.start_gateway(id, events).await,
    }
}

/// Rules of a chain.
fn chain_of(genesis: &Genesis, cache: CodeCache) -> anyhow::Result<Chain> {
    Ok(Chain {
        vm: open_vm(genesis, 1, cache)?,
        rules: ProtocolRules::of(genesis.protocol_version).context("invariant: a genesis is of a known version")?,
        chain_id: genesis.chain_id,
        genesis_ms: genesis.timestamp_ms.0,
        block_ms: genesis.block_ms,
        gas_limit: genesis.block_gas_limit,
        base_fee: genesis.fees.initial_base_fee,
    })
}

/// Parts of both kinds of members.
struct Parts {
    config: NodeConfig,
    genesis: Arc<Genesis>,
    members: Arc<Members>,
    consensus: ConsensusKey,
    data: PathBuf,
    network: NetworkHandle,
    post: Post,
    counters: Arc<Counters>,
    metrics_listener: Option<TcpListener>,
}

impl Parts {
    /// True if a replica may vote at once: it has the records of everything that it signed, or its keys signed nothing yet.
    fn may_start(&self, journal: &mut Journal, records: &mut Vec<Record>) -> anyhow::Result<bool> {
        let unsigned = DataDirectory::new(&self.data).unsigned();
        let key = self.consensus.public().to_string();
        if records.is_empty() && fs::read_to_string(&unsigned).is_ok_and(|listed| listed.trim() == key) {
            records.push(Record::Closed { below_us: self.genesis_us() });
            journal.append(records.clone());
            journal.sync()?;
        }
        if unsigned.exists() {
            // From here on, nobody may claim that nothing was signed.
            fs::remove_file(&unsigned).with_context(|| format!("cannot remove {}", unsigned.display()))?;
        }
        Ok(!records.is_empty())
    }

    fn genesis_us(&self) -> u64 {
        self.genesis.timestamp_ms.0.saturating_mul(1_000)
    }

    fn start_replica(self, id: ReplicaId, events: corniche_network::Events) -> anyhow::Result<Running> {
        let identity = Identity { genesis: self.genesis.hash(), replica: id };
        let (mut journal, mut records) = Journal::open(&self.data, identity)?;
        let recovered = records.len();
        let mut may_start = self.may_start(&mut journal, &mut records)?;
        let chain = chain_of(&self.genesis, CodeCache::open(self.data.join("code"), CODE_CACHE_BYTES)?)?;
        let owned = chain::genesis(&genesis_block(&self.genesis).changes);
        let owned = owned.into_iter().filter(|(key, _)| self.members.shards.shard_of(key) == id.shard).collect();
        let mut setup = ReplicaSetup {
            config: self.members.config.clone(),
            shards: Arc::clone(&self.members.shards),
            id,
            signer: Arc::new(MemberKey::new(self.consensus.clone(), self.genesis.chain_id)),
            program: Arc::new(chain),
            genesis: owned,
            genesis_us: self.genesis_us(),
            records,
        };
        let progress = Arc::new(Progress::default());
        let (mail, inbox) = mail::queue();
        let (mut post, known) = (self.post, Arc::clone(&progress));
        let run = move || {
            loop {
                if !may_start {
                    tracing::warn!(
                        "this replica lost its records, or was away for too long: it copies the state before it votes again"
                    );
                    let copy = StateCopy::new(now(), &setup.config, Arc::clone(&setup.shards), id);
                    let Some(copied) = copy_state(copy, &mut post, &inbox) else { return Ok(()) };
                    journal.replace(&copied)?;
                    tracing::info!(records = copied.len(), "the state is copied");
                    setup.records = copied;
                }
                let replica = Replica::new(now(), setup.clone());
                setup.records.clear();
                match (ReplicaThread { replica, journal, post, progress: Arc::clone(&known) }).run(&inbox)? {
                    End::Stopped => return Ok(()),
                    End::Behind(kept) => ((journal, post), may_start) = (*kept, false),
                }
            }
        };
        let (ended, thread) = spawn("replica", run)?;
        let forward = mail::forward(events, self.members, mail.clone(), Arc::clone(&self.counters), |_: &[u8]| None);
        tokio::spawn(forward);
        let mut registry = Registry::default();
        registry.register_collector(Box::new(MemberMetrics { mail: self.counters, role: Role::Replica(progress) }));
        let (stopping, stopped) = watch::channel(false);
        let metrics = self.metrics_listener.as_ref().map(TcpListener::local_addr).transpose()?;
        if let Some(listener) = self.metrics_listener {
            tokio::spawn(serve_metrics(listener, Arc::new(registry), stopped));
        }
        let (shard, member, chain_id) = (id.shard.0, id.member, self.genesis.chain_id);
        tracing::info!(shard, member, chain_id, recovered, ?metrics, "replica is up");
        let stop = Box::new(move || _ = mail.send(Mail::Stop));
        Ok(Running { rpc: None, metrics, server: None, network: self.network, stop, stopping, ended, thread })
    }

    async fn start_gateway(self, id: ClientId, events: corniche_network::Events) -> anyhow::Result<Running> {
        ensure!(
            self.config.limits.pool_transactions > 0,
            "limits: expected room for at least one transaction in the pool; raise pool_transactions"
        );
        let rpc = self.config.rpc;
        let listener = TcpListener::bind(rpc).await.with_context(|| format!("cannot serve RPC on {rpc}"))?;
        let faucet = self.config.faucet.as_ref().map(Faucet::rpc).transpose()?;
        let options = Options { backend: self.config.index, history: self.config.state.history, ..Options::default() };
        let recent_states = self.config.limits.recent_states.max(options.checkpoint_lag);
        let (genesis, members) = (Arc::clone(&self.genesis), Arc::clone(&self.members));
        let ledger = Ledger::open(&self.data, genesis, members, options, recent_states)?;
        let (reader, state, chain) = (ledger.reader(), ledger.state(), ledger.chain().clone());
        let pool = PoolConfig {
            max_transactions: self.config.limits.pool_transactions,
            gas_limit: self.genesis.block_gas_limit,
            ..PoolConfig::from_genesis(&self.genesis)
        };
        let shared = Arc::new(GatewayState::new(Pool::new(pool), Live::new(state.latest()), ledger.certified()));
        let signer = Arc::new(MemberKey::new(self.consensus.clone(), self.genesis.chain_id));
        let config = self.members.config.clone();
        let client = Client::new(config, Arc::clone(&self.members.shards), id, signer, ledger.exported_us());
        let gateway = Gateway::new(chain.clone(), client, fresh_seed());
        let (mail, inbox) = mail::queue();
        let height = ledger.head();
        let backend = GatewayBackend {
            genesis: Arc::clone(&self.genesis),
            genesis_header: reader.header(Height(0)).unwrap_or_else(|| genesis_block(&self.genesis).block.header),
            members: Arc::clone(&self.members),
            reader,
            state,
            tree: ledger.tree(),
            archive: ledger.archive(),
            newest_blocks: NewestBlocks::default(),
            committee: Committee::from_genesis(&self.genesis),
            shared: Arc::clone(&shared),
            network: self.network.clone(),
            vm: chain.vm.clone(),
            mail: mail.clone(),
            client: id,
            rules: chain.rules,
        };
        let archive = ledger.archive();
        let fetcher = Fetcher {
            runtime: tokio::runtime::Handle::current(),
            network: self.network.clone(),
            members: Arc::clone(&self.members),
            mail: mail.clone(),
            own: id,
        };
        let thread = GatewayThread::new(gateway, ledger, self.post, Arc::clone(&shared), fetcher);
        let (ended, thread) = spawn("gateway", move || thread.run(&inbox))?;
        let answer = move |question: &[u8]| CertifiedBlocks::answer(&archive, question);
        tokio::spawn(mail::forward(events, self.members, mail.clone(), Arc::clone(&self.counters), answer));
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        registry.register_collector(Box::new(MemberMetrics { mail: self.counters, role: Role::Gateway(shared) }));
        let server = RpcServer::start(ServerParts {
            config: corniche_rpc::RpcConfig { faucet, ..self.config.serve.rpc() },
            listener,
            backend: Arc::new(backend),
            metrics,
            metrics_listener: self.metrics_listener,
            registry: Arc::new(registry),
            clock: Arc::new(now),
        })?;
        let (rpc, metrics) = (Some(server.address()), server.metrics_address());
        tracing::info!(rpc = %server.address(), ?metrics, height = height.0, chain_id = self.genesis.chain_id, "gateway is up");
        let stop = Box::new(move || _ = mail.send(Mail::Stop));
        let stopping = watch::Sender::new(false);
        Ok(Running { rpc, metrics, server: Some(server), network: self.network, stop, stopping, ended, thread })
    }
}

/// Starts a member's thread. The receiver gets the reason if it cannot go on.
fn spawn(
    name: &str,
    run: impl FnOnce() -> anyhow::Result<()> + Send + 'static,
) -> anyhow::Result<(oneshot::Receiver<anyhow::Error>, JoinHandle<()>)> {
    let (sender, ended) = oneshot::channel();
    let body = move || {
        if let Err(error) = run() {
            tracing::error!(error = format!("{error:#}"), "the member halted");
            // An error means that the process is stopping.
            let _ = sender.send(error);
        }
    };
    let thread = std::thread::Builder::new().name(name.into()).stack_size(STACK_BYTES).spawn(body)?;
    Ok((ended, thread))
}

impl Running {
    /// Address of JSON-RPC; `None` for a replica.
    pub fn rpc_address(&self) -> Option<SocketAddr> {
        self.rpc
    }

    /// Address of `/metrics`, if it is served.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics
    }

    /// Waits until the member halts by itself, because it cannot go on safely.
    pub async fn halted(&mut self) -> anyhow::Error {
        match (&mut self.ended).await {
            Ok(error) => error,
            Err(_) => std::future::pending().await,
        }
    }

    /// Stops the member. Everything that others may know is on disk already.
    pub async fn stop(self) {
        self.stopping.send_replace(true);
        if let Some(server) = self.server {
            server.stop().await;
        }
        self.network.shutdown().await;
        let (stop, thread) = (self.stop, self.thread);
        let _ = tokio::task::spawn_blocking(move || {
            stop();
            thread.join()
        })
        .await;
    }
}
