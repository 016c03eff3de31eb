//! BLS: encodings, aggregation, and the attack that proofs of possession are for.

use blst::min_sig::{AggregatePublicKey, PublicKey};
use corniche_crypto::{
    BlsPublicKey, BlsSecretKey, BlsSignature, bls_aggregate, bls_verify, bls_verify_aggregate, verify_possession,
};

fn key(seed: u8) -> BlsSecretKey {
    BlsSecretKey::from_seed([seed; 32])
}

#[test]
fn a_signature_holds_for_its_key_and_message() {
    let signature = key(1).sign(b"header");
    assert!(bls_verify(&key(1).public(), b"header", &signature));
    assert!(!bls_verify(&key(1).public(), b"headers", &signature));
    assert!(!bls_verify(&key(2).public(), b"header", &signature));
}

#[test]
fn an_aggregate_holds_for_exactly_its_signers() {
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
fn signatures_that_cancel_out_are_no_signature() {
    let signature = key(1).sign(b"header");
    let mut negated = signature.to_bytes();
    negated[0] ^= 0x20; // the sign of y
    let negated = BlsSignature::from_bytes(&negated).unwrap();
    assert_eq!(bls_aggregate(&[signature, negated]), None);
}

#[test]
fn a_rogue_key_would_forge_and_cannot_prove_possession() {
    // key(1) − victim: an aggregate with the victim's key is key(1), whatever the victim signs.
    let victim = key(2).public();
    let mut rogue = AggregatePublicKey::from_public_key(&PublicKey::uncompress(&key(1).public().to_bytes()).unwrap());
    let subtracted = AggregatePublicKey::from_public_key(&PublicKey::uncompress(&victim.to_bytes()).unwrap());
    rogue.sub_aggregate(&subtracted);
    let rogue = BlsPublicKey::from_bytes(&rogue.to_public_key().compress()).unwrap();
    let forged = key(1).sign(b"header");
    assert!(bls_verify_aggregate(&[&victim, &rogue], b"header", &forged), "the victim never signed this");
    // What the attacker can sign with: its own key, or the victim's proof.
    for proof in [key(1).prove_possession(), key(2).prove_possession(), key(1).sign(&rogue.to_bytes())] {
        assert!(!verify_possession(&rogue, &proof));
    }
    assert!(verify_possession(&victim, &key(2).prove_possession()));
}

#[test]
fn a_proof_of_possession_is_not_a_signature_and_the_reverse() {
    let key = key(1);
    let bytes = key.public().to_bytes();
    assert!(!bls_verify(&key.public(), &bytes, &key.prove_possession()));
    assert!(!verify_possession(&key.public(), &key.sign(&bytes)));
}

#[test]
fn only_compressed_points_of_the_group_that_are_not_the_identity_parse() {
    let mut identity = [0u8; 48];
    identity[0] = 0xc0;
    assert_eq!(BlsSignature::from_bytes(&identity), None);
    let mut identity = [0u8; 96];
    identity[0] = 0xc0;
    assert_eq!(BlsPublicKey::from_bytes(&identity), None);
    // On the curve, outside of the group: x = 4 has a y, and the curve has a cofactor.
    let off_group = (0u8..=255).find_map(|x| {
        let mut bytes = [0u8; 48];
        (bytes[0], bytes[47]) = (0x80, x);
        let point = blst::min_sig::Signature::uncompress(&bytes).ok()?;
        point.validate(true).is_err().then_some(bytes)
    });
    assert_eq!(BlsSignature::from_bytes(&off_group.expect("most points are outside")), None);
    let signature = key(1).sign(b"x").to_bytes();
    assert_eq!(BlsSignature::from_bytes(&signature[..47]), None);
    assert_eq!(BlsSignature::from_bytes(&[]), None);
    let uncompressed = PublicKey::uncompress(&key(1).public().to_bytes()).unwrap().serialize();
    assert_eq!(BlsPublicKey::from_bytes(&uncompressed), None, "one encoding a key");
}

#[test]
fn secrets_survive_as_text_and_are_not_printed() {
    let secret = key(1);
    let text = secret.to_hex();
    assert_eq!(BlsSecretKey::from_hex(&text).unwrap().public(), secret.public());
    assert!(!format!("{secret:?}").contains(&text));
    assert!(BlsSecretKey::from_hex(&"0".repeat(64)).is_err());
    assert!(BlsSecretKey::from_hex(&"f".repeat(64)).is_err(), "above the order");
    assert!(BlsSecretKey::from_hex("xyz").is_err());
}
