//! What a node tells of a block beside the block itself: where in the ordering it comes from, and how this node ran it.

mod common;

use common::Node;
use serde_json::{Value, json};

const NOBODY: &str = "0x00000000000000000000000000000000000000aa";

/// The newest block, after a payment.
fn block(node: &Node) -> Value {
    let accounts = node.call("eth_accounts", json!([]));
    let hash = node.call("eth_sendTransaction", json!([{"from": accounts[0], "to": NOBODY, "gas": "0x5208"}]));
    // Each look is a request, so this waits without a clock; a chain that makes no block would run out of them.
    let receipt = (0..20_000).map(|_| node.call("eth_getTransactionReceipt", json!([hash]))).find(Value::is_object);
    receipt.expect("a receipt")["blockNumber"].clone()
}

#[test]
fn a_block_is_found_in_the_ordering_and_its_batches_are() {
    let node = Node::start(&[]);
    let number = block(&node);
    let ordering = node.call("corniche_getOrdering", json!([number]));
    let is_led = |dag: &Value| dag["slots"].as_array().unwrap().iter().any(|slot| slot["commit"] == ordering["lastCommit"]);
    // The trace is written beside the chain.
    let dag = (0..20_000).map(|_| node.call("corniche_getDag", json!(["latest", "0x64"]))).find(is_led);
    let dag = dag.expect("the leader of its last commit");
    for batch in ordering["batches"].as_array().unwrap() {
        let carries = |vertex: &&Value| vertex["author"] == batch["author"] && vertex["batchDigest"] == batch["digest"];
        assert_eq!(dag["vertices"].as_array().unwrap().iter().filter(carries).count(), 1, "{batch} in {dag}");
    }
    let named = |vertex: &Value| vertex.get("batchDigest").is_some();
    assert!(dag["vertices"].as_array().unwrap().iter().all(|vertex| named(vertex) == (vertex["batchBytes"] != "0x0")), "{dag}");
}
