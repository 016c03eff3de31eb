//! Proposes blocks: when, and with which content.

use super::MahiMahi;
use crate::{
    message::{Block, Content, Round, SignedBlock},
    proposer::{BatchRequest, Proposer},
};
use corniche_engine::{Batch, Output, TraceEvent, Unsigned};
use corniche_types::TimestampMs;
use std::sync::Arc;

/// If the oldest undecided slot is this many floor depths back, rounds continue at the heartbeat only.
const MAX_OPEN_DEPTHS: u64 = 4;
/// Pause before a signer is asked again.
const SIGN_AGAIN_MS: u64 = 50;

impl MahiMahi {
    pub(super) fn propose_if_due(&mut self) {
        if self.sign_again() {
            return;
        }
        let excluded = self.excluded();
        let Some(proposer) = &mut self.proposer else { return };
        proposer.observe_clock(self.now, &self.dag, &excluded);
        if self.may_propose_at().is_none_or(|at| at > self.now) {
            return;
        }
        let due = self.must_propose();
        let Some(proposer) = &mut self.proposer else { return };
        if let Some(batch) = proposer.batch.take() {
            return self.propose(batch);
        }
        match proposer.batch_request {
            BatchRequest::None => {
                proposer.batch_request = BatchRequest::Fresh;
                let (bytes, gas) = (self.config.batch_bytes, self.config.batch_gas);
                self.outputs.push_back(Output::WantBatch { bytes, gas });
            }
            BatchRequest::Overdue if due => self.propose(Batch::default()),
            BatchRequest::Fresh | BatchRequest::Overdue => {}
        }
    }

    fn may_propose_at(&self) -> Option<TimestampMs> {
        self.next_proposal().map(|(_, at)| at)
    }

    /// Round and time of the next proposal; see [`Proposer::next`]. `None` before a quorum reported what it knows of
    /// earlier incarnations, and while an own block is not durable yet.
    fn next_proposal(&self) -> Option<(Round, TimestampMs)> {
        if self.in_flight.is_some() || self.unsigned.is_some() || self.is_halted {
            return None;
        }
        let proposer = self.proposer.as_ref()?;
        let (round, at) = proposer.next(&self.dag, &self.config, self.sequence.floor(), &self.excluded())?;
        let at = at.max(self.repair.allowed_at(&self.config, round, proposer.since(round))?);
        // Chance leaves no slot open for so long: more than f validators are faulty. The memory must not fill up
        // meanwhile.
        let is_far_ahead = self.dag.clock() > self.sequence.next().round + MAX_OPEN_DEPTHS * self.config.gc_depth;
        Some((round, if is_far_ahead { at.max(proposer.heartbeat_at(&self.config)) } else { at }))
    }

    /// A batch waits to be ordered, or a peer waits for a higher round: rounds must continue.
    pub(crate) fn is_busy(&self) -> bool {
        // There is a block of the round we could propose in: a peer is one round ahead and may need our block.
        !self.undelivered.is_empty() || self.dag.top() >= self.dag.clock() || self.dag.clock() <= self.service.awaited()
    }

    fn must_propose(&self) -> bool {
        let heartbeat = self.proposer.as_ref().map(|proposer| proposer.heartbeat_at(&self.config));
        self.is_busy() || heartbeat.is_some_and(|at| at <= self.now)
    }

    pub(super) fn proposal_deadline(&self) -> Option<TimestampMs> {
        if let Some((_, at)) = &self.unsigned {
            return Some(*at);
        }
        let at = self.may_propose_at()?;
        let proposer = self.proposer.as_ref()?;
        match proposer.batch_request {
            _ if proposer.batch.is_some() => Some(at),
            BatchRequest::None => Some(at),
            BatchRequest::Fresh | BatchRequest::Overdue if self.is_busy() => Some(at),
            BatchRequest::Fresh | BatchRequest::Overdue => Some(at.max(proposer.heartbeat_at(&self.config))),
        }
    }

    /// E5, E10. The round is above every round signed before (I1).
    fn propose(&mut self, batch: Batch) {
        let Some((round, _)) = self.next_proposal() else { return };
        let excluded = self.excluded();
        let (Some(proposer), Some(signer)) = (&mut self.proposer, &self.signer) else { return };
        assert!(round > proposer.highest_signed, "I1: one own block per round, ever");
        let content = Content {
            author: proposer.me(),
            round,
            timestamp: self.now,
            parents: proposer.parents(&self.dag, &self.context, round, &excluded),
            coin_shares: signer.coin_shares(&self.context.coin_message(round)),
            batch: batch.bytes,
        };
        self.sign(content);
    }

    /// Asks again for the signature of a block that a signer has not given yet, and with the same content: it may have signed. Drops
    /// the block if a later round can be proposed, or if this round may not be signed any more (I1, recovery). Returns true if the block is still to be signed.
    fn sign_again(&mut self) -> bool {
        let Some((content, at)) = self.unsigned.take() else { return false };
        let is_signed = |proposer: &Proposer| proposer.highest_signed >= content.round;
        let may_sign = self.proposer.as_ref().is_some_and(|proposer| {
            !is_signed(proposer) && self.repair.allowed_at(&self.config, content.round, proposer.since(content.round)).is_some()
        });
        if self.is_halted || !may_sign || self.dag.clock() > content.round {
            self.give_up(content);
            return false;
        }
        if at > self.now {
            self.unsigned = Some((content, at));
        } else {
            self.sign(content);
        }
        true
    }

    fn give_up(&mut self, content: Content) {
        let Some(proposer) = &mut self.proposer else { return };
        proposer.highest_signed = proposer.highest_signed.max(content.round);
        let batch = Batch { bytes: content.batch };
        if proposer.batch.is_none() && !batch.bytes.is_empty() {
            proposer.batch = Some(batch);
        } else if !batch.bytes.is_empty() {
            self.outputs.push_back(Output::Requeue(batch));
        }
    }

    /// The only place that signs blocks.
    fn sign(&mut self, content: Content) {
        let (Some(proposer), Some(signer)) = (&mut self.proposer, &self.signer) else { return };
        let round = content.round;
        let signature = match self.context.sign(&content, &**signer) {
            Ok(signature) => signature,
            // Never asked for again with other content. The batch waits for the next round.
            Err(Unsigned::Refused) => return self.give_up(content),
            Err(Unsigned::Unavailable) => {
                self.unsigned = Some((content, TimestampMs(self.now.0.saturating_add(SIGN_AGAIN_MS))));
                return;
            }
        };
        let block = Arc::new(Block::trusted(SignedBlock { content, signature }, &self.context));
        proposer.proposed(self.now, round);
        self.repair.clear_uncertain();
        self.trace(TraceEvent::Proposed(block.vertex()));
        let ticket = self.journal.append(round);
        self.outputs.push_back(Output::Persist(ticket, block.encode()));
        self.in_flight = Some((ticket, block));
    }
}
