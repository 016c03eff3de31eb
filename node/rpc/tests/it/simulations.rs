//! `eth_simulateV1`: blocks of calls, each on the state after the one before.
#![allow(clippy::unwrap_used)] // the lint exempts test functions, but not their helpers

use crate::common::{COINBASE, ECHO, FUNDED, Fixture, RELAY, relayed, transfer};
use alloy_primitives::{Address, B256, U256};
use serde_json::{Value, json};

const FRIEND: Address = Address::repeat_byte(0xf1);

async fn simulate(fixture: &Fixture, payload: Value) -> Value {
    fixture.client.result("eth_simulateV1", json!([payload, "latest"])).await
}

async fn refused(fixture: &Fixture, payload: Value) -> (i64, String) {
    fixture.client.error("eth_simulateV1", json!([payload, "latest"])).await
}

fn relay(data: &[u8]) -> Value {
    json!({"from": FUNDED, "to": RELAY, "input": relayed('c', 3, ECHO, data)})
}

#[tokio::test]
async fn calls_see_earlier_changes() {
    let fixture = Fixture::start().await;
    let head = fixture.chain.execute(&[transfer(0)]);
    let spender = json!({"from": FRIEND, "to": ECHO, "value": "0x5", "input": "0xaa"});
    let blocks = simulate(&fixture, json!({"blockStateCalls": [
        {"calls": [{"from": FUNDED, "to": FRIEND, "value": "0x5"}, spender, relay(b"one")]},
        {"blockOverrides": {"number": "0x4", "time": "0x70000000", "feeRecipient": FRIEND, "prevRandao": B256::repeat_byte(5), "gasLimit": "0x2000000"},
         "stateOverrides": {FRIEND.to_string(): {"balance": "0x9"}},
         "calls": [relay(b"two"), {"from": FRIEND, "to": ECHO, "value": "0x9"}]},
        {"calls": []},
    ]})).await;
    let blocks = blocks.as_array().unwrap();
    let field = |name: &str| blocks.iter().map(|block| block[name].clone()).collect::<Vec<_>>();
    assert_eq!(field("number"), [json!("0x2"), json!("0x3"), json!("0x4"), json!("0x5")], "what was left out is there, empty");
    assert_eq!(blocks[0]["timestamp"], json!(U256::from(1_700_000_002u64)));
    assert_eq!(field("timestamp")[2..], [json!("0x70000000"), json!("0x70000001")]);
    let hashes = field("hash");
    assert_eq!(field("parentHash"), [json!(head.hash), hashes[0].clone(), hashes[1].clone(), hashes[2].clone()]);
    assert_eq!(
        (&blocks[2]["miner"], &blocks[3]["miner"], &blocks[0]["miner"]),
        (&json!(FRIEND), &json!(FRIEND), &json!(COINBASE))
    );
    assert_eq!((&blocks[2]["mixHash"], &blocks[2]["gasLimit"]), (&json!(B256::repeat_byte(5)), &json!("0x2000000")));
    assert_eq!(blocks[0]["baseFeePerGas"], "0x0");

    let calls = blocks[0]["calls"].as_array().unwrap();
    assert_eq!(calls.iter().map(|call| call["status"].clone()).collect::<Vec<_>>(), ["0x1", "0x1", "0x1"]);
    assert_eq!(
        (&calls[0]["gasUsed"], &calls[1]["returnData"], &calls[2]["returnData"]),
        (&json!("0x5208"), &json!("0xaa"), &json!("0x6f6e65"))
    );
    let logs = calls[2]["logs"].as_array().unwrap();
    assert_eq!(logs.len(), 2);
    let transactions = blocks[0]["transactions"].as_array().unwrap();
    for (index, log) in logs.iter().enumerate() {
        assert_eq!((&log["address"], &log["topics"]), (&json!(RELAY), &json!([B256::with_last_byte(index as u8 + 1)])));
        assert_eq!(
            (&log["blockHash"], &log["blockNumber"], &log["transactionIndex"]),
            (&hashes[0], &json!("0x2"), &json!("0x2"))
        );
        assert_eq!((&log["logIndex"], &log["transactionHash"]), (&json!(U256::from(index)), &transactions[2]));
    }
    let used: U256 = calls.iter().map(|call| serde_json::from_value::<U256>(call["gasUsed"].clone()).unwrap()).sum();
    assert_eq!(blocks[0]["gasUsed"], json!(used));
    // The relay's slot was zero before the first block, and writing costs less where it was not.
    let gas = |call: &Value| serde_json::from_value::<U256>(call["gasUsed"].clone()).unwrap();
    assert_eq!(gas(&calls[2]), gas(&blocks[2]["calls"][0]) + U256::from(17_100));
    assert_eq!(blocks[2]["calls"][1]["status"], "0x1", "what was supposed of the friend is there to be spent");
    assert_eq!(fixture.client.result("eth_blockNumber", json!([])).await, "0x1");
    assert_eq!(fixture.client.result("eth_getBalance", json!([FRIEND])).await, "0x0", "nothing of it stays");
}

#[tokio::test]
async fn failed_call_does_not_stop_simulation() {
    let fixture = Fixture::start().await;
    let revert = "0x08c379a0\
        0000000000000000000000000000000000000000000000000000000000000020\
        0000000000000000000000000000000000000000000000000000000000000006\
        6e6f206e6f210000000000000000000000000000000000000000000000000000";
    let calls = json!([{"to": ECHO, "input": revert}, {"to": Address::with_last_byte(9), "gas": "0x10000"}, {"to": ECHO, "input": "0x01"}]);
    let blocks = simulate(&fixture, json!({"blockStateCalls": [{"calls": calls}], "returnFullTransactions": true})).await;
    let calls = &blocks[0]["calls"];
    assert_eq!(calls[0]["error"], json!({"code": 3, "message": "execution reverted: no no!", "data": revert}));
    assert_eq!((&calls[0]["status"], &calls[0]["returnData"], &calls[0]["logs"]), (&json!("0x0"), &json!(revert), &json!([])));
    assert_eq!(calls[1]["error"], json!({"code": -32015, "message": "vm execution error: precompile: invalid input length"}));
    assert_eq!((&calls[1]["gasUsed"], &calls[2]["status"]), (&json!("0x10000"), &json!("0x1")));
    let sent = &blocks[0]["transactions"];
    assert_eq!((&sent[2]["from"], &sent[2]["to"], &sent[2]["input"]), (&json!(Address::ZERO), &json!(ECHO), &json!("0x01")));
    assert_eq!(
        (&sent[2]["nonce"], &sent[2]["transactionIndex"], &sent[2]["blockHash"]),
        (&json!("0x2"), &json!("0x2"), &blocks[0]["hash"])
    );
}

#[tokio::test]
async fn wei_transfers_are_logged_in_order() {
    let fixture = Fixture::start().await;
    let call =
        json!({"from": FUNDED, "to": RELAY, "value": "0x7", "input": relayed('c', 2, RELAY, &relayed('C', 4, ECHO, &[8]))});
    let payload = |trace| json!({"blockStateCalls": [{"calls": [call]}], "traceTransfers": trace});
    let told = async |trace| {
        let blocks = simulate(&fixture, payload(trace)).await;
        let logs = blocks[0]["calls"][0]["logs"].as_array().unwrap().clone();
        let tell = |log: &Value| match log["topics"].as_array().unwrap().len() {
            1 => log["topics"][0].as_str().unwrap().trim_start_matches(['0', 'x']).to_string(),
            _ => {
                assert_eq!(log["address"], json!(Address::repeat_byte(0xee)));
                assert_eq!(log["topics"][2], json!(RELAY.into_word()));
                format!("{} wei", log["data"].as_str().unwrap().trim_start_matches(['0', 'x']))
            }
        };
        logs.iter().map(tell).collect::<Vec<_>>()
    };
    assert_eq!(told(false).await, ["1", "1", "2", "2"]);
    // The transfer to ECHO was reverted.
    assert_eq!(told(true).await, ["7 wei", "1", "2 wei", "1", "2", "2"]);
}

#[tokio::test]
async fn validation_applies_block_rules() {
    let fixture = Fixture::start().await;
    let friend = json!({FRIEND.to_string(): {"balance": "0xde0b6b3a7640000", "nonce": "0x5"}});
    let with = |call: Value, validation: bool| json!({"blockStateCalls": [{"stateOverrides": friend, "calls": [call]}], "validation": validation});
    let good = json!({"from": FRIEND, "to": ECHO, "nonce": "0x5", "maxFeePerGas": "0x77359400", "maxPriorityFeePerGas": "0x2", "gas": "0x10000"});
    let changed = |name: &str, value: Value| {
        let mut call = good.clone();
        call[name] = value;
        call
    };
    let table = [
        (changed("nonce", json!("0x4")), -38010, "nonce too low"),
        (changed("nonce", json!("0x6")), -38011, "nonce too high"),
        (changed("maxFeePerGas", json!("0x9")), -38012, "max fee per gas less than block base fee"),
        (json!({"from": FRIEND, "to": ECHO}), -38012, "max fee per gas less than block base fee"),
        (changed("gas", json!("0x5207")), -38013, "intrinsic gas too low"),
        (changed("value", json!("0xffffffffffffffffff")), -38014, "insufficient funds"),
        (changed("gas", json!("0x2000000")), -38015, "block gas limit reached"),
    ];
    for (call, code, phrase) in table {
        let error = refused(&fixture, with(call.clone(), true)).await;
        assert!(error.0 == code && error.1.starts_with(phrase), "{call}: {error:?}");
    }
    let blocks = simulate(&fixture, with(good.clone(), true)).await;
    assert_eq!((&blocks[0]["calls"][0]["status"], &blocks[0]["baseFeePerGas"]), (&json!("0x1"), &json!("0x3b9aca00")));
    for call in [changed("nonce", json!("0x9")), changed("maxFeePerGas", json!("0x9"))] {
        assert_eq!(simulate(&fixture, with(call, false)).await[0]["calls"][0]["status"], "0x1");
    }
    // Fees are deducted and credited: the second call can spend no more than that.
    let fees = |value: u64| {
        json!({"blockStateCalls": [{
            "stateOverrides": {FRIEND.to_string(): {"balance": U256::from(21_000 * 3 + 10)}, ECHO.to_string(): {"code": "0x"}},
            "blockOverrides": {"feeRecipient": COINBASE, "baseFeePerGas": "0x1"},
            "calls": [
                {"from": FRIEND, "to": Address::repeat_byte(1), "gas": "0x5208", "maxFeePerGas": "0x3", "maxPriorityFeePerGas": "0x2"},
                {"from": FRIEND, "to": Address::repeat_byte(1), "value": "0xa", "gas": "0x5208"},
                {"from": COINBASE, "to": Address::repeat_byte(1), "value": U256::from(value), "gas": "0x5208"},
            ],
        }]})
    };
    assert_eq!(simulate(&fixture, fees(42_000)).await[0]["calls"][2]["status"], "0x1");
    assert_eq!(refused(&fixture, fees(42_001)).await.0, -38014);
}

#[tokio::test]
async fn invalid_simulations_are_rejected() {
    let fixture = Fixture::start().await;
    fixture.chain.execute(&[transfer(0)]);
    let block = |overrides: Value| json!({"blockOverrides": overrides});
    let table = [
        (json!([]), -32602, "empty input"),
        (json!([block(json!({"number": "0x1"}))]), -38020, "block numbers must be in order: 1 <= 1"),
        (
            json!([block(json!({"number": "0x5"})), block(json!({"number": "0x5"}))]),
            -38020,
            "block numbers must be in order: 5 <= 5",
        ),
        (json!([block(json!({"time": "0x1"}))]), -38021, "block timestamps must be in order: 1 <= 1700000001"),
        (json!([block(json!({"number": "0x102"}))]), -38026, "too many blocks"),
        (json!([block(json!({"number": U256::MAX}))]), -38026, "too many blocks"),
        (json!(vec![json!({}); 257]), -38026, "too many blocks"),
        (json!([{"calls": [{"from": ECHO, "to": ECHO, "gas": "0x10000"}, {"to": "0x12"}]}]), -32602, "invalid argument 0"),
        (json!([{"stateOverrides": {ECHO.to_string(): {"movePrecompileToAddress": RELAY}}}]), -32602, "state override"),
    ];
    for (blocks, code, message) in table {
        let error = refused(&fixture, json!({"blockStateCalls": blocks})).await;
        assert!(error.0 == code && error.1.starts_with(message), "{blocks}: {error:?}");
    }
    let most = simulate(&fixture, json!({"blockStateCalls": [block(json!({"number": "0x101"}))]})).await;
    assert_eq!(most.as_array().unwrap().len(), 256);
    let named = fixture.client.result("eth_simulateV1", json!([{"blockStateCalls": [{}]}, "0x0"])).await;
    assert_eq!(named[0]["number"], "0x1");
}
