//! Cost of the ordering core on one thread, without network: `cargo bench -p corniche-core-bench`. Arguments after `--`
//! select a part: tables (`steady`, `full`, `backlog`, `real`), engines (`mahi-mahi`, `autobahn`, `mir`, `quepaxa`, `sadl-racs`, `baxos`), committee sizes
//! (`10`), and `replays=100` for a profiler.
//!
//! A committee of real engines runs in virtual time, over links of 10 ms; every validator proposes as fast as its
//! protocol allows. The inputs of validator 0 are replayed with a clock, see [`recording`]. Time and allocations are those
//! inside `handle` and `poll`; the verifier's work on worker threads is a separate column. A proposal is a block of
//! Mahi-Mahi, a car of Autobahn, or a batch of another engine. All work of an engine, votes and slots included, is divided by the proposals that it
//! accepts meanwhile.

// A benchmark reads a clock, reports failures by panics, and prints a table as its result.
#![allow(clippy::disallowed_types, clippy::unwrap_used, clippy::print_stdout)]

mod allocations;
mod autobahn;
mod crashes;
mod mahi_mahi;
mod mir;
mod recording;

use autobahn::{AutobahnBench, CertificateKind};
use crashes::{BaxosBench, QuePaxaBench, RacsBench};
use mahi_mahi::MahiMahiBench;
use mir::MirBench;
use recording::{BenchTarget, Cost, RecordedNetwork};
use std::rc::Rc;

/// Bytes per transaction, for tables that count transactions.
const TRANSACTION: u64 = 512;

/// Reason why ordering stalls while proposals continue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Backlog {
    /// Mahi-Mahi: no coin opens at validator 0. Autobahn: no validator receives any slot.
    All,
    /// Mahi-Mahi: one coin stays closed. Autobahn: validator 0 lacks only one car.
    One,
}

/// The selected measurements.
struct Options {
    /// Set by `cargo test --benches`: a short run that only shows that the benchmark works.
    quick: bool,
    words: Vec<String>,
}

impl Options {
    fn from_arguments() -> Self {
        let (flags, words): (Vec<_>, Vec<_>) = std::env::args().skip(1).partition(|argument| argument.starts_with('-'));
        Self { quick: flags.iter().any(|flag| flag == "--test"), words }
    }

    /// Returns true if `word` was given, or none of `all`.
    fn wants(&self, word: &str, all: &[&str]) -> bool {
        let said = |word: &str| self.words.iter().any(|said| said == word);
        said(word) || !all.iter().any(|word| said(word))
    }

    fn table(&self, name: &str) -> bool {
        self.wants(name, &["steady", "full", "backlog", "real"])
    }

    fn engine(&self, name: &str) -> bool {
        self.wants(name, &["mahi-mahi", "autobahn", "mir", "quepaxa", "sadl-racs", "baxos"])
    }

    fn sizes(&self) -> Vec<usize> {
        let said: Vec<_> = self.words.iter().filter_map(|word| word.parse().ok()).collect();
        match (self.quick, said.is_empty()) {
            (true, _) => vec![4],
            (_, true) => vec![4, 10, 50, 100],
            _ => said,
        }
    }

    fn replays(&self) -> usize {
        let said = self.words.iter().find_map(|word| word.strip_prefix("replays=")?.parse().ok());
        said.unwrap_or(if self.quick { 2 } else { 7 })
    }

    /// All engines, or the selected ones, with modelled keys. Backlogs are made for Mahi-Mahi and Autobahn.
    fn targets(&self, size: usize, retained: u64, backlog: Option<Backlog>) -> Vec<Rc<dyn BenchTarget>> {
        let mahi: Rc<dyn BenchTarget> = Rc::new(MahiMahiBench::new(size, retained, false, backlog));
        let auto: Rc<dyn BenchTarget> = Rc::new(AutobahnBench::new(size, retained, CertificateKind::Modelled, backlog));
        let mir: Rc<dyn BenchTarget> = Rc::new(MirBench::new(size, retained, false));
        let quepaxa: Rc<dyn BenchTarget> = Rc::new(QuePaxaBench::new(size, retained));
        let racs: Rc<dyn BenchTarget> = Rc::new(RacsBench::new(size, retained));
        let baxos: Rc<dyn BenchTarget> = Rc::new(BaxosBench::new(size, retained));
        [mahi, auto, mir, quepaxa, racs, baxos].into_iter().filter(|target| self.engine(target.name())).collect()
    }
}

fn main() {
    let options = Options::from_arguments();
    options.table("steady").then(|| growth_with_the_committee(&options));
    options.table("full").then(|| full_batches(&options));
    options.table("backlog").then(|| backlog(&options, Backlog::All));
    options.table("backlog").then(|| backlog(&options, Backlog::One));
    options.table("real").then(|| real_cryptography(&options));
}

/// Runs for `warm` proposals per validator, then measures `proposals`.
fn steady(target: Rc<dyn BenchTarget>, batch_bytes: usize, warm: u64, proposals: u64, replays: usize) -> Cost {
    let mut net = RecordedNetwork::new(target, batch_bytes);
    net.run(warm);
    net.run(proposals);
    let [cost] = net.costs(replays);
    cost
}

fn growth_with_the_committee(options: &Options) {
    println!("\nsteady state: 1 KiB batches of two transactions, 30 rounds or slots kept, modelled crypto");
    println!(
        "| engine | n | engine, us/proposal | ratio | us/proposal and validator | us/committed tx | allocations/proposal | KiB allocated/proposal | verifier, us/proposal |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut bases = Vec::<(&str, f64)>::new();
    for size in options.sizes() {
        for target in options.targets(size, 30, None) {
            let name = target.name();
            let (warm, proposals) = if options.quick { (10, 5) } else { (70, 2_000 / size as u64 + 10) };
            let cost = steady(target, 1 << 10, warm, proposals, options.replays());
            let proposals = cost.counts.proposals as f64;
            let micros = cost.engine() / proposals;
            if bases.iter().all(|(base, _)| *base != name) {
                bases.push((name, micros));
            }
            let base = bases.iter().find(|(base, _)| *base == name).unwrap().1;
            println!(
                "| {name} | {size} | {micros:.1} | {:.1} | {:.3} | {:.2} | {:.1} | {:.1} | {:.1} |",
                micros / base,
                micros / size as f64,
                cost.engine() * TRANSACTION as f64 / cost.counts.bytes as f64,
                cost.allocations as f64 / proposals,
                cost.allocated_bytes as f64 / 1024.0 / proposals,
                cost.verifier() / proposals,
            );
        }
    }
}

fn full_batches(options: &Options) {
    println!("\nfull: 512 KiB batches of {TRANSACTION} B transactions, 8 rounds or slots kept, modelled crypto");
    println!(
        "| engine | n | engine, us/proposal | us/committed tx | million committed tx/s | verifier, us/proposal | us/committed tx |"
    );
    println!("|---|---|---|---|---|---|---|");
    for size in options.sizes() {
        for target in options.targets(size, 8, None) {
            let name = target.name();
            let (warm, proposals) = if options.quick { (8, 3) } else { (16, 100 / size as u64 + 4) };
            let cost = steady(target, 512 << 10, warm, proposals, options.replays());
            let (proposals, transactions) = (cost.counts.proposals as f64, (cost.counts.bytes / TRANSACTION) as f64);
            println!(
                "| {name} | {size} | {:.1} | {:.3} | {:.1} | {:.1} | {:.3} |",
                cost.engine() / proposals,
                cost.engine() / transactions,
                transactions / cost.engine(),
                cost.verifier() / proposals,
                cost.verifier() / transactions,
            );
        }
    }
}

fn backlog(options: &Options, backlog: Backlog) {
    let title = match backlog {
        Backlog::All => "all coins closed to validator 0 / all slots withheld from everybody",
        Backlog::One => "one coin closed to validator 0 / one car withheld from it",
    };
    println!(
        "\nbacklog: {title}, for k proposals of each of 10 validators, 1 KiB batches, 100 rounds or slots kept, modelled crypto"
    );
    println!(
        "| engine | k | us/proposal during the backlog (the last 10 of k) | ratio | recovery, ms | commits | us/batch delivered | longest step, ms |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for name in ["mahi-mahi", "autobahn"] {
        let mut first = None;
        for k in if options.quick { [12, 20, 30] } else { [12, 100, 390] } {
            let Some(target) = options.targets(10, 100, Some(backlog)).into_iter().find(|target| target.name() == name) else {
                continue;
            };
            let mut net = RecordedNetwork::new(target, 1 << 10);
            net.run(k - 10);
            net.run(10);
            net.release();
            let [standing, resolving] = net.costs(options.replays());
            let micros = standing.engine() / standing.counts.proposals as f64;
            let base = *first.get_or_insert(micros);
            println!(
                "| {name} | {k} | {micros:.1} | {:.1} | {:.2} | {} | {:.1} | {:.2} |",
                micros / base,
                resolving.engine() / 1e3,
                resolving.counts.commits,
                resolving.engine() / resolving.counts.batches as f64,
                resolving.longest() / 1e3,
            );
        }
    }
}

fn real_cryptography(options: &Options) {
    println!("\nreal crypto: n = 10, 1 KiB batches of two transactions");
    println!("| engine | crypto | engine, us/proposal | us/committed tx | verifier, us/proposal | us/committed tx |");
    println!("|---|---|---|---|---|---|");
    let mahi = |real| Rc::new(MahiMahiBench::new(10, 30, real, None)) as Rc<dyn BenchTarget>;
    let auto = |kind| Rc::new(AutobahnBench::new(10, 30, kind, None)) as Rc<dyn BenchTarget>;
    let mir = |real| Rc::new(MirBench::new(10, 30, real)) as Rc<dyn BenchTarget>;
    let rows = [
        ("modelled", mahi(false)),
        ("ed25519, BLS coin", mahi(true)),
        ("modelled", auto(CertificateKind::Modelled)),
        ("ed25519, lists", auto(CertificateKind::Ed25519Certificates)),
        ("ed25519, BLS sums", auto(CertificateKind::BlsCertificates)),
        ("modelled", mir(false)),
        ("ed25519", mir(true)),
    ];
    for (crypto, target) in rows.into_iter().filter(|(_, target)| options.engine(target.name())) {
        let name = target.name();
        let cost = steady(target, 1 << 10, 10, if options.quick { 3 } else { 30 }, options.replays());
        let (proposals, transactions) = (cost.counts.proposals as f64, (cost.counts.bytes / TRANSACTION) as f64);
        println!(
            "| {name} | {crypto} | {:.1} | {:.2} | {:.1} | {:.2} |",
            cost.engine() / proposals,
            cost.engine() / transactions,
            cost.verifier() / proposals,
            cost.verifier() / transactions,
        );
    }
}
