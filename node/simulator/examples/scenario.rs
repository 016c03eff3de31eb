//! Prints the result of a scenario file like `corniche sim --json`, without building the whole node:
//! `cargo run -p corniche-simulator --example scenario -- FILE [SEED]`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a command")]

use corniche_simulator::{Verdict, scenario::parse, simulate};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().expect("usage: scenario FILE [SEED]");
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
    let scenario = parse(&text).unwrap_or_else(|error| panic!("{file}:{error}"));
    let seed = arguments.next().map_or(scenario.seed, |seed| seed.parse().expect("SEED: expected a number"));
    let report = simulate(&scenario, seed, None).unwrap_or_else(|error| panic!("{file}: {error}"));
    println!("{}", report.json());
    for sentence in report.violations.iter().chain(&report.unfinished) {
        eprintln!("{sentence}");
    }
    ExitCode::from(u8::from(report.verdict != Verdict::Pass))
}
