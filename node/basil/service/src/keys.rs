//! Signatures of members: ed25519, over digests that contain chain and configuration.

use crate::members::Members;
use corniche_basil::attestation::{Signatures, Signer};
use corniche_basil::shards::ClientId;
use corniche_basil::transaction::Signature;
use corniche_crypto::{ConsensusKey, ConsensusPublicKey, Domain, Signed};
use corniche_types::{B256, Epoch, Genesis};
use std::collections::{BTreeMap, BTreeSet};

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

/// The members' public keys. Nobody else's signature is valid, and only gateways own transactions.
pub struct MemberSignatures {
    keys: BTreeMap<B256, ConsensusPublicKey>,
    gateways: BTreeSet<B256>,
    domain: Domain,
}

impl MemberSignatures {
    pub fn of(genesis: &Genesis, members: &Members) -> Self {
        let keys = genesis.validators.iter().map(|validator| validator.consensus_key);
        let keys = keys.filter_map(|key| Some((key, ConsensusPublicKey::parse(&key)?))).collect();
        Self { keys, gateways: members.gateways().collect(), domain: domain(genesis.chain_id) }
    }
}

impl Signatures for MemberSignatures {
    fn verify(&self, key: &B256, digest: &B256, signature: &Signature) -> bool {
        let Some(key) = self.keys.get(key) else { return false };
        Signed { payload: *digest, signature: *signature }.verify(key, &self.domain).is_ok()
    }

    fn is_client(&self, key: &ClientId) -> bool {
        self.gateways.contains(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_service::{NetworkSpec, make_network};
    use corniche_types::{EngineConfig, SHARDED_ENGINE};

    #[test]
    fn members_of_this_chain_sign() {
        let engine = EngineConfig { name: SHARDED_ENGINE.into(), parameters: BTreeMap::new() };
        let spec = NetworkSpec { validators: 7, block_ms: 1_000, ..NetworkSpec::new(engine) };
        let network = make_network(&spec).unwrap();
        let members = Members::of(&network.genesis).unwrap();
        let signatures = MemberSignatures::of(&network.genesis, &members);
        let [replica, gateway] = [0, 6].map(|index| network.genesis.validators[index].consensus_key);
        assert!(signatures.is_client(&gateway) && !signatures.is_client(&replica));
        let digest = B256::repeat_byte(7);
        let key = || network.validators[0].consensus.clone();
        let signature = MemberKey::new(key(), network.genesis.chain_id).sign(&digest);
        assert!(signatures.verify(&replica, &digest, &signature));
        assert!(!signatures.verify(&gateway, &digest, &signature));
        assert!(!signatures.verify(&replica, &B256::ZERO, &signature));
        let elsewhere = MemberKey::new(key(), network.genesis.chain_id + 1).sign(&digest);
        assert!(!signatures.verify(&replica, &digest, &elsewhere));
        let stranger = ConsensusKey::from_seed([9; 32]);
        let public = stranger.public();
        assert!(!signatures.verify(&public, &digest, &MemberKey::new(stranger, network.genesis.chain_id).sign(&digest)));
    }
}
