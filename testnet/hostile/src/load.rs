//! Honest users.

use crate::victims::Victims;
use corniche_processes::{LoadReport, RunningLoad};
use serde::Serialize;
use std::{path::Path, time::Duration};

/// Rate and duration of the honest users' load.
#[derive(Clone, Copy)]
pub struct Load {
    pub seconds: u64,
    pub rate: u32,
    /// Timeout for submitted transfers, after the last submission.
    pub timeout: Duration,
}

/// A running load.
pub struct Running(RunningLoad);

/// Users' results. Latencies in ms.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Measure {
    pub sent: u64,
    pub executed: u64,
    pub per_second: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
}

impl Load {
    /// Starts a load against these nodes. Returns when all transfers are signed and the first one is sent.
    pub fn start(&self, corniche: &Path, victims: &Victims, nodes: &[usize]) -> anyhow::Result<Running> {
        let load = corniche_processes::Load::on(corniche, nodes.iter().map(|index| victims.members[*index].rpc.as_str()));
        let load = load.argument("--seconds", self.seconds).argument("--rate", self.rate);
        Ok(Running(load.argument("--timeout", self.seconds + self.timeout.as_secs()).start()?))
    }
}

impl Running {
    /// Waits for the end. The load's own timeout bounds this.
    pub fn finish(self) -> anyhow::Result<Measure> {
        self.0.finish().map(Measure::from)
    }
}

impl From<LoadReport> for Measure {
    fn from(report: LoadReport) -> Self {
        Self {
            sent: report.count,
            executed: report.executed,
            per_second: report.transfers_per_second,
            p50_ms: report.latency_ms.p50,
            p99_ms: report.latency_ms.p99,
        }
    }
}

impl Measure {
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.executed)
    }
}
