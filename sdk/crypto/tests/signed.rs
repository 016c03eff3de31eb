//! Engine messages: a signature is valid for one payload, one key and one domain.

use corniche_crypto::{ConsensusKey, ConsensusPublicKey, Domain, SignatureInvalid, Signed};
use corniche_types::{B256, Epoch, wire};
use proptest::prelude::*;

fn domain() -> Domain {
    Domain { tag: "corniche-test", chain_id: 7, epoch: Epoch(2), committee_hash: B256::repeat_byte(3) }
}

#[test]
fn signature_is_bound_to_domain() {
    let key = ConsensusKey::from_seed([1; 32]);
    let signed = Signed::sign(5u64, &key, &domain());
    assert_eq!(*signed.clone().verify(&key.public_key(), &domain()).unwrap(), 5);
    for (what, other) in [
        ("tag", Domain { tag: "corniche-tesu", ..domain() }),
        ("chain id", Domain { chain_id: 8, ..domain() }),
        ("epoch", Domain { epoch: Epoch(3), ..domain() }),
        ("committee", Domain { committee_hash: B256::repeat_byte(4), ..domain() }),
    ] {
        assert_eq!(signed.clone().verify(&key.public_key(), &other), Err(SignatureInvalid), "another {what}");
    }
    let other_key = ConsensusKey::from_seed([2; 32]).public_key();
    assert_eq!(signed.clone().verify(&other_key, &domain()), Err(SignatureInvalid));
    let other_payload = Signed { payload: 6u64, ..signed };
    assert_eq!(other_payload.verify(&key.public_key(), &domain()), Err(SignatureInvalid));
}

#[test]
fn rejects_invalid_public_keys() {
    // The identity, and a point of order 8: they would verify signatures of any message.
    let mut identity = [0u8; 32];
    identity[0] = 1;
    let order_8 = alloy_primitives::hex!("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05");
    for bytes in [identity, order_8, [0; 32]] {
        assert_eq!(ConsensusPublicKey::parse(&B256::new(bytes)), None);
    }
    let off_curve =
        (2u8..=255).map(B256::repeat_byte).filter(|bytes| ConsensusPublicKey::parse(bytes).is_none()).take(50).count();
    assert_eq!(off_curve, 50, "about half of all bytes are not on the curve");
    let key = ConsensusKey::from_seed([1; 32]);
    assert_eq!(ConsensusPublicKey::parse(&key.public()).unwrap().to_bytes(), key.public());
}

#[test]
fn rfc_8032_test_1_public_key() {
    let key = ConsensusKey::from_hex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60").unwrap();
    assert_eq!(key.public(), alloy_primitives::b256!("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"));
    assert!(!format!("{key:?}").contains("9d61"), "the secret is never printed");
    assert_eq!(ConsensusKey::from_hex(&key.to_hex()).unwrap().public(), key.public());
}

#[test]
fn rejects_trailing_bytes() {
    let signed = Signed::sign(vec![1u8, 2], &ConsensusKey::from_seed([1; 32]), &domain());
    let mut bytes = wire::encode(&signed);
    assert_eq!(wire::decode::<Signed<Vec<u8>>>(&bytes).unwrap(), signed);
    bytes.push(0);
    assert!(wire::decode::<Signed<Vec<u8>>>(&bytes).is_err());
}

proptest! {
    #[test]
    fn changed_bit_is_detected(payload: Vec<u8>, seed: [u8; 32], bit: prop::sample::Index) {
        let key = ConsensusKey::from_seed(seed);
        let signed = Signed::sign(payload, &key, &domain());
        let mut bytes = wire::encode(&signed);
        prop_assert!(signed.verify(&key.public_key(), &domain()).is_ok());
        // Any bit except in the version byte.
        let bit = 8 + bit.index((bytes.len() - 1) * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        if let Ok(changed) = wire::decode::<Signed<Vec<u8>>>(&bytes) {
            prop_assert!(changed.verify(&key.public_key(), &domain()).is_err());
        }
    }
}
