//! Every schedule of one slot, exhaustively: the pure rules of three recorders and a few proposers, with few priorities and rounds.
//!
//! A request is recorded at any time after it was sent, or never. Its answer is that of the recorder at any time afterwards,
//! because requests are sent again. A crashed proposer may start again with its value (X2). Nothing has to happen: a message
//! that never arrives is lost, and a recorder that does nothing has crashed. So each state covers these faults, too.
//!
//! Equal states are merged, and these reductions leave out no decision:
//!
//! - Priorities are drawn when a request is recorded. Nobody sees them before.
//! - A recorder records requests only right before somebody reads its answer.
//! - A request that cannot change its recorder counts as recorded. Parts of registers that no proposer will read do not count.
//! - Names of recorders do not count.

use corniche_engine::Committee;
use corniche_quepaxa::{
    message::{Answer, Proposal, Step, Value},
    rules::{Proposer, Register, Verdict},
};
use corniche_quepaxa_testing::committee;
use corniche_types::{TimestampMs, ValidatorIndex, wire};
use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
    rc::Rc,
};

/// Two of three recorders are a quorum.
const RECORDERS: usize = 3;
const MAX_PROPOSERS: usize = 3;

/// Number of a register or of a proposer in [`Model`]. States consist of numbers, so that millions of them are possible.
type Number = u16;

#[derive(Clone)]
struct State {
    recorders: [Recorder; RECORDERS],
    proposers: [Member; MAX_PROPOSERS],
}

#[derive(Clone, Copy, Default)]
struct Member {
    /// `None` after its decision or its last step.
    rules: Option<Number>,
    /// Number of times that it may still crash and start again.
    restarts: u8,
    decided: Option<u16>,
}

#[derive(Clone, Default)]
struct Recorder {
    register: Number,
    /// One for each proposer.
    links: [Link; MAX_PROPOSERS],
}

/// Requests of one proposer to one recorder.
#[derive(Clone, Default)]
struct Link {
    /// Those of earlier steps that are still on their way.
    late: Vec<Number>,
    current: Request,
}

/// The request of the proposer's step.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
enum Request {
    Sent,
    #[default]
    Recorded,
    /// By this register.
    Answered(Number),
}

/// End of a proposer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Wait,
    Next(Number),
    Decided(u16),
}

struct Known {
    register: Register,
    answer: Option<Answer>,
    /// F_c, A_c, A_p.
    parts: [Option<u64>; 3],
}

struct Model {
    proposers: u16,
    leaders: Vec<u16>,
    /// Every draw is one of these.
    priorities: Vec<u128>,
    /// Proposers stop after this step.
    last_step: Step,
    /// Number of times that proposer 0 may start again.
    restarts: u8,
    committee: Committee,
    registers: Vec<Known>,
    rules: Vec<Proposer>,
    numbers: BTreeMap<Vec<u8>, Number>,
    recorded: BTreeMap<(Number, Number), Rc<[Number]>>,
    outcomes: BTreeMap<(Number, Vec<Number>), Rc<[Outcome]>>,
}

/// Proposers, whose steps decide what they will read.
struct Readers {
    steps: Vec<Step>,
    may_restart: bool,
}

impl Model {
    fn new(proposers: u16, leaders: &[u16], last_step: Step) -> Self {
        Self {
            proposers,
            leaders: leaders.to_vec(),
            priorities: vec![1, 2],
            last_step,
            restarts: 0,
            committee: committee(RECORDERS),
            registers: Vec::new(),
            rules: Vec::new(),
            numbers: BTreeMap::new(),
            recorded: BTreeMap::new(),
            outcomes: BTreeMap::new(),
        }
    }

    /// Number of states, or two values that were decided.
    fn explore(mut self) -> Result<usize, [u16; 2]> {
        let register = self.register(Register::default());
        let recorder = Recorder { register, ..Recorder::default() };
        let mut start = State { recorders: [(); RECORDERS].map(|()| recorder.clone()), proposers: Default::default() };
        start.proposers[0].restarts = self.restarts;
        for member in 0..self.proposers {
            let rules = self.start_of(member);
            self.send(&mut start, member.into(), Some(rules));
        }
        let mut seen = BTreeSet::from([self.fingerprint(&start)]);
        let mut open = vec![start];
        while let Some(state) = open.pop() {
            for after in self.successors(&state) {
                if seen.insert(self.fingerprint(&after)) {
                    self.check(&after)?;
                    open.push(after);
                }
            }
        }
        Ok(seen.len())
    }

    /// Agreement and validity.
    fn check(&self, state: &State) -> Result<(), [u16; 2]> {
        let mut decided = state.proposers.iter().filter_map(|member| member.decided);
        let Some(first) = decided.next() else { return Ok(()) };
        assert!(first < self.proposers, "nobody proposed {first}");
        decided.find(|other| *other != first).map_or(Ok(()), |other| Err([first, other]))
    }

    fn successors(&mut self, state: &State) -> Vec<State> {
        let mut found = Vec::new();
        for (at, recorder) in state.recorders.iter().enumerate() {
            for variant in self.variants(recorder, &state.proposers) {
                for (member, proposer) in state.proposers.iter().enumerate() {
                    if proposer.rules.is_some() && variant.links[member].current == Request::Recorded {
                        let mut after = state.clone();
                        after.recorders[at] = variant.clone();
                        self.answer(after, member, at, &mut found);
                    }
                }
            }
        }
        for (member, proposer) in (0..).zip(&state.proposers) {
            if proposer.rules.is_some() && proposer.restarts > 0 {
                let mut after = state.clone();
                after.proposers[usize::from(member)].restarts -= 1;
                let rules = self.start_of(member);
                self.send(&mut after, member.into(), Some(rules));
                found.push(after);
            }
        }
        found
    }

    /// The recorder after any of the requests to it, in any order.
    fn variants(&mut self, recorder: &Recorder, proposers: &[Member]) -> Vec<Recorder> {
        let readers = self.readers(proposers);
        let mut seen = BTreeSet::from([self.fingerprint_of(recorder, proposers, &readers)]);
        let mut found = vec![recorder.clone()];
        let mut next = 0;
        while let Some(recorder) = found.get(next).cloned() {
            for (member, link) in recorder.links.iter().enumerate() {
                let current = (link.current == Request::Sent).then_some(None);
                for late in (0..link.late.len()).map(Some).chain(current) {
                    let recorded = self.record(&recorder, proposers, member, late);
                    found.extend(
                        recorded.into_iter().filter(|after| seen.insert(self.fingerprint_of(after, proposers, &readers))),
                    );
                }
            }
            next += 1;
        }
        found
    }

    /// The recorder after a request of a proposer, the current one or a late one, with each priority that it may have.
    fn record(&mut self, recorder: &Recorder, proposers: &[Member], member: usize, late: Option<usize>) -> Vec<Recorder> {
        let mut sent = recorder.clone();
        let link = &mut sent.links[member];
        let rules = match late {
            Some(at) => link.late.remove(at),
            None => {
                link.current = Request::Recorded;
                proposers[member].rules.unwrap()
            }
        };
        let registers = self.recorded(recorder.register, rules);
        let recorded = registers.iter().map(|register| {
            let mut after = Recorder { register: *register, links: sent.links.clone() };
            self.skip_requests_without_effect(&mut after, proposers);
            after
        });
        recorded.collect()
    }

    /// A proposer counts an answer.
    fn answer(&mut self, mut state: State, member: usize, recorder: usize, found: &mut Vec<State>) {
        let recorder = &mut state.recorders[recorder];
        recorder.links[member].current = Request::Answered(recorder.register);
        let answered = |recorder: &Recorder| match recorder.links[member].current {
            Request::Answered(register) => Some(register),
            _ => None,
        };
        let answers: Vec<_> = state.recorders.iter().filter_map(answered).collect();
        for outcome in self.outcomes(state.proposers[member].rules.unwrap(), answers).iter() {
            let mut after = state.clone();
            match *outcome {
                Outcome::Wait => {}
                Outcome::Next(rules) => self.send(&mut after, member, Some(rules)),
                Outcome::Decided(value) => {
                    after.proposers[member].decided = Some(value);
                    self.send(&mut after, member, None);
                }
            }
            found.push(after);
        }
    }

    /// The proposer sends the requests of its next step, if there is one.
    fn send(&mut self, state: &mut State, member: usize, rules: Option<Number>) {
        let rules = rules.filter(|rules| self.rules[usize::from(*rules)].step() <= self.last_step);
        let before = std::mem::replace(&mut state.proposers[member].rules, rules);
        for recorder in &mut state.recorders {
            let link = &mut recorder.links[member];
            if link.current == Request::Sent {
                link.late.extend(before);
            }
            link.current = if rules.is_some() { Request::Sent } else { Request::Recorded };
            self.skip_requests_without_effect(recorder, &state.proposers);
        }
    }

    fn skip_requests_without_effect(&mut self, recorder: &mut Recorder, proposers: &[Member]) {
        let Recorder { register, links } = recorder;
        let readers = self.readers(proposers);
        let before = self.read(*register, &readers);
        let mut has_effect = |rules: Number| {
            let recorded = self.recorded(*register, rules);
            recorded.iter().any(|after| self.read(*after, &readers) != before)
        };
        for (link, member) in links.iter_mut().zip(proposers) {
            link.late.retain(|rules| has_effect(*rules));
            if link.current == Request::Sent && !has_effect(member.rules.unwrap()) {
                link.current = Request::Recorded;
            }
        }
    }
}

/// The rules, of which each result is computed once.
impl Model {
    fn start_of(&mut self, member: u16) -> Number {
        self.proposer(Proposer::new(ValidatorIndex(member), self.leaders.contains(&member), value(member)))
    }

    fn proposer(&mut self, rules: Proposer) -> Number {
        let content = wire::encode(&(true, rules.step(), rules.proposal()));
        *self.numbers.entry(content).or_insert_with(|| {
            self.rules.push(rules);
            Number::try_from(self.rules.len() - 1).unwrap()
        })
    }

    fn register(&mut self, register: Register) -> Number {
        *self.numbers.entry(wire::encode(&(false, &register))).or_insert_with(|| {
            let answer = register.answer();
            // A_c is A_p in the next step.
            let mut next = register.clone();
            next.record(register.step() + 1, Proposal { priority: 0, proposer: ValidatorIndex(0), value: value(0) });
            let highest = next.answer().and_then(|answer| answer.highest_before);
            let before = answer.as_ref().and_then(|answer| answer.highest_before.as_ref());
            let parts = [register.first(), highest.as_ref(), before].map(|proposal| proposal.map(code));
            self.registers.push(Known { register, answer, parts });
            Number::try_from(self.registers.len() - 1).unwrap()
        })
    }

    /// The register after a request, with each priority that it may have.
    fn recorded(&mut self, register: Number, rules: Number) -> Rc<[Number]> {
        if let Some(known) = self.recorded.get(&(register, rules)) {
            return known.clone();
        }
        let sender = self.rules[usize::from(rules)].clone();
        let proposals: Vec<_> = self.priorities.iter().map(|priority| sender.proposal_for(|| *priority)).collect();
        let mut found: Vec<_> = proposals
            .into_iter()
            .map(|proposal| {
                let mut after = self.registers[usize::from(register)].register.clone();
                after.record(sender.step(), proposal);
                self.register(after)
            })
            .collect();
        found.dedup();
        self.recorded.entry((register, rules)).or_insert(found.into()).clone()
    }

    /// A proposer may prefer a recorder by its name. Names do not count, so each order is tried.
    fn outcomes(&mut self, rules: Number, answers: Vec<Number>) -> Rc<[Outcome]> {
        let key = (rules, answers);
        if let Some(known) = self.outcomes.get(&key) {
            return known.clone();
        }
        let mut found = Vec::new();
        for first in 0..key.1.len() {
            let mut proposer = self.rules[usize::from(rules)].clone();
            let mut verdict = Verdict::Wait;
            for name in 0..key.1.len() {
                let answer = &self.registers[usize::from(key.1[(first + name) % key.1.len()])].answer;
                verdict = proposer.answered(ValidatorIndex(name as u16), answer.clone().unwrap(), &self.committee);
            }
            let outcome = match verdict {
                Verdict::Wait => Outcome::Wait,
                Verdict::Next => Outcome::Next(self.proposer(proposer)),
                Verdict::Decided(value) => Outcome::Decided(u16::try_from(value.time.0).unwrap()),
            };
            if !found.contains(&outcome) {
                found.push(outcome);
            }
        }
        self.outcomes.entry(key).or_insert(found.into()).clone()
    }
}

/// Comparison of states.
impl Model {
    fn readers(&self, proposers: &[Member]) -> Readers {
        let active = proposers.iter().filter(|member| member.rules.is_some());
        let may_restart = active.clone().any(|member| member.restarts > 0);
        let steps = active.filter_map(|member| Some(self.rules[usize::from(member.rules?)].step()));
        Readers { steps: steps.collect(), may_restart }
    }

    /// The part of a register that proposers may read: F_c in phase 0 and in earlier steps; A_p in phases 2 and 3; and A_c in the
    /// phases before these.
    fn read(&self, register: Number, readers: &Readers) -> (Step, [Option<u64>; 3]) {
        let Known { register, parts: [first, highest, before], .. } = &self.registers[usize::from(register)];
        let (step, phase) = (register.step(), register.step() % 4);
        let is_read = |reads: &dyn Fn(Step) -> bool| readers.may_restart || readers.steps.iter().any(|at| reads(*at));
        let first = first.filter(|_| is_read(&|at| at < step || at == step && phase == 0));
        let before = before.filter(|_| phase >= 2 && is_read(&|at| at <= step));
        (step, [first, highest.filter(|_| [1, 2].contains(&phase)), before])
    }

    fn fingerprint(&self, state: &State) -> u64 {
        let readers = self.readers(&state.proposers);
        let mut recorders =
            state.recorders.each_ref().map(|recorder| self.fingerprint_of(recorder, &state.proposers, &readers));
        recorders.sort_unstable();
        let mut hasher = DefaultHasher::new();
        recorders.hash(&mut hasher);
        state.proposers.iter().for_each(|member| (member.rules, member.restarts, member.decided).hash(&mut hasher));
        hasher.finish()
    }

    fn fingerprint_of(&self, recorder: &Recorder, proposers: &[Member], readers: &Readers) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.read(recorder.register, readers).hash(&mut hasher);
        for (Link { late, current }, member) in recorder.links.iter().zip(proposers) {
            late.hash(&mut hasher);
            match (*current, member.rules) {
                (Request::Answered(register), Some(rules)) => {
                    let Known { register, parts: [first, _, before], .. } = &self.registers[usize::from(register)];
                    let (step, phase) = (register.step(), register.step() % 4);
                    let is_ahead = step > self.rules[usize::from(rules)].step();
                    let first = first.filter(|_| is_ahead || phase == 0);
                    (step, first, before.filter(|_| !is_ahead && phase >= 2)).hash(&mut hasher);
                }
                _ => current.hash(&mut hasher),
            }
        }
        hasher.finish()
    }
}

/// Distinguishes the proposals of this model.
fn code(proposal: &Proposal) -> u64 {
    let priority = u64::try_from(proposal.priority.min(1 << 16)).unwrap();
    priority << 40 | u64::from(proposal.proposer.0) << 20 | proposal.value.time.0
}

fn value(member: u16) -> Value {
    Value { time: TimestampMs(member.into()), tips: Vec::new(), schedule: Vec::new() }
}

fn assert_agreement(model: Model) {
    let states = model.explore().unwrap_or_else(|[one, other]| panic!("the values of {one} and {other} were decided"));
    assert!(states > 10_000, "only {states} states");
}

/// Two proposers, with a leader and without, in one round.
#[test]
fn one_round_has_one_decision() {
    assert_agreement(Model::new(2, &[0], 7));
    assert_agreement(Model::new(2, &[], 7));
}

/// A value that was decided in round 1 is the only one in round 2. Equal draws leave it to the order of proposers.
#[test]
fn two_rounds_have_one_decision() {
    assert_agreement(Model { priorities: vec![1], ..Model::new(2, &[0], 10) });
}

/// X2: a proposer that starts again proposes the same value.
#[test]
fn restarted_proposer_agrees_with_itself() {
    assert_agreement(Model { priorities: vec![1], restarts: 1, ..Model::new(2, &[0], 6) });
}

/// X1: the model finds the disagreement of two proposers that believe to lead one slot.
#[test]
fn two_leaders_disagree() {
    assert!(Model::new(2, &[0, 1], 6).explore().is_err());
}

/// More draws, rounds, restarts and proposers: a minute.
#[test]
#[ignore = "a minute; for soak runs"]
fn larger_slots_have_one_decision() {
    let one = || vec![1];
    assert_agreement(Model::new(2, &[0], 10));
    assert_agreement(Model { priorities: one(), ..Model::new(2, &[], 11) });
    assert_agreement(Model { priorities: vec![1, 2, 3], ..Model::new(2, &[], 7) });
    assert_agreement(Model { restarts: 1, ..Model::new(2, &[0], 7) });
    assert_agreement(Model { priorities: one(), restarts: 2, ..Model::new(2, &[0], 6) });
    assert_agreement(Model { priorities: one(), ..Model::new(3, &[0], 6) });
}
