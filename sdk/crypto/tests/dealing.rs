//! Frozen vectors of coins that validators deal together: `fixtures/coin-dkg.json`. A change makes validators disagree about a coin.
//! `WRITE_FIXTURES=1` writes the file again.

use alloy_primitives::hex;
use corniche_crypto::{CoinKey, CoinShare, CoinTarget, Dealings, VerifiedDealing, digest, settle};
use corniche_types::{B256, Epoch, FaultModel, ValidatorIndex, Votes, Weights, wire};
use serde_json::{Value, json};

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/coin-dkg.json");
const MESSAGE: &[u8] = b"corniche coin vector";
const CHAIN_ID: u64 = 71_234;

struct Case {
    name: &'static str,
    votes: &'static [u32],
    /// Members that acknowledge nothing.
    silent: &'static [u16],
    /// Dealers with a wrong value for the last point.
    wrong: &'static [u16],
    /// Dealers that open nothing.
    closed: &'static [u16],
}

const HONEST: Case = Case { name: "", votes: &[], silent: &[], wrong: &[], closed: &[] };
const CASES: [Case; 7] = [
    Case { name: "one", votes: &[1], ..HONEST },
    Case { name: "four", votes: &[1; 4], ..HONEST },
    Case { name: "seven", votes: &[1; 7], ..HONEST },
    Case { name: "ten", votes: &[1; 10], ..HONEST },
    Case { name: "unequal votes", votes: &[4, 3, 2, 2, 1], ..HONEST },
    Case { name: "a silent member", votes: &[1; 4], silent: &[2], ..HONEST },
    Case { name: "two wrong dealers, one opens", votes: &[1; 7], wrong: &[1, 4], closed: &[4], ..HONEST },
];

fn vector(generation: u64, case: &Case) -> Value {
    let members = || (0u16..).map(ValidatorIndex).take(case.votes.len());
    let seeds: Vec<_> = members().map(|member| digest(&[generation as u8, member.0 as u8])).collect();
    let keys: Vec<_> = seeds.iter().map(|seed| CoinKey::from_seed(seed.0)).collect();
    let public: Vec<_> = keys.iter().map(CoinKey::public).collect();
    let weights = Weights::new(case.votes.iter().copied().map(Votes), FaultModel::Byzantine);
    let members_hash = B256::repeat_byte(5);
    let coin_keys = public.iter().map(|key| &key[..]);
    let target = CoinTarget::new(CHAIN_ID, Epoch(generation), members_hash, weights.clone(), coin_keys).unwrap();
    let mut dealings = Dealings::default();
    for dealer in members() {
        let mut dealing = keys[dealer.as_usize()].deal(&target, dealer);
        if case.wrong.contains(&dealer.0) {
            dealing.ciphertexts.last_mut().unwrap()[0] ^= 1;
        }
        let dealt = dealing.verify(&target, dealer).unwrap();
        let acknowledges = |member: &ValidatorIndex| {
            !case.silent.contains(&member.0) && keys[member.as_usize()].receives(&target, *member, &dealt)
        };
        dealings.acknowledged.insert(dealer, members().filter(acknowledges).collect());
        dealings.dealt.insert(dealer, dealt);
    }
    for dealer in members().filter(|dealer| !case.closed.contains(&dealer.0)) {
        let missing: Vec<_> = dealings.missing(&target, dealer).collect();
        if !missing.is_empty() {
            dealings.opened.insert(dealer, keys[dealer.as_usize()].open(&target, dealer, missing).unwrap());
        }
    }
    let coin = settle(&target, &weights, &dealings).unwrap();
    let secrets: Vec<_> = members()
        .map(|member| keys[member.as_usize()].share(&target, member, &coin.keys, &coin.qualified, &dealings).expect("a share"))
        .collect();
    let shares: Vec<(ValidatorIndex, Vec<CoinShare>)> =
        secrets.iter().map(|secret| (secret.index(), secret.sign(MESSAGE))).collect();
    let signature = coin.keys.combine(weights.quorum(), &shares).unwrap();
    assert!(coin.keys.verify(MESSAGE, &signature));
    let (whole, coin_shares) = coin.keys.to_genesis();
    let dealing = |dealt: &VerifiedDealing| {
        let bytes = wire::encode(dealt.dealing());
        json!({ "dealer": dealt.dealer(), "digest": digest(&bytes), "hex": hex::encode(bytes) })
    };
    let opened = dealings.opened.iter().map(|(dealer, opening)| {
        let values = opening.values.iter().map(|(x, value)| json!({ "x": x, "hex": hex::encode(value) }));
        json!({ "dealer": dealer, "values": values.collect::<Vec<_>>() })
    });
    json!({
        "name": case.name,
        "chain_id": CHAIN_ID,
        "generation": generation,
        "members_hash": members_hash,
        "votes": case.votes,
        "seeds": seeds,
        "coin_keys": public.iter().map(hex::encode).collect::<Vec<_>>(),
        "dealings": dealings.dealt.values().map(dealing).collect::<Vec<_>>(),
        "acks": dealings.acknowledged.values().collect::<Vec<_>>(),
        "opens": opened.collect::<Vec<_>>(),
        "qualified": coin.qualified,
        "exposed_votes": weights.weigh(coin.exposed),
        "whole": whole,
        "keys": coin_shares,
        "secrets": secrets.iter().map(|secret| secret.to_hex()).collect::<Vec<_>>(),
        "message": hex::encode(MESSAGE),
        "shares": shares.iter().map(|(_, shares)| shares.iter().map(|share| hex::encode(share.0)).collect()).collect::<Vec<Vec<_>>>(),
        "signature": hex::encode(signature.to_bytes()),
    })
}

#[test]
fn dealt_coins_are_frozen() {
    let vectors: Vec<_> = (1..).zip(&CASES).map(|(generation, case)| vector(generation, case)).collect();
    if std::env::var_os("WRITE_FIXTURES").is_some() {
        std::fs::write(FIXTURE, serde_json::to_string_pretty(&vectors).unwrap() + "\n").unwrap();
    }
    let frozen: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(FIXTURE).unwrap()).unwrap();
    assert_eq!(frozen.len(), vectors.len());
    for (frozen, vector) in frozen.iter().zip(&vectors) {
        let differing = frozen.as_object().unwrap().iter().find(|(key, value)| vector[key.as_str()] != **value);
        assert_eq!(differing, None, "{}", vector["name"]);
        assert_eq!(frozen, vector);
    }
}
