//! The rules of one slot under an adversary that schedules everything, and the numbers of back-off.

mod contention;

use contention::Contention;
use corniche_baxos::{
    message::{Accepted, Promise, Try, Value},
    rules::{Acceptor, Backoff, Proposer, Verdict, Wait, next_try},
};
use corniche_baxos_testing::{committee, weighted_committee};
use corniche_engine::Committee;
use corniche_testkit::Random;
use corniche_types::{TimestampMs, ValidatorIndex};
use std::collections::BTreeMap;

fn index(member: usize) -> ValidatorIndex {
    ValidatorIndex(u16::try_from(member).unwrap())
}

fn value(member: usize) -> Value {
    Value { proposer: index(member), time: TimestampMs(0), tips: Vec::new() }
}

fn attempt(counter: u64, member: usize) -> Try {
    Try { counter, proposer: index(member) }
}

/// PROPOSE as the thesis prints it: it does not raise the promise.
fn propose_as_printed(acceptor: &mut Acceptor, attempt: Try, value: Value) -> bool {
    let allowed = acceptor.allows(attempt);
    if allowed {
        acceptor.accepted = Some(Accepted { attempt, value });
    }
    allowed
}

/// A2, X1: the counterexample of our specification. Tries 3 and 5 are of validators 0 and 1, try 7 is of validator 2.
#[test]
fn late_propose_does_not_overwrite_a_chosen_value() {
    type Propose = fn(&mut Acceptor, Try, Value) -> bool;
    let run = |propose: Propose| {
        let [mut a, mut b, mut c] = [(); 3].map(|()| Acceptor::default());
        let (third, fifth, seventh) = (attempt(3, 0), attempt(5, 1), attempt(7, 2));
        for (acceptor, attempt) in [(&mut b, third), (&mut c, third)] {
            assert_eq!(acceptor.prepare(attempt).unwrap().accepted, None);
        }
        for (acceptor, attempt) in [(&mut a, fifth), (&mut b, fifth)] {
            assert_eq!(acceptor.prepare(attempt).unwrap().accepted, None);
        }
        assert!(propose(&mut a, fifth, value(1)) && propose(&mut c, fifth, value(1)), "a quorum: value 1 is chosen");
        propose(&mut c, third, value(0));
        let mut proposer = Proposer::new(seventh);
        proposer.promised(index(1), b.prepare(seventh).unwrap(), &committee(3));
        proposer.promised(index(2), c.prepare(seventh).unwrap(), &committee(3));
        proposer.choose(value(2)).proposer
    };
    assert_eq!(run(propose_as_printed), index(0), "the printed rule loses the chosen value");
    assert_eq!(run(Acceptor::propose), index(1));
}

/// One slot whose proposers try again and again, while messages arrive in any order, twice, or never.
struct Slot {
    committee: Committee,
    acceptors: Vec<Acceptor>,
    proposers: Vec<Option<Proposer>>,
    messages: Vec<(usize, usize, Sent)>,
    /// Acceptors of each try, with its value.
    accepted: BTreeMap<Try, (Value, Vec<ValidatorIndex>)>,
    random: Random,
    is_printed: bool,
}

#[derive(Clone)]
enum Sent {
    Prepare(Try),
    Promise(Promise),
    Propose(Try, Value),
    Accept(Try),
}

impl Slot {
    fn new(committee: Committee, seed: u64, is_printed: bool) -> Self {
        let size = committee.size();
        let acceptors = vec![Acceptor::default(); size];
        let (messages, accepted) = Default::default();
        Self { committee, acceptors, proposers: vec![None; size], messages, accepted, random: Random::new(seed), is_printed }
    }

    fn broadcast(&mut self, from: usize, sent: &Sent) {
        (0..self.acceptors.len()).for_each(|to| self.messages.push((from, to, sent.clone())));
    }

    fn start(&mut self, member: usize) {
        let before = self.proposers[member].as_ref().map_or(0, |proposer| proposer.attempt().counter);
        let attempt = next_try(index(member), self.acceptors[member].promised, before);
        self.proposers[member] = Some(Proposer::new(attempt));
        self.broadcast(member, &Sent::Prepare(attempt));
    }

    fn step(&mut self) {
        if self.messages.is_empty() {
            return;
        }
        let chosen = self.random.below(self.messages.len() as u64) as usize;
        let (from, to, sent) =
            if self.random.one_in(10) { self.messages[chosen].clone() } else { self.messages.swap_remove(chosen) };
        if self.random.one_in(10) {
            return;
        }
        match sent {
            Sent::Prepare(attempt) => {
                if let Some(promise) = self.acceptors[to].prepare(attempt) {
                    self.messages.push((to, from, Sent::Promise(promise)));
                }
            }
            Sent::Promise(promise) => {
                let Some(proposer) = &mut self.proposers[to] else { return };
                if proposer.promised(index(from), promise, &self.committee) == Verdict::Promised {
                    let (attempt, chosen) = (proposer.attempt(), proposer.choose(value(to)));
                    self.broadcast(to, &Sent::Propose(attempt, chosen));
                }
            }
            Sent::Propose(attempt, proposed) => {
                let acceptor = &mut self.acceptors[to];
                let propose = if self.is_printed { propose_as_printed } else { Acceptor::propose };
                if propose(acceptor, attempt, proposed.clone()) {
                    let (known, acceptors) = self.accepted.entry(attempt).or_insert((proposed.clone(), Vec::new()));
                    assert_eq!(*known, proposed, "X2: a try has one value");
                    acceptors.push(index(to));
                    self.messages.push((to, from, Sent::Accept(attempt)));
                }
            }
            Sent::Accept(attempt) => {
                let Some(proposer) = &mut self.proposers[to] else { return };
                if let Verdict::Decided(decided) = proposer.accepted(index(from), attempt, &self.committee) {
                    assert!(self.chosen().contains(&decided), "decided, but not chosen");
                }
            }
        }
    }

    /// Values that a quorum accepted in one try.
    fn chosen(&self) -> Vec<Value> {
        let mut chosen = Vec::new();
        for (value, acceptors) in self.accepted.values() {
            let is_quorum = self.committee.weigh(acceptors.iter().copied().collect::<std::collections::BTreeSet<_>>())
                >= self.committee.quorum();
            if is_quorum && !chosen.contains(value) {
                chosen.push(value.clone());
            }
        }
        chosen
    }
}

/// Number of runs with two chosen values, and with one.
fn run_slots(runs: u64, is_printed: bool) -> (usize, usize) {
    let (mut forks, mut decided) = (0, 0);
    for seed in 0..runs {
        let size = [3, 4, 5][(seed % 3) as usize];
        let committee = if seed % 2 == 0 { committee(size) } else { weighted_committee(size) };
        let mut slot = Slot::new(committee, seed, is_printed);
        for _ in 0..150 {
            if slot.random.one_in(15) {
                let member = slot.random.below(3) as usize;
                slot.start(member);
            }
            slot.step();
        }
        match slot.chosen().len() {
            0 => {}
            1 => decided += 1,
            _ => forks += 1,
        }
    }
    (forks, decided)
}

/// M1: one value for each slot, whatever the network does, with equal and unequal votes.
#[test]
fn slots_have_one_value() {
    let (forks, decided) = run_slots(20_000, false);
    assert_eq!(forks, 0);
    assert!(decided > 10_000, "{decided} of 20,000 runs decided");
    assert!(run_slots(20_000, true).0 > 0, "A2: the printed rule is not safe");
}

/// P2: the value of the highest try, not the first, nor the most frequent.
#[test]
fn highest_accepted_value_is_adopted() {
    let committee = committee(5);
    let mut proposer = Proposer::new(attempt(9, 4));
    let promise = |counter, member| Promise {
        attempt: attempt(9, 4),
        accepted: Some(Accepted { attempt: attempt(counter, member), value: value(member) }),
    };
    assert_eq!(proposer.promised(index(0), promise(2, 0), &committee), Verdict::Wait);
    assert_eq!(proposer.promised(index(1), promise(3, 1), &committee), Verdict::Wait);
    assert_eq!(proposer.promised(index(2), promise(2, 0), &committee), Verdict::Promised);
    assert_eq!(proposer.choose(value(4)), value(1));
}

/// X3: answers to other tries do not count, nor does a second answer of one acceptor.
#[test]
fn stale_and_repeated_answers_do_not_count() {
    let committee = committee(5);
    let mut proposer = Proposer::new(attempt(2, 0));
    let promise = |counter| Promise { attempt: attempt(counter, 0), accepted: None };
    for from in [1, 2, 3, 4] {
        assert_eq!(proposer.promised(index(from), promise(1), &committee), Verdict::Wait, "of an earlier try");
    }
    for _ in 0..3 {
        assert_eq!(proposer.promised(index(1), promise(2), &committee), Verdict::Wait, "one acceptor");
    }
    assert_eq!(proposer.accepted(index(1), attempt(2, 0), &committee), Verdict::Wait, "nothing was proposed");
    proposer.promised(index(2), promise(2), &committee);
    assert_eq!(proposer.promised(index(3), promise(2), &committee), Verdict::Promised);
    proposer.choose(value(0));
    for from in [1, 2, 3, 4] {
        assert_eq!(proposer.accepted(index(from), attempt(1, 0), &committee), Verdict::Wait, "of an earlier try");
        assert_eq!(proposer.refused(index(from), attempt(1, 0), &committee), Verdict::Wait, "of an earlier try");
    }
    for _ in 0..3 {
        assert_eq!(proposer.accepted(index(1), attempt(2, 0), &committee), Verdict::Wait, "one acceptor");
        assert_eq!(proposer.refused(index(4), attempt(2, 0), &committee), Verdict::Wait, "one acceptor");
    }
    proposer.accepted(index(2), attempt(2, 0), &committee);
    assert_eq!(proposer.accepted(index(3), attempt(2, 0), &committee), Verdict::Decided(value(0)));
}

/// M9: a try ends once those that did not refuse are no quorum.
#[test]
fn refusals_end_a_try_that_cannot_succeed() {
    let mut proposer = Proposer::new(attempt(1, 0));
    let committee = committee(5);
    let verdicts = [1, 2, 3].map(|from| proposer.refused(index(from), attempt(1, 0), &committee));
    assert_eq!(verdicts, [Verdict::Wait, Verdict::Wait, Verdict::Refused]);
}

/// X2: tries of two proposers differ, and the next one is above everything that the proposer saw.
#[test]
fn tries_are_unique_and_rise() {
    assert_eq!(next_try(index(1), None, 0), attempt(1, 1));
    assert_eq!(next_try(index(1), Some(attempt(4, 2)), 0), attempt(5, 1));
    assert_eq!(next_try(index(1), Some(attempt(4, 2)), 9), attempt(10, 1));
    assert!(attempt(2, 0) > attempt(1, 5) && attempt(2, 1) > attempt(2, 0));
}

/// P5–P7: l rises and falls by one, and the longest delay is 2^l · 2 · RTT_max.
#[test]
fn backoff_doubles_and_goes_back_step_by_step() {
    let mut backoff = Backoff::new(4);
    let mut longest = Vec::new();
    for _ in 0..6 {
        backoff.failed();
        longest.push(backoff.delay_ms(100, u64::MAX));
    }
    assert_eq!(longest, [399, 799, 1_599, 3_199, 3_199, 3_199]);
    assert_eq!(backoff.delay_ms(100, 0), 1);
    backoff.succeeded();
    assert_eq!(backoff.exponent(), 3, "P7: one step");
    (0..9).for_each(|_| backoff.succeeded());
    assert_eq!(backoff.exponent(), 0);
}

/// P6: a wait that was drawn while the network stood still ends with the stall.
#[test]
fn waits_become_shorter_with_the_round_trips() {
    let mut backoff = Backoff::new(8);
    (0..8).for_each(|_| backoff.failed());
    let mut wait = Wait::new(TimestampMs(1_000), 2, backoff.clone(), u64::MAX / 2);
    let ends = [10_000, 100, 10_000].map(|rtt| wait.until(rtt, rtt + 50).0);
    assert_eq!(ends, [2_581_099, 26_899, 26_899]);
    let mut help = Wait::new(TimestampMs(1_000), 2, backoff.at_most(2), u64::MAX / 2);
    assert_eq!(help.until(100, 150).0, 1_699, "helpers do not wait for the l of an outage");
}

/// P7: l falls without own successes, too, once no try failed for long.
#[test]
fn calm_ends_backoff() {
    let mut backoff = Backoff::new(8);
    (0..3).for_each(|_| backoff.failed());
    // The longest delay is 1,600 ms.
    for (quiet, expected) in [(3_700, 3), (3_900, 0)] {
        backoff.calm(quiet, 100, 150);
        assert_eq!(backoff.exponent(), expected);
    }
}

/// X4: k is continuous.
#[test]
fn draws_are_not_from_a_small_set() {
    let (mut backoff, mut random) = (Backoff::new(8), Random::new(1));
    (0..4).for_each(|_| backoff.failed());
    let drawn: std::collections::BTreeSet<_> = (0..1_000).map(|_| backoff.delay_ms(100, random.draw())).collect();
    assert!(drawn.len() > 800, "{} different times", drawn.len());
}

/// Eq. 3.1: with p contenders at exponent l, one of them has a window of 8Δ for itself with probability (1 − 1/2^(l−1))^(p−1). Table of
/// our specification.
#[test]
fn clear_window_has_the_probability_of_the_thesis() {
    let mut random = Random::new(7);
    for (contenders, expected) in [(5, [0.06, 0.32, 0.59, 0.77, 0.88]), (2, [0.5, 0.75, 0.875, 0.94, 0.97])] {
        for (l, expected) in (2..).zip(expected) {
            let mut backoff = Backoff::new(8);
            (0..l).for_each(|_| backoff.failed());
            // Δ is half of a round trip. The one in the middle succeeds if nobody starts 4Δ before it or after it.
            let (delta, middle) = (500, backoff.delay_ms(1_000, u64::MAX / 2));
            let clear = (0..20_000).filter(|_| {
                let mut others = (1..contenders).map(|_| backoff.delay_ms(1_000, random.draw()));
                others.all(|other| other.abs_diff(middle) >= 4 * delta)
            });
            let share = clear.count() as f64 / 20_000.0;
            assert!((share - expected).abs() < 0.02, "p = {contenders}, l = {l}: {share}, expected {expected}");
        }
    }
}

/// Mean number of tries for each slot, if all propose one value each, at once.
fn tries_of_burst(size: usize, unit: u64) -> f64 {
    let tries = (0..40).map(|seed| {
        let mut contention = Contention::new(size, None, seed);
        contention.unit = unit;
        contention.run(size);
        contention.tries
    });
    tries.sum::<u64>() as f64 / (40 * size) as f64
}

/// M2: all propose at once, and all values are decided. Each doubling of the proposers adds about the same number of tries.
#[test]
fn tries_grow_like_the_logarithm_of_the_proposers() {
    let tries = [2, 4, 8, 16, 32].map(|size| tries_of_burst(size, contention::ROUND_TRIP));
    for (doublings, tries) in (1..).zip(tries) {
        assert!(tries < 1.0 + 1.5 * f64::from(doublings), "2^{doublings} proposers: {tries} tries for each slot");
    }
}

/// M3: with half of the unit, more tries fail.
#[test]
fn unit_of_backoff_is_the_diameter() {
    let [whole, half] = [1, 2].map(|part| tries_of_burst(8, contention::ROUND_TRIP / part));
    assert!(half > 1.15 * whole, "{whole} tries with the unit, {half} with half of it");
}

/// M4, X6: shares of the proposers below saturation, and tries with the rule and with "reset to 0". In this model the rule avoids
/// collisions, but it is not fairer than a reset: see the README.
#[test]
fn success_lowers_backoff_by_one() {
    // A slot takes about 1.5 round trips, so the proposers want this share of the capacity.
    let run = |percent: u64, resets: bool| {
        let interval = contention::ROUND_TRIP * 3 / 2 * 5 * 100 / percent;
        let (mut tries, mut jain) = (0, 0.0);
        for seed in 0..10 {
            let mut contention = Contention::new(5, Some(interval), seed);
            contention.resets = resets;
            contention.run(500);
            let counts = (0..5).map(|member| contention.winners.iter().filter(|winner| **winner == member).count() as f64);
            let counts: Vec<f64> = counts.collect();
            let sum: f64 = counts.iter().sum();
            jain += sum * sum / (50.0 * counts.iter().map(|count| count * count).sum::<f64>());
            tries += contention.tries;
        }
        (tries, jain)
    };
    let (ours, jain) = run(30, false);
    assert!(jain > 0.98, "Jain index {jain}, {ours} tries");
    let ((ours, _), (reset, _)) = (run(100, false), run(100, true));
    assert!(reset * 10 > ours * 11, "{ours} tries with the rule, {reset} with a reset");
}
