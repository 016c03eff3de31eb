//! The own lane: turns batches into cars, and votes into certificates (D1, D2, D6).

use super::{
    Effect, Lanes, Write,
    lane::{Lane, Vote},
};
use crate::{
    keys::Share,
    message::{Availability, Car, HashedCar, Message, Proof, SignedCar, Statement, Tip},
};
use corniche_engine::{Batch, Recipients};
use corniche_types::{TimestampMs, ValidatorIndex};
use std::{collections::BTreeMap, sync::Arc};

/// State of the own lane.
pub struct OwnLane {
    /// The last own car, durable or not. Its position is never signed again (N10).
    tip: Tip,
    /// True while the last own car is not durable yet.
    is_recording: bool,
    /// Votes for own cars without a certificate.
    votes: BTreeMap<Tip, BTreeMap<ValidatorIndex, Share>>,
    batch: Option<Batch>,
    /// A batch was requested and has not come.
    is_batch_requested: bool,
    /// True once the signatures of earlier incarnations are known.
    is_open: bool,
    /// Time at which the certificate is sent alone, unless a car carries it before (D6).
    announce_at: Option<TimestampMs>,
    /// Time at which unacknowledged messages are sent again (P12, R3).
    resend_at: Option<TimestampMs>,
    /// No car is built before this time.
    pause_until: Option<TimestampMs>,
}

impl OwnLane {
    pub fn new(tip: Tip) -> Self {
        Self {
            tip,
            is_recording: false,
            votes: BTreeMap::new(),
            batch: None,
            is_batch_requested: false,
            is_open: false,
            announce_at: None,
            resend_at: None,
            pause_until: None,
        }
    }

    /// Registers a car of an earlier incarnation.
    pub fn signed(&mut self, tip: Tip) {
        if tip.position > self.tip.position {
            self.tip = tip;
        }
    }

    pub fn deadline(&self) -> Option<TimestampMs> {
        [self.announce_at, self.resend_at, self.pause_until].into_iter().flatten().min()
    }
}

impl Lanes {
    /// The last own car.
    pub fn own_tip(&self) -> Option<Tip> {
        self.own.as_ref().map(|own| own.tip)
    }

    /// R3, R5: the signatures of earlier incarnations are known now; the lane continues after them.
    pub fn open_own_lane(&mut self, now: TimestampMs) {
        let Some(own) = &mut self.own else { return };
        own.is_open = true;
        own.resend_at = Some(now);
        self.count_own_votes(now);
        self.resend(now);
    }

    /// Closes the own lane: the signatures of earlier incarnations are unknown again.
    pub fn close_own_lane(&mut self) {
        self.own.iter_mut().for_each(|own| own.is_open = false);
    }

    /// Adopts an own car that a peer remembers. Returns true if our records lack it.
    pub fn adopt_own_car(&mut self, car: &Arc<HashedCar>) -> bool {
        let Some(before) = self.own_tip() else { return false };
        if car.position() < before.position || !self.store(car.clone()) {
            return false;
        }
        self.lanes[car.lane().as_usize()].set_vote(&car.tip(), Vote::None);
        self.own.iter_mut().for_each(|own| own.signed(car.tip()));
        self.accept(car.clone(), Write::Kept(car.clone()));
        // With pipelined cars, only this certificate may prove it.
        car.certificate().iter().for_each(|certificate| self.learn(certificate));
        car.tip() != before
    }

    /// Response to [`Effect::WantBatch`]. An empty batch makes an empty car: a client waits for a later commit.
    pub fn handle_batch(&mut self, now: TimestampMs, batch: Batch) {
        let fits = batch.bytes.len() <= self.config.batch_bytes as usize;
        let Some(own) = self.own.as_mut().filter(|own| own.is_batch_requested) else {
            return self.effects.push_back(Effect::Requeue(batch)); // Not requested.
        };
        own.is_batch_requested = false;
        if fits {
            own.batch = Some(batch);
        } else {
            // Too large. If asked again at once, the caller would respond the same.
            own.pause_until = Some(after(now, self.config.resend_ms));
            self.effects.push_back(Effect::Requeue(batch));
        }
    }

    /// D1: builds the next car, or requests its batch. Called after every input.
    pub fn build(&mut self, now: TimestampMs) {
        if !self.may_build() {
            return;
        }
        let Some(own) = &mut self.own else { return };
        if own.pause_until.is_some_and(|at| at > now) {
            return;
        }
        match own.batch.take() {
            Some(batch) => self.sign(now, batch),
            None if own.is_batch_requested => {}
            None => {
                own.is_batch_requested = true;
                self.effects.push_back(Effect::WantBatch);
            }
        }
    }

    /// Checks D2 and P20.
    fn may_build(&mut self) -> bool {
        let Some(own) = self.own.as_mut().filter(|own| own.is_open && !own.is_recording) else { return false };
        let lane = &self.lanes[own.tip.lane.as_usize()];
        // After a lost incarnation, others may know another car at our last position: we build on the certified or committed
        // one.
        let certified = lane.certified().map(|certificate| certificate.tip);
        for tip in [Some(lane.executed()), certified].into_iter().flatten() {
            if tip.position >= own.tip.position {
                own.tip = tip;
            }
        }
        let certified = certified.unwrap_or_else(|| self.context.start(own.tip.lane));
        own.tip.position.0 < certified.position.0 + self.config.cars_ahead && lane.unexecuted() < self.config.lane_bytes
    }

    fn sign(&mut self, now: TimestampMs, batch: Batch) {
        let (Some(own), Some(signer)) = (&mut self.own, &self.signer) else { return };
        let certificate = self.lanes[own.tip.lane.as_usize()].certified().map(|certificate| (**certificate).clone());
        let (position, parent) = (own.tip.position.next(), own.tip.digest);
        let pause_ms = self.config.car_pause_ms(batch.bytes.len());
        let car = Car { lane: own.tip.lane, position, parent, batch: batch.bytes };
        let Some(signature) = self.context.sign_car(&car, &**signer) else {
            own.batch = Some(Batch { bytes: car.batch });
            own.pause_until = Some(after(now, self.config.resend_ms));
            return;
        };
        let car = Arc::new(HashedCar::trusted(SignedCar { car, signature, certificate }, &self.context));
        assert!(car.position() > own.tip.position, "N10: one own car per position, ever");
        (own.tip, own.is_recording) = (car.tip(), true);
        own.pause_until = Some(after(now, pause_ms)).filter(|at| *at > now);
        self.effects.push_back(Effect::Built(car.clone()));
        self.effects.push_back(Effect::Persist(Write::Own(car)));
    }

    /// The own car is durable. Only now it counts and is sent.
    pub(super) fn publish(&mut self, now: TimestampMs, car: Arc<HashedCar>) {
        let tip = car.tip();
        self.store(car.clone());
        let lane = &mut self.lanes[tip.lane.as_usize()];
        lane.set_vote(&tip, Vote::Cast);
        let (Some(own), Some(signer)) = (&mut self.own, &self.signer) else { return };
        own.is_recording = false;
        own.resend_at = Some(after(now, self.config.resend_ms));
        if car.certificate().is_some_and(|certificate| certificate.tip.position >= lane.certified_position()) {
            own.announce_at = None;
        }
        let share = self.context.share(&Statement::CarVote(tip), &**signer);
        self.send_all(Message::Car(car.signed().clone()));
        self.effects.push_back(Effect::Accepted(car));
        self.changed = true;
        if let Ok(share) = share {
            self.handle_vote(now, tip.lane, tip, share);
        }
    }

    /// Votes for uncertified own cars of an earlier incarnation: our vote is the first.
    fn count_own_votes(&mut self, now: TimestampMs) {
        let (Some(own), Some(signer)) = (&self.own, self.signer.clone()) else { return };
        let lane = &self.lanes[own.tip.lane.as_usize()];
        let cars = lane.ancestors(own.tip, lane.certified_position()).map(|car| car.tip());
        let is_counted = |tip: &Tip| own.votes.get(tip).is_some_and(|votes| votes.contains_key(&own.tip.lane));
        let voted: Vec<Tip> = cars.filter(|tip| lane.vote(tip) == Vote::Cast && !is_counted(tip)).collect();
        for tip in voted.into_iter().rev() {
            if let Ok(share) = self.context.share(&Statement::CarVote(tip), &*signer) {
                self.handle_vote(now, tip.lane, tip, share);
            }
        }
    }

    /// D6: processes a verified vote for an own car.
    pub fn handle_vote(&mut self, now: TimestampMs, from: ValidatorIndex, tip: Tip, share: Share) {
        let Some(own) = self.own.as_mut().filter(|own| own.tip.lane == tip.lane) else { return };
        let lane = &self.lanes[tip.lane.as_usize()];
        if tip.position <= lane.certified_position() || lane.get(&tip).is_none() {
            return;
        }
        let votes = own.votes.entry(tip).or_default();
        votes.insert(from, share);
        if self.committee.weigh(votes.keys().copied()) < self.committee.validity() {
            return;
        }
        let shares: Vec<_> = votes.iter().map(|(signer, share)| (*signer, share.clone())).collect();
        let seal = self.signatures.combine(&shares).expect("every share was verified");
        let signers = shares.into_iter().map(|(signer, _)| signer).collect();
        self.certify(now, &Availability { tip, proof: Proof { signers, seal } });
    }

    /// D6, D7: an own car has a certificate.
    fn certify(&mut self, now: TimestampMs, certificate: &Availability) {
        self.learn(certificate);
        let Some(own) = &mut self.own else { return };
        own.votes = own.votes.split_off(&Tip { position: certificate.tip.position.next(), ..certificate.tip });
        own.announce_at = Some(after(now, self.config.availability_wait_ms));
    }

    /// D6, P12: sends certificates that no car carried, and resends unacknowledged messages.
    pub(super) fn resend(&mut self, now: TimestampMs) {
        let Some(own) = &mut self.own else { return };
        own.pause_until.take_if(|at| *at <= now);
        let again = own.resend_at.take_if(|at| *at <= now).is_some();
        let announce = own.announce_at.take_if(|at| *at <= now).is_some();
        let tip = own.tip;
        let lane = &self.lanes[tip.lane.as_usize()];
        if again {
            // Those that the signer did not give before.
            self.count_own_votes(now);
            let lane = &self.lanes[tip.lane.as_usize()];
            let Some(own) = &mut self.own else { return };
            if lane.certified_position().min(lane.executed().position) < tip.position {
                own.resend_at = Some(after(now, self.config.resend_ms));
            }
            self.pending_messages().into_iter().for_each(|message| self.send_all(message));
        } else if announce && let Some(certificate) = lane.certified() {
            self.send_all(Message::Available((**certificate).clone()));
        }
    }

    /// P12: sends unacknowledged messages to a peer that may have missed them.
    pub fn send_pending(&mut self, peer: ValidatorIndex) {
        if self.own.as_ref().is_some_and(|own| own.is_open) {
            let messages = self.pending_messages().into_iter().map(Box::new);
            self.effects.extend(messages.map(|message| Effect::Send { to: Recipients::One(peer), message }));
        }
    }

    /// Uncertified own cars, and the certificate of cars that are not executed.
    fn pending_messages(&self) -> Vec<Message> {
        let Some(own) = &self.own else { return Vec::new() };
        let lane = &self.lanes[own.tip.lane.as_usize()];
        let above = lane.certified_position();
        let cars = lane.ancestors(own.tip, above).filter_map(|car| with_certificate(car, lane, self.config.cars_ahead));
        let mut messages: Vec<_> = cars.map(Message::Car).collect();
        messages.reverse();
        if lane.executed().position < above {
            messages.extend(lane.certified().map(|certificate| Message::Available((**certificate).clone())));
        }
        messages
    }

    fn send_all(&mut self, message: Message) {
        if self.committee.size() > 1 {
            self.effects.push_back(Effect::Send { to: Recipients::All, message: Box::new(message) });
        }
    }
}

/// An own car with a certificate, as others accept it (D1). A peer that returned the car may have omitted the
/// certificate; without it others would consider us faulty. `None` until the certificate is known.
fn with_certificate(car: &HashedCar, lane: &Lane, ahead: u64) -> Option<SignedCar> {
    let mut signed = car.signed().clone();
    if signed.certificate.is_none() && car.position().0 > ahead {
        let below = |tip: &Tip| tip.position.0 + ahead >= car.position().0 && lane.descends(car.parent(), *tip);
        signed.certificate = Some(lane.certified().filter(|certificate| below(&certificate.tip))?.as_ref().clone());
    }
    Some(signed)
}

fn after(now: TimestampMs, wait: u64) -> TimestampMs {
    TimestampMs(now.0.saturating_add(wait))
}
