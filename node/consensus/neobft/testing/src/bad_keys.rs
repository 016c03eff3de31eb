//! Modelled keys: keyed hashes that anyone can compute.

use corniche_neobft::{Signature, Signatures, Signer, message::Statement};
use corniche_testkit::derive_bytes;
use corniche_types::{B256, ValidatorIndex};

/// Modelled keys of one validator.
pub struct FakeKeys(pub ValidatorIndex);

impl FakeKeys {
    /// Signs the digest of a statement.
    pub fn sign_digest(&self, digest: &B256) -> Signature {
        derive_bytes("signature", self.0.0, digest.as_slice())
    }
}

impl Signer for FakeKeys {
    fn index(&self) -> ValidatorIndex {
        self.0
    }

    fn sign(&self, _: &Statement, digest: &B256) -> Option<Signature> {
        Some(self.sign_digest(digest))
    }
}

/// A Byzantine double: its requests are right, all its other signatures are noise.
pub struct BadKeys(pub ValidatorIndex);

impl Signer for BadKeys {
    fn index(&self) -> ValidatorIndex {
        self.0
    }

    fn sign(&self, statement: &Statement, digest: &B256) -> Option<Signature> {
        match statement {
            Statement::Request(_) => Some(FakeKeys(self.0).sign_digest(digest)),
            _ => Some(derive_bytes("noise", self.0.0, digest.as_slice())),
        }
    }
}

/// Modelled keys of all validators.
pub struct FakeSignatures;

impl Signatures for FakeSignatures {
    fn verify(&self, signer: ValidatorIndex, digest: &B256, signature: &Signature) -> bool {
        FakeKeys(signer).sign_digest(digest) == *signature
    }
}
