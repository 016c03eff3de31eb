//! Attacks on a network of real processes, and their effect on honest users.
//!
//! Each attack uses the real protocol over real sockets on this machine, either as a stranger or as validators. It stops the
//! processes of these validators and uses their keys. Every attack has its own network:
//!
//! ```text
//! start ─▶ calm load ─▶ load + attack ─▶ attack ends: recovery ─▶ load after ─▶ agreement, memory, receipts ─▶ one row of the table
//! ```
//!
//! Modules in layers, lowest first; each uses only modules in its row or above:
//!
//! | module | contents |
//! |---|---|
//! | `options`, `output`, `keys` | command line, its output, keys of the validators that the attacker replaces |
//! | `victims`, `load` | the processes under attack, and their honest users |
//! | `context` | environment of an attack: targets, budget, a validator to restart |
//! | `requests` | requests for blocks that are repeated without an end |
//! | `stranger`, `insider` | peers of both kinds, built on the node's own network and engines |
//! | `forge` | blocks and batches that only faulty validators make |
//! | `attacks` | one file per attack, and the table of them |
//! | `report`, `bench` | limits and tables; the phases of a run |
//! | `smoke` | the short form for CI: a bounded number of messages, without time limits |

mod attacks;
mod bench;
mod context;
mod forge;
mod insider;
mod keys;
mod load;
mod options;
mod output;
mod report;
mod requests;
mod smoke;
mod stranger;
mod victims;

use anyhow::{bail, ensure};
use attacks::{ATTACKS, Attack};
use clap::Parser;
use options::Options;
use output::{log_line, print_line};
use std::process::ExitCode;

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
    if !options.keep {
        corniche_processes::end_networks_on_interrupt()?;
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
