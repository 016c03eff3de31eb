//! The only place that turns peers' bytes into [`Checked`] messages. No result depends on state, so it runs on any thread.
//!
//! Peers crash, but do not lie. These checks keep a damaged or foreign message from doing harm.

use crate::{
    config::Config,
    message::{Message, Proposal, Slot, Value},
    rules::FIRST_STEP,
};
use corniche_engine::{Committee, PeerFault, Verified, Verifier};
use corniche_lanes::{check_batch, check_member, check_number, check_value, ensure};
use corniche_types::{Bytes, ValidatorIndex, wire};
use std::sync::Arc;

const READ_US: u64 = 5;
/// Bytes decoded and hashed per µs.
const READ_BYTES_PER_US: u64 = 512;

/// A peer's message after all stateless checks.
#[derive(Clone, Debug)]
pub struct Checked(pub Message);

/// The stateless part of the engine.
pub struct QuePaxaVerifier {
    config: Config,
    committee: Committee,
}

impl Verifier for QuePaxaVerifier {
    fn cost(&self, bytes: &[u8]) -> u64 {
        READ_US + bytes.len() as u64 / READ_BYTES_PER_US
    }

    fn verify(&self, from: ValidatorIndex, bytes: &Bytes) -> Result<Verified, PeerFault> {
        self.check(from, bytes).map(|message| Verified(Arc::new(Checked(message)))).map_err(PeerFault)
    }
}

impl QuePaxaVerifier {
    pub fn new(config: Config, committee: Committee) -> Self {
        Self { config, committee }
    }

    fn check(&self, from: ValidatorIndex, bytes: &Bytes) -> Result<Message, String> {
        self.check_member(from)?;
        let limit = self.config.max_message_bytes(self.committee.size());
        ensure(bytes.len() <= limit, || format!("message: expected at most {limit} bytes, got {}", bytes.len()))?;
        let message: Message = wire::decode(bytes).map_err(|error| error.to_string())?;
        match &message {
            Message::Batch(batch) => check_batch(&self.committee, batch, self.config.batch_bytes)?,
            Message::FetchBatch { author, tip } => {
                self.check_member(*author)?;
                check_number(tip.number)?;
            }
            Message::Record { request, proposal } => {
                self.check_step(request.slot, request.step)?;
                self.check_proposal(proposal)?;
            }
            Message::Answer { request, answer, time } => {
                check_number(time.0)?;
                self.check_step(request.slot, request.step)?;
                self.check_step(request.slot, answer.step)?;
                self.check_proposal(&answer.first)?;
                answer.highest_before.iter().try_for_each(|proposal| self.check_proposal(proposal))?;
            }
            Message::Decided { first, values } => {
                check_number(first.0)?;
                ensure(first.0 > 0, || "slot: the first one is 1".into())?;
                values.iter().try_for_each(|value| self.check_value(value))?;
            }
            Message::Progress { decided, delivered, time } => {
                [decided.0, *delivered, time.0].into_iter().try_for_each(check_number)?;
            }
            Message::Highest { slot, time, .. } => [slot.0, time.0].into_iter().try_for_each(check_number)?,
            Message::AskHighest { .. } => {}
        }
        Ok(message)
    }

    fn check_member(&self, member: ValidatorIndex) -> Result<(), String> {
        check_member(&self.committee, member)
    }

    fn check_step(&self, slot: Slot, step: u64) -> Result<(), String> {
        check_number(slot.0)?;
        check_number(step)?;
        ensure(slot.0 > 0 && step >= FIRST_STEP, || {
            format!("slot {}, step {step}: expected at least 1 and {FIRST_STEP}", slot.0)
        })
    }

    fn check_proposal(&self, proposal: &Proposal) -> Result<(), String> {
        self.check_member(proposal.proposer)?;
        ensure(proposal.priority > 0, || "proposal: the priority is 0".into())?;
        self.check_value(&proposal.value)
    }

    fn check_value(&self, value: &Value) -> Result<(), String> {
        let size = self.committee.size();
        ensure(value.schedule.len() <= size, || format!("schedule: expected at most {size} members"))?;
        value.schedule.iter().try_for_each(|member| self.check_member(*member))?;
        check_value(&self.committee, value)
    }
}
