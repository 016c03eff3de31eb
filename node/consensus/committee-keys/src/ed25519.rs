//! Keys of production: ed25519 with the validators' consensus keys.

use crate::{DigestSignatures, DigestSigner, Signature};
use corniche_crypto::{ConsensusKey, ConsensusPublicKey, Domain, Signed};
use corniche_engine::Committee;
use corniche_types::{B256, ValidatorIndex};
use std::marker::PhantomData;

/// The engine that signs. Signatures of one engine are none of another.
pub trait Protocol {
    const TAG: &'static str;
}

fn domain<P: Protocol>(committee: &Committee) -> Domain {
    Domain { tag: P::TAG, chain_id: committee.chain_id(), epoch: committee.epoch(), committee_hash: committee.hash() }
}

/// One validator's secret.
pub struct ValidatorKeys<P> {
    index: ValidatorIndex,
    consensus: ConsensusKey,
    domain: Domain,
    protocol: PhantomData<fn() -> P>,
}

impl<P: Protocol> ValidatorKeys<P> {
    /// Takes the index under which the committee lists the key. Returns `None` if it is not listed.
    pub fn new(committee: &Committee, consensus: ConsensusKey) -> Option<Self> {
        let public = consensus.public();
        let (index, _) = committee.members().find(|(_, member)| member.consensus_key == public)?;
        Some(Self { index, consensus, domain: domain::<P>(committee), protocol: PhantomData })
    }
}

impl<P> DigestSigner for ValidatorKeys<P> {
    fn member(&self) -> ValidatorIndex {
        self.index
    }

    fn sign_digest(&self, digest: &B256) -> Option<Signature> {
        Some(self.consensus.sign(digest, &self.domain))
    }
}

/// The committee's keys, parsed once.
pub struct CommitteeKeys<P> {
    keys: Vec<ConsensusPublicKey>,
    domain: Domain,
    protocol: PhantomData<fn() -> P>,
}

impl<P: Protocol> CommitteeKeys<P> {
    /// Returns `None` if a key of the committee is invalid.
    pub fn new(committee: &Committee) -> Option<Self> {
        let keys = committee.members().map(|(_, member)| ConsensusPublicKey::parse(&member.consensus_key));
        Some(Self { keys: keys.collect::<Option<_>>()?, domain: domain::<P>(committee), protocol: PhantomData })
    }
}

impl<P> DigestSignatures for CommitteeKeys<P> {
    fn verify_digest(&self, signer: ValidatorIndex, digest: &B256, signature: &Signature) -> bool {
        let signed = Signed { payload: *digest, signature: *signature };
        self.keys.get(signer.as_usize()).is_some_and(|key| signed.verify(key, &self.domain).is_ok())
    }
}
