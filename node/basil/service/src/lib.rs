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

use anyhow::Context;
use corniche_basil::message::Peer;
use corniche_basil::verify::Verifier;
use corniche_basil_contracts::Chain;
use corniche_crypto::ConsensusKey;
use corniche_network::NetworkHandle;
use corniche_rpc::RpcServer;
use corniche_service::{
    Keyring, MetricsAddress, NodeConfig, Signing, VerifiedGenesis, check_open_files, open_vm, raise_open_files, start_network,
};
use corniche_store::{CodeCache, Options};
use corniche_types::{Genesis, ProtocolRules, SHARDED_ENGINE};
pub use history::CheckedHistory;
use keys::MemberSignatures;
use ledger::Ledger;
use mail::{Counters, Post};
use members::Members;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

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
    server: Option<RpcServer>,
    network: NetworkHandle,
    stop: Box<dyn FnOnce() + Send>,
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
        anyhow::bail!("a remote signer does not know the statements of {SHARDED_ENGINE}; use keys in `keys`, without `signer`");
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
    /// Waits until the member halts by itself, because it cannot go on safely.
    pub async fn halted(&mut self) -> anyhow::Error {
        match (&mut self.ended).await {
            Ok(error) => error,
            Err(_) => std::future::pending().await,
        }
    }

    /// Stops the member. Everything that others may know is on disk already.
    pub async fn stop(self) {
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
