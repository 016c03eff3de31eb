//! One process of a network: start, signal and query it.

use super::START_TIMEOUT;
use anyhow::{Context, bail};
use corniche_client::Client;
use corniche_console::exit::{self, Exit, Failed};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::{
    ffi::OsString,
    fs,
    net::TcpStream,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// Timeout for a process to end after it was killed.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// Role of a replica of a shard.
pub(super) const REPLICA: &str = "replica";

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeProcess {
    pub name: String,
    /// `validator`, `full`, `replica`, `gateway`, `sequencer` or `explorer`.
    pub role: String,
    /// URL; for the explorer, the URL of its pages; for a sequencer, that of its admin interface; for a replica, that of its metrics.
    pub rpc: String,
    /// URL of a node's metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<String>,
    /// For the explorer, which has no configuration file, its data directory.
    pub config: PathBuf,
    pub data_dir: PathBuf,
    pub log: PathBuf,
    /// Process id of the last start; may have ended.
    pub pid: Option<u32>,
}

pub(super) struct NodeStatus {
    pub height: u64,
    pub finalized: u64,
    pub peers: u64,
}

impl NodeProcess {
    pub fn as_node(&self) -> Vec<OsString> {
        self.configured("node")
    }

    pub fn as_sequencer(&self) -> Vec<OsString> {
        self.configured("sequencer")
    }

    /// Arguments of a command with a configuration file and a data directory.
    fn configured(&self, command: &str) -> Vec<OsString> {
        [command, "--config"]
            .into_iter()
            .map(Into::into)
            .chain([self.config.clone().into(), "--data".into(), self.data_dir.clone().into()])
            .collect()
    }

    /// Arguments of the explorer: it follows the first node, and queries the others for their peers.
    pub fn as_explorer(&self, nodes: &[NodeProcess], currency: &str, dag_rounds: u64) -> Vec<OsString> {
        let dag_rounds = dag_rounds.to_string();
        let options = std::iter::once("--node").chain(std::iter::repeat("--also-ask"));
        let nodes = nodes.iter().filter(|node| !node.is_replica());
        let node_options = options.zip(nodes).flat_map(|(option, node)| [option, node.rpc.as_str()]);
        let own = ["--currency", currency, "--dag-rounds", &dag_rounds, "--listen", self.address(), "--data"];
        let arguments = std::iter::once("explorer").chain(node_options).chain(own);
        arguments.map(Into::into).chain([self.config.clone().into()]).collect()
    }

    pub fn spawn(&self, arguments: &[OsString]) -> anyhow::Result<u32> {
        let log = fs::OpenOptions::new().create(true).append(true).open(&self.log)?;
        let binary = std::env::current_exe().context("cannot find the corniche binary")?;
        let mut command = Command::new(binary);
        command.args(arguments);
        // Own process group: an interrupt at the terminal that started the network does not stop it.
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
        Ok(command.spawn().with_context(|| format!("cannot start {}", self.name))?.id())
    }

    /// True if the process of the last start still runs and is ours.
    pub fn is_running(&self) -> bool {
        let Some(pid) = self.pid else { return false };
        let Ok(command) = fs::read(format!("/proc/{pid}/cmdline")) else { return false };
        // A zombie has no command line; another program with the same process id has a different one.
        let config = self.config.as_os_str().as_encoded_bytes();
        command.windows(config.len()).any(|window| window == config)
    }

    /// True once all its threads have exited, so that its ports and its lock are free. The first thread is a zombie without
    /// a command line while others still exit.
    fn has_exited(&self) -> bool {
        let Some(pid) = self.pid else { return true };
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let threads = fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
        // Another program may have got the number.
        !self.is_running() && (threads <= 1 || !command.is_empty())
    }

    pub fn signal(&self, signal: i32) {
        if let Some(pid) = self.pid.and_then(|pid| i32::try_from(pid).ok()) {
            // SAFETY: kill takes two numbers and accesses no memory of ours.
            #[allow(unsafe_code)]
            unsafe {
                libc::kill(pid, signal);
            }
        }
    }

    /// Waits until the process has exited. Kills it at the deadline, and then waits a few seconds at most.
    pub fn wait_for_exit(&self, deadline: Instant) {
        let mut killed_at = None::<Instant>;
        while !self.has_exited() {
            match killed_at {
                None if Instant::now() >= deadline => {
                    exit::note(format_args!("{} does not stop by itself and is killed", self.name));
                    self.signal(libc::SIGKILL);
                    killed_at = Some(Instant::now());
                }
                Some(at) if at.elapsed() > KILL_TIMEOUT => return,
                _ => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// True for a replica of a shard, which serves no JSON-RPC.
    pub fn is_replica(&self) -> bool {
        self.role == REPLICA
    }

    /// True once the process responds.
    pub fn is_up(&self) -> bool {
        if self.is_replica() {
            return TcpStream::connect(self.address().trim_end_matches("/metrics")).is_ok();
        }
        self.query_status().is_some()
    }

    pub(super) fn query_status(&self) -> Option<NodeStatus> {
        if self.is_replica() {
            return None;
        }
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
    pub fn address(&self) -> &str {
        self.rpc.trim_start_matches("http://")
    }

    pub fn wait_until(&self, is_ready: impl Fn() -> bool) -> anyhow::Result<()> {
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
