//! Forty bad requests, with code, message and data of each error. Clients match these texts.
#![allow(clippy::unwrap_used)] // the lint exempts test functions, but not their helpers

use crate::common::{CHAIN_ID, ECHO, FUNDED, Fixture, key, log, transfer};
use alloy_consensus::TxLegacy;
use alloy_primitives::{Bytes, TxKind, U256, keccak256};
use corniche_api::Reason;
use corniche_rpc::RpcConfig;
use serde_json::{Value, json};
use std::time::Duration;

/// Request, and its error. A message that ends with an ellipsis is a prefix.
struct Bad {
    method: &'static str,
    params: Value,
    code: i64,
    message: &'static str,
    data: Value,
}

fn bad(method: &'static str, params: Value, code: i64, message: &'static str) -> Bad {
    Bad { method, params, code, message, data: Value::Null }
}

fn check(bad: &Bad, error: &Value) {
    let message = error["message"].as_str().unwrap_or_else(|| panic!("{}({}) is answered", bad.method, bad.params));
    let fits = match bad.message.strip_suffix('…') {
        Some(beginning) => message.starts_with(beginning),
        None => message == bad.message,
    };
    assert!(fits, "{}({})\n  says     {message}\n  expected {}", bad.method, bad.params, bad.message);
    assert_eq!(
        (error["code"].as_i64(), &error["data"]),
        (Some(bad.code), &bad.data),
        "{}({}): {message}",
        bad.method,
        bad.params
    );
}

fn config() -> RpcConfig {
    RpcConfig {
        namespaces: "corniche,eth,net,rpc,txpool".parse().unwrap(),
        max_batch: 3,
        max_filters: 1,
        max_logs: 1,
        max_log_criteria: 2,
        max_log_span: Duration::from_secs(1),
        max_slots: 2,
        max_receipt_timeout: Duration::from_millis(1),
        call_gas_cap: 1_000_000,
        ..RpcConfig::default()
    }
}

/// Bodies that are not requests.
#[tokio::test]
async fn invalid_bodies_are_rejected() {
    let fixture = Fixture::with(config()).await;
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}"#;
    let four = format!("[{call},{call},{call},{call}]");
    let bodies = [
        ("{", -32700, "parse error: …"),
        ("\u{fffd}", -32700, "parse error: …"),
        ("[]", -32600, "empty batch"),
        (four.as_str(), -32600, "batch too large: 3"),
        ("{}", -32600, "invalid request"),
        ("7", -32600, "invalid request"),
        (r#"{"id":1,"method":"eth_chainId"}"#, -32600, "invalid request"),
        (r#"{"jsonrpc":"2.0","id":{},"method":"eth_chainId"}"#, -32600, "invalid request"),
    ];
    for (body, code, message) in bodies {
        let answer = fixture.client.post(body).await;
        assert_eq!((answer.status, &answer.json()["id"]), (200, &Value::Null), "{body}");
        let expected = Bad { method: "a body", params: json!(body), code, message, data: Value::Null };
        check(&expected, &answer.json()["error"]);
    }
}

#[tokio::test]
async fn bad_requests_get_expected_errors() {
    let fixture = Fixture::with(config()).await;
    fixture.chain.mine(&[(transfer(0), vec![log(ECHO, &[1]), log(ECHO, &[2])])]);
    fixture.chain.mine(&[(transfer(1), vec![])]);
    fixture.chain.forget_states_below(1);
    fixture.client.result("eth_newBlockFilter", json!([])).await;
    let unknown = format!("0x{}", "dd".repeat(32));
    let [one, two, three] = [ECHO, FUNDED, alloy_primitives::Address::ZERO];
    let to_echo = |more: Value| {
        let mut call = json!({"from": FUNDED, "to": ECHO});
        call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!([call])
    };
    // Error("no no!"), and a custom error of the contract.
    let reason = "0x08c379a0000000000000000000000000000000000000000000000000000000000000002000000000000000000000000000000000\
                  000000000000000000000000000000066e6f206e6f210000000000000000000000000000000000000000000000000000";
    let table = [
        // the framing of parameters
        bad("eth_fillTransaction", json!([]), -32601, "the method eth_fillTransaction does not exist/is not available"),
        bad(
            "web3_sha3",
            json!(["0x"]),
            -32601,
            "the method web3_sha3 does not exist/is not available: this node does not serve the namespace \"web3\"…",
        ),
        bad("eth_chainId", json!({"a": 1}), -32602, "non-array args"),
        bad("eth_chainId", json!([1]), -32602, "too many arguments, want at most 0"),
        bad("eth_getBalance", json!([]), -32602, "missing value for required argument 0"),
        bad("eth_getBalance", json!(["0x1"]), -32602, "invalid argument 0: …"),
        bad("eth_getBalance", json!([one, "newest"]), -32602, "invalid argument 1: …"),
        bad("eth_getBalance", json!([one, {"blockHash": "0x12"}]), -32602, "invalid argument 1: …"),
        bad("eth_getStorageAt", json!([one, format!("0x{}", "1".repeat(65))]), -32602, "invalid argument 1: …"),
        bad("eth_getBlockByNumber", json!(["latest", "yes"]), -32602, "invalid argument 1: …"),
        bad("eth_getTransactionReceipt", json!(["0x1234"]), -32602, "invalid argument 0: …"),
        bad("eth_getRawTransactionByHash", json!(["0x1234"]), -32602, "invalid argument 0: …"),
        bad(
            "eth_getRawTransactionByBlockHashAndIndex",
            json!([unknown, "0x0", 1]),
            -32602,
            "too many arguments, want at most 2",
        ),
        bad("eth_getRawTransactionByBlockNumberAndIndex", json!(["latest"]), -32602, "missing value for required argument 1"),
        // blocks and states
        bad("eth_getBalance", json!([one, "0x99"]), -32000, "header not found"),
        bad("eth_getCode", json!([one, {"blockHash": unknown}]), -32000, "header not found"),
        bad("eth_getBalance", json!([one, "0x0"]), -32000, "state not available: the state of block 0 is pruned"),
        bad(
            "eth_getStorageValues",
            json!([{one.to_string(): ["0x1", "0x2", "0x3"]}]),
            -32602,
            "exceed max storage slots: 3 of at most 2",
        ),
        // calls
        bad(
            "eth_call",
            to_echo(json!({"gasPrice": "0x1", "maxFeePerGas": "0x1"})),
            -32602,
            "both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified",
        ),
        bad(
            "eth_call",
            to_echo(json!({"data": "0x01", "input": "0x02"})),
            -32602,
            "both \"data\" and \"input\" are set and not equal. Please use \"input\" to pass transaction call data",
        ),
        bad("eth_call", to_echo(json!({"chainId": "0x1"})), -32602, "chainId does not match node's (have=1, want=7777)"),
        bad(
            "eth_call",
            to_echo(json!({"maxFeePerGas": "0x2", "maxPriorityFeePerGas": "0x3"})),
            -32000,
            "max priority fee per gas higher than max fee per gas: address 0x1a642f0E3c3aF545E7AcBD38b07251B3990914F1, maxPriorityFeePerGas: 3, maxFeePerGas: 2",
        ),
        bad(
            "eth_call",
            to_echo(json!({"maxFeePerGas": "0x2"})),
            -32000,
            "max fee per gas less than block base fee: address 0x1a642f0E3c3aF545E7AcBD38b07251B3990914F1, maxFeePerGas: 2, baseFee: 1000000000",
        ),
        bad("eth_call", to_echo(json!({"blobVersionedHashes": [unknown]})), -32000, "transaction type not supported"),
        bad(
            "eth_call",
            to_echo(json!({"value": "0xffffffffffffffffffffffff"})),
            -32000,
            "insufficient funds for gas * price + value",
        ),
        bad("eth_call", to_echo(json!({"gas": "0x1"})), -32000, "intrinsic gas too low"),
        bad(
            "eth_call",
            json!([{"to": ECHO}, "latest", {one.to_string(): {"state": {}, "stateDiff": {}}}]),
            -32602,
            "account 0x00000000000000000000000000000000000000ec has both 'state' and 'stateDiff'",
        ),
        bad(
            "eth_estimateGas",
            to_echo(json!({"gas": "0x5300", "data": "0x01"})),
            -32000,
            "gas required exceeds allowance (21248)",
        ),
        Bad { data: json!(reason), ..bad("eth_call", to_echo(json!({"data": reason})), 3, "execution reverted: no no!") },
        Bad {
            data: json!("0x08aabbccdd"),
            ..bad("eth_call", to_echo(json!({"data": "0x08aabbccdd"})), 3, "execution reverted")
        },
        Bad {
            data: json!(reason),
            ..bad("eth_estimateGas", to_echo(json!({"data": reason})), 3, "execution reverted: no no!")
        },
        // fees
        bad("eth_feeHistory", json!(["0x1", "latest", [50, 10]]), -32602, "invalid reward percentile…"),
        bad("eth_feeHistory", json!(["0x1", "latest", [101]]), -32602, "invalid reward percentile…"),
        bad("eth_feeHistory", json!(["0x1", "0x99"]), -32000, "request beyond head block…"),
        // transactions
        bad("eth_sendRawTransaction", json!([7]), -32602, "invalid argument 0: …"),
        bad("eth_sendRawTransaction", json!(["0x"]), -32000, "rlp…"),
        bad("eth_sendRawTransaction", json!(["0x03c0"]), -32000, "transaction type not supported"),
        bad("eth_sendRawTransaction", json!([signed(Some(1))]), -32000, "invalid chain id for signer: have 1 want 7777"),
        bad(
            "eth_sendRawTransaction",
            json!([signed(None)]),
            -32000,
            "only replay-protected (EIP-155) transactions allowed over RPC",
        ),
        bad("eth_sendRawTransaction", json!([Bytes::from(vec![2; (128 << 10) + 1])]), -32000, "oversized data…"),
        Bad {
            data: json!(keccak256(transfer(9))),
            ..bad(
                "eth_sendRawTransactionSync",
                json!([transfer(9)]),
                4,
                "The transaction was added to the mempool but wasn't processed in 1ms",
            )
        },
        // logs and filters
        bad("eth_getLogs", json!([{"fromBlock": "0x2", "toBlock": "0x1"}]), -32602, "invalid block range params"),
        bad(
            "eth_getLogs",
            json!([{"fromBlock": "0x0"}]),
            -32602,
            "exceed maximum block range: 1 seconds from the first block to the last; this block range should work: [0x0, 0x1]",
        ),
        bad("eth_getLogs", json!([{"fromBlock": "0x1", "blockHash": unknown}]), -32602, "invalid argument 0: …"),
        bad("eth_getLogs", json!([{"blockHash": unknown}]), -32000, "unknown block"),
        bad("eth_getLogs", json!([{"address": [one, two, three]}]), -32602, "exceed max addresses: 2"),
        bad(
            "eth_getLogs",
            json!([{"topics": [[unknown, unknown, "0x".to_string() + &"11".repeat(32), "0x".to_string() + &"22".repeat(32)]]}]),
            -32602,
            "exceed max topics: 2",
        ),
        bad("eth_getLogs", json!([{"fromBlock": "0x1"}]), -32005, "query returned more than 1 results"),
        bad("eth_newBlockFilter", json!([]), -32005, "too many filters: 1"),
        bad("eth_getFilterChanges", json!(["0x1"]), -32000, "filter not found"),
        bad("eth_subscribe", json!(["newHeads"]), -32601, "notifications not supported"),
        // our own
        bad("corniche_getDag", json!(["latest", "0x1"]), -32000, "this node has no DAG to show: a full node"),
        bad("corniche_getTransactionStatus", json!(["0x1234"]), -32602, "invalid argument 0: …"),
    ];
    assert!(table.len() >= 40, "{}", table.len());
    for bad in &table {
        let answer = fixture.client.call(bad.method, bad.params.clone()).await;
        check(bad, &answer["error"]);
    }
    // Admission's errors reach the client verbatim, so a few examples suffice here.
    for reason in [Reason::NonceTooLow, Reason::ReplacementUnderpriced, Reason::AlreadyKnown, Reason::PoolFull] {
        *fixture.chain.refusal.lock().unwrap() = Some(reason.error());
        let answer = fixture.client.call("eth_sendRawTransaction", json!([transfer(5)])).await;
        check(&bad("eth_sendRawTransaction", json!([]), -32000, reason.phrase()), &answer["error"]);
    }
}

/// Transaction of type 0 for one chain, or without a chain id.
fn signed(chain_id: Option<u64>) -> Bytes {
    assert_ne!(chain_id, Some(CHAIN_ID));
    key().sign(TxLegacy {
        chain_id,
        nonce: 5,
        gas_price: 2_000_000_000,
        gas_limit: 21_000,
        to: TxKind::Call(ECHO),
        value: U256::ZERO,
        input: Bytes::new(),
    })
}
