//! JSON-RPC and HTTP framing: refusals and their metrics.

use crate::common::{Fixture, transfer};
use alloy_primitives::keccak256;
use corniche_api::{Method, Reason};
use corniche_rpc::{Backend as _, ChainEvent, RpcConfig};
use serde_json::{Value, json};

const JSON: (&str, &str) = ("content-type", "application/json");

/// Bodies, each with the expected error code, or 0.
const BODIES: &[(&str, i64)] = &[
    ("{", -32700),
    ("not json", -32700),
    ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_chainId\"", -32700),
    ("[]", -32600),
    ("{}", -32600),
    ("null", -32600),
    ("{\"id\":1,\"method\":\"eth_chainId\"}", -32600),
    ("{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"eth_chainId\"}", -32600),
    ("{\"jsonrpc\":\"2.0\",\"id\":1}", -32600),
    ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_fillTransaction\",\"params\":[]}", -32601),
    ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"anvil_autoImpersonateAccount\"}", -32601),
    ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_chainId\",\"params\":{\"a\":1}}", -32602),
    ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_chainId\",\"params\":[1]}", -32602),
    ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_getBalance\",\"params\":[]}", -32602),
    ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_getBalance\",\"params\":[\"0x1\"]}", -32602),
    ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_chainId\",\"params\":[]}", 0),
    ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_chainId\",\"params\":null}", 0),
    ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"eth_chainId\",\"extra\":true}", 0),
];

#[tokio::test]
async fn bad_bodies_get_error_codes() {
    let fixture = Fixture::start().await;
    let mut socket = fixture.client.websocket().await;
    for (body, code) in BODIES {
        let answer = fixture.client.post(body).await;
        assert_eq!(answer.status, 200, "{body}");
        socket.send(body).await;
        let by_socket = socket.next().await.unwrap();
        assert_eq!(answer.json(), by_socket, "{body}");
        assert_eq!(by_socket["error"]["code"].as_i64().unwrap_or(0), *code, "{body}: {by_socket}");
    }
}

#[tokio::test]
async fn disabled_method_error() {
    let fixture = Fixture::with(RpcConfig { namespaces: "web3,net".parse().unwrap(), ..RpcConfig::default() }).await;
    assert_eq!(fixture.client.result("net_version", json!([])).await, "7777");
    let (code, message) = fixture.client.error("eth_chainId", json!([])).await;
    assert_eq!(code, -32601);
    let (geth, rest) = message.split_at(message.find(": ").unwrap());
    assert_eq!(geth, "the method eth_chainId does not exist/is not available");
    assert!(rest.contains("does not serve the namespace \"eth\"") && rest.contains("[serve] namespaces"), "{rest}");
    // Transactions of a batch take another code path.
    let submission =
        |nonce| json!({"jsonrpc": "2.0", "id": nonce, "method": "eth_sendRawTransaction", "params": [transfer(nonce)]});
    let answers = fixture.client.post(json!([submission(0), submission(1)]).to_string()).await.json();
    for answer in answers.as_array().unwrap() {
        assert_eq!(answer["error"]["code"], -32601, "{answer}");
    }
    assert!(fixture.chain.pool_transaction(&keccak256(transfer(0))).is_none());
    // An unknown namespace gets no hint about enabling it.
    let (code, message) = fixture.client.error("admin_nodeInfo", json!([])).await;
    assert_eq!((code, message.as_str()), (-32601, "the method admin_nodeInfo does not exist/is not available"));
}

#[tokio::test]
async fn ids_are_echoed_and_notifications_silent() {
    let fixture = Fixture::start().await;
    for id in ["7", "\"seven\"", "null", "-1", "12345678901234567890"] {
        let answer = fixture.client.post(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"net_version"}}"#)).await;
        assert_eq!(answer.body, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"7777"}}"#));
        assert_eq!(answer.headers["content-type"], "application/json");
    }
    let notification = r#"{"jsonrpc":"2.0","method":"net_version"}"#;
    let answer = fixture.client.post(notification).await;
    assert_eq!((answer.status, answer.body.as_str()), (200, ""));
    let answer = fixture.client.post(format!("[{notification},{notification}]")).await;
    assert_eq!((answer.status, answer.body.as_str()), (200, ""));
}

#[tokio::test]
async fn batch_responses_keep_order() {
    let fixture = Fixture::start().await;
    let mut batch: Vec<Value> = (0..100).map(|id| json!({"jsonrpc": "2.0", "id": id, "method": "eth_blockNumber"})).collect();
    batch[10] = json!(5);
    batch[20]["method"] = json!("eth_unknown");
    batch[30]["params"] = json!([1]);
    batch[40].as_object_mut().unwrap().remove("id");
    let answer = fixture.client.post(json!(batch).to_string()).await.json();
    let answers = answer.as_array().unwrap();
    assert_eq!(answers.len(), 99);
    assert_eq!((&answers[10]["id"], &answers[10]["error"]["code"]), (&Value::Null, &json!(-32600)));
    assert_eq!(answers[20]["error"]["code"], -32601);
    assert_eq!(answers[30]["error"]["code"], -32602);
    for (at, answer) in answers.iter().enumerate().filter(|(at, _)| *at != 10) {
        assert_eq!(answer["id"], if at < 40 { at } else { at + 1 });
    }
    let mut socket = fixture.client.websocket().await;
    socket.send(&json!(batch).to_string()).await;
    assert_eq!(socket.next().await.unwrap(), json!(answers));
}

/// Several wait for admission at a time, but the batch's order is kept, both for admission and in the
/// response.
#[tokio::test]
async fn batch_transactions_keep_order() {
    let fixture = Fixture::start().await;
    let mut events = fixture.chain.subscribe();
    let submission =
        |id: u64, raw: Value| json!({"jsonrpc": "2.0", "id": id, "method": "eth_sendRawTransaction", "params": [raw]});
    let mut batch: Vec<Value> = (0..50).map(|nonce| submission(nonce, json!(transfer(nonce)))).collect();
    batch[5] = json!({"jsonrpc": "2.0", "id": 5, "method": "eth_chainId"});
    batch[21] = submission(21, json!("0x1234"));
    batch[22] = submission(22, json!(7));
    batch[23].as_object_mut().unwrap().remove("id");
    batch[24] = json!("junk");
    let answer = fixture.client.post(json!(batch).to_string()).await.json();
    let answers = answer.as_array().unwrap();
    assert_eq!(answers.len(), 49);
    let mut sent = Vec::new();
    for (at, answer) in (0..50).filter(|at| *at != 23).zip(answers) {
        match at {
            5 => assert_eq!(answer["result"], "0x1e61"),
            21 => assert_eq!(answer["error"]["code"], -32000),
            22 => assert_eq!(answer["error"]["code"], -32602),
            24 => assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(-32600))),
            _ => {
                let hash = keccak256(transfer(at));
                assert_eq!((&answer["id"], &answer["result"]), (&json!(at), &json!(hash)));
                sent.push(hash);
            }
        }
    }
    for hash in sent {
        assert!(matches!(events.try_recv(), Ok(ChainEvent::Pending(next)) if next == hash), "{hash} is out of order");
    }
}

#[tokio::test]
async fn oversized_requests_are_rejected() {
    let config = RpcConfig { max_request_bytes: 2_000, max_batch: 3, max_response_bytes: 20_000, ..RpcConfig::default() };
    let fixture = Fixture::with(config).await;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "eth_chainId"});
    let answer = fixture.client.post(json!([call, call, call, call]).to_string()).await;
    assert_eq!((answer.status, answer.code()), (200, -32600));
    assert!(answer.json()["error"]["message"].as_str().unwrap().starts_with("batch too large"));
    let large = " ".repeat(2_001);
    let answer = fixture.client.post(&large).await;
    assert_eq!((answer.status, answer.code()), (413, -32600));
    // Body without a content length.
    let chunked = format!("{:x}\r\n{large}\r\n0\r\n\r\n", large.len());
    let headers = [JSON, ("transfer-encoding", "chunked")];
    let answer = fixture.client.http("POST", "/", &headers, chunked.as_bytes()).await;
    assert_eq!((answer.status, answer.code()), (413, -32600));
    let mut socket = fixture.client.websocket().await;
    socket.send(&large).await;
    assert_eq!(socket.next().await.unwrap()["error"]["code"], -32600);
    assert_eq!(socket.next().await, None);
    // A response that is too large, alone and as the sum of a batch.
    fixture.chain.mine(&(0..40).map(|nonce| (transfer(nonce), vec![])).collect::<Vec<_>>());
    let error = fixture.client.error("eth_getBlockByNumber", json!(["latest", true])).await;
    assert_eq!(error, (-32003, "response too large".to_string()));
    let block = json!({"jsonrpc": "2.0", "id": 2, "method": "eth_getBlockReceipts", "params": ["0x1"]});
    let answer = fixture.client.post(json!([block, block, call]).to_string()).await.json();
    assert_eq!(answer[0]["error"]["code"], -32003);
    assert_eq!(answer[2]["result"], "0x1e61");
}

#[tokio::test]
async fn large_responses_share_budget() {
    let config = RpcConfig { max_response_bytes_in_flight: 400_000, spare_loopback: true, ..RpcConfig::default() };
    let fixture = Fixture::with(config).await;
    fixture.chain.mine(&(0..300).map(|nonce| (transfer(nonce), vec![])).collect::<Vec<_>>());
    // Each response releases its reservation.
    for _ in 0..5 {
        let block = fixture.client.result("eth_getBlockByNumber", json!(["latest", true])).await;
        assert_eq!(block["transactions"].as_array().unwrap().len(), 300);
    }
    let config = RpcConfig { max_response_bytes_in_flight: 70_000, spare_loopback: true, ..RpcConfig::default() };
    let fixture = Fixture::with(config).await;
    fixture.chain.mine(&(0..300).map(|nonce| (transfer(nonce), vec![])).collect::<Vec<_>>());
    let error = fixture.client.error("eth_getBlockByNumber", json!(["latest", true])).await;
    assert_eq!(error, (-32005, "server busy".to_string()));
}

#[tokio::test]
async fn cors_and_content_type() {
    let fixture = Fixture::start().await;
    let preflight = [
        ("origin", "https://app.example"),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "content-type,x-custom"),
    ];
    let answer = fixture.client.http("OPTIONS", "/", &preflight, b"").await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.headers["access-control-allow-origin"], "*");
    assert!(answer.headers["access-control-allow-methods"].contains("POST"));
    assert!(answer.headers["access-control-allow-headers"].contains("x-custom"));
    let body = br#"{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}"#;
    let answer = fixture.client.http("POST", "/", &[JSON, ("origin", "https://app.example")], body).await;
    assert_eq!((answer.status, answer.headers["access-control-allow-origin"].as_str()), (200, "*"));
    for (content_type, status) in
        [("application/json; charset=utf-8", 200), ("Application/JSON", 200), ("text/plain", 415), ("", 415)]
    {
        let answer = fixture.client.http("POST", "/", &[("content-type", content_type)], body).await;
        assert_eq!(answer.status, status, "{content_type}");
    }
    assert_eq!(fixture.client.http("GET", "/", &[], b"").await.status, 200);
    assert_eq!(fixture.client.http("PUT", "/", &[], b"").await.status, 405);
    assert_eq!(fixture.client.http("GET", "/nothing", &[], b"").await.status, 404);

    let config = RpcConfig { allowed_origins: Some(vec!["https://ours.example".into()]), ..RpcConfig::default() };
    let strict = Fixture::with(config).await;
    let answer = strict.client.http("OPTIONS", "/", &preflight, b"").await;
    assert!(!answer.headers.contains_key("access-control-allow-origin"));
    let upgrade = [
        ("origin", "https://app.example"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("connection", "upgrade"),
    ];
    assert_eq!(strict.client.http("GET", "/", &upgrade, b"").await.status, 403);
}

#[tokio::test]
async fn admission_errors_reach_client() {
    let fixture = Fixture::start().await;
    for &reason in Reason::ALL {
        *fixture.chain.refusal.lock().unwrap() = Some(reason.with("detail"));
        let (code, message) = fixture.client.error("eth_sendRawTransaction", json!([transfer(0)])).await;
        assert_eq!((code, message), (reason.code().number().into(), format!("{}: detail", reason.phrase())));
    }
    let sent = fixture.client.result("eth_sendRawTransaction", json!([transfer(0)])).await;
    assert_eq!(sent, json!(alloy_primitives::keccak256(transfer(0))));
    for (raw, phrase) in [
        ("0x".to_string(), "rlp"),
        ("0xc0".into(), "rlp"),
        (format!("{}00", transfer(0)), "rlp"),
        ("0x03c0".into(), "transaction type not supported"),
        (format!("0x02{}", "00".repeat(131_073)), "oversized data"),
    ] {
        let (code, message) = fixture.client.error("eth_sendRawTransaction", json!([raw])).await;
        assert_eq!(code, -32000, "{message}");
        assert!(message.starts_with(phrase), "{message}");
    }
    for params in [json!([]), json!(["0xzz"]), json!(["abc"]), json!([{}]), json!([transfer(0), 1])] {
        assert_eq!(fixture.client.error("eth_sendRawTransaction", params.clone()).await.0, -32602, "{params}");
    }
}

#[tokio::test]
async fn arbitrary_parameters_do_not_panic() {
    let fixture = Fixture::start().await;
    fixture.chain.mine(&[(transfer(0), vec![])]);
    let hash = format!("0x{}", "ab".repeat(32));
    let nasty = [
        json!(null),
        json!(true),
        json!(-1),
        json!(1e300),
        json!(""),
        json!("0x"),
        json!("0xffffffffffffffff"),
        json!("latest"),
        json!(hash),
        json!(format!("0x{}", "f".repeat(40))),
        json!({}),
        json!({"blockHash": hash, "blockNumber": "0x1"}),
        json!({"fromBlock": "0xffffffffffffffff", "toBlock": "0xffffffffffffffff"}),
        json!({"topics": [[[[]]]]}),
        json!([[[[]]]]),
        json!("\u{0}\u{10ffff}"),
    ];
    for method in Method::ALL {
        for first in &nasty {
            for second in &nasty {
                let answer = fixture.client.call(method.name(), json!([first, second])).await;
                let code = answer["error"]["code"].as_i64().unwrap_or(0);
                assert_ne!(code, -32603, "{}({first}, {second}): {answer}", method.name());
            }
        }
    }
}

#[tokio::test]
async fn requests_are_counted_by_method_and_code() {
    let fixture = Fixture::start().await;
    for (body, _) in BODIES {
        fixture.client.post(body).await;
    }
    fixture.client.post("[1]").await;
    let metrics = fixture.metrics().await;
    let count = |method: &str, code: i64| -> u64 {
        let labels = [
            format!("corniche_rpc_requests_total{{method=\"{method}\",code=\"{code}\"}} "),
            format!("corniche_rpc_requests_total{{code=\"{code}\",method=\"{method}\"}} "),
        ];
        let line = metrics.lines().find_map(|line| labels.iter().find_map(|labels| line.strip_prefix(labels.as_str())));
        line.map_or(0, |count| count.parse().unwrap())
    };
    assert_eq!((count("eth_chainId", 0), count("eth_chainId", -32602)), (3, 2), "{metrics}");
    assert_eq!((count("eth_getBalance", -32602), count("unknown", -32601)), (2, 2));
    assert_eq!((count("none", -32700), count("none", -32600)), (3, 7));
    assert!(!metrics.contains("anvil"), "a client's words are no label");
    assert!(metrics.contains("corniche_rpc_connections "));
}
