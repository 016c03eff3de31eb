//! `ots_*` methods, in the format of Otterscan's documentation.
#![allow(clippy::unwrap_used)] // the lint exempts test functions, but not their helpers

use crate::common::{ECHO, FUNDED, Fixture, RELAY, Whole, call, log, relayed, transfer};
use alloy_primitives::{Address, B256, Bytes, TxKind};
use corniche_api::Namespaces;
use corniche_rpc::RpcConfig;
use serde_json::{Value, json};
use std::time::Duration;

const REVERTS: &[u8] = &[8, 1, 2];
const PAYEE: Address = Address::repeat_byte(0x22);

/// Creates a contract from its input and returns the address.
const FACTORY: &str = r#"(module
  (import "vm_hooks" "read_args" (func $args (param i32)))
  (import "vm_hooks" "write_result" (func $result (param i32 i32)))
  (import "vm_hooks" "create1" (func $create (param i32 i32 i32 i32 i32)))
  (memory (export "memory") 1 1)
  (func (export "user_entrypoint") (param $length i32) (result i32)
    (call $args (i32.const 1024))
    (call $create (i32.const 1024) (local.get $length) (i32.const 0) (i32.const 64) (i32.const 96))
    (call $result (i32.const 64) (i32.const 20))
    (i32.const 0)))"#;
const CHILD: &str =
    r#"(module (memory (export "memory") 1 1) (func (export "user_entrypoint") (param i32) (result i32) (i32.const 0)))"#;

fn code(module: &str) -> Bytes {
    wat::parse_str(module).unwrap().into()
}

/// Node with a query timeout of 0.
async fn hurried() -> Fixture {
    Fixture::with(RpcConfig { namespaces: Namespaces::all(), max_log_time: Duration::ZERO, ..RpcConfig::default() }).await
}

#[tokio::test]
async fn api_level_needs_ots_namespace() {
    let fixture = Fixture::start().await;
    assert_eq!(fixture.client.result("ots_getApiLevel", json!([])).await, json!(8));
    let without = Fixture::with(RpcConfig::default()).await;
    assert_eq!(without.client.error("ots_getApiLevel", json!([])).await.0, -32601);
}

#[tokio::test]
async fn block_transactions_are_paged_from_end() {
    let fixture = Fixture::start().await;
    let client = &fixture.client;
    let large = call(4, RELAY, relayed('c', 0, ECHO, b"hello"));
    let mut transactions: Vec<_> = (0..4).map(|nonce| (transfer(nonce), vec![log(ECHO, &[1])])).collect();
    transactions.push((large, vec![]));
    let block = fixture.chain.mine(&transactions);
    let details = client.result("ots_getBlockDetails", json!([1])).await;
    for same in [json!(["0x1"]), json!(["latest"])] {
        assert_eq!(client.result("ots_getBlockDetails", same).await, details);
    }
    assert_eq!(client.result("ots_getBlockDetailsByHash", json!([block.hash])).await, details);
    let mut expected = client.result("eth_getBlockByNumber", json!(["0x1", true])).await;
    let whole = expected["transactions"].take();
    expected.as_object_mut().unwrap().remove("transactions");
    (expected["logsBloom"], expected["transactionCount"]) = (Value::Null, json!(5));
    let fees: u128 = block.receipts.iter().map(|receipt| u128::from(receipt.gas_used) * receipt.effective_gas_price).sum();
    let nothing = json!({"blockReward": "0x0", "uncleReward": "0x0", "issuance": "0x0"});
    assert_eq!(details, json!({"block": expected, "issuance": nothing, "totalFees": format!("{fees:#x}")}));

    let page = async |page: u64, size: u64| client.result("ots_getBlockTransactions", json!([1, page, size])).await;
    let hashes = |page: &Value| {
        let of = |list: &Value, name: &str| list.as_array().unwrap().iter().map(|one| one[name].clone()).collect::<Vec<_>>();
        let hashes = of(&page["fullblock"]["transactions"], "hash");
        assert_eq!(of(&page["receipts"], "transactionHash"), hashes);
        hashes
    };
    let nth = |range: std::ops::Range<usize>| range.map(|at| whole[at]["hash"].clone()).collect::<Vec<_>>();
    let last = page(0, 2).await;
    assert_eq!(hashes(&last), nth(3..5));
    assert_eq!(hashes(&page(1, 2).await), nth(1..3));
    assert_eq!(hashes(&page(2, 2).await), nth(0..1));
    assert_eq!(hashes(&page(3, 2).await), nth(0..0));
    assert_eq!(hashes(&page(u64::MAX, u64::MAX).await), nth(0..0));
    assert_eq!(last["fullblock"]["transactionCount"], 5);
    let selector = &whole[4]["input"].as_str().unwrap()[..10];
    assert_eq!(last["fullblock"]["transactions"][1]["input"], selector);
    let mut receipt = client.result("eth_getTransactionReceipt", json!([whole[3]["hash"]])).await;
    (receipt["logs"], receipt["logsBloom"]) = (Value::Null, Value::Null);
    receipt["timestamp"] = json!(block.header.timestamp);
    assert_eq!(last["receipts"][0], receipt);

    for method in ["ots_getBlockDetails", "ots_getBlockTransactions"] {
        let params = if method.ends_with("Details") { json!([2]) } else { json!([2, 0, 10]) };
        assert_eq!(client.result(method, params).await, Value::Null, "{method}");
    }
    assert_eq!(client.result("ots_getBlockDetailsByHash", json!([B256::repeat_byte(7)])).await, Value::Null);
}

#[tokio::test]
async fn transaction_calls_transfers_and_error() {
    let fixture = Fixture::start().await;
    let client = &fixture.client;
    let inner = relayed('d', 0, ECHO, b"hi");
    let input = relayed('c', 3, RELAY, &inner);
    // The last one fails as a whole, so its transfer is reverted.
    let block = fixture.chain.execute(&[
        call(0, RELAY, input.clone()),
        call(1, RELAY, relayed('s', 0, ECHO, b"x")),
        call(2, RELAY, relayed('c', 5, ECHO, REVERTS)),
    ]);
    let of = |at: usize| json!([block.receipts[at].transaction_hash]);
    let entry = |kind: &str, depth: u32, from: Address, to: Address, value: Value, input: &[u8], output: &[u8]| {
        json!({"type": kind, "depth": depth, "from": from, "to": to, "value": value,
            "input": Bytes::copy_from_slice(input), "output": Bytes::copy_from_slice(output)})
    };
    assert_eq!(
        client.result("ots_traceTransaction", of(0)).await,
        json!([
            entry("CALL", 0, FUNDED, RELAY, json!("0x0"), &input, b"hi"),
            entry("CALL", 1, RELAY, RELAY, json!("0x3"), &inner, b"hi"),
            entry("DELEGATECALL", 2, RELAY, ECHO, Value::Null, b"hi", b"hi"),
        ])
    );
    let statically = client.result("ots_traceTransaction", of(1)).await;
    assert_eq!(statically[1], entry("STATICCALL", 1, RELAY, ECHO, Value::Null, b"x", b"x"));
    let failed = client.result("ots_traceTransaction", of(2)).await;
    assert_eq!(failed[1], entry("CALL", 1, RELAY, ECHO, json!("0x5"), REVERTS, REVERTS));

    let transfer = json!({"type": 0, "from": RELAY, "to": RELAY, "value": "0x3"});
    assert_eq!(client.result("ots_getInternalOperations", of(0)).await, json!([transfer]));
    for nothing in [1, 2] {
        assert_eq!(client.result("ots_getInternalOperations", of(nothing)).await, json!([]));
    }

    assert_eq!(client.result("ots_getTransactionError", of(0)).await, "0x");
    assert_eq!(client.result("ots_getTransactionError", of(2)).await, json!(Bytes::from_static(REVERTS)));
    for method in ["ots_traceTransaction", "ots_getInternalOperations", "ots_getTransactionError"] {
        let unknown = client.error(method, json!([B256::repeat_byte(9)])).await;
        assert_eq!(unknown, (-32000, "transaction not found".into()), "{method}");
    }
    assert_eq!(client.result("ots_hasCode", json!([RELAY, "latest"])).await, true);
    assert_eq!(client.result("ots_hasCode", json!([RELAY])).await, true);
    assert_eq!(client.result("ots_hasCode", json!([FUNDED, "0x1"])).await, false);
    assert_eq!(client.error("ots_hasCode", json!([FUNDED, "0x9"])).await.1, "header not found");
}

#[tokio::test]
async fn contract_creator_is_found() {
    let fixture = Fixture::start().await;
    let client = &fixture.client;
    fixture.chain.execute(&[transfer(0)]);
    let deployed = fixture.chain.execute(&[transfer(1), call(2, TxKind::Create, code(FACTORY))]);
    let factory = deployed.receipts[1].contract_address.unwrap();
    fixture.chain.execute(&[transfer(3)]);
    let made = fixture.chain.execute(&[transfer(4), call(5, factory, code(CHILD))]);
    assert!(made.receipts[1].success, "{:?}", made.receipts[1]);
    let child = Address::from_slice(&made.receipts[1].output);
    let later = fixture.chain.execute(&[transfer(6)]);

    let creator = async |of: Address| client.call("ots_getContractCreator", json!([of])).await;
    let by = |hash: B256, creator: Address| json!({"hash": hash, "creator": creator});
    assert_eq!(creator(factory).await["result"], by(deployed.receipts[1].transaction_hash, FUNDED));
    assert_eq!(creator(child).await["result"], by(made.receipts[1].transaction_hash, factory));
    for none in [ECHO, FUNDED, PAYEE] {
        assert_eq!(creator(none).await["result"], Value::Null, "{none}");
    }
    let hash = made.receipts[1].transaction_hash;
    let operation = json!({"type": 2, "from": factory, "to": child, "value": "0x0"});
    assert_eq!(client.result("ots_getInternalOperations", json!([hash])).await, json!([operation]));

    // Without the earlier states, only contracts deployed directly by a transaction are found.
    fixture.chain.forget_states_below(later.height().0);
    assert_eq!(creator(factory).await["result"], by(deployed.receipts[1].transaction_hash, FUNDED));
    for unknown in [child, ECHO] {
        let error = creator(unknown).await["error"].clone();
        assert_eq!(error["code"], -32000);
        assert_eq!(
            error["message"],
            "state not available: no transaction deployed it: a contract made it, or the genesis has it; \
             states below block 0x5, which would lead to it, are not kept"
        );
    }
}

#[tokio::test]
async fn transaction_by_sender_and_nonce() {
    for fixture in [Fixture::start().await, hurried().await] {
        let find = async |sender: Address, nonce: Value| {
            fixture.client.call("ots_getTransactionBySenderAndNonce", json!([sender, nonce])).await
        };
        let mut hashes = Vec::new();
        for block in 0..10 {
            let block = fixture.chain.execute(&[transfer(2 * block), transfer(2 * block + 1)]);
            hashes.extend(block.receipts.iter().map(|receipt| json!(receipt.transaction_hash)));
        }
        for (nonce, hash) in hashes.iter().enumerate() {
            assert_eq!(find(FUNDED, json!(nonce)).await["result"], *hash, "by halves, which takes no time");
        }
        assert_eq!(find(FUNDED, json!("0x3")).await["result"], hashes[3]);
        for (sender, nonce) in [(FUNDED, 20), (FUNDED, 1_u64 << 40), (PAYEE, 0), (ECHO, 0)] {
            assert_eq!(find(sender, json!(nonce)).await["result"], Value::Null, "{sender} {nonce}");
        }
        fixture.chain.forget_states_below(8);
        assert_eq!(find(FUNDED, json!(16)).await["result"], hashes[16], "block 9");
        let old = find(FUNDED, json!(3)).await;
        if old.get("error").is_none() {
            assert_eq!(old["result"], hashes[3], "one by one");
            continue;
        }
        let advice = "the states needed to find it are pruned";
        let expected = format!("query exceeds maximum time: 0ns, block 0x8 not searched yet; {advice}");
        assert_eq!((&old["error"]["code"], &old["error"]["message"]), (&json!(-32005), &json!(expected)));
    }
}

#[tokio::test]
async fn search_uses_states_on_disk() {
    let fixture = hurried().await;
    let hashes: Vec<Value> =
        (0..10).map(|nonce| json!(fixture.chain.execute(&[transfer(nonce)]).receipts[0].transaction_hash)).collect();
    fixture.chain.forget_states_below(8);
    let find = async |nonce: usize| fixture.client.call("ots_getTransactionBySenderAndNonce", json!([FUNDED, nonce])).await;
    *fixture.chain.old_states.lock().unwrap() = Some(Whole::Yes);
    for (nonce, hash) in hashes.iter().enumerate() {
        assert_eq!(find(nonce).await["result"], *hash, "by halves, which takes no time");
    }
    *fixture.chain.old_states.lock().unwrap() = Some(Whole::No);
    let forgotten = find(3).await;
    assert_eq!(forgotten["error"]["code"], json!(-32000), "{forgotten}");
}

#[tokio::test]
async fn account_search_is_paged_newest_first() {
    let fixture = Fixture::start().await;
    let client = &fixture.client;
    // Twelve blocks with two transactions each: transfers, but the second in every third block calls the
    // relay.
    let mut hashes = Vec::new();
    for height in 1..=12 {
        let first = 2 * (height - 1);
        let second = if height % 3 == 0 { call(first + 1, RELAY, relayed('c', 0, ECHO, b"")) } else { transfer(first + 1) };
        let block = fixture.chain.execute(&[transfer(first), second]);
        hashes.extend(block.receipts.iter().map(|receipt| json!(receipt.transaction_hash)));
    }
    let newest_first: Vec<Value> = hashes.iter().rev().cloned().collect();
    let search = async |direction: &str, of: Address, block: u64, size: u64| {
        let page = client.result(&format!("ots_searchTransactions{direction}"), json!([of, block, size])).await;
        let of =
            |list: &str, name: &str| page[list].as_array().unwrap().iter().map(|one| one[name].clone()).collect::<Vec<_>>();
        let found = of("txs", "hash");
        assert_eq!(of("receipts", "transactionHash"), found);
        assert!(of("receipts", "timestamp").iter().all(Value::is_u64), "{page}");
        (found, page["firstPage"].as_bool().unwrap(), page["lastPage"].as_bool().unwrap())
    };
    // Pages contain whole blocks, so four instead of three.
    assert_eq!(search("Before", FUNDED, 0, 3).await, (newest_first[..4].to_vec(), true, false));
    assert_eq!(search("Before", FUNDED, 11, 3).await, (newest_first[4..8].to_vec(), false, false));
    assert_eq!(search("Before", FUNDED, 3, 25).await, (newest_first[20..].to_vec(), false, true));
    assert_eq!(search("Before", FUNDED, 1 << 40, 25).await, (newest_first.clone(), true, true));
    assert_eq!(search("After", FUNDED, 0, 3).await, (newest_first[20..].to_vec(), false, true));
    assert_eq!(search("After", FUNDED, 2, 3).await, (newest_first[16..20].to_vec(), false, false));
    assert_eq!(search("After", FUNDED, 10, 3).await, (newest_first[..4].to_vec(), true, false));
    assert_eq!(search("After", FUNDED, 12, 3).await, (vec![], true, false));
    // Accounts that were called, that received transfers, or that do not occur.
    let relayed: Vec<Value> = [23, 17, 11, 5].map(|at| hashes[at].clone()).into();
    assert_eq!(search("Before", RELAY, 0, 25).await, (relayed.clone(), true, true));
    assert_eq!(search("After", RELAY, 0, 2).await, (relayed[2..].to_vec(), false, true));
    assert_eq!(search("Before", PAYEE, 0, 25).await.0.len(), 20);
    assert_eq!(search("Before", Address::repeat_byte(0x77), 0, 25).await, (vec![], true, true));
    for size in [0, 26] {
        let error = client.error("ots_searchTransactionsBefore", json!([FUNDED, 0, size])).await;
        assert_eq!(error, (-32602, format!("page size {size}: at least 1, at most 25")));
    }

    let hurried = hurried().await;
    hurried.chain.execute(&[transfer(0)]);
    for (direction, block) in [("Before", "0x1"), ("After", "0x1")] {
        let error = hurried.client.error(&format!("ots_searchTransactions{direction}"), json!([FUNDED, 0, 25])).await;
        let expected = format!("query exceeds maximum time: 0ns, block {block} not searched yet; continue from there");
        assert_eq!(error, (-32005, expected));
    }
}
