//! The rules of the lanes, one at a time, on a network of lanes without slots.

use super::*;
use crate::{
    kit::{FakeKeys, FakeSignatures, committee},
    message::{Car, Proof, SignedCar},
};
use std::collections::VecDeque;

const OWNER: ValidatorIndex = ValidatorIndex(0);

/// Lanes of all validators; messages arrive in the order they were sent, writes are done when they are asked for.
struct Net {
    config: Config,
    committee: Committee,
    nodes: Vec<Lanes>,
    queue: VecDeque<(usize, usize, Message)>,
    /// Everything that was ever sent.
    sent: Vec<(usize, usize, Message)>,
    writes: Vec<Vec<Write>>,
    accused: Vec<(usize, ValidatorIndex)>,
    requeued: Vec<Batch>,
    /// Nodes that ask for a batch.
    asking: Vec<usize>,
    deaf: Vec<usize>,
    now: TimestampMs,
}

impl Net {
    /// Cars follow each other at once, unless the test is about that.
    fn new(size: usize, config: Config) -> Self {
        Self::paced(size, Config { car_interval_ms: 0, ..config })
    }

    fn paced(size: usize, config: Config) -> Self {
        let committee = committee(size);
        let context = Context::new(&committee);
        let start: Vec<_> = committee.indices().map(|lane| context.start(lane)).collect();
        let mut net = Self {
            nodes: Vec::new(),
            queue: VecDeque::new(),
            sent: Vec::new(),
            writes: vec![Vec::new(); size],
            accused: Vec::new(),
            requeued: Vec::new(),
            asking: Vec::new(),
            deaf: Vec::new(),
            now: TimestampMs(1_000),
            config,
            committee,
        };
        for node in 0..size {
            let lanes = net.start(node, start.clone(), Vec::new());
            net.nodes.push(lanes);
            net.act(node, |lanes, now| lanes.open_own(now));
        }
        net
    }

    fn start(&self, node: usize, executed: Vec<Tip>, records: Vec<Recovered>) -> Lanes {
        Lanes::new(Setup {
            config: self.config.clone(),
            committee: self.committee.clone(),
            signer: Some(Arc::new(FakeKeys(index(node)))),
            signatures: Arc::new(FakeSignatures),
            executed,
            records,
        })
    }

    /// Power off and on; what was written is there.
    fn restart(&mut self, node: usize) {
        let executed = self.nodes[node].lanes.iter().map(Lane::executed).collect();
        let records = self.writes[node].iter().map(|write| match write {
            Write::Own(car) | Write::Voted(car) => Recovered::Car { car: car.clone(), voted: true },
            Write::Kept(car) => Recovered::Car { car: car.clone(), voted: false },
            Write::Vote(tip) => Recovered::Vote(*tip),
        });
        let records = records.collect();
        self.asking.retain(|asking| *asking != node);
        self.nodes[node] = self.start(node, executed, records);
        self.act(node, |lanes, now| lanes.open_own(now));
    }

    fn act(&mut self, node: usize, action: impl FnOnce(&mut Lanes, TimestampMs)) {
        action(&mut self.nodes[node], self.now);
        loop {
            self.nodes[node].build(self.now);
            let Some(effect) = self.nodes[node].poll() else { break };
            match effect {
                Effect::Persist(write) => {
                    self.writes[node].push(write.clone());
                    self.nodes[node].durable(self.now, write);
                }
                Effect::Send { to: Recipients::All, message } => {
                    (0..self.nodes.len()).filter(|to| *to != node).for_each(|to| self.send(node, to, (*message).clone()));
                }
                Effect::Send { to: Recipients::One(to), message } => self.send(node, to.as_usize(), *message),
                Effect::WantBatch => self.asking.push(node),
                Effect::Requeue(batch) => self.requeued.push(batch),
                Effect::Accuse(validator, _) => self.accused.push((node, validator)),
                Effect::Built(_) | Effect::Taken(_) => {}
            }
        }
    }

    fn send(&mut self, from: usize, to: usize, message: Message) {
        self.sent.push((from, to, message.clone()));
        self.queue.push_back((from, to, message));
    }

    /// Delivers everything on its way.
    fn run(&mut self) {
        while let Some((from, to, message)) = self.queue.pop_front() {
            if !self.deaf.contains(&to) && !self.deaf.contains(&from) {
                self.deliver(from, to, message);
            }
        }
    }

    fn deliver(&mut self, from: usize, to: usize, message: Message) {
        let context = Context::new(&self.committee);
        let bytes = self.config.fetch_bytes as usize;
        let named = |car: SignedCar| Arc::new(NamedCar::trusted(car, &context));
        self.act(to, |lanes, now| match message {
            Message::Car(car) => lanes.take_car(now, &named(car)),
            Message::Held { tip, share } => lanes.take_vote(now, index(from), tip, share),
            Message::Available(certificate) => lanes.learn(&certificate),
            Message::FetchCars { tip, above } => {
                let cars = lanes.serve(&tip, above, bytes).iter().map(|car| car.signed().clone()).collect();
                lanes.effects.push_back(Effect::Send {
                    to: Recipients::One(index(from)),
                    message: Box::new(Message::Cars { tip, cars }),
                });
            }
            Message::Cars { tip, cars } => {
                let cars: Vec<_> = cars.into_iter().map(named).collect();
                lanes.take_cars(now, index(from), tip, &cars);
            }
            other => panic!("{other:?} is no message of lanes"),
        });
    }

    /// Hands a batch to whoever asked for one.
    fn batch(&mut self, node: usize, text: &str) -> bool {
        let Some(place) = self.asking.iter().position(|asking| *asking == node) else { return false };
        self.asking.remove(place);
        let bytes = text.as_bytes().to_vec().into();
        self.act(node, |lanes, now| lanes.take_batch(now, Batch { bytes }));
        true
    }

    fn later(&mut self, ms: u64) {
        self.now = TimestampMs(self.now.0 + ms);
        for node in 0..self.nodes.len() {
            while self.nodes[node].deadline().is_some_and(|at| at <= self.now) {
                self.act(node, Lanes::tick);
            }
        }
    }

    fn execute(&mut self, node: usize, tip: Tip) {
        assert!(self.nodes[node].chain(&tip).is_some(), "{tip:?} is held with its history");
        self.act(node, |lanes, _| lanes.execute(&[tip]));
    }

    /// A car of the owner's, who may sign what it likes.
    fn car(&self, parent: Tip, text: &str, certificate: Option<Availability>) -> Arc<NamedCar> {
        let context = Context::new(&self.committee);
        let batch = text.as_bytes().to_vec().into();
        let car = Car { lane: parent.lane, position: parent.position.next(), parent: parent.digest, batch };
        let signature = FakeKeys(parent.lane).sign(&context.car(&car));
        Arc::new(NamedCar::trusted(SignedCar { car, signature, certificate }, &context))
    }

    fn certificate(&self, tip: Tip, signers: &[usize]) -> Availability {
        let digest = Context::new(&self.committee).statement(&Statement::Held(tip));
        let shares: Vec<_> = signers.iter().map(|signer| (index(*signer), FakeKeys(index(*signer)).share(&digest))).collect();
        let seal = FakeSignatures.combine(&shares).unwrap();
        Availability { tip, proof: Proof { signers: shares.into_iter().map(|(signer, _)| signer).collect(), seal } }
    }

    /// A certified chain of this length, the last car uncertified.
    fn chain(&self, length: usize, text: &str, signers: &[usize]) -> Vec<Arc<NamedCar>> {
        let mut parent = Context::new(&self.committee).start(OWNER);
        let mut cars = Vec::new();
        for place in 0..length {
            let certificate = (place > 0).then(|| self.certificate(parent, signers));
            let car = self.car(parent, &format!("{text}{place}"), certificate);
            parent = car.tip();
            cars.push(car);
        }
        cars
    }

    fn take(&mut self, node: usize, car: &Arc<NamedCar>) {
        let car = car.clone();
        self.act(node, |lanes, now| lanes.take_car(now, &car));
    }

    /// Positions that this node voted for in the owner's lane, in the order in which the votes left.
    fn votes(&self, node: usize) -> Vec<u64> {
        let vote = |(from, _, message): &(usize, usize, Message)| match message {
            Message::Held { tip, .. } if *from == node && tip.lane == OWNER => Some(tip.position.0),
            _ => None,
        };
        self.sent.iter().filter_map(vote).collect()
    }

    fn count(&self, wanted: impl Fn(&Message) -> bool) -> usize {
        self.sent.iter().filter(|(_, _, message)| wanted(message)).count()
    }

    fn certified(&self, node: usize) -> u64 {
        self.nodes[node].lane(OWNER).certified_position().0
    }
}

fn index(node: usize) -> ValidatorIndex {
    ValidatorIndex(u16::try_from(node).unwrap())
}

#[test]
fn d1_d2_a_batch_is_asked_for_when_the_last_car_is_certified() {
    for ahead in [1, 3] {
        let mut net = Net::new(4, Config { cars_ahead: ahead, ..Config::default() });
        for car in 0..ahead {
            assert!(net.batch(0, &format!("car {car}")), "{car} of {ahead}");
        }
        assert!(!net.asking.contains(&0), "row 18: {ahead} cars are on their way");
        net.run();
        assert_eq!(net.certified(0), ahead);
        assert!(net.batch(0, "next"));
        net.run();
        // Others learn it from the cars that carry it.
        assert!((1..4).all(|node| net.certified(node) >= ahead));
    }
}

#[test]
fn d1_no_batch_is_asked_for_while_too_much_is_not_executed() {
    let mut net = Net::new(4, Config { lane_bytes: 2 * (CAR_WEIGHT + 10), ..Config::default() });
    for car in 0..2 {
        assert!(net.batch(0, "exactly 10"), "{car}");
        net.run();
    }
    assert!(!net.asking.contains(&0));
    let tip = net.nodes[0].own_tip().unwrap();
    net.execute(0, tip);
    assert!(net.asking.contains(&0));
}

#[test]
fn d3_d4_cars_out_of_order_are_voted_for_in_order() {
    let mut net = Net::new(4, Config { cars_ahead: 4, ..Config::default() });
    let cars = net.chain(4, "c", &[0, 2]);
    // Pipelined: no certificates yet.
    let bare = |car: &Arc<NamedCar>| net.car(car.parent(), std::str::from_utf8(car.batch()).unwrap(), None);
    let cars: Vec<_> = cars.iter().map(bare).collect();
    for place in [2, 1, 3] {
        net.take(1, &cars[place].clone());
        assert!(net.votes(1).is_empty());
    }
    net.take(1, &cars[0].clone());
    assert_eq!(net.votes(1), [1, 2, 3, 4]);
}

#[test]
fn d4_y1_a_gap_is_fetched_from_signers_and_voted_for_in_order() {
    let mut net = Net::new(4, Config::default());
    net.deaf = vec![3];
    for car in 0..50 {
        assert!(net.batch(0, &format!("{car}")));
        net.run();
    }
    net.deaf.clear();
    net.batch(0, "the car that arrives");
    net.run();
    // Y1: one question, one answer, whatever the length.
    assert_eq!(net.count(|message| matches!(message, Message::FetchCars { .. })), 1);
    assert_eq!(net.nodes[3].lane(OWNER).voted().position, Position(51));
    assert_eq!(net.votes(3), [51], "what others certified needs no vote");
    let asked = net.sent.iter().find(|(_, _, message)| matches!(message, Message::FetchCars { .. })).unwrap().1;
    let signers = net.nodes[3].lane(OWNER).certified().unwrap().proof.signers.clone();
    assert!(signers.contains(&index(asked)));
}

#[test]
fn y1_p15_silent_signers_are_hedged_one_retry_later_each() {
    let mut net = Net::new(7, Config::default());
    let cars = net.chain(20, "c", &[1, 2, 3]);
    cars.iter().for_each(|car| net.take(3, car));
    net.sent.clear();
    net.queue.clear();
    net.deaf = vec![1, 2];
    net.take(6, &cars[19]);
    net.run();
    assert_eq!(net.count(|message| matches!(message, Message::FetchCars { .. })), 1, "one is asked");
    for retries in 2..=3 {
        net.later(net.config.fetch_retry_ms);
        assert_eq!(net.count(|message| matches!(message, Message::FetchCars { .. })), retries);
    }
    net.run();
    assert_eq!(net.nodes[6].lane(OWNER).voted().position, Position(20));
    assert_eq!(net.nodes[6].fetches.count(), 0);
}

#[test]
fn a_long_history_comes_in_parts_without_waiting() {
    let mut net = Net::new(4, Config { fetch_bytes: 3 * 300, ..Config::default() });
    let cars = net.chain(31, "c", &[1, 2]);
    cars.iter().for_each(|car| net.take(1, car));
    net.queue.clear();
    net.take(3, &cars[30]);
    net.run();
    assert_eq!(net.nodes[3].lane(OWNER).voted().position, Position(31));
    assert_eq!(net.nodes[3].chain(&cars[30].tip()).unwrap().len(), 31);
}

#[test]
fn answers_that_nobody_asked_for_are_dropped() {
    let mut net = Net::new(4, Config::default());
    let cars = net.chain(5, "c", &[1, 2]);
    net.act(3, |lanes, now| lanes.take_cars(now, index(1), cars[4].tip(), &cars));
    assert_eq!(net.nodes[3].footprint(), 0);
}

#[test]
fn d6_a_certificate_that_no_car_carries_leaves_alone() {
    let mut net = Net::new(4, Config::default());
    net.batch(0, "last");
    net.run();
    assert_eq!((net.certified(0), net.certified(1)), (1, 0));
    net.later(net.config.availability_wait_ms);
    net.run();
    assert!((1..4).all(|node| net.certified(node) == 1));
    // Not when the next car carries it.
    let announced = |net: &Net| net.count(|message| matches!(message, Message::Available(_)));
    let before = announced(&net);
    net.batch(0, "next");
    net.queue.clear(); // No vote, so no certificate.
    net.later(net.config.availability_wait_ms);
    assert_eq!(announced(&net), before);
}

#[test]
fn d7_certificates_only_go_up() {
    let mut net = Net::new(4, Config::default());
    let cars = net.chain(3, "c", &[1, 2]);
    let (low, high) = (net.certificate(cars[0].tip(), &[1, 2]), net.certificate(cars[2].tip(), &[2, 3]));
    net.act(3, |lanes, _| lanes.learn(&high));
    net.act(3, |lanes, _| lanes.learn(&low));
    assert_eq!(net.certified(3), 3);
}

#[test]
fn d8_lanes_grow_with_f_plus_1_on_each_side() {
    let mut net = Net::new(4, Config::default());
    net.deaf = vec![2, 3];
    for car in 0..20 {
        assert!(net.batch(0, &format!("{car}")) && net.batch(1, &format!("{car}")));
        net.run();
    }
    assert_eq!(net.certified(0), 20);
}

#[test]
fn d9_one_vote_a_position_and_the_forker_is_accused_with_both_cars() {
    let mut net = Net::new(4, Config::default());
    let (one, other) = (net.chain(1, "a", &[]), net.chain(1, "b", &[]));
    net.take(1, &one[0]);
    net.take(1, &other[0]);
    net.take(1, &other[0]);
    assert_eq!((net.votes(1), net.accused.clone()), (vec![1], vec![(1, OWNER)]));
    // P9: what was voted for is what is held.
    assert_eq!(net.nodes[1].lane(OWNER).voted(), one[0].tip());
}

#[test]
fn p21_a_fork_fetched_for_a_slot_is_vouched_for_but_gets_no_vote() {
    let mut net = Net::new(4, Config::default());
    let (one, other) = (net.chain(1, "a", &[]), net.chain(1, "b", &[]));
    net.take(1, &one[0]);
    net.take(2, &other[0]);
    net.sent.clear();
    let tip = other[0].tip();
    assert!(!net.nodes[1].vouches(&tip));
    net.act(1, |lanes, now| lanes.fetch_body(now, tip, index(2), Purpose(1)));
    net.run();
    assert!(net.nodes[1].vouches(&tip) && net.nodes[1].vouches(&one[0].tip()));
    assert_eq!(net.votes(1), [0; 0]);
}

#[test]
fn d5_p22_whoever_voted_for_the_losing_fork_goes_on_from_what_is_committed() {
    let mut net = Net::new(4, Config::default());
    let (lost, kept) = (net.chain(1, "lost", &[]), net.chain(2, "kept", &[2, 3]));
    net.take(1, &lost[0]);
    net.take(2, &kept[0]);
    net.take(1, &kept[1]);
    net.run();
    assert_eq!(net.votes(1), [1], "D5: no vote for the child of what it did not vote for");
    net.execute(1, kept[0].tip());
    assert_eq!(net.votes(1), [1, 2]);
    // G2, row 31: the losing fork is gone.
    assert!(net.nodes[1].lane(OWNER).get(&lost[0].tip()).is_none());
}

#[test]
fn g2_forks_do_not_pile_up_and_a_stale_tip_changes_nothing() {
    let mut net = Net::new(4, Config::default());
    let kept = net.chain(40, "kept", &[1, 2]);
    for (place, car) in kept.iter().enumerate() {
        net.take(1, car);
        net.take(2, car);
        for fork in 0..5 {
            let fork = net.car(car.parent(), &format!("fork {fork}"), car.certificate().cloned());
            net.take(1, &fork);
        }
        net.execute(1, car.tip());
        if place > 3 {
            // P8: cuts of consecutive slots may go backwards.
            net.execute(1, kept[place - 2].tip());
        }
        assert_eq!(net.nodes[1].lane(OWNER).executed(), car.tip());
        net.nodes[1].forget(&[car.position(), Position(0), Position(0), Position(0)]);
        assert_eq!(net.nodes[1].lane(OWNER).count(), 1, "one body a position, and only the last");
        assert_eq!(net.nodes[1].lane(OWNER).unexecuted(), 0);
    }
}

#[test]
fn g5_a_flood_of_cars_fills_one_place_a_lane() {
    for ahead in [1, 4] {
        let mut net = Net::new(4, Config { cars_ahead: ahead, ..Config::default() });
        let start = Context::new(&net.committee).start(OWNER);
        for flood in 0..200u64 {
            // Forks of every position, and orphans.
            let digest = corniche_types::B256::with_last_byte(u8::try_from(flood % 250).unwrap());
            let orphan = Tip { position: Position(flood % 9), digest, ..start };
            let parent = if flood % 3 == 0 { start } else { orphan };
            let car = net.car(parent, &format!("{flood:0>10}"), None);
            net.take(1, &car);
            assert!(net.nodes[1].uncertified_bytes(OWNER) <= 10 * ahead as usize, "{ahead} ahead");
        }
        assert!(net.nodes[1].uncertified_bytes(OWNER) > 0);
    }
}

#[test]
fn p20_others_lanes_are_taken_in_up_to_twice_what_a_correct_owner_sends() {
    let mut net = Net::new(4, Config { lane_bytes: 2 * (CAR_WEIGHT + 10), ..Config::default() });
    let cars = net.chain(9, "exactly 9", &[2, 3]);
    cars.iter().for_each(|car| net.take(1, car));
    assert_eq!(net.votes(1), [1, 2, 3, 4]);
}

#[test]
fn r1_r3_after_a_power_cut_votes_and_cars_are_the_same() {
    let mut net = Net::new(4, Config::default());
    net.batch(0, "certified");
    net.run();
    net.batch(0, "not certified");
    net.queue.clear(); // Nobody gets it.
    let own = net.nodes[0].own_tip().unwrap();
    net.restart(0);
    assert_eq!(net.nodes[0].own_tip(), Some(own));
    net.run();
    assert_eq!((net.certified(0), own.position.0), (2, 2), "R3: the identical car was sent again");
    // N5: the other car of a position gets no vote in another life either.
    let fork = net.car(Context::new(&net.committee).start(OWNER), "fork", None);
    net.restart(1);
    net.sent.clear();
    net.take(1, &fork);
    assert!(net.votes(1).is_empty());
}

#[test]
fn r5_a_validator_that_forgot_is_silent_about_what_it_may_have_voted_for() {
    let mut net = Net::new(4, Config::default());
    let cars = net.chain(4, "c", &[2, 3]);
    net.act(1, |lanes, _| lanes.abstain(&[Position(2), Position(0), Position(0), Position(0)]));
    cars.iter().for_each(|car| net.take(1, car));
    assert_eq!(net.votes(1), [3, 4]);
}

#[test]
fn r5_a_lost_own_lane_goes_on_above_what_others_remember() {
    let mut net = Net::new(4, Config::default());
    for car in 0..3 {
        assert!(net.batch(0, &format!("{car}")));
        net.run();
    }
    let remembered = net.nodes[1].highest(OWNER).unwrap().clone();
    net.writes[0].clear();
    net.asking.clear();
    let start = (0..4).map(|lane| Context::new(&net.committee).start(index(lane))).collect();
    net.nodes[0] = net.start(0, start, Vec::new());
    net.act(0, |lanes, _| assert!(lanes.adopt_own(&remembered)));
    net.act(0, |lanes, now| lanes.open_own(now));
    net.run();
    assert_eq!(net.certified(0), 3);
    assert!(net.batch(0, "next"));
    net.run();
    assert_eq!((net.certified(0), net.accused.len()), (4, 0));
}

#[test]
fn p12_what_is_lost_is_sent_again_and_an_executed_lane_is_quiet() {
    let mut net = Net::new(4, Config::default());
    net.batch(0, "lost");
    net.queue.clear();
    net.later(net.config.resend_ms);
    net.run();
    assert_eq!(net.certified(0), 1);
    net.later(net.config.availability_wait_ms);
    net.run();
    let tip = net.nodes[0].own_tip().unwrap();
    (0..4).for_each(|node| net.execute(node, tip));
    net.later(net.config.resend_ms);
    assert!((0..4).all(|node| net.nodes[node].deadline().is_none()), "P10: nothing to do, no timer");
}

#[test]
fn an_empty_batch_makes_an_empty_car_and_cars_keep_their_distance() {
    let mut net = Net::paced(4, Config { car_interval_ms: 10, ..Config::default() });
    let positions = |net: &Net| net.nodes[0].own_tip().unwrap().position.0;
    net.act(0, |lanes, now| lanes.take_batch(now, Batch::default()));
    net.run();
    assert_eq!(positions(&net), 1);
    assert_eq!(net.nodes[0].certified(OWNER).unwrap().tip.position, Position(1));
    assert_eq!(net.asking.iter().filter(|node| **node == 0).count(), 1, "what is asked for now would leave too early");
    let due = net.now.0 + 10;
    assert!(net.nodes[0].deadline().is_some_and(|at| at.0 <= due));
    net.now = TimestampMs(due);
    net.act(0, |lanes, now| lanes.tick(now));
    assert_eq!(net.asking.iter().filter(|node| **node == 0).count(), 2);
    net.act(0, |lanes, now| lanes.take_batch(now, Batch { bytes: vec![1].into() }));
    assert_eq!(positions(&net), 2);
}
