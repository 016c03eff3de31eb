//! Fuzzes external input: request bodies, whole HTTP requests, and raw transactions. There must be no panics,
//! every response must be valid, and no two byte strings may decode to the same transaction.
//!
//! CI runs a few thousand cases with fixed seeds, `make soak` more: `CORNICHE_CASES` of each, starting at
//! `CORNICHE_SEED`. A failure prints its seed; `CORNICHE_SEED=… CORNICHE_CASES=1` repeats that case alone.
#![allow(clippy::unwrap_used)] // the lint exempts test functions, but not their helpers

mod common;

use alloy_consensus::{SignableTransaction, TxEip1559, TxEip2930, TxEnvelope, TxLegacy};
use alloy_eips::eip2718::Encodable2718;
use alloy_eips::eip2930::{AccessList, AccessListItem};
use alloy_primitives::{Address, B256, Bytes, Signature, TxKind, U256, keccak256};
use common::{CHAIN_ID, Fixture, examples, key, transfer};
use corniche_api::{ErrorCode, Namespaces};
use corniche_crypto::VerifiedTransaction;
use corniche_rpc::RpcConfig;
use corniche_testkit::mutate::mutated;
use corniche_types::Transaction;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Seeds of this run.
fn cases(few: u64) -> Range<u64> {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let first = number("CORNICHE_SEED").unwrap_or(1);
    first..first + number("CORNICHE_CASES").unwrap_or(few)
}

/// Server with short timeouts: a truncated body or a receipt that never comes costs 20 ms.
async fn fixture() -> Fixture {
    let soon = Duration::from_millis(20);
    let config = RpcConfig {
        namespaces: Namespaces::all(),
        body_timeout: soon,
        receipt_timeout: soon,
        max_receipt_timeout: soon,
        ..RpcConfig::default()
    };
    Fixture::with(config).await
}

/// One request for every method, and some batches.
async fn bodies(fixture: &Fixture) -> Vec<Vec<u8>> {
    let calls: Vec<Value> = examples(fixture)
        .await
        .into_iter()
        .map(|(method, params)| json!({"jsonrpc": "2.0", "id": 1, "method": method.name(), "params": params}))
        .collect();
    let batches = calls.chunks(7).map(|some| Value::from(some.to_vec()));
    calls.iter().cloned().chain(batches).map(|body| body.to_string().into_bytes()).collect()
}

/// Tokens with a meaning in request bodies.
const WORDS: &[&[u8]] = &[
    b"null",
    b"true",
    b"[]",
    b"{}",
    b"[[[[[[[[",
    b"\"\"",
    b"\\ud800",
    b"\\u0000",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"-1",
    b"1e999",
    b"0.5",
    b"\"0x\"",
    b"0x",
    b"\"0x0\"",
    b"\"0xffffffffffffffff\"",
    b"\"0x10000000000000000\"",
    b"\"latest\"",
    b"\"pending\"",
    b"\"earliest\"",
    b",",
    b":",
    b"\"",
    b"\"id\":null,",
    b"\"jsonrpc\":\"1.0\",",
    b"\"method\":\"eth_subscribe\",",
    b"\"blockHash\":",
    b"\"params\":{},",
    b"  \n\t",
    b"18446744073709551616",
];

type Members = BTreeMap<String, Box<RawValue>>;

/// Checks one response; returns true if it is a result.
fn judge(answer: &Members, told: impl Fn() -> String) -> bool {
    let Some(error) = answer.get("error") else {
        assert!(answer.contains_key("result"), "{}", told());
        return true;
    };
    let error: Value = serde_json::from_str(error.get()).unwrap();
    let code = error["code"].as_i64().unwrap_or_default();
    let known = ErrorCode::ALL.iter().any(|known| i64::from(known.number()) == code) || (-38026..=-38010).contains(&code);
    assert!(known && code != i64::from(ErrorCode::Internal.number()), "{}", told());
    assert!(error["message"].as_str().is_some_and(|message| message.len() < 4_000), "{}", told());
    false
}

#[tokio::test]
async fn every_body_gets_response() {
    let fixture = fixture().await;
    let seeds = bodies(&fixture).await;
    let (mut results, mut errors) = (0, 0);
    for seed in cases(3_000) {
        let body = mutated(seed, &seeds, WORDS);
        let answer = fixture.client.post(&body).await;
        let told = || format!("seed {seed}: {}\n{answer:?}", String::from_utf8_lossy(&body));
        assert_eq!(answer.status, 200, "{}", told());
        // Notifications get no response.
        if answer.body.is_empty() {
            continue;
        }
        // Not parsed into whole values: an id is returned as written, and may be a number that is too large
        // for a value.
        let answers: Vec<Members> = match serde_json::from_str(&answer.body) {
            Ok(answers) => answers,
            Err(_) => vec![serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{error}: {}", told()))],
        };
        for one in answers {
            *(if judge(&one, told) { &mut results } else { &mut errors }) += 1;
        }
    }
    // Too many wild mutations would test only the parser.
    if cases(3_000).end - cases(3_000).start >= 1_000 {
        assert!(results > errors / 20 && errors > results / 20, "{results} results, {errors} errors");
    }
    assert_eq!(fixture.client.result("eth_blockNumber", json!([])).await, "0x2");
}

/// Mutates the whole request, including its head. The server must reply with HTTP or close the connection,
/// and keep serving other clients.
#[tokio::test]
async fn every_request_ends() {
    let fixture = fixture().await;
    let wrapped = |body: Vec<u8>| {
        let head = format!(
            "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        [head.as_bytes(), &body].concat()
    };
    let mut seeds: Vec<_> = bodies(&fixture).await.into_iter().take(8).map(wrapped).collect();
    for head in [
        "GET / HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        "OPTIONS / HTTP/1.1\r\nhost: localhost\r\norigin: https://dapp.example\r\naccess-control-request-method: POST\r\n\r\n",
        "GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    ] {
        seeds.push(head.into());
    }
    let words: &[&[u8]] = &[
        b"\r\n",
        b"\n",
        b"\r\n\r\n",
        b"content-length: 18446744073709551615\r\n",
        b"content-length: -1\r\n",
        b"transfer-encoding: chunked\r\n",
        b"expect: 100-continue\r\n",
        b"connection: keep-alive\r\n",
        b"host: evil.example\r\n",
        b"content-encoding: gzip\r\n",
        b"HTTP/1.0",
        b"HTTP/2.0",
        b"GET",
        b"POST",
        b"\0",
        b"ffffffffffffffff\r\n",
        b"\x81\xfe\xff\xff",
        b"\x88\x02\x03\xe8",
        b"%00",
        b"../",
    ];
    for seed in cases(1_500) {
        let request = mutated(seed, &seeds, words);
        let mut stream = fixture.client.connect().await;
        let _ = stream.write_all(&request).await;
        // Sends nothing more: the server gives up waiting for missing bytes.
        let _ = stream.shutdown().await;
        let mut answer = Vec::new();
        let told = || format!("seed {seed}: {}", String::from_utf8_lossy(&request));
        let read = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut answer)).await;
        assert!(read.is_ok(), "it was kept waiting: {}", told());
        if answer.is_empty() {
            continue;
        }
        let text = String::from_utf8_lossy(&answer);
        let status = text.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)).and_then(|status| status.parse::<u16>().ok());
        assert!(status.is_some_and(|status| status < 500 || status == 503), "{}\n{text}", told());
    }
    assert_eq!(fixture.client.result("eth_blockNumber", json!([])).await, "0x2");
}

/// Transactions of each type, with and without optional parts.
fn transactions() -> Vec<Vec<u8>> {
    let key = key();
    let entries =
        |slots: usize| AccessListItem { address: Address::repeat_byte(7), storage_keys: vec![B256::repeat_byte(9); slots] };
    let legacy = |input: Vec<u8>| TxLegacy {
        chain_id: Some(CHAIN_ID),
        nonce: 1,
        gas_price: 2_000_000_000,
        gas_limit: 21_000,
        to: TxKind::Call(Address::repeat_byte(3)),
        value: U256::from(7),
        input: input.into(),
    };
    let eip1559 = |slots: usize, to: TxKind, input: Vec<u8>| TxEip1559 {
        chain_id: CHAIN_ID,
        nonce: 200,
        gas_limit: 3_000_000,
        max_fee_per_gas: 10_000_000_000,
        max_priority_fee_per_gas: 1,
        to,
        value: U256::MAX >> 160,
        access_list: AccessList((0..slots).map(entries).collect()),
        input: input.into(),
    };
    let eip2930 = TxEip2930 {
        chain_id: CHAIN_ID,
        gas_limit: 50_000,
        gas_price: 3_000_000_000,
        to: TxKind::Create,
        access_list: AccessList(vec![entries(2)]),
        ..TxEip2930::default()
    };
    [
        key.sign(legacy(Vec::new())),
        key.sign(legacy(vec![5; 60])),
        key.sign(TxLegacy { to: TxKind::Create, ..legacy(vec![0xef, 0xf0, 0, 0]) }),
        key.sign(eip2930),
        key.sign(eip1559(0, TxKind::Call(Address::ZERO), Vec::new())),
        key.sign(eip1559(3, TxKind::Call(Address::repeat_byte(1)), vec![1; 300])),
        key.sign(eip1559(0, TxKind::Create, vec![0; 70_000])),
        transfer(0),
    ]
    .map(|raw| raw.to_vec())
    .to_vec()
}

/// Same transaction with the other valid signature, which EIP-2 forbids: anybody can compute it from the
/// first one.
fn twin(raw: &[u8]) -> Vec<u8> {
    let order = U256::from_str_radix("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141", 16).unwrap();
    let decoded = Transaction::decode(Bytes::copy_from_slice(raw)).unwrap();
    let of = |signature: &Signature| Signature::new(signature.r(), order - signature.s(), !signature.v());
    let envelope: TxEnvelope = match decoded.envelope() {
        TxEnvelope::Legacy(signed) => signed.tx().clone().into_signed(of(signed.signature())).into(),
        TxEnvelope::Eip2930(signed) => signed.tx().clone().into_signed(of(signed.signature())).into(),
        TxEnvelope::Eip1559(signed) => signed.tx().clone().into_signed(of(signed.signature())).into(),
        other => panic!("{other:?}"),
    };
    envelope.encoded_2718()
}

/// Tokens with a meaning in RLP: empty and long strings and lists, lengths with leading zeros, valid and
/// invalid types.
const RLP: &[&[u8]] = &[
    &[0x80],
    &[0xc0],
    &[0x81, 0x00],
    &[0x81, 0x7f],
    &[0x00],
    &[0xb8, 0x00],
    &[0xb8, 0x37],
    &[0xf8, 0x00],
    &[0xf8, 0x38],
    &[0xb9, 0x00, 0xff],
    &[0xf9, 0x00, 0x01],
    &[0xbf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    &[0xa0],
    &[0x94],
    &[0x01],
    &[0x02],
    &[0x03],
    &[0x04],
    &[0x7f],
    &[0x1b],
    &[0x1c],
    &[0x82, 0x00, 0x01],
    &[0x88, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
];

#[test]
fn transaction_encoding_is_unique() {
    let signed = transactions();
    let seeds: Vec<_> = signed.iter().cloned().chain(signed.iter().map(|raw| twin(raw))).collect();
    let sender = key().address();
    let (mut decoded, mut verified) = (0, 0);
    for seed in cases(20_000) {
        let raw = mutated(seed, &seeds, RLP);
        let told = || format!("seed {seed}: {}", Bytes::copy_from_slice(&raw[..raw.len().min(2_000)]));
        let gas = Transaction::declared_gas(&raw);
        let transaction = match Transaction::decode(raw.clone().into()) {
            Ok(transaction) => transaction,
            Err(error) => {
                assert_eq!(gas, Err(error), "{}", told());
                continue;
            }
        };
        decoded += 1;
        assert_eq!(gas, Ok(transaction.gas_limit()), "{}", told());
        assert_eq!(transaction.hash(), keccak256(&raw), "{}", told());
        // The encoding is unique: encoding the decoded transaction gives exactly these bytes.
        assert_eq!(transaction.envelope().encoded_2718(), raw, "{}", told());
        if let Ok(transaction) = VerifiedTransaction::verify(transaction, CHAIN_ID) {
            verified += 1;
            // Without the key, only transactions that the owner signed are valid.
            assert!(transaction.sender() != sender || signed.contains(&raw), "{}", told());
        }
    }
    if cases(20_000).end - cases(20_000).start >= 1_000 {
        assert!(decoded > 50 && verified > 20, "{decoded} of them decode, {verified} have a sender");
    }
}
