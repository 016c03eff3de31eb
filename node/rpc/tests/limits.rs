//! Limits on clients, and the errors when they are exceeded.
#![allow(clippy::unwrap_used)] // the lint exempts test functions, but not their helpers

mod common;

use common::{ECHO, Fixture, log, transfer};
use corniche_rpc::RpcConfig;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const JSON: (&str, &str) = ("content-type", "application/json");
const CHAIN_ID: &str = r#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}"#;

#[tokio::test]
async fn unknown_host_is_rejected() {
    let fixture = Fixture::start().await;
    let status = async |fixture: &Fixture, host: &str| {
        let post = fixture.client.http("POST", "/", &[JSON, ("host", host)], CHAIN_ID.as_bytes()).await.status;
        let upgrade = [
            ("host", host),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("connection", "upgrade"),
        ];
        let socket = fixture.client.http("GET", "/", &upgrade, b"").await.status;
        assert_eq!(post == 403, socket == 403, "{host}: by HTTP {post}, by WebSocket {socket}");
        post
    };
    for good in ["localhost", "LocalHost:8545", "127.0.0.1", "192.0.2.7:8545", "[::1]:8545", "[2001:db8::1]"] {
        assert_eq!(status(&fixture, good).await, 200, "{good}");
    }
    for bad in ["evil.example", "evil.example:8545", "localhost.evil.example", "127.0.0.1.evil.example", "x"] {
        assert_eq!(status(&fixture, bad).await, 403, "{bad}");
    }
    let refused = fixture.client.http("POST", "/", &[JSON, ("host", "evil.example")], CHAIN_ID.as_bytes()).await;
    assert_eq!(refused.body, "invalid host specified\n");
    // Health probes use any host name.
    assert_eq!(fixture.client.http("GET", "/health", &[("host", "pod-7.cluster")], b"").await.status, 200);

    let named = Fixture::with(RpcConfig { hosts: Some(vec!["rpc.example".into()]), ..RpcConfig::default() }).await;
    assert_eq!(status(&named, "rpc.example:443").await, 200);
    assert_eq!(status(&named, "localhost").await, 403);
    let open = Fixture::with(RpcConfig { hosts: None, ..RpcConfig::default() }).await;
    assert_eq!(status(&open, "evil.example").await, 200);
}

/// Checking a transaction takes 35 µs on a thread that also carries peers' messages, and a batch has up to 1,000.
#[tokio::test]
async fn batches_yield_after_each_transaction() {
    let fixture = Fixture::start().await;
    for method in ["eth_sendRawTransaction", "eth_sendRawTransactionSync"] {
        let turn = Arc::new(AtomicU64::new(0));
        let other_task = tokio::spawn({
            let turn = turn.clone();
            async move {
                loop {
                    turn.fetch_add(1, Ordering::Relaxed);
                    tokio::task::yield_now().await;
                }
            }
        });
        let (sender, turns) = std::sync::mpsc::channel();
        *fixture.chain.on_submit.lock().unwrap() = Some(Box::new(move || sender.send(turn.load(Ordering::Relaxed)).unwrap()));
        // Refused at once, so there is nothing else to wait for.
        let malformed = |id: u64| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": ["0xc0"]});
        let answers = fixture.client.post(json!((0..100).map(malformed).collect::<Vec<_>>()).to_string()).await.json();
        assert_eq!(answers.as_array().unwrap().len(), 100);
        other_task.abort();
        *fixture.chain.on_submit.lock().unwrap() = None;
        let mut turns: Vec<u64> = turns.iter().collect();
        assert_eq!(turns.len(), 100);
        turns.dedup();
        // The runtime swaps two tasks that yield, so two submissions may follow each other.
        assert!(turns.len() >= 100 / 3, "{method}: other tasks have turns in between: {turns:?}");
    }
}

#[tokio::test]
async fn batch_elements_count_for_rate() {
    let config = RpcConfig { requests_per_second: Some(1), ..RpcConfig::default() };
    let fixture = Fixture::with(config).await;
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": "eth_chainId"});
    let submission =
        |nonce| json!({"jsonrpc": "2.0", "id": nonce, "method": "eth_sendRawTransaction", "params": [transfer(nonce)]});
    let mut batch = vec![call; 40];
    batch.extend((0..20).map(submission));
    let answers = fixture.client.post(json!(batch).to_string()).await.json();
    let answers = answers.as_array().unwrap();
    assert_eq!(answers.len(), 60, "every one is answered");
    let refused: Vec<&Value> = answers.iter().filter(|answer| answer["error"]["code"] == -32005).collect();
    // Independent of the machine's speed: all of them would pass only after a minute.
    assert!(!refused.is_empty() && refused.len() <= 55, "a burst of five passes: {} refused", refused.len());
    assert!(answers[0].get("result").is_some(), "who comes first is served");
    let message = refused[0]["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("rate limit exceeded: 1 requests per second for one address; try again in "), "{message}");
    let metrics = fixture.metrics().await;
    assert!(metrics.contains("code=\"-32005\""), "{metrics}");
}

/// Call through a proxy at 127.0.0.1 on behalf of `client`.
async fn by_proxy(fixture: &Fixture, client: &str) -> Value {
    let headers = [("content-type", "application/json"), ("x-forwarded-for", client)];
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_chainId"}).to_string();
    fixture.client.http("POST", "/", &headers, call.as_bytes()).await.json()
}

/// A burst is five requests. On any machine, a hundred would pass only after 95 s.
async fn is_limited(fixture: &Fixture, client: &str) -> bool {
    for _ in 0..100 {
        if by_proxy(fixture, client).await["error"]["code"] == -32005 {
            return true;
        }
    }
    false
}

#[tokio::test]
async fn proxied_clients_have_own_limits() {
    for spare_loopback in [false, true] {
        let config = RpcConfig {
            requests_per_second: Some(1),
            requests_per_second_per_connection: Some(1),
            max_connections_per_address: 1,
            spare_loopback,
            trusted_proxies: vec!["127.0.0.1".parse().unwrap()],
            ..RpcConfig::default()
        };
        let fixture = Fixture::with(config).await;
        assert!(is_limited(&fixture, "203.0.113.1").await);
        assert!(is_limited(&fixture, "127.0.0.1, 203.0.113.1").await, "a client's own claim helps nobody");
        assert!(by_proxy(&fixture, "203.0.113.2").await.get("result").is_some(), "another client");
        let _held = [fixture.client.connect().await, fixture.client.connect().await];
        assert!(by_proxy(&fixture, "203.0.113.3").await.get("result").is_some(), "a proxy connects for many");
        // Only the proxy's own requests count as loopback.
        assert_eq!(is_limited(&fixture, "").await, !spare_loopback);
    }
}

#[tokio::test]
async fn untrusted_forwarded_header_is_ignored() {
    let config = RpcConfig {
        requests_per_second: Some(1),
        trusted_proxies: vec!["192.0.2.0/24".parse().unwrap()],
        ..RpcConfig::default()
    };
    let fixture = Fixture::with(config).await;
    let mut refused = false;
    for number in 0..100 {
        refused |= by_proxy(&fixture, &format!("203.0.113.{number}")).await["error"]["code"] == -32005;
    }
    assert!(refused);
}

#[tokio::test]
async fn metrics_are_not_public() {
    let fixture = Fixture::start().await;
    assert_eq!(fixture.client.http("GET", "/metrics", &[], b"").await.status, 404);
    let metrics = common::Client::new(fixture.server.metrics_address().unwrap());
    assert_eq!(metrics.http("GET", "/metrics", &[], b"").await.status, 200);
    for (method, path) in [("GET", "/"), ("POST", "/"), ("GET", "/health"), ("POST", "/metrics")] {
        assert!(metrics.http(method, path, &[], b"").await.status >= 404, "{method} {path}");
    }
}

#[tokio::test]
async fn connections_per_address_are_limited() {
    let fixture = Fixture::with(RpcConfig { max_connections_per_address: 2, ..RpcConfig::default() }).await;
    let mut first = fixture.client.websocket().await;
    let second = fixture.client.websocket().await;
    let mut surplus = fixture.client.connect().await;
    use tokio::io::AsyncReadExt;
    assert_eq!(surplus.read(&mut [0; 1]).await.unwrap_or(0), 0, "closed without a word");
    assert_eq!(first.call("eth_chainId", json!([])).await["result"], "0x1e61");
    // A freed place is available to the next connection.
    drop(second);
    loop {
        let mut again = fixture.client.connect().await;
        use tokio::io::AsyncWriteExt;
        let _ = again.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await;
        if again.read(&mut [0; 1]).await.unwrap_or(0) > 0 {
            break;
        }
    }
}

#[tokio::test]
async fn log_range_error_suggests_range() {
    let config = RpcConfig { max_log_span: Duration::from_secs(3), ..RpcConfig::default() };
    let fixture = Fixture::with(config).await;
    // One block per second.
    for nonce in 0..8 {
        fixture.chain.mine(&[(transfer(nonce), vec![log(ECHO, &[1])])]);
    }
    let query = |from: &str, to: &str| json!([{"fromBlock": from, "toBlock": to}]);
    assert_eq!(fixture.client.result("eth_getLogs", query("0x2", "0x5")).await.as_array().unwrap().len(), 4);
    let (code, message) = fixture.client.error("eth_getLogs", query("0x2", "0x6")).await;
    assert_eq!(code, -32602);
    let advice = "this block range should work: [0x2, 0x5]";
    assert_eq!(message, format!("exceed maximum block range: 3 seconds from the first block to the last; {advice}"));
    assert_eq!(
        fixture.client.error("eth_getLogs", query("0x1", "0xffffffffff")).await.1.split(": ").last(),
        Some("[0x1, 0x4]")
    );
    // A query without time: on a quiet chain few blocks span a long time, so the deadline bounds the work.
    let hurried = Fixture::with(RpcConfig { max_log_time: Duration::ZERO, ..RpcConfig::default() }).await;
    for nonce in 0..70 {
        hurried.chain.mine(&[(transfer(nonce), vec![])]);
    }
    let (code, message) = hurried.client.error("eth_getLogs", query("0x1", "latest")).await;
    assert_eq!(code, -32005);
    assert_eq!(message, "query exceeds maximum time: 0ns, blocks 0x1 to 0x3f searched; ask for fewer blocks");
    assert_eq!(hurried.client.result("eth_getLogs", query("0x1", "0x30")).await, json!([]));
}

#[tokio::test]
async fn slow_subscriber_gets_close_reason() {
    let config = RpcConfig { max_blocks_behind: 20, max_pending_behind: 2, ..RpcConfig::default() };
    let fixture = Fixture::with(config).await;
    let mut socket = fixture.client.websocket().await;
    let heads = socket.subscribe(json!(["newHeads"])).await;
    let mut quick = fixture.client.websocket().await;
    for nonce in 0..20 {
        fixture.chain.add(&[(transfer(nonce), vec![])]);
    }
    fixture.chain.announce_head();
    for number in 1..=20 {
        assert_eq!(socket.notification(&heads).await["number"], format!("{number:#x}"));
    }
    for nonce in 20..41 {
        fixture.chain.add(&[(transfer(nonce), vec![])]);
    }
    fixture.chain.announce_head();
    assert_eq!(socket.close_reason().await, Some((1008, "too slow: 21 blocks behind".into())));

    // Other connections continue.
    let pending = quick.subscribe(json!(["newPendingTransactions"])).await;
    let hash = fixture.client.result("eth_sendRawTransaction", json!([transfer(41)])).await;
    assert_eq!(quick.notification(&pending).await, hash);
    // Many at once, while the connection does not run.
    for nonce in 42..62 {
        fixture.chain.pend(transfer(nonce));
    }
    let (code, reason) = quick.close_reason().await.unwrap();
    assert!(code == 1008 && reason.starts_with("too slow: missed ") && reason.ends_with(" pending transactions"), "{reason}");
    let metrics = fixture.metrics().await;
    assert!(metrics.contains("corniche_rpc_slow_subscribers_total 2\n"), "{metrics}");
}

#[tokio::test]
async fn silent_reader_is_disconnected() {
    let config = RpcConfig { idle_timeout: Duration::from_millis(300), ..RpcConfig::default() };
    let fixture = Fixture::with(config).await;
    let mut stalled = fixture.client.websocket().await;
    stalled.subscribe(json!(["newHeads"])).await;
    stalled.subscribe(json!(["logs", {}])).await;
    // Exceeds the kernel's buffers on both sides.
    let large = corniche_types::Log { data: vec![7; 200_000].into(), ..log(ECHO, &[1]) };
    for nonce in 0..60 {
        fixture.chain.mine(&[(transfer(nonce), vec![large.clone()])]);
    }
    loop {
        let metrics = fixture.metrics().await;
        if metrics.contains("corniche_rpc_websockets 0\n") {
            assert!(metrics.contains("corniche_rpc_slow_subscribers_total 1\n"), "{metrics}");
            break;
        }
    }
    assert_eq!(fixture.client.result("eth_blockNumber", json!([])).await, "0x3c");
}

/// Bytes that a log with this much data is counted as.
const fn log_json(data: usize) -> usize {
    700 + 2 * data
}

fn large_log(data: usize) -> corniche_types::Log {
    corniche_types::Log { data: vec![7; data].into(), ..log(ECHO, &[1]) }
}

/// All notifications of the block at once would need twelve times the memory budget.
#[tokio::test]
async fn large_notifications_are_sent_serially() {
    const DATA: usize = 100_000;
    let config = RpcConfig { max_response_bytes_in_flight: log_json(DATA), ..RpcConfig::default() };
    let fixture = Fixture::with(config).await;
    let mut socket = fixture.client.websocket().await;
    let mut subscriptions = Vec::new();
    for _ in 0..4 {
        subscriptions.push(socket.subscribe(json!(["logs", {}])).await);
    }
    fixture.chain.mine(&[(transfer(0), vec![large_log(DATA); 3])]);
    let mut told = std::collections::BTreeMap::<String, Vec<Value>>::new();
    for _ in 0..12 {
        let message = socket.next().await.unwrap();
        let (name, log) = (&message["params"]["subscription"], &message["params"]["result"]);
        told.entry(name.as_str().unwrap().into()).or_default().push(log["logIndex"].clone());
    }
    assert!(subscriptions.iter().all(|name| told[name] == ["0x0", "0x1", "0x2"].map(Value::from)), "{told:?}");
}

#[tokio::test]
async fn slow_reader_memory_is_released() {
    // Exceeds the kernel's buffers on both sides.
    const DATA: usize = 16_000_000;
    let config = RpcConfig {
        max_response_bytes_in_flight: log_json(DATA) + 50_000,
        spare_loopback: true,
        idle_timeout: Duration::from_secs(20),
        ..RpcConfig::default()
    };
    let fixture = Fixture::with(config).await;
    let mut stalled = fixture.client.websocket().await;
    stalled.subscribe(json!(["logs", {}])).await;
    let mut waiting = fixture.client.websocket().await;
    let name = waiting.subscribe(json!(["logs", {}])).await;
    let many: Vec<_> = (1..301).map(|nonce| (transfer(nonce), vec![])).collect();
    fixture.chain.mine(&many);
    fixture.chain.mine(&[(transfer(0), vec![large_log(DATA)])]);
    let block = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_getBlockByNumber", "params": ["0x1", true]}).to_string();
    // A large response does not fit beside it.
    while fixture.client.post(&block).await.json().get("error").is_none() {
        let metrics = fixture.metrics().await;
        assert!(metrics.contains("corniche_rpc_websockets 2\n"), "it was dropped before it counted");
    }
    drop(stalled);
    assert_eq!(waiting.notification(&name).await["data"].as_str().unwrap().len(), 2 + 2 * DATA, "who waits has its turn");
    while fixture.client.post(&block).await.json().get("error").is_some() {
        tokio::task::yield_now().await;
    }
}

/// Three messages of 60,000 bytes, with memory for two.
#[tokio::test]
async fn slow_messages_use_shared_budget() {
    let config = RpcConfig {
        max_request_bytes_in_flight: 130_000,
        max_request_bytes: 60_000,
        spare_loopback: true,
        ..RpcConfig::default()
    };
    let fixture = Fixture::with(config).await;
    let padded = |id: u8, bytes: usize| {
        let head = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"eth_chainId","params":["#);
        format!("{head}{}]}}", " ".repeat(bytes - head.len() - 2))
    };
    let mut slow = [fixture.client.websocket().await, fixture.client.websocket().await];
    let [most, last] = common::WebSocket::cut(&padded(1, 60_000), 59_999);
    for socket in &mut slow {
        socket.send_raw(&most).await;
    }
    // Bytes that were read already count; bytes that the node has not read yet do not.
    while fixture.client.post(padded(2, 20_000)).await.status == 200 {}
    let refused = fixture.client.post(padded(2, 20_000)).await;
    assert_eq!((refused.status, refused.code()), (503, -32005));
    let mut third = fixture.client.websocket().await;
    third.send(&padded(3, 20_000)).await;
    let answer = third.next().await.unwrap();
    assert_eq!((&answer["error"]["code"], &answer["error"]["message"]), (&json!(-32005), &json!("server busy")));
    assert_eq!(third.call("eth_chainId", json!([])).await["result"], "0x1e61", "small ones have room");
    for socket in &mut slow {
        socket.send_raw(&last).await;
        assert_eq!(socket.next().await.unwrap()["result"], "0x1e61");
    }
    third.send(&padded(3, 60_000)).await;
    assert_eq!(third.next().await.unwrap()["result"], "0x1e61");
}

#[tokio::test]
async fn endless_message_closes_connection() {
    let config =
        RpcConfig { idle_timeout: Duration::from_secs(3), body_timeout: Duration::from_millis(1), ..RpcConfig::default() };
    let fixture = Fixture::with(config).await;
    let mut socket = fixture.client.websocket().await;
    let [begun, _] = common::WebSocket::cut(CHAIN_ID, 20);
    socket.send_raw(&begun).await;
    assert_eq!(socket.close_reason().await, Some((1008, "too slow: a message that takes longer than 1ms".into())));
}

#[tokio::test]
async fn notified_bytes_per_block_are_limited() {
    const DATA: usize = 10_000;
    let config = RpcConfig { max_notified_bytes: 4 * log_json(DATA), ..RpcConfig::default() };
    let fixture = Fixture::with(config).await;
    let mut greedy = fixture.client.websocket().await;
    let mut modest = fixture.client.websocket().await;
    for _ in 0..3 {
        greedy.subscribe(json!(["logs", {}])).await;
    }
    let name = modest.subscribe(json!(["logs", {}])).await;
    for nonce in 0..2 {
        fixture.chain.mine(&[(transfer(nonce), vec![large_log(DATA); 2])]);
    }
    let reason = format!("too slow: a block has more than {} bytes of notifications", 4 * log_json(DATA));
    assert_eq!(greedy.close_reason().await, Some((1008, reason)));
    for block in ["0x1", "0x1", "0x2", "0x2"] {
        assert_eq!(modest.notification(&name).await["blockNumber"], block);
    }
}

#[tokio::test]
async fn stop_finishes_requests_and_closes() {
    let fixture = Fixture::start().await;
    let mut socket = fixture.client.websocket().await;
    let held = fixture.chain.hold();
    let chain = fixture.chain.clone();
    let asked = async { fixture.client.call("eth_call", json!([{"to": ECHO, "data": "0x01"}, "0x0"])).await };
    let stopped = async {
        while chain.waiting() == 0 {
            tokio::task::yield_now().await;
        }
        let stopping = tokio::spawn(fixture.server.stop());
        assert_eq!(socket.close_reason().await, Some((1001, "the node is stopping".into())));
        drop(held);
        stopping.await.unwrap();
    };
    let (answer, ()) = tokio::join!(asked, stopped);
    assert_eq!(answer["result"], "0x01");
}
