//! Attacks of doubles on lanes: forks, and cars shown to few validators.

use super::{ByzantineCoalition, Misbehaviour, index};
use crate::FakeKeys;
use corniche_autobahn::message::{Availability, HashedCar, Message, SignedCar, Slot, Tip, View};
use corniche_testkit::MemberContext;
use corniche_types::ValidatorIndex;

/// Number of fruitless sends of a car before it goes to all.
const MAX_PRIVATE_SENDS: u32 = 4;

/// The audience of one of a member's cars.
pub struct Disclosure {
    car: Tip,
    audience: Vec<usize>,
    /// Another car for this position, and its audience.
    sibling: Option<(SignedCar, Vec<usize>)>,
    times: u32,
}

impl ByzantineCoalition {
    /// Returns true if the engine receives the message too.
    pub(super) fn on_receive_lanes(&mut self, ctx: &mut MemberContext<'_>, from: usize, message: &Message) -> bool {
        let me = index(ctx.me);
        match message {
            Message::CarVote { tip, .. } if self.sibling(tip).is_some() => {
                if let Some(certificate) = self.knowledge.availability(*tip)
                    && ctx.random.one_in(2)
                {
                    let count = ctx.random.between(1, self.correct().len() as u64) as usize;
                    let to = self.random_correct(ctx, count);
                    ctx.send(to, Message::Available(certificate).encode());
                }
                false
            }
            Message::FetchCars { .. } if self.has(me, Misbehaviour::WithholdCars) && !ctx.random.one_in(4) => false,
            Message::FetchCars { tip, .. } if self.sibling(tip).is_some() => {
                if ctx.random.one_in(2) {
                    let cars = self.sibling_chain(*tip);
                    ctx.send([from], Message::Cars { tip: *tip, cars }.encode());
                }
                false
            }
            _ => true,
        }
    }

    /// Returns true if the message itself must not be sent.
    pub(super) fn on_send_lanes(&mut self, ctx: &mut MemberContext<'_>, to: &[usize], message: &Message) -> bool {
        let me = index(ctx.me);
        match message {
            Message::Car(car) if car.car.lane == me => self.disclose(ctx, car),
            Message::Available(_) => self.has(me, Misbehaviour::WithholdCars) && ctx.random.one_in(2),
            // Responds with nothing, as if it held nothing.
            Message::Cars { tip, .. } if self.has(me, Misbehaviour::WithholdCars) && ctx.random.one_in(2) => {
                ctx.send(to.iter().copied(), Message::Cars { tip: *tip, cars: Vec::new() }.encode());
                true
            }
            _ => false,
        }
    }

    fn disclose(&mut self, ctx: &mut MemberContext<'_>, car: &SignedCar) -> bool {
        let me = index(ctx.me);
        let place = (me, car.car.position.0);
        let tip = HashedCar::trusted(car.clone(), &self.context).tip();
        if self.disclosures.get(&place).is_none_or(|disclosure| disclosure.car != tip) {
            let disclosure = if self.has(me, Misbehaviour::ForkLanes) && ctx.random.one_in(2) {
                self.fork(ctx, tip, car)
            } else if self.has(me, Misbehaviour::WithholdCars) && ctx.random.one_in(2) {
                let audience = self.car_audience(ctx);
                Disclosure { car: tip, audience, sibling: None, times: 0 }
            } else {
                Disclosure { car: tip, audience: self.all_validators(), sibling: None, times: 0 }
            };
            self.disclosures.insert(place, disclosure);
        }
        let all_validators = self.all_validators();
        let disclosure = self.disclosures.get_mut(&place).expect("just inserted");
        disclosure.times += 1;
        let to = if disclosure.times > MAX_PRIVATE_SENDS { &all_validators } else { &disclosure.audience };
        ctx.send(to.iter().copied(), Message::Car(car.clone()).encode());
        if let Some((sibling, audience)) = &disclosure.sibling {
            ctx.send(audience.iter().copied(), Message::Car(sibling.clone()).encode());
        }
        true
    }

    /// As many as a certificate needs, the next leader alone, or no validator, so that the parents of later cars are
    /// missing.
    fn car_audience(&self, ctx: &mut MemberContext<'_>) -> Vec<usize> {
        match ctx.random.below(3) {
            0 if self.config.cars_ahead > 1 => Vec::new(),
            0 => {
                let next = Slot(self.knowledge.top.0 + 1);
                vec![self.schedule.leader(next, View(0)).as_usize()]
            }
            _ => self.random_correct_with(ctx, self.committee.validity() - self.committee.votes(index(ctx.me))),
        }
    }

    /// Shows every validator one of two cars, and some both.
    fn fork(&self, ctx: &mut MemberContext<'_>, tip: Tip, car: &SignedCar) -> Disclosure {
        let mut sibling = car.clone();
        let before = self.disclosures.get(&(tip.lane, tip.position.before().0)).and_then(|before| before.sibling.clone());
        if let Some((before, _)) = before {
            let below = HashedCar::trusted(before, &self.context).tip();
            if let Some(certificate) = self.knowledge.availability(below).filter(|_| !ctx.random.one_in(4)) {
                sibling.car.parent = below.digest;
                sibling.certificate = Some(certificate);
            }
        }
        // A transaction that no user submitted.
        let junk = (u64::MAX - ctx.random.below(1 << 32)).to_le_bytes();
        sibling.car.batch = [&sibling.car.batch[..], &junk].concat().into();
        sibling.signature = FakeKeys(tip.lane).sign_digest(&self.context.car(&sibling.car));
        let (mut one, mut other) = (Vec::new(), Vec::new());
        for validator in self.all_validators() {
            match ctx.random.below(4) {
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
    fn sibling_chain(&self, tip: Tip) -> Vec<SignedCar> {
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
            .map(|(car, _)| HashedCar::trusted(car.clone(), &self.context).tip())
            .find_map(|tip| self.knowledge.availability(tip))
    }
}
