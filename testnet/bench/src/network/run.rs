//! One run: a fresh network, its accounts, and a load while everything is counted.

use super::{recovery, report::Report};
use anyhow::{Context, ensure};
use corniche_console::exit;
use corniche_processes::{Load, LoadReport, LocalNetwork, Metrics, NetworkOptions, RunningLoad, ThreadTimes, steal_time};
use std::{
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

/// Transfers that warm up the network, if fewer accounts have to be created.
const WARM_UP: usize = 5_000;
/// Enough for every transfer of one token.
const TOKEN_SUPPLY: &str = "1000000000000";
/// Seconds to wait for transfers, after which a load fails.
const TIMEOUT_SECONDS: u64 = 3_600;

pub struct Run<'a> {
    /// Binary of the validators.
    pub corniche: &'a Path,
    /// Binary of the load generator, the same for all runs.
    pub generator: &'a Path,
    pub engine: Option<&'a str>,
    /// Value of `--signatures`; `None`: the default.
    pub signatures: Option<&'a str>,
    pub validators: usize,
    pub senders: usize,
    pub accounts: usize,
    /// Module of the token to transfer; `None`: the native currency.
    pub erc20: Option<&'a Path>,
    pub batch: usize,
    pub seconds: u64,
    pub rate: Option<u64>,
}

/// Sums over all validators since their start.
struct Totals {
    threads: ThreadTimes,
    metrics: Metrics,
    steal: Duration,
}

impl Run<'_> {
    pub fn measure(&self) -> anyhow::Result<Report> {
        let recovery = recovery::measure()?;
        let &Self { corniche, engine, signatures, validators, .. } = self;
        let prefix = "corniche-bench-";
        let options =
            NetworkOptions { corniche, engine, signatures, staking: None, validators, full_nodes: 0, prefix, keep: false };
        let network = LocalNetwork::up(&options)?;
        let token = self.erc20.map(|module| self.deploy(&network, module)).transpose()?;
        let load = || {
            let load = self.load(&network);
            token.iter().fold(load, |load, token| load.argument("--erc20", token))
        };
        let warm = load().argument("--count", self.accounts.max(WARM_UP)).start()?;
        let warm = complete(warm.finish()?).context("creating the accounts")?;
        exit::note(format_args!("{} accounts are created, {:.0} transfers/s", self.accounts, warm.transfers_per_second));
        let rate = self.rate.map_or(warm.transfers_per_second, |rate| rate as f64);
        let count = (rate * self.seconds as f64).ceil() as usize;
        let mut load = load().argument("--count", count);
        if let Some(rate) = self.rate {
            load = load.argument("--rate", rate);
        }
        let running = load.start()?;
        self.observe(&network, running, recovery)
    }

    /// Deploys a token from the account that funds the senders; returns its address.
    fn deploy(&self, network: &LocalNetwork, module: &Path) -> anyhow::Result<String> {
        let (node, key) = network.nodes.first().zip(network.accounts.first()).context("the network has no funded account")?;
        let mut command = Command::new(self.corniche);
        command.args(["contract", "deploy", "--json", "--rpc", &node.rpc]).arg(module);
        command.args(["Token", "TKN", TOKEN_SUPPLY, "--constructor", "constructor(string,string,uint256)"]);
        let finished = command.env("CORNICHE_KEY", key.to_hex()).stdin(Stdio::null()).output()?;
        ensure!(finished.status.success(), "corniche contract deploy: {}", String::from_utf8_lossy(&finished.stderr));
        let output: serde_json::Value = serde_json::from_slice(&finished.stdout)?;
        Ok(output["contractAddress"].as_str().context("corniche contract deploy: expected an address")?.to_owned())
    }

    fn load(&self, network: &LocalNetwork) -> Load {
        let load = Load::on(self.generator, network.nodes.iter().map(|node| node.rpc.as_str()));
        let load = load.argument("--senders", self.senders).argument("--recipients", self.accounts);
        load.argument("--batch", self.batch).argument("--timeout", TIMEOUT_SECONDS)
    }

    fn observe(&self, network: &LocalNetwork, running: RunningLoad, recovery: Duration) -> anyhow::Result<Report> {
        let before = totals(network)?;
        let load = complete(running.finish()?)?;
        let after = totals(network)?;
        let memory = (0..self.validators).filter_map(|index| network.memory(index)).map(|memory| memory.peak).max();
        Ok(Report {
            engine: network.genesis.engine.name.clone(),
            load,
            recovery,
            validators: self.validators,
            threads: after.threads.since(&before.threads),
            metrics: after.metrics.since(&before.metrics),
            steal: after.steal.saturating_sub(before.steal),
            peak_mib: memory.unwrap_or(0),
        })
    }
}

/// Refuses a load with transfers that were not executed in time.
fn complete(load: LoadReport) -> anyhow::Result<LoadReport> {
    ensure!(load.executed == load.count, "{} of {} transfers were not executed", load.count - load.executed, load.count);
    Ok(load)
}

fn totals(network: &LocalNetwork) -> anyhow::Result<Totals> {
    let mut totals = Totals { threads: ThreadTimes::default(), metrics: Metrics::default(), steal: steal_time() };
    for index in 0..network.nodes.len() {
        totals.threads.add(&network.thread_times(index).with_context(|| format!("validator {index} has ended"))?);
        totals.metrics.add(&network.metrics(index)?);
    }
    Ok(totals)
}
