//! Users: `corniche load` in a separate process.

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use std::{
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, Command, Stdio},
    thread::JoinHandle,
};

/// Output of `corniche load` when all transfers are signed and the clock starts.
const READY: &str = "are signed; sending";

/// A `corniche load` that is not started.
pub struct Load {
    command: Command,
}

/// A running load.
pub struct RunningLoad {
    child: Child,
    errors: JoinHandle<String>,
}

/// Report of `corniche load --json` on transfers.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadReport {
    pub count: u64,
    pub executed: u64,
    pub seconds: f64,
    pub transfers_per_second: f64,
    pub latency_ms: LatencyReport,
    pub pushed_back: u64,
    pub generator_microseconds_per_transfer: f64,
}

/// Latencies in ms.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct LatencyReport {
    pub p50: f64,
    pub p99: f64,
    #[serde(rename = "p99.9")]
    pub p999: f64,
}

impl Load {
    /// Transfers that are submitted to these nodes in turn. [`Self::argument`] sets what `corniche load` has a default for.
    pub fn on<'a>(corniche: &Path, rpcs: impl IntoIterator<Item = &'a str>) -> Self {
        let mut command = Command::new(corniche);
        command.args(["load", "--json"]);
        rpcs.into_iter().for_each(|rpc| _ = command.args(["--rpc", rpc]));
        Self { command }
    }

    #[must_use]
    pub fn argument(mut self, name: &str, value: impl ToString) -> Self {
        self.command.args([name, &value.to_string()]);
        self
    }

    /// Starts the load. Returns when all transfers are signed and the first one is sent.
    pub fn start(mut self) -> anyhow::Result<RunningLoad> {
        let mut child = self.command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut lines = BufReader::new(child.stderr.take().context("standard error is piped")?);
        let mut printed = String::new();
        while !printed.contains(READY) {
            let mut line = String::new();
            if lines.read_line(&mut line)? == 0 {
                child.wait()?;
                bail!("corniche load did not start: {}", printed.trim());
            }
            printed.push_str(&line);
        }
        let errors = std::thread::spawn(move || {
            let mut rest = String::new();
            // An unreadable rest is only missing in the message.
            let _ = lines.read_to_string(&mut rest);
            rest
        });
        Ok(RunningLoad { child, errors })
    }
}

impl RunningLoad {
    /// Waits for the end. The load's own timeout bounds this.
    pub fn finish(self) -> anyhow::Result<LoadReport> {
        let output = self.child.wait_with_output()?;
        let errors = self.errors.join().unwrap_or_default();
        // A load with lost transfers reports and fails.
        serde_json::from_slice(&output.stdout).map_err(|_| anyhow::anyhow!("corniche load was stopped: {}", errors.trim()))
    }
}
