//! Epochs: where a verifier may begin, what it follows, and what stops it.

#![allow(clippy::unwrap_used)] // the lint spares test functions, not their helpers

#[path = "../../crypto/tests/common/mod.rs"]
mod common;

use common::{
    chain::{Chain, DAY_S},
    staked_genesis,
};
use corniche_api::{Certificate, EpochChange};
use corniche_types::{Bytes, Header, LightMember, TrustPoint, header_hash};
use corniche_verifier::{MAX_HEADERS, Verifier};
use serde_json::{Value, json};

const SET: [(u8, u32); 4] = [(4, 1), (5, 1), (6, 1), (7, 1)];

fn ask(verifier: &mut Verifier, question: &Value) -> Value {
    serde_json::from_str(&verifier.handle(question.to_string().as_bytes())).unwrap()
}

fn day(day: u64) -> u64 {
    1_000 * DAY_S * day
}

fn opened(accept_expired_trust: bool) -> Verifier {
    let mut verifier = Verifier::default();
    let text = staked_genesis(4).to_json();
    let answer = ask(&mut verifier, &json!({"open": {"genesis": text, "acceptExpiredTrust": accept_expired_trust}}));
    assert_eq!(answer["ok"]["validators"], 4, "{answer}");
    verifier
}

fn advance(change: &corniche_types::EpochChange, now_ms: u64) -> Value {
    json!({"advance": {"changes": [EpochChange::from(change)], "nowMs": now_ms}})
}

fn final_block(chain: &Chain, header: &Header, now_ms: u64) -> Value {
    json!({"final": {"certificate": Certificate::from(&chain.sign(header, &[0, 1, 2])), "headers": [header], "nowMs": now_ms}})
}

fn point(change: &corniche_types::EpochChange) -> TrustPoint {
    TrustPoint { chain_id: 77, epoch: change.certificate.epoch, hash: header_hash(&change.header) }
}

fn trust(change: &corniche_types::EpochChange, members: &[LightMember], now_ms: u64) -> Value {
    let seat = |(index, member): (usize, &LightMember)| {
        json!({
            "index": format!("{index:#x}"), "id": null, "blsKey": Bytes::from(member.bls_key), "votes": format!("{:#x}", member.votes.0),
            "consensusKey": null, "networkKey": null, "feeAddress": null,
        })
    };
    let seats: Vec<_> = members.iter().enumerate().map(seat).collect();
    let committee = json!({"epoch": "0x1", "committeeHash": header_hash(&change.header), "quorum": "0x3", "members": seats});
    // The node has no members in a change that keeps the set.
    let change = corniche_types::EpochChange { members: None, ..change.clone() };
    json!({"trust": {"text": point(&change).to_string(), "change": EpochChange::from(&change), "committee": committee, "nowMs": now_ms}})
}

#[test]
fn old_genesis_needs_a_trust_point_or_consent() {
    let (mut chain, _) = Chain::new();
    let change = chain.change(&SET, &[0, 1, 2]);
    let members = change.members.clone().unwrap();
    chain.enter(&SET);
    let header = Header { number: 101, base_fee_per_gas: Some(7), ..Header::default() };
    let final_at = |verifier: &mut Verifier, now_ms| ask(verifier, &final_block(&chain, &header, now_ms));

    let mut verifier = opened(false);
    let refused = ask(&mut verifier, &advance(&change, day(10)));
    assert!(refused["error"].as_str().unwrap().starts_with("the genesis is 863999 s old, more than 806400 s"), "{refused}");
    let begun = ask(&mut verifier, &trust(&change, &members, day(10)));
    assert_eq!(begun["ok"], json!({"epoch": "0x1", "trustPoint": point(&change).to_string()}));
    assert_eq!(final_at(&mut verifier, day(10))["ok"]["hash"], json!(header_hash(&header)));
    let refused = final_at(&mut verifier, day(11));
    assert!(refused["error"].as_str().unwrap().starts_with(&format!("the trust point {} is", point(&change))), "{refused}");

    let refused = ask(&mut opened(false), &trust(&change, &members, day(11)));
    assert!(refused["error"].as_str().unwrap().contains("Ask somebody whom you trust"), "{refused}");
    let refused = ask(&mut opened(false), &trust(&change, &members[1..], day(2)));
    assert!(refused["error"].as_str().unwrap().contains("expected members with the root"), "{refused}");
    let refused = ask(&mut opened(false), &json!({"trust": {"text": "genesis", "nowMs": 0}}));
    assert!(refused["error"].as_str().unwrap().starts_with("question: "), "{refused}");

    let mut accepting = opened(true);
    assert_eq!(ask(&mut accepting, &advance(&change, day(1_000)))["ok"]["trustPoint"], json!(point(&change).to_string()));
    assert!(final_at(&mut accepting, day(1_000))["ok"].is_object());
    assert!(ask(&mut opened(true), &trust(&change, &members, day(1_000)))["ok"].is_object());
}

/// The error of a chain that has split carries both certificates, and no later request succeeds.
#[test]
fn split_chain_stops_the_verifier() {
    let (chain, _) = Chain::new();
    let [first, other] = [0, 1].map(|gas_used| Header { number: 7, gas_used, base_fee_per_gas: Some(7), ..Header::default() });
    let mut verifier = opened(false);
    assert!(ask(&mut verifier, &final_block(&chain, &first, day(1)))["ok"].is_object());
    let certificate = |header| json!(Certificate::from(&chain.sign(header, &[0, 1, 2])));
    let change = chain.change(&SET, &[0, 1, 2]);
    for question in [
        final_block(&chain, &other, day(1)),
        final_block(&chain, &first, day(1)),
        advance(&change, day(1)),
        trust(&change, change.members.as_ref().unwrap(), day(1)),
    ] {
        let answer = ask(&mut verifier, &question);
        assert_eq!(answer["conflict"], json!([certificate(&first), certificate(&other)]), "{answer}");
        assert!(answer["error"].as_str().unwrap().contains("publish both certificates"), "{answer}");
    }
}

#[test]
fn requests_are_bounded() {
    let (chain, _) = Chain::new();
    let header = Header { number: 7, base_fee_per_gas: Some(7), ..Header::default() };
    let certificate = Certificate::from(&chain.sign(&header, &[0, 1, 2]));
    let asked = |headers: Vec<&Header>| {
        let question = json!({"final": {"certificate": certificate, "headers": headers, "nowMs": day(1)}});
        ask(&mut opened(false), &question)["error"].as_str().unwrap().to_owned()
    };
    assert_eq!(asked(vec![]), "no header");
    assert!(asked(vec![&header; MAX_HEADERS + 1]).contains("at most"));
    let change = EpochChange::from(&chain.change(&SET, &[0, 1, 2]));
    let many = ask(&mut opened(false), &json!({"advance": {"changes": vec![change; 65], "nowMs": day(1)}}));
    assert_eq!(many["error"], "65 epoch changes, at most 64");
}
