//! Options that several commands have.

use corniche_client::Client;
use std::path::PathBuf;

/// Node to call.
#[derive(clap::Args, Debug)]
pub struct Rpc {
    /// JSON-RPC URL of the node
    #[arg(long, value_name = "URL", env = "CORNICHE_RPC", default_value = "http://127.0.0.1:8545")]
    pub rpc: String,
}

impl Rpc {
    /// Returns a client of the node.
    pub fn client(&self) -> Client {
        Client::new(&self.rpc)
    }
}

/// Node to call, and output format.
#[derive(clap::Args, Debug)]
pub struct Node {
    #[command(flatten)]
    pub rpc: Rpc,
    /// File with the contract's ABI as JSON, for contracts without an embedded one: functions, constructor, events and errors
    #[arg(long, value_name = "FILE")]
    pub abi: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
