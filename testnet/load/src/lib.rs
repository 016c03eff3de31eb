//! `corniche load`: measures a node under load. Sends transfers through its RPC until they are executed
//! ([`transfers`]), or read requests to any node with Ethereum's RPC ([`reads`]).
//!
//! The generator may run on the processors that it measures, so it does little work while the clock runs.
//! Requests are encoded before the start, each sender has one connection ([`wire`]), and the report includes
//! the generator's own processor time.

mod asset;
mod latency;
mod progress;
mod reads;
mod transfers;
mod wire;

use anyhow::ensure;
use corniche_console::exit;
use corniche_types::Address;
use latency::Latencies;
use serde_json::json;
use std::{path::PathBuf, time::Duration};

/// Generate load of transfers or reads on a running network and print rate and latency
///
/// The latency of a transfer is the time from its submission until its block can be read; that of a read is the time until its response.
/// With --rate both start at the scheduled time, so that a stalled node also counts for the requests that had to wait.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// JSON-RPC URL to submit to; may be repeated: senders are assigned round-robin, blocks are read from the first URL
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8545")]
    rpc: Vec<String>,
    /// Total number of transfers
    #[arg(long, value_name = "N", default_value_t = 10_000, conflicts_with_all = ["seconds", "read"])]
    count: usize,
    /// Read request instead of transfers: method and parameters, 'eth_getBalance ["0x…","latest"]'; may be repeated, the requests take turns
    #[arg(long, value_name = "METHOD PARAMS", conflicts_with_all = ["batch", "key_file", "timeout", "senders", "recipients", "erc20"])]
    read: Vec<String>,
    /// Number of connections for reads, each with one request at a time
    #[arg(long, value_name = "N", default_value_t = 32, requires = "read")]
    connections: usize,
    /// Duration of the load in seconds: default 10 for reads; for transfers instead of --count, with --rate
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
    /// Total transfers or reads per second; default: as fast as the node accepts them
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// Number of sending accounts, each with its own connection
    #[arg(long, value_name = "N", default_value_t = 16)]
    senders: usize,
    /// Number of receiving accounts, which get transfers in turn; default: one for each sender
    #[arg(long, value_name = "N")]
    recipients: Option<usize>,
    /// ERC-20 token to transfer instead of the native currency; the funding account needs enough of it
    #[arg(long, value_name = "ADDRESS")]
    erc20: Option<Address>,
    /// Number of transfers per request
    #[arg(long, value_name = "N", default_value_t = 1)]
    batch: usize,
    /// File with the key of the account that funds the senders; default: the first development account
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Seconds to wait for submitted transfers
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    timeout: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `corniche load`.
pub fn run(args: Args) -> anyhow::Result<()> {
    ensure!(args.rate.is_none_or(|rate| rate > 0.0), "--rate is above 0");
    let report = if args.read.is_empty() { transfers(&args)? } else { reads(&args)? };
    exit::result(if args.json { report.json() } else { report.text() });
    let done = report.latencies.count();
    ensure!(done == report.planned, "{} of {} transfers were not executed in time", report.planned - done, report.planned);
    Ok(())
}

fn transfers(args: &Args) -> anyhow::Result<Report> {
    let count = match (args.seconds, args.rate) {
        (None, _) => args.count,
        (Some(seconds), Some(rate)) => (seconds as f64 * rate).ceil() as usize,
        (Some(_), None) => anyhow::bail!("--seconds of transfers needs a --rate: they are signed before the first is sent"),
    };
    ensure!(count > 0 && args.senders > 0 && args.batch > 0, "--count, --senders and --batch are at least 1");
    ensure!(args.recipients != Some(0), "--recipients is at least 1");
    transfers::measure(&transfers::Plan {
        urls: &args.rpc,
        count,
        senders: args.senders,
        recipients: args.recipients,
        erc20: args.erc20,
        batch: args.batch,
        rate: args.rate,
        patience: Duration::from_secs(args.timeout),
        key_file: args.key_file.as_ref(),
    })
}

fn reads(args: &Args) -> anyhow::Result<Report> {
    ensure!(args.connections > 0, "--connections is at least 1");
    let requests = args.read.iter().map(|read| reads::request(read)).collect::<Result<Vec<_>, _>>()?;
    reads::measure(&reads::Plan {
        urls: &args.rpc,
        connections: args.connections,
        requests: &requests,
        duration: Duration::from_secs(args.seconds.unwrap_or(10)),
        rate: args.rate,
    })
}

/// Results of a run.
struct Report {
    /// Unit of the counts: "transfer" or "request".
    noun: &'static str,
    planned: usize,
    latencies: Latencies,
    /// For transfers: from the first submission to the last block seen.
    seconds: f64,
    /// Processor time of the generator during the measurement.
    processor: Duration,
    /// Number of "try again later" responses; only for transfers.
    pushed_back: Option<u64>,
}

impl Report {
    /// Processor time of the generator in microseconds per transfer or request.
    fn own_cost(&self) -> f64 {
        self.processor.as_secs_f64() * 1e6 / self.latencies.count().max(1) as f64
    }

    fn per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.latencies.count() as f64 / self.seconds } else { 0.0 }
    }

    fn json(&self) -> String {
        let mut report = json!({
            "seconds": self.seconds,
            format!("{}sPerSecond", self.noun): self.per_second(),
            "latencyMs": self.latencies.json(),
            format!("generatorMicrosecondsPer{}{}", self.noun[..1].to_uppercase(), &self.noun[1..]): self.own_cost(),
        });
        report["count"] = self.planned.into();
        if let Some(times) = self.pushed_back {
            report["executed"] = self.latencies.count().into();
            report["pushedBack"] = times.into();
        }
        format!("{report:#}")
    }

    fn text(&self) -> String {
        let mut lines = match self.pushed_back {
            Some(_) => vec![format!("executed      {} of {}", self.latencies.count(), self.planned)],
            None => vec![format!("answered      {}", self.planned)],
        };
        lines.push(format!("{:<14}{:.0}", format!("{}s/s", self.noun), self.per_second()));
        lines.push(format!("latency ms    {}", self.latencies.text()));
        lines.extend(self.pushed_back.map(|times| format!("pushed back   {times} times")));
        lines.push(format!("generator     {:.0} us of processor time a {}", self.own_cost(), self.noun));
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_names_its_unit() {
        let report = |noun, pushed_back| Report {
            noun,
            planned: 4,
            latencies: Latencies::new(vec![1_000, 3_000]),
            seconds: 0.5,
            processor: Duration::from_micros(80),
            pushed_back,
        };
        let transfers = report("transfer", Some(7)).json();
        for member in [
            "\"transfersPerSecond\": 4.0",
            "\"executed\": 2",
            "\"pushedBack\": 7",
            "\"generatorMicrosecondsPerTransfer\": 40.0",
        ] {
            assert!(transfers.contains(member), "{transfers}");
        }
        let reads = report("request", None).text();
        assert!(reads.starts_with("answered      4\nrequests/s    4\nlatency ms    p50 1.00, p90 3.00"), "{reads}");
    }
}
