//! The only place that turns peers' bytes into [`Checked`] messages. No result depends on state, so it runs on any thread.
//!
//! Peers crash, but do not lie. These checks keep a damaged or foreign message from doing harm.

use crate::{
    config::Config,
    message::{Accepted, Answer, Message, RequestId, Try, Value},
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
pub struct BaxosVerifier {
    config: Config,
    committee: Committee,
}

impl Verifier for BaxosVerifier {
    fn cost(&self, bytes: &[u8]) -> u64 {
        READ_US + bytes.len() as u64 / READ_BYTES_PER_US
    }

    fn verify(&self, from: ValidatorIndex, bytes: &Bytes) -> Result<Verified, PeerFault> {
        self.check(from, bytes).map(|message| Verified(Arc::new(Checked(message)))).map_err(PeerFault)
    }
}

impl BaxosVerifier {
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
            Message::Prepare { request, sent } => {
                check_number(sent.0)?;
                self.check_own(from, request.attempt)?;
                self.check_request(request)?;
            }
            Message::Propose { request, value, next, sent } => {
                check_number(sent.0)?;
                self.check_own(from, request.attempt)?;
                self.check_request(request)?;
                self.check_value(value)?;
                next.iter().try_for_each(|next| self.check_try(*next).and_then(|()| self.check_own(from, *next)))?;
            }
            Message::Answer { request, answer, stamp } => {
                check_number(stamp.echo.0)?;
                check_number(stamp.time.0)?;
                self.check_request(request)?;
                self.check_answer(answer)?;
            }
            Message::Decided { first, values } => {
                check_number(first.0)?;
                ensure(first.0 > 0, || "slot: the first one is 1".into())?;
                values.iter().try_for_each(|value| self.check_value(value))?;
            }
            Message::Status { decided, delivered, time, echo, rtt_ms: _ } => {
                [decided.0, *delivered, time.0].into_iter().try_for_each(check_number)?;
                echo.iter().try_for_each(|echo| check_number(echo.0))?;
            }
            Message::CatchUp { after: slot } | Message::Highest { slot, .. } => check_number(slot.0)?,
            Message::AskHighest { .. } => {}
        }
        Ok(message)
    }

    fn check_member(&self, member: ValidatorIndex) -> Result<(), String> {
        check_member(&self.committee, member)
    }

    fn check_request(&self, request: &RequestId) -> Result<(), String> {
        check_number(request.slot.0)?;
        ensure(request.slot.0 > 0, || "slot: the first one is 1".into())?;
        self.check_try(request.attempt)
    }

    fn check_try(&self, attempt: Try) -> Result<(), String> {
        self.check_member(attempt.proposer)?;
        check_number(attempt.counter)?;
        ensure(attempt.counter > 0, || "try: the first counter is 1".into())
    }

    fn check_own(&self, from: ValidatorIndex, attempt: Try) -> Result<(), String> {
        ensure(attempt.proposer == from, || format!("try: expected one of validator {from}, got one of {}", attempt.proposer))
    }

    fn check_answer(&self, answer: &Answer) -> Result<(), String> {
        match answer {
            Answer::Promise(accepted) => self.check_accepted(accepted.as_ref()),
            Answer::Accept { next } => next.iter().try_for_each(|next| {
                self.check_try(next.attempt)?;
                self.check_accepted(next.accepted.as_ref())
            }),
            Answer::Refuse { promised } => self.check_try(*promised),
        }
    }

    fn check_accepted(&self, accepted: Option<&Accepted>) -> Result<(), String> {
        let Some(Accepted { attempt, value }) = accepted else { return Ok(()) };
        self.check_try(*attempt)?;
        self.check_value(value)
    }

    fn check_value(&self, value: &Value) -> Result<(), String> {
        self.check_member(value.proposer)?;
        check_value(&self.committee, value)
    }
}
