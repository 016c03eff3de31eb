//! A network of lanes without slots. Messages wait until [`Net::run`] delivers them; writes complete at once.

use corniche_autobahn::{
    AutobahnVerifier, Config, Signatures,
    lanes::{Effect, Lanes, Recovered, Setup, Write},
    message::{Availability, Car, Context, HashedCar, Message, Proof, SignedCar, Statement, Tip},
};
use corniche_autobahn_testing::{FakeKeys, FakeSignatures, committee_of};
use corniche_engine::{Batch, Committee, Recipients, Verifier};
use corniche_types::{TimestampMs, ValidatorIndex};
use std::{collections::VecDeque, sync::Arc};

pub const OWNER: ValidatorIndex = ValidatorIndex(0);

/// Lanes of all validators. Messages arrive in sending order.
pub struct Net {
    pub config: Config,
    pub committee: Committee,
    verifier: AutobahnVerifier,
    pub nodes: Vec<Lanes>,
    pub queue: VecDeque<(usize, usize, Message)>,
    /// All sent messages.
    pub sent: Vec<(usize, usize, Message)>,
    pub writes: Vec<Vec<Write>>,
    pub accused: Vec<(usize, ValidatorIndex)>,
    pub requeued: Vec<Batch>,
    /// Nodes that request a batch.
    pub asking: Vec<usize>,
    pub deaf: Vec<usize>,
    pub now: TimestampMs,
}

impl Net {
    /// Cars follow each other without a pause, except in tests of the pause.
    pub fn new(size: usize, config: Config) -> Self {
        Self::paced(size, Config { car_interval_ms: 0, ..config })
    }

    pub fn paced(size: usize, config: Config) -> Self {
        Self::with_votes(&vec![1; size], config)
    }

    pub fn with_votes(votes: &[u32], config: Config) -> Self {
        let (committee, size) = (committee_of(votes), votes.len());
        let context = Context::new(&committee);
        let start: Vec<_> = committee.indices().map(|lane| context.start(lane)).collect();
        let mut net = Self {
            verifier: AutobahnVerifier::new(config.clone(), committee.clone(), Arc::new(FakeSignatures)),
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
            net.act(node, |lanes, now| lanes.open_own_lane(now));
        }
        net
    }

    pub fn start(&self, node: usize, executed: Vec<Tip>, records: Vec<Recovered>) -> Lanes {
        Lanes::new(Setup {
            config: self.config.clone(),
            committee: self.committee.clone(),
            signer: Some(Arc::new(FakeKeys(index(node)))),
            signatures: Arc::new(FakeSignatures),
            executed,
            records,
        })
    }

    /// Powers a node off and on; its writes survive.
    pub fn restart(&mut self, node: usize) {
        let executed = self.committee.indices().map(|lane| self.nodes[node].executed(lane)).collect();
        let records = self.writes[node].iter().map(|write| match write {
            Write::Own(car) | Write::Voted(car) => Recovered::Car { car: car.clone(), voted: true },
            Write::Kept(car) => Recovered::Car { car: car.clone(), voted: false },
            Write::Vote(tip) => Recovered::Vote(*tip),
        });
        let records = records.collect();
        self.asking.retain(|asking| *asking != node);
        self.nodes[node] = self.start(node, executed, records);
        self.act(node, |lanes, now| lanes.open_own_lane(now));
    }

    pub fn act(&mut self, node: usize, action: impl FnOnce(&mut Lanes, TimestampMs)) {
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
                Effect::CarResent(tip) => {
                    let response = self.nodes[node].response_to_resent(&tip);
                    response.into_iter().for_each(|message| self.send(node, tip.lane.as_usize(), message));
                }
                Effect::WantBatch => self.asking.push(node),
                Effect::Requeue(batch) => self.requeued.push(batch),
                Effect::Accuse(validator, _) => self.accused.push((node, validator)),
                Effect::Built(_) | Effect::Accepted(_) | Effect::Certified { .. } => {}
            }
        }
    }

    /// All nodes are correct, and the verifier must accept all their messages.
    pub fn send(&mut self, from: usize, to: usize, message: Message) {
        let fault = self.verifier.verify(index(from), &message.encode()).err();
        assert!(fault.is_none(), "{fault:?} in what {from} sends: {message:?}");
        self.sent.push((from, to, message.clone()));
        self.queue.push_back((from, to, message));
    }

    /// Delivers all messages in transit.
    pub fn run(&mut self) {
        while let Some((from, to, message)) = self.queue.pop_front() {
            if !self.deaf.contains(&to) && !self.deaf.contains(&from) {
                self.deliver(from, to, message);
            }
        }
    }

    pub fn deliver(&mut self, from: usize, to: usize, message: Message) {
        let context = Context::new(&self.committee);
        let bytes = self.config.fetch_bytes as usize;
        let named = |car: SignedCar| Arc::new(HashedCar::trusted(car, &context));
        if let Message::FetchCars { tip, above } = message {
            let cars = self.nodes[to].serve(&tip, above, bytes).iter().map(|car| car.signed().clone()).collect();
            return self.send(to, from, Message::Cars { tip, cars });
        }
        self.act(to, |lanes, now| match message {
            Message::Car(car) => lanes.handle_car(now, &named(car)),
            Message::CarVote { tip, share } => lanes.handle_vote(now, index(from), tip, share),
            Message::Available(certificate) => lanes.learn(&certificate),
            Message::Cars { tip, cars } => {
                let cars: Vec<_> = cars.into_iter().map(named).collect();
                lanes.handle_cars(now, index(from), tip, &cars);
            }
            other => panic!("{other:?} is no message of lanes"),
        });
    }

    /// Passes a batch to a node that requested one.
    pub fn batch(&mut self, node: usize, text: &str) -> bool {
        let Some(place) = self.asking.iter().position(|asking| *asking == node) else { return false };
        self.asking.remove(place);
        let bytes = text.as_bytes().to_vec().into();
        self.act(node, |lanes, now| lanes.handle_batch(now, Batch { bytes }));
        true
    }

    pub fn later(&mut self, ms: u64) {
        self.now = TimestampMs(self.now.0 + ms);
        for node in 0..self.nodes.len() {
            while self.nodes[node].deadline().is_some_and(|at| at <= self.now) {
                self.act(node, Lanes::tick);
            }
        }
    }

    pub fn execute(&mut self, node: usize, tip: Tip) {
        assert!(self.nodes[node].chain(&tip).is_some(), "{tip:?} is held with its history");
        self.act(node, |lanes, _| lanes.execute(&[tip]));
    }

    /// A car of the owner, which may sign anything.
    pub fn car(&self, parent: Tip, text: &str, certificate: Option<Availability>) -> Arc<HashedCar> {
        let context = Context::new(&self.committee);
        let batch = text.as_bytes().to_vec().into();
        let car = Car { lane: parent.lane, position: parent.position.next(), parent: parent.digest, batch };
        let signature = FakeKeys(parent.lane).sign_digest(&context.car(&car));
        Arc::new(HashedCar::trusted(SignedCar { car, signature, certificate }, &context))
    }

    pub fn certificate(&self, tip: Tip, signers: &[usize]) -> Availability {
        let digest = Context::new(&self.committee).statement(&Statement::CarVote(tip));
        let shares: Vec<_> =
            signers.iter().map(|signer| (index(*signer), FakeKeys(index(*signer)).share_digest(&digest))).collect();
        let seal = FakeSignatures.combine(&shares).unwrap();
        Availability { tip, proof: Proof { signers: shares.into_iter().map(|(signer, _)| signer).collect(), seal } }
    }

    /// A certified chain of this length; the last car is uncertified.
    pub fn chain(&self, length: usize, text: &str, signers: &[usize]) -> Vec<Arc<HashedCar>> {
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

    pub fn take(&mut self, node: usize, car: &Arc<HashedCar>) {
        let car = car.clone();
        self.act(node, |lanes, now| lanes.handle_car(now, &car));
    }

    /// Positions that this node voted for in the owner's lane, in sending order.
    pub fn votes(&self, node: usize) -> Vec<u64> {
        let vote = |(from, _, message): &(usize, usize, Message)| match message {
            Message::CarVote { tip, .. } if *from == node && tip.lane == OWNER => Some(tip.position.0),
            _ => None,
        };
        self.sent.iter().filter_map(vote).collect()
    }

    pub fn count(&self, wanted: impl Fn(&Message) -> bool) -> usize {
        self.sent.iter().filter(|(_, _, message)| wanted(message)).count()
    }

    pub fn certified(&self, node: usize) -> u64 {
        self.nodes[node].positions(OWNER)[1].0
    }
}

pub fn index(node: usize) -> ValidatorIndex {
    ValidatorIndex(u16::try_from(node).unwrap())
}
