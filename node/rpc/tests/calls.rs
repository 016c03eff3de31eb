//! `eth_call` and `eth_estimateGas` with a real virtual machine.

mod common;

use alloy_primitives::{Address, Bytes};
use common::{ECHO, FUNDED, Fixture, call, transfer};
use corniche_api::Namespaces;
use corniche_rpc::RpcConfig;
use serde_json::{Value, json};
use std::time::Duration;

const ERROR_STRING: &str = "0x08c379a0\
    0000000000000000000000000000000000000000000000000000000000000020\
    0000000000000000000000000000000000000000000000000000000000000006\
    6e6f206e6f210000000000000000000000000000000000000000000000000000";

#[tokio::test]
async fn call_returns_contract_output() {
    let fixture = Fixture::start().await;
    let echoed = fixture.client.result("eth_call", json!([{"to": ECHO, "input": "0x0102ff"}])).await;
    assert_eq!(echoed, "0x0102ff");
    let nothing = fixture.client.result("eth_call", json!([{"to": FUNDED, "input": "0x0102ff"}])).await;
    assert_eq!(nothing, "0x");
}

#[tokio::test]
async fn revert_is_code_3_with_data() {
    let fixture = Fixture::start().await;
    for method in ["eth_call", "eth_estimateGas"] {
        let error = fixture.client.call(method, json!([{"to": ECHO, "data": ERROR_STRING}])).await["error"].clone();
        assert_eq!(error, json!({"code": 3, "message": "execution reverted: no no!", "data": ERROR_STRING}), "{method}");
        let error = fixture.client.call(method, json!([{"to": ECHO, "data": "0x08"}])).await["error"].clone();
        assert_eq!(error, json!({"code": 3, "message": "execution reverted", "data": "0x08"}), "{method}");
    }
}

#[tokio::test]
async fn transfer_estimate_is_21000() {
    let fixture = Fixture::start().await;
    let call = json!({"from": FUNDED, "to": "0x2222222222222222222222222222222222222222", "value": "0x1"});
    for params in [json!([call]), json!([call, "latest"]), json!([call, "pending", {}]), json!([call, null, null])] {
        assert_eq!(fixture.client.result("eth_estimateGas", params).await, "0x5208");
    }
}

#[tokio::test]
async fn data_and_input_must_agree() {
    let fixture = Fixture::start().await;
    for call in [
        json!({"to": ECHO, "data": "0x01"}),
        json!({"to": ECHO, "input": "0x01"}),
        json!({"to": ECHO, "input": "0x01", "data": "0x01"}),
        json!({"to": ECHO, "data": "0x01", "type": "0x2", "chainId": "0x1e61", "nonce": "0x5", "accessList": []}),
    ] {
        assert_eq!(fixture.client.result("eth_call", json!([call, "latest"])).await, "0x01");
    }
    for call in [
        json!({"to": ECHO, "input": "0x01", "data": "0x02"}),
        json!({"to": ECHO, "gasPrice": "0x1", "maxFeePerGas": "0x1"}),
        json!({"to": ECHO, "chainId": "0x1"}),
        json!({"to": "0x12"}),
        json!({"to": ECHO, "data": "0xabc"}),
        json!({"to": ECHO, "gas": "-1"}),
        json!("0x"),
        json!(7),
    ] {
        assert_eq!(fixture.client.error("eth_call", json!([call, "latest"])).await.0, -32602, "{call}");
    }
}

#[tokio::test]
async fn state_override_affects_one_call() {
    let fixture = Fixture::start().await;
    let poor = "0x00000000000000000000000000000000000000b0";
    let call = json!({"from": poor, "to": ECHO, "value": "0x5", "data": "0x01"});
    let refused = fixture.client.error("eth_call", json!([call, "latest"])).await;
    assert!(refused.1.contains("insufficient funds"), "{refused:?}");
    let supposed = json!({poor: {"balance": "0x5", "nonce": "0x7"}});
    assert_eq!(fixture.client.result("eth_call", json!([call, "latest", supposed])).await, "0x01");
    assert_eq!(fixture.client.result("eth_getBalance", json!([poor])).await, "0x0");
    // The echo contract's code at another address: tools check a contract like this before deployment.
    let code = fixture.client.result("eth_getCode", json!([ECHO])).await;
    let elsewhere = "0x00000000000000000000000000000000000000c0";
    let call = json!({"to": elsewhere, "data": "0x0102"});
    assert_eq!(fixture.client.result("eth_call", json!([call])).await, "0x");
    let supposed = json!({elsewhere: {"code": code, "state": {}}});
    assert_eq!(fixture.client.result("eth_call", json!([call, "latest", supposed])).await, "0x0102");
    let slot = format!("0x{}", "00".repeat(32));
    for bad in [
        json!({poor: {"balance": "lots"}}),
        json!({poor: {"nonsense": 1}}),
        json!({poor: {"state": {&slot: &slot}, "stateDiff": {&slot: &slot}}}),
        json!({poor: {"movePrecompileToAddress": ECHO}}),
    ] {
        assert_eq!(fixture.client.error("eth_call", json!([call, "latest", bad])).await.0, -32602, "{bad}");
    }
}

#[tokio::test]
async fn invalid_calls_get_geth_errors() {
    let fixture = Fixture::start().await;
    let evm = json!({"from": FUNDED, "data": "0x6080604052348015600e575f5ffd5b50"});
    let below = "max fee per gas less than block base fee: address 0x0000000000000000000000000000000000000000, maxFeePerGas: 999999999, baseFee: 1000000000";
    let table: [(&str, Value, &str); 10] = [
        ("eth_call", json!([{"to": ECHO, "gasPrice": "0x3b9ac9ff"}]), below),
        ("eth_estimateGas", json!([{"to": ECHO, "gasPrice": "0x3b9ac9ff"}]), below),
        ("eth_createAccessList", json!([{"to": ECHO, "maxFeePerGas": "0x3b9ac9ff"}]), below),
        ("eth_call", json!([{"to": ECHO, "maxPriorityFeePerGas": "0x1"}]), "higher than max fee per gas: address"),
        ("eth_call", json!([{"to": ECHO, "gas": "0x100"}]), "intrinsic gas too low"),
        ("eth_call", json!([{"to": ECHO, "maxFeePerGas": "0x1"}]), "max fee per gas less than block base fee"),
        (
            "eth_call",
            json!([{"to": ECHO, "maxFeePerGas": "0x1", "maxPriorityFeePerGas": "0x2"}]),
            "max priority fee per gas higher than max fee per gas",
        ),
        ("eth_estimateGas", json!([{"from": ECHO, "to": FUNDED, "value": "0x1"}]), "insufficient funds"),
        ("eth_call", json!([evm]), "execution failed"),
        ("eth_estimateGas", json!([evm]), "execution failed"),
    ];
    for (method, params, phrase) in table {
        let (code, message) = fixture.client.error(method, params.clone()).await;
        assert_eq!(code, -32000, "{params}: {message}");
        assert!(message.contains(phrase), "{params}: {message}");
    }
    // A call without a price, or with price 0, needs none; the base fee itself is enough too.
    for priced in [json!({}), json!({"gasPrice": "0x0"}), json!({"maxFeePerGas": "0x0"}), json!({"gasPrice": "0x3b9aca00"})] {
        let mut call = json!({"from": FUNDED, "to": ECHO});
        call.as_object_mut().unwrap().extend(priced.as_object().unwrap().clone());
        for method in ["eth_call", "eth_estimateGas"] {
            assert!(fixture.client.result(method, json!([call])).await.is_string(), "{method} {call}");
        }
    }
}

#[tokio::test]
async fn state_is_read_at_block_ids() {
    let fixture = Fixture::start().await;
    let block = fixture.chain.mine(&[(transfer(0), vec![])]);
    fixture.chain.mine(&[(transfer(1), vec![])]);
    let nonce = |block: Value| fixture.client.call("eth_getTransactionCount", json!([FUNDED, block]));
    for (block, expected) in [
        (json!("latest"), "0x2"),
        (json!("pending"), "0x2"),
        (json!("safe"), "0x0"),
        (json!("finalized"), "0x0"),
        (json!("earliest"), "0x0"),
        (json!("0x1"), "0x1"),
        (json!(block.hash), "0x1"),
        (json!({"blockHash": block.hash}), "0x1"),
        (json!({"blockHash": block.hash, "requireCanonical": true}), "0x1"),
        (json!({"blockNumber": "0x1"}), "0x1"),
        (json!(null), "0x2"),
    ] {
        assert_eq!(nonce(block.clone()).await["result"], expected, "{block}");
    }
    let unknown = alloy_primitives::B256::repeat_byte(7);
    for block in [json!("0x3"), json!("0xffffffffffffffff"), json!(unknown), json!({"blockHash": unknown})] {
        let error = &nonce(block.clone()).await["error"];
        assert_eq!((&error["code"], &error["message"]), (&json!(-32000), &json!("header not found")), "{block}");
    }
    for block in [json!("newest"), json!("12"), json!("0x"), json!("0x10000000000000000"), json!({}), json!([])] {
        assert_eq!(nonce(block.clone()).await["error"]["code"], -32602, "{block}");
    }
    fixture.chain.forget_states_below(2);
    for (method, params) in [
        ("eth_getTransactionCount", json!([FUNDED, "0x1"])),
        ("eth_getBalance", json!([FUNDED, "earliest"])),
        ("eth_call", json!([{"to": ECHO}, "0x1"])),
    ] {
        let (code, message) = fixture.client.error(method, params).await;
        assert_eq!(code, -32000);
        assert!(message.starts_with("state not available"), "{message}");
    }
    assert_eq!(nonce(json!("0x2")).await["result"], "0x2");
}

#[tokio::test]
async fn call_flood_gets_server_busy() {
    let config = RpcConfig { max_running_calls: 1, max_waiting_calls: 1, ..RpcConfig::default() };
    let fixture = Fixture::with(config).await;
    fixture.chain.mine(&[]);
    let held = fixture.chain.hold();
    let slow = || {
        let client = fixture.client;
        tokio::spawn(async move { client.call("eth_call", json!([{"to": ECHO, "data": "0x01"}, "0x0"])).await })
    };
    let mut calls = vec![slow()];
    while fixture.chain.waiting() == 0 {
        tokio::task::yield_now().await;
    }
    // One runs. One of these may wait and two are refused, in any order.
    calls.extend([slow(), slow(), slow()]);
    let mut refused = 0;
    while refused < 2 {
        let (first, at, rest) = futures::future::select_all(calls).await;
        let error = &first.unwrap()["error"];
        assert_eq!((&error["code"], &error["message"]), (&json!(-32005), &json!("server busy")), "call {at}");
        refused += 1;
        calls = rest;
    }
    assert_eq!(fixture.client.result("eth_blockNumber", json!([])).await, "0x1");
    assert!(fixture.client.result("eth_getBlockByNumber", json!(["0x1", true])).await.is_object());
    drop(held);
    for call in calls {
        assert_eq!(call.await.unwrap()["result"], "0x01");
    }
}

#[tokio::test]
async fn call_gas_is_capped() {
    let config = RpcConfig { call_gas_cap: 21_000, ..RpcConfig::default() };
    let fixture = Fixture::with(config).await;
    let (code, message) = fixture.client.error("eth_call", json!([{"to": ECHO, "gas": "0xffffffffff", "data": "0x01"}])).await;
    assert_eq!((code, message.as_str()), (-32000, "intrinsic gas too low"));
    let call = json!([{"from": FUNDED, "to": ECHO}]);
    let (code, message) = fixture.client.error("eth_estimateGas", call).await;
    assert_eq!((code, message.as_str()), (-32000, "gas required exceeds allowance (21000)"));
}

/// Covers the methods that run contracts; reads have other limits.
#[tokio::test]
async fn call_timeout_is_enforced() {
    let config = RpcConfig { namespaces: Namespaces::all(), max_call_time: Duration::ZERO, ..RpcConfig::default() };
    let fixture = Fixture::with(config).await;
    let block = fixture.chain.execute(&[transfer(0), call(1, ECHO, Bytes::from_static(b"x"))]);
    let hash = block.receipts[1].transaction_hash;
    let request = json!({"to": ECHO, "data": "0x01"});
    let supposed = json!({FUNDED.to_string(): {"balance": "0x1"}});
    let tracer = json!({"tracer": "callTracer"});
    for (method, params) in [
        ("eth_call", json!([request, "latest"])),
        ("eth_call", json!([request, "latest", supposed])),
        ("eth_estimateGas", json!([request])),
        ("eth_estimateGas", json!([{"from": FUNDED, "to": FUNDED, "value": "0x1"}])),
        ("eth_createAccessList", json!([request])),
        (
            "eth_simulateV1",
            json!([{"blockStateCalls": [{"calls": [request]}, {"stateOverrides": supposed, "calls": [request]}]}]),
        ),
        ("debug_traceCall", json!([request, "latest", tracer])),
        ("debug_traceTransaction", json!([hash, tracer])),
        ("debug_traceBlockByNumber", json!(["latest", tracer])),
        ("ots_traceTransaction", json!([hash])),
        ("ots_getInternalOperations", json!([hash])),
    ] {
        let error = fixture.client.error(method, params.clone()).await;
        assert_eq!(error, (-32000, "execution aborted (timeout = 0ns)".into()), "{method}({params})");
    }
    assert_eq!(fixture.client.result("eth_getBalance", json!([Address::repeat_byte(0x22), "latest"])).await, "0x1");
}

/// Processor time that the gas of one call can use, of the whole process with little else running. Prints
/// figures for people.
/// `cargo test --workspace --test calls -- --ignored --nocapture figures`
#[tokio::test]
#[ignore = "prints figures"]
async fn gas_cap_figures() {
    let fixture = Fixture::start().await;
    let module = |imports: &str, body: &str| {
        wat::parse_str(format!(
            r#"(module {imports} (memory (export "memory") 2 2)
              (func (export "user_entrypoint") (param $n i32) (result i32) (local $i i64) (local $j i32)
                (loop $again {body} (br $again)) (i32.const 0)))"#
        ))
        .unwrap()
    };
    let load = r#"(import "vm_hooks" "storage_load_bytes32" (func $load (param i32 i32)))"#;
    let keccak = r#"(import "vm_hooks" "native_keccak256" (func $keccak (param i32 i32 i32)))"#;
    for (name, code) in [
        ("nothing", module("", "")),
        ("additions", module("", "(local.set $i (i64.add (local.get $i) (i64.const 7)))")),
        ("divisions", module("", "(local.set $i (i64.div_u (i64.const -1) (i64.or (local.get $i) (i64.const 3))))")),
        (
            "stores far apart",
            module(
                "",
                "(i64.store (i32.and (local.tee $j (i32.add (local.get $j) (i32.const 4160))) (i32.const 0xfff8)) (i64.const 1))",
            ),
        ),
        ("fills of 64 KiB", module("", "(memory.fill (i32.const 0) (i32.const 7) (i32.const 65536))")),
        ("keccak of 32 KiB", module(keccak, "(call $keccak (i32.const 0) (i32.const 32768) (i32.const 65536))")),
        ("one warm slot", module(load, "(call $load (i32.const 0) (i32.const 32))")),
        (
            "cold slots",
            module(
                load,
                "(i64.store (i32.const 0) (local.tee $i (i64.add (local.get $i) (i64.const 1)))) (call $load (i32.const 0) (i32.const 32))",
            ),
        ),
    ] {
        let supposed = json!({ECHO.to_string(): {"code": Bytes::from(code)}});
        let request = json!({"to": ECHO, "gas": "0x2faf080"});
        // First call: compiles the module.
        fixture.client.call("eth_call", json!([{"to": ECHO, "gas": "0x30d40"}, "latest", supposed])).await;
        let before = processor_time();
        let answer = fixture.client.call("eth_call", json!([request, "latest", supposed])).await;
        println!("{name}: {:?} of processor time, {}", processor_time() - before, answer["error"]["message"]);
    }
}

/// Processor time of this process, in steps of 10 ms.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    Duration::from_millis(10 * fields[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum::<u64>())
}

/// geth's number is the gas that the sender can pay for, if that is the lowest limit.
#[tokio::test]
async fn estimate_error_names_affordable_gas() {
    let fixture = Fixture::start().await;
    let sender = "0x0000000000000000000000000000000000005e4d";
    let estimate = |gas: u64| {
        let call =
            json!({"from": sender, "to": ECHO, "data": "0x01", "maxFeePerGas": "0x77359400", "maxPriorityFeePerGas": "0x1"});
        let balance = json!(alloy_primitives::U256::from(gas * 2_000_000_000));
        fixture.client.call("eth_estimateGas", json!([call, "latest", {sender: {"balance": balance}}]))
    };
    let answer = estimate(21_248).await;
    assert_eq!(answer["error"]["message"], "gas required exceeds allowance (21248)");
    assert!(estimate(100_000).await["result"].is_string());
}
