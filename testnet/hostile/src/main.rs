//! Attacks on a network of real processes, and their effect on honest users.
//!
//! Each attack uses the real protocol over real sockets on this machine, either as a stranger or as validators. It stops the
//! processes of these validators and uses their keys. Every attack has its own network:
//!
//! ```text
//! start ─▶ calm load ─▶ load + attack ─▶ attack ends: recovery ─▶ load after ─▶ agreement, memory, receipts ─▶ one row of the table
//! ```
//!
//! | module | contents |
//! |---|---|
//! | `attacks` | one file per attack, and the table of them |
//! | `context` | environment of an attack: targets, budget, a validator to restart |
//! | `stranger`, `insider` | peers of both kinds, built on the node's own network and engines |
//! | `forge` | blocks and batches that only faulty validators make |
//! | `victims`, `load` | the processes under attack, and their honest users |
//! | `bench`, `report` | the phases of a run; limits and tables |
//! | `smoke` | the short form for CI: a bounded number of messages, without time limits |

mod attacks;
mod bench;
mod context;
mod forge;
mod insider;
mod keys;
mod load;
mod report;
mod smoke;
mod stranger;
mod victims;

use anyhow::{bail, ensure};
use attacks::{ATTACKS, Attack};
use clap::Parser;
use std::{io::Write, path::PathBuf, process::ExitCode};

/// Attack a network of real processes on this machine and measure the effect on honest users
#[derive(Parser, Debug)]
#[command(name = "corniche-hostile")]
pub struct Options {
    /// Names of the attacks to run; default: all
    #[arg(value_name = "ATTACK")]
    names: Vec<String>,
    /// List the attacks and exit
    #[arg(long)]
    list: bool,
    /// Send a few messages of each attack, then check that the network still executes a transfer; no time limits
    #[arg(long, conflicts_with_all = ["json", "seconds", "rate"])]
    smoke: bool,
    /// Number of validators of each network; the attacker replaces the maximum number of faulty ones
    #[arg(long, value_name = "N", default_value_t = 4)]
    validators: usize,
    /// Ordering engines, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "mahi-mahi,autobahn")]
    engine: Vec<String>,
    /// Duration of each load and of each attack in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    seconds: u64,
    /// Number of transfers per second of the honest users
    #[arg(long, value_name = "N", default_value_t = 100)]
    rate: u32,
    /// Seed of the attackers' choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// File for the results as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Keep the directories of the networks, which contain their logs
    #[arg(long)]
    keep: bool,
    /// Path of the node binary under test
    #[arg(long, value_name = "FILE", env = "CORNICHE_BIN", default_value = "target/debug/corniche")]
    corniche: PathBuf,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            log_line(format_args!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Returns true if every limit was met.
fn run(options: &Options) -> anyhow::Result<bool> {
    if options.list {
        ATTACKS.iter().for_each(|attack| print_line(format_args!("{:<22} {:<4} {}", attack.name, attack.item, attack.about)));
        return Ok(true);
    }
    ensure!(options.corniche.exists(), "{} is missing; run `make build` or set CORNICHE_BIN", options.corniche.display());
    ensure!(options.validators >= 4, "--validators: expected at least 4, got {}", options.validators);
    ensure!(options.seconds > 0 && options.rate > 0, "--seconds and --rate: expected at least 1");
    let attacks = chosen(&options.names)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    if options.smoke {
        smoke::run(options, &attacks, &runtime)?;
        return Ok(true);
    }
    let (rows, failures) = bench::run(options, &attacks, &runtime);
    print_line(report::table(&rows));
    if let Some(path) = &options.json {
        std::fs::write(path, report::json(options, &rows))?;
    }
    ensure!(failures == 0, "{failures} attacks could not be measured; see above");
    Ok(rows.iter().all(|row| row.missed.is_empty()))
}

fn chosen(names: &[String]) -> anyhow::Result<Vec<&'static Attack>> {
    if names.is_empty() {
        return Ok(ATTACKS.to_vec());
    }
    let find = |name: &String| match ATTACKS.iter().find(|attack| attack.name == name) {
        Some(attack) => Ok(*attack),
        None => bail!("unknown attack {name}; see --list"),
    };
    names.iter().map(find).collect()
}

/// Prints one line of the result, on standard output.
fn print_line(line: impl std::fmt::Display) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

/// Prints one line for people, on standard error.
fn log_line(line: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
