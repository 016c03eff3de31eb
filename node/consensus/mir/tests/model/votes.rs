//! Votes about batches (3.4).

use crate::{
    BATCHES, Batch, Claim, Each, LIAR, Member, Model, Number, PerNumber, World,
    values::{are, batch, batches, digest, indices, member, place, product},
};
use corniche_mir::{
    instance::{Instance, Step},
    message::{EpochNumber, Sn},
    rules,
};
use std::{array, collections::BTreeSet, rc::Rc};

/// Batches that a member may accept for a number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Choice {
    Nothing,
    Listed(Batch),
    /// Any batch of the leader.
    Fresh,
}

/// Votes of one epoch about one number, as far as later epochs see them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Outcome {
    /// Batches of which the members have certificates.
    prepared: Each<Option<Batch>>,
    /// Batches of which the liar can show a certificate, and COMMITs of a quorum.
    shown: [bool; BATCHES.len()],
    committed: [bool; BATCHES.len()],
}

/// Votes about batches.
impl Model {
    pub fn vote(&mut self, world: &World, epoch: u64) -> Result<Vec<World>, String> {
        let mut worlds = vec![(*world, world.members.map(|number| self.members[number].prepared))];
        for sn in 1..=self.numbers {
            let choices = world.members.map(|number| self.choice(number, epoch, sn));
            let is_named = world.shown.all().any(|(_, of, batch)| of == sn && batch != 0);
            let outcomes = self.outcomes(epoch, sn, choices);
            let mut next = Vec::with_capacity(worlds.len() * outcomes.len());
            for (before, prepared) in worlds {
                for outcome in outcomes.iter().filter(|outcome| is_named || outcome.is_well_named()) {
                    let (mut after, mut prepared) = (before, prepared);
                    for (prepared, batch) in prepared.iter_mut().zip(outcome.prepared) {
                        let place = &mut prepared[place(sn)];
                        *place = batch.map(|batch| (epoch, batch)).or(*place);
                    }
                    for batch in batches().filter(|batch| outcome.shown[usize::from(*batch)]) {
                        after.shown.insert(epoch, sn, batch);
                    }
                    for batch in batches().filter(|batch| outcome.committed[usize::from(*batch)]) {
                        if *after.committed[place(sn)].get_or_insert(batch) != batch {
                            return Err(format!("two batches of {sn} are committed, the second one in epoch {epoch}"));
                        }
                    }
                    next.push((after, prepared));
                }
            }
            worlds = next;
        }
        let with_members = |(world, prepared): (World, Each<PerNumber<(u64, Batch)>>)| World {
            members: array::from_fn(|at| {
                let before = &self.members[world.members[at]];
                self.members.number(Member { prepared: prepared[at], ..before.clone() })
            }),
            ..world
        };
        Ok(worlds.into_iter().map(with_members).collect())
    }

    /// N2, U8: batches that the adversary can make a member accept.
    pub fn choice(&mut self, number: Number, epoch: u64, sn: u64) -> Choice {
        if let Some(known) = self.memory.choices.get(&(epoch, sn, number)) {
            return *known;
        }
        let member = self.members[number].clone();
        let config = &self.configs[member.config as usize].config;
        let listed = rules::listed(config, Sn(sn)).map(|digest| Choice::Listed(batch(digest)));
        let is_led = rules::leader(config, Sn(sn), &self.committee).is_some();
        let is_open = config.epoch.0 == epoch && sn > member.stable;
        let choice = match listed {
            Some(listed) if is_open => listed,
            None if is_open && is_led => Choice::Fresh,
            _ => Choice::Nothing,
        };
        let choice = if self.promises(&member).may_vote() { choice } else { Choice::Nothing };
        self.memory.choices.insert((epoch, sn, number), choice);
        choice
    }

    /// Each member accepts one batch (X1), or none. It gets the PREPAREs of all, or nothing.
    pub fn outcomes(&mut self, epoch: u64, sn: u64, choices: Each<Choice>) -> Rc<[Outcome]> {
        if let Some(known) = self.memory.outcomes.get(&(epoch, sn, choices)) {
            return known.clone();
        }
        let options = choices.map(|choice| match choice {
            Choice::Nothing => vec![None],
            Choice::Listed(batch) => vec![None, Some(batch)],
            Choice::Fresh => vec![None, Some(1), Some(2)],
        });
        let mut found = BTreeSet::new();
        for accepted in product(&options) {
            let prepared = array::from_fn(|at| match accepted[at] {
                Some(own) if self.is_prepared(epoch, sn, accepted, own) => vec![None, Some(own)],
                _ => vec![None],
            });
            let shown =
                array::from_fn(|at| self.is_proven(Claim::Prepared(epoch, sn, at as Batch), are(accepted, at as Batch)));
            for prepared in product(&prepared) {
                let committed = array::from_fn(|at| self.is_committed(at as Batch, are(prepared, at as Batch)));
                found.insert(Outcome { prepared, shown, committed });
            }
        }
        let found: Rc<[Outcome]> = found.into_iter().collect();
        self.memory.outcomes.insert((epoch, sn, choices), found.clone());
        found
    }

    /// N5 for a member that accepted `own`. The liar votes for everything.
    pub fn is_prepared(&self, epoch: u64, sn: u64, accepted: Each<Option<Batch>>, own: Batch) -> bool {
        let mut instance = Instance::default();
        (instance.offered, instance.step) = (Some(digest(own)), Step::Preparing);
        let votes = accepted.iter().enumerate().filter_map(|(at, accepted)| Some((member(at), (*accepted)?)));
        for (from, batch) in votes.chain([(LIAR, own)]) {
            instance.add_prepare(from, digest(batch), [0; 64]);
        }
        instance.prepared(EpochNumber(epoch), Sn(sn), &self.committee).is_some()
    }

    /// N6.
    pub fn is_committed(&self, batch: Batch, senders: Each<bool>) -> bool {
        let mut instance = Instance::default();
        indices(senders).chain([LIAR]).for_each(|from| instance.add_commit(from, digest(batch)));
        instance.is_committed(digest(batch), &self.committee)
    }
}

impl Outcome {
    /// While nothing is known about the batches of a number, the first one gets the first name.
    pub fn is_well_named(&self) -> bool {
        let has = |batch: Batch| self.shown[usize::from(batch)] || self.prepared.contains(&Some(batch));
        has(1) || !has(2)
    }
}
