//! The engine's cryptography for production: ed25519 with the validators' consensus keys.

use crate::{
    keys::{Signature, Signatures, Signer},
    message::Statement,
};
use corniche_crypto::{ConsensusKey, ConsensusPublicKey, Domain, Signed};
use corniche_engine::Committee;
use corniche_types::{B256, ValidatorIndex};

const TAG: &str = "corniche-mir";

fn domain(committee: &Committee) -> Domain {
    Domain { tag: TAG, chain_id: committee.chain_id(), epoch: committee.epoch(), committee_hash: committee.hash() }
}

/// One validator's secret.
pub struct ValidatorKeys {
    index: ValidatorIndex,
    consensus: ConsensusKey,
    domain: Domain,
}

impl ValidatorKeys {
    /// Takes the index under which the committee lists the key. Returns `None` if it is not listed.
    pub fn new(committee: &Committee, consensus: ConsensusKey) -> Option<Self> {
        let public = consensus.public();
        let (index, _) = committee.members().find(|(_, member)| member.consensus_key == public)?;
        Some(Self { index, consensus, domain: domain(committee) })
    }
}

impl Signer for ValidatorKeys {
    fn index(&self) -> ValidatorIndex {
        self.index
    }

    fn sign(&self, _: &Statement, digest: &B256) -> Option<Signature> {
        Some(self.consensus.sign(digest, &self.domain))
    }
}

/// The committee's keys, parsed once.
pub struct CommitteeKeys {
    keys: Vec<ConsensusPublicKey>,
    domain: Domain,
}

impl CommitteeKeys {
    /// Returns `None` if a key of the committee is invalid.
    pub fn new(committee: &Committee) -> Option<Self> {
        let keys = committee.members().map(|(_, member)| ConsensusPublicKey::parse(&member.consensus_key));
        Some(Self { keys: keys.collect::<Option<_>>()?, domain: domain(committee) })
    }
}

impl Signatures for CommitteeKeys {
    fn verify(&self, signer: ValidatorIndex, digest: &B256, signature: &Signature) -> bool {
        let signed = Signed { payload: *digest, signature: *signature };
        self.keys.get(signer.as_usize()).is_some_and(|key| signed.verify(key, &self.domain).is_ok())
    }
}
