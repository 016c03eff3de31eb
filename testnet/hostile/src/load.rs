//! Honest users: `corniche load` in a separate process.

use crate::{output::log_line, victims::Victims};
use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use std::{
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, Command, Stdio},
    thread::JoinHandle,
    time::Duration,
};

/// Output of `corniche load` when all transfers are signed and the clock starts.
const READY: &str = "are signed; sending";

/// Rate and duration of the honest users' load.
#[derive(Clone, Copy)]
pub struct Load {
    pub seconds: u64,
    pub rate: u32,
    /// Timeout for submitted transfers, after the last submission.
    pub timeout: Duration,
}

/// A running load.
pub struct Running {
    child: Child,
    errors: JoinHandle<String>,
}

/// Users' results. Latencies in ms.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Measure {
    pub sent: u64,
    pub executed: u64,
    pub per_second: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LoadReport {
    count: u64,
    executed: u64,
    transfers_per_second: f64,
    latency_ms: Latency,
}

#[derive(Deserialize)]
struct Latency {
    p50: f64,
    p99: f64,
}

impl Load {
    /// Starts a load against these nodes. Returns when all transfers are signed and the first one is sent.
    pub fn start(&self, corniche: &Path, victims: &Victims, nodes: &[usize]) -> anyhow::Result<Running> {
        let mut command = Command::new(corniche);
        command.args(["load", "--json", "--senders", "16"]);
        command.args(["--seconds", &self.seconds.to_string(), "--rate", &self.rate.to_string()]);
        command.args(["--timeout", &(self.seconds + self.timeout.as_secs()).to_string()]);
        nodes.iter().for_each(|index| _ = command.args(["--rpc", &victims.members[*index].rpc]));
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
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
        Ok(Running { child, errors })
    }
}

impl Running {
    /// Waits for the end. The load's own timeout bounds this.
    pub fn finish(self) -> anyhow::Result<Measure> {
        let output = self.child.wait_with_output()?;
        let errors = self.errors.join().unwrap_or_default();
        // A load with lost transfers reports and fails.
        match serde_json::from_slice::<LoadReport>(&output.stdout) {
            Ok(report) => Ok(report.into()),
            Err(_) => {
                log_line(format_args!("corniche load: {}", errors.trim()));
                bail!("corniche load was stopped: {}", errors.lines().last().unwrap_or("no reason given"))
            }
        }
    }
}

impl From<LoadReport> for Measure {
    fn from(report: LoadReport) -> Self {
        let LoadReport { count, executed, transfers_per_second, latency_ms } = report;
        Self { sent: count, executed, per_second: transfers_per_second, p50_ms: latency_ms.p50, p99_ms: latency_ms.p99 }
    }
}

impl Measure {
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.executed)
    }
}
