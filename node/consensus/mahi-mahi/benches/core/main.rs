//! What the ordering core costs, one thread, no network: `cargo bench -p corniche-mahi-mahi --bench core`; with
//! `-- steady`, `full`, `backlog` or `real` only that table.
//!
//! One validator of a committee is the real engine, with its own proposals and everything it owes the world drained and dropped.
//! The others are scripted: lock-step rounds in which everybody references everybody. Time and allocations are those inside
//! `handle` and `poll`; what the verifier does on worker threads is a column of its own. Rows of one table come from the same
//! run, so their ratios hold on any machine; figures are of the first quartile of the
//! rounds, because on a busy machine the mean is somebody else's.

// A benchmark reads a clock, its panic is its report, and its table is the result.
#![allow(clippy::disallowed_types, clippy::unwrap_used, clippy::print_stdout)]

mod allocations;
mod committee;

use committee::{Coins, Cost, Net, Setting};
use corniche_mahi_mahi::Config;

fn main() {
    // `cargo test --benches` asks for a run that only shows that it works.
    let quick = std::env::args().any(|argument| argument == "--test");
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let wanted = |name: &str| only.as_ref().is_none_or(|only| name.contains(only.as_str()));
    wanted("steady").then(|| growth_with_the_committee(quick));
    wanted("full").then(|| full_blocks(quick));
    wanted("backlog").then(|| backlog(quick, Coins::AllWithheld, "backlog: all coins withheld for k rounds"));
    wanted("backlog").then(|| backlog(quick, Coins::FirstWithheld, "backlog: one coin withheld for k rounds"));
    wanted("real").then(|| real_cryptography(quick));
}

fn config(gc_depth: u64, retain_rounds: u64) -> Config {
    Config { gc_depth, retain_rounds, min_round_ms: 0, parent_grace_ms: 5, ..Config::default() }
}

/// Runs `warm` rounds, then measures `rounds`.
fn steady(setting: Setting, warm: u64, rounds: u64) -> Cost {
    let mut net = Net::new(setting);
    net.run(warm);
    net.take_cost();
    net.run(rounds);
    net.take_cost()
}

fn growth_with_the_committee(quick: bool) {
    println!("\nsteady state, 1 KiB batches, D = 100, w = 4, l = 2, modelled crypto");
    println!(
        "| n | engine, us/block | ratio | us/block and author | allocations/block | KiB allocated/block | verifier, us/block |"
    );
    println!("|---|---|---|---|---|---|---|");
    let mut first = None;
    for n in sizes(quick) {
        let (warm, rounds) = if quick { (10, 5) } else { (220, 4_000 / n as u64 + 40) };
        let cost = steady(Setting { n, batch_bytes: 1 << 10, config: config(100, 100), ..Setting::default() }, warm, rounds);
        let micros = cost.micros_per_block();
        let base = *first.get_or_insert(micros);
        println!(
            "| {n} | {micros:.1} | {:.1} | {:.3} | {:.1} | {:.1} | {:.1} |",
            micros / base,
            micros / n as f64,
            cost.allocations as f64 / cost.blocks as f64,
            cost.allocated_bytes as f64 / 1024.0 / cost.blocks as f64,
            cost.verifier_micros_per_block(),
        );
    }
}

fn full_blocks(quick: bool) {
    println!("\nfull blocks: 512 KiB batches of 512 B transactions, D = 8, w = 4, l = 2, modelled crypto");
    println!("| n | engine, us/block | engine, committed tx/s | verifier, us/block |");
    println!("|---|---|---|---|");
    for n in sizes(quick) {
        let (warm, rounds) = if quick { (8, 3) } else { (16, 400 / n as u64 + 8) };
        let setting = Setting { n, batch_bytes: 512 << 10, config: config(8, 0), ..Setting::default() };
        let cost = steady(setting, warm, rounds);
        println!(
            "| {n} | {:.1} | {:.0} | {:.1} |",
            cost.micros_per_block(),
            cost.committed_per_second(512),
            cost.verifier_micros_per_block(),
        );
    }
}

fn backlog(quick: bool, coins: Coins, title: &str) {
    println!("\n{title}: n = 10, 1 KiB batches, D = 100, w = 4, l = 2, modelled crypto");
    println!("| k | us/block while it stands (last 10 rounds of k) | ratio | resolving it, ms | commits | us/commit |");
    println!("|---|---|---|---|---|---|");
    let mut first = None;
    for k in if quick { [10, 20, 30] } else { [10, 100, 390] } {
        let (standing, resolved, commits) = (0..5).map(|_| one_backlog(k, coins)).reduce(best).unwrap();
        let micros = standing;
        let base = *first.get_or_insert(micros);
        println!(
            "| {k} | {micros:.1} | {:.1} | {:.2} | {} | {:.1} |",
            micros / base,
            resolved * 1e3,
            commits,
            resolved * 1e6 / commits as f64,
        );
    }
}

/// Microseconds per block while it stands, seconds for resolving it, commits.
fn one_backlog(k: u64, coins: Coins) -> (f64, f64, u64) {
    let mut net = Net::new(Setting { n: 10, batch_bytes: 1 << 10, config: config(100, 100), coins, ..Setting::default() });
    net.run(k - 10);
    net.take_cost();
    net.run(10);
    let standing = net.take_cost().micros_per_block();
    net.open_coins();
    let resolving = net.take_cost();
    (standing, resolving.engine[0].as_secs_f64(), resolving.commits)
}

/// The least of both: on a busy machine anything more is somebody else's.
fn best(one: (f64, f64, u64), other: (f64, f64, u64)) -> (f64, f64, u64) {
    (one.0.min(other.0), one.1.min(other.1), one.2)
}

fn real_cryptography(quick: bool) {
    println!(
        "\nreal crypto (ed25519 in the verifier, one BLS share signed, one coin combined and checked a round), n = 10, 1 KiB batches"
    );
    println!("| crypto | engine, us/block | verifier, us/block |");
    println!("|---|---|---|");
    for (name, real) in [("modelled", false), ("real", true)] {
        let setting = Setting { n: 10, batch_bytes: 1 << 10, config: config(100, 100), real, ..Setting::default() };
        let cost = steady(setting, 10, if quick { 3 } else { 100 });
        println!("| {name} | {:.1} | {:.1} |", cost.micros_per_block(), cost.verifier_micros_per_block());
    }
}

fn sizes(quick: bool) -> Vec<usize> {
    if quick { vec![4, 10] } else { vec![4, 10, 50, 100] }
}
