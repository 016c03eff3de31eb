//! Everything that only `corniche dev` needs: control records, snapshots, reverts, unsigned transactions and the output
//! of contracts. A node that starts without this crate has none of it.

mod control_record;
mod controller;
mod extension;
mod mining;
mod revert;
mod snapshots;

use controller::{DevController, DevRpc};
use corniche_rpc::RpcServer;
use corniche_service::{Node, NodeHandle, NodeSetup};
use extension::DevExtension;
use std::sync::Arc;

/// Starts a node whose only validator accepts development commands. Afterwards the whole process accepts transactions of
/// impersonated accounts.
///
/// # Errors
///
/// See [`Node::start`].
pub async fn start(setup: NodeSetup) -> anyhow::Result<NodeHandle> {
    corniche_crypto::allow_impersonation();
    revert::remove_old_data(&setup.data);
    let node = Node::open(NodeSetup { extension: Some(Box::<DevExtension>::default()), ..setup }).await?;
    let dev = Arc::new(DevRpc(Arc::new(DevController::new(node.chain().clone()))));
    node.serve(|parts| RpcServer::start_dev(parts, dev))
}
