//! Behaviours on which wallets and tools depend, one test each.

use crate::common::{ECHO, FUNDED, Fixture, log, transfer};
use corniche_rpc::RpcConfig;
use serde_json::{Value, json};

fn is_quantity(value: &Value) -> bool {
    value.as_str().and_then(|text| text.strip_prefix("0x")).is_some_and(|digits| {
        digits == "0" || !digits.is_empty() && !digits.starts_with('0') && digits.chars().all(|digit| digit.is_ascii_hexdigit())
    })
}

#[tokio::test]
async fn base_fee_is_at_least_1() {
    let fixture = Fixture::start().await;
    fixture.chain.mine(&[]);
    for tag in ["latest", "earliest", "pending"] {
        let block = fixture.client.result("eth_getBlockByNumber", json!([tag, false])).await;
        assert!(is_quantity(&block["baseFeePerGas"]) && block["baseFeePerGas"] != "0x0", "{tag}");
    }
}

#[tokio::test]
async fn blocks_have_legacy_fields() {
    let fixture = Fixture::start().await;
    let block = fixture.client.result("eth_getBlockByNumber", json!(["latest", false])).await;
    assert_eq!(block["uncles"], json!([]));
    assert_eq!(block["difficulty"], "0x0");
    assert_eq!(block["totalDifficulty"], "0x0");
    assert_eq!(block["nonce"], "0x0000000000000000");
    assert_eq!(block["sha3Uncles"], "0x1dcc4de8dec75d7aab85b567b6ccd41ad312451b948a7413f0a142fd40d49347");
    for name in ["mixHash", "extraData", "miner", "logsBloom", "gasLimit", "gasUsed", "timestamp", "size"] {
        assert!(block[name].is_string(), "{name}");
    }
}

#[tokio::test]
async fn foreign_methods_are_not_found() {
    let fixture = Fixture::start().await;
    for probe in ["eth_fillTransaction", "anvil_autoImpersonateAccount", "eth_getAccountInfo", "eth_mining"] {
        let (code, message) = fixture.client.error(probe, json!([])).await;
        assert_eq!((code, message), (-32601, format!("the method {probe} does not exist/is not available")));
    }
    // Methods of disabled namespaces are unknown too.
    let fixture = Fixture::with(RpcConfig::default()).await;
    for probe in ["hardhat_getAutomine", "evm_mine", "anvil_mine", "ots_getApiLevel", "debug_traceCall"] {
        let (code, message) = fixture.client.error(probe, json!([])).await;
        assert!(
            code == -32601 && message.starts_with(&format!("the method {probe} does not exist/is not available")),
            "{message}"
        );
    }
}

#[tokio::test]
async fn unknown_objects_are_null() {
    let fixture = Fixture::start().await;
    let hash = format!("0x{}", "ab".repeat(32));
    for (method, params) in [
        ("eth_getTransactionReceipt", json!([hash])),
        ("eth_getTransactionByHash", json!([hash])),
        ("eth_getBlockByHash", json!([hash, false])),
        ("eth_getBlockByNumber", json!(["0x99", true])),
        ("eth_getBlockReceipts", json!(["0x99"])),
        ("eth_getTransactionByBlockNumberAndIndex", json!(["latest", "0x0"])),
        ("eth_getTransactionByBlockHashAndIndex", json!([hash, "0x0"])),
        ("eth_getBlockTransactionCountByHash", json!([hash])),
        ("eth_getUncleByBlockNumberAndIndex", json!(["latest", "0x0"])),
    ] {
        let answer = fixture.client.call(method, params).await;
        assert!(answer.as_object().unwrap().contains_key("result"), "{method}: {answer}");
        assert_eq!(answer["result"], Value::Null, "{method}");
    }
}

#[tokio::test]
async fn receipts_and_logs_have_client_fields() {
    let fixture = Fixture::start().await;
    let block = fixture.chain.mine(&[(transfer(0), vec![log(ECHO, &[1])])]);
    let receipt = fixture.client.result("eth_getTransactionReceipt", json!([block.receipts[0].transaction_hash])).await;
    assert_eq!((&receipt["status"], &receipt["type"]), (&json!("0x1"), &json!("0x2")));
    for name in ["effectiveGasPrice", "cumulativeGasUsed", "gasUsed", "transactionIndex", "blockNumber"] {
        assert!(is_quantity(&receipt[name]), "{name}");
    }
    assert_eq!(receipt["logsBloom"].as_str().unwrap().len(), 514);
    assert_eq!((&receipt["contractAddress"], &receipt["from"]), (&Value::Null, &json!(FUNDED)));
    let log = &receipt["logs"][0];
    assert_eq!((&log["removed"], &log["logIndex"], &log["blockHash"]), (&json!(false), &json!("0x0"), &json!(block.hash)));
}

#[tokio::test]
async fn block_hash_is_consistent() {
    let fixture = Fixture::start().await;
    let mut socket = fixture.client.websocket().await;
    let heads = socket.subscribe(json!(["newHeads"])).await;
    let block = fixture.chain.mine(&[(transfer(0), vec![log(ECHO, &[1])])]);
    let client = fixture.client;
    let hash = json!(block.hash);
    let transaction = json!(alloy_primitives::keccak256(transfer(0)));
    assert_eq!(client.result("eth_getBlockByNumber", json!(["0x1", false])).await["hash"], hash);
    assert_eq!(client.result("eth_getBlockByHash", json!([hash, false])).await["number"], "0x1");
    assert_eq!(client.result("eth_getTransactionReceipt", json!([transaction])).await["blockHash"], hash);
    let found = client.result("eth_getTransactionByHash", json!([transaction])).await;
    assert_eq!((&found["blockHash"], &found["hash"]), (&hash, &transaction));
    assert_eq!(client.result("eth_getLogs", json!([{}])).await[0]["blockHash"], hash);
    assert_eq!(socket.notification(&heads).await["hash"], hash);
    let next = fixture.chain.mine(&[]);
    assert_eq!(next.header.parent_hash, block.hash);
    for (tag, number) in [("latest", "0x2"), ("pending", "0x2"), ("safe", "0x0"), ("finalized", "0x0"), ("earliest", "0x0")] {
        assert_eq!(client.result("eth_getBlockByNumber", json!([tag, false])).await["number"], number, "{tag}");
    }
    fixture.chain.finalize(2);
    for tag in ["safe", "finalized"] {
        assert_eq!(client.result("eth_getBlockByNumber", json!([tag, false])).await["number"], "0x2", "{tag}");
    }
}

#[tokio::test]
async fn pending_transaction_has_null_block() {
    let fixture = Fixture::start().await;
    let client = fixture.client;
    let hash = client.result("eth_sendRawTransaction", json!([transfer(0)])).await;
    assert_eq!(hash, json!(alloy_primitives::keccak256(transfer(0))));
    let waiting = client.result("eth_getTransactionByHash", json!([hash])).await;
    for name in ["blockHash", "blockNumber", "transactionIndex"] {
        assert_eq!(waiting[name], Value::Null, "{name}");
    }
    assert_eq!((&waiting["from"], &waiting["gasPrice"]), (&json!(FUNDED), &waiting["maxFeePerGas"]));
    assert_eq!(client.result("eth_getTransactionReceipt", json!([hash])).await, Value::Null);
    assert_eq!(client.result("eth_getTransactionCount", json!([FUNDED, "pending"])).await, "0x1");
    assert_eq!(client.result("eth_getTransactionCount", json!([FUNDED, "latest"])).await, "0x0");
    assert_eq!(client.result("corniche_getTransactionStatus", json!([hash])).await["status"], "pending");
    let block = fixture.chain.mine(&[(transfer(0), vec![])]);
    let found = client.result("eth_getTransactionByHash", json!([hash])).await;
    assert_eq!((&found["blockHash"], &found["gasPrice"]), (&json!(block.hash), &json!("0x3be71540")));
}

#[tokio::test]
async fn raw_transaction_round_trips() {
    let fixture = Fixture::start().await;
    let client = fixture.client;
    let hash = client.result("eth_sendRawTransaction", json!([transfer(0)])).await;
    assert_eq!(client.result("eth_getRawTransactionByHash", json!([hash])).await, json!(transfer(0)), "it waits in the pool");
    let block = fixture.chain.mine(&[(transfer(0), vec![]), (transfer(1), vec![])]);
    let unknown = json!(alloy_primitives::B256::repeat_byte(0xab));
    for (method, params, expected) in [
        ("eth_getRawTransactionByHash", json!([hash]), json!(transfer(0))),
        ("eth_getRawTransactionByBlockHashAndIndex", json!([block.hash, "0x1"]), json!(transfer(1))),
        ("eth_getRawTransactionByBlockNumberAndIndex", json!(["latest", "0x1"]), json!(transfer(1))),
        ("eth_getRawTransactionByHash", json!([unknown]), json!("0x")),
        ("eth_getRawTransactionByBlockHashAndIndex", json!([block.hash, "0x2"]), json!("0x")),
        ("eth_getRawTransactionByBlockHashAndIndex", json!([unknown, "0x0"]), json!("0x")),
        ("eth_getRawTransactionByBlockNumberAndIndex", json!(["0x1", "0x2"]), json!("0x")),
        ("eth_getRawTransactionByBlockNumberAndIndex", json!(["0x99", "0x0"]), json!("0x")),
    ] {
        assert_eq!(client.result(method, params.clone()).await, expected, "{method}({params})");
    }
}

#[tokio::test]
async fn quantity_and_data_encoding() {
    let fixture = Fixture::start().await;
    fixture.chain.mine(&[(transfer(0), vec![log(ECHO, &[0])])]);
    let block = fixture.client.result("eth_getBlockByNumber", json!(["0x1", true])).await;
    for name in ["number", "gasLimit", "gasUsed", "timestamp", "baseFeePerGas", "size", "difficulty"] {
        assert!(is_quantity(&block[name]), "{name}: {}", block[name]);
    }
    let transaction = &block["transactions"][0];
    for name in ["nonce", "gas", "value", "maxFeePerGas", "maxPriorityFeePerGas", "chainId", "type", "v", "r", "s", "yParity"] {
        assert!(is_quantity(&transaction[name]), "{name}: {}", transaction[name]);
    }
    assert_eq!(transaction["input"], "0x");
    let log = &fixture.client.result("eth_getLogs", json!([{}])).await[0];
    assert_eq!(log["topics"][0].as_str().unwrap().len(), 66);
    assert_eq!(fixture.client.result("eth_getStorageAt", json!([FUNDED, "0x0"])).await.as_str().unwrap().len(), 66);
}
