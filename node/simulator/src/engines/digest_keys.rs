//! Keys of engines in which every member signs digests with one key: NeoBFT and Mir-BFT.

use crate::{
    crypto::{Meter, Metered, Modelled},
    genesis::Secrets,
    scenario::Cost,
};
use corniche_committee_keys::{
    DigestSignatures, DigestSigner, Signature,
    ed25519::{CommitteeKeys, Protocol, ValidatorKeys},
};
use corniche_engine::Committee;
use corniche_types::{B256, ValidatorIndex};
use std::sync::Arc;

const MADE_HERE: &str = "invariant: the genesis was made here, from these keys";

/// Public keys of a committee.
pub fn signatures<P: Protocol + 'static>(is_modelled: bool, committee: &Committee) -> Arc<dyn DigestSignatures> {
    if is_modelled {
        return Arc::new(Modelled::new(committee, ValidatorIndex(0)));
    }
    Arc::new(CommitteeKeys::<P>::new(committee).expect(MADE_HERE))
}

/// Signer of a node; `None` if it is no member.
pub fn signer<P: Protocol + 'static>(node: usize, secrets: &Secrets, committee: &Committee) -> Option<Arc<dyn DigestSigner>> {
    let index = secrets.names.index(committee, node)?;
    if secrets.shares.is_none() {
        return Some(Arc::new(Modelled::new(committee, index)));
    }
    let keys = secrets.consensus_key(node, secrets.key_set(committee, node));
    Some(Arc::new(ValidatorKeys::<P>::new(committee, keys).expect(MADE_HERE)))
}

/// Keys whose operations nobody counts.
pub fn unmetered<K: ?Sized>(keys: Arc<K>) -> Metered<K> {
    Metered { cost: Cost::default(), meter: Meter::default(), keys }
}

impl DigestSigner for Metered<dyn DigestSigner> {
    fn member(&self) -> ValidatorIndex {
        self.keys.member()
    }

    fn sign_digest(&self, digest: &B256) -> Option<Signature> {
        self.meter.signed(self.cost.sign_us);
        self.keys.sign_digest(digest)
    }
}

impl DigestSignatures for Metered<dyn DigestSignatures> {
    fn verify_digest(&self, signer: ValidatorIndex, digest: &B256, signature: &Signature) -> bool {
        self.meter.checked(1, self.cost.verify_us);
        self.keys.verify_digest(signer, digest, signature)
    }
}
