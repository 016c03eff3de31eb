//! Evidence against validators that the staking contract has not seen (validators.md §6.3).
//!
//! A node keeps evidence until the contract has convicted the validator, or can no more. Meanwhile it owes a notice with it, one at a
//! time. The evidence is on disk, so neither a crash of the witness nor a handover loses it.

use super::Pipeline;
use crate::io::Output;
use corniche_crypto::evidence::Evidence;
use corniche_staking::{StateSlots, evidence};
use corniche_state::StateView;
use corniche_types::{Epoch, Genesis, ValidatorIndex};
use std::collections::BTreeMap;

/// Maximum number of pieces of evidence in a node. There are fewer offenders, unless most validators are faulty.
const MAX_EVIDENCE: usize = 1_024;

/// Evidence by epoch and offender: the first piece convicts.
pub(super) type PendingEvidence = BTreeMap<(Epoch, ValidatorIndex), Evidence>;

impl Pipeline {
    /// Keeps what an engine proved, to be reported.
    pub(super) fn keep_evidence(&mut self, proof: Option<Box<Evidence>>) {
        let Some(evidence) = proof else { return };
        let place = (evidence.epoch, evidence.offender);
        let is_wanted = self.evidence.len() < MAX_EVIDENCE && !self.evidence.contains_key(&place);
        if is_wanted && convicts(&self.genesis, &self.view(), &evidence) {
            self.evidence.insert(place, (*evidence).clone());
            self.notices.look_again();
            self.out.push_back(Output::StoreEvidence(evidence));
        }
    }

    /// Forgets evidence that the newest state has, or can no longer take.
    pub(super) fn forget_evidence(&mut self) {
        if self.evidence.is_empty() {
            return;
        }
        let view = self.view();
        self.evidence.retain(|_, evidence| is_useful(&self.genesis, &view, evidence));
    }
}

/// Returns whether evidence may convict somebody, now or when the state is newer. Does not check signatures.
pub fn is_useful(genesis: &Genesis, view: &dyn StateView, evidence: &Evidence) -> bool {
    let Some(parameters) = genesis.epochs() else { return false };
    evidence::is_useful(&mut StateSlots(view), parameters, genesis.chain_id, evidence) == Ok(true)
}

fn convicts(genesis: &Genesis, view: &dyn StateView, evidence: &Evidence) -> bool {
    let Some(parameters) = genesis.epochs() else { return false };
    evidence::convicts(&mut StateSlots(view), parameters, genesis.chain_id, evidence) == Ok(true)
}
