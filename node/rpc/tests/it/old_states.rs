//! States of old blocks on disk: every method that reads states can read them.
#![allow(clippy::unwrap_used)] // the lint exempts test functions, but not their helpers

use crate::common::{ECHO, FUNDED, Fixture, RELAY, Whole, call, relayed};
use alloy_primitives::{B256, U256};
use serde_json::{Value, json};

/// Three blocks that count in the relay's slot 0; only the newest state is in memory.
async fn fixture() -> (Fixture, Vec<B256>) {
    let fixture = Fixture::start().await;
    let hashes = (0..3)
        .map(|nonce| fixture.chain.execute(&[call(nonce, RELAY, relayed('c', 1, ECHO, b""))]).receipts[0].transaction_hash);
    let hashes = hashes.collect();
    fixture.chain.forget_states_below(3);
    (fixture, hashes)
}

fn requests(block: &str, hash: B256) -> Vec<(&'static str, Value)> {
    let relay = json!({"from": FUNDED, "to": RELAY, "input": relayed('c', 0, ECHO, b"hello")});
    vec![
        ("eth_getBalance", json!([ECHO, block])),
        ("eth_getTransactionCount", json!([FUNDED, block])),
        ("eth_getCode", json!([ECHO, block])),
        ("eth_getStorageAt", json!([RELAY, "0x0", block])),
        ("eth_getStorageValues", json!([{RELAY.to_string(): ["0x0"]}, block])),
        ("eth_getProof", json!([RELAY, ["0x0"], block])),
        ("eth_call", json!([relay, block])),
        ("eth_call", json!([relay, block, {FUNDED.to_string(): {"balance": "0x1"}}])),
        ("eth_estimateGas", json!([relay, block])),
        ("eth_createAccessList", json!([relay, block])),
        ("eth_simulateV1", json!([{"blockStateCalls": [{"calls": [relay]}]}, block])),
        ("corniche_getStaking", json!([block])),
        ("debug_traceCall", json!([relay, block, {"tracer": "callTracer"}])),
        ("debug_traceTransaction", json!([hash, {"tracer": "callTracer"}])),
    ]
}

#[tokio::test]
async fn historical_states_are_unchanged() {
    let (fixture, hashes) = fixture().await;
    *fixture.chain.old_states.lock().unwrap() = Some(Whole::Yes);
    for (block, name) in [(1, "0x1"), (2, "0x2"), (3, "0x3")] {
        let mut answers = std::collections::BTreeMap::new();
        for (method, params) in requests(name, hashes[1]) {
            let answer = fixture.client.call(method, params).await;
            assert!(answer.get("error").is_none(), "{method} at {name}: {answer}");
            answers.entry(method).or_insert(answer["result"].clone());
        }
        assert_eq!(answers["eth_getBalance"], json!(U256::from(block)));
        assert_eq!(answers["eth_getTransactionCount"], json!(U256::from(block)));
        assert_eq!(answers["eth_getStorageAt"], json!(B256::from(U256::from(block))));
        assert_eq!(answers["eth_call"], "0x68656c6c6f");
        assert_eq!(answers["eth_getProof"]["storageProof"][0]["value"], json!(U256::from(block)));
    }
}

#[tokio::test]
async fn missing_historical_state_is_error() {
    let (fixture, hashes) = fixture().await;
    for (whole, message) in [
        (None, "state not available: the state of block 1 is pruned"),
        (Some(Whole::No), "state not available: it was pruned or could not be read"),
    ] {
        *fixture.chain.old_states.lock().unwrap() = whole;
        for (method, params) in requests("0x1", hashes[1]) {
            let error = fixture.client.error(method, params).await;
            assert!(error.0 == -32000 && error.1.starts_with(message), "{method}: {error:?}");
        }
    }
}
