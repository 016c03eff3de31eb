//! The rules of one slot under an adversary that schedules everything, and numbers of the thesis.

use corniche_engine::Committee;
use corniche_quepaxa::{
    message::{Answer, Proposal, Tip, Value},
    rules::{FIRST_STEP, HIGHEST, Proposer, Register, Verdict},
};
use corniche_quepaxa_testing::committee;
use corniche_testkit::Random;
use corniche_types::{TimestampMs, ValidatorIndex};

fn index(member: usize) -> ValidatorIndex {
    ValidatorIndex(u16::try_from(member).unwrap())
}

fn value(member: usize) -> Value {
    Value { time: TimestampMs(member as u64), tips: vec![Tip::default()], schedule: Vec::new() }
}

fn proposal(priority: u128, member: usize) -> Proposal {
    Proposal { priority, proposer: index(member), value: value(member) }
}

/// The interval summary register with its whole history (Alg. 6).
#[derive(Default)]
struct History(Vec<(u64, Proposal)>);

impl History {
    fn answer(&self) -> Option<Answer> {
        let step = self.0.iter().map(|(step, _)| *step).max()?;
        let of = |step: u64| self.0.iter().filter(move |(of, _)| *of == step).map(|(_, proposal)| proposal.clone());
        Some(Answer { step, first: of(step).next()?, highest_before: of(step - 1).max() })
    }
}

#[test]
fn register_is_a_summary_of_its_history() {
    for seed in 0..2_000 {
        let mut random = Random::new(seed);
        let (mut register, mut history) = (Register::default(), History::default());
        for _ in 0..20 {
            let (step, proposal) = (random.between(4, 12), proposal(random.between(1, 6).into(), random.below(3) as usize));
            // A recorder forgets what comes late: it answers for its current step.
            if step >= register.step() {
                history.0.push((step, proposal.clone()));
            }
            register.record(step, proposal);
            assert_eq!(register.answer(), history.answer(), "seed {seed}");
        }
    }
}

/// One slot: every member proposes, and messages arrive in any order.
struct Slot {
    committee: Committee,
    leader: Option<usize>,
    registers: Vec<Register>,
    proposers: Vec<Option<Proposer>>,
    decided: Vec<Option<Value>>,
    /// Requests and answers on their way: proposer, recorder, step, content.
    requests: Vec<(usize, usize, u64, Proposal)>,
    answers: Vec<(usize, usize, u64, Answer)>,
    random: Random,
    /// Few priorities make ties.
    priorities: u64,
    /// Requests of round 1 to this member never arrive.
    deaf_to_leader: bool,
}

impl Slot {
    fn new(size: usize, leader: Option<usize>, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let priorities = if random.one_in(3) { 3 } else { u64::MAX };
        Self {
            committee: committee(size),
            leader,
            registers: vec![Register::default(); size],
            proposers: vec![None; size],
            decided: vec![None; size],
            requests: Vec::new(),
            answers: Vec::new(),
            random,
            priorities,
            deaf_to_leader: false,
        }
    }

    fn start(&mut self, member: usize) {
        self.proposers[member] = Some(Proposer::new(index(member), self.leader == Some(member), value(member)));
        self.send(member);
    }

    fn send(&mut self, member: usize) {
        let Some(proposer) = &self.proposers[member] else { return };
        for recorder in 0..self.registers.len() {
            let (priorities, random) = (self.priorities, &mut self.random);
            let proposal = proposer.proposal_for(|| u128::from(random.between(1, priorities)));
            self.requests.push((member, recorder, proposer.step(), proposal));
        }
    }

    /// One message arrives. A slow proposer's messages arrive rarely.
    fn step(&mut self, slow: Option<usize>) {
        let total = self.requests.len() + self.answers.len();
        if total == 0 {
            return;
        }
        let chosen = self.random.below(total as u64) as usize;
        if chosen < self.requests.len() {
            if slow == Some(self.requests[chosen].0) && !self.random.one_in(20) {
                return;
            }
            let (member, recorder, step, proposal) = self.requests.swap_remove(chosen);
            if self.deaf_to_leader && step == FIRST_STEP && proposal.priority == HIGHEST {
                return;
            }
            self.registers[recorder].record(step, proposal);
            let answer = self.registers[recorder].answer().unwrap();
            self.answers.push((member, recorder, step, answer));
        } else {
            let (member, recorder, step, answer) = self.answers.swap_remove(chosen - self.requests.len());
            let Some(proposer) = self.proposers[member].as_mut().filter(|proposer| proposer.step() == step) else { return };
            if self.decided[member].is_some() {
                return;
            }
            match proposer.answered(index(recorder), answer, &self.committee) {
                Verdict::Wait => {}
                Verdict::Next => self.send(member),
                Verdict::Decided(value) => self.decided[member] = Some(value),
            }
        }
    }

    fn run(&mut self, slow: Option<usize>) {
        for _ in 0..200_000 {
            let is_over =
                self.proposers.iter().zip(&self.decided).all(|(proposer, decided)| proposer.is_none() || decided.is_some());
            if is_over {
                return;
            }
            self.step(slow);
        }
        panic!("no decision");
    }

    fn check(&self, seed: u64) {
        let decided: Vec<_> = self.decided.iter().flatten().collect();
        assert!(decided.windows(2).all(|pair| pair[0] == pair[1]), "seed {seed}: two decisions: {:?}", self.decided);
    }
}

/// Safety: whatever the network does, with ties, slow members and any leader, a slot has one decision.
#[test]
fn slots_have_one_decision() {
    for seed in 0..20_000 {
        let size = [3, 4, 5][(seed % 3) as usize];
        let mut random = Random::new(seed).fork("slot");
        let leader = (!random.one_in(4)).then(|| random.below(size as u64) as usize);
        let mut slot = Slot::new(size, leader, seed);
        let slow = random.one_in(2).then(|| random.below(size as u64) as usize);
        for member in 0..size {
            if random.one_in(4) && member > 0 {
                (0..random.below(200)).for_each(|_| slot.step(slow));
            }
            slot.start(member);
        }
        slot.run(slow);
        slot.check(seed);
    }
}

/// M4, lemma 5.5.6: without a leader a round decides with probability 1/2 or more, so in two rounds on average.
#[test]
fn leaderless_rounds_decide_half_of_the_time() {
    for size in [3, 5] {
        let mut rounds = 0;
        for seed in 0..400 {
            let mut slot = Slot::new(size, None, seed);
            slot.priorities = u64::MAX;
            (0..size).for_each(|member| slot.start(member));
            slot.run(None);
            rounds += slot.proposers.iter().flatten().map(|proposer| proposer.step() / 4).min().unwrap();
        }
        assert!(rounds < 2 * 400, "size {size}: {rounds} rounds in 400 slots");
    }
}

/// M5, L2: a network that stops every proposal of the leader does not stop the slot.
#[test]
fn slot_decides_without_its_leader() {
    for seed in 0..200 {
        let mut slot = Slot::new(5, Some(0), seed);
        slot.deaf_to_leader = true;
        (1..5).for_each(|member| slot.start(member));
        slot.run(None);
        slot.check(seed);
    }
}

/// M5: the leader decides with the first answers of a quorum. M6: the others need three round trips.
#[test]
fn leader_needs_one_round_trip_and_others_three() {
    for (leader, expected) in [(Some(0), 1), (None, 3)] {
        let committee = committee(3);
        let mut registers = vec![Register::default(); 3];
        let mut proposer = Proposer::new(index(0), leader == Some(0), value(0));
        let mut trips = 0;
        let decided = loop {
            trips += 1;
            let step = proposer.step();
            let verdicts: Vec<_> = (0..2)
                .map(|recorder| {
                    registers[recorder].record(step, proposer.proposal_for(|| 7 + recorder as u128));
                    proposer.answered(index(recorder), registers[recorder].answer().unwrap(), &committee)
                })
                .collect();
            if let Verdict::Decided(value) = &verdicts[1] {
                break value.clone();
            }
        };
        assert_eq!((decided, trips), (value(0), expected));
    }
}

/// P4, X5: a proposer that is behind goes to the step of those ahead after one set of answers.
#[test]
fn slow_proposer_catches_up() {
    let committee = committee(3);
    let mut proposer = Proposer::new(index(0), false, value(0));
    let behind = Answer { step: FIRST_STEP, first: proposal(9, 1), highest_before: None };
    let ahead = Answer { step: 11, first: proposal(5, 2), highest_before: Some(proposal(5, 2)) };
    assert_eq!(proposer.answered(index(1), behind, &committee), Verdict::Wait);
    assert_eq!(proposer.answered(index(2), ahead, &committee), Verdict::Next);
    assert_eq!((proposer.step(), proposer.proposal().clone()), (11, proposal(5, 2)));
}

/// X7: the template has the highest priority, and only the leader sends it, in round 1 only.
#[test]
fn highest_priority_is_the_leaders_in_round_one() {
    let other = Proposer::new(index(1), false, value(1));
    assert_eq!(other.proposal_for(|| u128::MAX).priority, HIGHEST - 1, "a draw is never the highest");
    assert_eq!(Proposer::new(index(0), true, value(0)).proposal_for(|| 1).priority, HIGHEST);
    let mut leader = Proposer::new(index(0), true, value(0));
    let ahead = Answer { step: 8, first: proposal(HIGHEST - 1, 1), highest_before: None };
    leader.answered(index(0), ahead.clone(), &committee(3));
    leader.answered(index(1), ahead, &committee(3));
    assert_eq!((leader.step(), leader.proposal_for(|| 3).priority), (8, 3));
}
