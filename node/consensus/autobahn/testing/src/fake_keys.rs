//! Modelled keys: keyed hashes that anyone can compute.

use corniche_autobahn::{Share, Signature, Signatures, Signer};
use corniche_testkit::derive_bytes;
use corniche_types::{B256, Bytes, ValidatorIndex};

/// Modelled keys of one validator.
pub struct FakeKeys(pub ValidatorIndex);

impl Signer for FakeKeys {
    fn index(&self) -> ValidatorIndex {
        self.0
    }

    fn sign(&self, digest: &B256) -> Signature {
        derive_bytes("signature", self.0.0, digest.as_slice())
    }

    fn share(&self, digest: &B256) -> Share {
        derive_bytes::<32>("share", self.0.0, digest.as_slice()).to_vec().into()
    }
}

/// A Byzantine double: signs cars and proposals correctly, but its shares are noise.
pub struct BadShares(pub ValidatorIndex);

impl Signer for BadShares {
    fn index(&self) -> ValidatorIndex {
        self.0
    }

    fn sign(&self, digest: &B256) -> Signature {
        FakeKeys(self.0).sign(digest)
    }

    fn share(&self, digest: &B256) -> Share {
        derive_bytes::<32>("noise", self.0.0, digest.as_slice()).to_vec().into()
    }
}

/// Modelled keys of all validators. A seal is the hash of the shares.
pub struct FakeSignatures;

impl Signatures for FakeSignatures {
    fn verify(&self, author: ValidatorIndex, digest: &B256, signature: &Signature) -> bool {
        FakeKeys(author).sign(digest) == *signature
    }

    fn verify_share(&self, signer: ValidatorIndex, digest: &B256, share: &Share) -> bool {
        FakeKeys(signer).share(digest) == *share
    }

    fn combine(&self, shares: &[(ValidatorIndex, Share)]) -> Option<Bytes> {
        let mut hasher = blake3::Hasher::new();
        shares.iter().for_each(|(_, share)| _ = hasher.update(share));
        Some(hasher.finalize().as_bytes().to_vec().into())
    }

    fn verify_seal(&self, signed: &[(ValidatorIndex, B256)], seal: &Bytes) -> bool {
        let shares: Vec<_> = signed.iter().map(|(signer, digest)| (*signer, FakeKeys(*signer).share(digest))).collect();
        self.combine(&shares).as_ref() == Some(seal)
    }
}
