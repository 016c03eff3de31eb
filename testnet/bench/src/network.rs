//! `corniche bench network`: what a transfer costs on a network of validators on this machine.
//!
//! A run starts a network and creates the accounts. Then it sends as many transfers as took the given time at the rate of that
//! creation. All figures come from these transfers only, except for the peak memory. Because machines differ, the report relates processor
//! time to that of one recovery of a public key, measured in the same run ([`recovery`]).

mod recovery;
mod report;
mod run;

use anyhow::ensure;
use corniche_console::exit;
use corniche_processes::end_networks_on_interrupt;
use report::Report;
use run::Run;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Measure transfers on a network of validators on this machine: throughput, latency, and processor time by thread
///
/// U is the processor time of all validators per transfer, divided by the time of one secp256k1 public-key recovery.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Ordering engine; default: that of `corniche testnet up`
    #[arg(long, value_name = "NAME")]
    engine: Option<String>,
    /// Signature checks of this binary's networks, as for `corniche testnet up`; an older binary has its default
    #[arg(long, value_name = "MODE")]
    signatures: Option<String>,
    /// Number of validators
    #[arg(long, value_name = "N", default_value_t = 4)]
    validators: usize,
    /// Number of sending accounts, each with its own connection
    #[arg(long, value_name = "N", default_value_t = 16)]
    senders: usize,
    /// Number of receiving accounts, which are created before the measurement
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    accounts: usize,
    /// Transfer tokens of this contract instead of the native currency: a module with the constructor of contracts/erc20
    #[arg(long, value_name = "FILE")]
    erc20: Option<PathBuf>,
    /// Number of transfers per request
    #[arg(long, value_name = "N", default_value_t = 1)]
    batch: usize,
    /// Duration of the measurement
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    seconds: u64,
    /// Transfers per second; default: as many as the network accepts
    #[arg(long, value_name = "N")]
    rate: Option<u64>,
    /// Path of an older binary; the two are measured in turns, and the report compares them
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// Number of runs of each binary
    #[arg(long, value_name = "N", default_value_t = 1)]
    runs: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `corniche bench network`.
pub fn run(args: &Args) -> anyhow::Result<()> {
    ensure!(args.accounts > 0 && args.senders > 0 && args.batch > 0, "--accounts, --senders and --batch are at least 1");
    ensure!(args.seconds > 0 && args.runs > 0 && args.rate != Some(0), "--seconds, --runs and --rate are at least 1");
    end_networks_on_interrupt()?;
    let own = std::env::current_exe()?;
    let mut reports = Vec::new();
    let mut older = Vec::new();
    for number in 1..=args.runs {
        // The order alternates, so that a machine that becomes slower favours neither.
        let mut pair = vec![(own.as_path(), &mut reports)];
        if let Some(against) = &args.against {
            pair.push((against, &mut older));
        }
        if number % 2 == 0 {
            pair.reverse();
        }
        for (binary, reports) in pair {
            exit::note(format_args!("run {number} of {}: {}", args.runs, binary.display()));
            reports.push(measure(args, binary, &own)?);
        }
    }
    print(args, &reports, &older);
    Ok(())
}

fn measure(args: &Args, corniche: &Path, generator: &Path) -> anyhow::Result<Report> {
    Run {
        corniche,
        generator,
        engine: args.engine.as_deref(),
        signatures: args.signatures.as_deref().filter(|_| corniche == generator),
        validators: args.validators,
        senders: args.senders,
        accounts: args.accounts,
        erc20: args.erc20.as_deref(),
        batch: args.batch,
        seconds: args.seconds,
        rate: args.rate,
    }
    .measure()
}

fn print(args: &Args, reports: &[Report], older: &[Report]) {
    if args.json {
        let all = |reports: &[Report]| reports.iter().map(Report::json).collect::<Vec<_>>();
        let mut value = json!({ "parameters": parameters(args), "runs": all(reports) });
        if !older.is_empty() {
            value["olderRuns"] = all(older).into();
            value["ratios"] = report::ratios(reports, older).into_iter().collect();
        }
        exit::result(format_args!("{value:#}"));
        return;
    }
    exit::result(format_args!(
        "{} validators, {} senders, {} accounts, {} per request, {}, {} s\n",
        args.validators,
        args.senders,
        args.accounts,
        args.batch,
        if args.erc20.is_some() { "ERC-20" } else { "native" },
        args.seconds
    ));
    let text = |reports: &[Report]| reports.iter().map(Report::text).collect::<Vec<_>>().join("\n\n");
    exit::result(text(reports));
    if !older.is_empty() {
        exit::result(format_args!("\nolder binary:\n\n{}\n\nnew divided by old, means of {} runs:", text(older), older.len()));
        for (name, ratio) in report::ratios(reports, older) {
            exit::result(format_args!("  {name:<28} {ratio:.3}"));
        }
    }
}

fn parameters(args: &Args) -> serde_json::Value {
    json!({
        "signatures": args.signatures.as_deref().unwrap_or("everyone"),
        "validators": args.validators,
        "senders": args.senders,
        "accounts": args.accounts,
        "batch": args.batch,
        "erc20": args.erc20.is_some(),
        "seconds": args.seconds,
        "rate": args.rate,
    })
}
