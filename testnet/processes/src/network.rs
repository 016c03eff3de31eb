//! A network of `corniche` processes in a temporary directory.

use crate::{
    interrupt,
    metrics::Metrics,
    usage::{self, Memory, ThreadTimes},
};
use anyhow::{Context, ensure};
use corniche_client::{Client, Wait};
use corniche_crypto::EthereumKey;
use corniche_types::Genesis;
use serde::Deserialize;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// Timeout for a process to start or to end.
const PROCESS_TIMEOUT: Duration = Duration::from_secs(60);
/// Polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A network that [`LocalNetwork::up`] starts.
pub struct NetworkOptions<'a> {
    /// Path of the node binary.
    pub corniche: &'a Path,
    /// `None`: the default of a new network.
    pub engine: Option<&'a str>,
    /// Value of `--signatures`; `None`: the default of a new network.
    pub signatures: Option<&'a str>,
    /// Value of `--staking`; `None`: no staking.
    pub staking: Option<&'a str>,
    pub validators: usize,
    pub full_nodes: usize,
    /// Directories start with this name.
    pub prefix: &'a str,
    /// Keeps the directory, which contains the logs.
    pub keep: bool,
}

/// A running network. Its processes end and its directory is deleted on drop.
pub struct LocalNetwork {
    corniche: PathBuf,
    directory: tempfile::TempDir,
    pub genesis: Genesis,
    /// The validators in the order of the genesis, then the full nodes.
    pub nodes: Vec<Node>,
    /// By node; `None` while it is stopped.
    processes: Mutex<Vec<Option<Process>>>,
    /// Sequencers of the network, if its engine has any.
    sequencers: Vec<Sequencer>,
    /// Funded accounts.
    pub accounts: Vec<EthereumKey>,
}

/// Addresses and files of one node.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    pub rpc: String,
    pub metrics: String,
    pub config: PathBuf,
    pub data_dir: PathBuf,
    pub log: PathBuf,
    pid: u32,
}

#[derive(Deserialize)]
struct Sequencer {
    pid: u32,
}

struct Process {
    pid: u32,
    /// Set if this program started it, and not `corniche testnet up`.
    child: Option<Child>,
}

/// Output of `corniche testnet up --json`.
#[derive(Deserialize)]
struct UpOutput {
    nodes: Vec<Node>,
    /// Older binaries have none.
    #[serde(default)]
    sequencers: Vec<Sequencer>,
    accounts: Vec<UpAccount>,
}

#[derive(Deserialize)]
struct UpAccount {
    key: String,
}

impl LocalNetwork {
    /// Starts a network on free ports and waits until every node responds.
    pub fn up(options: &NetworkOptions<'_>) -> anyhow::Result<Self> {
        let NetworkOptions { corniche, engine, signatures, staking, validators, full_nodes, prefix, keep } = *options;
        let mut directory = tempfile::Builder::new().prefix(prefix).tempdir()?;
        directory.disable_cleanup(keep);
        let mut command = Command::new(corniche);
        command.args(["testnet", "up", "--no-explorer", "--json", "--base-port", "0"]);
        if let Some(engine) = engine {
            command.args(["--engine", engine]);
        }
        if let Some(signatures) = signatures {
            command.args(["--signatures", signatures]);
        }
        if let Some(staking) = staking {
            command.args(["--staking", staking]);
        }
        command.args(["--validators", &validators.to_string(), "--full-nodes", &full_nodes.to_string()]);
        command.arg("--dir").arg(directory.path());
        interrupt::register(corniche, directory.path());
        // Some nodes may have started before the failure.
        let started = start(&mut command, directory.path()).inspect_err(|_| {
            interrupt::end(corniche, directory.path());
            interrupt::unregister(directory.path());
        });
        let Started { nodes, sequencers, accounts, genesis } = started?;
        let processes = nodes.iter().map(|node| Some(Process { pid: node.pid, child: None })).collect();
        let (corniche, processes) = (corniche.to_owned(), Mutex::new(processes));
        Ok(Self { corniche, directory, genesis, nodes, processes, sequencers, accounts })
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub fn client(&self, index: usize, timeout: Duration) -> Client {
        Client::with_timeout(&self.nodes[index].rpc, timeout)
    }

    /// Sends SIGKILL and waits until the process has ended.
    pub fn stop(&self, index: usize) -> anyhow::Result<()> {
        let process = self.processes().get_mut(index).and_then(Option::take);
        process.map_or(Ok(()), Process::end)
    }

    /// Starts a stopped process on its data and waits until it responds.
    pub fn start(&self, index: usize) -> anyhow::Result<()> {
        let node = &self.nodes[index];
        let log = fs::File::options().append(true).create(true).open(&node.log)?;
        let mut command = Command::new(&self.corniche);
        command.arg("node").arg("--config").arg(&node.config).arg("--data").arg(&node.data_dir);
        let child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
        self.processes()[index] = Some(Process { pid: child.id(), child: Some(child) });
        let client = self.client(index, Duration::from_secs(1));
        let responds = Wait::at_most(PROCESS_TIMEOUT).until(|| Ok(client.chain_id().ok()))?;
        responds.map(drop).with_context(|| format!("node {index} does not respond; see {}", node.log.display()))
    }

    /// `None` if the process is stopped or has ended by itself.
    pub fn memory(&self, index: usize) -> Option<Memory> {
        usage::memory(self.pid(index)?)
    }

    /// Processor time of each thread since the process' start. `None` if it is stopped or has ended by itself.
    pub fn thread_times(&self, index: usize) -> Option<ThreadTimes> {
        usage::thread_times(self.pid(index)?)
    }

    /// Reads the node's `/metrics`.
    pub fn metrics(&self, index: usize) -> anyhow::Result<Metrics> {
        Metrics::read(&self.nodes[index].metrics)
    }

    fn pid(&self, index: usize) -> Option<u32> {
        Some(self.processes().get(index)?.as_ref()?.pid)
    }

    fn processes(&self) -> MutexGuard<'_, Vec<Option<Process>>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Parts of a network that runs.
struct Started {
    nodes: Vec<Node>,
    sequencers: Vec<Sequencer>,
    accounts: Vec<EthereumKey>,
    genesis: Genesis,
}

/// Runs `corniche testnet up`.
fn start(command: &mut Command, directory: &Path) -> anyhow::Result<Started> {
    let finished = command.stdin(Stdio::null()).output().context("cannot run corniche")?;
    ensure!(finished.status.success(), "corniche testnet up: {}", String::from_utf8_lossy(&finished.stderr));
    let output: UpOutput = serde_json::from_slice(&finished.stdout).context("corniche testnet up: invalid JSON")?;
    let genesis = Genesis::from_json(&fs::read_to_string(directory.join("genesis.json"))?)?;
    let accounts = output.accounts.iter().map(|account| EthereumKey::from_hex(&account.key));
    let accounts = accounts.collect::<Result<_, _>>()?;
    Ok(Started { nodes: output.nodes, sequencers: output.sequencers, accounts, genesis })
}

impl Drop for LocalNetwork {
    fn drop(&mut self) {
        // A process that does not end has been killed; nothing more can be done about it.
        self.processes().iter_mut().filter_map(Option::take).for_each(|process| drop(process.end()));
        for sequencer in &self.sequencers {
            let _ = Process { pid: sequencer.pid, child: None }.end();
        }
        interrupt::unregister(self.directory.path());
    }
}

impl Process {
    fn end(mut self) -> anyhow::Result<()> {
        if let Some(child) = &mut self.child {
            child.kill()?;
            child.wait()?;
            return Ok(());
        }
        // Fails if the process has ended already.
        let _ = Command::new("kill").args(["-KILL", &self.pid.to_string()]).stderr(Stdio::null()).status()?;
        let deadline = Instant::now() + PROCESS_TIMEOUT;
        while !usage::has_exited(self.pid) {
            ensure!(Instant::now() < deadline, "process {} did not exit", self.pid);
            thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }
}
