//! The proposers of each slot, leader first. They follow from decided values, so they are equal at every validator.

use crate::{
    config::Config,
    message::{Slot, Value},
    rules::{epoch_of, exploring, first_slot, is_exploring},
};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_engine::Committee;
use corniche_lanes::Order;
use corniche_types::ValidatorIndex;

/// Decided schedules, in the checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Schedules {
    /// Decided by the first slot of the current epoch, for the next one.
    pub next: Vec<ValidatorIndex>,
    /// Decided by the first slot of the epoch before, for the current one.
    pub current: Vec<ValidatorIndex>,
}

/// Chooses the proposers of slots.
pub struct Leaders {
    committee: Committee,
    epoch_slots: u64,
    tune_leader: bool,
}

impl Leaders {
    pub fn new(committee: &Committee, config: &Config) -> Self {
        Self { committee: committee.clone(), epoch_slots: config.epoch_slots, tune_leader: config.tune_leader }
    }

    /// L1, X1: the proposers of a slot, leader first. `decided` is the value of a slot that is decided, and not delivered yet.
    /// `None` if the slot with the schedule is not decided yet.
    pub fn schedule<'a>(
        &self,
        slot: Slot,
        order: &Order<Slot, Schedules>,
        decided: impl Fn(Slot) -> Option<&'a Value>,
    ) -> Option<Vec<ValidatorIndex>> {
        let epoch = epoch_of(slot, self.epoch_slots);
        if !self.tune_leader {
            return Some(self.committee.indices().collect());
        }
        if is_exploring(epoch, &self.committee) {
            return Some(exploring(epoch, &self.committee));
        }
        let source = first_slot(epoch - 1, self.epoch_slots);
        let delivered = epoch_of(order.at(), self.epoch_slots);
        let schedule = match order.at() {
            at if at < source => decided(source)?.schedule.clone(),
            _ if delivered == epoch => order.state().more.current.clone(),
            _ => order.state().more.next.clone(),
        };
        // A proposer that did not know of the epoch's end may have proposed none.
        Some(if self.is_permutation(&schedule) { schedule } else { exploring(epoch, &self.committee) })
    }

    fn is_permutation(&self, schedule: &[ValidatorIndex]) -> bool {
        let mut sorted = schedule.to_vec();
        sorted.sort_unstable();
        sorted.into_iter().eq(self.committee.indices())
    }

    /// Applies the schedule in the value of the next slot, right before its delivery. Returns the slot's leader.
    pub fn execute(&self, slot: Slot, value: &Value, order: &mut Order<Slot, Schedules>) -> ValidatorIndex {
        let leader = self.schedule(slot, order, |_| None).and_then(|schedule| schedule.first().copied()).unwrap_or_default();
        if slot == first_slot(epoch_of(slot, self.epoch_slots), self.epoch_slots) {
            let schedules = order.more();
            schedules.current = std::mem::replace(&mut schedules.next, value.schedule.clone());
        }
        leader
    }
}
