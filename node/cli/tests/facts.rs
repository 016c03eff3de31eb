//! Additional information about a block: its place in the ordering, and its execution on this node. Also
//! notifications of new ordering events.

mod common;

use common::Node;
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    time::Duration,
};

const NOBODY: &str = "0x00000000000000000000000000000000000000aa";

/// Newest block, after a payment.
fn block(node: &Node) -> Value {
    let accounts = node.call("eth_accounts", json!([]));
    let hash = node.call("eth_sendTransaction", json!([{"from": accounts[0], "to": NOBODY, "gas": "0x5208"}]));
    // Each poll is a request, so this waits without a clock; the number of polls is bounded.
    let receipt = (0..20_000).map(|_| node.call("eth_getTransactionReceipt", json!([hash]))).find(Value::is_object);
    receipt.expect("a receipt")["blockNumber"].clone()
}

#[test]
fn block_is_found_in_dag() {
    let node = Node::start(&[]);
    let number = block(&node);
    let ordering = node.call("corniche_getOrdering", json!([number]));
    let is_led = |dag: &Value| dag["slots"].as_array().unwrap().iter().any(|slot| slot["commit"] == ordering["lastCommit"]);
    // The trace is written asynchronously.
    let dag = (0..20_000).map(|_| node.call("corniche_getDag", json!(["latest", "0x64"]))).find(is_led);
    let dag = dag.expect("the leader of its last commit");
    for batch in ordering["batches"].as_array().unwrap() {
        let carries = |vertex: &&Value| vertex["author"] == batch["author"] && vertex["batchDigest"] == batch["digest"];
        assert_eq!(dag["vertices"].as_array().unwrap().iter().filter(carries).count(), 1, "{batch} in {dag}");
    }
    let named = |vertex: &Value| vertex.get("batchDigest").is_some();
    assert!(dag["vertices"].as_array().unwrap().iter().all(|vertex| named(vertex) == (vertex["batchBytes"] != "0x0")), "{dag}");
}

/// Shorter than the interval of the node's pings; the first one is sent at once.
const NOTHING_CAME: Duration = Duration::from_secs(20);

/// Subscribes over a WebSocket: returns the response, then the notifications, until none arrives for a while.
fn subscribe(node: &Node, topic: &str) -> impl Iterator<Item = Value> {
    let address = node.says["rpc"].as_str().unwrap().trim_start_matches("http://").to_owned();
    let mut stream = BufReader::new(TcpStream::connect(&address).unwrap());
    stream.get_ref().set_read_timeout(Some(NOTHING_CAME)).unwrap();
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13";
    let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";
    write!(stream.get_mut(), "GET / HTTP/1.1\r\nHost: {address}\r\n{upgrade}\r\n{key}\r\n\r\n").unwrap();
    let head = stream.by_ref().lines().map(Result::unwrap).take_while(|line| !line.is_empty());
    assert!(head.collect::<Vec<_>>()[0].contains("101"), "no WebSocket");
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_subscribe", "params": [topic]}).to_string();
    // Short text frame, masked with zeros.
    let frame = [&[0x81, 0x80 | request.len() as u8, 0, 0, 0, 0][..], request.as_bytes()].concat();
    stream.get_mut().write_all(&frame).unwrap();
    let frames = std::iter::from_fn(move || frame_of(&mut stream));
    frames.filter(|(kind, _)| *kind == 0x81).map(|(_, text)| serde_json::from_slice(&text).unwrap())
}

/// First byte of a frame, and its payload of less than 64 KiB.
fn frame_of(stream: &mut impl Read) -> Option<(u8, Vec<u8>)> {
    let (mut head, mut long) = ([0; 2], [0; 2]);
    stream.read_exact(&mut head).ok()?;
    let mut length = usize::from(head[1]);
    if length == 126 {
        stream.read_exact(&mut long).ok()?;
        length = u16::from_be_bytes(long).into();
    }
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload).ok()?;
    Some((head[0], payload))
}

fn round(newest: &Value) -> u64 {
    u64::from_str_radix(newest.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

#[test]
fn dag_subscription_notifies() {
    let node = Node::start(&[]);
    let mut told = subscribe(&node, "corniche_dag");
    let answer = told.next().unwrap();
    assert!(answer["result"].is_string(), "{answer}");
    let mut rounds = told.map(|told| round(&told["params"]["result"]["newestRound"]));
    let before = rounds.next().unwrap();
    block(&node);
    let newest = rounds.find(|newest| *newest > before).unwrap();
    let shown = node.call("corniche_getDag", json!(["latest", "0x1"]));
    assert!(round(&shown["newestRound"]) >= newest, "{shown}");
}

#[test]
fn execution_statistics_are_served() {
    let directory = tempfile::tempdir().unwrap();
    let node = Node::on(directory.path());
    let number = block(&node);
    let execution = node.call("corniche_getExecution", json!([number]));
    // One payment: executed once by one thread, or adopted from a speculative run.
    let runs = execution["runs"].as_str().unwrap();
    assert_eq!(execution["runsOf"], json!(if runs == "0x1" { "0x01" } else { "0x00" }), "{execution}");
    assert_eq!((&execution["threads"], &execution["laneOf"]), (&json!("0x1"), &json!("0x00")), "{execution}");
    assert_eq!((&execution["runsAgain"], &execution["waits"]), (&json!("0x0"), &json!("0x0")), "{execution}");
    let adopted = if runs == "0x1" { "0x0" } else { "0x1" };
    assert_eq!(execution["adopted"], adopted, "{execution}");
    assert_ne!(execution["durationUs"], "0x0");
    let transaction = node.call("eth_getTransactionByBlockNumberAndIndex", json!([number, "0x0"]));
    let status = node.call("corniche_getTransactionStatus", json!([transaction["hash"]]));
    let received = u64::from_str_radix(&status["receivedMs"].as_str().unwrap()[2..], 16).unwrap();
    assert_eq!(execution["receivedOf"], json!(format!("{received:#018x}")), "{execution}");
    assert_eq!(node.call("corniche_getExecution", json!(["0x0"])), Value::Null, "nobody ran the genesis block");
    drop(node);
    let node = Node::on(directory.path());
    assert_eq!(node.call("corniche_getExecution", json!([number])), Value::Null, "another run of the node");
}
