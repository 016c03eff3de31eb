//! Everything that only `corniche dev` needs: control records, snapshots, reverts, unsigned transactions and the output
//! of contracts. A node that starts without this crate has none of it.
//!
//! Modules in layers, lowest first; each uses only modules above it: `control_record` (entries of batches), `mining` (commands
//! and the batches that they make), `extension` (both in the pipeline), `snapshots`, `revert` (blocks in the store),
//! `controller` (commands of clients).

mod control_record;
mod controller;
mod extension;
mod mining;
mod revert;
mod snapshots;

use anyhow::ensure;
use controller::{DevController, DevRpc};
use corniche_rpc::RpcServer;
use corniche_service::{Node, NodeHandle, NodeSetup};
use extension::DevExtension;
use mining::DevSettings;
use std::sync::Arc;

/// Starts a node whose only validator accepts development commands, on any tokio runtime. While it runs, this process accepts
/// transactions of impersonated accounts for its chain id; a node of another chain in the process needs another id. Any client
/// may delete the data directory, and the directory beside it with the suffix `.old`.
///
/// # Errors
///
/// See [`Node::start`]. A node of a network is refused: its genesis has several validators, it has peers, or it is no
/// validator.
pub async fn start(setup: NodeSetup) -> anyhow::Result<NodeHandle> {
    check(&setup)?;
    let data = setup.data.clone();
    let extension = DevExtension::new(setup.genesis.chain_id, DevSettings::default());
    let node = Node::open(NodeSetup { extension: Some(Box::new(extension)), ..setup }).await?;
    revert::remove_old_data(&data);
    let dev = Arc::new(DevRpc(Arc::new(DevController::new(node.chain().clone()))));
    node.serve(|parts| RpcServer::start_dev(parts, dev))
}

/// Other nodes would not apply control records, and would not follow a revert.
fn check(setup: &NodeSetup) -> anyhow::Result<()> {
    let validators = setup.genesis.validators.len();
    ensure!(validators == 1, "development chain: expected a genesis with one validator, got {validators}");
    ensure!(setup.validator.is_some(), "development chain: expected the keys of its validator");
    let has_peers = !setup.config.listen.is_empty() || !setup.config.peers.is_empty();
    ensure!(!has_peers, "development chain: expected a configuration without listen and peers");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_service::{NetworkSpec, NodeConfig, VerifiedGenesis, make_network};
    use corniche_types::EngineConfig;

    #[test]
    fn nodes_of_networks_are_refused() {
        let engine = EngineConfig { name: "autobahn".into(), parameters: Default::default() };
        let refusal = |validators, config| {
            let spec = NetworkSpec { validators, ..NetworkSpec::new(engine.clone()) };
            let genesis = make_network(&spec).unwrap().genesis;
            let genesis = VerifiedGenesis::new(genesis).unwrap();
            check(&NodeSetup::new(config, genesis, None, "data".into())).unwrap_err().to_string()
        };
        assert!(refusal(4, NodeConfig::default()).contains("got 4"));
        assert!(refusal(1, NodeConfig::default()).contains("the keys"));
    }
}
