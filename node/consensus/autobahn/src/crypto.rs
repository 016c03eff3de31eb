//! The engine's cryptography for production. Cars and proposals are signed with ed25519. Certificates are lists of
//! ed25519 shares, or sums of BLS shares (row 23 of the checklist).

use crate::{
    keys::{Authored, Share, Signature, Signatures, Signer},
    message::Statement,
};
use corniche_crypto::evidence::{share_message, tags};
use corniche_crypto::{
    BlsPublicKey, BlsSecretKey, BlsSignature, ConsensusKey, ConsensusPublicKey, Domain, Signed, bls_aggregate, bls_verify,
    bls_verify_aggregate, bls_verify_sum,
};
use corniche_engine::{Committee, Unsigned};
use corniche_types::{B256, Bytes, ValidatorIndex};

/// Bytes of an ed25519 signature.
const ED25519: usize = 64;

fn domain(committee: &Committee, tag: &'static str) -> Domain {
    Domain { tag, chain_id: committee.chain_id(), epoch: committee.epoch(), committee_hash: committee.hash() }
}

/// One validator's secrets.
pub struct ValidatorKeys {
    index: ValidatorIndex,
    consensus: ConsensusKey,
    /// Present if certificates are sums.
    bls: Option<BlsSecretKey>,
    signatures: Domain,
    shares: Domain,
}

impl ValidatorKeys {
    /// Takes the index under which the committee lists the consensus key. Returns `None` if it is not listed, or if the
    /// BLS key belongs to another validator. `bls` is the key for shares if the genesis' parameter `bls` is set;
    /// without it shares use ed25519.
    pub fn new(committee: &Committee, consensus: ConsensusKey, bls: Option<BlsSecretKey>) -> Option<Self> {
        let public = consensus.public();
        let (index, member) = committee.members().find(|(_, member)| member.consensus_key == public)?;
        let is_own = |bls: &BlsSecretKey| bls.public().to_bytes()[..] == member.bls_key[..];
        let (signatures, shares) = (domain(committee, tags::AUTOBAHN), domain(committee, tags::AUTOBAHN_SHARE));
        bls.as_ref().is_none_or(is_own).then_some(Self { index, consensus, bls, signatures, shares })
    }
}

impl ValidatorKeys {
    /// Signs the digest of a car or of a proposal.
    pub fn sign_digest(&self, digest: &B256) -> Signature {
        self.consensus.sign(digest, &self.signatures)
    }

    /// Share under the digest of a statement.
    pub fn share_digest(&self, digest: &B256) -> Share {
        match &self.bls {
            None => self.consensus.sign(digest, &self.shares).to_vec().into(),
            Some(key) => key.sign(&share_message(&self.shares, digest)).to_bytes().to_vec().into(),
        }
    }
}

impl Signer for ValidatorKeys {
    fn index(&self) -> ValidatorIndex {
        self.index
    }

    fn sign(&self, _: &Authored, digest: &B256) -> Option<Signature> {
        Some(self.sign_digest(digest))
    }

    fn share(&self, _: &Statement, digest: &B256) -> Result<Share, Unsigned> {
        Ok(self.share_digest(digest))
    }
}

/// The committee's ed25519 keys, parsed once.
struct Ed25519Keys {
    keys: Vec<ConsensusPublicKey>,
    signatures: Domain,
    shares: Domain,
}

impl Ed25519Keys {
    fn new(committee: &Committee) -> Option<Self> {
        let keys = committee.members().map(|(_, member)| ConsensusPublicKey::parse(&member.consensus_key));
        let (signatures, shares) = (domain(committee, tags::AUTOBAHN), domain(committee, tags::AUTOBAHN_SHARE));
        Some(Self { keys: keys.collect::<Option<_>>()?, signatures, shares })
    }

    fn verify(&self, domain: &Domain, signer: ValidatorIndex, digest: &B256, signature: &[u8]) -> bool {
        let Ok(signature) = signature.try_into() else { return false };
        let signed = Signed { payload: *digest, signature };
        self.keys.get(signer.as_usize()).is_some_and(|key| signed.verify(key, domain).is_ok())
    }
}

/// Certificates are lists of ed25519 signatures.
pub struct Ed25519Certificates(Ed25519Keys);

impl Ed25519Certificates {
    /// Returns `None` if a key of the committee is invalid.
    pub fn new(committee: &Committee) -> Option<Self> {
        Ed25519Keys::new(committee).map(Self)
    }
}

impl Signatures for Ed25519Certificates {
    fn verify(&self, author: ValidatorIndex, digest: &B256, signature: &Signature) -> bool {
        self.0.verify(&self.0.signatures, author, digest, signature)
    }

    fn verify_share(&self, signer: ValidatorIndex, digest: &B256, share: &Share) -> bool {
        self.0.verify(&self.0.shares, signer, digest, share)
    }

    fn combine(&self, shares: &[(ValidatorIndex, Share)]) -> Option<Bytes> {
        let whole = shares.iter().all(|(_, share)| share.len() == ED25519);
        whole.then(|| shares.iter().flat_map(|(_, share)| share.iter().copied()).collect::<Vec<_>>().into())
    }

    fn verify_seal(&self, signed: &[(ValidatorIndex, B256)], seal: &Bytes) -> bool {
        let mut shares = signed.iter().zip(seal.chunks(ED25519));
        seal.len() == signed.len() * ED25519
            && shares.all(|((signer, digest), share)| self.0.verify(&self.0.shares, *signer, digest, share))
    }
}

/// Certificates are sums of BLS signatures, of constant size for any number of signers.
pub struct BlsCertificates {
    authors: Ed25519Keys,
    keys: Vec<BlsPublicKey>,
}

impl BlsCertificates {
    /// Returns `None` if a key of the committee is invalid. The genesis contains proofs of possession of the BLS keys.
    pub fn new(committee: &Committee) -> Option<Self> {
        let keys = committee.members().map(|(_, member)| BlsPublicKey::from_bytes(&member.bls_key));
        Some(Self { authors: Ed25519Keys::new(committee)?, keys: keys.collect::<Option<_>>()? })
    }

    fn message(&self, digest: &B256) -> Vec<u8> {
        share_message(&self.authors.shares, digest)
    }
}

impl Signatures for BlsCertificates {
    fn verify(&self, author: ValidatorIndex, digest: &B256, signature: &Signature) -> bool {
        self.authors.verify(&self.authors.signatures, author, digest, signature)
    }

    fn verify_share(&self, signer: ValidatorIndex, digest: &B256, share: &Share) -> bool {
        let key = self.keys.get(signer.as_usize());
        let share = BlsSignature::from_bytes(share);
        key.zip(share).is_some_and(|(key, share)| bls_verify(key, &self.message(digest), &share))
    }

    fn combine(&self, shares: &[(ValidatorIndex, Share)]) -> Option<Bytes> {
        let points: Option<Vec<_>> = shares.iter().map(|(_, share)| BlsSignature::from_bytes(share)).collect();
        Some(bls_aggregate(&points?)?.to_bytes().to_vec().into())
    }

    fn verify_seal(&self, signed: &[(ValidatorIndex, B256)], seal: &Bytes) -> bool {
        let keys: Option<Vec<_>> = signed.iter().map(|(signer, _)| self.keys.get(signer.as_usize())).collect();
        let (Some(keys), Some(sum)) = (keys, BlsSignature::from_bytes(seal)) else { return false };
        match signed {
            [(_, first), rest @ ..] if rest.iter().all(|(_, digest)| digest == first) => {
                bls_verify_aggregate(&keys, &self.message(first), &sum)
            }
            // Every TIMEOUT signs a different message.
            _ => {
                let messages: Vec<_> = signed.iter().map(|(_, digest)| self.message(digest)).collect();
                let pairs: Vec<_> = keys.into_iter().zip(messages.iter().map(Vec::as_slice)).collect();
                bls_verify_sum(&pairs, &sum)
            }
        }
    }
}
