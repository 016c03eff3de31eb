//! Log queries and polling filters.

use crate::common::{ECHO, FUNDED, Fixture, log, transfer};
use corniche_rpc::RpcConfig;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use std::time::Duration;

fn topic(byte: u8) -> String {
    format!("0x{}", format!("{byte:02x}").repeat(32))
}

/// Mines three blocks with logs. Block 1: ECHO with topics [1, 2] and [3], FUNDED with topics [1]. Block 2: empty. Block 3:
/// ECHO with topics [1, 9], in the second transaction.
fn mine(fixture: &Fixture) {
    fixture.chain.mine(&[(transfer(0), vec![log(ECHO, &[1, 2]), log(ECHO, &[3])]), (transfer(1), vec![log(FUNDED, &[1])])]);
    fixture.chain.mine(&[]);
    fixture.chain.mine(&[(transfer(2), vec![]), (transfer(3), vec![log(ECHO, &[1, 9])])]);
}

#[tokio::test]
async fn logs_match_address_topics_range() {
    let fixture = Fixture::start().await;
    mine(&fixture);
    let all = json!({"fromBlock": "0x0", "toBlock": "latest"});
    let with = |more: Value| {
        let mut filter = all.clone();
        filter.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        filter
    };
    let first = fixture.client.result("eth_getBlockByNumber", json!(["0x1", false])).await["hash"].clone();
    let table = [
        (all.clone(), 4),
        (json!({}), 1),
        (json!({"fromBlock": "0x1", "toBlock": "0x2"}), 3),
        (json!({"fromBlock": "0x2", "toBlock": "0x2"}), 0),
        (json!({"fromBlock": "0x3"}), 1),
        (json!({"fromBlock": "0x3", "toBlock": "0xffffff"}), 1),
        (json!({"fromBlock": "0xfffffe", "toBlock": "0xffffff"}), 0),
        (json!({"fromBlock": "earliest", "toBlock": "pending"}), 4),
        (json!({"fromBlock": "earliest", "toBlock": "finalized"}), 0),
        (json!({"blockHash": first}), 3),
        (with(json!({"address": ECHO})), 3),
        (with(json!({"address": [ECHO, FUNDED]})), 4),
        (with(json!({"address": []})), 4),
        (with(json!({"topics": [topic(1)]})), 3),
        (with(json!({"topics": [[topic(1), topic(3)]]})), 4),
        (with(json!({"topics": [null, topic(9)]})), 1),
        (with(json!({"topics": [topic(1), [topic(2), topic(9)]]})), 2),
        (with(json!({"topics": [topic(2)]})), 0),
        (with(json!({"topics": [], "address": null})), 4),
        (with(json!({"address": FUNDED, "topics": [topic(3)]})), 0),
    ];
    for (filter, expected) in table {
        let found = fixture.client.result("eth_getLogs", json!([filter])).await;
        assert_eq!(found.as_array().unwrap().len(), expected, "{filter}: {found}");
    }
    let found = fixture.client.result("eth_getLogs", json!([all])).await;
    let places: Vec<_> =
        found.as_array().unwrap().iter().map(|log| (&log["blockNumber"], &log["logIndex"], &log["transactionIndex"])).collect();
    let place = |block: &str, log: &str, transaction: &str| (json!(block), json!(log), json!(transaction));
    let expected =
        [place("0x1", "0x0", "0x0"), place("0x1", "0x1", "0x0"), place("0x1", "0x2", "0x1"), place("0x3", "0x0", "0x1")];
    assert_eq!(places, expected.iter().map(|(block, log, tx)| (block, log, tx)).collect::<Vec<_>>());
    assert!(found.as_array().unwrap().iter().all(|log| log["removed"] == false));
    // Receipts contain the same logs.
    let receipts = fixture.client.result("eth_getBlockReceipts", json!(["0x1"])).await;
    let in_receipts: Vec<_> =
        receipts.as_array().unwrap().iter().flat_map(|receipt| receipt["logs"].as_array().unwrap().clone()).collect();
    assert_eq!(in_receipts, found.as_array().unwrap()[..3]);
}

#[tokio::test]
async fn log_queries_above_limits_fail() {
    let config = RpcConfig { max_log_span: Duration::from_secs(2), max_logs: 3, max_log_criteria: 2, ..RpcConfig::default() };
    let fixture = Fixture::with(config).await;
    mine(&fixture);
    let many: Vec<_> = (0..3).map(topic).collect();
    let hash = topic(7);
    let table = [
        (json!({"fromBlock": "0x0"}), -32602, "exceed maximum block range: 2 seconds"),
        (json!({"fromBlock": "0x0", "toBlock": "0xffffffffffffffff"}), -32602, "exceed maximum block range: 2 seconds"),
        (json!({"fromBlock": "0x3", "toBlock": "0x1"}), -32602, "invalid block range params"),
        (json!({"fromBlock": "0x1", "toBlock": "0x3"}), -32005, "query returned more than 3 results"),
        (json!({"topics": [many]}), -32602, "exceed max topics: 2"),
        (json!({"address": [ECHO, FUNDED, "0x00000000000000000000000000000000000000aa"]}), -32602, "exceed max addresses: 2"),
        (json!({"blockHash": hash}), -32000, "unknown block"),
        (json!({"blockHash": hash, "fromBlock": "0x1"}), -32602, "invalid argument 0: "),
        (json!({"topics": [null, null, null, null, null]}), -32602, "invalid argument 0: "),
    ];
    for (filter, code, phrase) in table {
        let error = fixture.client.error("eth_getLogs", json!([filter])).await;
        assert_eq!(error.0, code, "{filter}: {error:?}");
        assert!(error.1.starts_with(phrase), "{filter}: {error:?}");
    }
    assert_eq!(
        fixture.client.result("eth_getLogs", json!([{"fromBlock": "0x2", "toBlock": "0x3"}])).await.as_array().unwrap().len(),
        1
    );
}

#[tokio::test]
async fn filter_reports_each_item_once() {
    let fixture = Fixture::start().await;
    let client = fixture.client;
    fixture.chain.mine(&[(transfer(0), vec![log(ECHO, &[1])])]);
    let blocks = client.result("eth_newBlockFilter", json!([])).await;
    let logs = client.result("eth_newFilter", json!([{"topics": [topic(1)]}])).await;
    let pending = client.result("eth_newPendingTransactionFilter", json!([])).await;
    let full = client.result("eth_newPendingTransactionFilter", json!([true])).await;
    let changes = async |filter: &Value| client.result("eth_getFilterChanges", json!([filter])).await;
    for filter in [&blocks, &logs, &pending] {
        assert_eq!(changes(filter).await, json!([]));
    }
    let sent = client.result("eth_sendRawTransaction", json!([transfer(1)])).await;
    // Pool events use a separate channel, so the transaction may appear a little later.
    let mut seen = changes(&pending).await;
    while seen == json!([]) {
        seen = changes(&pending).await;
    }
    assert_eq!(seen, json!([sent]));
    assert_eq!(changes(&pending).await, json!([]));
    assert_eq!(changes(&full).await[0]["hash"], sent);
    let second = fixture.chain.mine(&[(transfer(1), vec![log(ECHO, &[1]), log(ECHO, &[2])])]);
    let third = fixture.chain.mine(&[]);
    assert_eq!(changes(&blocks).await, json!([second.hash, third.hash]));
    assert_eq!(changes(&blocks).await, json!([]));
    let found = changes(&logs).await;
    assert_eq!((found.as_array().unwrap().len(), &found[0]["blockNumber"]), (1, &json!("0x2")));
    assert_eq!(changes(&logs).await, json!([]));
    // Covers the filter's own range (here the head block, which has no logs), whatever was reported before.
    assert_eq!(client.result("eth_getFilterLogs", json!([logs])).await, json!([]));
    assert_eq!(client.error("eth_getFilterLogs", json!([blocks])).await, (-32000, "filter not found".into()));
    assert_eq!(client.result("eth_uninstallFilter", json!([blocks])).await, true);
    assert_eq!(client.result("eth_uninstallFilter", json!([blocks])).await, false);
    assert_eq!(client.error("eth_getFilterChanges", json!([blocks])).await, (-32000, "filter not found".into()));
}

#[tokio::test]
async fn filters_expire_and_are_limited() {
    let fixture = Fixture::with(RpcConfig { max_filters: 2, spare_loopback: true, ..RpcConfig::default() }).await;
    let client = fixture.client;
    let first = client.result("eth_newBlockFilter", json!([])).await;
    client.result("eth_newBlockFilter", json!([])).await;
    assert_eq!(client.error("eth_newBlockFilter", json!([])).await.0, -32005);
    fixture.now.store(301_000, Ordering::Relaxed);
    assert_eq!(client.error("eth_getFilterChanges", json!([first])).await.1, "filter not found");
    client.result("eth_newBlockFilter", json!([])).await;
}

#[tokio::test]
async fn lagging_filter_catches_up_in_pages() {
    let fixture = Fixture::with(RpcConfig { max_log_blocks: 2, max_logs: 2, ..RpcConfig::default() }).await;
    let filter = fixture.client.result("eth_newFilter", json!([{}])).await;
    for nonce in 0..7 {
        fixture.chain.mine(&[(transfer(nonce), vec![log(ECHO, &[1]), log(ECHO, &[2]), log(ECHO, &[3])])]);
    }
    let mut seen = Vec::new();
    loop {
        let more = fixture.client.result("eth_getFilterChanges", json!([filter])).await;
        if more == json!([]) {
            break;
        }
        seen.extend(more.as_array().unwrap().iter().map(|log| (log["blockNumber"].clone(), log["logIndex"].clone())));
    }
    let expected: Vec<_> =
        (1..=7).flat_map(|block| (0..3).map(move |log| (json!(format!("{block:#x}")), json!(format!("{log:#x}"))))).collect();
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn filter_changes_fit_response_limit() {
    let config = RpcConfig { max_response_bytes: 20_000, ..RpcConfig::default() };
    let fixture = Fixture::with(config).await;
    let filter = fixture.client.result("eth_newFilter", json!([{}])).await;
    let large = |bytes: usize| corniche_types::Log { data: vec![7; bytes].into(), ..log(ECHO, &[1]) };
    for (nonce, logs) in
        [vec![large(4_000); 2], vec![large(4_000)], vec![large(5_000); 2], vec![large(100)]].into_iter().enumerate()
    {
        fixture.chain.mine(&[(transfer(nonce as u64), logs)]);
    }
    let changes = async || fixture.client.call("eth_getFilterChanges", json!([filter])).await;
    let blocks = |answer: Value| {
        let logs = answer["result"].as_array().unwrap_or_else(|| panic!("{answer}")).clone();
        logs.iter().map(|log| log["blockNumber"].as_str().unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(blocks(changes().await), ["0x1", "0x1"]);
    assert_eq!(blocks(changes().await), ["0x2"]);
    let error = changes().await["error"].clone();
    let message = "response too large: logs of block 0x3, about 21400 bytes of at most 20000, are omitted";
    assert_eq!((&error["code"], &error["message"]), (&json!(-32003), &json!(message)));
    assert_eq!(blocks(changes().await), ["0x4"]);
    assert_eq!(blocks(changes().await), [""; 0]);

    let small = Fixture::with(RpcConfig { max_response_bytes: 3_000, ..RpcConfig::default() }).await;
    let pending = small.client.result("eth_newPendingTransactionFilter", json!([true])).await;
    for nonce in 0..7 {
        small.client.result("eth_sendRawTransaction", json!([transfer(nonce)])).await;
    }
    let mut nonces = Vec::new();
    loop {
        let more = small.client.result("eth_getFilterChanges", json!([pending])).await;
        let more = more.as_array().unwrap();
        if more.is_empty() {
            break;
        }
        assert!(more.len() < 7, "not all at once");
        nonces.extend(more.iter().map(|transaction| transaction["nonce"].as_str().unwrap().to_string()));
    }
    assert_eq!(nonces, ["0x0", "0x1", "0x2", "0x3", "0x4", "0x5", "0x6"]);
}
