//! `eth_getProof`: a client with a header can verify values of the state.
#![allow(clippy::unwrap_used)] // the lint exempts test functions, but not their helpers

use crate::common::{ECHO, FUNDED, Fixture, RELAY, call, relayed, transfer};
use alloy_primitives::{Address, B256, Bytes, U256};
use corniche_api::Namespaces;
use corniche_rpc::RpcConfig;
use corniche_types::proof::{verify_account, verify_storage};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;

const NOBODY: Address = Address::repeat_byte(0x0b);

/// Wallet that trusts only headers.
struct Wallet<'f> {
    fixture: &'f Fixture,
    block: u64,
    root: B256,
}

fn parts(proof: &Value) -> Vec<Bytes> {
    serde_json::from_value(proof.clone()).unwrap()
}

impl<'f> Wallet<'f> {
    async fn at(fixture: &'f Fixture, block: u64) -> Self {
        let header = fixture.client.result("eth_getBlockByNumber", json!([U256::from(block), false])).await;
        Self { fixture, block, root: serde_json::from_value(header["stateRoot"].clone()).unwrap() }
    }

    /// Requests a proof and verifies every part of it.
    async fn ask(&self, address: Address, slots: &[&str]) -> Value {
        let answer = self.fixture.client.result("eth_getProof", json!([address, slots, U256::from(self.block)])).await;
        let account = verify_account(&self.root, &address, &parts(&answer["accountProof"])).unwrap();
        assert_eq!(answer["storageHash"], json!(self.root));
        let told = (&answer["nonce"], &answer["balance"], &answer["codeHash"]);
        match account {
            Some(account) => assert_eq!(
                told,
                (&json!(U256::from(account.nonce)), &json!(account.balance), &json!(account.code_hash)),
                "{address} at {}",
                self.block
            ),
            None => assert_eq!(told, (&json!("0x0"), &json!("0x0"), &json!(B256::ZERO))),
        }
        assert_eq!(answer["storageProof"].as_array().unwrap().len(), slots.len());
        for (slot, told) in slots.iter().zip(answer["storageProof"].as_array().unwrap()) {
            assert_eq!(told["key"], *slot);
            let number: U256 = slot.parse().unwrap();
            let value = verify_storage(&self.root, &address, &number.into(), &parts(&told["proof"])).unwrap();
            assert_eq!(told["value"], json!(U256::from_be_bytes(value.0)));
        }
        answer
    }
}

#[tokio::test]
async fn proofs_verify_against_state_root() {
    let fixture = Fixture::start().await;
    fixture.chain.execute(&[call(0, RELAY, relayed('c', 1, ECHO, b""))]);
    fixture.chain.execute(&[transfer(1)]);
    fixture.chain.execute(&[call(2, RELAY, relayed('c', 1, ECHO, b"")), transfer(3)]);
    // Forwards, backwards, and the same block twice.
    for (block, count, nonce) in [(3, 2, 4), (1, 1, 1), (1, 1, 1), (2, 1, 2), (0, 0, 0), (3, 2, 4)] {
        let wallet = Wallet::at(&fixture, block).await;
        let relay = wallet.ask(RELAY, &["0x0", "0x7"]).await;
        assert_eq!(relay["storageProof"][0]["value"], json!(U256::from(count)), "block {block}");
        assert_eq!(relay["storageProof"][1]["value"], "0x0");
        assert_eq!(wallet.ask(FUNDED, &[]).await["nonce"], json!(U256::from(nonce)));
        let whole = "0x0000000000000000000000000000000000000000000000000000000000000003";
        let echo = wallet.ask(ECHO, &["0x3", whole]).await;
        assert_eq!(echo["storageProof"][1]["value"], json!(U256::from_be_bytes([0x55; 32])));
        wallet.ask(NOBODY, &["0x0"]).await;
    }
}

#[tokio::test]
async fn proof_fails_for_other_value() {
    let fixture = Fixture::start().await;
    fixture.chain.execute(&[call(0, RELAY, relayed('c', 1, ECHO, b""))]);
    fixture.chain.execute(&[call(1, RELAY, relayed('c', 1, ECHO, b""))]);
    let (wallet, earlier) = (Wallet::at(&fixture, 2).await, Wallet::at(&fixture, 1).await);
    let answer = wallet.ask(RELAY, &["0x0"]).await;
    let account = parts(&answer["accountProof"]);
    let slot = parts(&answer["storageProof"][0]["proof"]);
    assert!(verify_account(&earlier.root, &RELAY, &account).is_err(), "another state");
    assert!(verify_account(&wallet.root, &ECHO, &account).is_err(), "another account");
    assert!(verify_storage(&wallet.root, &RELAY, &B256::with_last_byte(1), &slot).is_err(), "another slot");
    assert!(verify_storage(&wallet.root, &ECHO, &B256::ZERO, &slot).is_err(), "another contract's slot");
    for (proof, holds) in [
        (&account, &(|proof: &[Bytes]| verify_account(&wallet.root, &RELAY, proof).is_ok()) as &dyn Fn(&[Bytes]) -> bool),
        (&slot, &|proof: &[Bytes]| verify_storage(&wallet.root, &RELAY, &B256::ZERO, proof).is_ok()),
    ] {
        assert!(holds(proof));
        for part in 0..proof.len() {
            for byte in 0..proof[part].len() {
                let mut bytes = proof[part].to_vec();
                bytes[byte] ^= 0x10;
                let mut tampered = proof.clone();
                tampered[part] = bytes.into();
                assert!(!holds(&tampered), "part {part}, byte {byte}");
            }
        }
    }
}

#[tokio::test]
async fn unprovable_requests_are_rejected() {
    let fixture = Fixture::start().await;
    fixture.chain.execute(&[transfer(0)]);
    fixture.chain.execute(&[transfer(1)]);
    let many = vec!["0x0"; 1_025];
    for (params, code, message) in [
        (json!([FUNDED, many, "latest"]), -32602, "exceed max storage slots: 1025 of at most 1024"),
        (json!([FUNDED, [], "0x9"]), -32000, "header not found"),
        (json!([FUNDED, ["0x0g"], "latest"]), -32602, "invalid argument 1"),
        (json!([FUNDED]), -32602, "missing value for required argument 1"),
    ] {
        let error = fixture.client.error("eth_getProof", params).await;
        assert!(error.0 == code && error.1.starts_with(message), "{error:?}");
    }
    assert_eq!(fixture.client.result("eth_getProof", json!([FUNDED, many[1..], "latest"])).await["nonce"], "0x2");
    fixture.chain.forget_states_below(2);
    let (code, message) = fixture.client.error("eth_getProof", json!([FUNDED, [], "0x1"])).await;
    assert!(code == -32000 && message.starts_with("state not available"), "{message}");
}

#[tokio::test]
async fn distant_block_copies_no_tree() {
    let config = RpcConfig { max_proof_keys: 3, namespaces: Namespaces::all(), ..RpcConfig::default() };
    let fixture = Fixture::with(config).await;
    for nonce in [0, 2, 4, 6] {
        fixture.chain.execute(&[call(nonce, RELAY, relayed('c', 1, ECHO, b""))]);
        fixture.chain.execute(&[transfer(nonce + 1)]);
    }
    for _ in 0..3 {
        let (code, message) = fixture.client.error("eth_getProof", json!([FUNDED, [], "0x0"])).await;
        assert!(code == -32000 && message.contains("too many changes since that block"), "{message}");
    }
    assert_eq!(fixture.chain.trees_given.load(Ordering::SeqCst), 0);
    // A near block is proven with one copy; a far one is refused without another copy.
    Wallet::at(&fixture, 7).await.ask(FUNDED, &[]).await;
    fixture.client.error("eth_getProof", json!([FUNDED, [], "0x0"])).await;
    Wallet::at(&fixture, 8).await.ask(FUNDED, &[]).await;
    assert_eq!(fixture.chain.trees_given.load(Ordering::SeqCst), 1);
}
