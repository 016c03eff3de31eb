//! `corniche shards`: the history of a sharded chain.

use crate::genesis;
use corniche_console::exit;
use corniche_service::NodeConfig;
use std::path::PathBuf;

/// Check the history of a sharded chain
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    command: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Check everything that a stopped gateway has: certificates, serial order, results and blocks
    Check {
        /// Configuration file of the gateway
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        /// Data directory of the gateway
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
    },
}

/// Runs `corniche shards`.
pub fn run(args: Args) -> anyhow::Result<()> {
    let Action::Check { config, data } = args.command;
    let config = NodeConfig::load(&config)?;
    let genesis = genesis::load(&config.genesis)?;
    let history = corniche_basil_service::check_history(&config, genesis, &data)?;
    let (transactions, blocks, certified) = (history.transactions, history.blocks, history.certified);
    exit::result(format_args!(
        "{transactions} transactions in {blocks} blocks are serializable, and have their certificates; blocks up to {certified} are certified"
    ));
    Ok(())
}
