//! Measures Basil in virtual time as its paper does (§6), in shape: rates depend on modelled processors, not on machines.
//!
//! ```text
//! cargo run -p corniche-basil-testing --example figures [quick|full]
//! ```
//!
//! Prints Markdown tables. One seed gives the same tables. Every run ends with the offline checker; a violation stops the example.
//! `docs/performance.md`, "Basil across shards", compares the tables with the paper.
//!
//! Modules: [`mixes`] (keys of transactions), [`driver`] (closed-loop clients), [`report`] (tables).

mod driver;
mod mixes;
mod report;

use corniche_basil::config::Config;
use corniche_basil_testing::costs::Costs;
use corniche_basil_testing::doubles::ClientLie;
use driver::{Measured, ONE_WAY_MS, Run};
use mixes::{Mix, Retwis, Smallbank, Tpcc, Ycsb};
use report::{Table, hundredths, percent, tenths, whole};
use std::error::Error;
use std::fmt::Display;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;
type Figure = fn(&Scale) -> Outcome;

/// ed25519 as measured on one core (sign 17.5 µs, strict verification 47.1 µs), rounded. A hash of 64 bytes takes 0.06 µs and one of
/// 512 bytes 0.5 µs, so a path with its lookup is below 1 µs. Handling and sending are estimates of decoding, hashing and a system call.
const COSTS: Costs =
    Costs { handle_us: 5, send_us: 2, path_us: 1, sign_us: 20, verify_us: 45, verify_client_us: 45, jitter_us: 300 };
/// [`COSTS`] without signatures.
const UNSIGNED: Costs = Costs { sign_us: 0, verify_us: 0, verify_client_us: 0, path_us: 0, ..COSTS };
/// [`COSTS`] without signatures of clients.
const WITHOUT_CLIENTS: Costs = Costs { verify_client_us: 0, ..COSTS };
const SEED: u64 = 1;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Workload {
    Smallbank,
    Retwis,
    Tpcc,
    Uniform,
    Zipf,
    /// Three keys, as in the paper's figure of shards.
    UniformOfThree,
}

impl Workload {
    fn name(self) -> &'static str {
        match self {
            Self::Smallbank => "Smallbank",
            Self::Retwis => "Retwis",
            Self::Tpcc => "TPC-C",
            Self::Uniform => "RW-U",
            Self::Zipf => "RW-Z",
            Self::UniformOfThree => "RW-U, 3r + 3w",
        }
    }

    fn mix(self) -> Box<dyn Mix> {
        match self {
            Self::Smallbank => Box::new(Smallbank),
            Self::Retwis => Box::new(Retwis::new()),
            Self::Tpcc => Box::new(Tpcc::default()),
            Self::Uniform => Box::new(Ycsb::uniform(2)),
            Self::Zipf => Box::new(Ycsb::zipf(2)),
            Self::UniformOfThree => Box::new(Ycsb::uniform(3)),
        }
    }

    /// The paper's best batch.
    fn batch(self) -> usize {
        if matches!(self, Self::Tpcc | Self::Zipf) { 4 } else { 16 }
    }

    /// Clients for each shard: enough to saturate replicas, or as many as contention allows.
    fn clients(self) -> u8 {
        if matches!(self, Self::Tpcc | Self::Zipf) { 16 } else { 40 }
    }
}

/// Scale of the runs.
struct Scale {
    warm_up_ms: u64,
    measured_ms: u64,
    is_full: bool,
}

impl Scale {
    fn run(&self, workload: Workload, shards: u16) -> Run {
        Run {
            shards,
            clients: workload.clients() * shards as u8,
            mix: workload.mix(),
            config: config(workload.batch()),
            costs: Some(COSTS),
            is_one_silent: false,
            liars: None,
            warm_up_ms: self.warm_up_ms,
            measured_ms: self.measured_ms,
            seed: SEED,
        }
    }

    /// Sums of several seeds for the contended workload, whose rates vary most; one seed for the others.
    fn measure(&self, workload: Workload, run: impl Fn() -> Run) -> Result<Measured, String> {
        let seeds = if self.is_full && workload == Workload::Zipf { 3 } else { 1 };
        let mut measured = Measured::default();
        for seed in SEED..SEED + seeds {
            measured.add(Run { seed, ..run() }.measure()?);
        }
        Ok(measured)
    }
}

/// Watermarks are no part of the paper.
fn config(reply_batch: usize) -> Config {
    Config { reply_batch, close_ms: 0, ..Config::default() }
}

fn main() -> Outcome {
    let scale = match std::env::args().nth(1).as_deref() {
        None | Some("quick") => Scale { warm_up_ms: 40, measured_ms: 100, is_full: false },
        Some("full") => Scale { warm_up_ms: 200, measured_ms: 600, is_full: true },
        Some(other) => return Err(format!("figures: expected quick or full, got {other}").into()),
    };
    let only = std::env::args().nth(2);
    let figures: [(&str, Figure); 4] =
        [("workloads", workloads), ("batches", batches), ("fast", fast_path), ("byzantine", byzantine_clients)];
    for (name, figure) in figures {
        if only.as_deref().is_none_or(|only| only == name) {
            figure(&scale)?;
        }
    }
    Ok(())
}

fn workloads(scale: &Scale) -> Outcome {
    let columns = [
        "workload",
        "b",
        "shards",
        "clients",
        "commit rate",
        "tx/s",
        "median, ms",
        "median, delays",
        "fast path",
        "messages / tx",
        "signatures made / tx",
        "verified / tx",
        "by replicas: of replicas / of clients",
    ];
    let mut table = Table::new("Workloads", &columns)?;
    let all = [
        (Workload::Smallbank, 16),
        (Workload::Retwis, 16),
        (Workload::Tpcc, 4),
        (Workload::Uniform, 16),
        (Workload::Uniform, 48),
        (Workload::UniformOfThree, 16),
        (Workload::UniformOfThree, 48),
        (Workload::Zipf, 4),
        (Workload::Zipf, 12),
    ];
    for (workload, b) in all {
        for shards in if scale.is_full { vec![1, 2, 3] } else { vec![1, 3] } {
            let run = || Run { config: config(b), ..scale.run(workload, shards) };
            let clients = run().clients;
            let measured = scale.measure(workload, run)?;
            let delays = delays(scale, workload, shards)?;
            let Measured { work, messages, .. } = &measured;
            let made = work.made_by_replicas + work.made_by_clients;
            let verified = work.checked_by_replicas.all() + work.checked_by_clients.all();
            table.row(&[
                &workload.name(),
                &b,
                &shards,
                &clients,
                &percent(measured.commit_share()),
                &whole(measured.per_second()),
                &tenths(measured.latency_ms()),
                &delays,
                &percent(measured.fast_share()),
                &tenths(measured.each(*messages as u64)),
                &tenths(measured.each(made)),
                &tenths(measured.each(verified)),
                &format!(
                    "{:.1} / {:.1}",
                    measured.each(work.checked_by_replicas.of_replicas),
                    measured.each(work.checked_by_replicas.of_clients)
                ),
            ])?;
        }
    }
    Ok(())
}

/// Median from the first read to the commit, in one-way delays: processors take no time, and replies leave at once.
fn delays(scale: &Scale, workload: Workload, shards: u16) -> Outcome<String> {
    let config = Config { reply_delay_ms: 0, ..config(1) };
    let clients = 8 * shards as u8;
    let measured_ms = scale.measured_ms / 4;
    let run = || Run { config: config.clone(), costs: None, clients, measured_ms, ..scale.run(workload, shards) };
    let measured = run().measure()?;
    Ok(whole(measured.latency_ms() / ONE_WAY_MS as f64))
}

fn batches(scale: &Scale) -> Outcome {
    let columns = ["workload", "timer, ms", "b", "signatures / reply", "tx/s", "against b = 1", "aborts", "median, ms"];
    let mut table = Table::new("Reply batches", &columns)?;
    let timers: &[u64] = if scale.is_full { &[2, 10] } else { &[10] };
    for workload in [Workload::Uniform, Workload::Zipf] {
        // Even without signatures, replicas have more to do than they can.
        let clients = if workload == Workload::Uniform { 120 } else { workload.clients() };
        let run = || Run { clients, ..scale.run(workload, 1) };
        for timer in timers {
            let mut first = None;
            for b in [1, 2, 4, 8, 16, 32, 64] {
                let config = || Config { reply_delay_ms: *timer, ..config(b) };
                let measured = scale.measure(workload, || Run { config: config(), ..run() })?;
                let rate = measured.per_second();
                table.row(&[
                    &workload.name(),
                    timer,
                    &b,
                    &hundredths(measured.work.made_by_replicas as f64 / measured.replies as f64),
                    &whole(rate),
                    &hundredths(rate / *first.get_or_insert(rate)),
                    &percent(1.0 - measured.commit_share()),
                    &tenths(measured.latency_ms()),
                ])?;
            }
        }
        let mut row = |name: &str, measured: &Measured| {
            let (rate, latency) = (whole(measured.per_second()), tenths(measured.latency_ms()));
            let aborts = percent(1.0 - measured.commit_share());
            let none: &dyn Display = &"";
            table.row(&[&format!("{}, {name}", workload.name()), none, none, none, &rate, none, &aborts, &latency])
        };
        let remembered = scale.measure(workload, || Run { costs: Some(WITHOUT_CLIENTS), ..run() })?;
        row("clients' signatures free", &remembered)?;
        let free = scale.measure(workload, || Run { costs: Some(UNSIGNED), ..run() })?;
        row("all signatures free", &free)?;
    }
    Ok(())
}

fn fast_path(scale: &Scale) -> Outcome {
    let columns = [
        "workload",
        "replicas",
        "wait for the sixth vote, ms",
        "tx/s",
        "median, ms",
        "ST1 to decision, ms",
        "fast path",
        "commit rate",
    ];
    let mut table = Table::new("Fast path", &columns)?;
    for workload in [Workload::Uniform, Workload::Zipf] {
        for (is_one_silent, fast_path_ms) in [(false, 10), (true, 0), (true, 10)] {
            let config = || Config { fast_path_ms, ..config(workload.batch()) };
            let measured = scale.measure(workload, || Run { config: config(), is_one_silent, ..scale.run(workload, 3) })?;
            table.row(&[
                &workload.name(),
                &if is_one_silent { "one of six silent" } else { "all" },
                &fast_path_ms,
                &whole(measured.per_second()),
                &tenths(measured.latency_ms()),
                &tenths(measured.decision_ms()),
                &percent(measured.fast_share()),
                &percent(measured.commit_share()),
            ])?;
        }
    }
    Ok(())
}

/// Number of clients whose transactions are about this share of all. A client that never waits for a decision prepares more of them
/// than others, and a client that never retries more than those that back off; the factors are measured.
fn liars(workload: Workload, clients: u8, percent: u8, lie: ClientLie) -> u8 {
    let pace = match (workload, lie) {
        (Workload::Zipf, ClientLie::StallEarly) => 6.7,
        (Workload::Zipf, _) => 2.4,
        (_, ClientLie::StallEarly) => 2.9,
        _ => 1.0,
    };
    let odds = f64::from(percent) / f64::from(100 - percent) / pace;
    (f64::from(clients) * odds / (1.0 + odds)).round() as u8
}

/// Time after which a client recovers a transaction in its way, for Byzantine clients, ms. It must be above the latency under load: a
/// client that recovers transactions which only wait for a processor adds to the load.
const RECOVER_MS: u64 = 25;

fn byzantine_clients(scale: &Scale) -> Outcome {
    let columns = [
        "workload",
        "attack",
        "recovery after, ms",
        "clients that lie",
        "faulty share of processed",
        "tx/s per correct client",
        "against none",
        "commit rate",
        "fast path",
        "equivocated",
    ];
    let mut table = Table::new("Byzantine clients", &columns)?;
    let attacks = [
        ("stall-early", ClientLie::StallEarly),
        ("stall-late", ClientLie::StallLate),
        ("equivocate, real", ClientLie::EquivocateIfPossible),
    ];
    let shares: &[u8] = if scale.is_full { &[10, 20, 30, 40] } else { &[20, 40] };
    for workload in [Workload::Uniform, Workload::Zipf] {
        let mut base = None;
        let mut row = |attack: &str, lie: Option<ClientLie>, recover_ms: u64, share: u8| -> Outcome {
            let config = Config { recover_ms, ..config(workload.batch()) };
            let run = || {
                let run = scale.run(workload, 3);
                let liars = lie.map(|lie| (lie, liars(workload, run.clients, share, lie)));
                Run { config: config.clone(), liars, ..run }
            };
            let measured = scale.measure(workload, run)?;
            let rate = measured.per_second() / measured.correct_clients as f64;
            table.row(&[
                &workload.name(),
                &attack,
                &recover_ms,
                &(run().clients as usize - measured.correct_clients),
                &percent(measured.faulty_share()),
                &tenths(rate),
                &hundredths(rate / *base.get_or_insert(rate)),
                &percent(measured.commit_share()),
                &percent(measured.fast_share()),
                &measured.equivocated,
            ])?;
            Ok(())
        };
        row("none", None, RECOVER_MS, 0)?;
        for (name, lie) in attacks {
            for share in shares {
                row(name, Some(lie), RECOVER_MS, *share)?;
            }
        }
        if workload == Workload::Zipf {
            let default_ms = Config::default().recover_ms;
            row("none", None, default_ms, 0)?;
            for share in shares {
                row("stall-early", Some(ClientLie::StallEarly), default_ms, *share)?;
            }
        }
    }
    Ok(())
}
