//! Responses to peers: status, cars, commits, votes and certificates that they evidently lack.
//!
//! **The cost of responses is limited per peer and time.** Every peer has a token bucket of bytes that refills with
//! time. While it is used up, up to [`MAX_WAITING`] requests wait. So a peer that floods requests gets no more than a
//! polite one, and neither takes anything from the others.

use crate::{
    config::Config,
    engine::Autobahn,
    message::{Message, Position, SignedCar, Slot, Status, Tip},
    slots,
    verify::{MAX_CARS, max_commits},
};
use corniche_engine::{BucketRate, TokenBuckets};
use corniche_types::{TimestampMs, ValidatorIndex, wire};
use std::collections::{BTreeMap, VecDeque};

/// Full responses ([`Config::fetch_bytes`]) per second and peer, in a small committee.
const RESPONSES_PER_SECOND: u64 = 16;
/// Minimum cost of a response, in bytes.
const MIN_RESPONSE_COST: u64 = 1_024;
/// Number of signature checks that cost as much as a full response.
const CHECKS_PER_RESPONSE: usize = 64;
/// Maximum number of waiting requests per peer; further ones are dropped, and the peer repeats them.
pub const MAX_WAITING: usize = 64;

/// Waiting requests of peers, and their token buckets.
#[derive(Default)]
pub struct Service {
    buckets: TokenBuckets,
    /// Only of peers with requests.
    waiting: BTreeMap<ValidatorIndex, VecDeque<Request>>,
}

/// Requests of peers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Request {
    Status {
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
    Slots(slots::Request),
}

/// Token bucket for the responses to one peer: at least one full response per second.
fn rate(config: &Config, committee_size: usize) -> BucketRate {
    let response = u64::from(config.fetch_bytes) + MIN_RESPONSE_COST;
    BucketRate::shared(RESPONSES_PER_SECOND * response, response, committee_size)
}

impl Service {
    /// Time at which the next waiting request may be served.
    pub fn deadline(&self) -> Option<TimestampMs> {
        self.buckets.ready_at(self.waiting.keys())
    }

    pub fn count(&self) -> usize {
        self.waiting.values().map(VecDeque::len).sum()
    }

    /// The next request of this peer, if its token bucket at this rate is not used up.
    fn next(&mut self, peer: ValidatorIndex, rate: BucketRate, now: TimestampMs) -> Option<Request> {
        let waiting = self.waiting.get_mut(&peer).filter(|_| self.buckets.refill(peer, rate, now))?;
        // Small responses first: a peer that fetches long histories should not miss messages about slots meanwhile.
        let small = waiting.iter().position(|request| !matches!(request, Request::Cars { .. }));
        waiting.remove(small.unwrap_or(0))
    }

    fn spend(&mut self, peer: ValidatorIndex, bytes: usize) {
        self.buckets.spend(peer, MIN_RESPONSE_COST + bytes as u64);
    }
}

impl Autobahn {
    pub(crate) fn handle_request(&mut self, peer: ValidatorIndex, request: Request) {
        let waiting = self.service.waiting.entry(peer).or_default();
        if waiting.len() < MAX_WAITING && !waiting.contains(&request) {
            waiting.push_back(request);
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
        while let Some(request) = self.service.next(peer, rate, self.now) {
            let bytes = match request {
                Request::Status { nonce } => self.respond_with_status(peer, nonce),
                Request::Cars { tip, above } => self.respond_with_cars(peer, tip, above),
                Request::Commits { above } => self.respond_with_commits(peer, above),
                Request::Vote { tip } => self.lanes.response_to_resent(&tip).map_or(0, |response| self.send(peer, &response)),
                Request::Slots(request) => self.slots.response(request).map_or(0, |response| self.send(peer, &response)),
            };
            self.service.spend(peer, bytes);
        }
        if self.service.waiting.get(&peer).is_some_and(VecDeque::is_empty) {
            self.service.waiting.remove(&peer);
        }
    }

    fn respond_with_status(&mut self, peer: ValidatorIndex, nonce: u64) -> usize {
        // A validator that forgot its past is no witness.
        if !self.repair.is_witness() {
            return 0;
        }
        let status = self.status(peer, nonce, false);
        let bytes = self.send(peer, &Message::Status(status));
        // The peer's records do not contain it.
        let certificate = self.lanes.certified(peer).cloned();
        let check = self.config.fetch_bytes as usize / CHECKS_PER_RESPONSE;
        bytes + check + certificate.map_or(0, |certificate| self.send(peer, &Message::Available(certificate)))
    }

    /// STATUS for one peer.
    pub(crate) fn status(&mut self, peer: ValidatorIndex, nonce: u64, wants_response: bool) -> Status {
        let receiver_car = if wants_response { None } else { self.lanes.highest_signed(peer) };
        let highest = |lane| self.lanes.highest(lane).map_or(Position(0), |car| car.position());
        Status {
            nonce,
            wants_response,
            committed: self.commits.get(&self.slots.committed()).map(|commit| commit.certificate.clone()),
            receiver_car: receiver_car.map(|car| car.signed().clone()),
            lanes: self.committee.indices().map(highest).collect(),
            disk_id: self.repair.announced().filter(|_| wants_response),
            peer_disk: self.repair.peer_disk(peer).filter(|_| !wants_response),
        }
    }

    /// SYNC-REPLY. Certificates inside a chain add nothing to the chain, so only the tip keeps its own.
    fn respond_with_cars(&mut self, peer: ValidatorIndex, tip: Tip, above: Position) -> usize {
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
    fn respond_with_commits(&mut self, peer: ValidatorIndex, above: Slot) -> usize {
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
