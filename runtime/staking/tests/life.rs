//! Random lives of a chain against a plain model: validators join, add, unbond and leave, epochs end or are kept.
#![allow(clippy::unwrap_used)] // also in helpers

mod support;

use alloy_primitives::U256;
use corniche_staking::{
    ValidatorId,
    calendar::{self, Frozen},
    interface::Staking::*,
    record::Queue,
};
use corniche_types::{StakingParameters, Votes};
use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng, SeedableRng},
};
use std::collections::BTreeMap;
use support::{Chain, Secrets, account, short_epochs};

const NOTHING: U256 = U256::ZERO;
const EPOCHS: u64 = 100;

/// A registered validator.
#[derive(Clone, Debug, Default)]
struct Stake {
    owner: u64,
    bonded: U256,
    /// (first freeze without it, amount), the oldest one first.
    queue: Vec<(u64, U256)>,
}

/// A committee that sat.
struct Sat {
    frozen_in: u64,
    /// Stake that voted.
    at_risk: BTreeMap<u32, U256>,
}

#[derive(Default)]
struct Model {
    stakes: BTreeMap<u32, Stake>,
    /// By epoch.
    sat: Vec<Sat>,
    is_frozen: bool,
    /// Number of unbondings that found the queue full.
    full: u64,
}

impl Model {
    fn epoch(&self) -> u64 {
        self.sat.len() as u64 - 1
    }

    fn past(&self, parameters: &StakingParameters) -> Option<&Sat> {
        let past = self.epoch().checked_sub(parameters.unbonding_epochs)?;
        self.sat.get(past as usize)
    }

    fn free(&self, id: u32, parameters: &StakingParameters) -> U256 {
        let Some(past) = self.past(parameters) else { return NOTHING };
        self.stakes[&id].queue.iter().filter(|(freeze, _)| *freeze <= past.frozen_in).map(|(_, amount)| amount).sum()
    }

    fn unbond(&mut self, id: u32, amount: U256) {
        let freeze = self.epoch() + if self.is_frozen { 2 } else { 1 };
        let stake = self.stakes.get_mut(&id).unwrap();
        stake.bonded -= amount;
        let is_full = stake.queue.len() == 16;
        match stake.queue.last_mut() {
            Some(newest) if newest.0 == freeze => newest.1 += amount,
            // The queue is full: all of the newest entry waits longer.
            Some(newest) if is_full => {
                *newest = (freeze, newest.1 + amount);
                self.full += 1;
            }
            _ => stake.queue.push((freeze, amount)),
        }
    }

    /// Checks that all stake that voted within U epochs can still be slashed.
    fn check_liability(&self, parameters: &StakingParameters) {
        for sat in self.sat.iter().rev().take(parameters.unbonding_epochs as usize + 1) {
            for (id, at_risk) in &sat.at_risk {
                let liable = self.stakes.get(id).map_or(NOTHING, |stake| {
                    let queued: U256 =
                        stake.queue.iter().filter(|(freeze, _)| *freeze > sat.frozen_in).map(|(_, amount)| amount).sum();
                    stake.bonded + queued
                });
                assert!(liable >= *at_risk, "validator {id}: {liable} liable of {at_risk} in epoch {}", self.epoch());
            }
        }
    }
}

struct Life {
    random: SplitMix64,
    chain: Chain,
    model: Model,
    /// Number of the next validator's keys and owner.
    next: u64,
    freed: U256,
    kept: u64,
}

impl Life {
    fn new(seed: u64) -> Self {
        let mut random = SplitMix64::seed_from_u64(seed);
        let genesis: Vec<u32> = vec![1 + random.next_u64() as u32 % 3; 4 + random.next_u64() as usize % 4];
        let parameters = StakingParameters {
            // Queues become full if stake is liable for long.
            unbonding_epochs: if seed.is_multiple_of(4) { 60 } else { 2 + random.next_u64() % 6 },
            most_votes: Votes(4),
            max_votes: Votes(21 + random.next_u64() as u32 % 17),
            max_validators: 12,
            ..short_epochs()
        };
        let chain = Chain::new(parameters, &genesis);
        let mut life = Self { random, chain, model: Model::default(), next: 100, freed: NOTHING, kept: 0 };
        let mut at_risk = BTreeMap::new();
        for (id, votes) in (0u32..).zip(&genesis) {
            let bonded = support::votes(u64::from(*votes));
            life.model.stakes.insert(id, Stake { owner: id.into(), bonded, queue: Vec::new() });
            at_risk.insert(id, bonded);
        }
        life.model.sat.push(Sat { frozen_in: 0, at_risk });
        life
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound
    }

    fn any_validator(&mut self) -> Option<u32> {
        let count = self.model.stakes.len() as u64;
        // In half of all calls the oldest one, so that its queue becomes full.
        let count = if self.below(2) == 0 { 1 } else { count };
        let position = self.below(count.max(1)) as usize;
        self.model.stakes.keys().nth(position).copied()
    }

    /// One call by an account.
    fn act(&mut self) {
        if self.below(6) == 0 && self.model.stakes.len() < 16 {
            return self.register();
        }
        let Some(id) = self.any_validator() else { return };
        let stake = self.model.stakes[&id].clone();
        let owner = account(stake.owner);
        match self.below(5) {
            0 => {
                let amount = support::votes(1) / U256::from(1 + self.below(3));
                if stake.bonded + amount < support::votes(1) {
                    let limit = support::votes(1);
                    return self.chain.refuse(owner, amount, &addCall { id }, &TooLittle { limit });
                }
                self.chain.send(owner, amount, &addCall { id }).unwrap();
                self.model.stakes.get_mut(&id).unwrap().bonded += amount;
            }
            1 | 2 if !stake.bonded.is_zero() => {
                let amount = match self.below(6) {
                    0 => stake.bonded,
                    1 | 2 => stake.bonded / U256::from(2u64) + U256::ONE,
                    _ => stake.bonded.saturating_sub(support::votes(1)).min(U256::from(7)).max(U256::ONE),
                };
                let (rest, limit) = (stake.bonded - amount, support::votes(1));
                if !rest.is_zero() && rest < limit {
                    return self.chain.refuse(owner, NOTHING, &unbondCall { id, amount }, &TooLittle { limit });
                }
                self.chain.send(owner, NOTHING, &unbondCall { id, amount }).unwrap();
                self.model.unbond(id, amount);
            }
            _ => self.withdraw(id, &stake),
        }
    }

    fn register(&mut self) {
        let (number, owner) = (self.next, account(self.next));
        self.next += 1;
        let bonded = support::votes(1 + self.below(5));
        let id = self.chain.send(owner, bonded, &Secrets::new(number).register(owner)).unwrap();
        self.model.stakes.insert(id, Stake { owner: number, bonded, queue: Vec::new() });
    }

    fn withdraw(&mut self, id: u32, stake: &Stake) {
        let free = self.model.free(id, &self.chain.parameters);
        let call = withdrawCall { id };
        if free.is_zero() {
            return self.chain.refuse(account(stake.owner), NOTHING, &call, &NothingFree {});
        }
        assert_eq!(self.chain.send(account(stake.owner), NOTHING, &call), Ok(free));
        self.freed += free;
        let reached = self.model.past(&self.chain.parameters).unwrap().frozen_in;
        let stake = self.model.stakes.get_mut(&id).unwrap();
        stake.queue.retain(|(freeze, _)| *freeze > reached);
        if stake.queue.is_empty() && stake.bonded.is_zero() {
            self.model.stakes.remove(&id);
        }
    }

    fn act_often(&mut self) {
        for _ in 0..self.below(4) {
            self.act();
            self.check();
        }
    }

    /// Calls, announcements, the freeze, more calls, and the end.
    fn epoch(&mut self) {
        self.act_often();
        let patience = self.below(8);
        for id in self.chain.registered() {
            if self.below(8) <= patience {
                self.chain.announce(id);
            }
        }
        self.act_often();
        let mut expected = self.chain.freeze();
        self.model.is_frozen = true;
        self.act_often();
        if matches!(expected, Frozen::Next(_)) && self.below(6) == 0 {
            calendar::keep(&mut self.chain.memory, &[ValidatorId(0)]).unwrap();
            expected = Frozen::Kept;
        }
        let started = self.chain.activate();
        assert_eq!(started.kept, expected == Frozen::Kept);
        self.kept += u64::from(started.kept);
        let committee = started.committee;
        let at_risk = |votes: u32| committee.unit * U256::from(votes);
        let at_risk = committee.members.iter().map(|member| (member.id.0, at_risk(member.votes.0))).collect();
        self.model.sat.push(Sat { frozen_in: committee.frozen_in.0, at_risk });
        self.model.is_frozen = false;
        self.check();
    }

    fn check(&mut self) {
        self.model.check_liability(&self.chain.parameters);
        let ids: Vec<u32> = self.chain.registered().iter().map(|id| id.0).collect();
        assert_eq!(ids, self.model.stakes.keys().copied().collect::<Vec<_>>());
        for (id, stake) in &self.model.stakes {
            assert_eq!(self.chain.read(&validatorCall { id: *id }).bonded, stake.bonded);
            assert_eq!(self.chain.read(&freeCall { id: *id }), self.model.free(*id, &self.chain.parameters));
            let queue = Queue::load(&mut self.chain.memory, ValidatorId(*id)).unwrap();
            let entries = queue.entries(&mut self.chain.memory).unwrap();
            assert_eq!(
                entries.iter().map(|entry| (entry.first_freeze_without.0, entry.amount)).collect::<Vec<_>>(),
                stake.queue
            );
        }
        self.chain.check_balance();
    }
}

#[test]
fn stake_that_votes_is_never_free() {
    let (mut freed, mut kept, mut full) = (NOTHING, 0, 0);
    for seed in 0..20 {
        let mut life = Life::new(seed);
        for _ in 0..EPOCHS {
            life.epoch();
        }
        freed += life.freed;
        kept += life.kept;
        full += life.model.full;
    }
    assert!(full > 10, "{full} unbondings found a full queue");
    assert!(freed > support::votes(100), "{freed} wei were withdrawn");
    assert!(kept > 100 && kept < 19 * EPOCHS, "{kept} committees were kept");
}
