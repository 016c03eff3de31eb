//! Types for certificates with verified signatures.

use crate::keys::{Keys, Signature, Signatures};
use corniche_crypto::check_claim;
use corniche_engine::Committee;
use corniche_types::{B256, Certificate, Height, ValidatorIndex};
use std::{ops::Deref, sync::Arc};

/// Certificate signed by a quorum of the committee. From received bytes, only [`CertificateVerifier`] creates
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedCertificate(pub(crate) Certificate);

impl VerifiedCertificate {
    pub fn into_inner(self) -> Certificate {
        self.0
    }
}

impl Deref for VerifiedCertificate {
    type Target = Certificate;

    fn deref(&self) -> &Certificate {
        &self.0
    }
}

/// Shares of f + 1 validators for one header. At least one signer is honest and executed the block, so the
/// block is correct. It is not final: finality needs a quorum's [`VerifiedCertificate`]. So this is a
/// separate type. It never leaves the node, and does not raise the certified height.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeakCertificate(pub(crate) Certificate);

impl WeakCertificate {
    pub fn height(&self) -> Height {
        self.0.height
    }

    pub fn header_hash(&self) -> B256 {
        self.0.header_hash
    }

    /// Validators that executed this block, if they are honest. `committee_size` is that of the certifier's
    /// committee.
    pub fn signers(&self, committee_size: usize) -> Vec<ValidatorIndex> {
        self.0.signers.signers(committee_size).expect("invariant: the certifier made this bitmap")
    }

    /// Evidence to store after a divergence. It does not verify as a certificate.
    pub fn into_evidence(self) -> Certificate {
        self.0
    }
}

/// Verifies certificates, on any thread. Each costs a pairing, about 1 ms.
#[derive(Clone)]
pub struct CertificateVerifier {
    committee: Committee,
    signatures: Arc<dyn Signatures>,
}

impl CertificateVerifier {
    pub fn new(committee: Committee, keys: &Keys) -> Self {
        Self { committee, signatures: keys.committee.clone() }
    }

    /// Verifies that a quorum of the committee signed this certificate. Does not compare it with our
    /// execution.
    pub fn verify(&self, certificate: Certificate) -> Option<VerifiedCertificate> {
        let committee = &self.committee;
        let (chain, hash, model) = (committee.chain_id(), committee.hash(), committee.fault_model());
        let claim = check_claim(&certificate, chain, committee.weights(), hash, model).ok()?;
        let signature = Signature::try_from(&certificate.signature[..]).ok()?;
        let is_valid =
            certificate.epoch == committee.epoch() && self.signatures.verify(&claim.message, &claim.signers, &signature);
        is_valid.then_some(VerifiedCertificate(certificate))
    }
}
