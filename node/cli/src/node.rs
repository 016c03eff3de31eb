//! `corniche node` and `corniche dev`.

use crate::{
    engines, explorer, genesis,
    keys::{self, rotation::KeyWatch, source::KeySource},
    logging, signals,
};
use anyhow::Context;
use corniche_api::Namespaces;
use corniche_basil_service::Setup;
use corniche_console::{
    dev_accounts::dev_accounts,
    exit::{self, Exit, Failed},
};
use corniche_service::{
    HaltCause, Halted, Limits, NetworkSpec, Node, NodeConfig, NodeHandle, NodeSetup, Serve, Validator, ValidatorKeys,
    VerifiedGenesis,
};
use corniche_store::History;
use corniche_types::SHARDED_ENGINE;
use corniche_web::indexer::Keep;
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};
use tokio::runtime::Runtime;

/// Run a validator or a full node; on a sharded chain, a replica or a gateway
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Configuration file; see docs/join-as-a-validator.md
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Data directory; created if it does not exist
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Rebuild state and indices from the log
    #[arg(long)]
    rebuild: bool,
    /// RPC namespaces to serve, separated by commas, or "all"; default: those of the configuration
    #[arg(long, value_name = "LIST")]
    namespaces: Option<Namespaces>,
    /// Number of blocks whose states are kept on disk, or "archive" for all; default: the configuration's value
    #[arg(long, value_name = "BLOCKS")]
    history: Option<History>,
}

/// Runs `corniche node` until it is stopped.
pub fn run(args: Args) -> anyhow::Result<()> {
    let mut config = NodeConfig::load(&args.config)?;
    if let Some(namespaces) = args.namespaces {
        config.serve.namespaces = namespaces;
    }
    if let Some(history) = args.history {
        config.state.history = history;
    }
    let genesis = genesis::load(&config.genesis)?;
    let source = KeySource::open(&config, &genesis)?;
    let keys = source.as_ref().map(keys::rotation::load_all).transpose()?;
    if genesis.engine.name == SHARDED_ENGINE {
        let keys = keys.with_context(|| {
            let config = args.config.display();
            format!("a node of {SHARDED_ENGINE} is a replica or a gateway of the genesis; set `keys` in {config}")
        })?;
        return serve_member(Setup { config, genesis, keys, data: args.data });
    }
    let watch = source.zip(keys.clone()).map(|(source, keys)| KeyWatch::new(source, keys));
    let validator = keys.map(|keys| Validator { keys, engine: engines::build });
    let setup = NodeSetup { rebuild: args.rebuild, ..NodeSetup::new(config, genesis, validator, args.data) };
    serve(corniche_service::runtime(&setup.config)?, Node::start(setup), watch, None, |_| {})
}

/// Runs a replica or a gateway until it is stopped.
fn serve_member(setup: Setup) -> anyhow::Result<()> {
    let runtime = corniche_service::runtime(&setup.config)?;
    logging::start();
    let result = runtime.block_on(async {
        let mut member = corniche_basil_service::start(setup).await?;
        let halted = tokio::select! {
            () = signals::stop_signal() => None,
            error = member.halted() => Some(error),
        };
        member.stop().await;
        halted.map_or(Ok(()), |error| Err(Failed::new(Exit::Halted, format!("{error:#}")).into()))
    });
    // Threads that still wait for a client end with the process.
    runtime.shutdown_background();
    result
}

/// Run a development chain with one validator
///
/// The accounts are the same at each start. The chain and its id are new at each start, unless --data keeps them. The node serves the
/// methods of test tools for time, mining, snapshots and account state (docs/develop.md).
#[derive(clap::Args, Debug)]
pub struct DevArgs {
    /// RPC port on 127.0.0.1; 0 selects a free one
    #[arg(long, default_value_t = 8545)]
    port: u16,
    /// Chain id; default: derived from the genesis, so that wallets can distinguish chains
    #[arg(long, value_name = "NUMBER")]
    chain_id: Option<u64>,
    /// Directory in which the chain is kept; without it, the chain is deleted when the node stops
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Ordering engine of a new chain; default: mahi-mahi
    #[arg(long, value_name = "NAME", value_parser = engines::names())]
    engine: Option<String>,
    /// RPC namespaces to serve, separated by commas; default: all
    #[arg(long, value_name = "LIST")]
    namespaces: Option<Namespaces>,
    /// Value of `web3_clientVersion`, for test tools that expect a specific name
    #[arg(long, value_name = "TEXT")]
    client_version: Option<String>,
    /// Port of the explorer on 127.0.0.1; 0 selects a free one. Default: 4000, or a free one if that is in use
    #[arg(long, value_name = "PORT")]
    explorer_port: Option<u16>,
    /// Number of DAG rounds that the explorer keeps; 0 disables DAG requests
    #[arg(long, value_name = "ROUNDS", default_value_t = Keep::default().dag_rounds)]
    dag_rounds: u64,
    /// Do not start an explorer
    #[arg(long, conflicts_with_all = ["explorer_port", "dag_rounds"])]
    no_explorer: bool,
    /// Print the first line as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `corniche dev` until it is stopped.
pub fn run_dev(args: DevArgs) -> anyhow::Result<()> {
    let temporary = match &args.data {
        Some(_) => None,
        None => Some(tempfile::Builder::new().prefix("corniche-dev-").tempdir().context("cannot make a temporary directory")?),
    };
    let directory = args.data.clone().or_else(|| temporary.as_ref().map(|dir| dir.path().into())).unwrap_or_default();
    let (genesis, keys) = dev_chain(&args, &directory)?;
    let config = NodeConfig {
        genesis: directory.join("genesis.json"),
        rpc: ([127, 0, 0, 1], args.port).into(),
        serve: Serve {
            namespaces: args.namespaces.clone().unwrap_or_else(Namespaces::all),
            log_span_seconds: u64::MAX,
            // All clients are on this machine.
            spare_loopback: true,
            ..Serve::default()
        },
        // All states of a development chain fit into memory.
        limits: Limits { recent_states: u64::MAX, ..Limits::default() },
        ..NodeConfig::default()
    };
    let (json, chain_id, engine) = (args.json, genesis.chain_id, genesis.engine.name.clone());
    // Port 0, a free port, applies to both.
    let port = args.explorer_port.or((args.port == 0).then_some(0));
    let keep = Keep { dag_rounds: args.dag_rounds, ..Keep::default() };
    let currency = genesis.currency.clone();
    let explorer = (!args.no_explorer).then(|| ExplorerSetup { port, data: directory.join("explorer"), keep, currency });
    let validator = Some(Validator { keys: keys.into(), engine: engines::build });
    let setup = NodeSetup {
        temporary: temporary.is_some(),
        version: args.client_version,
        ..NodeSetup::new(config, genesis, validator, directory.join("data"))
    };
    let runtime = corniche_service::runtime(&setup.config)?;
    serve(runtime, corniche_devchain::start(setup), None, explorer, |addresses| announce(json, chain_id, &engine, addresses))
}

/// Explorer in the node's process.
struct ExplorerSetup {
    /// Port on this machine. `None`: the default port, or a free one if that is in use.
    port: Option<u16>,
    /// Directory of the explorer.
    data: PathBuf,
    keep: Keep,
    currency: String,
}

/// Addresses of a running node.
struct ServedAddresses {
    rpc: SocketAddr,
    metrics: Option<SocketAddr>,
    explorer: Option<SocketAddr>,
}

/// Runs a node until it is stopped or halts. Calls `ready` once it serves requests.
fn serve(
    runtime: Runtime,
    start: impl Future<Output = anyhow::Result<NodeHandle>>,
    keys: Option<KeyWatch>,
    explorer: Option<ExplorerSetup>,
    ready: impl FnOnce(ServedAddresses),
) -> anyhow::Result<()> {
    logging::start();
    let result = runtime.block_on(async {
        let node = start.await?;
        let rpc = node.rpc_address();
        let explorer = match explorer {
            Some(setup) => Some(start_explorer(setup, rpc).await?),
            None => None,
        };
        ready(ServedAddresses { rpc, metrics: node.metrics_address(), explorer });
        let watch = async {
            match keys {
                Some(keys) => keys.run(&node).await,
                None => std::future::pending().await,
            }
        };
        let halted = tokio::select! {
            halted = wait_for_shutdown(&node) => halted,
            never = watch => match never {},
        };
        node.stop().await;
        halted.map_or(Ok(()), |halted| Err(halted.into()))
    });
    // Threads that still wait for a client end with the process.
    runtime.shutdown_background();
    result.map_err(with_exit_code)
}

/// A node that halted has an exit code of its own.
fn with_exit_code(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<Halted>() {
        Some(Halted { cause, reason }) => {
            let exit = match cause {
                HaltCause::Fault => Exit::Halted,
                HaltCause::Twin => Exit::Twin,
                HaltCause::Outdated => Exit::Outdated,
            };
            Failed::new(exit, reason.clone()).into()
        }
        None => error,
    }
}

/// The explorer responds at once, and ends with the process: it can rebuild all its data.
async fn start_explorer(setup: ExplorerSetup, rpc: SocketAddr) -> anyhow::Result<SocketAddr> {
    let ExplorerSetup { port, data, keep, currency } = setup;
    let explorer = match explorer::beside(rpc, port.unwrap_or(explorer::PORT), &data, keep, &currency).await {
        Err(_) if port.is_none() => explorer::beside(rpc, 0, &data, keep, &currency).await?,
        explorer => explorer?,
    };
    let address = explorer.address()?;
    tokio::spawn(async move {
        if let Err(error) = explorer.run(std::future::pending()).await {
            tracing::error!(%error, "the explorer ended");
        }
    });
    Ok(address)
}

async fn wait_for_shutdown(node: &NodeHandle) -> Option<Halted> {
    tokio::select! {
        () = signals::stop_signal() => None,
        halted = node.halted() => Some(halted),
    }
}

/// Marker file, written last in a directory of `corniche dev`: everything next to it was created by `corniche
/// dev`.
const DEV_MARKER: &str = "DEV";

/// Genesis and keys from `directory`, or new ones.
fn dev_chain(args: &DevArgs, directory: &Path) -> anyhow::Result<(VerifiedGenesis, ValidatorKeys)> {
    let [genesis_path, keys_path, data, marker] = ["genesis.json", "keys", "data", DEV_MARKER].map(|name| directory.join(name));
    let refuse = |reason: String| Err(Failed::new(Exit::Failure, reason).into());
    if !marker.exists() {
        // A validator's directory may look the same, and on this chain any client may reset the data.
        if let Some(found) = [&genesis_path, &keys_path, &data].into_iter().find(|path| path.exists()) {
            return refuse(format!(
                "{} exists and was not made by `corniche dev`, which may delete the contents of its directory: use another directory. If an earlier \
                 version of `corniche dev` made all of it, create an empty file {} and start again",
                found.display(),
                marker.display()
            ));
        }
    } else if genesis_path.exists() {
        let genesis = genesis::load(&genesis_path)?;
        if genesis.validators.len() != 1 {
            let (path, validators) = (genesis_path.display(), genesis.validators.len());
            return refuse(format!("{path} is of a network of {validators} validators; a development chain has one"));
        }
        if let Some(requested) = args.chain_id.filter(|requested| *requested != genesis.chain_id) {
            return refuse(format!("{} holds chain {}, not {requested}", directory.display(), genesis.chain_id));
        }
        engines::check_matches(&genesis, args.engine.as_deref(), directory)?;
        return Ok((genesis, keys::load(&keys_path)?));
    }
    let spec = NetworkSpec {
        validators: 1,
        chain_id: args.chain_id,
        block_ms: 0,
        engine: engines::single_node(args.engine.as_deref().unwrap_or(engines::DEFAULT))?,
        ..genesis::default_spec()
    };
    let network = genesis::make_network(&spec)?;
    std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    std::fs::write(&genesis_path, network.genesis.to_json())?;
    let keys = network.validators.into_iter().next().context("a single-validator genesis has one validator")?;
    keys::save(&keys, &keys_path)?;
    std::fs::write(&marker, "made by corniche dev\n").with_context(|| format!("cannot write {}", marker.display()))?;
    Ok((VerifiedGenesis::new(network.genesis)?, keys))
}

fn announce(json: bool, chain_id: u64, engine: &str, ServedAddresses { rpc, metrics, explorer }: ServedAddresses) {
    let metrics = metrics.map(|address| format!("http://{address}/metrics"));
    let explorer = explorer.map(|address| format!("http://{address}"));
    let accounts = dev_accounts();
    if json {
        let accounts: Vec<_> =
            accounts.iter().map(|account| serde_json::json!({"address": account.address, "key": account.secret})).collect();
        exit::result(serde_json::json!({
            "chainId": chain_id, "engine": engine, "rpc": format!("http://{rpc}"), "metrics": metrics,
            "explorer": explorer, "accounts": accounts,
        }));
        return;
    }
    exit::result(format_args!("Corniche development chain on {engine}, chain id {chain_id}\n\n  http://{rpc}   ws://{rpc}"));
    if let Some(explorer) = explorer {
        exit::result(format_args!("  {explorer}   explorer"));
    }
    exit::result("\nFunded accounts (their keys are public: for development only)");
    for account in &accounts {
        exit::result(format_args!("  {}  {}", account.address, account.secret));
    }
    exit::result("\nStop with Ctrl-C");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dev(directory: &Path) -> Result<VerifiedGenesis, String> {
        #[derive(clap::Parser)]
        struct Dev {
            #[command(flatten)]
            args: DevArgs,
        }
        let args = <Dev as clap::Parser>::parse_from(["corniche dev"]).args;
        dev_chain(&args, directory).map(|(genesis, _)| genesis).map_err(|error| error.to_string())
    }

    /// On a development chain any client may reset the data. A validator's data contains its signatures.
    #[test]
    fn foreign_dev_directory_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let own = directory.path().join("own");
        let genesis = dev(&own).unwrap();
        assert_eq!(dev(&own).unwrap(), genesis, "its own is taken up");
        std::fs::remove_file(own.join(DEV_MARKER)).unwrap();
        assert!(dev(&own).unwrap_err().contains("was not made by `corniche dev`"));
        std::fs::write(own.join(DEV_MARKER), "").unwrap();
        assert_eq!(dev(&own).unwrap(), genesis, "as the refusal says");

        // Directories of a validator, in any stage of its setup.
        for name in ["genesis.json", "keys", "data"] {
            let directory = directory.path().join(format!("with {name}"));
            std::fs::create_dir_all(&directory).unwrap();
            let from = own.join(if name == "data" { "keys" } else { name });
            std::fs::rename(&from, directory.join(name)).unwrap();
            let error = dev(&directory).unwrap_err();
            assert!(error.contains(&format!("{name} exists")) && error.contains("DEV"), "{error}");
            assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1, "nothing was written");
            std::fs::rename(directory.join(name), &from).unwrap();
        }
        let spec = NetworkSpec { validators: 2, ..genesis::default_spec() };
        std::fs::write(own.join("genesis.json"), genesis::make_network(&spec).unwrap().genesis.to_json()).unwrap();
        assert!(dev(&own).unwrap_err().contains("2 validators"));
    }
}
