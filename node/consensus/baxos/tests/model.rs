//! All runs of one slot with three acceptors and two proposers with two tries each. Messages come in any order, or never.
//!
//! An acceptor may get a message at any time after it was sent. An answer arrives at once or never: a later arrival only lets the
//! proposer go on later, and its next messages may be late anyway. A second copy of a message changes nothing. So the model has all
//! reachable states of the acceptors.

use corniche_baxos::{
    message::{Accepted, Try, Value},
    rules::{Acceptor, Proposer, Verdict, next_try},
};
use corniche_baxos_testing::committee;
use corniche_engine::Committee;
use corniche_types::{TimestampMs, ValidatorIndex};
use std::collections::BTreeSet;

const ACCEPTORS: usize = 3;
const PROPOSERS: usize = 2;
const TRIES: usize = 2;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    acceptors: [Acceptor; ACCEPTORS],
    proposers: [Option<Proposer>; PROPOSERS],
    /// Number of tries that each proposer began.
    begun: [usize; PROPOSERS],
    /// All sent messages of the tries: PREPARE without a value, PROPOSE with one.
    sent: BTreeSet<(Try, Option<Value>)>,
    /// Acceptors of each try.
    accepted: BTreeSet<(Try, Value, usize)>,
}

type Propose = fn(&mut Acceptor, Try, Value) -> bool;

struct Model {
    committee: Committee,
    propose: Propose,
    seen: BTreeSet<State>,
    open: Vec<State>,
    decided: usize,
    forks: usize,
}

fn index(member: usize) -> ValidatorIndex {
    ValidatorIndex(u16::try_from(member).unwrap())
}

impl Model {
    fn explore(propose: Propose) -> Self {
        let start = State {
            acceptors: Default::default(),
            proposers: Default::default(),
            begun: [0; PROPOSERS],
            sent: BTreeSet::new(),
            accepted: BTreeSet::new(),
        };
        let committee = committee(ACCEPTORS);
        let mut model = Self { committee, propose, seen: BTreeSet::new(), open: vec![start], decided: 0, forks: 0 };
        while let Some(state) = model.open.pop().filter(|_| model.forks == 0) {
            model.follow(&state);
        }
        model
    }

    fn add(&mut self, state: State) {
        if !self.seen.contains(&state) {
            match self.chosen(&state) {
                0 => {}
                1 => self.decided += 1,
                _ => self.forks += 1,
            }
            self.seen.insert(state.clone());
            self.open.push(state);
        }
    }

    /// Number of values that a quorum accepted in one try.
    fn chosen(&self, state: &State) -> usize {
        let tries: BTreeSet<(Try, &Value)> = state.accepted.iter().map(|(attempt, value, _)| (*attempt, value)).collect();
        let is_chosen = |attempt: Try| {
            let acceptors = state.accepted.iter().filter(|(of, ..)| *of == attempt).map(|(.., acceptor)| index(*acceptor));
            self.committee.weigh(acceptors) >= self.committee.quorum()
        };
        let values = tries.into_iter().filter(|(attempt, _)| is_chosen(*attempt)).map(|(_, value)| value);
        values.collect::<BTreeSet<_>>().len()
    }

    fn follow(&mut self, state: &State) {
        for proposer in 0..PROPOSERS {
            if state.begun[proposer] < TRIES {
                self.begin(state, proposer);
            }
        }
        for (attempt, value) in &state.sent {
            for acceptor in 0..ACCEPTORS {
                match value {
                    None => self.prepare(state, *attempt, acceptor),
                    Some(value) => self.accept(state, *attempt, value, acceptor),
                }
            }
        }
    }

    /// P1, P5: a proposer may give up at any time.
    fn begin(&mut self, state: &State, proposer: usize) {
        let mut next = state.clone();
        let before = state.proposers[proposer].as_ref().map_or(0, |proposer| proposer.attempt().counter);
        let attempt = next_try(index(proposer), None, before);
        next.begun[proposer] += 1;
        next.proposers[proposer] = Some(Proposer::new(attempt));
        next.sent.insert((attempt, None));
        self.add(next);
    }

    /// A1, P2.
    fn prepare(&mut self, state: &State, attempt: Try, acceptor: usize) {
        let mut lost = state.clone();
        let Some(promise) = lost.acceptors[acceptor].prepare(attempt) else { return };
        let mut next = lost.clone();
        self.add(lost);
        let member = attempt.proposer.as_usize();
        let Some(proposer) = &mut next.proposers[member] else { return };
        if proposer.promised(index(acceptor), promise, &self.committee) == Verdict::Promised {
            let own = Value { proposer: attempt.proposer, time: TimestampMs(0), tips: Vec::new() };
            let value = proposer.choose(own);
            next.sent.insert((attempt, Some(value)));
        }
        self.add(next);
    }

    /// A2.
    fn accept(&mut self, state: &State, attempt: Try, value: &Value, acceptor: usize) {
        let mut next = state.clone();
        if (self.propose)(&mut next.acceptors[acceptor], attempt, value.clone()) {
            next.accepted.insert((attempt, value.clone(), acceptor));
            self.add(next);
        }
    }
}

/// M1, A2: no run chooses two values.
#[test]
fn no_run_chooses_two_values() {
    let model = Model::explore(Acceptor::propose);
    assert_eq!(model.forks, 0);
    assert!(model.seen.len() > 200_000 && model.decided > 100_000, "{} states, {} decided", model.seen.len(), model.decided);
}

/// X1: with the rule as the thesis prints it, some runs choose two values.
#[test]
fn printed_rule_chooses_two_values() {
    let propose = |acceptor: &mut Acceptor, attempt: Try, value: Value| {
        let allowed = acceptor.allows(attempt);
        if allowed {
            acceptor.accepted = Some(Accepted { attempt, value });
        }
        allowed
    };
    assert!(Model::explore(propose).forks > 0);
}
