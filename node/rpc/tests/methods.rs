//! Every method answers, and in the shape Ethereum's own description gives it.
#![allow(clippy::unwrap_used)] // the lint spares test functions, not their helpers

mod common;

use common::{ECHO, FUNDED, Fixture, examples, log, transfer};
use corniche_api::Method;
use serde_json::{Value, json};
use std::path::Path;

#[tokio::test]
async fn every_method_answers_good_requests() {
    let fixture = Fixture::start().await;
    let examples = examples(&fixture).await;
    for (method, params) in &examples {
        fixture.client.result(method.name(), params.clone()).await;
    }
    for method in Method::ALL {
        let covered = examples.iter().any(|(example, _)| example == method);
        let by_websocket = matches!(method, Method::EthSubscribe | Method::EthUnsubscribe);
        assert!(covered || by_websocket, "{method:?} has no example");
    }
}

#[tokio::test]
async fn answers_have_the_shapes_of_ethereums_openrpc_document() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let path = root.join("../shared/data/ethereum-openrpc.json");
    let Ok(text) = std::fs::read_to_string(&path) else {
        eprintln!("SKIPPED: {} is absent, shapes are not compared with it", path.display());
        return;
    };
    let document: Value = serde_json::from_str(&text).unwrap();
    let fixture = Fixture::start().await;
    let mut compared = 0;
    for (method, params) in examples(&fixture).await {
        let methods = document["methods"].as_array().unwrap();
        let Some(described) = methods.iter().find(|described| described["name"] == method.name()) else { continue };
        let result = fixture.client.result(method.name(), params.clone()).await;
        // The document describes transactions of blocks only; one that waits has no block to tell of.
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

/// Compares a value with a JSON schema, as far as the document uses them. A keyword this does not know is a failure.
fn conforms(document: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let Some(schema) = schema.as_object() else { return Ok(()) };
    if let Some(reference) = schema.get("$ref") {
        let path = reference.as_str().unwrap().trim_start_matches('#');
        conforms(document, document.pointer(path).expect("a reference leads somewhere"), value)?;
    }
    let each = |list: &Value| list.as_array().unwrap().iter().map(|one| conforms(document, one, value)).collect::<Vec<_>>();
    for (keyword, wanted) in schema {
        match keyword.as_str() {
            "title" | "description" | "$ref" | "required" | "properties" | "examples" | "default" | "format" => {}
            "type" => {
                let fits = match wanted.as_str().unwrap() {
                    "object" => value.is_object(),
                    "array" => value.is_array(),
                    "string" => value.is_string(),
                    "boolean" => value.is_boolean(),
                    "number" => value.is_number(),
                    "null" => value.is_null(),
                    other => panic!("type {other}"),
                };
                if !fits {
                    return Err(format!("{value} is not of type {wanted}"));
                }
            }
            "pattern" => {
                let text = value.as_str().ok_or("not a string")?;
                if !matches_pattern(wanted.as_str().unwrap(), text) {
                    return Err(format!("{text} does not match {wanted}"));
                }
            }
            "enum" => {
                if !wanted.as_array().unwrap().contains(value) {
                    return Err(format!("{value} is not among {wanted}"));
                }
            }
            "minimum" if value.as_f64() < wanted.as_f64() => return Err(format!("{value} is below {wanted}")),
            "maximum" if value.as_f64() > wanted.as_f64() => return Err(format!("{value} is above {wanted}")),
            "minimum" | "maximum" => {}
            "items" => {
                for item in value.as_array().into_iter().flatten() {
                    conforms(document, wanted, item)?;
                }
            }
            "allOf" => each(wanted).into_iter().collect::<Result<(), _>>()?,
            // Alternatives of this document overlap (an empty array is of every array type): one must fit.
            "oneOf" | "anyOf" => {
                let tried = each(wanted);
                if tried.iter().all(Result::is_err) {
                    return Err(format!("no alternative fits: {tried:?}"));
                }
            }
            "not" => {
                if conforms(document, wanted, value).is_ok() {
                    return Err(format!("{value} must not fit {wanted}"));
                }
            }
            "additionalProperties" => {
                let known = schema.get("properties").and_then(Value::as_object);
                for name in value.as_object().into_iter().flatten().map(|(name, _)| name) {
                    // Predates the document, and older clients insist on it.
                    let tolerated = name == "totalDifficulty";
                    if *wanted == json!(false) && !tolerated && !known.is_some_and(|known| known.contains_key(name)) {
                        return Err(format!("unexpected {name}"));
                    }
                }
            }
            other => panic!("schema keyword {other}"),
        }
    }
    let Some(object) = value.as_object() else { return Ok(()) };
    for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
        if !object.contains_key(name.as_str().unwrap()) {
            return Err(format!("{name} is missing"));
        }
    }
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        if let Some(value) = object.get(name) {
            conforms(document, property, value).map_err(|problem| format!("{name}: {problem}"))?;
        }
    }
    Ok(())
}

/// The few forms of regular expression that the document uses.
fn matches_pattern(pattern: &str, text: &str) -> bool {
    let hex = |digit: char| digit.is_ascii_digit() || ('a'..='f').contains(&digit);
    let quantity = |text: &str| text == "0" || (!text.starts_with('0') && !text.is_empty() && text.chars().all(hex));
    if pattern == "^(0|[1-9][0-9]*)$" {
        return quantity(text) && text.chars().all(|digit| digit.is_ascii_digit());
    }
    let Some(digits) = text.strip_prefix("0x") else { return false };
    let body = pattern.strip_prefix("^0x").and_then(|body| body.strip_suffix('$')).unwrap_or_else(|| panic!("{pattern}"));
    if body.chars().all(hex) {
        return digits == body;
    }
    if let Some(rest) = body.strip_prefix("(0|[1-9a-f][0-9a-f]") {
        let most = match rest.trim_end_matches(')') {
            "*" => usize::MAX,
            range => range.trim_matches(['{', '}']).split_once(',').unwrap().1.parse::<usize>().unwrap() + 1,
        };
        return quantity(digits) && digits.len() <= most;
    }
    let (any_case, count) = match body.strip_prefix("[0-9a-fA-F]") {
        Some(count) => (true, count),
        None => (false, body.strip_prefix("[0-9a-f]").unwrap_or_else(|| panic!("{pattern}"))),
    };
    let (least, most) = match count.trim_matches(['{', '}']) {
        "*" => (0, usize::MAX),
        range => match range.split_once(',') {
            Some((least, most)) => (least.parse().unwrap(), most.parse().unwrap()),
            None => (range.parse().unwrap(), range.parse().unwrap()),
        },
    };
    (least..=most).contains(&digits.len()) && digits.chars().all(|digit| hex(digit) || any_case && digit.is_ascii_hexdigit())
}

#[test]
fn patterns_are_read_rightly() {
    let quantity = "^0x(0|[1-9a-f][0-9a-f]*)$";
    assert!(matches_pattern(quantity, "0x0") && matches_pattern(quantity, "0x10"));
    assert!(!matches_pattern(quantity, "0x01") && !matches_pattern(quantity, "0x") && !matches_pattern(quantity, "0xA"));
    assert!(matches_pattern("^0x[0-9a-f]{8}$", "0x00ff00ff") && !matches_pattern("^0x[0-9a-f]{8}$", "0x00ff00f"));
    assert!(matches_pattern("^0x[0-9a-fA-F]{2}$", "0xAf") && !matches_pattern("^0x[0-9a-f]{2}$", "0xAf"));
    assert!(!matches_pattern("^0x(0|[1-9a-f][0-9a-f]{0,1})$", "0x100"));
}

#[tokio::test]
async fn plain_answers_are_what_they_should_be() {
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
        ("eth_accounts", json!([]), json!([])),
        ("eth_blockNumber", json!([]), json!("0x2")),
        ("eth_getBalance", json!([FUNDED]), json!("0x56bc75e2d63100000")),
        ("eth_getBalance", json!(["0x00000000000000000000000000000000000000aa", "latest"]), json!("0x0")),
        ("eth_getTransactionCount", json!([FUNDED, "latest"]), json!("0x2")),
        ("eth_getTransactionCount", json!([FUNDED, "pending"]), json!("0x3")),
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
        // The tips of block 1 are 5,000,000 wei.
        ("eth_maxPriorityFeePerGas", json!([]), json!("0x4c4b40")),
        ("eth_gasPrice", json!([]), json!(format!("{:#x}", 1_125_000_000 + 5_000_000))),
    ];
    for (method, params, expected) in table {
        assert_eq!(fixture.client.result(method, params.clone()).await, expected, "{method}({params})");
    }
}

#[tokio::test]
async fn catching_up_is_told() {
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
async fn a_header_recomputed_by_alloy_has_the_hash_that_was_served() {
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
async fn fee_history_counts_blocks_and_rewards() {
    let fixture = Fixture::start().await;
    examples(&fixture).await;
    let history = fixture.client.result("eth_feeHistory", json!(["0x2", "0x1", [0, 50, 100]])).await;
    assert_eq!(history["oldestBlock"], "0x0");
    assert_eq!(history["baseFeePerGas"], json!(["0x3b9aca00", "0x3b9aca00", "0x3b9aca00"]));
    let ratios: Vec<f64> = serde_json::from_value(history["gasUsedRatio"].clone()).unwrap();
    assert!(ratios[0] == 0.0 && (ratios[1] - 44_000.0 / 30_000_000.0).abs() < 1e-12, "{ratios:?}");
    assert_eq!(history["reward"], json!([["0x0", "0x0", "0x0"], ["0x4c4b40", "0x4c4b40", "0x4c4b40"]]));
    // More than there is: from the first block on.
    let all = fixture.client.result("eth_feeHistory", json!([1000, "latest"])).await;
    assert_eq!(all["gasUsedRatio"].as_array().unwrap().len(), 3);
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
async fn our_own_methods_tell_order_certificate_and_status() {
    let fixture = Fixture::start().await;
    examples(&fixture).await;
    let block = fixture.client.result("eth_getBlockByNumber", json!(["0x1", false])).await;
    let ordering = fixture.client.result("corniche_getOrdering", json!([{"blockNumber": "0x1"}])).await;
    let encoded: alloy_primitives::Bytes = serde_json::from_value(ordering["encoded"].clone()).unwrap();
    assert_eq!(json!(alloy_primitives::keccak256(encoded)), block["extraData"]);
    assert_eq!(fixture.client.result("corniche_getOrdering", json!(["0x0"])).await, Value::Null);
    let certificate = fixture.client.result("corniche_getCertificate", json!(["0x0"])).await;
    assert_eq!((&certificate["blockNumber"], &certificate["blockHash"]), (&json!("0x1"), &block["hash"]));
    assert_eq!(fixture.client.result("corniche_getCertificate", json!(["latest"])).await, Value::Null);
    let status = |hash: Value| fixture.client.result("corniche_getTransactionStatus", json!([hash]));
    assert_eq!(status(block["transactions"][0].clone()).await["status"], "certified");
    assert_eq!(status(json!(alloy_primitives::B256::ZERO)).await, Value::Null);
}
