//! Every method responds, in the shape of Ethereum's OpenRPC document.
#![allow(clippy::unwrap_used)] // the lint exempts test functions, but not their helpers

use crate::common::schema::{conforms, matches_pattern};
use crate::common::{ECHO, FUNDED, Fixture, examples, key, log, transfer};
use corniche_api::{Method, NOT_SERVED};
use corniche_rpc::RpcConfig;
use corniche_types::B256;
use serde_json::{Value, json};
use std::path::Path;

#[tokio::test]
async fn every_method_answers_valid_requests() {
    let fixture = Fixture::start().await;
    let examples = examples(&fixture).await;
    for (method, params) in &examples {
        fixture.client.result(method.name(), params.clone()).await;
    }
    for method in Method::ALL {
        let covered = examples.iter().any(|(example, _)| example == method);
        // These need a WebSocket or a new block.
        let elsewhere = matches!(method, Method::EthSubscribe | Method::EthUnsubscribe | Method::EthSendRawTransactionSync);
        assert!(covered || elsewhere, "{method:?} has no example");
    }
}

/// Ethereum's OpenRPC document, if the file exists.
fn ethereums_document() -> Option<Value> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let path = root.join("../shared/data/ethereum-openrpc.json");
    let Ok(text) = std::fs::read_to_string(&path) else {
        eprintln!("SKIPPED: {} is absent, nothing is compared with it", path.display());
        return None;
    };
    Some(serde_json::from_str(&text).unwrap())
}

fn described<'d>(document: &'d Value, method: &str) -> Option<&'d Value> {
    document["methods"].as_array().unwrap().iter().find(|described| described["name"] == method)
}

#[tokio::test]
async fn responses_match_ethereum_openrpc() {
    let Some(document) = ethereums_document() else { return };
    let fixture = Fixture::start().await;
    let mut compared = 0;
    for (method, params) in examples(&fixture).await {
        let Some(described) = described(&document, method.name()) else { continue };
        let result = fixture.client.result(method.name(), params.clone()).await;
        // The document describes only transactions in blocks; a pending one has no block.
        let waits = method == Method::EthGetTransactionByHash && result["blockHash"].is_null();
        let signed = json!({"oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/TransactionSigned"}]});
        let schema = if waits { &signed } else { &described["result"]["schema"] };
        if let Err(problem) = conforms(&document, schema, &result) {
            panic!("{}({params}): {problem}\n{result:#}", method.name());
        }
        compared += 1;
    }
    assert!(compared > 40, "{compared} answers compared");
}

#[test]
fn ethereum_methods_served_or_listed_missing() {
    let Some(document) = ethereums_document() else { return };
    for described in document["methods"].as_array().unwrap() {
        let name = described["name"].as_str().unwrap();
        let missing = NOT_SERVED.iter().any(|(methods, _)| methods.contains(&name));
        assert!(missing || Method::from_name(name).is_some(), "{name} is neither served nor among NOT_SERVED");
    }
}

/// Clients generate types and checks from `rpc_discover`, so requests and responses must match it.
#[tokio::test]
async fn responses_match_own_openrpc() {
    let fixture = Fixture::start().await;
    let examples = examples(&fixture).await;
    let document = fixture.client.result("rpc_discover", json!([])).await;
    assert_eq!(document["info"]["version"], "corniche/test");
    for (method, params) in examples {
        let described = described(&document, method.name()).unwrap_or_else(|| panic!("{} is not described", method.name()));
        let fail = |what: &str, problem: String| panic!("{}({params}), {what}: {problem}", method.name());
        let expected = described["params"].as_array().unwrap();
        let given = params.as_array().unwrap();
        assert!(given.len() <= expected.len(), "{}({params}) has more parameters than described", method.name());
        for (position, expected) in expected.iter().enumerate() {
            match given.get(position) {
                Some(value) => {
                    conforms(&document, &expected["schema"], value).unwrap_or_else(|problem| fail("parameter", problem))
                }
                None => assert_eq!(expected["required"], false, "{}({params})", method.name()),
            }
        }
        let result = fixture.client.result(method.name(), params.clone()).await;
        conforms(&document, &described["result"]["schema"], &result).unwrap_or_else(|problem| fail("answer", problem));
    }
}

/// Requests that are always refused must not match the schema.
#[tokio::test]
async fn invalid_requests_fail_schema() {
    let fixture = Fixture::start().await;
    let document = fixture.client.result("rpc_discover", json!([])).await;
    let (hash, word) = (B256::repeat_byte(1), B256::repeat_byte(2));
    let slots = json!({word.to_string(): word});
    let refused = [
        ("eth_getLogs", json!([{"blockHash": hash, "fromBlock": "0x1"}])),
        ("eth_getLogs", json!([{"blockHash": hash, "toBlock": "latest"}])),
        ("eth_newFilter", json!([{"blockHash": hash, "fromBlock": "0x1", "toBlock": "0x2"}])),
        ("eth_call", json!([{"to": FUNDED, "gasPrice": "0x1", "maxFeePerGas": "0x1"}])),
        ("eth_estimateGas", json!([{"to": FUNDED, "gasPrice": "0x1", "maxPriorityFeePerGas": "0x1"}])),
        ("eth_call", json!([{"to": FUNDED}, "latest", {FUNDED.to_string(): {"state": slots, "stateDiff": slots}}])),
    ];
    for (method, params) in refused {
        let (code, message) = fixture.client.error(method, params.clone()).await;
        assert_eq!(code, -32602, "{method}({params}): {message}");
        let described = described(&document, method).unwrap()["params"].as_array().unwrap();
        let mut each = params.as_array().unwrap().iter().zip(described);
        let fits = each.all(|(value, expected)| conforms(&document, &expected["schema"], value).is_ok());
        assert!(!fits, "{method}({params}) is refused, but described as a request");
    }
}

#[tokio::test]
async fn openrpc_lists_served_namespaces() {
    let fixture = Fixture::with(RpcConfig { namespaces: "rpc,net".parse().unwrap(), ..RpcConfig::default() }).await;
    assert_eq!(fixture.client.result("rpc_modules", json!([])).await, json!({"net": "1.0", "rpc": "1.0"}));
    let document = fixture.client.result("rpc_discover", json!([])).await;
    assert!(described(&document, "net_version").is_some() && described(&document, "eth_chainId").is_none());
}

#[test]
fn schema_patterns_match() {
    let quantity = "^0x(0|[1-9a-f][0-9a-f]*)$";
    assert!(matches_pattern(quantity, "0x0") && matches_pattern(quantity, "0x10"));
    assert!(!matches_pattern(quantity, "0x01") && !matches_pattern(quantity, "0x") && !matches_pattern(quantity, "0xA"));
    assert!(matches_pattern("^0x[0-9a-f]{8}$", "0x00ff00ff") && !matches_pattern("^0x[0-9a-f]{8}$", "0x00ff00f"));
    assert!(matches_pattern("^0x[0-9a-fA-F]{2}$", "0xAf") && !matches_pattern("^0x[0-9a-f]{2}$", "0xAf"));
    assert!(!matches_pattern("^0x(0|[1-9a-f][0-9a-f]{0,1})$", "0x100"));
}

#[tokio::test]
async fn simple_methods_return_expected_values() {
    let fixture = Fixture::start().await;
    examples(&fixture).await;
    let table = [
        ("web3_clientVersion", json!([]), json!("corniche/test")),
        (
            "web3_sha3",
            json!(["0x68656c6c6f20776f726c64"]),
            json!("0x47173285a8d7341e5e972fc677286384f802f8ef42a5ec5f03bbfa254cb01fad"),
        ),
        ("net_version", json!([]), json!("7777")),
        ("net_listening", json!([]), json!(true)),
        ("net_peerCount", json!([]), json!("0x3")),
        ("eth_chainId", json!([]), json!("0x1e61")),
        ("eth_syncing", json!([]), json!(false)),
        ("eth_accounts", json!([]), json!([key().address()])),
        ("eth_blockNumber", json!([]), json!("0x2")),
        ("eth_getBalance", json!([FUNDED]), json!("0x56bc75e2d63100000")),
        ("eth_getBalance", json!(["0x00000000000000000000000000000000000000aa", "latest"]), json!("0x0")),
        ("eth_getTransactionCount", json!([FUNDED, "latest"]), json!("0x3")),
        ("eth_getTransactionCount", json!([FUNDED, "pending"]), json!("0x4")),
        ("eth_getTransactionCount", json!([FUNDED, "earliest"]), json!("0x0")),
        ("eth_getCode", json!([FUNDED]), json!("0x")),
        ("eth_getStorageAt", json!([ECHO, "0x3", "latest"]), json!(format!("0x{}", "55".repeat(32)))),
        ("eth_getStorageAt", json!([ECHO, format!("0x{:064x}", 3)]), json!(format!("0x{}", "55".repeat(32)))),
        ("eth_getStorageAt", json!([ECHO, "0x4"]), json!(format!("0x{}", "00".repeat(32)))),
        ("eth_getBlockTransactionCountByNumber", json!(["0x1"]), json!("0x2")),
        ("eth_getBlockTransactionCountByNumber", json!(["0x9"]), json!(null)),
        ("eth_getUncleCountByBlockNumber", json!(["0x1"]), json!("0x0")),
        ("eth_getUncleCountByBlockNumber", json!(["0x9"]), json!(null)),
        ("eth_uninstallFilter", json!(["0x1234"]), json!(false)),
        // The tips in block 1 are 5,000,000 wei.
        ("eth_maxPriorityFeePerGas", json!([]), json!("0x4c4b40")),
        ("eth_gasPrice", json!([]), json!(format!("{:#x}", 1_125_000_000 + 5_000_000))),
    ];
    for (method, params, expected) in table {
        assert_eq!(fixture.client.result(method, params.clone()).await, expected, "{method}({params})");
    }
}

#[tokio::test]
async fn syncing_reports_progress() {
    let fixture = Fixture::start().await;
    let height = corniche_types::Height;
    *fixture.chain.syncing.lock().unwrap() =
        Some(corniche_rpc::SyncProgress { starting: height(0), current: height(16), highest: height(256) });
    let told = fixture.client.result("eth_syncing", json!([])).await;
    assert_eq!(told, json!({"startingBlock": "0x0", "currentBlock": "0x10", "highestBlock": "0x100"}));
    assert_eq!(fixture.client.http("GET", "/health", &[], b"").await.status, 503);
    *fixture.chain.syncing.lock().unwrap() = None;
    let health = fixture.client.http("GET", "/health", &[], b"").await;
    assert_eq!((health.status, &health.json()["status"]), (200, &json!("ok")));
}

#[tokio::test]
async fn header_hash_matches_alloy() {
    let fixture = Fixture::start().await;
    fixture.chain.mine(&[(transfer(0), vec![log(ECHO, &[1])]), (transfer(1), vec![])]);
    fixture.chain.mine(&[]);
    for number in ["0x0", "0x1", "0x2"] {
        let served = fixture.client.result("eth_getBlockByNumber", json!([number, true])).await;
        let block: alloy_rpc_types_eth::Block = serde_json::from_value(served).unwrap();
        assert_eq!(block.header.inner.hash_slow(), block.header.hash, "block {number}");
        let consensus = block.clone().into_consensus().map_transactions(|transaction| transaction.into_inner());
        if block.header.gas_used > 0 {
            let root = alloy_consensus::proofs::calculate_transaction_root(&consensus.body.transactions);
            assert_eq!(root, block.header.transactions_root);
        }
        let size = alloy_rlp::Encodable::length(&consensus);
        assert_eq!(block.header.size.unwrap(), alloy_primitives::U256::from(size));
    }
    let served = fixture.client.result("eth_getBlockReceipts", json!(["0x1"])).await;
    let receipts: Vec<alloy_rpc_types_eth::TransactionReceipt> = serde_json::from_value(served).unwrap();
    assert_eq!(receipts[1].inner.cumulative_gas_used(), receipts[0].gas_used + receipts[1].gas_used);
}

#[tokio::test]
async fn raw_bytes_match_header_roots() {
    let fixture = Fixture::start().await;
    let block = fixture.chain.mine(&[(transfer(0), vec![log(ECHO, &[1])]), (transfer(1), vec![])]);
    let client = &fixture.client;
    let bytes = async |method: &str, param: Value| -> alloy_primitives::Bytes {
        serde_json::from_value(client.result(method, json!([param])).await).unwrap()
    };
    assert_eq!(alloy_primitives::keccak256(bytes("debug_getRawHeader", json!("0x1")).await), block.hash);
    let whole = bytes("debug_getRawBlock", json!("latest")).await;
    assert_eq!(whole.len() as u64, block.size());
    let decoded: alloy_consensus::Block<alloy_consensus::TxEnvelope> =
        alloy_rlp::Decodable::decode(&mut whole.as_ref()).unwrap();
    assert_eq!((decoded.header.hash_slow(), decoded.body.transactions.len()), (block.hash, 2));
    let hash = block.receipts[0].transaction_hash;
    assert_eq!(bytes("debug_getRawTransaction", json!(hash)).await, transfer(0));
    assert_eq!(bytes("debug_getRawTransaction", json!(alloy_primitives::B256::ZERO)).await.len(), 0);
    let receipts: Vec<alloy_primitives::Bytes> =
        serde_json::from_value(client.result("debug_getRawReceipts", json!(["0x1"])).await).unwrap();
    assert_eq!(alloy_consensus::proofs::ordered_trie_root_encoded(&receipts), block.header.receipts_root);
    assert_eq!(client.error("debug_getRawBlock", json!(["0x9"])).await, (-32000, "header not found".into()));
}

#[tokio::test]
async fn fee_history_blocks_and_rewards() {
    let fixture = Fixture::start().await;
    examples(&fixture).await;
    let history = fixture.client.result("eth_feeHistory", json!(["0x2", "0x1", [0, 50, 100]])).await;
    assert_eq!(history["oldestBlock"], "0x0");
    assert_eq!(history["baseFeePerGas"], json!(["0x3b9aca00", "0x3b9aca00", "0x3b9aca00"]));
    let ratios: Vec<f64> = serde_json::from_value(history["gasUsedRatio"].clone()).unwrap();
    assert!(ratios[0] == 0.0 && (ratios[1] - 44_000.0 / 30_000_000.0).abs() < 1e-12, "{ratios:?}");
    assert_eq!(history["reward"], json!([["0x0", "0x0", "0x0"], ["0x4c4b40", "0x4c4b40", "0x4c4b40"]]));
    // More blocks than exist: starts at the first one.
    let all = fixture.client.result("eth_feeHistory", json!([1000, "latest"])).await;
    assert_eq!(all["gasUsedRatio"].as_array().unwrap().len(), 3);
    // No blocks: only the next base fee.
    let none = fixture.client.result("eth_feeHistory", json!(["0x0", "latest"])).await;
    assert_eq!(none, json!({"oldestBlock": "0x3", "baseFeePerGas": ["0x3b9aca00"], "gasUsedRatio": []}));
    for (params, code) in [
        (json!(["0x2", "0x99"]), -32000),
        (json!(["0x2", "latest", [50, 10]]), -32602),
        (json!(["0x2", "latest", [101]]), -32602),
        (json!(["0x2", "latest", vec![1; 101]]), -32602),
        (json!(["0x2", "latest", "x"]), -32602),
    ] {
        assert_eq!(fixture.client.error("eth_feeHistory", params.clone()).await.0, code, "{params}");
    }
}

#[tokio::test]
async fn corniche_methods_return_expected_values() {
    let fixture = Fixture::start().await;
    examples(&fixture).await;
    let block = fixture.client.result("eth_getBlockByNumber", json!(["0x1", false])).await;
    let ordering = fixture.client.result("corniche_getOrdering", json!([{"blockNumber": "0x1"}])).await;
    let encoded: alloy_primitives::Bytes = serde_json::from_value(ordering["encoded"].clone()).unwrap();
    assert_eq!(json!(alloy_primitives::keccak256(encoded)), block["extraData"]);
    assert_eq!(ordering["encodedTail"], Value::Null);
    // A record with a head and a tail.
    let ordering = fixture.client.result("corniche_getOrdering", json!(["0x2"])).await;
    let bytes = |field: &str| serde_json::from_value::<alloy_primitives::Bytes>(ordering[field].clone()).unwrap();
    let block_2 = fixture.client.result("eth_getBlockByNumber", json!(["0x2", false])).await;
    assert_eq!(json!(alloy_primitives::keccak256(bytes("encoded"))), block_2["extraData"]);
    assert!(bytes("encoded").ends_with(alloy_primitives::keccak256(bytes("encodedTail")).as_slice()));
    assert_eq!(fixture.client.result("corniche_getOrdering", json!(["0x0"])).await, Value::Null);
    let certificate = fixture.client.result("corniche_getCertificate", json!(["0x0"])).await;
    assert_eq!((&certificate["blockNumber"], &certificate["blockHash"]), (&json!("0x1"), &block["hash"]));
    assert_eq!(fixture.client.result("corniche_getCertificate", json!(["latest"])).await, Value::Null);
    let status = |hash: Value| fixture.client.result("corniche_getTransactionStatus", json!([hash]));
    let certified = json!({
        "status": "certified",
        "blockHash": block["hash"],
        "blockNumber": "0x1",
        "receivedMs": format!("{:#x}", 1_700_000_000_456u64),
        "orderedMs": format!("{:#x}", 1_700_000_001_000u64),
    });
    assert_eq!(status(block["transactions"][0].clone()).await, certified, "what is in a block has not left");
    assert_eq!(status(json!(alloy_primitives::B256::ZERO)).await, Value::Null);
    let waiting = status(json!(alloy_primitives::keccak256(transfer(3)))).await;
    assert_eq!(waiting, json!({"status": "pending", "receivedMs": format!("{:#x}", 1_700_000_000_123u64)}));
    let heads = fixture.client.result("corniche_getHeads", json!([])).await;
    assert_eq!((&heads["executed"]["number"], &heads["certified"]["number"]), (&json!("0x2"), &json!("0x1")));
    assert_eq!((&heads["certified"]["hash"], &heads["certified"]["timestampMs"]), (&block["hash"], &json!("0x18bcfe56be8")));
    let validators = fixture.client.result("corniche_getValidators", json!([])).await;
    assert_eq!((&validators["quorum"], &validators["validators"][3]["index"]), (&json!("0x3"), &json!("0x3")));
    assert_eq!(fixture.client.result("corniche_getStatistics", json!([])).await["adopted"], "0x5");
    let execution = |params: Value| fixture.client.result("corniche_getExecution", params);
    let told = execution(json!(["0x1"])).await;
    assert_eq!((&told["threads"], &told["runsAgain"], &told["durationUs"]), (&json!("0x4"), &json!("0x1"), &json!("0xfa")));
    assert_eq!((&told["laneOf"], &told["runsOf"]), (&json!("0x0003"), &json!("0x0102")));
    assert_eq!(told["receivedOf"], "0x0000018bcfe569c80000000000000000");
    assert_eq!(execution(json!([{"blockHash": block["hash"]}])).await, told);
    for other in [json!([]), json!(["0x0"]), json!(["0x99"])] {
        assert_eq!(execution(other).await, Value::Null);
    }
    let peers = fixture.client.result("corniche_getPeers", json!([])).await;
    assert_eq!((&peers["own"]["validator"], peers["own"].get("connectedMs")), (&json!("0x0"), None));
    let third = &peers["peers"][0];
    assert_eq!(third["networkKey"], validators["validators"][3]["networkKey"]);
    assert_eq!(
        (&third["validator"], &third["version"], &third["roundTripUs"]),
        (&json!("0x3"), &json!("corniche/0.1.0"), &json!("0x1a4"))
    );
    let stranger: Vec<_> = peers["peers"][1].as_object().unwrap().keys().collect();
    assert_eq!(stranger, ["connectedMs", "networkKey", "peerId"], "what is not known is left out");
    assert_eq!(fixture.client.error("corniche_getPeers", json!([1])).await.0, -32602);
}
