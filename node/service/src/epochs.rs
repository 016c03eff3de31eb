//! Verifiers of the running epoch's committee, shared by the threads that check peers' messages.

use crate::{certificates::CertificateCache, chain::VerifierFactory};
use corniche_engine::{Committee, Verifier};
use corniche_pipeline::{CertificateKeys, CertificateVerifier};
use corniche_types::Epoch;
use std::sync::{Arc, PoisonError, RwLock};

/// Verifiers of the running epoch. They are replaced when an epoch starts.
pub struct EpochVerifiers {
    /// `None`: a full node, which has no use for engine messages.
    build: Option<VerifierFactory>,
    keys: CertificateKeys,
    current: RwLock<Arc<CommitteeVerifiers>>,
}

/// Verifiers of one committee.
pub struct CommitteeVerifiers {
    pub epoch: Epoch,
    pub engine: Option<Arc<dyn Verifier>>,
    pub certificates: CertificateCache,
}

impl CommitteeVerifiers {
    fn new(committee: &Committee, build: Option<&VerifierFactory>, keys: &CertificateKeys) -> Self {
        Self {
            epoch: committee.epoch(),
            engine: build.map(|build| build(committee)),
            certificates: CertificateCache::new(CertificateVerifier::new(committee.clone(), keys)),
        }
    }
}

impl EpochVerifiers {
    pub fn new(committee: &Committee, build: Option<VerifierFactory>, keys: CertificateKeys) -> Self {
        let current = CommitteeVerifiers::new(committee, build.as_ref(), &keys);
        Self { build, keys, current: RwLock::new(Arc::new(current)) }
    }

    /// Verifies messages of this committee from now on.
    pub fn start(&self, committee: &Committee) {
        let verifiers = CommitteeVerifiers::new(committee, self.build.as_ref(), &self.keys);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(verifiers);
    }

    pub fn current(&self) -> Arc<CommitteeVerifiers> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
