//! State of one lane: the held cars, own votes, the highest certificate, and the executed tip.
//!
//! Cars are stored by position *and* digest, so that a fork never replaces the car that was voted for (P9). A car is
//! *rooted* if all cars between it and the executed position are held too.

use crate::message::{Availability, HashedCar, Position, Tip};
use corniche_types::B256;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// One lane as seen by this validator.
pub struct Lane {
    cars: BTreeMap<(Position, B256), StoredCar>,
    /// The last car of the chain that this validator supports: the one it voted for last (D3), one that others
    /// certified on top of it, or one that a commit fixed (D5). Never decreases.
    voted: Tip,
    certified: Option<Arc<Availability>>,
    /// last_commit: the highest executed car. Never decreases (N7).
    executed: Tip,
    /// Cars up to this position are dropped, except the executed tip.
    forgotten: Position,
    /// Cars whose parent is not voted for yet (D4), one per position.
    buffered: BTreeMap<Position, Arc<HashedCar>>,
    /// Positions for which the owner was accused already.
    accused: BTreeSet<Position>,
    /// R5: no votes up to this position; an earlier incarnation may have cast them.
    pub abstain_through: Position,
    /// Total [`weight`] of cars above the executed position, and of cars up to it.
    unexecuted: u64,
    retained: u64,
}

/// Weight of a car besides its batch, in bytes: its signatures, table entries and record, rounded up. So an empty car
/// is not free, and a limit in bytes also limits the number of cars (G5).
pub const CAR_WEIGHT: u64 = 4_096;

fn weight(car: &HashedCar) -> u64 {
    car.batch().len() as u64 + CAR_WEIGHT
}

struct StoredCar {
    car: Arc<HashedCar>,
    rooted: bool,
    vote: Vote,
    /// Cached result of its signature check. Fetched cars may have false signatures.
    is_signed: Option<bool>,
}

/// Progress of our vote for a car.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vote {
    None,
    /// Its record is not durable yet.
    Recorded,
    Cast,
}

impl Lane {
    /// Creates a lane that is executed up to this tip.
    pub fn new(executed: Tip) -> Self {
        Self {
            cars: BTreeMap::new(),
            voted: executed,
            certified: None,
            executed,
            forgotten: Position(0),
            buffered: BTreeMap::new(),
            accused: BTreeSet::new(),
            abstain_through: Position(0),
            unexecuted: 0,
            retained: 0,
        }
    }

    pub fn get(&self, tip: &Tip) -> Option<&Arc<HashedCar>> {
        self.held(tip).map(|held| &held.car)
    }

    pub fn vote(&self, tip: &Tip) -> Vote {
        self.held(tip).map_or(Vote::None, |held| held.vote)
    }

    pub fn set_vote(&mut self, tip: &Tip, vote: Vote) {
        if let Some(held) = self.cars.get_mut(&(tip.position, tip.digest)) {
            held.vote = vote;
        }
        if tip.position > self.voted.position {
            self.voted = *tip;
        }
    }

    pub fn voted(&self) -> Tip {
        self.voted
    }

    pub fn certified(&self) -> Option<&Arc<Availability>> {
        self.certified.as_ref()
    }

    pub fn certified_position(&self) -> Position {
        self.certified.as_ref().map_or(Position(0), |certificate| certificate.tip.position)
    }

    pub fn executed(&self) -> Tip {
        self.executed
    }

    /// Total weight of cars above the executed position.
    pub fn unexecuted(&self) -> u64 {
        self.unexecuted
    }

    /// Total weight of cars up to the executed position.
    pub fn retained(&self) -> u64 {
        self.retained
    }

    /// Number of held cars, waiting ones included.
    pub fn count(&self) -> usize {
        self.cars.len() + self.buffered.len()
    }

    /// Bytes of cars above the highest certificate (row 32 of the checklist).
    pub fn uncertified_bytes(&self) -> usize {
        let above = (self.certified_position().next(), B256::ZERO);
        let held = self.cars.range(above..).map(|(_, held)| &held.car);
        held.chain(self.buffered.values()).map(|car| car.batch().len()).sum()
    }

    /// Returns true if all cars down to the executed position are held.
    pub fn is_rooted(&self, tip: &Tip) -> bool {
        tip.position <= self.executed.position || self.held(tip).is_some_and(|held| held.rooted)
    }

    /// D7: stores a certificate; the car need not be held. Returns true if it is higher than the known one.
    pub fn learn(&mut self, certificate: &Availability) -> bool {
        let news = certificate.tip.position > self.certified_position();
        if news {
            self.certified = Some(Arc::new(certificate.clone()));
        }
        news
    }

    /// Adds a car. Returns false if it is held already or not needed any more.
    pub fn insert(&mut self, car: Arc<HashedCar>) -> bool {
        let tip = car.tip();
        let key = (tip.position, tip.digest);
        if (tip.position <= self.forgotten && tip != self.executed) || self.cars.contains_key(&key) {
            return false;
        }
        let rooted = self.is_rooted(&car.parent());
        *self.weight_at(tip.position) += weight(&car);
        self.cars.insert(key, StoredCar { car, rooted, vote: Vote::None, is_signed: None });
        if rooted {
            self.root_children(tip);
        }
        true
    }

    fn weight_at(&mut self, position: Position) -> &mut u64 {
        if position > self.executed.position { &mut self.unexecuted } else { &mut self.retained }
    }

    /// Removes a car without held children. Returns true if it was removed.
    pub fn remove_top(&mut self, tip: &Tip) -> bool {
        let above = tip.position.next();
        let mut children = self.cars.range((above, B256::ZERO)..(above.next(), B256::ZERO));
        if children.any(|(_, held)| held.car.parent() == *tip) {
            return false;
        }
        let removed = self.cars.remove(&(tip.position, tip.digest));
        removed.iter().for_each(|held| *self.weight_at(tip.position) -= weight(&held.car));
        removed.is_some()
    }

    /// Returns true if this car is on the supported or the certified chain, not far below its end.
    pub fn supports(&self, tip: &Tip) -> bool {
        let certified = self.certified.iter().map(|certificate| certificate.tip);
        certified.chain([self.voted]).any(|top| self.is_just_below(top, *tip))
    }

    fn root_children(&mut self, parent: Tip) {
        // A second child is a fork.
        let (mut next, mut parents) = (Some(parent), Vec::new());
        while let Some(parent) = next.take().or_else(|| parents.pop()) {
            let above = parent.position.next();
            for (key, held) in self.cars.range_mut((above, B256::ZERO)..(above.next(), B256::ZERO)) {
                if !held.rooted && held.car.parent() == parent {
                    held.rooted = true;
                    parents.extend(next.replace(Tip { position: key.0, digest: key.1, ..parent }));
                }
            }
        }
    }

    /// Returns the first missing car from `tip` downwards to `above`; `None` if all are held.
    pub fn gap(&self, tip: Tip, above: Position) -> Option<Tip> {
        let mut at = tip;
        while at.position > above.max(self.executed.position) {
            match self.held(&at) {
                None => return Some(at),
                Some(held) if held.rooted => return None,
                Some(held) => at = held.car.parent(),
            }
        }
        None
    }

    /// The chain that ends at `tip`, downwards to `above` (exclusive) or to the first missing car.
    pub fn ancestors(&self, tip: Tip, above: Position) -> impl Iterator<Item = &Arc<HashedCar>> {
        let mut next = Some(tip);
        std::iter::from_fn(move || {
            let car = self.get(&next.filter(|tip| tip.position > above)?)?;
            next = Some(car.parent());
            Some(car)
        })
    }

    /// The chain above the executed position that ends at `tip`, ascending (O2, O3); `None` if cars of it are missing.
    pub fn chain(&self, tip: &Tip) -> Option<Vec<Arc<HashedCar>>> {
        if !self.is_rooted(tip) {
            return None;
        }
        let mut cars: Vec<_> = self.ancestors(*tip, self.executed.position).cloned().collect();
        cars.reverse();
        Some(cars)
    }

    /// Returns true if the chain that ends at `tip` contains `below`, as far as it is held.
    pub fn descends(&self, tip: Tip, below: Tip) -> bool {
        tip == below || self.ancestors(tip, below.position).last().is_some_and(|car| car.parent() == below)
    }

    /// Same, but only as far down as correct leaders name tips; cheap enough to call after every input.
    pub fn is_just_below(&self, tip: Tip, below: Tip) -> bool {
        let depth = tip.position.0.checked_sub(below.position.0);
        depth.is_some_and(|depth| depth <= MAX_LOOK_BACK) && self.descends(tip, below)
    }

    /// Returns true if the car is held and its parent certified: it may be proposed and voted for before it is
    /// certified (N6).
    pub fn is_optimistic(&self, tip: &Tip) -> bool {
        let Some(car) = self.get(tip) else { return false };
        let (parent, named) = (car.parent(), car.certificate().is_some_and(|certificate| certificate.tip == car.parent()));
        let certified = self.certified.as_ref().map(|certificate| certificate.tip);
        parent.position == Position(0) || named || certified.is_some_and(|certified| self.is_just_below(certified, parent))
    }

    /// Other cars at this position, unless the owner was accused because of it.
    pub fn forks_of(&self, tip: &Tip) -> Vec<Arc<HashedCar>> {
        if self.accused.len() >= MAX_ACCUSED || self.accused.contains(&tip.position) {
            return Vec::new();
        }
        let place = (tip.position, B256::ZERO)..(tip.position.next(), B256::ZERO);
        let held = self.cars.range(place).map(|(_, held)| &held.car);
        held.chain(self.buffered.get(&tip.position)).filter(|car| car.tip() != *tip).cloned().collect()
    }

    /// Notes that the owner was accused because of this position.
    pub fn accused(&mut self, position: Position) {
        self.accused.insert(position);
    }

    /// Result of the signature check of this car, cached for held cars.
    pub fn is_signed(&mut self, car: &HashedCar, check: impl FnOnce() -> bool) -> bool {
        let tip = car.tip();
        match self.cars.get_mut(&(tip.position, tip.digest)) {
            // Another copy of the car may have another signature.
            Some(held) if held.car.signed().signature == car.signed().signature => *held.is_signed.get_or_insert_with(check),
            _ => check(),
        }
    }

    /// D4: stores a car whose parent is not voted for, if it is at most `ahead` above the certified one (G5): a flood
    /// of a lane fills at most `ahead` cars. Returns true if it was stored.
    pub fn buffer(&mut self, car: Arc<HashedCar>, ahead: u64) -> bool {
        let (low, position) = (self.certified_position(), car.position());
        let fits = position > low && position.0 - low.0 <= ahead && !self.buffered.contains_key(&position);
        if fits {
            self.buffered.insert(position, car);
        }
        self.buffered = self.buffered.split_off(&low.next());
        fits
    }

    /// Returns the waiting car whose turn it is, if any (D3 i). Drops those whose turn has passed.
    pub fn next_buffered(&mut self) -> Option<Arc<HashedCar>> {
        let next = self.voted.position.next();
        self.buffered = self.buffered.split_off(&next);
        let car = self.buffered.first_entry().filter(|first| first.get().parent() == self.voted)?;
        Some(car.remove())
    }

    /// Removes and returns this car if it waits.
    pub fn take_buffered(&mut self, tip: &Tip) -> Option<Arc<HashedCar>> {
        self.buffered.get(&tip.position).filter(|car| car.tip() == *tip)?;
        self.buffered.remove(&tip.position)
    }

    /// A held, uncertified car whose turn it is.
    pub fn next_held(&self) -> Option<Tip> {
        let next = self.voted.position.next();
        if next <= self.certified_position() {
            return None;
        }
        let places = self.cars.range((next, B256::ZERO)..(next.next(), B256::ZERO));
        places.map(|(_, held)| &held.car).find(|car| car.parent() == self.voted).map(|car| car.tip())
    }

    /// The highest held car.
    pub fn highest(&self) -> Option<&Arc<HashedCar>> {
        self.cars_downwards().next()
    }

    /// All held cars, highest first.
    pub fn cars_downwards(&self) -> impl Iterator<Item = &Arc<HashedCar>> {
        self.cars.values().rev().map(|held| &held.car)
    }

    /// If others certified cars on top of the supported one, and all are held, the supported chain now ends there.
    pub fn follow_certified(&mut self) {
        let Some(tip) = self.certified.as_ref().map(|certificate| certificate.tip) else { return };
        if tip.position > self.voted.position && self.is_rooted(&tip) && self.descends(tip, self.voted) {
            self.voted = tip;
        }
    }

    /// Executes a cut with this tip (O4, G2, D5). Returns the forks that are dropped.
    pub fn execute(&mut self, tip: Tip) -> Vec<Arc<HashedCar>> {
        if tip.position <= self.executed.position {
            return Vec::new(); // O2, P8: a stale tip changes nothing.
        }
        let committed: BTreeSet<B256> = self.ancestors(tip, self.executed.position).map(|car| car.tip().digest).collect();
        let decided = (self.executed.position.next(), B256::ZERO)..(tip.position.next(), B256::ZERO);
        let all = self.cars.range(decided).map(|(_, held)| held.car.clone());
        let (kept, dropped): (Vec<_>, Vec<_>) = all.partition(|car| committed.contains(&car.tip().digest));
        for car in &dropped {
            self.cars.remove(&(car.position(), car.tip().digest));
            self.unexecuted -= weight(car);
        }
        let executed: u64 = kept.iter().map(|car| weight(car)).sum();
        self.unexecuted -= executed;
        self.retained += executed;
        self.executed = tip;
        // D5: a committed car counts as voted for.
        if self.voted.position <= tip.position {
            self.voted = tip;
        }
        self.root_above_executed();
        self.buffered = self.buffered.split_off(&tip.position.next());
        self.accused = self.accused.split_off(&tip.position);
        dropped
    }

    /// O3: the children of the executed tip are rooted, on every fork.
    fn root_above_executed(&mut self) {
        let above = self.executed.position.next();
        let mut rooted = Vec::new();
        for (key, held) in self.cars.range_mut((above, B256::ZERO)..(above.next(), B256::ZERO)) {
            if !std::mem::replace(&mut held.rooted, true) {
                rooted.push(Tip { position: key.0, digest: key.1, ..self.executed });
            }
        }
        rooted.into_iter().for_each(|tip| self.root_children(tip));
    }

    /// Stops serving executed cars up to `position`. The executed tip is kept, so that its owner can always get it
    /// certified and continue.
    pub fn forget(&mut self, position: Position) {
        self.forgotten = self.forgotten.max(position.min(self.executed.position));
        let executed = (self.executed.position, self.executed.digest);
        while let Some(first) =
            self.cars.first_entry().filter(|first| first.key().0 <= self.forgotten && *first.key() != executed)
        {
            self.retained -= weight(&first.remove().car);
        }
    }

    /// After recovery: drops records at executed positions that belong to forks.
    pub fn remove_old_forks(&mut self) {
        let chain: BTreeSet<_> =
            self.ancestors(self.executed, Position(0)).map(|car| (car.position(), car.tip().digest)).collect();
        let executed = self.executed.position;
        let retained = &mut self.retained;
        self.cars.retain(|key, held| {
            let stays = key.0 > executed || chain.contains(key);
            *retained -= if stays { 0 } else { weight(&held.car) };
            stays
        });
    }

    fn held(&self, tip: &Tip) -> Option<&StoredCar> {
        self.cars.get(&(tip.position, tip.digest))
    }
}

/// Maximum number of reported positions above the executed one.
const MAX_ACCUSED: usize = 8;
/// Maximum number of cars below a certificate that are searched.
const MAX_LOOK_BACK: u64 = 64;
