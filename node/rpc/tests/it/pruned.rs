//! A node without old blocks: methods that name one of them respond with an error, never as if the block did not exist or were empty.
#![allow(clippy::unwrap_used)] // the lint exempts test functions, but not their helpers

use crate::common::{ECHO, FUNDED, Fixture, RELAY, call, log, relayed, transfer};
use alloy_primitives::{B256, U64};
use serde_json::{Value, json};

const HEAD: u64 = 120;
/// First block of the node that begins with the snapshot of the block below it.
const FIRST: u64 = 100;
const PRUNED: (i64, &str) = (-32000, "block not available: pruned below 100");

/// Chain of [`HEAD`] blocks, each with one transaction that emits logs. Returns the block hashes and the transaction hashes, by height.
async fn fixture() -> (Fixture, Vec<B256>, Vec<B256>) {
    let fixture = Fixture::start().await;
    let genesis = fixture.client.result("eth_getBlockByNumber", json!(["0x0", false])).await;
    let genesis: B256 = serde_json::from_value(genesis["hash"].clone()).unwrap();
    let (mut hashes, mut transactions) = (vec![genesis], vec![B256::ZERO]);
    for nonce in 0..HEAD {
        let block = fixture.chain.execute(&[call(nonce, RELAY, relayed('c', 1, ECHO, b""))]);
        hashes.push(block.hash);
        transactions.push(block.receipts[0].transaction_hash);
    }
    fixture.chain.finalize(HEAD);
    (fixture, hashes, transactions)
}

fn quantity(number: u64) -> String {
    format!("{number:#x}")
}

/// One request for each method that names a block.
fn requests(number: u64, hash: B256) -> Vec<(&'static str, Value)> {
    let block = quantity(number);
    let mut all = vec![
        ("eth_getBlockByNumber", json!([block, false])),
        ("eth_getBlockByNumber", json!([block, true])),
        ("eth_getBlockByHash", json!([hash, true])),
        ("eth_getBlockReceipts", json!([block])),
        ("eth_getBlockReceipts", json!([hash])),
        ("eth_getBlockTransactionCountByNumber", json!([block])),
        ("eth_getBlockTransactionCountByHash", json!([hash])),
        ("eth_getUncleCountByBlockNumber", json!([block])),
        ("eth_getUncleCountByBlockHash", json!([hash])),
        ("eth_getTransactionByBlockNumberAndIndex", json!([block, "0x0"])),
        ("eth_getTransactionByBlockHashAndIndex", json!([hash, "0x0"])),
        ("eth_getRawTransactionByBlockNumberAndIndex", json!([block, "0x0"])),
        ("eth_getRawTransactionByBlockHashAndIndex", json!([hash, "0x0"])),
        ("debug_getRawHeader", json!([block])),
        ("debug_getRawBlock", json!([block])),
        ("debug_getRawReceipts", json!([hash])),
        ("ots_getBlockDetails", json!([number])),
        ("ots_getBlockDetailsByHash", json!([hash])),
        ("ots_getBlockTransactions", json!([number, 0, 25])),
        ("corniche_getOrdering", json!([block])),
        ("corniche_getCertificate", json!([block])),
        ("corniche_getExecution", json!([block])),
        ("eth_feeHistory", json!(["0x1", block, [50.0]])),
        ("eth_getLogs", json!([{"blockHash": hash}])),
        ("eth_getLogs", json!([{"fromBlock": block, "toBlock": block}])),
    ];
    if number > 0 {
        all.push(("debug_traceBlockByNumber", json!([block, {"tracer": "callTracer"}])));
        all.push(("debug_traceBlockByHash", json!([hash, {"tracer": "callTracer"}])));
    }
    all
}

/// Searches that reach a block below [`FIRST`].
fn searches() -> Vec<(&'static str, Value)> {
    vec![
        ("eth_getLogs", json!([{"fromBlock": "0x63", "toBlock": "latest"}])),
        ("eth_getLogs", json!([{"fromBlock": "earliest", "toBlock": "0x1"}])),
        // No log of the chain has this address: the response would be empty on any node.
        ("eth_getLogs", json!([{"fromBlock": "0x1", "toBlock": "0x2", "address": FUNDED}])),
        ("eth_newFilter", json!([{"fromBlock": "earliest"}])),
        ("eth_newFilter", json!([{"fromBlock": "0x63", "toBlock": "0x63"}])),
        ("ots_searchTransactionsBefore", json!([RELAY, FIRST, 25])),
        ("ots_searchTransactionsAfter", json!([RELAY, 0, 25])),
        ("ots_getTransactionBySenderAndNonce", json!([FUNDED, FIRST - 3])),
    ]
}

#[tokio::test]
async fn blocks_below_first_are_refused() {
    let (fixture, hashes, _) = fixture().await;
    let client = &fixture.client;
    for (method, params) in [searches(), requests(50, hashes[50])].concat() {
        let whole = client.call(method, params.clone()).await;
        assert!(whole.get("error").is_none(), "{method} {params}: {whole}");
    }
    fixture.chain.prune_below(FIRST);
    for number in [1, 50, FIRST - 1] {
        for (method, params) in requests(number, hashes[number as usize]) {
            let error = client.error(method, params.clone()).await;
            assert_eq!((error.0, &*error.1), PRUNED, "{method} {params}");
        }
    }
    for (method, params) in searches() {
        let error = client.error(method, params.clone()).await;
        assert_eq!((error.0, &*error.1), PRUNED, "{method} {params}");
    }
}

#[tokio::test]
async fn kept_blocks_are_unchanged() {
    let (fixture, hashes, transactions) = fixture().await;
    let all = |number: u64| {
        let by_number = requests(number, hashes[number as usize]);
        let by_transaction = [
            ("eth_getTransactionByHash", json!([transactions[FIRST as usize]])),
            ("eth_getTransactionReceipt", json!([transactions[FIRST as usize]])),
            ("debug_traceTransaction", json!([transactions[FIRST as usize], {"tracer": "callTracer"}])),
            ("eth_getBlockByNumber", json!(["earliest", false])),
            ("eth_getBlockByNumber", json!(["0x79", false])),
            ("eth_getBlockReceipts", json!(["0xffff"])),
            ("eth_getBlockByHash", json!([B256::repeat_byte(0xdd), false])),
            ("eth_getLogs", json!([{"fromBlock": "0x64", "toBlock": "latest"}])),
            ("eth_getLogs", json!([{"fromBlock": "earliest", "toBlock": "0x0"}])),
            ("eth_getLogs", json!([{"fromBlock": "0x79", "toBlock": "0x80"}])),
            ("ots_searchTransactionsAfter", json!([RELAY, FIRST - 1, 25])),
            ("ots_getTransactionBySenderAndNonce", json!([FUNDED, FIRST])),
        ];
        by_number.into_iter().chain(by_transaction)
    };
    let mut before = Vec::new();
    // The genesis has no fee history of its own on a node without block 1: the response includes the next base fee.
    let wanted = [0, FIRST, HEAD]
        .into_iter()
        .flat_map(all)
        .filter(|request| *request != ("eth_feeHistory", json!(["0x1", "0x0", [50.0]])));
    for (method, params) in wanted.clone() {
        before.push(fixture.client.call(method, params).await["result"].clone());
    }
    fixture.chain.prune_below(FIRST);
    for ((method, params), before) in wanted.zip(before) {
        let (number, genesis) = (params[0].clone(), json!("0x0"));
        if method == "corniche_getCertificate" && number == genesis {
            continue;
        }
        let after = fixture.client.call(method, params.clone()).await;
        assert_eq!((&after["result"], after.get("error")), (&before, None), "{method} {params}");
    }
}

/// Transactions of missing blocks are like unknown ones.
#[tokio::test]
async fn transactions_of_missing_blocks_are_unknown() {
    let (fixture, _, transactions) = fixture().await;
    fixture.chain.prune_below(FIRST);
    let hash = transactions[FIRST as usize - 1];
    for (method, unknown) in [
        ("eth_getTransactionByHash", Value::Null),
        ("eth_getTransactionReceipt", Value::Null),
        ("corniche_getTransactionStatus", Value::Null),
        ("eth_getRawTransactionByHash", json!("0x")),
        ("debug_getRawTransaction", json!("0x")),
    ] {
        assert_eq!(fixture.client.result(method, json!([hash])).await, unknown, "{method}");
    }
    for (method, params) in [
        ("debug_traceTransaction", json!([hash, {"tracer": "callTracer"}])),
        ("ots_getTransactionError", json!([hash])),
        ("ots_traceTransaction", json!([hash])),
        ("ots_getInternalOperations", json!([hash])),
    ] {
        assert_eq!(fixture.client.error(method, params).await, (-32000, "transaction not found".into()), "{method}");
    }
}

#[tokio::test]
async fn fee_history_begins_with_first_block() {
    let (fixture, ..) = fixture().await;
    let history = || fixture.client.result("eth_feeHistory", json!(["0x64", "latest", [50.0]]));
    assert_eq!(history().await["oldestBlock"], "0x15");
    fixture.chain.prune_below(FIRST);
    let shorter = history().await;
    assert_eq!(shorter["oldestBlock"], "0x64");
    let lengths = ["gasUsedRatio", "reward", "baseFeePerGas"].map(|list| shorter[list].as_array().unwrap().len());
    assert_eq!(lengths, [21, 21, 22]);
}

/// A page that is partly filled is returned; the error comes with the next one.
#[tokio::test]
async fn search_stops_at_first_block() {
    let (fixture, ..) = fixture().await;
    fixture.chain.prune_below(FIRST);
    let page = fixture.client.result("ots_searchTransactionsBefore", json!([RELAY, 0, 25])).await;
    assert_eq!((page["txs"].as_array().unwrap().len(), &page["lastPage"]), (21, &json!(false)));
}

/// Blocks that are deleted before a filter reports them are an error once; later blocks follow.
#[tokio::test]
async fn filters_report_missing_blocks() {
    let (fixture, ..) = fixture().await;
    let client = &fixture.client;
    let logs = client.result("eth_newFilter", json!([{"fromBlock": "0x1"}])).await;
    let blocks = client.result("eth_newBlockFilter", json!([])).await;
    for nonce in HEAD..HEAD + 4 {
        fixture.chain.mine(&[(transfer(nonce), vec![log(ECHO, &[1])])]);
    }
    fixture.chain.prune_below(HEAD + 3);
    let pruned = (-32000, "block not available: pruned below 123".to_owned());
    assert_eq!(client.error("eth_getFilterLogs", json!([logs])).await, pruned);
    for filter in [logs, blocks] {
        assert_eq!(client.error("eth_getFilterChanges", json!([filter])).await, pruned);
        let rest = client.result("eth_getFilterChanges", json!([filter])).await;
        assert_eq!(rest.as_array().unwrap().len(), 2, "{rest}");
    }
}

/// The newest block is the snapshot's own: its state exists, but not its transactions.
#[tokio::test]
async fn snapshot_without_later_block() {
    let (fixture, hashes, _) = fixture().await;
    fixture.chain.prune_below(HEAD + 1);
    let client = &fixture.client;
    let pruned = (-32000, "block not available: pruned below 121".to_owned());
    assert_eq!(client.result("eth_blockNumber", json!([])).await, json!(U64::from(HEAD)));
    for (method, params) in [
        requests(HEAD, hashes[HEAD as usize]),
        vec![
            ("eth_getBlockByNumber", json!(["latest", false])),
            ("eth_getBlockByNumber", json!(["finalized", false])),
            ("eth_getLogs", json!([{}])),
            ("corniche_getHeads", json!([])),
        ],
    ]
    .concat()
    {
        assert_eq!(client.error(method, params.clone()).await, pruned, "{method} {params}");
    }
    let relay = json!({"from": FUNDED, "to": RELAY, "input": relayed('c', 0, ECHO, b"hello")});
    for (method, params) in [
        ("eth_getBalance", json!([ECHO, "latest"])),
        ("eth_getProof", json!([ECHO, [], "latest"])),
        ("eth_call", json!([relay, "latest"])),
        ("eth_estimateGas", json!([relay])),
        ("eth_simulateV1", json!([{"blockStateCalls": [{"calls": [relay]}]}, "latest"])),
        ("eth_gasPrice", json!([])),
        ("eth_newFilter", json!([{}])),
        ("eth_newBlockFilter", json!([])),
        ("eth_getBlockByNumber", json!(["earliest", false])),
    ] {
        let served = client.call(method, params.clone()).await;
        assert!(served.get("error").is_none(), "{method} {params}: {served}");
    }
    fixture.chain.mine(&[(transfer(HEAD), vec![])]);
    assert_eq!(client.result("eth_getBlockByNumber", json!(["latest", false])).await["number"], "0x79");
    assert_eq!(client.error("corniche_getHeads", json!([])).await, pruned, "the certified block is still the snapshot's");
    fixture.chain.finalize(HEAD + 1);
    assert_eq!(client.result("corniche_getHeads", json!([])).await["certified"]["number"], "0x79");
}
