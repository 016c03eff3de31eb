//! `corniche contract`: creating, building, deploying, calling, tracing and verifying contracts.
//!
//! Modules in layers, lowest first; each uses only modules in its line or above:
//!
//! - Options, formats and texts: `options` (node and output), `abi`, `errors`, `compare` (of modules),
//!   `deployable`.
//! - Projects: `project` (a contract's crate), `export` (the ABI of its source), `build`, `module`.
//! - Contracts on a chain: `trace`, `paying` (transactions), `known` (interface of a deployed contract).
//! - Commands: `new`, `check`, `show` (`abi`), `deploy` (and `pack`), `using` (`call`, `send`, `encode`), `logs`,
//!   `layout`, `verify`; `build` and `trace` are commands, too.
//!
//! Other commands of the binary use the node, the signer, amounts and errors from here.

mod abi;
mod build;
mod check;
mod compare;
mod deploy;
mod deployable;
mod errors;
mod export;
mod known;
mod layout;
mod logs;
mod module;
mod new;
mod options;
mod paying;
mod project;
mod show;
mod trace;
mod using;
mod verify;

pub use errors::explain_by;
pub use options::Rpc;
pub use paying::{Paying, in_whole_units, receipt_json, whole_units};

use clap::Subcommand;

/// Create, build, deploy and call contracts
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Create a folder with a contract project and tests
    New(new::New),
    /// Build a contract for deployment, reproducibly and with its ABI embedded; print size and gas
    Build(build::Build),
    /// Check that a module can be deployed, and print its cost or the problem with a fix; needs no node
    Check(check::Check),
    /// Print a contract's ABI from its source, a module, a JSON file, or the code at an address
    ///
    /// Example: corniche contract abi 0x5FbD… --typescript > token.ts
    Abi(show::Show),
    /// Deploy a contract, from a module or from its folder, and print its address
    ///
    /// Example: corniche contract deploy . Gold GLD 1000000 --keystore alice
    Deploy(deploy::Deploy),
    /// Call a contract without a transaction and print one returned value per line
    ///
    /// Example: corniche contract call 0x5FbD… balanceOf 0xf39F…
    Call(using::Call),
    /// Send a transaction to a contract or an account, wait for its receipt and print its hash
    ///
    /// Example: corniche contract send 0x5FbD… transfer 0xf39F… 1000 --keystore alice
    Send(using::Send),
    /// Print the calldata of a function call as hexadecimal, for proxies, multisigs and governors
    ///
    /// Example: corniche contract encode 'initialize(address)' 0xf39F…
    Encode(using::Encode),
    /// Print the decoded events of a contract, one per line
    ///
    /// Example: corniche contract logs 0x5FbD… Transfer --follow
    Logs(logs::Logs),
    /// Print a transaction as a tree of calls, decoded with the ABIs embedded in the contracts
    Trace(trace::Trace),
    /// Print the storage layout of a contract, and check that a new version can read an old version's data
    ///
    /// Example: corniche contract layout --against layout.json
    Layout(layout::Args),
    /// Build a contract again, compare it with the code at an address, and print the differences
    ///
    /// Example: corniche contract verify 0x5FbD… my-counter
    Verify(verify::Verify),
    /// Print the creation data of a contract as hexadecimal, for wallets and other tools
    ///
    /// Without ARGs, prints the `bytecode` that such tools expect: they append the ABI-encoded constructor arguments themselves.
    Pack(deploy::Pack),
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
