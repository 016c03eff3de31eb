//! `corniche sim`: whole networks in virtual time. Reads the files, prints the result and sets the exit code;
//! the rest is in the simulator.

use anyhow::Context;
use corniche_api::{DagVertex, LeaderSlot, SlotStatus};
use corniche_console::exit::{self, Exit, Failed};
use corniche_engine::{TraceEvent, Vertex};
use corniche_simulator::{
    Micros, Observer, Probe, Report, Scenario, Verdict,
    comparison::Comparison,
    scenario::{self, EngineName},
    simulate_with,
};
use serde_json::{Value, json};
use std::{
    cell::{Cell, RefCell},
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    rc::Rc,
    time::Instant,
};

/// Simulate a network in virtual time
///
/// The scenario file defines the number of validators, network delays, disk speeds, load and faults. docs/simulator.md describes every
/// key, testnet/scenarios contains examples. Equal files and seeds give equal runs on every machine.
///
/// Exit codes: 0 pass, 2 invalid file, 8 no progress, 9 diverged.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Scenario file in TOML format
    #[arg(value_name = "SCENARIO")]
    file: PathBuf,
    /// Seed of all random choices; default: the file's seed, or 0 if it has none
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// File for a trace of all engines, one JSON object per line: the `vertex` and `slot` entries of `corniche_getDag`, with the
    /// `node` and the virtual time in milliseconds
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Run the scenario with these engines, or `all`, and print a table in Markdown. `engine_config` and `sequencer` of the file apply
    /// to the file's engine only
    #[arg(long, value_name = "ENGINE,…", conflicts_with_all = ["trace", "json"])]
    compare: Option<String>,
    /// Directory for plots of a comparison: latency.svg and throughput.svg
    #[arg(long, value_name = "DIR", requires = "compare")]
    plots: Option<PathBuf>,
}

/// Runs `corniche sim`.
pub fn run(args: Args) -> anyhow::Result<()> {
    let unreadable = |error| Failed::new(Exit::Usage, format!("cannot read {}: {error}", args.file.display()));
    let text = fs::read_to_string(&args.file).map_err(unreadable)?;
    if let Some(engines) = &args.compare {
        return compare(&args, engines, &text);
    }
    let refused = |error| Failed::new(Exit::Usage, format!("{}:{error}", args.file.display()));
    let scenario = scenario::parse(&text).map_err(refused)?;
    if let Some(remark) = scenario.remark() {
        exit::note(format_args!("note: {remark}"));
    }
    let seed = args.seed.unwrap_or(scenario.seed);
    let contract = contract(&args.file, &scenario)?;
    exit::note(format_args!("{} validators, {}, seed {seed}", scenario.nodes, scenario.engine));
    let started = Instant::now();
    let trace = args.trace.as_deref().map(TraceFile::create).transpose()?;
    let probe = Probe { observer: trace.as_ref().map(TraceFile::observer), ..Probe::default() };
    let report = simulate_with(&scenario, seed, contract.as_deref(), probe);
    let report = report.map_err(|error| Failed::new(Exit::Usage, error))?;
    exit::note(format_args!("simulated in {:.1} s", started.elapsed().as_secs_f64()));
    exit::result(if args.json { report.json() } else { report.text() });
    judge(&report)?;
    trace.map(TraceFile::finish).transpose().map(drop)
}

/// Runs the scenario with several engines. Fails if one of them breaks a guarantee.
fn compare(args: &Args, engines: &str, text: &str) -> anyhow::Result<()> {
    let usage = |error: String| Failed::new(Exit::Usage, error);
    let engines = match engines {
        "all" => EngineName::ALL.to_vec(),
        named => named.split(',').map(EngineName::find).collect::<Result<_, _>>().map_err(usage)?,
    };
    // Whatever an engine does not support, the file itself must be right.
    let own = scenario::parse(text).map_err(|error| usage(format!("{}:{error}", args.file.display())))?;
    let seed = args.seed.unwrap_or(own.seed);
    let contract = contract(&args.file, &own)?;
    exit::note(format_args!("{} validators, {} engines, seed {seed}", own.nodes, engines.len()));
    let started = Instant::now();
    let scenarios = engines.into_iter().map(|engine| (engine, scenario::parse_for(text, engine))).collect();
    let comparison = Comparison::run(scenarios, seed, contract.as_deref()).map_err(usage)?;
    exit::note(format_args!("simulated in {:.1} s", started.elapsed().as_secs_f64()));
    exit::result(comparison.table().trim_end());
    if let Some(directory) = &args.plots {
        fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
        for (name, svg) in comparison.plots() {
            let path = directory.join(name);
            fs::write(&path, svg).with_context(|| format!("cannot write {}", path.display()))?;
            exit::note(format_args!("wrote {}", path.display()));
        }
    }
    comparison.reports().filter(|(_, report)| report.verdict == Verdict::Diverged).try_for_each(|(_, report)| judge(report))
}

/// Output file of `--trace`.
struct TraceFile {
    path: PathBuf,
    lines: Rc<RefCell<BufWriter<File>>>,
    /// First failed write; the run continues.
    failed: Rc<Cell<Option<io::Error>>>,
}

impl TraceFile {
    fn create(path: &Path) -> anyhow::Result<Self> {
        let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { path: path.to_owned(), lines: Rc::new(RefCell::new(BufWriter::new(file))), failed: Rc::default() })
    }

    fn observer(&self) -> Observer {
        let (lines, failed) = (self.lines.clone(), self.failed.clone());
        Box::new(move |now, node, event| {
            let Some(line) = trace_line(now, node, event) else { return };
            if let Err(error) = writeln!(lines.borrow_mut(), "{line}") {
                failed.set(failed.take().or(Some(error)));
            }
        })
    }

    fn finish(self) -> anyhow::Result<()> {
        let written = self.failed.take().map_or_else(|| self.lines.borrow_mut().flush(), Err);
        written.with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// Trace line for proposals and decisions. Leaders follow from the decisions; signatures and notes are
/// omitted.
fn trace_line(now: Micros, node: usize, event: &TraceEvent) -> Option<Value> {
    let at = now.0 / 1_000;
    match event {
        TraceEvent::Proposed(proposal) => {
            Some(json!({ "node": node, "vertex": DagVertex { proposed_ms: Some(at), ..vertex(proposal) } }))
        }
        TraceEvent::Accepted(proposal) => {
            Some(json!({ "node": node, "vertex": DagVertex { accepted_ms: Some(at), ..vertex(proposal) } }))
        }
        TraceEvent::Decided { round, rank, leader, committed, why } => {
            let slot = LeaderSlot {
                round: *round,
                rank: u64::from(*rank),
                validator: u64::from(leader.0),
                status: if committed.is_some() { SlotStatus::Committed } else { SlotStatus::Skipped },
                digest: *committed,
                why: Some(why.clone()),
                decided_ms: Some(at),
                commit: None,
                voters: Vec::new(),
                confirmers: Vec::new(),
            };
            Some(json!({ "node": node, "slot": slot }))
        }
        TraceEvent::Elected { .. }
        | TraceEvent::Delivered { .. }
        | TraceEvent::Held { .. }
        | TraceEvent::Agreed { .. }
        | TraceEvent::Note { .. } => None,
    }
}

fn vertex(proposal: &Vertex) -> DagVertex {
    DagVertex {
        round: proposal.id.round,
        author: u64::from(proposal.id.author.0),
        digest: proposal.id.digest,
        parents: proposal.parents.iter().map(|parent| parent.digest).collect(),
        batch_bytes: u64::from(proposal.batch_bytes),
        batch_digest: proposal.batch_digest,
        proposed_ms: None,
        accepted_ms: None,
        holders: Vec::new(),
    }
}

/// Wasm of the contract that the scenario's payload calls.
fn contract(file: &Path, scenario: &Scenario) -> anyhow::Result<Option<Vec<u8>>> {
    let Some(name) = &scenario.contract else { return Ok(None) };
    let path = file.parent().unwrap_or(Path::new("")).join(name);
    let unreadable = |error| {
        Failed::new(Exit::Usage, format!("cannot read {}: {error}; `make contracts` builds Corniche's", path.display()))
    };
    Ok(Some(fs::read(&path).map_err(unreadable)?))
}

/// Succeeds only if the run passed; otherwise prints the violations and how to reproduce them.
fn judge(report: &Report) -> anyhow::Result<()> {
    let failed = |exit, what: &str| Err(Failed::new(exit, format!("{what}; reproduce it with seed {}", report.seed)).into());
    for violation in &report.violations {
        exit::note(format_args!("violation: {violation}"));
    }
    for sentence in &report.unfinished {
        exit::note(format_args!("unfinished: {sentence}"));
    }
    match report.verdict {
        Verdict::Pass => Ok(()),
        Verdict::NoProgress => {
            failed(Exit::NoProgress, "no progress: accepted transactions were not committed, or nodes did not catch up")
        }
        Verdict::Diverged => failed(Exit::Diverged, "diverged: a safety promise was broken"),
    }
}
