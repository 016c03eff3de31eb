//! Modelled keys: keyed hashes that anyone can compute.

use corniche_autobahn::{Authored, Share, Signature, Signatures, Signer, message::Statement};
use corniche_engine::Unsigned;
use corniche_testkit::derive_bytes;
use corniche_types::{B256, Bytes, ValidatorIndex};

/// Modelled keys of one validator.
pub struct FakeKeys(pub ValidatorIndex);

impl FakeKeys {
    /// Signs the digest of a car or of a proposal.
    pub fn sign_digest(&self, digest: &B256) -> Signature {
        derive_bytes("signature", self.0.0, digest.as_slice())
    }

    /// Share under the digest of a statement.
    pub fn share_digest(&self, digest: &B256) -> Share {
        derive_bytes::<32>("share", self.0.0, digest.as_slice()).to_vec().into()
    }
}

impl Signer for FakeKeys {
    fn index(&self) -> ValidatorIndex {
        self.0
    }

    fn sign(&self, _: &Authored, digest: &B256) -> Option<Signature> {
        Some(self.sign_digest(digest))
    }

    fn share(&self, _: &Statement, digest: &B256) -> Result<Share, Unsigned> {
        Ok(self.share_digest(digest))
    }
}

/// A Byzantine double: signs cars and proposals correctly, but its shares are noise.
pub struct BadShares(pub ValidatorIndex);

impl Signer for BadShares {
    fn index(&self) -> ValidatorIndex {
        self.0
    }

    fn sign(&self, _: &Authored, digest: &B256) -> Option<Signature> {
        Some(FakeKeys(self.0).sign_digest(digest))
    }

    fn share(&self, _: &Statement, digest: &B256) -> Result<Share, Unsigned> {
        Ok(derive_bytes::<32>("noise", self.0.0, digest.as_slice()).to_vec().into())
    }
}

/// Modelled keys of all validators. A seal is the hash of the shares.
pub struct FakeSignatures;

impl Signatures for FakeSignatures {
    fn verify(&self, author: ValidatorIndex, digest: &B256, signature: &Signature) -> bool {
        FakeKeys(author).sign_digest(digest) == *signature
    }

    fn verify_share(&self, signer: ValidatorIndex, digest: &B256, share: &Share) -> bool {
        FakeKeys(signer).share_digest(digest) == *share
    }

    fn combine(&self, shares: &[(ValidatorIndex, Share)]) -> Option<Bytes> {
        let mut hasher = blake3::Hasher::new();
        shares.iter().for_each(|(_, share)| _ = hasher.update(share));
        Some(hasher.finalize().as_bytes().to_vec().into())
    }

    fn verify_seal(&self, signed: &[(ValidatorIndex, B256)], seal: &Bytes) -> bool {
        let shares: Vec<_> = signed.iter().map(|(signer, digest)| (*signer, FakeKeys(*signer).share_digest(digest))).collect();
        self.combine(&shares).as_ref() == Some(seal)
    }
}
