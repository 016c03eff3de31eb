//! `corniche contract`: creating, building, deploying, calling, tracing and verifying contracts.

mod abi;
mod build;
mod check;
mod compare;
mod deploy;
mod export;
mod known;
mod layout;
mod logs;
mod module;
mod new;
mod paying;
mod project;
mod show;
mod trace;
mod using;
mod verify;

use clap::Subcommand;
use corniche_client::Client;
use std::path::PathBuf;

/// Write, deploy and use contracts
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Make a folder with a contract that builds and is tested
    New(new::New),
    /// Build a contract for deployment: the same bytes wherever it lies, with its ABI in it; prints size and gas
    Build(build::Build),
    /// Say whether a module would deploy and what it costs, or what is wrong with it and what to do; needs no node
    Check(check::Check),
    /// Print a contract's ABI: of its source, a module, a file of JSON, or of what lies at an address
    ///
    /// Example: corniche contract abi 0x5FbD… --typescript > token.ts
    Abi(show::Show),
    /// Deploy a contract, from a module or from its folder, and print its address
    ///
    /// Example: corniche contract deploy . Gold GLD 1000000 --keystore alice
    Deploy(deploy::Deploy),
    /// Ask a contract something, without a transaction; prints one returned value a line
    ///
    /// Example: corniche contract call 0x5FbD… balanceOf 0xf39F…
    Call(using::Call),
    /// Send a transaction to a contract or an account, wait for its receipt and print its hash
    ///
    /// Example: corniche contract send 0x5FbD… transfer 0xf39F… 1000 --keystore alice
    Send(using::Send),
    /// Print a call of a function as hexadecimal, for contracts that are given calls: proxies, multisigs, governors
    ///
    /// Example: corniche contract encode 'initialize(address)' 0xf39F…
    Encode(using::Encode),
    /// Print what a contract logged, decoded; one event a line
    ///
    /// Example: corniche contract logs 0x5FbD… Transfer --follow
    Logs(logs::Logs),
    /// Tell what a transaction did as a tree of calls, decoded by the ABIs that the contracts carry
    Trace(trace::Trace),
    /// Say where a contract's fields lie in storage, and whether a new version finds there what an old one stored
    ///
    /// Example: corniche contract layout --against layout.json
    Layout(layout::Args),
    /// Build a contract again and compare it with the code at an address; says what differs
    ///
    /// Example: corniche contract verify 0x5FbD… my-counter
    Verify(verify::Verify),
    /// Print the creation data of a contract as hexadecimal, for wallets and other tools
    ///
    /// Without ARGs it is what those tools call bytecode: they append the ABI-encoded constructor arguments themselves.
    Pack(deploy::Pack),
}

/// Which node.
#[derive(clap::Args, Debug)]
struct Rpc {
    /// JSON-RPC URL of a node
    #[arg(long, value_name = "URL", env = "CORNICHE_RPC", default_value = "http://127.0.0.1:8545")]
    rpc: String,
}

impl Rpc {
    fn client(&self) -> Client {
        Client::new(&self.rpc)
    }
}

/// Which node, and how to answer.
#[derive(clap::Args, Debug)]
struct Node {
    #[command(flatten)]
    rpc: Rpc,
    /// The contract's ABI as JSON, for contracts that carry none: names functions, the constructor, events and errors
    #[arg(long, value_name = "FILE")]
    abi: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `corniche contract`.
pub fn run(args: Args) -> anyhow::Result<()> {
    match args.command {
        Command::New(new) => new.run(),
        Command::Build(build) => build.run(),
        Command::Check(check) => check.run(),
        Command::Abi(show) => show.run(),
        Command::Deploy(deploy) => deploy.run(),
        Command::Call(call) => call.run(),
        Command::Send(send) => send.run(),
        Command::Encode(encode) => encode.run(),
        Command::Logs(logs) => logs.run(),
        Command::Trace(trace) => trace.run(),
        Command::Layout(layout) => layout.run(),
        Command::Verify(verify) => verify.run(),
        Command::Pack(pack) => pack.run(),
    }
}
