//! Modelled keys: keyed hashes that anyone can compute. For engines that sign digests.

use crate::derive_bytes;
use corniche_committee_keys::{DigestSignatures, DigestSigner, Signature};
use corniche_types::{B256, ValidatorIndex};

/// Modelled keys of one validator.
pub struct FakeKeys(pub ValidatorIndex);

impl FakeKeys {
    pub fn sign_digest(&self, digest: &B256) -> Signature {
        derive_bytes("signature", self.0.0, digest.as_slice())
    }
}

impl DigestSigner for FakeKeys {
    fn member(&self) -> ValidatorIndex {
        self.0
    }

    fn sign_digest(&self, digest: &B256) -> Option<Signature> {
        Some(Self::sign_digest(self, digest))
    }
}

/// Modelled keys of all validators.
pub struct FakeSignatures;

impl DigestSignatures for FakeSignatures {
    fn verify_digest(&self, signer: ValidatorIndex, digest: &B256, signature: &Signature) -> bool {
        FakeKeys(signer).sign_digest(digest) == *signature
    }
}
