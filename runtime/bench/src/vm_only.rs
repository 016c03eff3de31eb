//! `corniche bench exec --vm-only`: contract calls without transactions and state, compared with the same
//! modules on bare wasmtime.

use super::{
    chain::{Accounts, Chain},
    random::Random,
    report::median,
    wasm::Wasm,
    workloads::{Sizes, Workload},
};
use anyhow::{Context, anyhow, ensure};
use corniche_console::processor::thread_cpu;
use corniche_vm::{
    THREAD_STACK_BYTES,
    bench::{BARE, Subject, subjects},
};
use serde_json::{Value, json};
use std::{
    hint::black_box,
    num::NonZero,
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

/// Number of measurements, and subjects.
#[derive(clap::Args, Clone, Debug)]
pub struct Calls {
    /// With --vm-only: number of rounds; each subject has one turn per round
    #[arg(long, value_name = "N", default_value_t = 15, requires = "vm_only")]
    rounds: u32,
    /// With --vm-only: number of calls per turn
    #[arg(long, value_name = "N", default_value_t = 500, requires = "vm_only")]
    calls: u32,
    /// With --vm-only: only subject to run, for measurement with external profilers
    #[arg(long, value_name = "NAME", requires = "vm_only")]
    subject: Option<String>,
}

/// Load beside the calls: name in the text, key in JSON.
const COMPANY: [(&str, &str); 3] =
    [("alone", "alone"), ("beside a busy thread", "besideBusyThread"), ("two threads, each", "twoThreads")];

/// Microseconds per call, by round and subject.
type Figures = Vec<Vec<f64>>;

/// Call of one workload.
struct Row {
    workload: &'static Workload,
    gas: u64,
    subjects: Vec<&'static str>,
    /// In the order of [`COMPANY`].
    figures: [Figures; COMPANY.len()],
}

/// All calls of one run.
pub struct Report {
    calls: Calls,
    seed: u64,
    rows: Vec<Row>,
}

/// Measures the workloads that call a contract.
pub fn run(
    calls: &Calls,
    workloads: impl Iterator<Item = &'static Workload>,
    wasm: &Wasm,
    seed: u64,
) -> anyhow::Result<Report> {
    ensure!(calls.rounds > 0 && calls.calls > 0, "--rounds and --calls are at least 1");
    let accounts = Accounts::new(Sizes::SMALL.accounts);
    let mut rows = Vec::new();
    for workload in workloads {
        let row =
            measure_workload(calls, workload, &accounts, wasm, seed).with_context(|| format!("workload {}", workload.name))?;
        rows.extend(row);
    }
    Ok(Report { calls: calls.clone(), seed, rows })
}

fn measure_workload(
    calls: &Calls,
    workload: &'static Workload,
    accounts: &Accounts,
    wasm: &Wasm,
    seed: u64,
) -> anyhow::Result<Option<Row>> {
    let mut chain = Chain::new(accounts, wasm)?;
    let mut generate = (workload.set_up)(&mut chain, &Sizes::SMALL)?;
    let Some((single, gas)) = chain.single(generate(&mut Random::new(seed, workload.name), 0))? else { return Ok(None) };
    let mut subjects = subjects(&single, 2)?;
    if let Some(only) = &calls.subject {
        let names: Vec<_> = subjects.iter().map(|subject| subject.name).collect();
        subjects.retain(|subject| subject.name == only);
        ensure!(!subjects.is_empty(), "--subject is one of: {}", names.join("; "));
    }
    let figures = [alone(calls, &subjects)?, beside_busy_thread(calls, &subjects)?, on_two_threads(calls, &subjects)?];
    Ok(Some(Row { workload, gas, subjects: subjects.iter().map(|subject| subject.name).collect(), figures }))
}

fn alone(calls: &Calls, subjects: &[Subject]) -> anyhow::Result<Figures> {
    measure(calls, subjects, &Barrier::new(1))
}

fn beside_busy_thread(calls: &Calls, subjects: &[Subject]) -> anyhow::Result<Figures> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut sum = 0u64;
            while !stop.load(Ordering::Relaxed) {
                sum = black_box(sum.wrapping_mul(31).wrapping_add(7));
            }
        });
        let figures = alone(calls, subjects);
        stop.store(true, Ordering::Relaxed);
        figures
    })
}

fn on_two_threads(calls: &Calls, subjects: &[Subject]) -> anyhow::Result<Figures> {
    let step = Barrier::new(2);
    thread::scope(|scope| {
        let builder = thread::Builder::new().name("bench-2".into()).stack_size(THREAD_STACK_BYTES);
        let other = builder.spawn_scoped(scope, || measure(calls, subjects, &step)).context("cannot start a thread")?;
        let figures = measure(calls, subjects, &step);
        other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).and(figures)
    })
}

/// Runs all subjects in turns on this thread, in step with other threads that do the same. The first round
/// does not count.
fn measure(calls: &Calls, subjects: &[Subject], step: &Barrier) -> anyhow::Result<Figures> {
    let mut runners: Vec<_> = subjects.iter().map(|subject| (subject.runner)()).collect();
    let mut failed = Ok(());
    let mut round = || {
        let turns = runners.iter_mut().map(|run| {
            let warm_up = run(calls.calls / 10 + 1);
            step.wait();
            let start = thread_cpu();
            let ran = run(calls.calls);
            let took = thread_cpu().saturating_sub(start);
            // The other threads wait at the next step, so this one must reach it even after an error.
            failed = std::mem::replace(&mut failed, Ok(())).and(warm_up).and(ran);
            1e6 * took.as_secs_f64() / f64::from(calls.calls)
        });
        turns.collect()
    };
    round();
    let figures = (0..calls.rounds).map(|_| round()).collect();
    failed.map_err(|error| anyhow!(error))?;
    Ok(figures)
}

impl Row {
    /// Medians over the rounds: microseconds per call, and the ratio to bare wasmtime in the same round, if
    /// that was measured.
    fn medians(&self, company: usize, subject: usize) -> (f64, Option<f64>) {
        let figures = &self.figures[company];
        let median_by = |of: &dyn Fn(&[f64]) -> f64| median(figures.iter().map(|round| of(round)).collect());
        let bare = self.subjects.iter().position(|name| *name == BARE);
        let ratio = bare.map(|bare| median_by(&|round| round[subject] / round[bare].max(f64::MIN_POSITIVE)));
        (median_by(&|round| round[subject]), ratio)
    }

    fn json(&self) -> Value {
        let subject = |(subject, name): (usize, &&str)| {
            let mut figures = json!({ "name": name });
            for (company, (_, key)) in COMPANY.iter().enumerate() {
                let (microseconds, against_bare) = self.medians(company, subject);
                figures[key] = json!({ "microseconds": microseconds, "againstBare": against_bare });
            }
            figures
        };
        json!({
            "name": self.workload.name,
            "about": self.workload.about,
            "gas": self.gas,
            "subjects": self.subjects.iter().enumerate().map(subject).collect::<Vec<_>>(),
        })
    }

    fn text(&self) -> Vec<String> {
        let title = format!("{}, {} gas", self.workload.name, self.gas);
        let heads = COMPANY.map(|(name, _)| format!("  {name:>20}")).concat();
        let subject = |(subject, name): (usize, &&str)| {
            let cells = (0..COMPANY.len()).map(|company| match self.medians(company, subject) {
                (microseconds, Some(ratio)) => format!("  {microseconds:>12.2} {:>7}", format!("({ratio:.2})")),
                (microseconds, None) => format!("  {microseconds:>20.2}"),
            });
            format!("  {name:<49}{}", cells.collect::<String>())
        };
        let mut lines = vec![format!("{title:<51}{heads}")];
        lines.extend(self.subjects.iter().enumerate().map(subject));
        lines
    }
}

impl Report {
    pub fn json(&self) -> String {
        let report = json!({
            "parameters": { "seed": self.seed, "rounds": self.calls.rounds, "calls": self.calls.calls },
            "cores": thread::available_parallelism().map_or(1, NonZero::get),
            "workloads": self.rows.iter().map(Row::json).collect::<Vec<_>>(),
        });
        format!("{report:#}")
    }

    pub fn text(&self) -> String {
        let mut lines: Vec<_> = self.rows.iter().flat_map(Row::text).collect();
        lines.push(format!(
            "microseconds of thread CPU time a call, medians of {} rounds of {} calls; in brackets: of the ratios to {BARE} in the same round",
            self.calls.rounds, self.calls.calls
        ));
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::WORKLOADS;

    #[test]
    fn ratios_compare_runs_of_one_round() {
        let figures = || vec![vec![1.0, 2.0], vec![30.0, 40.0], vec![5.0, 50.0]];
        let mut row =
            Row { workload: &WORKLOADS[0], gas: 1, subjects: vec!["ours", BARE], figures: [figures(), figures(), figures()] };
        assert_eq!(row.medians(0, 0), (5.0, Some(0.5)));
        assert_eq!(row.medians(2, 1), (40.0, Some(1.0)));
        row.subjects = vec!["ours"];
        assert_eq!(row.medians(0, 0), (5.0, None), "there is nothing to compare with");
    }
}
