//! A node in a program of one's own.

use corniche_service::{Node, NodeSetup};

#[path = "../examples/embed.rs"]
mod embed;

/// The example in the documentation runs.
#[test]
fn embedded_node_executes_transaction() {
    embed::main().unwrap();
}

/// A program may start and stop a node in a task of its own.
#[test]
fn start_can_be_spawned() {
    fn is_send<F: Send>(_: impl Fn(NodeSetup) -> F) {}
    is_send(Node::start);
    is_send(Node::open);
    is_send(|setup| async { Node::start(setup).await.unwrap().stop().await });
}
