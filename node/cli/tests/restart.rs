//! What users gave to a node is still there when its process was killed and started again.

use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, TxKind, U256};
use corniche_crypto::EthereumKey;
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
};

/// A development chain as a process of its own.
struct Node {
    process: Child,
    rpc: String,
    key: EthereumKey,
    chain_id: u64,
}

impl Node {
    fn start(data: &Path) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_corniche"))
            .args(["dev", "--port", "0", "--json", "--data"])
            .arg(data)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let says: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("no chain: {line}"));
        let secret = says["accounts"][0]["key"].as_str().unwrap();
        let secret: [u8; 32] = hex::decode(secret.trim_start_matches("0x")).unwrap().try_into().unwrap();
        Self {
            process,
            rpc: says["rpc"].as_str().unwrap().trim_start_matches("http://").to_owned(),
            key: EthereumKey::from_bytes(&secret).unwrap(),
            chain_id: says["chainId"].as_u64().unwrap(),
        }
    }

    fn call(&self, method: &str, params: Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let mut stream = TcpStream::connect(&self.rpc).unwrap();
        let (host, length) = (&self.rpc, body.len());
        let head = "Content-Type: application/json\r\nConnection: close";
        write!(stream, "POST / HTTP/1.1\r\nHost: {host}\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let json = answer.split("\r\n\r\n").nth(1).unwrap_or_default();
        let answer: Value = serde_json::from_str(json).unwrap_or_else(|_| panic!("{method}: {answer}"));
        answer["result"].clone()
    }

    /// Gives it a transfer, and returns the hash.
    fn transfer(&self, nonce: u64) -> Value {
        let raw = self.key.sign(TxEip1559 {
            chain_id: self.chain_id,
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

    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn what_users_gave_to_a_node_that_was_killed_is_executed_after_it_starts_again() {
    let directory = tempfile::tempdir().unwrap();
    let node = Node::start(directory.path());
    // Behind a gap nothing is executed; the process ends as soon as it has answered.
    let waiting: Vec<Value> = (1..6).map(|nonce| node.transfer(nonce)).collect();
    node.kill();

    let node = Node::start(directory.path());
    assert!(waiting.iter().all(|hash| node.knows(hash)), "all of them are pending again");
    node.kill();

    let node = Node::start(directory.path());
    let first = node.transfer(0);
    let all: Vec<Value> = waiting.into_iter().chain([first]).collect();
    let executed = |hash: &Value| node.call("eth_getTransactionReceipt", json!([hash])).is_object();
    // Each look is a request, so this waits without a clock; a chain that makes no block would run out of them.
    let done = (0..20_000).any(|_| all.iter().all(executed));
    assert!(done, "executed");
    node.kill();

    let node = Node::start(directory.path());
    assert_eq!(node.call("eth_getTransactionCount", json!([node.key.address(), "pending"])), json!("0x6"), "and only once");
}
