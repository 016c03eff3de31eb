//! Fetches histories and bodies from peers (Y1–Y5). One holder is asked first; without a response, another one too
//! (P15).
//!
//! | target | asked peers | ends when |
//! |---|---|---|
//! | the history of the committed tip that is executed next | all that may have it, repeatedly in turn | held |
//! | the history of a tip that is certified (Y2) or executed later | its signers, of which one is correct | held, or lane full |
//! | the body of a tip without certificate (Y4) | the leader that proposed it | held, or no vote waits for it any more |
//!
//! A source is asked again at once while it sends at least half of a full response, otherwise the next one is asked. So
//! a faulty source delays a history only as long as a silent one does, once for each time it is asked. Requests to
//! other sources stay open meanwhile: a response to an earlier request is used from the car that is still missing
//! downwards.
//!
//! No peer can make this grow without bound. There are at most [`MAX_EARLY_FETCHES`] certified tips per lane, bodies are
//! bounded by the votes that wait for them, and only requested parts of a response are accepted. Targets that are not
//! due cost nothing. Responses are read only from peers that owe one ([`Lanes::cars_owed`]).

use super::{Effect, Lanes, OVERHEAD, lane::Lane};
use crate::{
    message::{HashedCar, Message, Position, Tip},
    verify::MAX_CARS,
};
use corniche_engine::Recipients;
use corniche_types::{TimestampMs, ValidatorIndex};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Maximum number of tips per lane whose histories are fetched before their turn.
pub const MAX_EARLY_FETCHES: usize = 16;

/// Maximum number of futile signature checks per response, for cars at positions with another car.
const MAX_UNPROVEN: usize = 8;

/// The caller's purpose of a body, as a number of the caller's choice. A later purpose replaces an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Purpose(pub u64);

/// Reason of a fetch; the greatest one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FetchReason {
    /// A vote waits for the body of a tip without certificate.
    Body(Purpose),
    /// The tip is certified, and will probably be executed.
    Early,
    /// The tip is executed next.
    Next,
}

/// All fetches, by target tip.
pub struct Fetches {
    me: Option<ValidatorIndex>,
    retry_ms: u64,
    targets: BTreeMap<Tip, Target>,
    /// `(gap, target)` of every target.
    gaps: BTreeSet<(Tip, Tip)>,
    /// `(ask_at, target)` of every target.
    timers: BTreeSet<(TimestampMs, Tip)>,
    /// The targets that are bodies, with their purposes.
    bodies: BTreeMap<Tip, Purpose>,
}

struct Target {
    reason: FetchReason,
    /// The highest missing car; moves down as responses arrive.
    gap: Tip,
    /// Cars above this position are wanted, except executed ones.
    above: Position,
    /// Peers that hold it, in the order of requests, repeatedly in turn. Never empty.
    sources: Vec<ValidatorIndex>,
    requests_sent: usize,
    /// Sources that were asked and have not responded yet.
    outstanding: BTreeSet<ValidatorIndex>,
    ask_at: TimestampMs,
}

/// The next request of a target.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FetchRequest {
    peer: ValidatorIndex,
    gap: Tip,
    above: Position,
}

/// The wanted part of a chain, and the reason.
#[derive(Clone, Copy)]
struct FetchRange {
    reason: FetchReason,
    above: Position,
}

impl Target {
    /// This source sent a part. If it was large, the source is asked for the rest at once. Otherwise the next source is
    /// asked: a faulty one could send little each time, just before another one would be asked.
    fn on_useful_response(&mut self, now: TimestampMs, from: ValidatorIndex, is_large: bool) {
        let place = self.sources.iter().position(|source| *source == from).unwrap_or(0);
        self.requests_sent = place + usize::from(!is_large);
        self.ask_at = now;
        self.outstanding.remove(&from);
    }

    /// This source has nothing. If it was the last one asked, the next is asked at once, but no source twice in this
    /// way.
    fn not_found(&mut self, now: TimestampMs, from: ValidatorIndex) {
        if self.sources.get(self.requests_sent.wrapping_sub(1)) == Some(&from) && self.requests_sent < self.sources.len() {
            self.ask_at = now;
        }
        self.outstanding.remove(&from);
    }

    fn next_request(&mut self, now: TimestampMs, retry_ms: u64) -> FetchRequest {
        let peer = self.sources[self.requests_sent % self.sources.len()];
        self.requests_sent += 1;
        self.outstanding.insert(peer);
        // Each round of unanswered requests doubles the timeout.
        let rounds = (self.requests_sent / self.sources.len()).min(6);
        self.ask_at = TimestampMs(now.0.saturating_add(retry_ms << rounds));
        FetchRequest { peer, gap: self.gap, above: self.above }
    }
}

impl Fetches {
    pub fn new(me: Option<ValidatorIndex>, retry_ms: u64) -> Self {
        let (targets, gaps) = (BTreeMap::new(), BTreeSet::new());
        // A request that is due again at once would loop for ever.
        let retry_ms = retry_ms.max(1);
        Self { me, retry_ms, targets, gaps, timers: BTreeSet::new(), bodies: BTreeMap::new() }
    }

    pub fn count(&self) -> usize {
        self.targets.len()
    }

    pub fn deadline(&self) -> Option<TimestampMs> {
        self.timers.first().map(|(at, _)| *at)
    }

    fn take(&mut self, tip: &Tip) -> Option<Target> {
        let target = self.targets.remove(tip)?;
        self.gaps.remove(&(target.gap, *tip));
        self.timers.remove(&(target.ask_at, *tip));
        self.bodies.remove(tip);
        Some(target)
    }

    fn put(&mut self, tip: Tip, target: Target) {
        self.gaps.insert((target.gap, tip));
        self.timers.insert((target.ask_at, tip));
        if let FetchReason::Body(purpose) = target.reason {
            self.bodies.insert(tip, purpose);
        }
        self.targets.insert(tip, target);
    }

    /// Targets that miss this car.
    fn missing(&self, car: Tip) -> Vec<Tip> {
        let first = self.gaps.range((car, lowest(car.lane))..);
        first.take_while(|(gap, _)| *gap == car).map(|(_, target)| *target).collect()
    }

    /// This car arrived: its targets now miss a lower car, or nothing.
    pub fn arrived(&mut self, car: Tip, held: &Lane) {
        for tip in self.missing(car) {
            let Some(target) = self.take(&tip) else { continue };
            if let Some(gap) = held.gap(target.gap, target.above) {
                self.put(tip, Target { gap, ..target });
            }
        }
    }

    /// Removes all targets at or below this executed tip.
    pub fn executed(&mut self, executed: Tip) {
        let start = lowest(executed.lane);
        let end = Tip { position: executed.position.next(), ..start };
        let done: Vec<_> = self.gaps.range((start, start)..(end, start)).map(|(_, target)| *target).collect();
        done.iter().for_each(|tip| _ = self.take(tip));
    }

    /// Drops bodies that no vote waits for any more.
    fn drop_bodies(&mut self, is_awaited: impl Fn(Purpose) -> bool) {
        let idle: Vec<_> = self.bodies.iter().filter(|(_, purpose)| !is_awaited(**purpose)).map(|(tip, _)| *tip).collect();
        idle.iter().for_each(|tip| _ = self.take(tip));
    }

    /// Histories of this lane that are being fetched, ascending.
    fn histories(&self, lane: ValidatorIndex) -> impl DoubleEndedIterator<Item = (&Tip, &Target)> {
        let end = Tip { position: Position(u64::MAX), ..lowest(lane) };
        self.targets.range(lowest(lane)..end).filter(|(_, target)| !matches!(target.reason, FetchReason::Body(_)))
    }

    /// Returns true if another history may be fetched before it is committed.
    fn has_room(&self, lane: ValidatorIndex) -> bool {
        self.histories(lane).filter(|(_, target)| target.reason == FetchReason::Early).count() < MAX_EARLY_FETCHES
    }

    /// The highest position below this tip's at which a fetch for the lane ends.
    fn below(&self, tip: &Tip) -> Position {
        let lower = self.histories(tip.lane).map(|(lower, _)| lower.position).rev();
        lower.into_iter().find(|lower| *lower < tip.position).unwrap_or_default()
    }

    /// The lane is full: drops all histories except the one that is executed next.
    fn cancel_early(&mut self, lane: ValidatorIndex) {
        let early = self.histories(lane).filter(|(_, target)| target.reason == FetchReason::Early);
        let early: Vec<_> = early.map(|(tip, _)| *tip).collect();
        early.iter().for_each(|tip| _ = self.take(tip));
    }

    /// The highest missing car of a tip that is being fetched.
    pub(super) fn gap(&self, tip: &Tip) -> Option<Tip> {
        self.targets.get(tip).map(|target| target.gap)
    }

    fn add(&mut self, now: TimestampMs, tip: Tip, wanted: FetchRange, gap: Tip, sources: &[ValidatorIndex]) {
        let FetchRange { reason, above } = wanted;
        let new =
            Target { reason, gap, above, sources: Vec::new(), requests_sent: 0, outstanding: BTreeSet::new(), ask_at: now };
        let mut target = self.take(&tip).unwrap_or(new);
        // The body was wanted first, and now the history is.
        (target.reason, target.above) = (target.reason.max(reason), target.above.min(above));
        for source in sources.iter().filter(|source| Some(**source) != self.me) {
            if !target.sources.contains(source) {
                target.sources.push(*source);
            }
        }
        if !target.sources.is_empty() {
            self.put(tip, target);
        }
    }

    /// Requests to send now.
    fn due(&mut self, now: TimestampMs) -> Vec<FetchRequest> {
        let (mut seen, mut requests) = (BTreeSet::new(), Vec::new());
        while let Some((_, tip)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            let Some(mut target) = self.take(&tip) else { break };
            let request = target.next_request(now, self.retry_ms);
            self.put(tip, target);
            if seen.insert(request) {
                requests.push(request);
            }
        }
        requests
    }

    /// Targets that miss this car and for which `from` owes a response.
    fn awaited_from(&self, from: ValidatorIndex, car: Tip) -> Vec<Tip> {
        let is_awaited = |tip: &Tip| self.targets.get(tip).is_some_and(|target| target.outstanding.contains(&from));
        self.missing(car).into_iter().filter(is_awaited).collect()
    }

    /// Targets of this lane.
    fn of_lane(&self, lane: ValidatorIndex) -> impl Iterator<Item = (&Tip, &Target)> {
        self.targets.range(lowest(lane)..).take_while(move |(tip, _)| tip.lane == lane)
    }

    /// The greatest need of the responses that `from` owes about this lane.
    fn is_awaited(&self, from: ValidatorIndex, lane: ValidatorIndex) -> Option<FetchReason> {
        self.of_lane(lane)
            .map(|(_, target)| target)
            .filter(|target| target.outstanding.contains(&from))
            .map(|target| target.reason)
            .max()
    }

    /// Counts a useless response as the response to all requests about this lane, so that a source cannot send more of
    /// them than it gets requests.
    fn useless(&mut self, from: ValidatorIndex, lane: ValidatorIndex) {
        let tips: Vec<_> = self.of_lane(lane).map(|(tip, _)| *tip).collect();
        self.update(&tips, |target| _ = target.outstanding.remove(&from));
    }

    /// The part that may be accepted for these targets.
    fn wanted(&self, tips: &[Tip]) -> Option<FetchRange> {
        let wanted = tips.iter().filter_map(|tip| self.targets.get(tip));
        let wanted = wanted.map(|target| FetchRange { reason: target.reason, above: target.above });
        wanted.reduce(|a, b| FetchRange { reason: a.reason.max(b.reason), above: a.above.min(b.above) })
    }

    fn update(&mut self, tips: &[Tip], change: impl Fn(&mut Target)) {
        for tip in tips {
            let Some(mut target) = self.take(tip) else { continue };
            change(&mut target);
            self.put(*tip, target);
        }
    }
}

/// Sorts before every car of a lane.
fn lowest(lane: ValidatorIndex) -> Tip {
    Tip { lane, position: Position(0), digest: Default::default() }
}

impl Lanes {
    /// Y1: fetches the history of a committed tip from these validators, above a position and above the executed tip.
    pub fn fetch_history(&mut self, now: TimestampMs, tip: Tip, above: Position, sources: &[ValidatorIndex]) {
        self.fetch(now, tip, FetchRange { reason: FetchReason::Next, above }, sources);
    }

    /// Same for a tip whose turn has not come; only while there is room.
    pub fn fetch_early(&mut self, now: TimestampMs, tip: Tip, above: Position, sources: &[ValidatorIndex]) {
        if self.fetches.has_room(tip.lane) && !self.is_full(tip.lane) {
            self.fetch(now, tip, FetchRange { reason: FetchReason::Early, above }, sources);
        }
    }

    /// Y2: fetches the history of a certified tip. A fetch for a lower tip of the lane is most likely part of it.
    pub fn prefetch(&mut self, now: TimestampMs, tip: Tip, sources: &[ValidatorIndex]) {
        self.fetch_early(now, tip, self.fetches.below(&tip), sources);
    }

    /// Y4: fetches only the body of an uncertified tip whose parent is certified.
    pub fn fetch_body(&mut self, now: TimestampMs, tip: Tip, source: ValidatorIndex, purpose: Purpose) {
        self.fetch(now, tip, FetchRange { reason: FetchReason::Body(purpose), above: tip.position.before() }, &[source]);
    }

    /// Ends fetches of bodies that no vote waits for. Drops fetched bodies without children that no cut names any more.
    pub fn drop_bodies(&mut self, is_awaited: impl Fn(Purpose) -> bool, is_named: impl Fn(&Tip) -> bool) {
        self.fetches.drop_bodies(is_awaited);
        let lanes = &mut self.lanes;
        self.bodies.retain(|tip| {
            let lane = &mut lanes[tip.lane.as_usize()];
            let is_side = tip.position > lane.executed().position && lane.get(tip).is_some() && !lane.supports(tip);
            is_side && (is_named(tip) || !lane.remove_top(tip))
        });
    }

    fn fetch(&mut self, now: TimestampMs, tip: Tip, wanted: FetchRange, sources: &[ValidatorIndex]) {
        let from = self.fetches.gap(&tip).unwrap_or(tip);
        if let Some(gap) = self.lane(tip.lane).gap(from, wanted.above) {
            self.fetches.add(now, tip, wanted, gap, sources);
            self.send_requests(now);
        }
    }

    /// D4: the previous car is certified but missing here.
    pub(super) fn fetch_certified(&mut self, now: TimestampMs, lane: ValidatorIndex) {
        if let Some(certificate) = self.lane(lane).certified().cloned() {
            self.prefetch(now, certificate.tip, &certificate.proof.signers);
        }
    }

    pub(super) fn send_requests(&mut self, now: TimestampMs) {
        for FetchRequest { peer, gap, above } in self.fetches.due(now) {
            let lane = self.lane(gap.lane);
            // The supported car is most likely on the same chain; if not, the next request goes deeper.
            let known = [lane.voted().position, lane.executed().position];
            let known = known.into_iter().filter(|known| *known < gap.position).max().unwrap_or(Position(0));
            let message = Message::FetchCars { tip: gap, above: above.max(known) };
            self.effects.push_back(Effect::Send { to: Recipients::One(peer), message: Box::new(message) });
        }
    }

    /// Maximum number of cars in a response that this peer owes about the lane; 0 if it owes none.
    pub fn cars_owed(&self, from: ValidatorIndex, lane: ValidatorIndex) -> usize {
        match self.fetches.is_awaited(from, lane) {
            None => 0,
            Some(FetchReason::Body(_)) => 1,
            Some(FetchReason::Early | FetchReason::Next) => MAX_CARS,
        }
    }

    /// SYNC-REPLY: processes a chain that ends at `tip`; empty if the sender does not hold it. Each request has one
    /// response. Cars that the sender was not asked for are dropped; of a chain without a certificate, everything
    /// except its tip. Responses of others may have brought a part meanwhile, so the chain is used from the highest
    /// missing car downwards.
    ///
    /// Its hashes were checked, its signatures were not. A certified or committed tip needs none: one of its certifiers
    /// is correct and voted for the whole chain, whose top the owner signed, and hashes bind the rest to it. A body
    /// without a certificate needs its owner's signature.
    pub fn handle_cars(&mut self, now: TimestampMs, from: ValidatorIndex, tip: Tip, cars: &[Arc<HashedCar>]) {
        let awaited_from = |car: &Arc<HashedCar>| self.fetches.awaited_from(from, car.tip());
        let top = cars.iter().rposition(|car| !awaited_from(car).is_empty());
        let targets = self.fetches.awaited_from(from, top.map_or(tip, |top| cars[top].tip()));
        if let Some(FetchRange { reason, above }) = self.fetches.wanted(&targets) {
            let cars = top.map_or(&[][..], |top| &cars[..=top]);
            let is_body = matches!(reason, FetchReason::Body(_));
            if cars.last().is_some_and(|top| !is_body || self.is_signed(top)) {
                let is_large = self.insert_chain(tip.lane, reason, above, cars) >= self.config.fetch_bytes as usize / 2;
                let is_large = is_large || cars.len() >= MAX_CARS / 2;
                self.fetches.update(&targets, |target| target.on_useful_response(now, from, is_large));
            } else {
                self.fetches.update(&targets, |target| target.not_found(now, from));
            }
        } else {
            self.fetches.useless(from, tip.lane);
        }
        self.advance(tip.lane);
        self.send_requests(now);
    }

    /// Accepts the missing cars of this chain, from the top down. Returns their bytes.
    fn insert_chain(&mut self, lane: ValidatorIndex, reason: FetchReason, above: Position, cars: &[Arc<HashedCar>]) -> usize {
        let floor = above.max(self.lane(lane).executed().position);
        let (mut bytes, mut unproven) = (0, 0);
        for car in cars.iter().rev().take_while(|car| car.position() > floor) {
            if reason == FetchReason::Early && self.is_full(lane) {
                self.fetches.cancel_early(lane);
                break;
            }
            // A long fork with false signatures would otherwise cost one check per car.
            if unproven < MAX_UNPROVEN && !self.report_fork(car) {
                unproven += 1;
            }
            if self.insert(car.clone()) {
                bytes += car.batch().len() + OVERHEAD;
            }
            if matches!(reason, FetchReason::Body(_)) && self.lane(lane).get(&car.tip()).is_some() {
                self.bodies.insert(car.tip());
            }
        }
        bytes
    }
}
