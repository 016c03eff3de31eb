//! The example in the documentation runs.

#[path = "../examples/embed.rs"]
mod embed;

#[test]
fn embedded_node_executes_transaction() {
    embed::main().unwrap();
}
