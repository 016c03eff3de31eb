//! Responses to peers: status, cars, commits, votes and certificates that they evidently lack.
//!
//! **The cost of responses is limited per peer and time.** Every peer has an allowance of bytes that refills with
//! time. While it is used up, up to [`MAX_WAITING`] requests wait. So a peer that floods requests gets no more than a
//! polite one, and neither takes anything from the others.

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

/// Full responses ([`Config::fetch_bytes`]) per second and peer, in a small committee.
const ANSWERS_PER_SECOND: u64 = 16;
/// Minimum cost of a response, in bytes.
const LEAST: u64 = 1_024;
/// Number of signature checks that cost as much as a full response.
const CHECKS: usize = 64;
/// Maximum number of waiting requests per peer; further ones are dropped, and the peer repeats them.
pub const MAX_WAITING: usize = 64;

/// Waiting requests of peers, and their allowances.
#[derive(Default)]
pub struct Service {
    allowances: Allowances,
    /// Only of peers with requests.
    waiting: BTreeMap<ValidatorIndex, VecDeque<Question>>,
}

/// Requests of peers.
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
    /// The owner resends a car that is held: it lacks our vote, or its certificate.
    Vote {
        tip: Tip,
    },
    Slots(slots::Question),
}

/// Allowance for the responses to one peer: at least one full response per second.
fn rate(config: &Config, committee_size: usize) -> Rate {
    let answer = u64::from(config.fetch_bytes) + LEAST;
    Rate::shared(ANSWERS_PER_SECOND * answer, answer, committee_size)
}

impl Service {
    /// Time at which the next waiting request may be served.
    pub fn deadline(&self) -> Option<TimestampMs> {
        self.allowances.ready_at(self.waiting.keys())
    }

    pub fn count(&self) -> usize {
        self.waiting.values().map(VecDeque::len).sum()
    }

    /// The next request of this peer, if its allowance at this rate is not used up.
    fn next(&mut self, peer: ValidatorIndex, rate: Rate, now: TimestampMs) -> Option<Question> {
        let waiting = self.waiting.get_mut(&peer).filter(|_| self.allowances.refill(peer, rate, now))?;
        // Small responses first: a peer that fetches long histories should not miss messages about slots meanwhile.
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
        // A validator that forgot its past is no witness.
        if !self.repair.is_witness() {
            return 0;
        }
        let standing = self.standing(peer, nonce, false);
        let bytes = self.send(peer, &Message::Standing(standing));
        // The peer's records do not contain it.
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

    /// SYNC-REPLY. Certificates inside a chain add nothing to the chain, so only the tip keeps its own.
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
