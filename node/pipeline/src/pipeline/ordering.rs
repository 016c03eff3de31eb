//! Drives the engine.

use super::{Ordering, Pipeline};
use crate::blocks::promising;
use crate::io::{HaltCause, Halted, Output};
use crate::message::PeerMessage;
use corniche_engine::{Batch, Input as EngineInput, Output as EngineOutput, Verified};
use corniche_types::{TimestampMs, ValidatorIndex};

impl Pipeline {
    pub(super) fn engine_input(&mut self, now: TimestampMs, input: EngineInput) {
        if let Some(ordering) = self.mode.ordering_mut() {
            ordering.engine.handle(now, input);
        }
    }

    /// Passes a peer's message to the engine, unless the backlog is full: see [`super::backlog`].
    pub(super) fn engine_message(&mut self, now: TimestampMs, from: ValidatorIndex, message: Verified) {
        if let Some(ordering) = self.mode.ordering_mut().filter(|ordering| !ordering.builder.has_waiting()) {
            ordering.engine.handle(now, EngineInput::Message { from, message });
        }
    }

    pub(super) fn engine_deadline(&mut self, now: TimestampMs) {
        let is_due = |ordering: &Ordering| ordering.engine.deadline().is_some_and(|deadline| deadline <= now);
        if self.mode.ordering().is_some_and(is_due) {
            self.engine_input(now, EngineInput::Deadline);
        }
    }

    /// Time at which a pending `WantBatch` gets an empty batch, because a step of the epoch needs a block.
    pub(super) fn epoch_step(&self) -> Option<TimestampMs> {
        let ordering = self.mode.ordering().filter(|ordering| ordering.wanted_batch.is_some())?;
        ordering.builder.next_step()
    }

    /// Processes all outputs of the engine; returns true if there were any.
    pub(super) fn drain_engine(&mut self, now: TimestampMs) -> bool {
        let mut any = false;
        while let Some(ordering) = self.mode.ordering_mut()
            && let Some(output) = ordering.engine.poll()
        {
            any = true;
            match output {
                EngineOutput::WantBatch { bytes, gas } => ordering.wanted_batch = Some((bytes, gas)),
                EngineOutput::Send { to, message } => self.send_to_members(to, PeerMessage::engine(self.epoch.epoch, message)),
                EngineOutput::Persist(ticket, record) => {
                    let (ticket, record) = self.history.record(ticket, record);
                    self.out.push_back(Output::Persist(ticket, record));
                }
                EngineOutput::ReleaseBelow(ticket) => {
                    ordering.releases.push_back((ordering.builder.delivered(), ticket));
                }
                EngineOutput::Deliver(commit) => {
                    Self::batches_returned(&mut self.extension, commit.batches.iter().map(|(_, batch)| batch));
                    ordering.builder.push(commit);
                }
                EngineOutput::Available { author, batch } => {
                    let transactions = promising(&batch, &self.genesis);
                    if !transactions.is_empty() {
                        self.out.push_back(Output::Available { author, transactions });
                    }
                }
                EngineOutput::Requeue(batch) => {
                    Self::batches_returned(&mut self.extension, [&batch]);
                    self.pool.requeue(batch);
                    self.hand_over();
                }
                EngineOutput::Proposers(proposers) => {
                    self.forwarding.set_proposers(proposers);
                    self.hand_over();
                }
                EngineOutput::Accuse { validator, offence, evidence, proof } => {
                    self.keep_evidence(proof);
                    self.out.push_back(Output::Accuse { validator, offence, evidence });
                }
                EngineOutput::Twin(detail) => {
                    let reason = format!(
                        "another process signs with this validator's keys ({detail}): stop all but one, then start that one; two that sign lose stake"
                    );
                    self.halt(Halted { cause: HaltCause::Twin, reason }, None);
                    return true;
                }
                EngineOutput::Trace(event) => self.out.push_back(Output::Trace(event)),
                EngineOutput::Multicast(request) => self.out.push_back(Output::Multicast(request)),
                EngineOutput::AskSequencer { epoch, certificate } => {
                    self.out.push_back(Output::AskSequencer { epoch, certificate });
                }
            }
        }
        self.plan_blocks();
        any |= self.answer_want_batch(now);
        any
    }

    pub(super) fn answer_want_batch(&mut self, now: TimestampMs) -> bool {
        let Some((bytes, gas)) = self.mode.ordering().and_then(|ordering| ordering.wanted_batch) else { return false };
        let overloaded = self.backlog.is_long();
        let has_ended = self.mode.ordering().is_some_and(|ordering| ordering.builder.has_ended());
        let batch = if overloaded || has_ended { None } else { self.next_batch(now, bytes, gas) };
        if batch.is_some() {
            // Before the batch, so that its receivers need not check the signatures.
            self.send_attestations();
        }
        let Some(ordering) = self.mode.ordering_mut() else { return false };
        // An open block needs later commits to close, a step of an epoch needs a commit, and after it others may need this engine
        // (E3, E8). So rounds continue with empty proposals.
        let is_needed = ordering.builder.is_open() || ordering.builder.is_block_due(now) || has_ended;
        let batch = batch.or_else(|| (is_needed || overloaded).then(Batch::default));
        let Some(batch) = batch else { return false };
        ordering.wanted_batch = None;
        ordering.engine.handle(now, EngineInput::Batch(batch));
        true
    }
}
