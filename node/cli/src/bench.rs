//! `corniche bench`: speed of a node's parts, and of a network.

mod dkg;
mod light;

use crate::{engines, genesis, keys, testnet};
use anyhow::Context;
use clap::Subcommand;
use corniche_engine::Committee;
use corniche_network::{NetworkConfig, NetworkIdentity};
use corniche_network_bench::{
    network,
    order::{self, Validator, node::OrderNode},
};
use corniche_service::NodeConfig;

/// Measure block execution, coins, a light client, or a network of validators, on this machine
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Exec(corniche_exec_bench::Args),
    Dkg(dkg::Args),
    Light(light::Args),
    Network(network::Args),
    Order(order::Args),
    /// One validator of `corniche bench order`
    #[command(hide = true)]
    OrderNode(order::NodeArgs),
}

/// Runs `corniche bench`.
pub fn run(args: Args) -> anyhow::Result<()> {
    match args.command {
        Command::Exec(args) => corniche_exec_bench::run(args),
        Command::Dkg(args) => dkg::run(&args),
        Command::Light(args) => light::run(&args),
        Command::Network(args) => network::run(&args),
        Command::Order(args) => order::run(&args, |directory| {
            let nodes = testnet::make_validators(directory, args.validators, args.engine.as_deref())?;
            Ok(nodes.into_iter().map(|node| Validator { config: node.config, data: node.data_dir, log: node.log }).collect())
        }),
        Command::OrderNode(args) => run_order_node(&args),
    }
}

fn run_order_node(args: &order::NodeArgs) -> anyhow::Result<()> {
    let config = NodeConfig::load(&args.config)?;
    let genesis = genesis::load(&config.genesis)?;
    let keys = keys::load(config.keys.as_deref().context("node.toml names no keys")?)?;
    let own = keys.index_in(&genesis)?.context("no validator of this genesis has these keys")?;
    let mut network = NetworkConfig::from_genesis(NetworkIdentity::from_seed(keys.network.seed()), &genesis);
    network.listen = config.listen.iter().map(|address| address.parse()).collect::<Result<_, _>>()?;
    for peer in &config.peers {
        network = network.with_bootstrap(peer)?;
    }
    let (verifier, factory) = engines::build(&genesis, keys.into())?;
    let verifier = verifier(&Committee::from_genesis(&genesis));
    order::node::run(OrderNode { genesis: &genesis, own, verifier, factory, network, data: &args.data, rate: args.rate })
}
