//! Changes of epochs (3.5–3.7).

use crate::{
    CORRECT, Changes, Claim, Content, EPOCH_LENGTH, Each, Found, LIAR, Member, Model, NUMBERS, Number, World,
    values::{batch, digest, indices, member, place, product},
};
use corniche_mir::{
    message::{EpochCertificate, EpochConfig, EpochNumber, Sn, Votes},
    record::Promises,
    rules::{self, Selection},
};
use corniche_types::B256;
use std::{array, collections::BTreeSet};

/// Leaving an epoch.
impl Model {
    pub fn leave(&mut self, world: &World, epoch: u64) -> Result<Vec<World>, String> {
        let options = world.members.map(|number| self.left(number, epoch, world.delivered()).to_vec());
        Ok(product(&options).map(|members| World { members, ..*world }).collect())
    }

    /// A member learns a checkpoint, or none (K2), and leaves (U1). Without its EPOCH-CHANGE only a gracious epoch may begin.
    pub fn left(&mut self, number: Number, epoch: u64, delivered: u64) -> Found {
        if let Some(known) = self.memory.left.get(&(epoch, delivered, number)) {
            return known.clone();
        }
        let before = self.members[number].clone();
        let checkpoints = self.checkpoints(delivered).into_iter().filter(|sn| *sn > before.stable);
        let learnt: Vec<_> = checkpoints.map(|sn| before.with_checkpoint(sn)).collect();
        let distance = if self.votes_on_the_way() || echoes_before_target() { 2 } else { 1 };
        let mut found = BTreeSet::new();
        for member in [before].into_iter().chain(learnt) {
            for target in (epoch + 1..=epoch + distance).filter(|target| member.target.is_none_or(|before| before < *target)) {
                let left = self.with_change(&member, target);
                found.insert(self.members.number(left));
            }
            let config = &self.configs[member.config as usize].config;
            let may_continue = member.target.is_none() && self.continuation(config, delivered).is_some();
            if member.target > Some(epoch) || may_continue {
                found.insert(self.members.number(member));
            }
        }
        let found: Found = found.into_iter().collect();
        self.memory.left.insert((epoch, delivered, number), found.clone());
        found
    }

    /// U2.
    pub fn with_change(&mut self, member: &Member, target: u64) -> Member {
        let promises = Promises { target: Some(EpochNumber(target)), ..self.promises(member) };
        let certificates = self.certificates(&member.prepared);
        let certificates = certificates.into_iter().map(|certificate| (certificate.sn, certificate)).collect();
        let change = promises.change(LIAR, EpochNumber(target), &certificates);
        let mut prepared = [None; NUMBERS];
        for certificate in &change.prepared {
            prepared[place(certificate.sn.0)] = Some((certificate.epoch.0, batch(certificate.digest)));
        }
        let config = if change.certificate.is_some() { member.config } else { 0 };
        let content = self.contents.number(Content { config, stable: change.stable().0, prepared });
        assert!(self.is_valid(target, content), "a correct member's EPOCH-CHANGE is valid");
        let mut after = Member { target: Some(target), ..member.clone() };
        after.sent.push((target, content));
        after.sent.sort_unstable();
        after
    }
}

/// Beginning an epoch.
impl Model {
    /// X7: configurations get ECHOs, and members enter the epoch.
    pub fn change(&mut self, world: &World, epoch: u64) -> Result<Vec<World>, String> {
        let offers = self.offers(world, epoch)?;
        if epoch == self.epochs {
            return Ok(Vec::new());
        }
        let mut certified = BTreeSet::from([Vec::new()]);
        let mut open = vec![(Vec::new(), [false; CORRECT])];
        while let Some((before, echoed)) = open.pop() {
            for (config, willing) in offers.iter().filter(|(config, _)| !before.contains(config)) {
                let may_echo = array::from_fn(|at| willing[at] && self.may_echo(world.members[at], epoch, echoed[at]));
                for echoes in self.quorums(*config, may_echo) {
                    let mut after = [before.as_slice(), &[*config]].concat();
                    after.sort_unstable();
                    // The members cannot enter more configurations than they are.
                    if certified.insert(after.clone()) && after.len() < CORRECT {
                        open.push((after, array::from_fn(|at| echoed[at] || echoes[at])));
                    }
                }
            }
        }
        let mut found = BTreeSet::new();
        for configs in certified {
            let options = world.members.map(|number| {
                let configs = configs.iter().copied().chain([0]);
                configs.map(|config| self.entered(number, config, epoch)).collect::<Vec<_>>()
            });
            found.extend(product(&options).map(|members| World { members, ..*world }));
        }
        Ok(found.into_iter().collect())
    }

    /// The smallest sets of members whose ECHOs certify a configuration.
    pub fn quorums(&mut self, config: Number, may_echo: Each<bool>) -> Vec<Each<bool>> {
        let options = may_echo.map(|may_echo| if may_echo { vec![false, true] } else { vec![false] });
        let mut sets: Vec<Each<bool>> = product(&options).collect();
        sets.sort_unstable_by_key(|set| indices(*set).count());
        let mut found: Vec<Each<bool>> = Vec::new();
        for set in sets {
            let has_smaller = found.iter().any(|smaller| indices(*smaller).all(|member| set[member.as_usize()]));
            if !has_smaller && self.is_proven(Claim::Config(config), set) {
                found.push(set);
            }
        }
        found
    }

    /// A member enters an epoch, or stays for configuration 0. EPOCH-CHANGEs that no rule accepts any more are forgotten.
    pub fn entered(&mut self, number: Number, config: Number, epoch: u64) -> Number {
        if let Some(known) = self.memory.entered.get(&(number, config, epoch)) {
            return *known;
        }
        let mut after = self.members[number].clone();
        if config > 0 {
            let mut promises = self.promises(&after);
            promises.enter(self.configs[config as usize].clone());
            (after.config, after.target) = (config, promises.target.map(|target| target.0));
        }
        if !self.accepts_old_changes() {
            after.sent.retain(|(target, _)| *target > epoch);
        }
        let after = self.members.number(after);
        self.memory.entered.insert((number, config, epoch), after);
        after
    }

    /// Configurations for which a correct member would vote, and these members. Each must keep everything that is committed.
    pub fn offers(&mut self, world: &World, epoch: u64) -> Result<Vec<(Number, Each<bool>)>, String> {
        let mut offers: Vec<_> = self.ungracious(world, epoch).into_iter().map(|config| (config, [true; CORRECT])).collect();
        offers.extend(self.gracious(world, epoch));
        for (config, _) in &offers {
            let config = &self.configs[*config as usize].config;
            if config.start.0 > world.delivered() {
                return Err(format!("{config:?} begins after numbers that are not decided"));
            }
            for (sn, committed) in (1..).map(Sn).zip(world.committed) {
                let is_kept = |committed| sn <= config.start || rules::listed(config, sn) == Some(digest(committed));
                if !committed.is_none_or(is_kept) {
                    return Err(format!("{config:?} loses the committed batch of {sn}"));
                }
            }
        }
        Ok(offers)
    }

    /// G1, G2.
    pub fn gracious(&mut self, world: &World, epoch: u64) -> Vec<(Number, Each<bool>)> {
        let members = world.members.map(|number| self.members[number].clone());
        let before: BTreeSet<_> = members.iter().map(|member| member.config).collect();
        let mut offers = Vec::new();
        for before in before {
            let config = self.configs[before as usize].config.clone();
            let willing = array::from_fn(|at| members[at].config == before && self.promises(&members[at]).is_normal());
            let next = self.continuation(&config, world.delivered()).filter(|next| next.epoch.0 == epoch);
            if let Some(next) = next.filter(|_| willing != [false; CORRECT]) {
                offers.push((self.config(next), willing));
            }
        }
        offers
    }

    /// The gracious configuration after another one.
    pub fn continuation(&self, before: &EpochConfig, delivered: u64) -> Option<EpochConfig> {
        let next = rules::gracious(before, &self.committee, EPOCH_LENGTH)?;
        rules::is_gracious(&next, before, Sn(delivered), &self.committee, EPOCH_LENGTH).then_some(next)
    }

    /// U6: for each set of EPOCH-CHANGEs of a quorum.
    pub fn ungracious(&mut self, world: &World, epoch: u64) -> BTreeSet<Number> {
        let lies = self.lies(world, epoch);
        let keeps_old = self.accepts_old_changes();
        let sent = world.members.map(|number| {
            let sent = self.members[number].sent.iter().filter(|(target, _)| *target == epoch || keeps_old);
            [None].into_iter().chain(sent.copied().map(Some)).collect::<Vec<_>>()
        });
        let mut found = BTreeSet::new();
        for changes in product(&sent) {
            let senders = changes.map(|change| change.is_some());
            let changes: Vec<_> = changes.into_iter().flatten().collect();
            if self.is_quorum(epoch, senders, false) {
                found.extend(self.selected(epoch, changes.clone(), None).iter());
            }
            if self.is_quorum(epoch, senders, true) {
                found.extend(self.selected(epoch, changes, Some(lies)).iter());
            }
        }
        found
    }

    /// The set of all valid EPOCH-CHANGEs of the liar.
    pub fn lies(&mut self, world: &World, epoch: u64) -> Number {
        let configs = world.members.map(|number| self.members[number].config);
        let configs: BTreeSet<Number> = configs.into_iter().chain([0]).collect();
        let key = (epoch, world.delivered(), world.shown, configs.into_iter().collect::<Vec<_>>());
        if let Some(known) = self.memory.lies.get(&key) {
            return *known;
        }
        let mut found = Vec::new();
        for stable in [0].into_iter().chain(self.checkpoints(world.delivered())) {
            let certificates: [Vec<_>; NUMBERS] = array::from_fn(|at| {
                let shown = world.shown.all().filter(|(_, sn, _)| place(*sn) == at);
                [None].into_iter().chain(shown.map(|(epoch, _, batch)| Some((epoch, batch)))).collect()
            });
            for (prepared, config) in product(&certificates).flat_map(|it| key.3.iter().map(move |config| (it, *config))) {
                let number = self.contents.number(Content { config, stable, prepared });
                if self.is_valid(epoch, number) {
                    found.push(number);
                }
            }
        }
        let found = self.lies.number(found.into());
        self.memory.lies.insert(key, found);
        found
    }

    /// Configurations that follow from these EPOCH-CHANGEs, and perhaps one of the lies.
    pub fn selected(&mut self, epoch: u64, mut changes: Changes, lies: Option<Number>) -> Found {
        changes.sort_unstable();
        let key = (epoch, changes, lies);
        if let Some(known) = self.memory.selected.get(&key) {
            return known.clone();
        }
        let found: BTreeSet<Number> = match lies.map(|lies| self.lies[lies].clone()) {
            None => self.judged(epoch, key.1.clone()).iter().copied().collect(),
            Some(lies) => {
                let with = |lie: &Number| [key.1.as_slice(), &[(epoch, *lie)]].concat();
                lies.iter().flat_map(|lie| self.judged(epoch, with(lie)).to_vec()).collect()
            }
        };
        let found: Found = found.into_iter().collect();
        self.memory.selected.insert(key, found.clone());
        found
    }

    /// Configurations that follow from these EPOCH-CHANGEs. All lists are tried.
    pub fn judged(&mut self, epoch: u64, mut changes: Changes) -> Found {
        changes.sort_unstable();
        let key = (epoch, changes);
        if let Some(known) = self.memory.judged.get(&key) {
            return known.clone();
        }
        let changes = key.1.iter().enumerate().map(|(at, (target, content))| self.change_of(member(at), *target, *content));
        let changes: Vec<_> = changes.collect();
        let changes: Vec<_> = changes.iter().collect();
        let (number, base) = (EpochNumber(epoch), rules::select(&changes, &self.committee).base);
        let leaders = rules::leaders_without(&base, number, &[], &self.committee);
        let mut found = Vec::new();
        for (start, listed) in self.lists.clone().iter() {
            let selection = Selection { base: base.clone(), start: *start, listed: listed.clone() };
            let config = rules::ungracious(&selection, number, leaders.clone(), &self.committee, EPOCH_LENGTH);
            if (self.judge)(&config, &changes, &self.committee, EPOCH_LENGTH) {
                found.push(self.config(config));
            }
        }
        let found: Found = found.into();
        self.memory.judged.insert(key, found.clone());
        found
    }
}

/// Promises of a member leave out many steps. If the rules allowed those, the model would make them too.
impl Model {
    /// X2, X7.
    pub fn may_echo(&mut self, number: Number, epoch: u64, has_echoed: bool) -> bool {
        if let Some(known) = self.memory.echoing.get(&(epoch, number, has_echoed)) {
            return *known;
        }
        let echoed = has_echoed.then_some((EpochNumber(epoch), B256::ZERO));
        let member = self.members[number].clone();
        let may_echo = Promises { echoed, ..self.promises(&member) }.may_echo(EpochNumber(epoch));
        self.memory.echoing.insert((epoch, number, has_echoed), may_echo);
        may_echo
    }

    /// X2: a member votes in an epoch that it enters on its way to a later one. Then members also leave for later epochs.
    pub fn votes_on_the_way(&self) -> bool {
        let config = EpochConfig { epoch: EpochNumber(1), ..rules::first_epoch(&self.committee) };
        let mut promises = Promises { target: Some(EpochNumber(2)), ..Promises::default() };
        promises.enter(EpochCertificate { config, votes: Votes::new() });
        promises.may_vote()
    }

    /// U6: an EPOCH-CHANGE for an earlier epoch counts. Then members keep theirs.
    pub fn accepts_old_changes(&mut self) -> bool {
        let nothing = self.contents.number(Content::default());
        let changes = [(0, 1), (1, 2), (2, 2)].map(|(at, target)| self.change_of(member(at), target, nothing));
        let changes = changes.iter().collect::<Vec<_>>();
        let (number, selection) = (EpochNumber(2), rules::select(&changes, &self.committee));
        let leaders = rules::leaders_without(&selection.base, number, &[], &self.committee);
        let config = rules::ungracious(&selection, number, leaders, &self.committee, EPOCH_LENGTH);
        (self.judge)(&config, &changes, &self.committee, EPOCH_LENGTH)
    }
}

/// X2: a member votes in an epoch after it left. Then members also leave before they vote.
pub fn votes_after_leaving() -> bool {
    Promises { target: Some(EpochNumber(1)), ..Promises::default() }.may_vote()
}

/// X2: a member votes for a configuration of an epoch before the one that it left for. Then members also leave for later epochs.
pub fn echoes_before_target() -> bool {
    Promises { target: Some(EpochNumber(2)), ..Promises::default() }.may_echo(EpochNumber(1))
}

impl Member {
    /// K2: certificates up to a checkpoint are forgotten.
    pub fn with_checkpoint(&self, sn: u64) -> Self {
        let mut after = Self { stable: sn, ..self.clone() };
        after.prepared[..sn as usize].fill(None);
        after
    }
}
