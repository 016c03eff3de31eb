//! `corniche testnet`: a whole network as processes on this machine.
//!
//! The directory has `testnet.json` (written by `up`), `genesis.json`, and per node a folder with
//! `node.toml`, its keys, `data/` and `node.log`. `up` on an existing directory starts the same network again
//! with its data.

mod files;
mod process;

use crate::{engines, genesis};
use anyhow::Context;
use corniche_api::Namespaces;
use corniche_console::{dev_accounts::dev_accounts, exit};
use corniche_types::{SignatureChecks, Votes};
use corniche_web::indexer::Keep;
use process::NodeProcess;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::{
    fs,
    net::TcpStream,
    path::{Path, PathBuf},
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
    Up(Box<Up>),
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
    /// Number of validators of a new network; default: 4
    #[arg(long, value_name = "N", conflicts_with_all = ["shards", "gateways"])]
    validators: Option<usize>,
    /// Shards of a new network of `--engine basil`, with six replicas each; default: 1
    #[arg(long, value_name = "N")]
    shards: Option<usize>,
    /// Gateways of a new network of `--engine basil`; default: 1
    #[arg(long, value_name = "N")]
    gateways: Option<usize>,
    /// Number of full nodes of a new network
    #[arg(long, default_value_t = 0)]
    full_nodes: usize,
    /// Ordering engine of a new network; default: mahi-mahi
    #[arg(long, value_name = "NAME", value_parser = engines::names())]
    engine: Option<String>,
    /// Parameter of a new network's engine, for instance `wave_length=5`; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = genesis::parameter)]
    parameter: Vec<(String, u64)>,
    /// Votes of each validator of a new network, for instance `2,2,2,1`; default: one each
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = genesis::votes)]
    votes: Vec<Votes>,
    /// Signature checks of a new network: `everyone` (each validator checks each) or `sharded` (f + 1 check and attest the sender)
    #[arg(long, value_name = "MODE", default_value = "everyone")]
    signatures: SignatureChecks,
    #[command(flatten)]
    staking: genesis::Staking,
    /// Sequencers of a new network whose engine needs them; all but the first are on standby
    #[arg(long, value_name = "N", default_value_t = 1)]
    sequencers: usize,
    /// Part that stamps packets of the first sequencer of a new network; the others are processes
    #[arg(long, value_name = "PART", value_enum, default_value_t)]
    sequencer: SequencerPart,
    /// Suite of the sequencers' packets: 1 or 2 (keyed hashes), 4 (secp256k1) or 5 (ed25519)
    #[arg(long, value_name = "SUITE", default_value_t = 1)]
    suite: u8,
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

/// Part that stamps packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum SequencerPart {
    /// A process.
    #[default]
    Process,
    /// An XDP program in the Linux kernel, at the loopback interface. Needs root, suite 1 and at most four validators
    Xdp,
}

/// Network created by `up`: the data needed to start, stop and query every node.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Testnet {
    chain_id: u64,
    nodes: Vec<NodeProcess>,
    /// Empty for an engine without sequencers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    sequencers: Vec<NodeProcess>,
    /// Follows the first node, and queries all nodes for their peers.
    #[serde(default)]
    explorer: Option<NodeProcess>,
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
    let mut testnet = if dir.join("testnet.json").exists() { Testnet::load(&dir)? } else { files::make(&dir, up)? };
    let genesis = genesis::load(&dir.join("genesis.json"))?;
    engines::check_matches(&genesis, up.engine.as_deref(), &dir)?;
    for sequencer in testnet.sequencers.iter_mut().filter(|member| !member.is_running()) {
        sequencer.pid = Some(sequencer.spawn(&sequencer.as_sequencer())?);
    }
    for member in testnet.nodes.iter_mut().filter(|member| !member.is_running()) {
        member.pid = Some(member.spawn(&member.as_node())?);
    }
    if let Some(explorer) = testnet.explorer.as_mut().filter(|member| !member.is_running()) {
        explorer.pid = Some(explorer.spawn(&explorer.as_explorer(&testnet.nodes, &genesis.currency, up.dag_rounds))?);
    }
    testnet.save(&dir)?;
    for sequencer in &testnet.sequencers {
        sequencer.wait_until(|| TcpStream::connect(sequencer.address()).is_ok())?;
    }
    for member in &testnet.nodes {
        member.wait_until(|| member.is_up())?;
    }
    if let Some(explorer) = &testnet.explorer {
        explorer.wait_until(|| TcpStream::connect(explorer.address()).is_ok())?;
    }
    announce(&dir, &testnet, &genesis.engine.name, up.json);
    Ok(())
}

/// Creates the files of a network of validators on free ports, which is not started.
pub fn make_validators(dir: &Path, validators: usize, engine: Option<&str>) -> anyhow::Result<Vec<NodeProcess>> {
    let up = Up {
        directory: DirectoryArgs { dir: dir.to_owned() },
        validators: Some(validators),
        shards: None,
        gateways: None,
        full_nodes: 0,
        engine: engine.map(str::to_owned),
        parameter: Vec::new(),
        votes: Vec::new(),
        signatures: SignatureChecks::Everyone,
        staking: genesis::Staking::default(),
        sequencers: 1,
        sequencer: SequencerPart::Process,
        suite: 1,
        namespaces: None,
        explorer_port: None,
        dag_rounds: 0,
        no_explorer: true,
        base_port: 0,
        json: false,
    };
    Ok(files::make(dir, &up)?.nodes)
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
            "chainId": chain_id, "engine": engine, "dir": dir, "nodes": nodes, "sequencers": testnet.sequencers,
            "explorer": explorer, "accounts": accounts,
        }));
        return;
    }
    let nodes = testnet.nodes.len();
    exit::result(format_args!("Corniche testnet, {nodes} nodes on {engine}, chain id {}\n", testnet.chain_id));
    for member in testnet.nodes.iter().chain(&testnet.sequencers) {
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

fn stop(dir: &Path, wipe: bool) -> anyhow::Result<()> {
    let mut testnet = Testnet::load(dir)?;
    let members = testnet.nodes.iter().chain(&testnet.sequencers).chain(&testnet.explorer);
    let running: Vec<_> = members.filter(|member| member.is_running()).collect();
    running.iter().for_each(|member| member.signal(libc::SIGTERM));
    let deadline = Instant::now() + START_TIMEOUT;
    for member in running {
        member.wait_for_exit(deadline);
    }
    let members = testnet.nodes.iter_mut().chain(&mut testnet.sequencers).chain(&mut testnet.explorer);
    members.for_each(|member| member.pid = None);
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
        let sequencers = testnet.sequencers.iter();
        let sequencers: Vec<_> =
            sequencers.map(|it| json!({"name": it.name, "admin": it.rpc, "pid": it.pid, "running": it.is_running()})).collect();
        exit::result(json!({"chainId": testnet.chain_id, "nodes": nodes, "sequencers": sequencers}));
        return Ok(());
    }
    for (member, status) in &rows {
        let text = match status {
            Some(status) => format!("height {}, finalized {}, {} peers", status.height, status.finalized, status.peers),
            None if member.is_replica() && member.is_up() => "is up".into(),
            None if member.is_running() => format!("is running but does not respond; see {}", member.log.display()),
            None => "stopped".into(),
        };
        exit::result(format_args!("{:<12} {}  {text}", member.name, member.rpc));
    }
    for other in testnet.sequencers.iter().chain(&testnet.explorer) {
        let text = if other.is_running() { "runs" } else { "stopped" };
        exit::result(format_args!("{:<12} {}  {text}", other.name, other.rpc));
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
