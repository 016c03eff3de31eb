//! Faucet: amount, recipients, and limits per day.

use crate::common::{FUNDED, Fixture, key};
use alloy_primitives::U256;
use corniche_rpc::{FaucetConfig, RpcConfig};
use serde_json::{Value, json};
use std::sync::{Arc, atomic::Ordering};
use tokio::io::AsyncWriteExt;

const JSON: (&str, &str) = ("content-type", "application/json");
const DAY_MS: u64 = 86_400_000;

async fn ask(fixture: &Fixture, body: &str) -> (u16, Value) {
    let answer = fixture.client.http("POST", "/faucet", &[JSON], body.as_bytes()).await;
    (answer.status, serde_json::from_str(&answer.body).unwrap_or_default())
}

#[tokio::test]
async fn faucet_limits_account_and_client() {
    let config = FaucetConfig { key: Arc::new(key()), wei: U256::from(5), per_account: 1, per_client: 2, per_day: 1_000 };
    let fixture = Fixture::with(RpcConfig { faucet: Some(config), ..RpcConfig::default() }).await;
    let account = |byte: u8| json!({"address": format!("0x{}", format!("{byte:02x}").repeat(20))}).to_string();
    let (status, given) = ask(&fixture, &account(1)).await;
    assert_eq!((status, &given["wei"]), (200, &json!("5")));
    let sent = fixture.client.result("eth_getTransactionByHash", json!([given["transaction"]])).await;
    assert_eq!((&sent["from"], &sent["value"]), (&json!(FUNDED.to_string().to_lowercase()), &json!("0x5")));
    let (status, refused) = ask(&fixture, &account(1)).await;
    assert_eq!(status, 429);
    assert!(refused["error"].as_str().unwrap().starts_with("limit of 1 a day for one account reached"), "{refused}");

    // Refused transactions are not counted.
    *fixture.chain.refusal.lock().unwrap() = Some(corniche_api::Reason::PoolFull.error());
    assert_eq!(ask(&fixture, &account(2)).await, (503, json!({"error": "txpool is full"})));
    assert_eq!(ask(&fixture, &account(2)).await.0, 200);
    let (status, refused) = ask(&fixture, &account(3)).await;
    assert_eq!((status, refused), (429, json!({"error": "limit of 2 a day for one client reached; try again tomorrow"})));
    fixture.now.store(DAY_MS, Ordering::Relaxed);
    assert_eq!(ask(&fixture, &account(3)).await.0, 200, "tomorrow");

    for bad in ["", "{}", "[]", "{\"address\": \"0x12\"}", "{\"address\": 7}"] {
        assert_eq!(ask(&fixture, bad).await.0, 400, "{bad}");
    }
    let plain = fixture.client.http("POST", "/faucet", &[("content-type", "text/plain")], account(4).as_bytes()).await;
    assert_eq!(plain.status, 415);
    let elsewhere = fixture.client.http("POST", "/faucet", &[JSON, ("host", "evil.example")], account(4).as_bytes()).await;
    assert_eq!((elsewhere.status, elsewhere.body.as_str()), (403, "invalid host specified\n"));
    let told = fixture.client.http("GET", "/faucet", &[], b"").await;
    let told: Value = serde_json::from_str(&told.body).unwrap();
    assert_eq!((&told["wei"], &told["perAccountADay"], &told["perClientADay"]), (&json!("5"), &json!(1), &json!(2)));
}

/// Otherwise a client that disconnects between the transaction and the response could get more and more.
#[tokio::test]
async fn disconnect_still_counts_grant() {
    let config = FaucetConfig { key: Arc::new(key()), wei: U256::from(5), per_account: 1, per_client: 9, per_day: 9 };
    let fixture = Fixture::with(RpcConfig { faucet: Some(config), ..RpcConfig::default() }).await;
    let (answer, late) = tokio::sync::oneshot::channel();
    *fixture.chain.answers_late.lock().unwrap() = Some(late);
    let body = json!({"address": format!("0x{}", "01".repeat(20))}).to_string();
    let mut stream = fixture.client.connect().await;
    let head =
        format!("POST /faucet HTTP/1.1\r\nhost: localhost\r\n{}: {}\r\ncontent-length: {}\r\n\r\n", JSON.0, JSON.1, body.len());
    stream.write_all((head + &body).as_bytes()).await.unwrap();
    while fixture.chain.answers_late.lock().unwrap().is_some() {
        tokio::task::yield_now().await;
    }
    drop(stream);
    let alone = async || fixture.metrics().await.contains("\ncorniche_rpc_connections 0\n");
    while !alone().await {}
    let _ = answer.send(());
    assert_eq!(ask(&fixture, &body).await.0, 429);
}

#[tokio::test]
async fn faucet_limits_daily_total() {
    let config = FaucetConfig { key: Arc::new(key()), wei: U256::from(5), per_account: 1, per_client: 9, per_day: 2 };
    let fixture = Fixture::with(RpcConfig { faucet: Some(config), ..RpcConfig::default() }).await;
    // 11 p.m.
    fixture.now.store(23 * 3_600_000, Ordering::Relaxed);
    let mut fixture = fixture;
    let everyone = fixture.client;
    let mut ask_from = async |last: u8| {
        fixture.client = everyone.at(last);
        ask(&fixture, &json!({"address": format!("0x{}", format!("{last:02x}").repeat(20))}).to_string()).await
    };
    assert_eq!((ask_from(1).await.0, ask_from(2).await.0), (200, 200));
    let (status, refused) = ask_from(3).await;
    let message = "the faucet's limit of 2 a day is reached; try again in 60 minutes, at 00:00 UTC";
    assert_eq!((status, refused), (429, json!({"error": message})));
    let told: Value = serde_json::from_str(&everyone.http("GET", "/faucet", &[], b"").await.body).unwrap();
    assert_eq!(told["inAllADay"], 2);
    fixture.now.store(DAY_MS, Ordering::Relaxed);
    fixture.client = everyone.at(3);
    assert_eq!(ask(&fixture, &json!({"address": FUNDED}).to_string()).await.0, 200, "tomorrow");
}

#[tokio::test]
async fn faucet_is_off_by_default() {
    let fixture = Fixture::start().await;
    assert_eq!(ask(&fixture, "{}").await.0, 404);
}
