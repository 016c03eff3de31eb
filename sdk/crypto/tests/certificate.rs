//! Certificates that a light client refuses.

mod common;

use common::{certify, genesis};
use corniche_crypto::{CertificateError, CommitteeKeys, verify_certificate};
use corniche_types::{
    B256, Bytes, Certificate, Epoch, FaultModel, Genesis, Height, SignerBitmap, ValidatorInfo, Votes, Weights,
};

const HEADER: B256 = B256::repeat_byte(0xaa);

#[test]
fn quorum_certifies_and_less_does_not() {
    let genesis = genesis(4);
    let keys = CommitteeKeys::from_genesis(&genesis).unwrap();
    for signers in [&[0, 1, 2][..], &[1, 2, 3], &[0, 1, 2, 3]] {
        assert_eq!(keys.verify(&certify(&genesis, signers, 5, HEADER)), Ok(()), "{signers:?}");
    }
    let short = certify(&genesis, &[0, 1], 5, HEADER);
    assert_eq!(keys.verify(&short), Err(CertificateError::NoQuorum { votes: Votes(2), quorum: Votes(3) }));
}

#[test]
fn signers_are_weighed() {
    // W = 7, F = 2, Q = 5.
    let mut genesis = genesis(4);
    genesis.protocol_version = 2;
    genesis.validators.iter_mut().zip([2, 2, 2, 1]).for_each(|(validator, votes)| validator.votes = Votes(votes));
    let keys = CommitteeKeys::from_genesis(&genesis).unwrap();
    assert_eq!(keys.verify(&certify(&genesis, &[0, 1, 3], 5, HEADER)), Ok(()));
    let two = certify(&genesis, &[0, 1], 5, HEADER);
    assert_eq!(keys.verify(&two), Err(CertificateError::NoQuorum { votes: Votes(4), quorum: Votes(5) }));
    // The votes are part of what is signed, because the committee hash covers them.
    let equal = Genesis { validators: genesis.validators.iter().map(one_vote).collect(), ..genesis.clone() };
    assert_ne!(equal.committee_hash(), genesis.committee_hash());
}

fn one_vote(validator: &ValidatorInfo) -> ValidatorInfo {
    ValidatorInfo { votes: Votes(1), ..validator.clone() }
}

#[test]
fn false_signer_is_detected() {
    let genesis = genesis(4);
    let keys = CommitteeKeys::from_genesis(&genesis).unwrap();
    let signers = SignerBitmap(Bytes::from_static(&[0b0111]));
    let padded = Certificate { signers, ..certify(&genesis, &[0, 1], 5, HEADER) };
    assert_eq!(keys.verify(&padded), Err(CertificateError::Invalid));
}

#[test]
fn every_field_is_verified() {
    let genesis = genesis(4);
    let keys = CommitteeKeys::from_genesis(&genesis).unwrap();
    let good = certify(&genesis, &[0, 1, 2], 5, HEADER);
    let other_hash = B256::repeat_byte(1);
    let changed = [
        (Certificate { height: Height(6), ..good.clone() }, CertificateError::Invalid),
        (Certificate { header_hash: other_hash, ..good.clone() }, CertificateError::Invalid),
        (Certificate { epoch: Epoch(1), ..good.clone() }, CertificateError::Epoch { expected: Epoch(0), found: Epoch(1) }),
        (
            Certificate { committee_hash: other_hash, ..good.clone() },
            CertificateError::Committee { expected: genesis.committee_hash(), found: other_hash },
        ),
        (
            Certificate { fault_model: FaultModel::Crash, ..good.clone() },
            CertificateError::FaultModel { expected: FaultModel::Byzantine, found: FaultModel::Crash },
        ),
        (Certificate { signature: Bytes::new(), ..good.clone() }, CertificateError::Malformed),
        (Certificate { signature: vec![0xab; 48].into(), ..good.clone() }, CertificateError::Malformed),
    ];
    for (certificate, error) in changed {
        assert_eq!(keys.verify(&certificate), Err(error), "{certificate:?}");
    }
    let by_key = |chain_id| {
        verify_certificate(&good, chain_id, keys.keys(), genesis.committee_hash(), FaultModel::Byzantine, &genesis.weights())
    };
    assert_eq!(by_key(77), Ok(()));
    assert_eq!(by_key(78), Err(CertificateError::Invalid), "another chain");
}

#[test]
fn bitmaps_are_canonical() {
    let genesis = genesis(4);
    let keys = CommitteeKeys::from_genesis(&genesis).unwrap();
    let good = certify(&genesis, &[0, 1, 2], 5, HEADER);
    for bytes in [vec![], vec![0b0111, 0], vec![0b1_0111]] {
        let changed = Certificate { signers: SignerBitmap(bytes.clone().into()), ..good.clone() };
        assert_eq!(keys.verify(&changed), Err(CertificateError::Bitmap { committee_size: 4 }), "{bytes:?}");
    }
}

#[test]
fn zero_quorum_needs_signer() {
    let genesis = genesis(4);
    let keys = CommitteeKeys::from_genesis(&genesis).unwrap();
    let nobody = certify(&genesis, &[], 5, HEADER);
    let no_votes = Weights::new([Votes(0); 4], FaultModel::Byzantine);
    let result = verify_certificate(&nobody, 77, keys.keys(), genesis.committee_hash(), FaultModel::Byzantine, &no_votes);
    assert_eq!(result, Err(CertificateError::NoQuorum { votes: Votes(0), quorum: Votes(0) }));
}
