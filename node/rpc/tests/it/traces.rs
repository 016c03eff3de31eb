//! `debug_trace*`: traces of re-executed transactions and of calls, in the format of geth's tracers.
#![allow(clippy::unwrap_used)] // the lint exempts test functions, but not their helpers

use crate::common::{AUTHOR, ECHO, FUNDED, Fixture, RELAY, call, fee_address, key, log, relayed, transfer};
use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, B256, Bytes, TxKind, U256};
use corniche_api::Namespaces;
use corniche_rpc::RpcConfig;
use serde_json::{Value, json};

const ERROR_STRING: &str = "0x08c379a0\
    0000000000000000000000000000000000000000000000000000000000000020\
    0000000000000000000000000000000000000000000000000000000000000006\
    6e6f206e6f210000000000000000000000000000000000000000000000000000";

fn no_no() -> Bytes {
    ERROR_STRING.parse().unwrap()
}

fn word(number: u8) -> Value {
    json!(B256::with_last_byte(number))
}

fn with_logs() -> Value {
    json!({"tracer": "callTracer", "tracerConfig": {"withLog": true}})
}

fn quantity(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

/// Removes and checks the gas: a call gets less than its caller has, and uses at most what it got.
fn without_gas(mut frame: Value) -> Value {
    let object = frame.as_object_mut().unwrap();
    let (gas, used) = (quantity(&object.remove("gas").unwrap()), quantity(&object.remove("gasUsed").unwrap()));
    assert!(used <= gas);
    if let Some(calls) = object.get_mut("calls") {
        for call in calls.as_array_mut().unwrap() {
            assert!(quantity(&call["gas"]) <= gas - gas / 64 && quantity(&call["gasUsed"]) < used);
            *call = without_gas(call.take());
        }
    }
    frame
}

fn relay_log(number: u8, position: &str) -> Value {
    json!({"address": RELAY, "topics": [word(number)], "data": "0x", "position": position})
}

#[tokio::test]
async fn call_tracer_returns_call_tree() {
    let fixture = Fixture::start().await;
    let inner = relayed('d', 0, ECHO, b"hi");
    let input = relayed('c', 3, RELAY, &inner);
    let block = fixture.chain.execute(&[transfer(0), call(1, RELAY, input.clone())]);
    let trace = async |config: Value| {
        fixture.client.result("debug_traceTransaction", json!([block.receipts[1].transaction_hash, config])).await
    };
    let whole = trace(with_logs()).await;
    assert_eq!(quantity(&whole["gas"]), 2_000_000);
    assert_eq!(quantity(&whole["gasUsed"]), block.receipts[1].gas_used);
    let expected = json!({
        "type": "CALL", "from": FUNDED, "to": RELAY, "value": "0x0", "input": input, "output": "0x6869",
        "logs": [relay_log(1, "0x0"), relay_log(2, "0x1")],
        "calls": [{
            "type": "CALL", "from": RELAY, "to": RELAY, "value": "0x3", "input": inner, "output": "0x6869",
            "logs": [relay_log(1, "0x0"), relay_log(2, "0x1")],
            "calls": [{
                "type": "DELEGATECALL", "from": RELAY, "to": ECHO, "value": "0x3", "input": "0x6869", "output": "0x6869",
            }],
        }],
    });
    assert_eq!(without_gas(whole.clone()), expected);
    let mut expected = without_gas(whole.clone());
    for frame in ["", "/calls/0"] {
        expected.pointer_mut(frame).unwrap().as_object_mut().unwrap().remove("logs");
    }
    assert_eq!(without_gas(trace(json!({"tracer": "callTracer"})).await), expected, "logs only for who asks");
    expected.as_object_mut().unwrap().remove("calls");
    let top = trace(json!({"tracer": "callTracer", "tracerConfig": {"onlyTopCall": true}})).await;
    assert_eq!(without_gas(top), expected);
    assert_eq!(
        without_gas(trace(json!({"tracer": "callTracer", "tracerConfig": null, "timeout": "9s", "reexec": 9})).await)["calls"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    // The whole block.
    let plain = json!({
        "type": "CALL", "from": FUNDED, "to": Address::repeat_byte(0x22), "value": "0x1", "gas": "0x5208", "gasUsed": "0x5208", "input": "0x",
    });
    let all = json!([
        {"txHash": block.receipts[0].transaction_hash, "result": plain},
        {"txHash": block.receipts[1].transaction_hash, "result": whole},
    ]);
    assert_eq!(fixture.client.result("debug_traceBlockByNumber", json!(["latest", with_logs()])).await, all);
    assert_eq!(fixture.client.result("debug_traceBlockByHash", json!([block.hash, with_logs()])).await, all);
    // An equivalent call.
    let request = json!({"from": FUNDED, "to": RELAY, "input": input, "gas": "0x1e8480"});
    let called = fixture.client.result("debug_traceCall", json!([request, "0x0", with_logs()])).await;
    assert_eq!(called, whole);
}

#[tokio::test]
async fn failures_use_geth_errors() {
    let fixture = Fixture::start().await;
    let block = fixture.chain.execute(&[
        call(0, RELAY, relayed('c', 0, ECHO, &no_no())),
        call(1, RELAY, relayed('C', 0, RELAY, &relayed('c', 0, ECHO, &no_no()))),
        call(2, RELAY, relayed('S', 0, RELAY, b"")),
        call(3, TxKind::Create, Bytes::from_static(&[0x60, 0x80])),
        call(4, RELAY, relayed('C', 200, Address::with_last_byte(9), b"blake")),
        call(5, RELAY, relayed('c', 255, Address::with_last_byte(4), b"identity")),
    ]);
    assert_eq!(
        block.receipts.iter().map(|receipt| receipt.success).collect::<Vec<_>>(),
        [false, true, true, false, true, true]
    );
    let all = fixture.client.result("debug_traceBlockByNumber", json!(["0x1", with_logs()])).await;
    let traced = |position: usize| without_gas(all[position]["result"].clone());

    let echo = json!({
        "type": "CALL", "from": RELAY, "to": ECHO, "value": "0x0", "input": ERROR_STRING, "output": ERROR_STRING,
        "error": "execution reverted", "revertReason": "no no!",
    });
    let reverted = traced(0);
    assert_eq!((&reverted["error"], &reverted["revertReason"]), (&json!("execution reverted"), &json!("no no!")));
    assert_eq!((&reverted["output"], &reverted["logs"]), (&json!(ERROR_STRING), &Value::Null));
    assert_eq!(reverted["calls"], json!([echo]));

    let forgiven = traced(1);
    assert_eq!((&forgiven["error"], &forgiven["output"]), (&Value::Null, &json!(ERROR_STRING)));
    assert_eq!(forgiven["logs"], json!([relay_log(1, "0x0"), relay_log(2, "0x1")]));
    assert_eq!((&forgiven["calls"][0]["error"], &forgiven["calls"][0]["logs"]), (&json!("execution reverted"), &Value::Null));

    let statically = &traced(2)["calls"][0];
    assert_eq!((&statically["type"], &statically["error"]), (&json!("STATICCALL"), &json!("write protection")));
    assert_eq!((&statically["value"], &statically["output"]), (&Value::Null, &Value::Null));

    let creation = traced(3);
    assert_eq!((&creation["type"], &creation["to"], &creation["input"]), (&json!("CREATE"), &Value::Null, &json!("0x6080")));
    assert!(creation["error"].as_str().unwrap().contains("EVM"), "{creation}");

    assert_eq!(traced(4)["calls"][0]["error"], "precompile: invalid input length");
    let identity = &traced(5)["calls"][0];
    assert_eq!(
        (&identity["to"], &identity["output"], &identity["value"]),
        (&json!(Address::with_last_byte(4)), &identity["input"], &json!("0xff"))
    );
}

/// For a transaction, for the same call, and for overridden code.
#[tokio::test]
async fn trap_position_is_reported() {
    let fixture = Fixture::start().await;
    let module = wat::parse_str(
        r#"(module (memory (export "memory") 1) (func $trap unreachable)
            (func (export "user_entrypoint") (param i32) (result i32) (call $trap) (i32.const 0)))"#,
    );
    let code = Bytes::from(module.unwrap());
    let created = fixture.chain.execute(&[call(0, TxKind::Create, code.clone())]);
    let contract = created.receipts[0].contract_address.unwrap();
    let block = fixture.chain.execute(&[call(1, RELAY, relayed('C', 0, contract, b""))]);
    let tracer = json!({"tracer": "callTracer"});
    let traced = fixture.client.result("debug_traceTransaction", json!([block.receipts[0].transaction_hash, tracer])).await;
    let places = json!([{"function": "0x0", "offset": "0x3"}, {"function": "0x1", "offset": "0x7"}]);
    assert_eq!((&traced["places"], &traced["calls"][0]["places"]), (&Value::Null, &places));

    let request = json!({"from": FUNDED, "to": contract});
    let called = fixture.client.result("debug_traceCall", json!([request, "latest", tracer])).await;
    assert_eq!(called["places"], places);
    let nowhere = Address::repeat_byte(0x77);
    let supposed = json!({"tracer": "callTracer", "stateOverrides": {nowhere.to_string(): {"code": code}}});
    let request = json!({"from": FUNDED, "to": nowhere});
    let called = fixture.client.result("debug_traceCall", json!([request, "latest", supposed])).await;
    assert_eq!(called["places"], places);
}

#[tokio::test]
async fn prestate_follows_earlier_transactions() {
    let fixture = Fixture::start().await;
    let tip_to = fee_address(AUTHOR);
    let pay = key().sign(TxEip1559 {
        chain_id: 7777,
        nonce: 2,
        gas_limit: 21_000,
        max_fee_per_gas: 3_000_000_000,
        max_priority_fee_per_gas: 1,
        to: TxKind::Call(tip_to),
        value: U256::from(10),
        ..TxEip1559::default()
    });
    let block =
        fixture.chain.execute(&[call(0, RELAY, relayed('c', 1, ECHO, b"")), call(1, RELAY, relayed('c', 2, ECHO, b"")), pay]);
    let trace = async |position: usize, config: Value| {
        let config = json!({"tracer": "prestateTracer", "tracerConfig": config});
        fixture.client.result("debug_traceTransaction", json!([block.receipts[position].transaction_hash, config])).await
    };
    let cost = |position: usize| {
        U256::from(block.receipts[position].gas_used) * U256::from(block.receipts[position].effective_gas_price)
    };
    let rich = U256::from(10).pow(U256::from(20)) - cost(0);
    let found = trace(1, json!({})).await;
    assert_eq!(found[FUNDED.to_string().to_lowercase()], json!({"balance": rich, "nonce": 1}));
    let echo = &found[ECHO.to_string().to_lowercase()];
    assert_eq!((&echo["balance"], &echo["nonce"]), (&json!("0x1"), &json!(1)));
    assert_eq!(echo["code"], fixture.client.result("eth_getCode", json!([ECHO])).await);
    let relay = &found[RELAY.to_string().to_lowercase()];
    assert_eq!((&relay["balance"], &relay["storage"]), (&json!("0x3e7"), &json!({B256::ZERO.to_string(): word(1)})));
    let bare = trace(1, json!({"disableCode": true, "disableStorage": true})).await;
    assert_eq!(bare[RELAY.to_string().to_lowercase()], json!({"balance": "0x3e7", "nonce": 1}));

    let tip = |position: usize| U256::from(block.receipts[position].gas_used * 5_000_000);
    let tips = tip(0) + tip(1);
    let changed = trace(1, json!({"diffMode": true})).await;
    assert_eq!(changed["pre"][tip_to.to_string().to_lowercase()], json!({"balance": tip(0)}));
    let slot = B256::ZERO.to_string();
    assert_eq!(changed["pre"][RELAY.to_string().to_lowercase()]["storage"], json!({&slot: word(1)}));
    assert_eq!(
        changed["post"],
        json!({
            FUNDED.to_string().to_lowercase(): {"balance": rich - cost(1), "nonce": 2},
            ECHO.to_string().to_lowercase(): {"balance": "0x3"},
            RELAY.to_string().to_lowercase(): {"balance": "0x3e5", "storage": {&slot: word(2)}},
            // Credited without being read.
            tip_to.to_string().to_lowercase(): {"balance": tips},
        })
    );
    // Tips go to the same address as in the original execution.
    let paid = trace(2, json!({})).await;
    assert_eq!(paid[tip_to.to_string().to_lowercase()], json!({"balance": tips}));
}

#[tokio::test]
async fn untraceable_requests_are_rejected() {
    let fixture = Fixture::start().await;
    fixture.chain.execute(&[transfer(0)]);
    let block = fixture.chain.execute(&[transfer(1)]);
    let hash = block.receipts[0].transaction_hash;
    let calls = json!({"tracer": "callTracer"});
    let there_are = "there are \"callTracer\" and \"prestateTracer\"";
    let table = [
        ("debug_traceTransaction", json!([B256::repeat_byte(7), calls]), -32000, "transaction not found".to_string()),
        ("debug_traceBlockByNumber", json!(["0x0", calls]), -32000, "genesis is not traceable".into()),
        ("debug_traceBlockByNumber", json!(["0x9", calls]), -32000, "header not found".into()),
        (
            "debug_traceTransaction",
            json!([hash, {"tracer": "{step: 1}"}]),
            -32000,
            format!("tracer not available: \"{{step: 1}}\"; {there_are}"),
        ),
        (
            "debug_traceTransaction",
            json!([hash]),
            -32000,
            format!("tracer not available: contracts here have no EVM opcodes to log; {there_are}"),
        ),
        (
            "debug_traceCall",
            json!([{"to": ECHO}, "latest", {"tracer": "callTracer", "txIndex": "0x0"}]),
            -32602,
            "txIndex is not supported: a call is traced after the whole block".into(),
        ),
        (
            "debug_traceCall",
            json!([{"from": ECHO, "to": ECHO, "value": "0x1"}, "latest", calls]),
            -32000,
            "insufficient funds for gas * price + value".into(),
        ),
        ("debug_traceTransaction", json!([hash, {"tracer": "callTracer", "tracerConfig": 7}]), -32602, "tracerConfig: ".into()),
        ("debug_traceTransaction", json!([hash, "callTracer"]), -32602, "invalid argument 1".into()),
    ];
    for (method, params, code, message) in table {
        let error = fixture.client.error(method, params.clone()).await;
        assert!(error.0 == code && error.1.starts_with(&message), "{method}({params}): {error:?}");
    }
    fixture.chain.forget_states_below(1);
    assert!(
        fixture.client.result("debug_traceTransaction", json!([hash, calls])).await.is_object(),
        "its parent is still there"
    );
    fixture.chain.forget_states_below(2);
    let error = fixture.client.error("debug_traceTransaction", json!([hash, calls])).await;
    assert_eq!(error, (-32000, "state not available: the state of block 1 is pruned".to_string()));
}

#[tokio::test]
async fn replay_mismatch_is_error() {
    let fixture = Fixture::start().await;
    // This block contains a log that a transfer does not emit.
    let block = fixture.chain.add(&[(transfer(0), vec![log(ECHO, &[1])])]);
    let hash = block.receipts[0].transaction_hash;
    let error = fixture.client.error("debug_traceTransaction", json!([hash, {"tracer": "callTracer"}])).await;
    assert_eq!(error, (-32603, "internal error".to_string()));
}

#[tokio::test]
async fn oversized_call_trace_is_rejected() {
    let fixture =
        Fixture::with(RpcConfig { max_response_bytes: 30_000, namespaces: Namespaces::all(), ..RpcConfig::default() }).await;
    // Each call passes on the data of the next one.
    let nested = (0..8).fold(Bytes::from(vec![7; 1_500]), |data, _| relayed('c', 0, RELAY, &data));
    let block = fixture.chain.execute(&[call(0, RELAY, relayed('c', 0, ECHO, b"")), call(1, RELAY, nested)]);
    let trace = |config: Value| {
        fixture.client.call("debug_traceBlockByNumber", json!(["0x1", {"tracer": "callTracer", "tracerConfig": config}]))
    };
    let error = trace(json!({})).await["error"].clone();
    assert_eq!(
        error,
        json!({"code": -32005, "message": "trace too large: a trace records at most 15000 bytes; ask with \"onlyTopCall\", \"disableCode\" or \"disableStorage\", or for less at once"})
    );
    let tops = trace(json!({"onlyTopCall": true})).await["result"].clone();
    assert_eq!(tops.as_array().unwrap().len(), block.receipts.len());
    // The prestate tracer does not record calls.
    let state = fixture.client.result("debug_traceBlockByNumber", json!(["0x1", {"tracer": "prestateTracer"}])).await;
    assert!(state[1]["result"].is_object());
}

#[tokio::test]
async fn oversized_prestate_is_rejected() {
    let fixture =
        Fixture::with(RpcConfig { max_response_bytes: 2_000, namespaces: Namespaces::all(), ..RpcConfig::default() }).await;
    let block = fixture.chain.execute(&[call(0, RELAY, relayed('c', 0, ECHO, b""))]);
    let hash = block.receipts[0].transaction_hash;
    for config in [json!({}), json!({"diffMode": true})] {
        let tracer = json!({"tracer": "prestateTracer", "tracerConfig": config});
        let (code, message) = fixture.client.error("debug_traceTransaction", json!([hash, tracer])).await;
        assert!(code == -32005 && message.starts_with("trace too large: a trace records at most 1000 bytes"), "{message}");
    }
    let bare = json!({"tracer": "prestateTracer", "tracerConfig": {"disableCode": true}});
    assert!(fixture.client.result("debug_traceTransaction", json!([hash, bare])).await.is_object());
}

#[tokio::test]
async fn debug_namespace_is_off_by_default() {
    let fixture = Fixture::with(RpcConfig::default()).await;
    let block = fixture.chain.execute(&[transfer(0)]);
    let params = json!([block.receipts[0].transaction_hash, {"tracer": "callTracer"}]);
    let (code, message) = fixture.client.error("debug_traceTransaction", params).await;
    assert_eq!(code, -32601, "{message}");
}
