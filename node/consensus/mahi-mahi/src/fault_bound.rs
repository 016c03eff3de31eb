//! Reaction when the fault bound is broken (I2, P24).
//!
//! At most one block of a slot can be certified while at most f validators are faulty (Lemma 6.4.2). Two certified
//! siblings prove that more than f are faulty. From then on, deliveries could differ between validators. The engine
//! then stops delivering and proposing, accuses the author with both siblings as evidence, and reports it in its trace.
//! It still answers peers, so that the evidence can be collected. After a restart, the same records lead to the same
//! state.

use crate::{
    engine::MahiMahi,
    message::{Block, BlockRef},
};
use corniche_engine::{Offence, Output, TraceEvent};
use corniche_types::ValidatorIndex;

impl MahiMahi {
    /// Called for every block that entered the DAG.
    pub(crate) fn check_fault_bound(&mut self, block: &Block) {
        let Some(proposed) = self.waves.propose_round_of_certify(block.round()).filter(|_| !self.is_halted) else { return };
        let is_broken = |author: &ValidatorIndex| self.dag.certified(proposed, *author).nth(1).is_some();
        let Some(validator) = self.committee.indices().find(is_broken) else { return };
        let siblings: Vec<BlockRef> = self.dag.certified(proposed, validator).map(|(sibling, _)| sibling).collect();
        self.is_halted = true;
        let blocks: Vec<_> = siblings.iter().filter_map(|sibling| self.dag.get(sibling)).collect();
        let contradiction = match &blocks[..] {
            [one, other, ..] => self.context.contradiction(one, other),
            _ => None,
        };
        let proof = contradiction.and_then(|it| self.committee.evidence(validator, it));
        let evidence = blocks.iter().map(|block| block.encode()).collect();
        self.outputs.push_back(Output::Accuse { validator, offence: Offence::Equivocation, evidence, proof });
        let detail = format!(
            "validators with more than {} votes are faulty: {siblings:?} are both certified",
            self.committee.max_faulty()
        );
        self.trace(TraceEvent::note("agreement-lost", detail));
    }
}
