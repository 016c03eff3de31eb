//! Answering peers: where we stand, cars, commits, votes and certificates that they show they lack.
//!
//! **What answers cost is bounded per peer and time.** Every peer has an allowance of bytes that refills with time. A question that
//! comes while it is used up waits, up to [`MAX_WAITING`] of them, until it is not. So a peer that floods questions gets the same share
//! as one that asks politely, and neither takes anything from the others.

use crate::{
    config::Config,
    engine::Autobahn,
    message::{Message, Position, SignedCar, Slot, Standing, Tip},
    slots,
    verify::{MAX_CARS, max_commits},
};
use corniche_engine::{Allowances, Rate};
use corniche_types::{TimestampMs, ValidatorIndex, wire};
use std::collections::{BTreeMap, VecDeque};

/// Full answers ([`Config::fetch_bytes`]) that a peer gets in a second, in a small committee.
const ANSWERS_PER_SECOND: u64 = 16;
/// Bytes that even the smallest answer counts.
const LEAST: u64 = 1_024;
/// Signature checks for answers that count as much as a full answer.
const CHECKS: usize = 64;
/// Questions of one peer that wait, at most; more are dropped, and asked again.
pub const MAX_WAITING: usize = 64;

/// What is owed to peers, and what they may still cost.
#[derive(Default)]
pub struct Service {
    allowances: Allowances,
    /// Of peers that have questions.
    waiting: BTreeMap<ValidatorIndex, VecDeque<Question>>,
}

/// What peers ask for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Question {
    Standing {
        nonce: u64,
    },
    Cars {
        tip: Tip,
        above: Position,
    },
    Commits {
        above: Slot,
    },
    /// The owner sends a car that is held: it lacks our vote, or its certificate.
    Vote {
        tip: Tip,
    },
    Slots(slots::Question),
}

/// Allowance for the answers to one peer. Each gets one full answer a second at least.
fn rate(config: &Config, committee_size: usize) -> Rate {
    let answer = u64::from(config.fetch_bytes) + LEAST;
    Rate::shared(ANSWERS_PER_SECOND * answer, answer, committee_size)
}

impl Service {
    /// When the next waiting question may be answered.
    pub fn deadline(&self) -> Option<TimestampMs> {
        self.allowances.ready_at(self.waiting.keys())
    }

    pub fn count(&self) -> usize {
        self.waiting.values().map(VecDeque::len).sum()
    }

    /// The next question of this peer, if its allowance at this rate is not used up.
    fn next(&mut self, peer: ValidatorIndex, rate: Rate, now: TimestampMs) -> Option<Question> {
        let waiting = self.waiting.get_mut(&peer).filter(|_| self.allowances.refill(peer, rate, now))?;
        // Small answers first: a peer that fetches long histories is not silent about slots for as long.
        let small = waiting.iter().position(|question| !matches!(question, Question::Cars { .. }));
        waiting.remove(small.unwrap_or(0))
    }

    fn spend(&mut self, peer: ValidatorIndex, bytes: usize) {
        self.allowances.spend(peer, LEAST + bytes as u64);
    }
}

impl Autobahn {
    pub(crate) fn take_question(&mut self, peer: ValidatorIndex, question: Question) {
        let waiting = self.service.waiting.entry(peer).or_default();
        if waiting.len() < MAX_WAITING && !waiting.contains(&question) {
            waiting.push_back(question);
        }
        self.serve(peer);
    }

    /// Called at every deadline.
    pub(crate) fn serve_waiting(&mut self) {
        let peers: Vec<_> = self.service.waiting.keys().copied().collect();
        peers.into_iter().for_each(|peer| self.serve(peer));
    }

    fn serve(&mut self, peer: ValidatorIndex) {
        let rate = rate(&self.config, self.committee.size());
        while let Some(question) = self.service.next(peer, rate, self.now) {
            let bytes = match question {
                Question::Standing { nonce } => self.answer_standing(peer, nonce),
                Question::Cars { tip, above } => self.answer_cars(peer, tip, above),
                Question::Commits { above } => self.answer_commits(peer, above),
                Question::Vote { tip } => self.lanes.answer_again(&tip).map_or(0, |answer| self.send(peer, &answer)),
                Question::Slots(question) => self.slots.answer(question).map_or(0, |answer| self.send(peer, &answer)),
            };
            self.service.spend(peer, bytes);
        }
        if self.service.waiting.get(&peer).is_some_and(VecDeque::is_empty) {
            self.service.waiting.remove(&peer);
        }
    }

    fn answer_standing(&mut self, peer: ValidatorIndex, nonce: u64) -> usize {
        // Whoever forgot is no witness.
        if !self.repair.is_witness() {
            return 0;
        }
        let standing = self.standing(peer, nonce, false);
        let bytes = self.send(peer, &Message::Standing(standing));
        // Its records do not have it.
        let certificate = self.lanes.certified(peer).cloned();
        let check = self.config.fetch_bytes as usize / CHECKS;
        bytes + check + certificate.map_or(0, |certificate| self.send(peer, &Message::Available(certificate)))
    }

    /// STATUS for one peer.
    pub(crate) fn standing(&mut self, peer: ValidatorIndex, nonce: u64, answer: bool) -> Standing {
        let yours = if answer { None } else { self.lanes.highest_signed(peer) };
        let highest = |lane| self.lanes.highest(lane).map_or(Position(0), |car| car.position());
        Standing {
            nonce,
            answer,
            committed: self.commits.get(&self.slots.committed()).map(|commit| commit.certificate.clone()),
            yours: yours.map(|car| car.signed().clone()),
            lanes: self.committee.indices().map(highest).collect(),
            birth: self.repair.announced().filter(|_| answer),
            met: self.repair.met(peer).filter(|_| !answer),
        }
    }

    /// SYNC-REPLY. Certificates inside a chain say nothing that the chain does not say, so only the tip keeps its own.
    fn answer_cars(&mut self, peer: ValidatorIndex, tip: Tip, above: Position) -> usize {
        let mut cars = self.lanes.serve(&tip, above, self.config.fetch_bytes as usize);
        cars.drain(..cars.len().saturating_sub(MAX_CARS));
        let bare = |car: &SignedCar| SignedCar { certificate: None, ..car.clone() };
        let mut cars: Vec<_> = cars.iter().map(|car| bare(car.signed())).collect();
        if let (Some(last), Some(held)) = (cars.last_mut(), self.lanes.get(&tip)) {
            last.certificate = held.certificate().cloned();
        }
        self.send(peer, &Message::Cars { tip, cars })
    }

    /// SLOT-REPLY.
    fn answer_commits(&mut self, peer: ValidatorIndex, above: Slot) -> usize {
        let mut room = self.config.fetch_bytes as usize;
        let mut commits = Vec::new();
        let wanted = (above.0.saturating_add(1)..=self.slots.committed().0).map(Slot);
        for (number, slot) in wanted.take(max_commits(&self.config, &self.committee)).enumerate() {
            let Some(commit) = self.commits.get(&slot) else { break };
            let entry = ((*commit.cut).clone(), commit.certificate.clone());
            let bytes = wire::encode(&entry).len();
            if bytes > room && number > 0 {
                break;
            }
            room = room.saturating_sub(bytes);
            commits.push(entry);
        }
        if commits.is_empty() { 0 } else { self.send(peer, &Message::Commits(commits)) }
    }
}
