//! Drives the engine.

use super::Pipeline;
use crate::blocks::promising;
use crate::io::Output;
use crate::message::PeerMessage;
use corniche_engine::{Batch, Engine, Input as EngineInput, Output as EngineOutput, Verified};
use corniche_types::{TimestampMs, ValidatorIndex};

impl Pipeline {
    pub(super) fn engine_input(&mut self, now: TimestampMs, input: EngineInput) {
        if let Some(engine) = &mut self.engine {
            engine.handle(now, input);
        }
    }

    /// Passes a peer's message to the engine, unless the backlog is full: see [`super::backlog`].
    pub(super) fn engine_message(&mut self, now: TimestampMs, from: ValidatorIndex, message: Verified) {
        if !self.builder.has_waiting() {
            self.engine_input(now, EngineInput::Message { from, message });
        }
    }

    pub(super) fn engine_deadline(&mut self, now: TimestampMs) {
        let due = |engine: &dyn Engine| engine.deadline().is_some_and(|deadline| deadline <= now);
        if self.engine.as_deref().is_some_and(due) {
            self.engine_input(now, EngineInput::Deadline);
        }
    }

    /// Processes all outputs of the engine; returns true if there were any.
    pub(super) fn drain_engine(&mut self, now: TimestampMs) -> bool {
        let mut any = false;
        while let Some(output) = self.engine.as_mut().and_then(|engine| engine.poll()) {
            any = true;
            match output {
                EngineOutput::WantBatch { bytes, gas } => self.wanted_batch = Some((bytes, gas)),
                EngineOutput::Send { to, message } => self.send_to_validators(to, &PeerMessage::Engine(message)),
                EngineOutput::Persist(ticket, record) => self.out.push_back(Output::Persist(ticket, record)),
                EngineOutput::ReleaseBelow(ticket) => {
                    self.releases.push_back((self.builder.delivered(), ticket));
                }
                EngineOutput::Deliver(commit) => {
                    self.batches_returned(commit.batches.iter().map(|(_, batch)| batch));
                    self.builder.push(commit);
                }
                EngineOutput::Available { author, batch } => {
                    let transactions = promising(&batch, &self.genesis);
                    if !transactions.is_empty() {
                        self.out.push_back(Output::Available { author, transactions });
                    }
                }
                EngineOutput::Requeue(batch) => {
                    self.batches_returned([&batch]);
                    self.pool.requeue(batch);
                }
                EngineOutput::Accuse { validator, offence, evidence } => {
                    self.out.push_back(Output::Accuse { validator, offence, evidence });
                }
                EngineOutput::Trace(event) => self.out.push_back(Output::Trace(event)),
            }
        }
        self.plan_blocks();
        any |= self.answer_want_batch(now);
        any
    }

    pub(super) fn answer_want_batch(&mut self, now: TimestampMs) -> bool {
        let Some((bytes, gas)) = self.wanted_batch else { return false };
        let overloaded = self.backlog.is_long();
        let batch = if overloaded { None } else { self.next_batch(now, bytes, gas) };
        // An open block needs later commits to close, so rounds continue with empty proposals.
        let batch = batch.or_else(|| (self.builder.is_open() || overloaded).then(Batch::default));
        let Some(batch) = batch else { return false };
        self.wanted_batch = None;
        self.engine_input(now, EngineInput::Batch(batch));
        true
    }
}
