//! Signatures of members: ed25519, over digests that contain chain and configuration.

use corniche_basil::attestation::{Signatures, Signer};
use corniche_basil::transaction::Signature;
use corniche_crypto::{ConsensusKey, ConsensusPublicKey, Domain, Signed};
use corniche_types::{B256, Epoch, Genesis};
use std::collections::BTreeMap;

/// Context of all signatures of a chain. Digests name the configuration themselves ([`corniche_basil::shards::Shards::digest`]).
fn domain(chain_id: u64) -> Domain {
    Domain { tag: "corniche-basil", chain_id, epoch: Epoch(0), committee_hash: B256::ZERO }
}

/// A member's secret key.
pub struct MemberKey {
    key: ConsensusKey,
    domain: Domain,
}

impl MemberKey {
    pub fn new(key: ConsensusKey, chain_id: u64) -> Self {
        Self { key, domain: domain(chain_id) }
    }
}

impl Signer for MemberKey {
    fn sign(&self, digest: &B256) -> Signature {
        self.key.sign(digest, &self.domain)
    }
}

/// The members' public keys. Nobody else's signature is valid, so a transaction needs a gateway of the genesis.
pub struct MemberKeys {
    keys: BTreeMap<B256, ConsensusPublicKey>,
    domain: Domain,
}

impl MemberKeys {
    pub fn of(genesis: &Genesis) -> Self {
        let keys = genesis.validators.iter().map(|validator| validator.consensus_key);
        let keys = keys.filter_map(|key| Some((key, ConsensusPublicKey::parse(&key)?))).collect();
        Self { keys, domain: domain(genesis.chain_id) }
    }
}

impl Signatures for MemberKeys {
    fn verify(&self, key: &B256, digest: &B256, signature: &Signature) -> bool {
        let Some(key) = self.keys.get(key) else { return false };
        Signed { payload: *digest, signature: *signature }.verify(key, &self.domain).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_service::{NetworkSpec, make_network};
    use corniche_types::EngineConfig;

    #[test]
    fn members_of_this_chain_sign() {
        let engine = EngineConfig { name: "basil".into(), parameters: BTreeMap::new() };
        let network = make_network(&NetworkSpec { validators: 2, ..NetworkSpec::new(engine) }).unwrap();
        let signatures = MemberKeys::of(&network.genesis);
        let digest = B256::repeat_byte(7);
        let [own, other] = [0, 1].map(|index| network.genesis.validators[index].consensus_key);
        let key = || network.validators[0].consensus.clone();
        let signature = MemberKey::new(key(), network.genesis.chain_id).sign(&digest);
        assert!(signatures.verify(&own, &digest, &signature));
        assert!(!signatures.verify(&other, &digest, &signature));
        assert!(!signatures.verify(&own, &B256::ZERO, &signature));
        let elsewhere = MemberKey::new(key(), network.genesis.chain_id + 1).sign(&digest);
        assert!(!signatures.verify(&own, &digest, &elsewhere));
        let stranger = ConsensusKey::from_seed([9; 32]);
        let public = stranger.public();
        assert!(!signatures.verify(&public, &digest, &MemberKey::new(stranger, network.genesis.chain_id).sign(&digest)));
    }
}
