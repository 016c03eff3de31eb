//! BLS: encodings, aggregation, and the rogue key attack that proofs of possession prevent.

#[path = "common/points.rs"]
mod points;

use blst::min_sig::{AggregatePublicKey, PublicKey};
use corniche_crypto::{
    BlsPublicKey, BlsSecretKey, BlsSignature, bls_aggregate, bls_combine, bls_verify, bls_verify_aggregate, verify_possession,
    verify_possession_for,
};
use corniche_types::B256;
use points::{off_group, plus, torsion};

fn key(seed: u8) -> BlsSecretKey {
    BlsSecretKey::from_seed([seed; 32])
}

#[test]
fn signature_is_bound_to_key_and_message() {
    let signature = key(1).sign(b"header");
    assert!(bls_verify(&key(1).public(), b"header", &signature));
    assert!(!bls_verify(&key(1).public(), b"headers", &signature));
    assert!(!bls_verify(&key(2).public(), b"header", &signature));
}

#[test]
fn aggregate_is_bound_to_signers() {
    let signatures: Vec<_> = (1..=3).map(|i| key(i).sign(b"header")).collect();
    let sum = bls_aggregate(&signatures).unwrap();
    let keys: Vec<_> = (1..=4).map(|i| key(i).public()).collect();
    assert!(bls_verify_aggregate(&[&keys[0], &keys[1], &keys[2]], b"header", &sum));
    assert!(bls_verify_aggregate(&[&keys[2], &keys[0], &keys[1]], b"header", &sum), "in any order");
    assert!(!bls_verify_aggregate(&[&keys[0], &keys[1]], b"header", &sum));
    assert!(!bls_verify_aggregate(&[&keys[0], &keys[1], &keys[3]], b"header", &sum));
    assert!(!bls_verify_aggregate(&[&keys[0], &keys[1], &keys[2], &keys[2]], b"header", &sum));
    assert!(!bls_verify_aggregate(&[], b"header", &sum));
    assert_eq!(bls_aggregate(&[]), None);
}

#[test]
fn cancelling_signatures_are_rejected() {
    let signature = key(1).sign(b"header");
    let mut negated = signature.to_bytes();
    negated[0] ^= 0x20; // the sign of y
    let negated = BlsSignature::from_bytes(&negated).unwrap();
    assert_eq!(bls_aggregate(&[signature, negated]), None);
}

#[test]
fn unchecked_sum_verifies_only_as_whole() {
    let keys: Vec<_> = (1..=3).map(|i| key(i).public()).collect();
    let keys: Vec<_> = keys.iter().collect();
    let holds = |shares: &[[u8; 48]]| bls_combine(shares).filter(|sum| bls_verify_aggregate(&keys, b"header", sum));
    let good: [[u8; 48]; 3] = [1, 2, 3].map(|i| key(i).sign(b"header").to_bytes());
    let sum = bls_aggregate(&[1, 2, 3].map(|i| key(i).sign(b"header")));
    assert_eq!(holds(&good), sum);
    let of_another = key(3).sign(b"another").to_bytes();
    let identity = std::array::from_fn(|byte| if byte == 0 { 0xc0 } else { 0 });
    // A pairing does not detect the added `torsion`, and the bytes would be another signature of the message.
    let twisted = plus(&good[2], &torsion());
    for bad in [of_another, good[1], off_group(), twisted, [0xab; 48], identity] {
        assert_eq!(holds(&[good[0], good[1], bad]), None, "{bad:?}");
    }
    // Two points whose errors cancel out, even outside of the group, have a valid sum.
    let mut back = off_group();
    back[0] ^= 0x20; // the sign of y
    let liars = [plus(&good[0], &off_group()), plus(&good[1], &back)];
    assert!(liars.iter().all(|liar| BlsSignature::from_bytes(liar).is_none()), "neither is a signature by itself");
    assert_eq!(holds(&[liars[0], liars[1], good[2]]), sum);
    assert_eq!(bls_combine(&[]), None);
}

#[test]
fn rogue_key_cannot_prove_possession() {
    // key(1) − victim: its aggregate with the victim's key is key(1), independent of the victim's signatures.
    let victim = key(2).public();
    let mut rogue = AggregatePublicKey::from_public_key(&PublicKey::uncompress(&key(1).public().to_bytes()).unwrap());
    let subtracted = AggregatePublicKey::from_public_key(&PublicKey::uncompress(&victim.to_bytes()).unwrap());
    rogue.sub_aggregate(&subtracted);
    let rogue = BlsPublicKey::from_bytes(&rogue.to_public_key().compress()).unwrap();
    let forged = key(1).sign(b"header");
    assert!(bls_verify_aggregate(&[&victim, &rogue], b"header", &forged), "the victim never signed this");
    // All proofs that the attacker can make or copy: with its own key, or the victim's proof.
    for proof in [key(1).prove_possession(), key(2).prove_possession(), key(1).sign(&rogue.to_bytes())] {
        assert!(!verify_possession(&rogue, &proof));
    }
    assert!(verify_possession(&victim, &key(2).prove_possession()));
}

#[test]
fn possession_proof_is_not_signature() {
    let key = key(1);
    let bytes = key.public().to_bytes();
    assert!(!bls_verify(&key.public(), &bytes, &key.prove_possession()));
    assert!(!verify_possession(&key.public(), &key.sign(&bytes)));
}

#[test]
fn possession_proof_is_bound_to_statement() {
    let (statement, other) = (B256::with_last_byte(1), B256::with_last_byte(2));
    let (public, proof) = (key(1).public(), key(1).prove_possession_for(&statement));
    assert!(verify_possession_for(&public, &statement, &proof));
    assert!(!verify_possession_for(&public, &other, &proof));
    assert!(!verify_possession_for(&key(2).public(), &statement, &proof));
    // Neither a plain proof nor a signature of the message serves instead, and this proof is no plain one.
    let message = [public.to_bytes().as_slice(), statement.as_slice()].concat();
    for wrong in [key(1).prove_possession(), key(1).sign(&message)] {
        assert!(!verify_possession_for(&public, &statement, &wrong));
    }
    assert!(!verify_possession(&public, &proof));
}

#[test]
fn only_valid_group_points_parse() {
    let mut identity = [0u8; 48];
    identity[0] = 0xc0;
    assert_eq!(BlsSignature::from_bytes(&identity), None);
    let mut identity = [0u8; 96];
    identity[0] = 0xc0;
    assert_eq!(BlsPublicKey::from_bytes(&identity), None);
    assert_eq!(BlsSignature::from_bytes(&off_group()), None);
    let signature = key(1).sign(b"x").to_bytes();
    assert_eq!(BlsSignature::from_bytes(&signature[..47]), None);
    assert_eq!(BlsSignature::from_bytes(&[]), None);
    let uncompressed = PublicKey::uncompress(&key(1).public().to_bytes()).unwrap().serialize();
    assert_eq!(BlsPublicKey::from_bytes(&uncompressed), None, "one encoding a key");
}

#[test]
fn secrets_round_trip_and_are_redacted() {
    let secret = key(1);
    let text = secret.to_hex();
    assert_eq!(BlsSecretKey::from_hex(&text).unwrap().public(), secret.public());
    assert!(!format!("{secret:?}").contains(&text));
    assert!(BlsSecretKey::from_hex(&"0".repeat(64)).is_err());
    assert!(BlsSecretKey::from_hex(&"f".repeat(64)).is_err(), "above the order");
    assert!(BlsSecretKey::from_hex("xyz").is_err());
}
