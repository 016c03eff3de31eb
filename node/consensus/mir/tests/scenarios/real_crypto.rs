//! Keys of production.

use corniche_crypto::ConsensusKey;
use corniche_engine::Committee;
use corniche_mir::{
    Signatures, Signer,
    crypto::{CommitteeKeys, ValidatorKeys},
    message::{Context, Sn, Statement},
};
use corniche_types::{Address, B256, Bytes, ValidatorIndex, ValidatorInfo, Votes};

fn key(number: u8) -> ConsensusKey {
    ConsensusKey::from_seed([number; 32])
}

#[test]
fn signatures_bind_signer_and_statement() {
    let validator = |number: u8| ValidatorInfo {
        consensus_key: key(number).public(),
        bls_key: Bytes::new(),
        bls_proof: Bytes::new(),
        network_key: B256::ZERO,
        fee_address: Address::ZERO,
        votes: Votes(1),
        stake: None,
    };
    let committee = Committee::from_genesis(&corniche_testkit::genesis("mir", (1..=4).map(validator).collect()));
    let keys = CommitteeKeys::new(&committee).unwrap();
    let signer = ValidatorKeys::new(&committee, key(3)).unwrap();
    assert_eq!(signer.index(), ValidatorIndex(2));
    assert!(ValidatorKeys::new(&committee, key(9)).is_none());
    let context = Context::new(&committee);
    let statement = Statement::Checkpoint { sn: Sn(8), hash: B256::with_last_byte(1) };
    let signature = context.sign(&statement, &signer).unwrap();
    assert!(context.verify(ValidatorIndex(2), &statement, &signature, &keys));
    assert!(!context.verify(ValidatorIndex(1), &statement, &signature, &keys));
    assert!(!keys.verify(ValidatorIndex(7), &context.digest(&statement), &signature));
    let other = Statement::Checkpoint { sn: Sn(9), hash: B256::with_last_byte(1) };
    assert!(!context.verify(ValidatorIndex(2), &other, &signature, &keys));
}
