//! A Byzantine double's keys.

use corniche_mir::{Signature, Signer, message::Statement};
use corniche_testkit::{FakeKeys, derive_bytes};
use corniche_types::{B256, ValidatorIndex};

/// A Byzantine double: its PREPAREs are right, all its other signatures are noise.
pub struct BadKeys(pub ValidatorIndex);

impl Signer for BadKeys {
    fn index(&self) -> ValidatorIndex {
        self.0
    }

    fn sign(&self, statement: &Statement, digest: &B256) -> Option<Signature> {
        match statement {
            Statement::Prepare { .. } => Some(FakeKeys(self.0).sign_digest(digest)),
            _ => Some(derive_bytes("noise", self.0.0, digest.as_slice())),
        }
    }
}
