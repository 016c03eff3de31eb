//! Attacks of doubles on lanes: forks, and cars shown to few validators.

use super::{Doubles, Vice, index};
use crate::{
    Signer,
    kit::FakeKeys,
    message::{Availability, Message, NamedCar, SignedCar, Tip, View},
};
use corniche_testkit::Act;
use corniche_types::ValidatorIndex;

/// Number of fruitless sends of a car before it goes to all.
const PATIENCE: u32 = 4;

/// The audience of one of a member's cars.
pub struct Disclosure {
    car: Tip,
    audience: Vec<usize>,
    /// Another car for this position, and its audience.
    sibling: Option<(SignedCar, Vec<usize>)>,
    times: u32,
}

impl Doubles {
    /// Returns true if the engine receives the message too.
    pub(super) fn hear_of_lanes(&mut self, act: &mut Act<'_>, from: usize, message: &Message) -> bool {
        let me = index(act.me);
        match message {
            Message::Held { tip, .. } if self.sibling(tip).is_some() => {
                if let Some(certificate) = self.known.availability(*tip)
                    && act.random.once_in(2)
                {
                    let few = act.random.between(1, self.correct().len() as u64) as usize;
                    let to = self.some(act, few);
                    act.send(to, Message::Available(certificate).encode());
                }
                false
            }
            Message::FetchCars { .. } if self.has(me, Vice::Hides) && !act.random.once_in(4) => false,
            Message::FetchCars { tip, .. } if self.sibling(tip).is_some() => {
                if act.random.once_in(2) {
                    let cars = self.siblings_down(*tip);
                    act.send([from], Message::Cars { tip: *tip, cars }.encode());
                }
                false
            }
            _ => true,
        }
    }

    /// Returns true if the message itself must not be sent.
    pub(super) fn say_of_lanes(&mut self, act: &mut Act<'_>, to: &[usize], message: &Message) -> bool {
        let me = index(act.me);
        match message {
            Message::Car(car) if car.car.lane == me => self.disclose(act, car),
            Message::Available(_) => self.has(me, Vice::Hides) && act.random.once_in(2),
            // Responds with nothing, as if it held nothing.
            Message::Cars { tip, .. } if self.has(me, Vice::Hides) && act.random.once_in(2) => {
                act.send(to.iter().copied(), Message::Cars { tip: *tip, cars: Vec::new() }.encode());
                true
            }
            _ => false,
        }
    }

    fn disclose(&mut self, act: &mut Act<'_>, car: &SignedCar) -> bool {
        let me = index(act.me);
        let place = (me, car.car.position.0);
        let tip = NamedCar::trusted(car.clone(), &self.context).tip();
        if self.disclosures.get(&place).is_none_or(|disclosure| disclosure.car != tip) {
            let disclosure = if self.has(me, Vice::Forks) && act.random.once_in(2) {
                self.fork(act, tip, car)
            } else if self.has(me, Vice::Hides) && act.random.once_in(2) {
                let audience = self.confidants(act);
                Disclosure { car: tip, audience, sibling: None, times: 0 }
            } else {
                Disclosure { car: tip, audience: self.everybody(), sibling: None, times: 0 }
            };
            self.disclosures.insert(place, disclosure);
        }
        let everybody = self.everybody();
        let disclosure = self.disclosures.get_mut(&place).expect("just inserted");
        disclosure.times += 1;
        let to = if disclosure.times > PATIENCE { &everybody } else { &disclosure.audience };
        act.send(to.iter().copied(), Message::Car(car.clone()).encode());
        if let Some((sibling, audience)) = &disclosure.sibling {
            act.send(audience.iter().copied(), Message::Car(sibling.clone()).encode());
        }
        true
    }

    /// As many as a certificate needs, the next leader alone, or no validator, so that the parents of later cars are
    /// missing.
    fn confidants(&self, act: &mut Act<'_>) -> Vec<usize> {
        match act.random.below(3) {
            0 if self.config.cars_ahead > 1 => Vec::new(),
            0 => {
                let next = crate::message::Slot(self.known.top.0 + 1);
                vec![self.schedule.leader(next, View(0)).as_usize()]
            }
            _ => self.some(act, self.committee.faulty()),
        }
    }

    /// Shows every validator one of two cars, and some both.
    fn fork(&self, act: &mut Act<'_>, tip: Tip, car: &SignedCar) -> Disclosure {
        let mut sibling = car.clone();
        let before = self.disclosures.get(&(tip.lane, tip.position.before().0)).and_then(|before| before.sibling.clone());
        if let Some((before, _)) = before {
            let below = NamedCar::trusted(before, &self.context).tip();
            if let Some(certificate) = self.known.availability(below).filter(|_| !act.random.once_in(4)) {
                sibling.car.parent = below.digest;
                sibling.certificate = Some(certificate);
            }
        }
        // A transaction that no user submitted.
        let junk = (u64::MAX - act.random.below(1 << 32)).to_le_bytes();
        sibling.car.batch = [&sibling.car.batch[..], &junk].concat().into();
        sibling.signature = FakeKeys(tip.lane).sign(&self.context.car(&sibling.car));
        let (mut one, mut other) = (Vec::new(), Vec::new());
        for validator in self.everybody() {
            match act.random.below(4) {
                _ if self.is_member(index(validator)) => one.push(validator),
                0 => one.push(validator),
                1 => other.push(validator),
                2 => one.extend([validator]),
                _ => {
                    one.push(validator);
                    other.push(validator);
                }
            }
        }
        Disclosure { car: tip, audience: one, sibling: Some((sibling, other)), times: 0 }
    }

    fn sibling(&self, tip: &Tip) -> Option<&SignedCar> {
        let (car, _) = self.disclosures.get(&(tip.lane, tip.position.0))?.sibling.as_ref()?;
        (self.context.car(&car.car) == tip.digest).then_some(car)
    }

    /// The chain of siblings that ends at `tip`, ascending.
    fn siblings_down(&self, tip: Tip) -> Vec<SignedCar> {
        let mut cars = Vec::new();
        let mut at = tip;
        while let Some(car) = self.sibling(&at) {
            at = Tip { position: at.position.before(), digest: car.car.parent, ..at };
            cars.push(car.clone());
        }
        cars.reverse();
        cars
    }

    /// The highest certified sibling of a lane.
    pub(super) fn certified_sibling(&self, lane: ValidatorIndex) -> Option<Availability> {
        let of_lane = self.disclosures.range((lane, 0)..=(lane, u64::MAX)).rev().take(8);
        let siblings = of_lane.filter_map(|(_, disclosure)| disclosure.sibling.as_ref());
        siblings
            .map(|(car, _)| NamedCar::trusted(car.clone(), &self.context).tip())
            .find_map(|tip| self.known.availability(tip))
    }
}
