//! Contents of the pool, and requests that wait for receipts.

use crate::common::{FUNDED, Fixture, transfer};
use alloy_primitives::keccak256;
use corniche_api::{ErrorCode, RpcError};
use corniche_rpc::RpcConfig;
use serde_json::{Value, json};
use std::time::Duration;

fn sender() -> String {
    FUNDED.to_checksum(None)
}

#[tokio::test]
async fn pending_and_queued_are_separated() {
    let fixture = Fixture::start().await;
    let client = &fixture.client;
    let empty = json!({"pending": {}, "queued": {}});
    assert_eq!(client.result("txpool_content", json!([])).await, empty);
    assert_eq!(client.result("txpool_contentFrom", json!([FUNDED])).await, empty);
    for nonce in [0, 1, 10, 3] {
        client.result("eth_sendRawTransaction", json!([transfer(nonce)])).await;
    }
    assert_eq!(client.result("txpool_status", json!([])).await, json!({"pending": "0x2", "queued": "0x2"}));
    let content = client.result("txpool_content", json!([])).await;
    let nonces = |half: &str| content[half][&sender()].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!((nonces("pending"), nonces("queued")), (vec!["0".into(), "1".into()], vec!["10".to_string(), "3".into()]));
    let first = &content["pending"][&sender()]["0"];
    assert_eq!((&first["hash"], &first["blockHash"]), (&json!(keccak256(transfer(0))), &Value::Null));
    let own = client.result("txpool_contentFrom", json!([FUNDED])).await;
    assert_eq!(own, json!({"pending": content["pending"][&sender()], "queued": content["queued"][&sender()]}));
    let lines = client.result("txpool_inspect", json!([])).await;
    assert_eq!(
        lines["pending"][&sender()]["1"],
        "0x2222222222222222222222222222222222222222: 1 wei + 21000 gas × 2000000000 wei"
    );
    // The missing nonce arrives; then a block with three transactions.
    client.result("eth_sendRawTransaction", json!([transfer(2)])).await;
    assert_eq!(client.result("txpool_status", json!([])).await, json!({"pending": "0x4", "queued": "0x1"}));
    fixture.chain.mine(&[(transfer(0), vec![]), (transfer(1), vec![]), (transfer(2), vec![])]);
    assert_eq!(client.result("txpool_status", json!([])).await, json!({"pending": "0x1", "queued": "0x1"}));
}

#[tokio::test]
async fn large_pool_content_is_rejected() {
    let config = RpcConfig { namespaces: "all".parse().unwrap(), max_response_bytes: 3_000, ..RpcConfig::default() };
    let fixture = Fixture::with(config).await;
    for nonce in 0..4 {
        fixture.client.result("eth_sendRawTransaction", json!([transfer(nonce)])).await;
    }
    let (code, message) = fixture.client.error("txpool_content", json!([])).await;
    assert_eq!(code, -32003);
    assert!(
        message.starts_with("response too large: 4 transactions, about ") && message.ends_with("txpool_contentFrom"),
        "{message}"
    );
    assert_eq!(fixture.client.result("txpool_status", json!([])).await["pending"], "0x4");
}

#[tokio::test]
async fn txpool_namespace_is_off_by_default() {
    let fixture = Fixture::with(RpcConfig::default()).await;
    for method in ["txpool_status", "txpool_content", "txpool_inspect"] {
        let (code, message) = fixture.client.error(method, json!([])).await;
        assert_eq!(code, -32601, "{method}");
        assert!(message.contains("does not serve the namespace \"txpool\""), "{message}");
    }
}

#[tokio::test]
async fn send_sync_returns_receipt() {
    let fixture = Fixture::start().await;
    let hash = keccak256(transfer(0));
    let asked = async { fixture.client.result("eth_sendRawTransactionSync", json!([transfer(0), 20_000])).await };
    let mined = async {
        // Blocks with other transactions do not end the wait.
        while fixture.chain.waiting_in_pool() == 0 {
            tokio::task::yield_now().await;
        }
        fixture.chain.mine(&[]);
        fixture.chain.mine(&[(transfer(0), vec![])]);
    };
    let (receipt, ()) = tokio::join!(asked, mined);
    assert_eq!(
        (&receipt["transactionHash"], &receipt["status"], &receipt["blockNumber"]),
        (&json!(hash), &json!("0x1"), &json!("0x2"))
    );
    assert_eq!(receipt, fixture.client.result("eth_getTransactionReceipt", json!([hash])).await);
}

#[tokio::test]
async fn send_sync_timeout_returns_hash() {
    let fixture = Fixture::with(RpcConfig { max_receipt_timeout: Duration::from_millis(3), ..RpcConfig::default() }).await;
    // In either form, too large, or missing: the timeout is at most the node's.
    for (nonce, timeout) in [json!(1), json!("0x1"), json!(60_000), json!(0), Value::Null].into_iter().enumerate() {
        let raw = transfer(nonce as u64);
        let error = fixture.client.call("eth_sendRawTransactionSync", json!([raw, timeout])).await["error"].clone();
        assert_eq!((&error["code"], &error["data"]), (&json!(4), &json!(keccak256(&raw))), "{error}");
        let message = error["message"].as_str().unwrap();
        assert!(message.starts_with("The transaction was added to the mempool but wasn't processed in "), "{message}");
        let waiting = fixture.client.result("eth_getTransactionByHash", json!([keccak256(&raw)])).await;
        assert_eq!(waiting["blockHash"], Value::Null);
    }
    assert_eq!(fixture.client.error("eth_sendRawTransactionSync", json!([transfer(9), "soon"])).await.0, -32602);
    *fixture.chain.refusal.lock().unwrap() = Some(RpcError::new(ErrorCode::Refused, "nonce too low"));
    let refused = fixture.client.error("eth_sendRawTransactionSync", json!([transfer(9)])).await;
    assert_eq!(refused, (-32000, "nonce too low".into()));
}

#[tokio::test]
async fn awaited_receipts_are_limited() {
    let fixture = Fixture::with(RpcConfig { max_awaited_receipts: 1, spare_loopback: true, ..RpcConfig::default() }).await;
    let first = async { fixture.client.call("eth_sendRawTransactionSync", json!([transfer(0), 20_000])).await };
    let others = async {
        while fixture.chain.waiting_in_pool() == 0 {
            tokio::task::yield_now().await;
        }
        let second = fixture.client.error("eth_sendRawTransactionSync", json!([transfer(1)])).await;
        assert_eq!(second, (-32005, "server busy".into()));
        assert_eq!(fixture.chain.waiting_in_pool(), 1, "who is refused has sent nothing");
        fixture.server.stop().await;
    };
    let (first, ()) = tokio::join!(first, others);
    assert_eq!(first["error"]["code"], 4, "{first}");
}
