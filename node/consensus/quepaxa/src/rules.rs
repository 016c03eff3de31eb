//! Pure rules of one slot: the recorder (R1–R6), the proposer (P1–P6), and the choice of leaders (L1, B1–B5).

use crate::message::{Answer, Proposal, Slot, Step, Value};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_engine::Committee;
use corniche_types::ValidatorIndex;
use std::collections::BTreeMap;

/// First step of a slot: round 1, phase 0.
pub const FIRST_STEP: Step = 4;
/// H: priority of the leader's own proposal in round 1. Nobody draws it.
pub const HIGHEST: u128 = u128::MAX;

/// Interval summary register of one slot: the first proposal of the current step, and the maximum of the step before (Alg. 7).
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Register {
    /// S; 0 before the first proposal.
    step: Step,
    /// F_c.
    first: Option<Proposal>,
    /// A_c.
    highest: Option<Proposal>,
    /// A_p.
    highest_before: Option<Proposal>,
}

impl Register {
    pub fn step(&self) -> Step {
        self.step
    }

    /// F_c: the first proposal of the current step.
    pub fn first(&self) -> Option<&Proposal> {
        self.first.as_ref()
    }

    /// R1–R4. Returns true if the register changed.
    pub fn record(&mut self, step: Step, proposal: Proposal) -> bool {
        if step < self.step {
            return false; // R4
        }
        if step == self.step {
            // R1
            let is_higher = self.highest.as_ref().is_none_or(|highest| *highest < proposal);
            if is_higher {
                self.highest = Some(proposal);
            }
            return is_higher;
        }
        // R2; R3, X3: nothing was seen in a step that was skipped.
        let highest = self.highest.take();
        self.highest_before = highest.filter(|_| step == self.step + 1);
        (self.step, self.first, self.highest) = (step, Some(proposal.clone()), Some(proposal));
        true
    }

    /// R5. `None` before the first proposal.
    pub fn answer(&self) -> Option<Answer> {
        let first = self.first.clone()?;
        Some(Answer { step: self.step, first, highest_before: self.highest_before.clone() })
    }
}

/// Result of an answer for the proposer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It waits for more answers.
    Wait,
    /// It sends the proposals of the next step.
    Next,
    Decided(Value),
}

/// A proposer in one slot (Alg. 8).
#[derive(Clone, Debug)]
pub struct Proposer {
    step: Step,
    /// p.
    proposal: Proposal,
    is_leader: bool,
    answers: BTreeMap<ValidatorIndex, Answer>,
}

impl Proposer {
    pub fn new(me: ValidatorIndex, is_leader: bool, value: Value) -> Self {
        let proposal = Proposal { priority: HIGHEST, proposer: me, value };
        Self { step: FIRST_STEP, proposal, is_leader, answers: BTreeMap::new() }
    }

    pub fn step(&self) -> Step {
        self.step
    }

    pub fn proposal(&self) -> &Proposal {
        &self.proposal
    }

    pub fn has_answer_of(&self, recorder: ValidatorIndex) -> bool {
        self.answers.contains_key(&recorder)
    }

    /// P1: the proposal for one recorder in this step. `draw` returns a random number, independent for each recorder (X4).
    pub fn proposal_for(&self, draw: impl FnOnce() -> u128) -> Proposal {
        let is_leaders = self.step == FIRST_STEP && self.is_leader;
        // X7: the template has the highest priority, which only a leader in round 1 may send.
        let priority = match self.step.is_multiple_of(4) && !is_leaders {
            true => draw().clamp(1, HIGHEST - 1),
            false => self.proposal.priority,
        };
        Proposal { priority, ..self.proposal.clone() }
    }

    /// P2–P4: judges the first quorum of answers to the request of this step.
    pub fn answered(&mut self, from: ValidatorIndex, answer: Answer, committee: &Committee) -> Verdict {
        if answer.step < self.step {
            return Verdict::Wait; // Impossible for a correct recorder: it absorbed the request first.
        }
        self.answers.entry(from).or_insert(answer);
        if committee.weigh(self.answers.keys().copied()) < committee.quorum() {
            return Verdict::Wait;
        }
        let answers: Vec<Answer> = std::mem::take(&mut self.answers).into_values().collect();
        if let Some(ahead) = answers.iter().filter(|answer| answer.step > self.step).max_by_key(|answer| answer.step) {
            // P4, X5: one answer from a later step is enough.
            (self.step, self.proposal) = (ahead.step, ahead.first.clone());
            return Verdict::Next;
        }
        let highest_before = answers.iter().filter_map(|answer| answer.highest_before.as_ref()).max();
        match self.step % 4 {
            0 => {
                if answers.iter().all(|answer| answer.first.priority == HIGHEST) {
                    return Verdict::Decided(answers[0].first.value.clone());
                }
                if let Some(best) = answers.iter().map(|answer| &answer.first).max() {
                    self.proposal = best.clone();
                }
            }
            1 => {}
            // X6: the whole triple.
            2 if highest_before == Some(&self.proposal) => return Verdict::Decided(self.proposal.value.clone()),
            2 => {}
            _ => {
                if let Some(best) = highest_before {
                    self.proposal = best.clone();
                }
            }
        }
        self.step += 1;
        Verdict::Next
    }
}

/// B1: epoch of a slot, from 0.
pub fn epoch_of(slot: Slot, epoch_slots: u64) -> u64 {
    slot.0.saturating_sub(1) / epoch_slots
}

/// First slot of an epoch. It decides the schedule of the next epoch (B4).
pub fn first_slot(epoch: u64, epoch_slots: u64) -> Slot {
    Slot(epoch.saturating_mul(epoch_slots).saturating_add(1))
}

/// B2: in the first 2n + 1 epochs, every member leads twice, one after the other. The others follow in a cycle.
pub fn exploring(epoch: u64, committee: &Committee) -> Vec<ValidatorIndex> {
    let mut members: Vec<_> = committee.indices().collect();
    let leader = (epoch % members.len() as u64) as usize;
    members.rotate_left(leader);
    members
}

/// B2: whether an epoch's schedule is that of [`exploring`], whatever was decided before.
pub fn is_exploring(epoch: u64, committee: &Committee) -> bool {
    epoch <= 2 * committee.size() as u64
}

/// B3: members by the mean time of slots that they led, the fastest first. Members that were not measured keep their order, last.
pub fn fastest_first(measured: &BTreeMap<ValidatorIndex, u64>, committee: &Committee) -> Vec<ValidatorIndex> {
    let mut members: Vec<_> = committee.indices().collect();
    members.sort_by_key(|member| (measured.get(member).copied().unwrap_or(u64::MAX), *member));
    members
}
