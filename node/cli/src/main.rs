//! The `corniche` binary: one command line, with a module for each command.

mod account;
mod bench;
mod engines;
mod explorer;
mod genesis;
mod keys;
mod logging;
mod node;
mod sequencer;
mod shards;
mod signals;
mod signer;
mod sim;
mod snapshot;
mod testnet;
mod validator;

use clap::{Parser, Subcommand};
use corniche_console::exit;
use std::process::ExitCode;

/// Memory allocated by one thread is often freed by another: receipts, changes, messages. The system's
/// allocator takes a lock for each of these, and two threads that executed a block spent more time waiting
/// for it than for each other.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A blockchain node for WebAssembly contracts
///
/// Results go to standard output, everything else to standard error. Exit codes: 0 success, 1 failure, 2 invalid usage,
/// 3 reverted, 4 rejected by the node, 5 node not reachable, 6 timeout, 7 halted because continuing
/// would be unsafe, 11 halted because another process signs with the validator's keys; of `sim`, 8 no progress;
/// of `sim` and `bench`, 9 diverged.
#[derive(Parser, Debug)]
#[command(name = "corniche", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Account(account::Args),
    Bench(bench::Args),
    Contract(corniche_contract_tool::Args),
    Dev(node::DevArgs),
    Explorer(explorer::Args),
    Genesis(genesis::Args),
    Keys(keys::Args),
    Load(corniche_load::Args),
    Node(node::Args),
    Sequencer(sequencer::Args),
    Shards(shards::Args),
    Signer(signer::Args),
    Sim(sim::Args),
    Snapshot(snapshot::Args),
    Testnet(testnet::Args),
    Validator(validator::Args),
}

fn main() -> ExitCode {
    let run = match Cli::parse().command {
        Command::Account(args) => account::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Contract(args) => corniche_contract_tool::run(args),
        Command::Dev(args) => node::run_dev(args),
        Command::Explorer(args) => explorer::run(args),
        Command::Genesis(args) => genesis::run(args),
        Command::Keys(args) => keys::run(args),
        Command::Node(args) => node::run(args),
        Command::Sequencer(args) => sequencer::run(args),
        Command::Shards(args) => shards::run(args),
        Command::Signer(args) => signer::run(args),
        Command::Sim(args) => sim::run(args),
        Command::Snapshot(args) => snapshot::run(args),
        Command::Testnet(args) => testnet::run(args),
        Command::Validator(args) => validator::run(args),
        Command::Load(args) => corniche_load::run(args),
    };
    match run {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::report(&error),
    }
}
