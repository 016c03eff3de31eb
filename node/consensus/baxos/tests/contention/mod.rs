//! Proposers with own values on links with random delays. Without P10, so that every value needs two round trips.

use corniche_baxos::{
    message::{Promise, Try, Value},
    rules::{Acceptor, Backoff, Proposer, Verdict, next_try},
};
use corniche_engine::Committee;
use corniche_testkit::Random;
use corniche_types::{TimestampMs, ValidatorIndex};
use std::collections::BTreeMap;

/// RTT_max, in ticks.
pub const ROUND_TRIP: u64 = 2_000;
/// A phase ends after this time.
const PHASE: u64 = ROUND_TRIP + 200;

#[derive(Clone)]
enum Event {
    Prepare(Try),
    Promise(Promise),
    Propose(Try, Value),
    Accept(Try),
    Refuse(Try),
    Decide(Value),
    /// A phase or a back-off of the proposer itself ends.
    Timer,
    /// The proposer itself has another value.
    Arrival,
}

struct Contender {
    slot: u64,
    proposer: Option<Proposer>,
    backoff: Backoff,
    /// Number of own values that are not decided.
    waiting: u64,
    backs_off: bool,
    /// The newest timer: earlier ones do not count.
    timer: u64,
}

pub struct Contention {
    committee: Committee,
    now: u64,
    /// By time and number: slot, sender, receiver.
    queue: BTreeMap<(u64, u64), (u64, usize, usize, Event)>,
    sent: u64,
    acceptors: BTreeMap<(u64, usize), Acceptor>,
    contenders: Vec<Contender>,
    random: Random,
    pub unit: u64,
    /// Ablation of P7.
    pub resets: bool,
    /// All tries.
    pub tries: u64,
    /// Proposers of the decided slots.
    pub winners: Vec<usize>,
    /// Mean time between two values of one proposer. `None`: each has one value.
    interval: Option<u64>,
}

impl Contention {
    pub fn new(size: usize, interval: Option<u64>, seed: u64) -> Self {
        let contender =
            || Contender { slot: 0, proposer: None, backoff: Backoff::new(10), waiting: 0, backs_off: false, timer: 0 };
        let mut contention = Self {
            committee: corniche_baxos_testing::committee(size),
            now: 0,
            queue: BTreeMap::new(),
            sent: 0,
            acceptors: BTreeMap::new(),
            contenders: (0..size).map(|_| contender()).collect(),
            random: Random::new(seed),
            unit: ROUND_TRIP,
            resets: false,
            tries: 0,
            winners: Vec::new(),
            interval,
        };
        (0..size).for_each(|member| contention.arrive(member));
        contention
    }

    /// Until so many slots are decided.
    pub fn run(&mut self, slots: usize) {
        while self.winners.len() < slots {
            let ((now, number), (slot, from, to, event)) = self.queue.pop_first().expect("proposers have timers");
            assert!(now < 100_000 * slots as u64, "no decisions");
            self.now = now;
            self.handle(number, slot, from, to, event);
        }
    }

    fn push(&mut self, delay: u64, slot: u64, from: usize, to: usize, event: Event) -> u64 {
        self.sent += 1;
        self.queue.insert((self.now + delay, self.sent), (slot, from, to, event));
        self.sent
    }

    fn send(&mut self, slot: u64, from: usize, to: usize, event: Event) {
        let delay = if from == to { 0 } else { self.random.between(ROUND_TRIP / 4, ROUND_TRIP / 2) };
        self.push(delay, slot, from, to, event);
    }

    fn broadcast(&mut self, slot: u64, from: usize, event: &Event) {
        (0..self.contenders.len()).for_each(|to| self.send(slot, from, to, event.clone()));
    }

    fn set_timer(&mut self, member: usize, delay: u64) {
        let slot = self.contenders[member].slot;
        self.contenders[member].timer = self.push(delay, slot, member, member, Event::Timer);
    }

    fn arrive(&mut self, member: usize) {
        if let Some(interval) = self.interval {
            let uniform = (self.random.below(1 << 32) + 1) as f64 / (1u64 << 32) as f64;
            let delay = (-uniform.ln() * interval as f64) as u64;
            self.push(delay, 0, member, member, Event::Arrival);
        }
        self.contenders[member].waiting += 1;
        self.begin_if_needed(member);
    }

    fn begin_if_needed(&mut self, member: usize) {
        let contender = &self.contenders[member];
        if contender.proposer.is_none() && !contender.backs_off && contender.waiting > 0 {
            self.begin(member);
        }
    }

    /// P1.
    fn begin(&mut self, member: usize) {
        let slot = self.contenders[member].slot;
        let me = ValidatorIndex(u16::try_from(member).unwrap());
        let attempt = next_try(me, self.acceptors.entry((slot, member)).or_default().promised, 0);
        self.contenders[member].proposer = Some(Proposer::new(attempt));
        self.tries += 1;
        self.broadcast(slot, member, &Event::Prepare(attempt));
        self.set_timer(member, PHASE);
    }

    /// P5, P6.
    fn back_off(&mut self, member: usize) {
        let (unit, draw) = (self.unit, self.random.draw());
        let contender = &mut self.contenders[member];
        contender.proposer = None;
        contender.backs_off = true;
        contender.backoff.failed();
        let delay = contender.backoff.delay_ms(unit, draw);
        self.set_timer(member, delay);
    }

    fn handle(&mut self, number: u64, slot: u64, from: usize, to: usize, event: Event) {
        let sender = ValidatorIndex(u16::try_from(from).unwrap());
        let is_current = self.contenders[to].slot == slot;
        match event {
            Event::Prepare(attempt) => {
                let answer = match self.acceptors.entry((slot, to)).or_default().prepare(attempt) {
                    Some(promise) => Event::Promise(promise),
                    None => Event::Refuse(attempt),
                };
                self.send(slot, to, from, answer);
            }
            Event::Propose(attempt, value) => {
                let accepts = self.acceptors.entry((slot, to)).or_default().propose(attempt, value);
                self.send(slot, to, from, if accepts { Event::Accept(attempt) } else { Event::Refuse(attempt) });
            }
            Event::Promise(promise) if is_current => {
                let Some(proposer) = &mut self.contenders[to].proposer else { return };
                if proposer.promised(sender, promise, &self.committee) == Verdict::Promised {
                    let own = ValidatorIndex(u16::try_from(to).unwrap());
                    let value = proposer.choose(Value { proposer: own, time: TimestampMs(0), tips: Vec::new() });
                    let attempt = proposer.attempt();
                    self.broadcast(slot, to, &Event::Propose(attempt, value));
                    self.set_timer(to, PHASE);
                }
            }
            Event::Accept(attempt) if is_current => {
                let Some(proposer) = &mut self.contenders[to].proposer else { return };
                if let Verdict::Decided(value) = proposer.accepted(sender, attempt, &self.committee) {
                    let backoff = &mut self.contenders[to].backoff;
                    backoff.succeeded();
                    while self.resets && backoff.exponent() > 0 {
                        backoff.succeeded();
                    }
                    self.broadcast(slot, to, &Event::Decide(value));
                }
            }
            Event::Refuse(attempt) if is_current => {
                let Some(proposer) = &mut self.contenders[to].proposer else { return };
                if proposer.refused(sender, attempt, &self.committee) == Verdict::Refused {
                    self.back_off(to);
                }
            }
            Event::Decide(value) => {
                if slot as usize == self.winners.len() {
                    self.winners.push(value.proposer.as_usize());
                }
                assert_eq!(self.winners[slot as usize], value.proposer.as_usize(), "a slot has one value");
                let contender = &mut self.contenders[to];
                if contender.slot <= slot && value.proposer.as_usize() == to {
                    // A value that lost may win later, too, when others adopt it.
                    contender.waiting = contender.waiting.saturating_sub(1);
                }
                contender.slot = contender.slot.max(slot + 1);
                if is_current {
                    contender.proposer = None;
                }
                // P4: own values go on in the next slot. Back-off goes on, too.
                self.begin_if_needed(to);
            }
            Event::Timer if self.contenders[to].timer == number => {
                if self.contenders[to].proposer.is_some() {
                    self.back_off(to);
                } else {
                    self.contenders[to].backs_off = false;
                    self.begin_if_needed(to);
                }
            }
            Event::Arrival => self.arrive(to),
            _ => {}
        }
    }
}
