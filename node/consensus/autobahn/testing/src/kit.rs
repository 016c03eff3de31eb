//! The engine with one committee and modelled keys.

use crate::{
    BadShares, FakeKeys, FakeSignatures, NAME, committee, committee_of,
    doubles::{self, ByzantineCoalition, ConductChecker},
};
use corniche_autobahn::{
    Autobahn, AutobahnVerifier, Config, Setup, Signer,
    lanes::CAR_WEIGHT,
    message::{Context, Message, SignedCar, Tip},
    record::Record,
};
use corniche_engine::{Committee, Verifier, VertexId};
use corniche_testkit::{
    Coalition, Forgery, Kit, MAX_BATCH_BYTES, Measured, MeasuredEngine, MessageChecker, Random, derive_bytes, unequal_votes,
};
use corniche_types::{B256, Bytes, ValidatorIndex, wire};
use std::{collections::BTreeMap, rc::Rc, sync::Arc};

/// Autobahn with one committee and modelled keys.
pub struct AutobahnKit {
    pub config: Config,
    committee: Committee,
}

impl AutobahnKit {
    /// A committee of this size with short timers, so that short runs cover many slots and views. All have one vote.
    pub fn quick(size: usize) -> Rc<dyn Kit> {
        Self::quick_with(committee(size))
    }

    /// Like [`Self::quick`], with unequal votes.
    pub fn quick_weighted(size: usize) -> Rc<dyn Kit> {
        Self::quick_with(committee_of(&unequal_votes(size)))
    }

    fn quick_with(committee: Committee) -> Rc<dyn Kit> {
        let config = Config {
            view_timeout_ms: 400,
            max_view_timeout_ms: 5_000,
            fast_wait_ms: 10,
            coverage_wait_ms: 5,
            resend_ms: 300,
            status_ms: 1_000,
            retain_slots: 60,
            ..Config::default()
        };
        let lane_bytes = retained_lane_bytes(&committee, &config);
        Rc::new(Self::new(committee, Config { lane_bytes, ..config }))
    }

    pub fn new(committee: Committee, config: Config) -> Self {
        Self { config, committee }
    }

    fn vertex(&self, car: &SignedCar) -> VertexId {
        let digest = Context::new(&self.committee).car(&car.car);
        Tip { lane: car.car.lane, position: car.car.position, digest }.into()
    }
}

impl Kit for AutobahnKit {
    fn name(&self) -> &'static str {
        NAME
    }

    fn committee(&self) -> &Committee {
        &self.committee
    }

    fn start(&self, setup: corniche_testkit::Setup) -> Box<dyn Measured> {
        let corniche_testkit::Setup { me, seed, records, unsigned, resume, now, forgery } = setup;
        let signer: Arc<dyn Signer> = match forgery {
            Some(Forgery::Share) => Arc::new(BadShares(me)),
            _ => Arc::new(FakeKeys(me)),
        };
        let (config, committee, signatures) = (self.config.clone(), self.committee.clone(), Arc::new(FakeSignatures));
        let signer = Some(signer);
        let setup = Setup { config, committee, signer, signatures, seed, records, unsigned, resume, now };
        Box::new(MeasuredEngine {
            engine: Autobahn::new(setup),
            footprint: |engine| engine.footprint().iter().sum(),
            describe: Autobahn::describe,
        })
    }

    fn verifier(&self) -> Arc<dyn Verifier> {
        Arc::new(AutobahnVerifier::new(self.config.clone(), self.committee.clone(), Arc::new(FakeSignatures)))
    }

    /// An author publishes cars; the round of a car is its position.
    fn published_proposal(&self, message: &Bytes) -> Option<VertexId> {
        match wire::decode(message) {
            Ok(Message::Car(car)) => Some(self.vertex(&car)),
            _ => None,
        }
    }

    fn recorded_proposal(&self, record: &Bytes) -> Option<VertexId> {
        match wire::decode(record) {
            Ok(Record::Car { car, .. }) => Some(self.vertex(&car)),
            _ => None,
        }
    }

    fn forge(&self, author: ValidatorIndex, forgery: Forgery, message: &Bytes, random: &mut Random) -> Option<Bytes> {
        let Ok(Message::Car(mut car)) = wire::decode(message) else { return None };
        match forgery {
            Forgery::Parents => match random.below(3) {
                // No validator ever has this car.
                0 => car.car.parent = B256::from(derive_bytes("nowhere", author.0, &random.draw().to_le_bytes())),
                1 => car.certificate = None,
                _ => car.car.position.0 += 1,
            },
            Forgery::Share => return None,
        }
        car.signature = FakeKeys(author).sign_digest(&Context::new(&self.committee).car(&car.car));
        Some(Message::Car(car).encode())
    }

    /// Data `retain_slots` below the last executed slot is pruned.
    fn max_lag(&self) -> u64 {
        self.config.retain_slots
    }

    fn max_footprint(&self) -> usize {
        self.config.max_footprint(self.committee.size())
    }

    fn engine_doubles(&self) -> &'static [&'static str] {
        &doubles::NAMES
    }

    fn coalition(&self, members: &BTreeMap<usize, &'static str>) -> Option<Box<dyn Coalition>> {
        Some(Box::new(ByzantineCoalition::new(self.config.clone(), self.committee.clone(), members)))
    }

    fn message_checker(&self) -> Option<Box<dyn MessageChecker>> {
        Some(Box::new(ConductChecker::new(&self.config, &self.committee)))
    }

    /// Changes switches in half of the cases (rows 15, 18–21, 24, 38 of the checklist).
    fn with_random_parameters(&self, random: &mut Random, all_honest: bool) -> Option<Rc<dyn Kit>> {
        if random.one_in(2) {
            return None;
        }
        let config = Config {
            open_slots: random.between(1, 4),
            fast_path: !random.one_in(4),
            leader_tips: !random.one_in(4),
            optimistic_tips: !random.one_in(3),
            weak_votes: random.one_in(3),
            all_to_all: random.one_in(3),
            // A faulty leader of every slot can omit any car for ever.
            stable_leader: random.one_in(6) && all_honest,
            cars_ahead: random.between(1, 3),
            view_timeout_ms: random.between(1, 4) * 100,
            ..self.config.clone()
        };
        Some(Rc::new(Self::new(self.committee.clone(), config)))
    }
}

/// Bytes by which a lane grows in `retain_slots` slots, so that a validator at most so far behind finds all cars it needs.
///
/// In W slots every seat leads once. Correct leaders decide within the view timer T. A view of a faulty leader ends
/// by the timer, which doubles with every further one: F neighbours cost (2^(F + 1) − F − 2) T in all. Meanwhile a lane
/// grows by one car per `car_interval_ms`.
fn retained_lane_bytes(committee: &Committee, config: &Config) -> u64 {
    let (seats, faulty) = (u64::from(committee.total().0), u64::from(committee.max_faulty().0));
    let timers_per_rotation = seats + (1 << (faulty + 1)) - faulty - 2;
    let rotations = config.retain_slots.div_ceil(seats);
    let cars = rotations * timers_per_rotation * config.view_timeout_ms / config.car_interval_ms;
    cars * (CAR_WEIGHT + MAX_BATCH_BYTES)
}
