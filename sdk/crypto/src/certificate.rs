//! Checking commit certificates: what anyone needs to trust a header without trusting who served it.

use crate::{
    bls::{BlsPublicKey, BlsSignature, bls_verify_aggregate},
    genesis::{GenesisKeyError, member_keys},
};
use corniche_types::{B256, Certificate, Epoch, FaultModel, Genesis, ValidatorIndex};

/// Why a certificate proves nothing.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum CertificateError {
    /// It is of another epoch than the committee.
    #[error("certificate of epoch {found}, committee of epoch {expected}")]
    Epoch {
        /// The committee's.
        expected: Epoch,
        /// The certificate's.
        found: Epoch,
    },
    /// Another committee signed it, or this one on another chain.
    #[error("certificate of committee {found}, expected {expected}")]
    Committee {
        /// Hash of the committee it was held against.
        expected: B256,
        /// Hash of the one it names.
        found: B256,
    },
    /// It rests on another fault model than the chain does.
    #[error("certificate under the fault model {found:?}, expected {expected:?}")]
    FaultModel {
        /// The chain's.
        expected: FaultModel,
        /// The one it names.
        found: FaultModel,
    },
    /// The bitmap is longer or shorter than the committee, or names somebody who is not in it.
    #[error("signer bitmap is not one for {committee_size} validators")]
    Bitmap {
        /// How many members the committee has.
        committee_size: usize,
    },
    /// Too few signed.
    #[error("{signers} signers, a quorum is {quorum}")]
    NoQuorum {
        /// How many did.
        signers: usize,
        /// How many have to.
        quorum: usize,
    },
    /// The signature is not a point of the group, or its identity.
    #[error("aggregate signature is not a point of the group")]
    Malformed,
    /// The signature is not the sum of the signatures of those whom the bitmap names.
    #[error("aggregate signature does not verify")]
    Invalid,
}

/// Checks one certificate against a committee: the cheap comparisons first, then one pairing (about 1 ms).
pub fn verify_certificate(
    certificate: &Certificate,
    chain_id: u64,
    keys: &[BlsPublicKey],
    committee_hash: B256,
    fault_model: FaultModel,
    quorum: usize,
) -> Result<(), CertificateError> {
    let claim = check_claim(certificate, chain_id, keys.len(), committee_hash, fault_model, quorum)?;
    let signature = BlsSignature::from_bytes(&certificate.signature).ok_or(CertificateError::Malformed)?;
    let signing_keys: Vec<&BlsPublicKey> = claim.signers.iter().map(|signer| &keys[signer.as_usize()]).collect();
    bls_verify_aggregate(&signing_keys, &claim.message, &signature).then_some(()).ok_or(CertificateError::Invalid)
}

/// What a certificate says: that these validators signed this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateClaim {
    /// A quorum at least, each one in the committee.
    pub signers: Vec<ValidatorIndex>,
    /// The bytes that each of them signed ([`Certificate::signed_bytes`]).
    pub message: Vec<u8>,
}

/// Checks everything about a certificate but its signature.
pub fn check_claim(
    certificate: &Certificate,
    chain_id: u64,
    committee_size: usize,
    committee_hash: B256,
    fault_model: FaultModel,
    quorum: usize,
) -> Result<CertificateClaim, CertificateError> {
    if certificate.committee_hash != committee_hash {
        return Err(CertificateError::Committee { expected: committee_hash, found: certificate.committee_hash });
    }
    if certificate.fault_model != fault_model {
        return Err(CertificateError::FaultModel { expected: fault_model, found: certificate.fault_model });
    }
    let signers = certificate.signers.signers(committee_size).ok_or(CertificateError::Bitmap { committee_size })?;
    if signers.len() < quorum.max(1) {
        return Err(CertificateError::NoQuorum { signers: signers.len(), quorum });
    }
    let (epoch, height, header_hash) = (certificate.epoch, certificate.height, certificate.header_hash);
    let message = Certificate::signed_bytes(chain_id, epoch, committee_hash, height, header_hash, fault_model);
    Ok(CertificateClaim { signers, message })
}

/// A committee as far as its certificates are concerned. Parse once, check many.
#[derive(Clone, Debug)]
pub struct CommitteeKeys {
    chain_id: u64,
    epoch: Epoch,
    committee_hash: B256,
    fault_model: FaultModel,
    keys: Vec<BlsPublicKey>,
}

impl CommitteeKeys {
    /// The first committee, proofs of possession checked.
    pub fn from_genesis(genesis: &Genesis) -> Result<Self, GenesisKeyError> {
        Ok(Self {
            chain_id: genesis.chain_id,
            epoch: Epoch(0),
            committee_hash: genesis.committee_hash(),
            fault_model: genesis.fault_model(),
            keys: member_keys(genesis)?,
        })
    }

    /// By validator index.
    pub fn keys(&self) -> &[BlsPublicKey] {
        &self.keys
    }

    /// Whether a quorum of this committee signed it.
    pub fn verify(&self, certificate: &Certificate) -> Result<(), CertificateError> {
        if certificate.epoch != self.epoch {
            return Err(CertificateError::Epoch { expected: self.epoch, found: certificate.epoch });
        }
        let quorum = self.fault_model.quorum(self.keys.len());
        verify_certificate(certificate, self.chain_id, &self.keys, self.committee_hash, self.fault_model, quorum)
    }
}
