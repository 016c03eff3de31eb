//! `corniche bench`: speed of the components. Every printed figure is measured in the same run.

mod chain;
mod exec;
mod measure;
mod random;
mod report;
mod solidity;
mod vm_only;
mod wasm;
mod workloads;

use clap::Subcommand;

/// Benchmark parts of a node on this machine
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Exec(exec::Args),
}

/// Runs `corniche bench`.
pub fn run(args: Args) -> anyhow::Result<()> {
    match args.command {
        Command::Exec(args) => exec::run(args),
    }
}
