//! Verification of commit certificates: allows trust in a header without trust in the server that sent it.

use crate::{
    bls::{BlsPublicKey, BlsSignature, bls_verify_aggregate},
    genesis::{GenesisKeyError, member_keys},
};
use corniche_types::{B256, Certificate, Epoch, FaultModel, Genesis, ValidatorIndex, Votes, Weights};
use std::sync::Arc;

/// Why a certificate is invalid.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum CertificateError {
    /// Its epoch differs from the committee's.
    #[error("certificate: expected epoch {expected}, got {found}")]
    Epoch {
        /// The committee's epoch.
        expected: Epoch,
        /// The certificate's epoch.
        found: Epoch,
    },
    /// It names another committee, or this committee on another chain.
    #[error("certificate: expected committee {expected}, got {found}")]
    Committee {
        /// Hash of the expected committee.
        expected: B256,
        /// Hash in the certificate.
        found: B256,
    },
    /// Its fault model differs from the chain's.
    #[error("certificate: expected fault model {expected:?}, got {found:?}")]
    FaultModel {
        /// The chain's fault model.
        expected: FaultModel,
        /// The certificate's fault model.
        found: FaultModel,
    },
    /// The bitmap has the wrong length, or names a validator that is not in the committee.
    #[error("signer bitmap does not fit {committee_size} validators")]
    Bitmap {
        /// Number of members of the committee.
        committee_size: usize,
    },
    /// Too few validators signed.
    #[error("certificate: expected signers with at least {quorum} votes, got {votes}")]
    NoQuorum {
        /// Votes of the signers.
        votes: Votes,
        /// Required votes.
        quorum: Votes,
    },
    /// The signature is not a point of the group, or is the identity.
    #[error("aggregate signature is not a point of the group")]
    Malformed,
    /// The signature is not the aggregate of the signers in the bitmap.
    #[error("aggregate signature does not verify")]
    Invalid,
}

/// Verifies a certificate against a committee: cheap comparisons first, then one pairing (about 1 ms).
pub fn verify_certificate(
    certificate: &Certificate,
    chain_id: u64,
    keys: &[BlsPublicKey],
    committee_hash: B256,
    fault_model: FaultModel,
    weights: &Weights,
) -> Result<(), CertificateError> {
    let claim = check_claim(certificate, chain_id, weights, committee_hash, fault_model)?;
    let signature = BlsSignature::from_bytes(&certificate.signature).ok_or(CertificateError::Malformed)?;
    let signing_keys: Vec<&BlsPublicKey> = claim.signers.iter().map(|signer| &keys[signer.as_usize()]).collect();
    bls_verify_aggregate(&signing_keys, &claim.message, &signature).then_some(()).ok_or(CertificateError::Invalid)
}

/// Statement of a certificate: these validators signed this message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateClaim {
    /// At least a quorum; all are in the committee.
    pub signers: Vec<ValidatorIndex>,
    /// Bytes that each of them signed ([`Certificate::signed_bytes`]).
    pub message: Vec<u8>,
}

/// Checks everything about a certificate except its signature.
pub fn check_claim(
    certificate: &Certificate,
    chain_id: u64,
    weights: &Weights,
    committee_hash: B256,
    fault_model: FaultModel,
) -> Result<CertificateClaim, CertificateError> {
    if certificate.committee_hash != committee_hash {
        return Err(CertificateError::Committee { expected: committee_hash, found: certificate.committee_hash });
    }
    if certificate.fault_model != fault_model {
        return Err(CertificateError::FaultModel { expected: fault_model, found: certificate.fault_model });
    }
    let committee_size = weights.members();
    let signers = certificate.signers.signers(committee_size).ok_or(CertificateError::Bitmap { committee_size })?;
    let (votes, quorum) = (weights.weigh(signers.iter().copied()), weights.quorum());
    if votes < quorum.max(Votes(1)) {
        return Err(CertificateError::NoQuorum { votes, quorum });
    }
    let (epoch, height, header_hash) = (certificate.epoch, certificate.height, certificate.header_hash);
    let message = Certificate::signed_bytes(chain_id, epoch, committee_hash, height, header_hash, fault_model);
    Ok(CertificateClaim { signers, message })
}

/// A committee's data for verifying certificates. Parse once, verify many.
#[derive(Clone, Debug)]
pub struct CommitteeKeys {
    pub(crate) chain_id: u64,
    pub(crate) epoch: Epoch,
    pub(crate) committee_hash: B256,
    pub(crate) fault_model: FaultModel,
    /// Shared by the committees of all epochs that keep the set.
    pub(crate) keys: Arc<[BlsPublicKey]>,
    pub(crate) weights: Weights,
}

impl CommitteeKeys {
    /// Returns the first committee; checks proofs of possession.
    pub fn from_genesis(genesis: &Genesis) -> Result<Self, GenesisKeyError> {
        Ok(Self {
            chain_id: genesis.chain_id,
            epoch: Epoch(0),
            committee_hash: genesis.committee_hash(),
            fault_model: genesis.fault_model(),
            keys: member_keys(genesis)?.into(),
            weights: genesis.weights(),
        })
    }

    /// Returns the committee's epoch.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns the committee's hash, which is in everything that it signs.
    pub fn hash(&self) -> B256 {
        self.committee_hash
    }

    /// Returns the members' votes.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// Returns the keys by validator index.
    pub fn keys(&self) -> &[BlsPublicKey] {
        &self.keys
    }

    /// Verifies that a quorum of this committee signed the certificate.
    pub fn verify(&self, certificate: &Certificate) -> Result<(), CertificateError> {
        if certificate.epoch != self.epoch {
            return Err(CertificateError::Epoch { expected: self.epoch, found: certificate.epoch });
        }
        verify_certificate(certificate, self.chain_id, &self.keys, self.committee_hash, self.fault_model, &self.weights)
    }
}
