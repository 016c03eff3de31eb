//! `corniche sim`: whole networks in virtual time. This reads the files, prints the result and picks the exit code; the rest is the
//! simulator's.

use crate::exit::{self, Exit, Failed};
use anyhow::Context;
use corniche_simulator::{Report, Scenario, Verdict, scenario, simulate};
use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

/// Run a whole network in virtual time
///
/// The scenario file says how many validators there are, how far apart and how fast their disks are, what they are given to do
/// and what goes wrong: docs/simulator.md describes every key, testnet/scenarios holds examples. The same file and seed give the
/// same run on every machine.
///
/// Exit codes: 0 pass, 2 the file is refused, 8 no progress, 9 diverged.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Scenario file, TOML
    #[arg(value_name = "SCENARIO")]
    file: PathBuf,
    /// Seed of everything that is drawn by chance; the file's when absent, and 0 when it names none
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `corniche sim`.
pub fn run(args: Args) -> anyhow::Result<()> {
    let text = fs::read_to_string(&args.file).with_context(|| format!("cannot read {}", args.file.display()))?;
    let refused = |error| Failed::new(Exit::Usage, format!("{}:{error}", args.file.display()));
    let scenario = scenario::parse(&text).map_err(refused)?;
    if let Some(remark) = scenario.remark() {
        exit::note(format_args!("note: {remark}"));
    }
    let seed = args.seed.unwrap_or(scenario.seed);
    let contract = contract(&args.file, &scenario)?;
    exit::note(format_args!("{} validators, {}, seed {seed}", scenario.nodes, scenario.engine));
    let started = Instant::now();
    let report = simulate(&scenario, seed, contract.as_deref()).map_err(|error| Failed::new(Exit::Usage, error))?;
    exit::note(format_args!("simulated in {:.1} s", started.elapsed().as_secs_f64()));
    exit::result(if args.json { report.json() } else { report.text() });
    judge(&report)
}

/// The wasm that the scenario's payload calls.
fn contract(file: &Path, scenario: &Scenario) -> anyhow::Result<Option<Vec<u8>>> {
    let Some(name) = &scenario.contract else { return Ok(None) };
    let path = file.parent().unwrap_or(Path::new("")).join(name);
    let read =
        fs::read(&path).with_context(|| format!("cannot read {}; `make contracts` builds Corniche's", path.display()))?;
    Ok(Some(read))
}

/// Success only for a pass; why not, and how to see it again.
fn judge(report: &Report) -> anyhow::Result<()> {
    let failed = |exit, what: &str| Err(Failed::new(exit, format!("{what}; seed {} shows it again", report.seed)).into());
    for violation in &report.violations {
        exit::note(format_args!("violation: {violation}"));
    }
    match report.verdict {
        Verdict::Pass => Ok(()),
        Verdict::NoProgress => failed(Exit::NoProgress, "no progress: accepted transactions were not committed"),
        Verdict::Diverged => failed(Exit::Diverged, "diverged: a safety promise was broken"),
    }
}
