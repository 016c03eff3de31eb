//! Check of evidence ([`corniche_types::evidence`]): two signatures of one validator. It needs the evidence, the committee's hash and the
//! hash of the validator's keys, so engines, the staking contract and clients use one check.

use crate::{
    bls::{BLS_PUBLIC_KEY_BYTES, BlsPublicKey, BlsSignature, bls_verify},
    signed::{ConsensusPublicKey, Domain, Signed},
};
pub use corniche_types::evidence::{Contradiction, Evidence, Heading, SlotReport, SlotVote, VoteKind, tags};
use corniche_types::{B256, Certificate, Epoch, keccak256};

/// Why evidence proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvidenceError {
    /// The keys are not those of the accused member.
    #[error("the keys are not those of the validator in this epoch")]
    Keys,
    /// The statements agree, or are not in the canonical order.
    #[error("the statements do not contradict each other, or are in the wrong order")]
    NoContradiction,
    /// A signature does not match.
    #[error("a signature does not match its statement")]
    Signature,
}

/// Checks that the validator with keys of this hash ([`signing_hash`]) signed both statements in the epoch of the committee with this
/// hash. Takes up to 2 ms for BLS signatures.
pub fn check(evidence: &Evidence, committee_hash: B256, expected_keys: B256) -> Result<(), EvidenceError> {
    if signing_hash(&evidence.consensus_key, &evidence.bls_key) != expected_keys {
        return Err(EvidenceError::Keys);
    }
    let key = ConsensusPublicKey::parse(&evidence.consensus_key).ok_or(EvidenceError::Keys)?;
    let signer = Signer { chain_id: evidence.chain_id, epoch: evidence.epoch, committee_hash, key, bls_key: &evidence.bls_key };
    if !evidence.contradiction.holds(evidence.offender) {
        return Err(EvidenceError::NoContradiction);
    }
    if signer.signed(&evidence.contradiction) { Ok(()) } else { Err(EvidenceError::Signature) }
}

/// Hash of both keys that sign for a committee, by which the contract remembers them.
pub fn signing_hash(consensus_key: &B256, bls_key: &[u8; BLS_PUBLIC_KEY_BYTES]) -> B256 {
    keccak256([consensus_key.as_slice(), bls_key].concat())
}

/// The accused member in its epoch.
struct Signer<'a> {
    chain_id: u64,
    epoch: Epoch,
    committee_hash: B256,
    key: ConsensusPublicKey,
    bls_key: &'a [u8; BLS_PUBLIC_KEY_BYTES],
}

impl Signer<'_> {
    fn domain(&self, tag: &'static str) -> Domain {
        Domain { tag, chain_id: self.chain_id, epoch: self.epoch, committee_hash: self.committee_hash }
    }

    fn signed(&self, contradiction: &Contradiction) -> bool {
        match contradiction {
            Contradiction::Blocks(blocks) => blocks
                .iter()
                .all(|(heading, signature)| self.has_signed(tags::BLOCK, self.domain(tags::BLOCK).digest(heading), signature)),
            Contradiction::Prepares { slot, view, values } => values.iter().all(|(cut, signature)| {
                let digest = self.domain(tags::PREPARE).digest(&(slot, view, cut));
                self.has_signed(tags::AUTOBAHN, digest, signature)
            }),
            Contradiction::Votes { slot, view, votes } => votes.iter().all(|vote| self.has_voted(*slot, *view, vote)),
            Contradiction::ForgottenVote { slot, voted_in, vote, view, report, share } => {
                let timeout = self.domain(tags::TIMED_OUT).digest(&(slot, view, report));
                self.has_voted(*slot, *voted_in, vote) && self.has_shared(timeout, share)
            }
            Contradiction::Headers { height, fault_model, headers } => headers.iter().all(|(hash, signature)| {
                let Self { chain_id, epoch, committee_hash, .. } = *self;
                let message = Certificate::signed_bytes(chain_id, epoch, committee_hash, *height, *hash, *fault_model);
                self.has_signed_bls(&message, signature)
            }),
        }
    }

    fn has_voted(&self, slot: u64, view: u32, vote: &SlotVote) -> bool {
        let tag = match vote.kind {
            VoteKind::Prepared => tags::PREPARED,
            VoteKind::PreparedWeakly => tags::PREPARED_WEAKLY,
            VoteKind::Confirmed => tags::CONFIRMED,
        };
        self.has_shared(self.domain(tag).digest(&(slot, view, vote.cut)), &vote.share)
    }

    /// A share of a certificate, with either key.
    fn has_shared(&self, digest: B256, share: &[u8]) -> bool {
        match <&[u8; 64]>::try_from(share) {
            Ok(signature) => self.has_signed(tags::AUTOBAHN_SHARE, digest, signature),
            Err(_) => self.has_signed_bls(&share_message(&self.domain(tags::AUTOBAHN_SHARE), &digest), share),
        }
    }

    fn has_signed(&self, tag: &'static str, digest: B256, signature: &[u8; 64]) -> bool {
        Signed { payload: digest, signature: *signature }.verify(&self.key, &self.domain(tag)).is_ok()
    }

    fn has_signed_bls(&self, message: &[u8], signature: &[u8]) -> bool {
        let key = BlsPublicKey::from_bytes(self.bls_key);
        let signature = BlsSignature::from_bytes(signature);
        key.zip(signature).is_some_and(|(key, signature)| bls_verify(&key, message, &signature))
    }
}

/// Message for a BLS signature of a digest under a domain. Headers are signed with these keys, too, and begin differently.
pub fn share_message(domain: &Domain, digest: &B256) -> Vec<u8> {
    [domain.tag.as_bytes(), domain.digest(digest).as_slice()].concat()
}
