//! Tests the client with a fake node whose responses are right, wrong, incomplete or missing.

#![allow(clippy::unwrap_used)] // the lint spares test functions, not their helpers

use corniche_client::{Client, ClientError, Draft, Request, Wait};
use corniche_crypto::EthereumKey;
use corniche_types::{Address, Bytes, U256, keccak256};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    thread,
    time::Duration,
};

/// Starts a fake node whose responses are computed by `answer`.
fn node(answer: impl Fn(&Value) -> String + Send + 'static) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            serve(stream.unwrap(), &answer);
        }
    });
    Client::with_timeout(url, Duration::from_secs(5))
}

/// Serves one request for each connection.
fn serve(mut stream: TcpStream, answer: &impl Fn(&Value) -> String) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let text = answer(&serde_json::from_slice(&body).unwrap());
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        text.len()
    );
    let _ = stream.write_all((head + &text).as_bytes());
}

fn result(request: &Value, result: Value) -> String {
    json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }).to_string()
}

fn refusal(request: &Value, code: i64, message: &str) -> String {
    json!({ "jsonrpc": "2.0", "id": request["id"], "error": { "code": code, "message": message } }).to_string()
}

#[test]
fn missing_fields_are_filled_by_node() {
    let client = node(|request| {
        let answer = match request["method"].as_str().unwrap() {
            "eth_chainId" => json!("0x7"),
            "eth_getTransactionCount" => json!("0x2a"),
            "eth_estimateGas" => json!("0x5208"),
            "eth_getBlockByNumber" => json!({ "baseFeePerGas": "0x64" }),
            "eth_maxPriorityFeePerGas" => json!("0x3"),
            "eth_sendRawTransaction" => {
                let raw: Bytes = request["params"][0].as_str().unwrap().parse().unwrap();
                json!(keccak256(raw))
            }
            other => panic!("{other}"),
        };
        result(request, answer)
    });
    let key = EthereumKey::from_bytes(&[1; 32]).unwrap();
    let raw = client.sign(&key, &Draft::transfer(Address::ZERO, U256::from(5))).unwrap();
    let transaction = corniche_types::Transaction::decode(raw.clone()).unwrap();
    assert_eq!(transaction.chain_id(), Some(7));
    assert_eq!(transaction.nonce(), 42);
    assert_eq!(transaction.gas_limit(), 21_000);
    assert_eq!((transaction.max_fee_per_gas(), transaction.max_priority_fee_per_gas()), (203, 3));
    let hash = client.send(&key, &Draft::transfer(Address::ZERO, U256::from(5))).unwrap();
    assert_eq!(hash, keccak256(raw), "signatures are deterministic");
}

#[test]
fn error_keeps_code_and_message() {
    let client = node(|request| refusal(request, -32000, "nonce too low: next nonce 4, tx nonce 3"));
    match client.submit(&Bytes::from_static(&[2])).unwrap_err() {
        ClientError::Refused { refusal, .. } => assert!(refusal.message.starts_with("nonce too low")),
        other => panic!("{other}"),
    }
}

#[test]
fn batch_is_reordered_with_separate_errors() {
    let client = node(|requests| {
        let answer = |request: &Value| -> Value {
            let text = match request["params"][0].as_u64().unwrap() {
                1 => refusal(request, -32602, "no"),
                value => result(request, json!(value)),
            };
            serde_json::from_str(&text).unwrap()
        };
        Value::from(requests.as_array().unwrap().iter().rev().map(answer).collect::<Vec<_>>()).to_string()
    });
    let requests: Vec<_> = (0..3).map(|value| Request { method: "echo", params: json!([value]) }).collect();
    let answers = client.transport().batch::<u64>(&requests).unwrap();
    assert_eq!(*answers[0].as_ref().unwrap(), 0);
    assert!(matches!(answers[1], Err(ClientError::Refused { .. })));
    assert_eq!(*answers[2].as_ref().unwrap(), 2);
}

#[test]
fn missing_batch_response_is_error() {
    let client = node(|requests| format!("[{}]", result(&requests[1], json!(7))));
    let requests: Vec<_> = (0..2).map(|value| Request { method: "echo", params: json!([value]) }).collect();
    let answers = client.transport().batch::<u64>(&requests).unwrap();
    assert!(matches!(answers[0], Err(ClientError::InvalidResponse { .. })));
    assert_eq!(*answers[1].as_ref().unwrap(), 7);
}

#[test]
fn missing_receipt_times_out() {
    let client = node(|request| result(request, Value::Null));
    let hash = keccak256([]);
    match client.wait(hash, Wait::at_most(Duration::from_millis(1))).unwrap_err() {
        ClientError::Deadline { hash: of, .. } => assert_eq!(of, hash),
        other => panic!("{other}"),
    }
}

#[test]
fn invalid_responses_are_errors() {
    for text in ["", "{", "[]", "null", "<html>", "{\"result\":\"0xzz\"}", "{\"result\":\"0xffffffffffffffffffffffff\"}"] {
        let client = node(move |_| text.to_owned());
        assert!(client.chain_id().is_err(), "{text}");
    }
}

#[test]
fn unreachable_differs_from_rejection() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let client = Client::new(format!("http://127.0.0.1:{port}"));
    assert!(matches!(client.chain_id(), Err(ClientError::Unreachable { .. })));
}
