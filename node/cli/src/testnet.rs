//! `corniche testnet`: a whole network as processes on this machine.
//!
//! The directory has `testnet.json` (written by `up`), `genesis.json`, and per node a folder with
//! `node.toml`, its keys, `data/` and `node.log`. `up` on an existing directory starts the same network again
//! with its data.

use crate::{engines, explorer, genesis, keys};
use anyhow::{Context, bail, ensure};
use corniche_api::Namespaces;
use corniche_client::Client;
use corniche_console::{
    dev_accounts::dev_accounts,
    exit::{self, Exit, Failed},
    secret,
};
use corniche_network::PeerKey;
use corniche_service::{Faucet, Limits, METRICS_ABOVE_RPC, MetricsAddress, NetworkKey, NetworkSpec, NodeConfig, Serve};
use corniche_types::{B256, EngineConfig};
use corniche_web::indexer::Keep;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::{
    ffi::OsString,
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// Timeout of `up` for all nodes to start, and of `down` for each to stop.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Run a network of several validators on this machine
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    command: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Start a new network, or restart a stopped one on its data
    Up(Up),
    /// Stop the network; its data is kept unless --wipe is given
    Down {
        #[command(flatten)]
        directory: DirectoryArgs,
        /// Delete the network's directory afterwards
        #[arg(long)]
        wipe: bool,
    },
    /// Print the status and height of all nodes
    Status {
        #[command(flatten)]
        directory: DirectoryArgs,
        #[arg(long)]
        json: bool,
    },
}

#[derive(clap::Args, Debug)]
struct DirectoryArgs {
    /// Directory of the network
    #[arg(long, value_name = "DIR", default_value = ".testnet")]
    dir: PathBuf,
}

#[derive(clap::Args, Debug)]
struct Up {
    #[command(flatten)]
    directory: DirectoryArgs,
    /// Number of validators of a new network
    #[arg(long, default_value_t = 4)]
    validators: usize,
    /// Number of full nodes of a new network
    #[arg(long, default_value_t = 0)]
    full_nodes: usize,
    /// Ordering engine of a new network; default: mahi-mahi
    #[arg(long, value_name = "NAME", value_parser = engines::names())]
    engine: Option<String>,
    /// Parameter of a new network's engine, for instance `wave_length=5`; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = genesis::parameter)]
    parameter: Vec<(String, u64)>,
    /// RPC namespaces that the nodes of a new network serve, separated by commas, or "all"; default: those that wallets need
    #[arg(long, value_name = "LIST")]
    namespaces: Option<Namespaces>,
    /// Port of the explorer on 127.0.0.1; default: 4000, or a free one if that is in use
    #[arg(long, value_name = "PORT")]
    explorer_port: Option<u16>,
    /// Number of DAG rounds that the explorer keeps, from this start on; 0 disables DAG requests
    #[arg(long, value_name = "ROUNDS", default_value_t = Keep::default().dag_rounds)]
    dag_rounds: u64,
    /// Do not add an explorer to a new network
    #[arg(long, conflicts_with_all = ["explorer_port", "dag_rounds"])]
    no_explorer: bool,
    /// First RPC port; each further node uses the next one. Peer ports are 1000 higher, metrics ports 2000 higher. 0 selects free ports
    #[arg(long, default_value_t = 8545)]
    base_port: u16,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Network created by `up`: the data needed to start, stop and query every node.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Testnet {
    chain_id: u64,
    nodes: Vec<NodeProcess>,
    /// Follows the first node, and queries all nodes for their peers.
    #[serde(default)]
    explorer: Option<NodeProcess>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeProcess {
    name: String,
    /// `validator`, `full` or `explorer`.
    role: String,
    /// URL; for the explorer, the URL of its pages.
    rpc: String,
    /// URL of a node's metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metrics: Option<String>,
    /// For the explorer, which has no configuration file, its data directory.
    config: PathBuf,
    data_dir: PathBuf,
    log: PathBuf,
    /// Process id of the last start; may have ended.
    pid: Option<u32>,
}

/// Runs `corniche testnet`.
pub fn run(args: Args) -> anyhow::Result<()> {
    match args.command {
        Action::Up(up) => start(&up),
        Action::Down { directory, wipe } => stop(&directory.dir, wipe),
        Action::Status { directory, json } => status(&directory.dir, json),
    }
}

fn start(up: &Up) -> anyhow::Result<()> {
    fs::create_dir_all(&up.directory.dir).with_context(|| format!("cannot create {}", up.directory.dir.display()))?;
    let dir = up.directory.dir.canonicalize()?;
    let mut testnet = if dir.join("testnet.json").exists() { Testnet::load(&dir)? } else { make(&dir, up)? };
    let genesis = genesis::load(&dir.join("genesis.json"))?;
    engines::check_matches(&genesis, up.engine.as_deref(), &dir)?;
    for member in testnet.nodes.iter_mut().filter(|member| !member.is_running()) {
        member.pid = Some(member.spawn(&member.as_node())?);
    }
    if let Some(explorer) = testnet.explorer.as_mut().filter(|member| !member.is_running()) {
        explorer.pid = Some(explorer.spawn(&explorer.as_explorer(&testnet.nodes, &genesis.currency, up.dag_rounds))?);
    }
    testnet.save(&dir)?;
    for member in &testnet.nodes {
        member.wait_until(|| member.query_status().is_some())?;
    }
    if let Some(explorer) = &testnet.explorer {
        explorer.wait_until(|| TcpStream::connect(explorer.address()).is_ok())?;
    }
    announce(&dir, &testnet, &genesis.engine.name, up.json);
    Ok(())
}

fn announce(dir: &Path, testnet: &Testnet, engine: &str, as_json: bool) {
    let accounts = dev_accounts();
    if as_json {
        let accounts: Vec<_> =
            accounts.iter().map(|account| json!({"address": account.address, "key": account.secret})).collect();
        let nodes = &testnet.nodes;
        let chain_id = testnet.chain_id;
        let explorer = testnet.explorer.as_ref().map(|explorer| &explorer.rpc);
        exit::result(json!({
            "chainId": chain_id, "engine": engine, "dir": dir, "nodes": nodes, "explorer": explorer, "accounts": accounts,
        }));
        return;
    }
    let nodes = testnet.nodes.len();
    exit::result(format_args!("Corniche testnet, {nodes} nodes on {engine}, chain id {}\n", testnet.chain_id));
    for member in &testnet.nodes {
        exit::result(format_args!("  {:<12} {}   {}", member.name, member.rpc, member.role));
    }
    if let Some(explorer) = &testnet.explorer {
        exit::result(format_args!("\nExplorer  {}", explorer.rpc));
    }
    if let Some(first) = testnet.nodes.first() {
        exit::result(format_args!("Faucet     POST {}/faucet  {{\"address\": \"0x…\"}}", first.rpc));
    }
    exit::result("\nFunded accounts (their keys are public: for development only)");
    for account in &accounts {
        exit::result(format_args!("  {}  {}", account.address, account.secret));
    }
    let directory = dir.display();
    exit::result(format_args!("\nData   {directory}/NODE/data\nLogs   {directory}/NODE/node.log"));
    // Program path as it was called, so that the lines can be copied even if it is not on the PATH.
    let program = std::env::args().next().unwrap_or_else(|| "corniche".into());
    exit::result(format_args!("Status {program} testnet status --dir {directory}"));
    exit::result(format_args!("Stop   {program} testnet down --dir {directory}          (--wipe deletes the data)"));
}

/// Creates keys, genesis and configuration files of a new network.
fn make(dir: &Path, up: &Up) -> anyhow::Result<Testnet> {
    ensure!(up.validators >= 1, "a network needs at least one validator");
    ensure!(up.validators + up.full_nodes <= 100, "more than 100 processes on one machine are not a testnet");
    let name = up.engine.as_deref().unwrap_or(engines::DEFAULT);
    let engine = EngineConfig { name: name.to_owned(), parameters: up.parameter.iter().cloned().collect() };
    let network = genesis::make_network(&NetworkSpec { validators: up.validators, engine, ..genesis::default_spec() })?;
    fs::write(dir.join("genesis.json"), network.genesis.to_json())?;
    let total = up.validators + up.full_nodes;
    // More threads than processors only wake each other.
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let limits = Limits {
        socket_threads: (processors / total).clamp(1, Limits::default().socket_threads),
        execution_threads: (processors / total).clamp(1, Limits::default().execution_threads),
        // Speculation uses idle processors; here there may be none.
        speculation: processors >= total,
        // All nodes have the same address.
        guests: up.full_nodes.max(Limits::default().guests),
        guests_per_address: up.full_nodes.max(Limits::default().guests_per_address),
        ..Limits::default()
    };
    let ports = Ports::choose(up.base_port, total)?;
    let full: Vec<NetworkKey> = (0..up.full_nodes).map(|_| NetworkKey::from_seed(B256::random().0)).collect();
    let addresses: Vec<String> =
        network.validators.iter().zip(&ports.peers).map(|(keys, port)| peer_address(&keys.network, *port)).collect();
    let mut nodes = Vec::new();
    for index in 0..total {
        let validator = network.validators.get(index);
        let name = match validator {
            Some(_) => format!("validator-{index}"),
            None => format!("full-{}", index - up.validators),
        };
        let folder = dir.join(&name);
        fs::create_dir_all(&folder)?;
        match validator {
            Some(keys) => {
                keys::save(keys, &folder.join("keys"))?;
                keys.declare_unsigned(&folder.join("data"))?;
            }
            None => secret::write(&folder.join("network.key"), &hex::encode(full[index - up.validators].seed()))?,
        }
        // One node has a faucet, from the last funded account.
        let faucet = dev_accounts().pop().filter(|_| index == 0);
        if let Some(account) = &faucet {
            secret::write(&folder.join("faucet.key"), account.secret)?;
        }
        let config = NodeConfig {
            genesis: "../genesis.json".into(),
            faucet: faucet.map(|_| Faucet::with_key("faucet.key".into())),
            keys: validator.map(|_| "keys".into()),
            rpc: SocketAddr::from((Ipv4Addr::LOCALHOST, ports.rpc[index])),
            metrics: Some(MetricsAddress::At(SocketAddr::from((Ipv4Addr::LOCALHOST, ports.metrics[index])))),
            listen: vec![format!("/ip4/127.0.0.1/tcp/{}", ports.peers[index])],
            peers: addresses.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, peer)| peer.clone()).collect(),
            learn_addresses: true,
            index: Default::default(),
            state: Default::default(),
            network_key: validator.is_none().then(|| "network.key".into()),
            // All clients are on this machine, and load tests are the purpose.
            serve: Serve { namespaces: namespaces(up, index)?, spare_loopback: true, ..Serve::default() },
            limits: limits.clone(),
        };
        let config_path = folder.join("node.toml");
        fs::write(&config_path, toml::to_string(&config)?)?;
        nodes.push(NodeProcess {
            rpc: format!("http://{}", config.rpc),
            metrics: Some(format!("http://127.0.0.1:{}/metrics", ports.metrics[index])),
            role: if validator.is_some() { "validator" } else { "full" }.into(),
            data_dir: folder.join("data"),
            log: folder.join("node.log"),
            config: config_path,
            name,
            pid: None,
        });
    }
    let explorer = (!up.no_explorer).then(|| explorer_of(dir, up)).transpose()?;
    Ok(Testnet { chain_id: network.genesis.chain_id, nodes, explorer })
}

/// The explorer queries the first node, including traces of transactions.
fn namespaces(up: &Up, index: usize) -> anyhow::Result<Namespaces> {
    Ok(match &up.namespaces {
        Some(namespaces) => namespaces.clone(),
        None if index == 0 && !up.no_explorer => Namespaces::from_names(Namespaces::default().names().chain(["debug"]))?,
        None => Namespaces::default(),
    })
}

fn explorer_of(dir: &Path, up: &Up) -> anyhow::Result<NodeProcess> {
    let folder = dir.join("explorer");
    fs::create_dir_all(&folder)?;
    let free = |port: u16| -> anyhow::Result<SocketAddr> { Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, port))?.local_addr()?) };
    let usual = if up.base_port == 0 { 0 } else { explorer::PORT };
    let address = match up.explorer_port {
        Some(port) => free(port).with_context(|| format!("port {port} is taken; choose another --explorer-port"))?,
        None => free(usual).or_else(|_| free(0))?,
    };
    Ok(NodeProcess {
        name: "explorer".into(),
        role: "explorer".into(),
        rpc: format!("http://{address}"),
        metrics: None,
        data_dir: folder.clone(),
        log: dir.join("explorer.log"),
        config: folder,
        pid: None,
    })
}

fn peer_address(key: &NetworkKey, port: u16) -> String {
    format!("/ip4/127.0.0.1/tcp/{port}/p2p/{}", PeerKey(key.public()).to_peer_id())
}

struct Ports {
    rpc: Vec<u16>,
    peers: Vec<u16>,
    metrics: Vec<u16>,
}

impl Ports {
    fn choose(base: u16, count: usize) -> anyhow::Result<Self> {
        if base == 0 {
            // All listeners are held until all ports are known, so that the ports differ.
            let free = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port on this machine");
            let listeners = (0..3 * count).map(|_| free()).collect::<anyhow::Result<Vec<_>>>()?;
            let mut ports =
                listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect::<anyhow::Result<Vec<_>>>()?;
            let metrics = ports.split_off(2 * count);
            let peers = ports.split_off(count);
            return Ok(Self { rpc: ports, peers, metrics });
        }
        let row = |first: u32| {
            let port = |index: usize| u16::try_from(first + index as u32).context("--base-port is too high");
            (0..count).map(port).collect::<anyhow::Result<Vec<_>>>()
        };
        let base = u32::from(base);
        let ports = Self { rpc: row(base)?, peers: row(base + 1000)?, metrics: row(base + u32::from(METRICS_ABOVE_RPC))? };
        for port in ports.rpc.iter().chain(&ports.peers).chain(&ports.metrics) {
            TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).with_context(|| {
                format!("port {port} is taken, perhaps by another testnet; stop it or choose another --base-port")
            })?;
        }
        Ok(ports)
    }
}

fn stop(dir: &Path, wipe: bool) -> anyhow::Result<()> {
    let mut testnet = Testnet::load(dir)?;
    let members = || testnet.nodes.iter().chain(&testnet.explorer);
    members().filter(|member| member.is_running()).for_each(|member| member.signal(libc::SIGTERM));
    let deadline = Instant::now() + START_TIMEOUT;
    for member in testnet.nodes.iter_mut().chain(&mut testnet.explorer) {
        while member.is_running() {
            if Instant::now() >= deadline {
                exit::note(format_args!("{} does not stop by itself and is killed", member.name));
                member.signal(libc::SIGKILL);
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        member.pid = None;
    }
    testnet.save(dir)?;
    if wipe {
        fs::remove_dir_all(dir).with_context(|| format!("cannot delete {}", dir.display()))?;
    }
    exit::note(if wipe { "stopped, data deleted" } else { "stopped, data kept" });
    Ok(())
}

fn status(dir: &Path, as_json: bool) -> anyhow::Result<()> {
    let testnet = Testnet::load(dir)?;
    let rows: Vec<_> = testnet.nodes.iter().map(|member| (member, member.query_status())).collect();
    if as_json {
        let nodes: Vec<_> = rows
            .iter()
            .map(|(member, status)| {
                let (height, finalized, peers) =
                    status.as_ref().map_or((None, None, None), |a| (Some(a.height), Some(a.finalized), Some(a.peers)));
                json!({
                    "name": member.name, "role": member.role, "rpc": member.rpc, "pid": member.pid,
                    "running": member.is_running(), "height": height, "finalized": finalized, "peers": peers,
                })
            })
            .collect();
        exit::result(json!({"chainId": testnet.chain_id, "nodes": nodes}));
        return Ok(());
    }
    for (member, status) in &rows {
        let text = match status {
            Some(status) => format!("height {}, finalized {}, {} peers", status.height, status.finalized, status.peers),
            None if member.is_running() => format!("is running but does not respond; see {}", member.log.display()),
            None => "stopped".into(),
        };
        exit::result(format_args!("{:<12} {}  {text}", member.name, member.rpc));
    }
    if let Some(explorer) = &testnet.explorer {
        let text = if explorer.is_running() { "runs" } else { "stopped" };
        exit::result(format_args!("{:<12} {}  {text}", explorer.name, explorer.rpc));
    }
    Ok(())
}

impl Testnet {
    fn load(dir: &Path) -> anyhow::Result<Self> {
        let path = dir.join("testnet.json");
        let text = fs::read_to_string(&path)
            .with_context(|| format!("{} holds no testnet; start one with `corniche testnet up`", dir.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is damaged", path.display()))
    }

    fn save(&self, dir: &Path) -> anyhow::Result<()> {
        Ok(fs::write(dir.join("testnet.json"), serde_json::to_string_pretty(self)?)?)
    }
}

struct NodeStatus {
    height: u64,
    finalized: u64,
    peers: u64,
}

impl NodeProcess {
    fn as_node(&self) -> Vec<OsString> {
        ["node", "--config"]
            .into_iter()
            .map(Into::into)
            .chain([self.config.clone().into(), "--data".into(), self.data_dir.clone().into()])
            .collect()
    }

    /// Arguments of the explorer: it follows the first node, and queries the others for their peers.
    fn as_explorer(&self, nodes: &[NodeProcess], currency: &str, dag_rounds: u64) -> Vec<OsString> {
        let dag_rounds = dag_rounds.to_string();
        let options = std::iter::once("--node").chain(std::iter::repeat("--also-ask"));
        let node_options = options.zip(nodes).flat_map(|(option, node)| [option, node.rpc.as_str()]);
        let own = ["--currency", currency, "--dag-rounds", &dag_rounds, "--listen", self.address(), "--data"];
        let arguments = std::iter::once("explorer").chain(node_options).chain(own);
        arguments.map(Into::into).chain([self.config.clone().into()]).collect()
    }

    fn spawn(&self, arguments: &[OsString]) -> anyhow::Result<u32> {
        let log = fs::OpenOptions::new().create(true).append(true).open(&self.log)?;
        let binary = std::env::current_exe().context("cannot find the corniche binary")?;
        let mut command = Command::new(binary);
        command.args(arguments);
        // Own process group: an interrupt at the terminal that started the network does not stop it.
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
        Ok(command.spawn().with_context(|| format!("cannot start {}", self.name))?.id())
    }

    /// True if the process of the last start still runs and is ours.
    fn is_running(&self) -> bool {
        let Some(pid) = self.pid else { return false };
        let Ok(command) = fs::read(format!("/proc/{pid}/cmdline")) else { return false };
        // A zombie has no command line; another program with the same process id has a different one.
        let config = self.config.as_os_str().as_encoded_bytes();
        command.windows(config.len()).any(|window| window == config)
    }

    fn signal(&self, signal: i32) {
        if let Some(pid) = self.pid.and_then(|pid| i32::try_from(pid).ok()) {
            // SAFETY: kill takes two numbers and accesses no memory of ours.
            #[allow(unsafe_code)]
            unsafe {
                libc::kill(pid, signal);
            }
        }
    }

    fn query_status(&self) -> Option<NodeStatus> {
        let client = Client::new(&self.rpc);
        let number = |text: String| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
        let height = number(client.transport().request("eth_blockNumber", json!([])).ok()?)?;
        let finalized: serde_json::Value =
            client.transport().request("eth_getBlockByNumber", json!(["finalized", false])).ok()?;
        let finalized = number(finalized["number"].as_str()?.to_owned())?;
        let peers = number(client.transport().request("net_peerCount", json!([])).ok()?)?;
        Some(NodeStatus { height, finalized, peers })
    }

    /// Host and port.
    fn address(&self) -> &str {
        self.rpc.trim_start_matches("http://")
    }

    fn wait_until(&self, is_ready: impl Fn() -> bool) -> anyhow::Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        while !is_ready() {
            if !self.is_running() {
                let log = fs::read_to_string(&self.log).unwrap_or_default();
                let last = log.lines().rev().take(5).collect::<Vec<_>>();
                let last = last.into_iter().rev().collect::<Vec<_>>().join("\n");
                bail!("{} stopped immediately; end of {}:\n{last}", self.name, self.log.display());
            }
            if Instant::now() >= deadline {
                let message = format!("{} does not respond; see {}", self.name, self.log.display());
                return Err(Failed::new(Exit::Deadline, message).into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, port: u16) -> NodeProcess {
        NodeProcess {
            name: name.into(),
            role: name.into(),
            rpc: format!("http://127.0.0.1:{port}"),
            metrics: None,
            config: "there".into(),
            data_dir: "there".into(),
            log: "log".into(),
            pid: None,
        }
    }

    #[test]
    fn explorer_gets_arguments_of_up() {
        let nodes = [member("validator", 1), member("validator", 2)];
        let arguments = member("explorer", 3).as_explorer(&nodes, "CRN", 0);
        let has_option = |option: &str, value: &str| arguments.windows(2).any(|pair| *pair == [option, value]);
        for (option, value) in [
            ("--node", "http://127.0.0.1:1"),
            ("--also-ask", "http://127.0.0.1:2"),
            ("--currency", "CRN"),
            ("--dag-rounds", "0"),
            ("--listen", "127.0.0.1:3"),
            ("--data", "there"),
        ] {
            assert!(has_option(option, value), "{option} {value} in {arguments:?}");
        }
    }
}
