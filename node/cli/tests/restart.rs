//! Users' transactions survive when the node's process is killed and started again.

mod common;

use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, TxKind, U256};
use common::Node;
use corniche_crypto::EthereumKey;
use serde_json::{Value, json};

/// Key of the first funded account.
fn key(node: &Node) -> EthereumKey {
    EthereumKey::from_hex(node.says["accounts"][0]["key"].as_str().unwrap()).unwrap()
}

impl Node {
    /// Submits a transfer and returns the hash.
    fn transfer(&self, nonce: u64) -> Value {
        let raw = key(self).sign(TxEip1559 {
            chain_id: self.says["chainId"].as_u64().unwrap(),
            nonce,
            gas_limit: 21_000,
            max_fee_per_gas: 100_000_000_000,
            max_priority_fee_per_gas: 1,
            to: TxKind::Call(Address::repeat_byte(0xaa)),
            value: U256::from(1),
            ..TxEip1559::default()
        });
        let hash = self.call("eth_sendRawTransaction", json!([raw]));
        assert!(hash.is_string(), "{hash}");
        hash
    }

    fn knows(&self, hash: &Value) -> bool {
        self.call("eth_getTransactionByHash", json!([hash])).is_object()
    }
}

#[test]
fn transactions_survive_crash() {
    let directory = tempfile::tempdir().unwrap();
    let node = Node::on(directory.path());
    // Not executable behind a nonce gap; the process is killed right after its responses.
    let waiting: Vec<Value> = (1..6).map(|nonce| node.transfer(nonce)).collect();
    drop(node);

    let node = Node::on(directory.path());
    assert!(waiting.iter().all(|hash| node.knows(hash)), "all of them are pending again");
    drop(node);

    let node = Node::on(directory.path());
    let first = node.transfer(0);
    let all: Vec<Value> = waiting.into_iter().chain([first]).collect();
    let executed = |hash: &Value| node.call("eth_getTransactionReceipt", json!([hash])).is_object();
    // Each poll is a request, so this waits without a clock; the number of polls is bounded.
    let done = (0..20_000).any(|_| all.iter().all(executed));
    assert!(done, "executed");
    drop(node);

    let node = Node::on(directory.path());
    assert_eq!(node.call("eth_getTransactionCount", json!([key(&node).address(), "pending"])), json!("0x6"), "and only once");
}
