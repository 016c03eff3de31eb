//! Committee with real keys, and certifiers for its members.
#![allow(dead_code, reason = "each test file uses its part")]

use corniche_certify::{CertificateVerifier, Certifier, Keys, Output, Share, VerifiedCertificate};
use corniche_crypto::{BlsSecretKey, CommitteeKeys, ConsensusKey};
use corniche_engine::Committee;
use corniche_types::{
    Address, B256, Bytes, Certificate, EngineConfig, Epoch, FeeRules, Genesis, Height, SignatureChecks, TimestampMs,
    ValidatorIndex, ValidatorInfo,
};

pub const CHAIN_ID: u64 = 77;

pub fn key(validator: u16) -> BlsSecretKey {
    BlsSecretKey::from_seed([100 + u8::try_from(validator).expect("a small committee"); 32])
}

pub fn genesis(validators: u16) -> Genesis {
    let infos = (0..validators).map(|i| ValidatorInfo {
        consensus_key: ConsensusKey::from_seed([i as u8; 32]).public(),
        bls_key: key(i).public().to_bytes().to_vec().into(),
        bls_proof: key(i).prove_possession().to_bytes().to_vec().into(),
        network_key: B256::ZERO,
        fee_address: Address::ZERO,
        votes: corniche_types::Votes(1),
        stake: None,
    });
    Genesis {
        protocol_version: 1,
        upgrades: Vec::new(),
        chain_id: CHAIN_ID,
        currency: "COR".into(),
        timestamp_ms: TimestampMs(0),
        block_ms: 50,
        block_gas_limit: 30_000_000,
        batch_bytes: 1 << 20,
        batch_gas: 30_000_000,
        epoch_blocks: 1_000,
        fees: FeeRules { initial_base_fee: 1, target_gas_per_second: 1_000_000 },
        engine: EngineConfig { name: "mahi-mahi".into(), parameters: Default::default() },
        validators: infos.collect(),
        coin_shares: vec![Bytes::new(); validators.into()],
        coin_public_key: Bytes::new(),
        accounts: Default::default(),
        signatures: SignatureChecks::Everyone,
        staking: None,
        coin_draft: None,
        multicast: None,
    }
}

pub fn validator(n: u16, index: u16) -> Certifier {
    let committee = Committee::from_genesis(&genesis(n));
    let keys = Keys::bls(&committee, Some((ValidatorIndex(index), key(index))));
    Certifier::new(committee, keys)
}

pub fn full_node(n: u16) -> Certifier {
    let committee = Committee::from_genesis(&genesis(n));
    let keys = Keys::bls(&committee, None);
    Certifier::new(committee, keys)
}

pub fn verifier(n: u16) -> CertificateVerifier {
    let committee = Committee::from_genesis(&genesis(n));
    let keys = Keys::bls(&committee, None);
    CertificateVerifier::new(committee, &keys)
}

/// For a committee of four.
pub fn verified(certificate: Certificate) -> VerifiedCertificate {
    verifier(4).verify(certificate).expect("a quorum signed it")
}

/// Agreed header hash of this height.
pub fn header(height: u64) -> B256 {
    B256::left_padding_from(&height.to_be_bytes())
}

/// Valid share of validator `signer` for this header.
pub fn share(n: u16, signer: u16, height: u64, header_hash: B256) -> Bytes {
    let committee = Committee::from_genesis(&genesis(n));
    let (hash, model) = (committee.hash(), committee.fault_model());
    let message = Certificate::signed_bytes(CHAIN_ID, Epoch(0), hash, Height(height), header_hash, model);
    Share { epoch: Epoch(0), height: Height(height), header_hash, signature: key(signer).sign(&message).to_bytes() }.encode()
}

/// Share with a signature of something else.
pub fn false_share(n: u16, signer: u16, height: u64, header_hash: B256) -> Bytes {
    forged_share(n, signer, height, header_hash, key(signer).sign(b"something else").to_bytes())
}

/// Share with these bytes as the signature.
pub fn forged_share(n: u16, signer: u16, height: u64, header_hash: B256, signature: [u8; 48]) -> Bytes {
    let share = Share::decode(&share(n, signer, height, header_hash)).expect("just encoded");
    Share { signature, ..share }.encode()
}

pub fn drain(certifier: &mut Certifier) -> Vec<Output> {
    std::iter::from_fn(|| certifier.poll()).collect()
}

/// Certificates among the outputs, each verified as by a light client.
pub fn certified(n: u16, outputs: &[Output]) -> Vec<Certificate> {
    let keys = CommitteeKeys::from_genesis(&genesis(n)).expect("sound keys");
    let certificates = outputs.iter().filter_map(|output| match output {
        Output::Certified(certificate) => Some(certificate.clone()),
        _ => None,
    });
    certificates.inspect(|certificate| keys.verify(certificate).expect("a certificate that proves something")).collect()
}
