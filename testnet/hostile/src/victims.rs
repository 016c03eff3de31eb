//! The processes under attack: a network that `corniche testnet up` creates in a temporary directory.

use crate::{options::Options, output::log_line};
use anyhow::{Context, bail, ensure};
use corniche_client::{Client, Draft, Wait};
use corniche_crypto::EthereumKey;
use corniche_network::PeerAddress;
use corniche_types::{B256, Genesis, U256};
use serde::Deserialize;
use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// Timeout for a process to start or to end.
const PROCESS_TIMEOUT: Duration = Duration::from_secs(60);
/// Polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Request timeout: a slower response counts as none.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

pub struct Victims {
    corniche: PathBuf,
    /// Deleted on drop, unless it is kept.
    _directory: tempfile::TempDir,
    pub genesis: Genesis,
    /// The validators in the order of the genesis, then the full node.
    pub members: Vec<Member>,
    /// By member; `None` while it is stopped.
    processes: Mutex<Vec<Option<Process>>>,
    /// Funded accounts.
    accounts: Vec<EthereumKey>,
}

/// A node and its configuration.
pub struct Member {
    pub rpc: String,
    pub peer: PeerAddress,
    /// Keys of a validator; a full node has none.
    pub keys: PathBuf,
    config: PathBuf,
    data: PathBuf,
    log: PathBuf,
}

struct Process {
    pid: u32,
    /// Set if this program started it, and not `corniche testnet up`.
    child: Option<Child>,
}

/// Memory of one process in MiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    pub resident: u64,
    pub peak: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UpOutput {
    nodes: Vec<UpNode>,
    accounts: Vec<UpAccount>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UpNode {
    rpc: String,
    config: PathBuf,
    data_dir: PathBuf,
    log: PathBuf,
    pid: u32,
}

#[derive(Deserialize)]
struct UpAccount {
    key: String,
}

/// The part of `node.toml` that a peer needs.
#[derive(Deserialize)]
struct Listening {
    listen: Vec<String>,
}

impl Victims {
    /// Starts a network on free ports, with one full node that has to follow, and waits until every node responds.
    pub fn up(options: &Options, engine: &str) -> anyhow::Result<Self> {
        let Options { corniche, validators, .. } = options;
        let mut directory = tempfile::Builder::new().prefix("corniche-hostile-").tempdir()?;
        if options.keep {
            directory.disable_cleanup(true);
            log_line(format_args!("logs and data are kept in {}", directory.path().display()));
        }
        let mut command = Command::new(corniche);
        command.args(["testnet", "up", "--no-explorer", "--json", "--base-port", "0", "--engine", engine]);
        command.args(["--validators", &validators.to_string(), "--full-nodes", "1"]).arg("--dir").arg(directory.path());
        let finished = command.stdin(Stdio::null()).output().context("cannot run corniche")?;
        ensure!(finished.status.success(), "corniche testnet up: {}", String::from_utf8_lossy(&finished.stderr));
        let output: UpOutput = serde_json::from_slice(&finished.stdout).context("corniche testnet up: invalid JSON")?;
        let genesis = fs::read_to_string(directory.path().join("genesis.json"))?;
        let genesis = Genesis::from_json(&genesis)?;
        let process = |node: &UpNode| Some(Process { pid: node.pid, child: None });
        let processes = Mutex::new(output.nodes.iter().map(process).collect());
        let accounts = output.accounts.iter().map(|account| EthereumKey::from_hex(&account.key)).collect::<Result<_, _>>()?;
        let mut victims =
            Self { corniche: corniche.to_owned(), _directory: directory, genesis, members: Vec::new(), processes, accounts };
        // Only after the processes have an owner that ends them.
        victims.members = output.nodes.into_iter().map(Member::new).collect::<anyhow::Result<_>>()?;
        Ok(victims)
    }

    /// Index of the full node, which every final check includes.
    pub fn follower(&self) -> usize {
        self.members.len() - 1
    }

    pub fn client(&self, index: usize) -> Client {
        Client::with_timeout(&self.members[index].rpc, REQUEST_TIMEOUT)
    }

    /// Sends SIGKILL and waits until the process has ended.
    pub fn stop(&self, index: usize) -> anyhow::Result<()> {
        let process = self.processes().get_mut(index).and_then(Option::take);
        process.map_or(Ok(()), Process::end)
    }

    /// Starts a stopped process on its data and waits until it responds.
    pub fn start(&self, index: usize) -> anyhow::Result<()> {
        let member = &self.members[index];
        let log = fs::File::options().append(true).create(true).open(&member.log)?;
        let mut command = Command::new(&self.corniche);
        command.arg("node").arg("--config").arg(&member.config).arg("--data").arg(&member.data);
        let child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
        self.processes()[index] = Some(Process { pid: child.id(), child: Some(child) });
        let client = Client::with_timeout(&member.rpc, Duration::from_secs(1));
        let responds = Wait::at_most(PROCESS_TIMEOUT).until(|| Ok(client.chain_id().ok()))?;
        responds.map(drop).with_context(|| format!("node {index} does not respond; see {}", member.log.display()))
    }

    /// `None` if the process is stopped or has ended by itself.
    pub fn memory(&self, index: usize) -> Option<Memory> {
        let pid = self.processes().get(index)?.as_ref()?.pid;
        Some(parse_memory(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?))
    }

    /// Sends a transfer through one of these nodes and waits until all of them have executed it. Returns the duration.
    pub fn transfer(&self, nodes: &[usize], timeout: Duration) -> anyhow::Result<Duration> {
        let started = Instant::now();
        let wait = Wait { longest_pause: POLL_INTERVAL, ..Wait::at_most(timeout) };
        let first = *nodes.first().context("expected at least one honest node")?;
        // The load uses the first account, the faucet the last.
        let key = self.accounts.get(1).context("no account is funded")?;
        let client = self.client(first);
        // A node may temporarily refuse a transfer that it accepts later.
        let mut refusal = None;
        let sent = wait.until(|| Ok(self.offer(&client, key).map_err(|error| refusal = Some(error)).ok()))?;
        let Some(hash) = sent else { bail!("node {first} accepts no transfer: {:#}", refusal.unwrap_or_else(no_reason)) };
        for index in nodes {
            let client = self.client(*index);
            let left = timeout.saturating_sub(started.elapsed());
            let found = Wait { deadline: left, ..wait }.until(|| Ok(client.receipt(hash).ok().flatten()))?;
            ensure!(found.is_some(), "node {index} has no receipt of {hash} after {} ms", started.elapsed().as_millis());
        }
        Ok(started.elapsed())
    }

    fn offer(&self, client: &Client, key: &EthereumKey) -> anyhow::Result<B256> {
        let mut draft = Draft::transfer(key.address(), U256::from(1));
        draft.gas_limit = Some(21_000);
        draft.max_fee_per_gas = Some(client.fees()?.max_fee_per_gas.saturating_mul(10));
        Ok(client.send(key, &draft)?)
    }

    /// Checks that these nodes have equal blocks at the highest height of any of them.
    pub fn agree(&self, nodes: &[usize], timeout: Duration) -> anyhow::Result<()> {
        let heights = nodes.iter().map(|index| Ok(self.client(*index).block_number()?)).collect::<anyhow::Result<Vec<_>>>()?;
        let height = heights.into_iter().max().unwrap_or(0);
        let mut hashes = Vec::new();
        for index in nodes {
            let client = self.client(*index);
            let block = Wait::at_most(timeout).until(|| Ok(client.block(height).ok().flatten()))?;
            hashes.push(block.with_context(|| format!("node {index} did not reach block {height}"))?.hash);
        }
        ensure!(hashes.windows(2).all(|pair| pair[0] == pair[1]), "block {height} differs: {hashes:?}");
        Ok(())
    }

    fn processes(&self) -> std::sync::MutexGuard<'_, Vec<Option<Process>>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Victims {
    fn drop(&mut self) {
        let processes: Vec<_> = self.processes().iter_mut().filter_map(Option::take).collect();
        for error in processes.into_iter().filter_map(|process| process.end().err()) {
            log_line(format_args!("{error:#}"));
        }
    }
}

impl Member {
    fn new(node: UpNode) -> anyhow::Result<Self> {
        let text = fs::read_to_string(&node.config)?;
        let listening: Listening = toml::from_str(&text).with_context(|| format!("cannot read {}", node.config.display()))?;
        let address = listening.listen.first().context("node.toml: expected a listen address")?;
        let folder = node.config.parent().context("node.toml has a parent directory")?;
        let own = [folder.join("keys/network.key"), folder.join("network.key")];
        let key = own.iter().find(|path| path.exists()).context("the node has no network key")?;
        let peer = format!("{address}/p2p/{}", crate::keys::network(key)?.key()).parse()?;
        Ok(Self { rpc: node.rpc, peer, keys: folder.join("keys"), config: node.config, data: node.data_dir, log: node.log })
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
        while !has_exited(self.pid) {
            ensure!(Instant::now() < deadline, "process {} did not exit", self.pid);
            thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }
}

fn no_reason() -> anyhow::Error {
    anyhow::anyhow!("no reason given")
}

/// True once all threads have exited, so that the ports are free. A process that was not waited for keeps its number, in
/// state Z. Its first thread is in that state while others still exit.
fn has_exited(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    threads == 0 || threads == 1 && stat.rsplit(") ").next().is_some_and(|state| state.starts_with('Z'))
}

fn parse_memory(status: &str) -> Memory {
    let value = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
    };
    Memory { resident: value("VmRSS:"), peak: value("VmHWM:") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_parsed_in_mebibytes() {
        let status = "Name:\tcorniche\nVmHWM:\t  204800 kB\nVmRSS:\t  102400 kB\n";
        assert_eq!(parse_memory(status), Memory { resident: 100, peak: 200 });
        assert_eq!(parse_memory(""), Memory::default());
    }
}
