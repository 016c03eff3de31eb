//! The way of a block into the DAG (E1, E2, V8): it waits for its ancestors, and those that wait for it follow.

use super::MahiMahi;
use crate::message::{Block, BlockRef, Round};
use corniche_engine::{Batch, Offence, Output, TraceEvent};
use corniche_types::ValidatorIndex;
use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

/// Origin of a block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// Received from a peer; not recorded yet.
    Peer,
    /// Own block; just became durable.
    Own,
    /// Accepted in an earlier incarnation: durable, and already reported.
    Recorded,
}

impl MahiMahi {
    /// E1: processes a block whose own bytes are valid.
    pub(crate) fn handle_block(&mut self, from: ValidatorIndex, block: Arc<Block>) {
        let reference = block.reference();
        if self.proposer.as_ref().is_some_and(|own| own.me() == block.author() && block.round() > own.highest_signed) {
            self.handle_lost_records(&block);
        }
        self.observe_own(&block);
        if self.is_known(&reference) {
            return;
        }
        if reference.round > self.horizon() {
            return self.synchroniser.note_far_block(self.now, reference);
        }
        self.synchroniser.reached(&reference);
        self.report_sibling(&block);
        if !self.is_surplus(&reference) {
            self.insert_or_park(from, block, Origin::Peer);
        }
    }

    /// Returns true if the block is in the DAG, pending, or at or below the floor.
    pub(crate) fn is_known(&self, reference: &BlockRef) -> bool {
        reference.round <= self.sequence.floor() || self.dag.contains(reference) || self.synchroniser.is_pending(reference)
    }

    /// Highest round whose blocks are kept. An author may sign blocks of any round. An honest author is this far ahead
    /// only of a validator that must fetch the rounds between first, and fetches these blocks with them.
    pub(crate) fn horizon(&self) -> Round {
        self.dag.clock().max(self.sequence.floor() + 1) + self.config.window()
    }

    /// E8 across incarnations: notes the round of an own block that this incarnation did not know.
    pub(super) fn observe_own(&mut self, block: &Block) {
        if let Some(proposer) = self.proposer.as_mut().filter(|proposer| proposer.me() == block.author()) {
            proposer.highest_signed = proposer.highest_signed.max(block.round());
        }
    }

    /// V8: inserts a block into the DAG if its history is complete; otherwise parks it.
    pub(super) fn insert_or_park(&mut self, from: ValidatorIndex, block: Arc<Block>, origin: Origin) {
        let present = |parent: &BlockRef| parent.round <= self.sequence.floor() || self.dag.contains(parent);
        let missing: BTreeSet<_> = block.parents().iter().filter(|parent| !present(parent)).copied().collect();
        if missing.is_empty() {
            self.accept(block, origin);
        } else {
            // An equivocator's block is not in transit: its author showed a sibling.
            let is_late = |parent: &BlockRef| self.is_excluded(parent.author);
            let urgent = missing.iter().filter(|parent| is_late(parent)).copied().collect::<Vec<_>>();
            if self.synchroniser.add_pending(self.now, from, block, missing) {
                urgent.iter().for_each(|parent| self.synchroniser.expedite(self.now, parent));
            }
        }
    }

    /// E2: inserts a block, and all pending blocks that become complete by it.
    pub(super) fn accept(&mut self, block: Arc<Block>, origin: Origin) {
        let mut ready = VecDeque::from([(block, origin)]);
        while let Some((block, origin)) = ready.pop_front() {
            let reference = block.reference();
            let is_extra = self.dag.siblings(reference.round, reference.author).next().is_some();
            if !self.dag.insert(block.clone()) {
                continue;
            }
            if is_extra {
                self.note_equivocator(&reference);
                let most = self.config.max_extra_bytes(self.committee.weights());
                let mut accounts = self.synchroniser.needed_by(&reference);
                let account = accounts.find(|account| self.extra_siblings.has_room(*account, most)).unwrap_or(reference.author);
                self.extra_siblings.add(reference, account, block.weight());
            }
            if origin == Origin::Peer {
                self.clock_leads.note(block.author(), block.content().timestamp, self.now);
                self.record(&block);
            }
            if origin != Origin::Recorded {
                self.trace(TraceEvent::Accepted(block.vertex()));
            }
            self.check_fault_bound(&block);
            self.changed = true;
            self.decisions.block_arrived(reference.round);
            self.repair.progress(self.now);
            if !block.content().batch.is_empty() && self.is_awaited(reference) {
                self.undelivered.insert((reference.round, reference.author));
                if origin != Origin::Recorded {
                    let batch = Batch { bytes: block.content().batch.clone() };
                    self.outputs.push_back(Output::Available { author: reference.author, batch });
                }
            }
            let refused = if reference.round > self.sequence.floor() { self.coins.add_block(&block) } else { Vec::new() };
            self.accuse_of_bad_shares(refused);
            self.track_closed_coin(reference.round);
            if let Some(proposer) = &mut self.proposer {
                proposer.accepted(&self.dag, reference);
            }
            ready.extend(self.synchroniser.arrived(&reference).into_iter().map(|block| (block, Origin::Peer)));
        }
    }

    fn track_closed_coin(&mut self, round: Round) {
        if self.dag.votes_at(round) >= self.committee.quorum() && self.coins.opened(round).is_none() {
            self.closed_coins.insert(round);
        }
    }

    fn is_awaited(&self, reference: BlockRef) -> bool {
        reference.round > self.sequence.floor() && !self.sequence.is_delivered(reference.round, reference.author)
    }

    pub(crate) fn accuse_of_bad_shares(&mut self, blocks: Vec<Arc<Block>>) {
        for block in blocks {
            let (validator, evidence) = (block.author(), vec![block.encode()]);
            self.outputs.push_back(Output::Accuse { validator, offence: Offence::BadCoinShare, evidence, proof: None });
        }
    }
}
