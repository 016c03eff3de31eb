//! Verifiers of the running epoch's committee, shared by the threads that check peers' messages.

use crate::{certificates::CertificateCache, chain::VerifierFactory};
use corniche_engine::{Committee, Verifier};
use corniche_network::PeerKey;
use corniche_pipeline::{CertificateKeys, CertificateVerifier};
use corniche_types::{Epoch, ValidatorIndex};
use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
};

/// Verifiers of the running epoch. They are replaced when an epoch starts.
pub struct EpochVerifiers {
    /// `None`: a full node, which has no use for engine messages.
    build: Option<VerifierFactory>,
    current: RwLock<Arc<CommitteeVerifiers>>,
}

/// Verifiers of one committee.
pub struct CommitteeVerifiers {
    pub epoch: Epoch,
    /// `None`: this node is no member.
    pub engine: Option<Arc<dyn Verifier>>,
    pub certificates: CertificateCache,
    /// Index of each member, by its network key.
    members: BTreeMap<PeerKey, ValidatorIndex>,
}

impl CommitteeVerifiers {
    fn new(committee: &Committee, build: Option<&VerifierFactory>) -> Self {
        let keys = CertificateKeys::bls(committee, None);
        Self {
            epoch: committee.epoch(),
            engine: build.map(|build| build(committee)),
            certificates: CertificateCache::new(CertificateVerifier::new(committee.clone(), &keys)),
            members: committee.members().map(|(index, member)| (PeerKey(member.network_key), index)).collect(),
        }
    }

    /// Index of a peer in the committee.
    pub fn index_of(&self, peer: &PeerKey) -> Option<ValidatorIndex> {
        self.members.get(peer).copied()
    }
}

impl EpochVerifiers {
    pub fn new(committee: &Committee, is_member: bool, build: Option<VerifierFactory>) -> Self {
        let current = CommitteeVerifiers::new(committee, build.as_ref().filter(|_| is_member));
        Self { build, current: RwLock::new(Arc::new(current)) }
    }

    /// Verifies messages of this committee from now on.
    pub fn start(&self, committee: &Committee, is_member: bool) {
        let verifiers = CommitteeVerifiers::new(committee, self.build.as_ref().filter(|_| is_member));
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(verifiers);
    }

    pub fn current(&self) -> Arc<CommitteeVerifiers> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
