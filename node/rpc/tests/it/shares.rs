//! Shares of one address. Clients use different loopback addresses, which are limited here.
#![allow(clippy::unwrap_used)] // the lint exempts test functions, but not their helpers

use crate::common::{ECHO, FUNDED, Fixture, transfer};
use corniche_rpc::RpcConfig;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

const UPGRADE: [(&str, &str); 4] = [
    ("upgrade", "websocket"),
    ("sec-websocket-version", "13"),
    ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ("connection", "upgrade"),
];
const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}"#;

/// Request whose head announces `announced` bytes, with only the beginning of its body.
async fn begin(fixture: &Fixture, announced: usize, sent: &[u8]) -> TcpStream {
    let mut stream = fixture.client.connect().await;
    let head =
        format!("POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {announced}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(sent).await.unwrap();
    stream
}

/// Repeats a call from this address until it is refused, or until it succeeds.
async fn until_answered(fixture: &Fixture, from: u8, refused: bool) -> Value {
    for _ in 0..10_000 {
        let answer = fixture.client.at(from).post(CALL).await.json();
        if answer.get("error").is_some() == refused {
            return answer;
        }
        tokio::task::yield_now().await;
    }
    panic!("refused or not, it stays so");
}

#[tokio::test]
async fn announced_bodies_reserve_nothing() {
    let config = RpcConfig { max_request_bytes: 1_000, max_request_bytes_in_flight: 4_000, ..RpcConfig::default() };
    let fixture = Fixture::with(config).await;
    let mut unfinished = Vec::new();
    for _ in 0..40 {
        unfinished.push(begin(&fixture, 1_000, b" ").await);
    }
    for from in [1, 2] {
        assert_eq!(fixture.client.at(from).post(CALL).await.json()["result"], "0x1e61", "127.0.0.{from}");
    }
}

#[tokio::test]
async fn bodies_per_address_are_limited() {
    let config = RpcConfig { max_request_bytes: 1_000, max_request_bytes_in_flight: 4_000, ..RpcConfig::default() };
    let fixture = Fixture::with(config).await;
    let held = begin(&fixture, 1_000, &[b' '; 990]).await;
    let refused = until_answered(&fixture, 1, true).await;
    assert_eq!(refused["error"]["message"], "server busy: 1000 bytes of requests for one address");
    assert_eq!(fixture.client.post(CALL).await.status, 503);
    assert_eq!(fixture.client.at(2).post(CALL).await.json()["result"], "0x1e61");
    drop(held);
    until_answered(&fixture, 1, false).await;
}

#[tokio::test]
async fn messages_in_progress_count_as_bodies() {
    let config = RpcConfig { max_request_bytes: 1_000, max_request_bytes_in_flight: 4_000, ..RpcConfig::default() };
    let fixture = Fixture::with(config).await;
    let held = fixture.chain.hold();
    let mut socket = fixture.client.websocket().await;
    let slow =
        r#"{"jsonrpc":"2.0","id":1,"method":"eth_call","params":[{"to":"0x00000000000000000000000000000000000000ec"},"0x0"]}"#;
    socket.send(&format!("{slow}{}", " ".repeat(990 - slow.len()))).await;
    while fixture.chain.waiting() == 0 {
        tokio::task::yield_now().await;
    }
    socket.send(CALL).await;
    let refused = socket.next().await.unwrap();
    assert_eq!(refused["error"]["message"], "server busy: 1000 bytes of requests for one address");
    let mut other = fixture.client.at(2).websocket().await;
    assert_eq!(other.call("eth_chainId", json!([])).await["result"], "0x1e61");
    drop(held);
    assert_eq!(socket.next().await.unwrap()["result"], "0x");
    socket.send(CALL).await;
    assert_eq!(socket.next().await.unwrap()["result"], "0x1e61");
}

#[tokio::test]
async fn unreadable_body_gets_error() {
    let fixture = Fixture::with(RpcConfig::default()).await;
    let chunked = [("content-type", "application/json"), ("transfer-encoding", "chunked")];
    let answer = fixture.client.http("POST", "/", &chunked, b"zz\r\nxyz").await;
    assert_eq!((answer.status, answer.code()), (400, -32600));
}

#[tokio::test]
async fn websockets_per_address_are_limited() {
    let fixture = Fixture::with(RpcConfig { max_websockets: 8, ..RpcConfig::default() }).await;
    let _first = [fixture.client.websocket().await, fixture.client.websocket().await];
    let refused = fixture.client.http("GET", "/", &UPGRADE, b"").await;
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (503, &json!(-32005)));
    assert_eq!(refused.json()["error"]["message"], "server busy: 2 WebSockets for one address");
    let mut other = fixture.client.at(2).websocket().await;
    assert_eq!(other.call("eth_chainId", json!([])).await["result"], "0x1e61");
}

#[tokio::test]
async fn filters_per_address_are_limited() {
    let fixture = Fixture::with(RpcConfig { max_filters: 8, ..RpcConfig::default() }).await;
    let first = fixture.client.result("eth_newBlockFilter", json!([])).await;
    fixture.client.result("eth_newFilter", json!([{}])).await;
    let refused = (-32005, "too many filters: 2 filters for one address".to_string());
    assert_eq!(fixture.client.error("eth_newPendingTransactionFilter", json!([])).await, refused);
    for from in 2..5 {
        for _ in 0..2 {
            fixture.client.at(from).result("eth_newBlockFilter", json!([])).await;
        }
    }
    assert_eq!(fixture.client.at(5).error("eth_newBlockFilter", json!([])).await.1, "too many filters: 8");
    // A dropped filter frees its place.
    assert_eq!(fixture.client.result("eth_uninstallFilter", json!([first])).await, true);
    fixture.client.result("eth_newBlockFilter", json!([])).await;
}

/// A filter of 1,000 addresses takes a hundred times the memory of a short one.
#[tokio::test]
async fn log_criteria_per_address_are_limited() {
    let limits = RpcConfig { max_log_criteria: 2, max_log_criteria_in_use: 40, ..RpcConfig::default() };
    let fixture = Fixture::with(limits).await;
    let hash = |byte: &str| json!(format!("0x{}", byte.repeat(32)));
    // Five addresses and topics each.
    let filter = json!({"address": [ECHO, FUNDED], "topics": [[hash("01"), hash("02")], null, hash("03")]});
    let refused = |answer: &Value| {
        let message = answer["error"]["message"].as_str();
        message.is_some_and(|message| message.starts_with("too many log criteria: "))
    };
    let first = fixture.client.result("eth_newFilter", json!([filter])).await;
    let mut socket = fixture.client.websocket().await;
    let logs = json!(["logs", filter]);
    let subscription = socket.call("eth_subscribe", logs.clone()).await["result"].clone();
    let short = json!(["logs", {"address": ECHO}]);
    let message = &socket.call("eth_subscribe", short.clone()).await["error"]["message"];
    assert_eq!(message, "too many log criteria: 10 addresses and topics for one address");
    assert!(refused(&socket.call("eth_newFilter", json!([{"topics": [hash("01")]}])).await));
    // Filters without criteria match all logs, and cost nothing more than their places.
    fixture.client.result("eth_newFilter", json!([{}])).await;
    for from in 2..5 {
        for _ in 0..2 {
            fixture.client.at(from).result("eth_newFilter", json!([filter])).await;
        }
    }
    let (code, message) = fixture.client.at(5).error("eth_newFilter", json!([filter])).await;
    assert_eq!((code, message.as_str()), (-32005, "too many log criteria: 40"));
    // Dropped filters, ended subscriptions and closed sockets free theirs.
    assert_eq!(fixture.client.result("eth_uninstallFilter", json!([first])).await, true);
    socket.subscribe(logs.clone()).await;
    assert!(refused(&socket.call("eth_subscribe", short.clone()).await));
    assert_eq!(socket.call("eth_unsubscribe", json!([subscription])).await["result"], true);
    socket.subscribe(logs.clone()).await;
    drop(socket);
    let mut socket = fixture.client.websocket().await;
    while refused(&socket.call("eth_subscribe", logs.clone()).await) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn awaited_receipts_per_address_are_limited() {
    let fixture = Fixture::with(RpcConfig { max_awaited_receipts: 4, ..RpcConfig::default() }).await;
    let first = async { fixture.client.call("eth_sendRawTransactionSync", json!([transfer(0), 20_000])).await };
    let others = async {
        while fixture.chain.waiting_in_pool() == 0 {
            tokio::task::yield_now().await;
        }
        let refused = fixture.client.error("eth_sendRawTransactionSync", json!([transfer(1)])).await;
        assert_eq!(refused, (-32005, "server busy: 1 awaited receipts for one address".into()));
        let other = fixture.client.at(2);
        let sent = async { other.call("eth_sendRawTransactionSync", json!([transfer(1), 20_000])).await };
        let mined = async {
            while fixture.chain.waiting_in_pool() < 2 {
                tokio::task::yield_now().await;
            }
            fixture.chain.mine(&[(transfer(0), vec![]), (transfer(1), vec![])]);
        };
        assert_eq!(tokio::join!(sent, mined).0["result"]["status"], "0x1");
    };
    assert_eq!(tokio::join!(first, others).0["result"]["status"], "0x1");
}

#[tokio::test]
async fn rejected_body_counts_as_request() {
    let config = RpcConfig { requests_per_second: Some(1), max_request_bytes: 100, ..RpcConfig::default() };
    for (body, content_type, refused) in [
        ("{", "application/json", 200),
        ("[]", "application/json", 200),
        (r#"{"jsonrpc":"2.0","method":"eth_chainId"}"#, "application/json", 200),
        (&*" ".repeat(101), "application/json", 413),
        (CALL, "text/plain", 415),
    ] {
        let fixture = Fixture::with(config.clone()).await;
        let mut limited = 0;
        // Independent of the machine's speed: with a burst of five and one per second, all would pass only
        // after a minute.
        for _ in 0..60 {
            let answer = fixture.client.http("POST", "/", &[("content-type", content_type)], body.as_bytes()).await;
            limited += u32::from(answer.status == 429 || answer.body.contains("rate limit exceeded"));
            assert!(answer.status == refused || answer.status == 429, "{answer:?}");
        }
        // A notification gets no response, but the next request does.
        let after = fixture.client.post(CALL).await.json();
        assert!(limited > 0 || body.contains("method"), "{body}");
        assert!(after["error"]["message"].as_str().unwrap().starts_with("rate limit exceeded"), "{body}: {after}");
        assert_eq!(fixture.client.at(2).post(CALL).await.json()["result"], "0x1e61");
    }
}

#[tokio::test]
async fn connection_rate_is_limited() {
    let config = RpcConfig { requests_per_second_per_connection: Some(1), ..RpcConfig::default() };
    let fixture = Fixture::with(config).await;
    let mut socket = fixture.client.websocket().await;
    let mut refused = None;
    for _ in 0..60 {
        let answer = socket.call("eth_chainId", json!([])).await;
        refused = answer["error"]["message"].as_str().map(String::from).or(refused);
    }
    let refused = refused.unwrap();
    assert!(refused.starts_with("rate limit exceeded: 1 requests per second for one connection; try again in "), "{refused}");
    assert_eq!(fixture.client.post(CALL).await.json()["result"], "0x1e61", "another connection has its own");
}
