//! The lanes: one chain of cars per validator, each car certified by F + 1 votes. Lanes grow without timers, leaders or slots
//! (D8). This module does not depend on slots, so other engines can build on it.
//!
//! ```text
//!   own lane      batch ──▶ car, recorded ──▶ to all ──▶ votes ──▶ certificate, sent with the next car
//!   other lanes   car in order ──▶ recorded ──▶ vote
//!                 car out of order ──▶ buffered, and its history is fetched from the signers of a certificate
//! ```
//! Invariants: one own car per position (N10); one vote per position, for a car that is durable here with everything
//! below it (N5). A certificate covers the whole chain below it, because votes are cast in order (D3).

mod fetch;
mod interface;
mod lane;
mod own;

use crate::{
    config::Config,
    keys::{Signatures, Signer},
    message::{Availability, Context, HashedCar, Message, Position, Statement, Tip},
};
use corniche_engine::{Batch, Committee, Recipients};
use corniche_types::{TimestampMs, ValidatorIndex};
use fetch::Fetches;
pub use fetch::{MAX_EARLY_FETCHES, Purpose};
pub use interface::{Effect, Recovered, Setup, Write};
pub use lane::CAR_WEIGHT;
use lane::{Lane, Vote};
use own::OwnLane;
use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

/// All lanes. See the module documentation.
pub struct Lanes {
    config: Config,
    committee: Committee,
    context: Context,
    signer: Option<Arc<dyn Signer>>,
    signatures: Arc<dyn Signatures>,
    lanes: Vec<Lane>,
    own: Option<OwnLane>,
    fetches: Fetches,
    /// Cars that were fetched to vote for a cut, and are not on the chain that this validator supports.
    bodies: BTreeSet<Tip>,
    effects: VecDeque<Effect>,
    /// True if a tip or a body changed since the last [`Lanes::take_changed`].
    changed: bool,
}

/// Bytes of a car on the wire besides its batch and its certificate.
const OVERHEAD: usize = 256;

impl Lanes {
    /// Creates the lanes from the records of earlier runs (R1). Own cars are built only after [`Lanes::open_own_lane`].
    pub fn new(setup: Setup) -> Self {
        let Setup { config, committee, signer, signatures, executed, records } = setup;
        let context = Context::new(&committee);
        let own = signer.as_ref().map(|signer| OwnLane::new(executed[signer.index().as_usize()]));
        let lanes = executed.into_iter().map(Lane::new).collect();
        let fetches = Fetches::new(signer.as_ref().map(|signer| signer.index()), config.fetch_retry_ms);
        let (bodies, effects) = (BTreeSet::new(), VecDeque::new());
        let mut all =
            Self { config, committee, context, signer, signatures, lanes, own, fetches, bodies, effects, changed: true };
        records.into_iter().for_each(|record| all.recover(record));
        all.lanes.iter_mut().for_each(Lane::remove_old_forks);
        all
    }

    fn recover(&mut self, record: Recovered) {
        match record {
            Recovered::Car { car, voted } => {
                let tip = car.tip();
                if let Some(certificate) = car.certificate() {
                    self.lane_mut(tip.lane).learn(certificate);
                }
                self.lane_mut(tip.lane).insert(car);
                if Some(tip.lane) == self.me() {
                    self.own.iter_mut().for_each(|own| own.signed(tip));
                }
                if voted {
                    self.lane_mut(tip.lane).set_vote(&tip, Vote::Cast);
                }
            }
            Recovered::Vote(tip) => self.lane_mut(tip.lane).set_vote(&tip, Vote::Cast),
        }
    }

    /// Returns the next output.
    pub fn poll(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Time of the next [`Lanes::tick`]; `None` if nothing is pending.
    pub fn deadline(&self) -> Option<TimestampMs> {
        [self.fetches.deadline(), self.own.as_ref().and_then(OwnLane::deadline)].into_iter().flatten().min()
    }

    /// Must be called when the deadline passed.
    pub fn tick(&mut self, now: TimestampMs) {
        self.send_requests(now);
        self.resend(now);
    }

    /// Returns true if tips or bodies changed since the last call.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    // ---- cars and certificates of any lane -----------------------------------------------------------------------------

    /// PROP: processes a verified car from its owner (D3, D4).
    pub fn handle_car(&mut self, now: TimestampMs, car: &Arc<HashedCar>) {
        let tip = car.tip();
        if let Some(certificate) = car.certificate() {
            self.learn(certificate);
        }
        self.report_fork(car);
        let (full, ahead) = (self.is_full(tip.lane), self.config.cars_ahead);
        if self.lane(tip.lane).get(&tip).is_some() {
            self.handle_resent_car(tip);
        } else if tip.position > self.lane(tip.lane).executed().position && Some(tip.lane) != self.me() && !full {
            if car.parent() == self.lane(tip.lane).voted() {
                self.vote_for(car.clone());
            } else if self.lane_mut(tip.lane).buffer(car.clone(), ahead) {
                self.fetch_certified(now, tip.lane);
            }
        }
        self.advance(tip.lane);
    }

    /// P20: returns true if the lane has twice the unexecuted bytes that a correct owner sends. Then no more are accepted.
    fn is_full(&self, lane: ValidatorIndex) -> bool {
        self.lane(lane).unexecuted() >= self.config.lane_bytes.saturating_mul(2)
    }

    /// Adds a car to its lane. Returns false if it is held already or not needed any more.
    fn store(&mut self, car: Arc<HashedCar>) -> bool {
        let tip = car.tip();
        let news = self.lane_mut(tip.lane).insert(car);
        if news {
            self.fetches.arrived(tip, &self.lanes[tip.lane.as_usize()]);
        }
        news
    }

    /// D3, D5: votes for a car that extends the supported chain.
    fn vote_for(&mut self, car: Arc<HashedCar>) {
        let tip = car.tip();
        let votes = self.votes_at(&tip);
        if !self.store(car.clone()) {
            return;
        }
        self.lane_mut(tip.lane).set_vote(&tip, if votes { Vote::Recorded } else { Vote::None });
        let write = if votes { Write::Voted(car.clone()) } else { Write::Kept(car.clone()) };
        self.accept(car, write);
    }

    fn accept(&mut self, car: Arc<HashedCar>, write: Write) {
        self.effects.push_back(Effect::Persist(write));
        self.effects.push_back(Effect::Accepted(car));
        self.changed = true;
    }

    fn votes_at(&self, tip: &Tip) -> bool {
        self.signer.is_some() && tip.position > self.lane(tip.lane).abstain_through
    }

    /// Votes for buffered and fetched cars that are next in the order of their lane.
    fn advance(&mut self, lane: ValidatorIndex) {
        while Some(lane) != self.me() {
            self.lane_mut(lane).follow_certified();
            if let Some(car) = self.lane_mut(lane).next_buffered() {
                self.vote_for(car);
            } else if let Some(tip) = self.lane(lane).next_held() {
                let votes = self.votes_at(&tip);
                self.lane_mut(lane).set_vote(&tip, if votes { Vote::Recorded } else { Vote::None });
                if votes {
                    self.effects.push_back(Effect::Persist(Write::Vote(tip)));
                }
            } else {
                break;
            }
        }
    }

    /// D4: stores waiting cars that are certified now. Otherwise they would be dropped, and a validator one request
    /// behind a growing lane would stay behind: after each response the next cars would be missing.
    fn store_buffered(&mut self, certified: Tip) {
        let mut tip = certified;
        while !self.is_full(tip.lane)
            && let Some(car) = self.lane_mut(tip.lane).take_buffered(&tip)
        {
            tip = car.parent();
            self.insert(car);
        }
    }

    /// Handles a car that the owner resent although we hold it: the owner has not received our vote or a certificate.
    fn handle_resent_car(&mut self, tip: Tip) {
        let lane = self.lane(tip.lane);
        if tip.position > lane.certified_position()
            && lane.vote(&tip) == Vote::None
            && lane.voted() == tip
            && self.votes_at(&tip)
        {
            // It was committed (D5), or voted for by others.
            self.lane_mut(tip.lane).set_vote(&tip, Vote::Recorded);
            self.effects.push_back(Effect::Persist(Write::Vote(tip)));
        } else {
            self.effects.push_back(Effect::CarResent(tip));
        }
    }

    /// Response to an owner that resends this car: a certificate, or our vote.
    pub fn response_to_resent(&self, tip: &Tip) -> Option<Message> {
        let lane = self.lane(tip.lane);
        match lane.certified().filter(|certificate| certificate.tip.position >= tip.position) {
            Some(certificate) => Some(Message::Available((**certificate).clone())),
            None if lane.vote(tip) == Vote::Cast => self.vote(tip),
            None => None,
        }
    }

    fn vote(&self, tip: &Tip) -> Option<Message> {
        let share = self.context.share(&Statement::CarVote(*tip), &**self.signer.as_ref()?).ok()?;
        Some(Message::CarVote { tip: *tip, share })
    }

    /// D9: reports a fork: two cars of one owner at one position. Only two valid signatures prove it, and signatures of fetched
    /// cars may be invalid. Returns false if signatures were checked and do not prove a fork.
    fn report_fork(&mut self, car: &Arc<HashedCar>) -> bool {
        let others = self.lane(car.lane()).forks_of(&car.tip());
        if others.is_empty() {
            return true;
        }
        let other = others.into_iter().find(|other| self.is_signed(other)).filter(|_| self.is_signed(car));
        let is_proven = other.is_some();
        if let Some(other) = other {
            self.lane_mut(car.lane()).accused(car.position());
            self.effects.push_back(Effect::Accuse(car.lane(), [other, car.clone()]));
        }
        is_proven
    }

    /// D7: stores a verified certificate from any source.
    pub fn learn(&mut self, certificate: &Availability) {
        let lane = certificate.tip.lane;
        if self.lane_mut(lane).learn(certificate) {
            let Availability { tip, proof } = certificate;
            self.effects.push_back(Effect::Certified { tip: *tip, signers: proof.signers.clone() });
            self.changed = true;
            self.store_buffered(certificate.tip);
            self.advance(lane);
        }
    }

    /// Must be called when a write is durable. Sends the messages that depend on it.
    pub fn durable(&mut self, now: TimestampMs, write: Write) {
        match write {
            Write::Own(car) => self.publish(now, car),
            Write::Voted(car) => self.cast_vote(car.tip()),
            Write::Vote(tip) => self.cast_vote(tip),
            Write::Kept(_) => {}
        }
    }

    fn cast_vote(&mut self, tip: Tip) {
        self.lane_mut(tip.lane).set_vote(&tip, Vote::Cast);
        if let Some(vote) = self.vote(&tip) {
            self.effects.push_back(Effect::Send { to: Recipients::One(tip.lane), message: Box::new(vote) });
        }
    }

    // ---- queries of the slots and the engine ----------------------------------------------------------------------------

    pub fn certified(&self, lane: ValidatorIndex) -> Option<&Availability> {
        self.lane(lane).certified().map(|certificate| &**certificate)
    }

    /// Returns the car that this validator voted for last, and its parent's certificate. Returns `None` if the car is
    /// certified already, or its parent is not. At position 1 the parent has no certificate.
    pub fn optimistic(&self, lane: ValidatorIndex) -> Option<(Tip, Option<&Availability>)> {
        let lane = self.lane(lane);
        let tip = lane.voted();
        if tip.position <= lane.certified_position().max(lane.executed().position) {
            return None;
        }
        let car = lane.get(&tip)?;
        let parent = car.parent();
        let certificate = [car.certificate(), lane.certified().map(|certificate| &**certificate)];
        let certificate = certificate.into_iter().flatten().find(|certificate| certificate.tip == parent);
        (certificate.is_some() || parent.position == Position(0)).then_some((tip, certificate))
    }

    /// Returns true if this car or a car above it is certified. Validators that voted for the higher car hold this car too
    /// (D3).
    pub fn is_certified(&self, tip: &Tip) -> bool {
        let lane = self.lane(tip.lane);
        lane.certified().is_some_and(|certificate| lane.is_just_below(certificate.tip, *tip))
    }

    /// N6: returns true if the car has the highest certificate of its lane, or is held here with a certified parent.
    pub fn may_vote_strongly(&self, tip: &Tip) -> bool {
        let lane = self.lane(tip.lane);
        lane.certified().is_some_and(|certificate| certificate.tip == *tip) || lane.is_optimistic(tip)
    }

    /// The cars above the executed position that end at `tip`, ascending; `None` if some are missing (O1, O3).
    pub fn chain(&self, tip: &Tip) -> Option<Vec<Arc<HashedCar>>> {
        self.lane(tip.lane).chain(tip)
    }

    /// The highest executed car of a lane.
    pub fn executed(&self, lane: ValidatorIndex) -> Tip {
        self.lane(lane).executed()
    }

    /// Adds a car without a vote for it. Returns false if it is held already or not needed any more.
    pub fn insert(&mut self, car: Arc<HashedCar>) -> bool {
        let news = self.store(car.clone());
        if news {
            self.accept(car.clone(), Write::Kept(car));
        }
        news
    }

    /// Executes a cut (G2, D5).
    pub fn execute(&mut self, tips: &[Tip]) {
        for tip in tips {
            let dropped = self.lane_mut(tip.lane).execute(*tip);
            self.fetches.executed(self.lane(tip.lane).executed());
            if Some(tip.lane) == self.me() {
                let batches = dropped.iter().map(|car| Batch { bytes: car.batch().clone() });
                self.effects.extend(batches.map(Effect::Requeue));
            }
            self.advance(tip.lane);
        }
    }

    /// Stops serving executed cars up to these positions.
    pub fn forget(&mut self, positions: &[Position]) {
        self.lanes.iter_mut().zip(positions).for_each(|(lane, position)| lane.forget(*position));
    }

    /// Returns the end of the chain up to `tip`, in ascending order: the held cars above `above` that fit into `bytes`. The
    /// tip is returned even if it is larger.
    pub fn serve(&self, tip: &Tip, above: Position, mut bytes: usize) -> Vec<Arc<HashedCar>> {
        let mut first = true;
        let fits = |car: &&Arc<HashedCar>| {
            let size = car.batch().len() + OVERHEAD;
            let fits = std::mem::take(&mut first) || size <= bytes;
            bytes = bytes.saturating_sub(size);
            fits
        };
        let mut cars: Vec<_> = self.lane(tip.lane).ancestors(*tip, above).take_while(fits).cloned().collect();
        cars.reverse();
        cars
    }

    /// R5: disables votes up to these positions; an earlier incarnation may have cast them.
    pub fn abstain(&mut self, positions: &[Position]) {
        for (lane, position) in self.lanes.iter_mut().zip(positions) {
            lane.abstain_through = lane.abstain_through.max(*position);
        }
    }

    /// The highest held car of a lane.
    pub fn highest(&self, lane: ValidatorIndex) -> Option<&Arc<HashedCar>> {
        self.lane(lane).highest()
    }

    pub fn get(&self, tip: &Tip) -> Option<&Arc<HashedCar>> {
        self.lane(tip.lane).get(tip)
    }

    /// Returns the highest held car of a lane with a valid signature of its owner. Fetched cars may have invalid signatures.
    /// They are not above the highest certificate, so the search ends after 4 cars.
    pub fn highest_signed(&mut self, lane: ValidatorIndex) -> Option<Arc<HashedCar>> {
        let highest: Vec<_> = self.lane(lane).cars_downwards().take(4).cloned().collect();
        highest.into_iter().find(|car| self.is_signed(car))
    }

    /// Checks the owner's signature of this car.
    fn is_signed(&mut self, car: &HashedCar) -> bool {
        let signatures = self.signatures.clone();
        let check = || signatures.verify(car.lane(), &car.tip().digest, &car.signed().signature);
        self.lane_mut(car.lane()).is_signed(car, check)
    }

    /// Returns true if a restart needs the record of this car.
    pub fn needs(&self, tip: &Tip) -> bool {
        self.lane(tip.lane).get(tip).is_some()
    }

    /// A record of this car in its current state.
    pub fn record(&self, tip: &Tip) -> Option<(Arc<HashedCar>, bool)> {
        let lane = self.lane(tip.lane);
        lane.get(tip).map(|car| (car.clone(), lane.vote(tip) != Vote::None))
    }

    /// Number of held cars and of fetches.
    pub fn footprint(&self) -> usize {
        self.lanes.iter().map(Lane::count).sum::<usize>() + self.fetch_count()
    }

    /// Number of histories and bodies that are being fetched.
    pub fn fetch_count(&self) -> usize {
        self.fetches.count()
    }

    /// Weight of a lane's cars that are not executed yet, bytes.
    pub fn unexecuted(&self, lane: ValidatorIndex) -> u64 {
        self.lane(lane).unexecuted()
    }

    /// Total weight of executed cars that are kept for others, bytes.
    pub fn retained(&self) -> u64 {
        self.lanes.iter().map(Lane::retained).sum()
    }

    /// Weight of executed cars that are kept for others, in bytes, of the lane with the largest weight.
    pub fn max_retained_per_lane(&self) -> u64 {
        self.lanes.iter().map(Lane::retained).max().unwrap_or(0)
    }

    /// The executed, certified and supported positions of a lane.
    pub fn positions(&self, lane: ValidatorIndex) -> [Position; 3] {
        let lane = self.lane(lane);
        [lane.executed().position, lane.certified_position(), lane.voted().position]
    }

    /// Bytes of this lane's cars above its highest certificate.
    pub fn uncertified_bytes(&self, lane: ValidatorIndex) -> usize {
        self.lane(lane).uncertified_bytes()
    }

    pub fn me(&self) -> Option<ValidatorIndex> {
        self.signer.as_ref().map(|signer| signer.index())
    }

    fn lane(&self, lane: ValidatorIndex) -> &Lane {
        &self.lanes[lane.as_usize()]
    }

    fn lane_mut(&mut self, lane: ValidatorIndex) -> &mut Lane {
        &mut self.lanes[lane.as_usize()]
    }
}
