//! Calls with block overrides, and access lists.
#![allow(clippy::unwrap_used)] // the lint exempts test functions, but not their helpers

use crate::common::{COINBASE, ECHO, FUNDED, Fixture, RELAY, call, key, relayed};
use alloy_consensus::TxEip1559;
use alloy_eips::eip2930::AccessList;
use alloy_primitives::{Address, B256, Bytes, TxKind, U256};
use corniche_rpc::RpcConfig;
use corniche_types::STAKING_ADDRESS;
use serde_json::{Value, json};

/// Returns number, time, gas limit, base fee and coinbase of the block, one word each.
const BLOCK: &str = r#"(module
  (import "vm_hooks" "block_number" (func $number (result i64)))
  (import "vm_hooks" "block_timestamp" (func $timestamp (result i64)))
  (import "vm_hooks" "block_gas_limit" (func $limit (result i64)))
  (import "vm_hooks" "block_basefee" (func $fee (param i32)))
  (import "vm_hooks" "block_coinbase" (func $coinbase (param i32)))
  (import "vm_hooks" "write_result" (func $result (param i32 i32)))
  (memory (export "memory") 1 1)
  (func $put (param $at i32) (param $number i64)
    (loop $next
      (i64.store8 (local.get $at) (local.get $number))
      (local.set $at (i32.sub (local.get $at) (i32.const 1)))
      (local.set $number (i64.shr_u (local.get $number) (i64.const 8)))
      (br_if $next (i64.ne (local.get $number) (i64.const 0)))))
  (func (export "user_entrypoint") (param i32) (result i32)
    (call $put (i32.const 31) (call $number))
    (call $put (i32.const 63) (call $timestamp))
    (call $put (i32.const 95) (call $limit))
    (call $fee (i32.const 96))
    (call $coinbase (i32.const 140))
    (call $result (i32.const 0) (i32.const 160))
    (i32.const 0)))"#;

fn words(output: &Value) -> Vec<U256> {
    let bytes: Bytes = serde_json::from_value(output.clone()).unwrap();
    bytes.chunks(32).map(U256::from_be_slice).collect()
}

fn address(address: Address) -> U256 {
    U256::from_be_slice(address.as_slice())
}

#[tokio::test]
async fn contract_sees_block_overrides() {
    let fixture = Fixture::start().await;
    fixture.chain.mine(&[]);
    let there = Address::repeat_byte(0xb1);
    let code = Bytes::from(wat::parse_str(BLOCK).unwrap());
    let state = json!({there.to_string(): {"code": code}});
    let call = json!({"to": there});
    let number = |number: u64| U256::from(number);
    // Without a gas price the base fee reads as 0, unless it is overridden.
    let real = vec![number(1), number(1_700_000_001), number(30_000_000), number(0), address(COINBASE)];
    let paying = json!({"from": FUNDED, "to": there, "gasPrice": "0x3b9aca00"});
    let paid = fixture.client.result("eth_call", json!([paying, "latest", state])).await;
    assert_eq!(words(&paid)[3], number(1_000_000_000));
    for block in [json!(null), json!({})] {
        assert_eq!(words(&fixture.client.result("eth_call", json!([call, "latest", state, block])).await), real);
    }
    let elsewhere = Address::repeat_byte(0x0c);
    let supposed = json!({
        "number": "0x64", "time": "0xc8", "gasLimit": "0x1c9c381", "baseFeePerGas": "0x7", "feeRecipient": elsewhere, "prevRandao": B256::ZERO,
    });
    let expected = vec![number(100), number(200), number(30_000_001), number(7), address(elsewhere)];
    assert_eq!(words(&fixture.client.result("eth_call", json!([call, "latest", state, supposed])).await), expected);
    let traced = json!([call, "latest", {"tracer": "callTracer", "stateOverrides": state, "blockOverrides": supposed}]);
    assert_eq!(words(&fixture.client.result("debug_traceCall", traced).await["output"]), expected);
    assert_eq!(words(&fixture.client.result("eth_call", json!([call, "latest", state])).await), real, "nothing of it stays");

    // A fee required by the block, and a limit set by the block.
    let cheap = json!({"from": FUNDED, "to": ECHO, "maxFeePerGas": "0x9"});
    let (_, message) = fixture.client.error("eth_call", json!([cheap])).await;
    assert!(message.starts_with("max fee per gas less than block base fee"), "{message}");
    assert_eq!(fixture.client.result("eth_call", json!([cheap, "latest", null, supposed])).await, "0x");
    let transfer = json!({"from": FUNDED, "to": there, "value": "0x1"});
    for (limit, answer) in [("0x5208", json!("0x5208")), ("0x5207", json!(null))] {
        let params = json!([transfer, "latest", null, {"gasLimit": limit}]);
        assert_eq!(fixture.client.call("eth_estimateGas", params).await["result"], answer, "{limit}");
    }
    for bad in [json!({"number": "nine"}), json!({"beaconRoot": B256::ZERO}), json!({"number": U256::MAX}), json!(7)] {
        assert_eq!(fixture.client.error("eth_call", json!([call, "latest", state, bad])).await.0, -32602, "{bad}");
    }
}

/// The node compiles overridden code, so the call pays gas for it. Invalid code is the client's error.
#[tokio::test]
async fn code_override_is_validated_and_charged() {
    let fixture = Fixture::start().await;
    let there = Address::repeat_byte(0xb1);
    let code = Bytes::from(wat::parse_str(BLOCK).unwrap());
    let supposing = |address: Address, code: &[u8]| json!({address.to_string(): {"code": Bytes::copy_from_slice(code)}});
    let call = json!({"to": there});
    for (bad, why) in [
        (supposing(there, &[0x60, 0x80, 0x60, 0x40]), "this chain runs WebAssembly"),
        (supposing(there, b"\0asm\x01\0\0\0"), "cannot run here"),
        (supposing(there, &code[..code.len() - 1]), "cannot run here"),
        (supposing(there, &[0xef, 0xf0, 0, 0, 1]), "damaged"),
        (supposing(Address::with_last_byte(4), &code), "is a precompile"),
        (supposing(Address::with_last_byte(4), &[1]), "is a precompile"),
        (supposing(STAKING_ADDRESS, &code), "is the staking contract"),
    ] {
        let simulated = json!([{"blockStateCalls": [{"stateOverrides": bad, "calls": [call]}]}, "latest"]);
        for (method, params) in [
            ("eth_call", json!([call, "latest", bad])),
            ("eth_estimateGas", json!([call, "latest", bad])),
            ("eth_createAccessList", json!([call, "latest", bad])),
            ("debug_traceCall", json!([call, "latest", {"tracer": "callTracer", "stateOverrides": bad}])),
            ("eth_simulateV1", simulated),
        ] {
            let (code, message) = fixture.client.error(method, params).await;
            assert!(code == -32602 && message.contains(why), "{method}: {code} {message}");
        }
    }
    // 16 KiB of code cost two thirds of the cap: one is within it, several different ones are not. Equal code
    // at several addresses counts once.
    let config = RpcConfig { call_gas_cap: 3_800_000, ..RpcConfig::default() };
    let fixture = Fixture::with(config).await;
    let filler = |byte: u8| {
        let section = [&[0, 0x80, 0x80, 0x01, 1][..], &[byte; 0x4000 - 1]].concat();
        [&code[..], &section].concat()
    };
    let mut many = serde_json::Map::new();
    for number in 1..=4 {
        let address = Address::repeat_byte(0xb0 + number);
        many.extend(supposing(address, &filler(0)).as_object().unwrap().clone());
    }
    assert_eq!(words(&fixture.client.result("eth_call", json!([call, "latest", many])).await).len(), 5);
    for number in 2..=3 {
        let address = Address::repeat_byte(0xb0 + number);
        many.extend(supposing(address, &filler(number)).as_object().unwrap().clone());
    }
    let (code, message) = fixture.client.error("eth_call", json!([call, "latest", many])).await;
    assert!(code == -32000 && message.starts_with("out of gas: checking and compiling"), "{code} {message}");
}

#[tokio::test]
async fn access_list_covers_accessed_keys() {
    let fixture = Fixture::start().await;
    let input = relayed('c', 0, RELAY, &relayed('c', 0, ECHO, &relayed('c', 0, Address::with_last_byte(4), b"x")));
    let stranger = Address::repeat_byte(0x51);
    let slot = B256::with_last_byte(9);
    let request = json!({
        "from": FUNDED, "to": RELAY, "input": input,
        "accessList": [{"address": stranger, "storageKeys": [slot]}, {"address": FUNDED, "storageKeys": []}, {"address": Address::with_last_byte(4), "storageKeys": []}],
    });
    let answer = fixture.client.result("eth_createAccessList", json!([request, "latest"])).await;
    let list: AccessList = serde_json::from_value(answer["accessList"].clone()).unwrap();
    let mut listed: Vec<_> = list.0.iter().map(|item| (item.address, item.storage_keys.clone())).collect();
    listed.sort();
    let mut expected = vec![(RELAY, vec![B256::ZERO]), (ECHO, vec![]), (stranger, vec![slot])];
    expected.sort();
    assert_eq!(listed, expected);
    assert!(answer.get("error").is_none());
    // A transaction with this list uses exactly this much gas.
    let signed = key().sign(TxEip1559 {
        chain_id: 7777,
        gas_limit: 2_000_000,
        max_fee_per_gas: 2_000_000_000,
        to: TxKind::Call(RELAY),
        input: input.clone(),
        access_list: list,
        ..TxEip1559::default()
    });
    let block = fixture.chain.execute(&[signed, call(1, RELAY, input)]);
    assert!(block.receipts.iter().all(|receipt| receipt.success));
    // The slot was zero then.
    assert_eq!(answer["gasUsed"], json!(U256::from(block.receipts[0].gas_used)));
}

#[tokio::test]
async fn failed_call_has_access_list() {
    let fixture = Fixture::start().await;
    let request = json!({"to": RELAY, "input": relayed('c', 0, ECHO, &[8])});
    let answer = fixture.client.result("eth_createAccessList", json!([request])).await;
    assert_eq!(answer["error"], "execution reverted");
    assert_eq!(answer["accessList"].as_array().unwrap().len(), 2);
    // A transfer needs no list.
    let transfer = json!({"from": FUNDED, "to": Address::repeat_byte(0x33), "value": "0x1"});
    let answer = fixture.client.result("eth_createAccessList", json!([transfer, "latest"])).await;
    assert_eq!(answer, json!({"accessList": [], "gasUsed": "0x5208"}));
    // A call that cannot run is refused.
    let poor = json!({"from": ECHO, "to": FUNDED, "value": "0x1"});
    let (code, message) = fixture.client.error("eth_createAccessList", json!([poor])).await;
    assert_eq!((code, message.as_str()), (-32000, "insufficient funds for gas * price + value"));
    // Works with overrides, as for other calls.
    let state = json!({ECHO.to_string(): {"balance": "0x1"}});
    let answer = fixture.client.result("eth_createAccessList", json!([poor, "latest", state, {"number": "0x5"}])).await;
    assert_eq!(answer["gasUsed"], "0x5208");
}
