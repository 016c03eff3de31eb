//! Subscriptions and limits of WebSockets.

use crate::common::{ECHO, FUNDED, Fixture, call, log, transfer};
use corniche_rpc::{RpcConfig, SyncProgress};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

#[tokio::test]
async fn new_heads_are_complete_and_ordered() {
    let fixture = Fixture::start().await;
    fixture.chain.mine(&[]);
    let mut socket = fixture.client.websocket().await;
    let heads = socket.subscribe(json!(["newHeads"])).await;
    // Many at once, most of them not announced.
    for nonce in 0..50 {
        fixture.chain.add(&[(transfer(nonce), vec![])]);
    }
    fixture.chain.announce_head();
    for number in 2..=51 {
        let head = socket.notification(&heads).await;
        assert_eq!(head["number"], format!("{number:#x}"));
        let header: alloy_rpc_types_eth::Header = serde_json::from_value(head.clone()).unwrap();
        assert_eq!(header.inner.hash_slow(), header.hash);
        let block = fixture.client.result("eth_getBlockByNumber", json!([head["number"], false])).await;
        for (name, value) in head.as_object().unwrap() {
            assert_eq!(*value, block[name], "{name}");
        }
    }
}

#[tokio::test]
async fn log_subscriptions_filter() {
    let fixture = Fixture::start().await;
    let mut socket = fixture.client.websocket().await;
    let ours = socket.subscribe(json!(["logs", {"address": ECHO}])).await;
    let mut other = fixture.client.websocket().await;
    let all = other.subscribe(json!(["logs", {}])).await;
    fixture.chain.mine(&[(transfer(0), vec![log(FUNDED, &[1]), log(ECHO, &[2])])]);
    let told = socket.notification(&ours).await;
    assert_eq!((&told["logIndex"], &told["removed"]), (&json!("0x1"), &json!(false)));
    let found = fixture.client.result("eth_getLogs", json!([{}])).await;
    assert_eq!(told, found[1]);
    assert_eq!(other.notification(&all).await, found[0]);
    assert_eq!(other.notification(&all).await, found[1]);
}

/// 2,048 subscriptions of one address would otherwise copy and compare all logs of each block, on threads of peers.
#[tokio::test]
async fn logs_are_matched_outside_of_socket_threads() {
    let fixture = Fixture::start().await;
    let mut socket = fixture.client.websocket().await;
    for number in 0..31 {
        let elsewhere = format!("0x{number:040x}");
        socket.subscribe(json!(["logs", {"address": elsewhere}])).await;
    }
    let ours = socket.subscribe(json!(["logs", {"address": ECHO, "topics": [null, format!("0x{}", "05".repeat(32))]}])).await;
    for nonce in 0..3 {
        fixture.chain.mine(&[(transfer(nonce), vec![log(FUNDED, &[1]); 100])]);
    }
    // The bloom of block 4 contains the address and the topic, but no log has the topic in this position.
    fixture.chain.mine(&[(transfer(3), vec![log(ECHO, &[5])])]);
    fixture.chain.mine(&[(transfer(4), vec![log(ECHO, &[1]), log(ECHO, &[1, 5])])]);
    let told = socket.notification(&ours).await;
    assert_eq!((&told["blockNumber"], &told["logIndex"]), (&json!("0x5"), &json!("0x1")));
    let (heights, threads): (Vec<_>, Vec<_>) = fixture.chain.blocks_read.lock().unwrap().iter().copied().unzip();
    assert_eq!(heights.iter().map(|height| height.0).collect::<Vec<_>>(), [4, 5], "blooms exclude the others");
    // The sockets of this server are on the thread of the test.
    assert!(!threads.contains(&std::thread::current().id()));
}

/// A refused search is repeated, so that no log is lost, also on a chain without further blocks.
#[tokio::test]
async fn logs_wait_for_busy_readers() {
    let limits = RpcConfig { max_running_reads: 1, max_waiting_reads: 0, ..RpcConfig::default() };
    let fixture = Fixture::with(limits).await;
    let mut socket = fixture.client.websocket().await;
    let logs = socket.subscribe(json!(["logs", {"address": ECHO}])).await;
    let mut other = fixture.client.websocket().await;
    let heads = other.subscribe(json!(["newHeads"])).await;
    let held = fixture.chain.hold();
    let slots = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_getStorageValues", "params": [{}, "0x0"]});
    other.send(&slots.to_string()).await;
    while fixture.chain.waiting() == 0 {
        tokio::task::yield_now().await;
    }
    fixture.chain.mine(&[(transfer(0), vec![log(ECHO, &[1])])]);
    assert_eq!(other.notification(&heads).await["number"], "0x1");
    // Two responses with an attempt between them. The logs of the block are not found yet.
    for _ in 0..2 {
        assert_eq!(socket.call("eth_chainId", json!([])).await["result"], "0x1e61");
    }
    drop(held);
    assert_eq!(other.next().await.unwrap()["result"], json!({}));
    assert_eq!(socket.notification(&logs).await["blockNumber"], "0x1");
    fixture.chain.mine(&[(transfer(1), vec![log(ECHO, &[2])])]);
    assert_eq!(socket.notification(&logs).await["blockNumber"], "0x2");
}

#[tokio::test]
async fn pending_subscription_hash_or_full() {
    let fixture = Fixture::start().await;
    let mut socket = fixture.client.websocket().await;
    let hashes = socket.subscribe(json!(["newPendingTransactions"])).await;
    let mut other = fixture.client.websocket().await;
    let full = other.subscribe(json!(["newPendingTransactions", true])).await;
    let mut all = fixture.client.websocket().await;
    for _ in 0..32 {
        all.subscribe(json!(["newPendingTransactions", true])).await;
    }
    let sent = fixture.client.result("eth_sendRawTransaction", json!([transfer(0)])).await;
    assert_eq!(socket.notification(&hashes).await, sent);
    let told = other.notification(&full).await;
    assert_eq!((&told["hash"], &told["blockHash"], &told["from"]), (&sent, &Value::Null, &json!(FUNDED)));
    for _ in 0..32 {
        assert_eq!(all.next().await.unwrap()["params"]["result"], told);
    }
    assert_eq!(fixture.chain.pool_reads.load(Ordering::SeqCst), 1, "once for all connections");
}

/// Nothing is queued for a client that does not read.
#[tokio::test]
async fn subscriber_behind_pending_transactions_is_disconnected() {
    let fixture = Fixture::with(RpcConfig { max_pending_behind: 8, ..RpcConfig::default() }).await;
    let mut socket = fixture.client.websocket().await;
    socket.subscribe(json!(["newPendingTransactions"])).await;
    // The server shares this thread, so that its connection has no turn before the last one.
    (0..32).for_each(|nonce| fixture.chain.pend(transfer(nonce)));
    assert_eq!(socket.close_reason().await, Some((1008, "too slow: missed 24 pending transactions".into())));
}

/// Shared JSON stays in memory until the slowest connection has taken it.
#[tokio::test]
async fn large_pending_transactions_are_not_shared() {
    let fixture = Fixture::start().await;
    let (mut one, mut other) = (fixture.client.websocket().await, fixture.client.websocket().await);
    let subscriptions = [
        one.subscribe(json!(["newPendingTransactions", true])).await,
        other.subscribe(json!(["newPendingTransactions", true])).await,
    ];
    fixture.chain.pend(call(0, ECHO, vec![7; 50_000].into()));
    let notified = [one.notification(&subscriptions[0]).await, other.notification(&subscriptions[1]).await];
    assert_eq!(notified[0], notified[1]);
    assert_eq!(notified[0]["input"].as_str().map(str::len), Some(100_002));
    assert_eq!(fixture.chain.pool_reads.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn syncing_subscription_begin_and_end() {
    let fixture = Fixture::start().await;
    let mut socket = fixture.client.websocket().await;
    let syncing = socket.subscribe(json!(["syncing"])).await;
    assert_eq!(socket.notification(&syncing).await, false, "how it stands comes at once");
    let height = corniche_types::Height;
    let behind = |current| Some(SyncProgress { starting: height(0), current: height(current), highest: height(256) });
    for current in [16, 17, 18] {
        *fixture.chain.syncing.lock().unwrap() = behind(current);
        fixture.chain.mine(&[]);
        fixture.chain.announce_head();
    }
    let told = socket.notification(&syncing).await;
    assert_eq!((&told["syncing"], &told["status"]["highestBlock"]), (&json!(true), &json!("0x100")));
    *fixture.chain.syncing.lock().unwrap() = None;
    fixture.chain.announce_head();
    assert_eq!(socket.notification(&syncing).await, false, "steps in between are not told");
}

#[tokio::test]
async fn subscriptions_are_limited() {
    let fixture = Fixture::with(RpcConfig { max_subscriptions_per_websocket: 2, ..RpcConfig::default() }).await;
    let mut socket = fixture.client.websocket().await;
    let first = socket.subscribe(json!(["newHeads"])).await;
    let second = socket.subscribe(json!(["newHeads"])).await;
    assert_ne!(first, second);
    assert_eq!(socket.call("eth_subscribe", json!(["newHeads"])).await["error"]["code"], -32005);
    assert_eq!(socket.call("eth_unsubscribe", json!([first])).await["result"], true);
    assert_eq!(socket.call("eth_unsubscribe", json!([first])).await["error"]["message"], "subscription not found");
    fixture.chain.mine(&[]);
    assert_eq!(socket.notification(&second).await["number"], "0x1");
    let error = &socket.call("eth_subscribe", json!(["news"])).await["error"];
    assert_eq!((&error["code"], &error["message"]), (&json!(-32601), &json!("no \"news\" subscription in eth namespace")));
    for params in [json!([]), json!([7]), json!(["logs", {"topics": 5}]), json!(["newHeads", 1, 2])] {
        assert_eq!(socket.call("eth_subscribe", params.clone()).await["error"]["code"], -32602, "{params}");
    }
    for method in ["eth_subscribe", "eth_unsubscribe"] {
        let error = fixture.client.error(method, json!(["newHeads"])).await;
        assert_eq!(error, (-32601, "notifications not supported".to_string()));
    }
    // A subscription of another connection does not exist here.
    let mut other = fixture.client.websocket().await;
    assert_eq!(other.call("eth_unsubscribe", json!([second])).await["error"]["message"], "subscription not found");
}

#[tokio::test]
async fn websocket_handles_concurrent_requests() {
    let fixture = Fixture::start().await;
    let mut socket = fixture.client.websocket().await;
    for id in 0..200 {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "eth_call", "params": [{"to": ECHO, "data": "0x01"}]});
        socket.send(&call.to_string()).await;
    }
    let mut answered = std::collections::BTreeSet::new();
    while answered.len() < 200 {
        let answer = socket.next().await.unwrap();
        assert_eq!(answer["result"], "0x01", "{answer}");
        answered.insert(answer["id"].as_u64().unwrap());
    }
    socket.send_binary(br#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}"#).await;
    assert_eq!(socket.next().await.unwrap()["result"], "0x1e61");
    socket.send_binary(&[0xff, 0xfe]).await;
    assert_eq!(socket.next().await.unwrap()["error"]["code"], -32700);
}

#[tokio::test]
async fn batch_subscribe_responds_before_notifying() {
    let fixture = Fixture::start().await;
    let mut socket = fixture.client.websocket().await;
    let subscribe = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_subscribe", "params": ["newHeads"]});
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "eth_call", "params": [{"to": ECHO, "data": "0x01"}, "0x0"]});
    let held = fixture.chain.hold();
    socket.send(&json!([subscribe, call]).to_string()).await;
    while fixture.chain.waiting() == 0 {
        tokio::task::yield_now().await;
    }
    // The subscription exists, its id is not sent yet, and a block arrives.
    fixture.chain.mine(&[]);
    let mut other = fixture.client.websocket().await;
    other.call("eth_chainId", json!([])).await;
    drop(held);
    let answer = socket.next().await.unwrap();
    let name = answer[0]["result"].as_str().unwrap().to_string();
    assert_eq!(socket.notification(&name).await["number"], "0x1");
}

#[tokio::test]
async fn connections_and_websockets_are_limited() {
    let fixture =
        Fixture::with(RpcConfig { max_connections: 4, max_websockets: 2, spare_loopback: true, ..RpcConfig::default() }).await;
    let mut sockets = Vec::new();
    for _ in 0..2 {
        sockets.push(fixture.client.websocket().await);
    }
    let upgrade = [
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("connection", "upgrade"),
    ];
    let answer = fixture.client.http("GET", "/", &upgrade, b"").await;
    assert_eq!((answer.status, answer.code()), (503, -32005));
    // Closing one makes room for another.
    drop(sockets.pop());
    loop {
        if fixture.metrics().await.contains("corniche_rpc_websockets 1\n") {
            break;
        }
    }
    sockets.push(fixture.client.websocket().await);
    // Two more connections; the next one is closed immediately.
    let mut idle = [fixture.client.connect().await, fixture.client.connect().await];
    sockets[0].call("eth_chainId", json!([])).await;
    let mut surplus = fixture.client.connect().await;
    let mut buffer = [0; 1];
    use tokio::io::AsyncReadExt;
    assert_eq!(surplus.read(&mut buffer).await.unwrap_or(0), 0);
    // Existing connections are still served.
    use tokio::io::AsyncWriteExt;
    idle[0].write_all(b"GET /health HTTP/1.1\r\nhost: node\r\n\r\n").await.unwrap();
    idle[0].read_exact(&mut buffer).await.unwrap();
}

#[tokio::test]
async fn stop_closes_connections() {
    let fixture = Fixture::start().await;
    let mut socket = fixture.client.websocket().await;
    socket.subscribe(json!(["newHeads"])).await;
    fixture.server.stop().await;
    assert_eq!(socket.next().await, None);
}
