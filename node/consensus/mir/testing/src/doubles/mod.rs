//! Byzantine validators specific to Mir-BFT, for schedules of whole engines.
//!
//! Each runs the real engine. This module decides which messages are sent, and has the keys of all members. The doubles remember every
//! signature that they saw. Two contradicting certificates prove a loss of safety, even before execution.

mod conduct;
mod knowledge;

pub use conduct::ConductChecker;

use crate::FakeKeys;
use corniche_engine::Committee;
use corniche_mir::{
    Config,
    message::{Context, EpochChange, EpochConfig, EpochNumber, Message, NULL, NewEpoch, Proposal, Sn, Statement, Status},
    rules,
};
use corniche_testkit::{Coalition, MemberContext, derive_bytes};
use corniche_types::{B256, Bytes, ValidatorIndex, wire};
use knowledge::Knowledge;
use std::collections::BTreeMap;

/// Names of the doubles, in the order used by schedules.
pub const NAMES: [&str; 5] = ["splitter", "false-primary", "liar", "hoarder", "schemer"];

/// Random sets of EPOCH-CHANGEs that a false primary tries.
const MAX_TRIES: usize = 8;

/// One kind of misbehaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Misbehaviour {
    /// As a leader, shows two batches of a number to two halves; all members vote for both.
    SplitBatches,
    /// As a primary, offers configurations that do not follow, or two that do, or one to few.
    FalseConfigurations,
    /// Reports false progress, batches and checkpoints, and EPOCH-CHANGEs that leave out certificates.
    FalseReports,
    /// Shows batches, COMMITs and ECHOs to few.
    HideVotes,
}

fn misbehaviours(name: &str) -> &'static [Misbehaviour] {
    match name {
        "splitter" => &[Misbehaviour::SplitBatches],
        "false-primary" => &[Misbehaviour::FalseConfigurations],
        "liar" => &[Misbehaviour::FalseReports],
        "hoarder" => &[Misbehaviour::HideVotes],
        _ => &[
            Misbehaviour::SplitBatches,
            Misbehaviour::FalseConfigurations,
            Misbehaviour::FalseReports,
            Misbehaviour::HideVotes,
        ],
    }
}

/// Two versions of something, each for some validators.
struct Split<T> {
    versions: [T; 2],
    /// The validators that see the second version.
    second: Vec<usize>,
}

impl<T> Split<T> {
    fn shown_to(&self, validator: usize) -> &T {
        &self.versions[usize::from(self.second.contains(&validator))]
    }
}

/// All doubles of one run.
pub struct ByzantineCoalition {
    config: Config,
    committee: Committee,
    context: Context,
    members: BTreeMap<ValidatorIndex, &'static [Misbehaviour]>,
    knowledge: Knowledge,
    /// Numbers that a member leads, with two batches.
    batches: BTreeMap<(EpochNumber, Sn), Split<Proposal>>,
    /// Epochs that a member is the primary of, with two offers.
    offers: BTreeMap<EpochNumber, Split<NewEpoch>>,
}

impl ByzantineCoalition {
    pub fn new(config: Config, committee: Committee, members: &BTreeMap<usize, &'static str>) -> Self {
        let members: BTreeMap<_, _> = members.iter().map(|(identity, name)| (index(*identity), misbehaviours(name))).collect();
        Self {
            context: Context::new(&committee),
            knowledge: Knowledge::new(&committee, members.keys().copied().collect()),
            config,
            committee,
            members,
            batches: BTreeMap::new(),
            offers: BTreeMap::new(),
        }
    }

    fn has(&self, member: ValidatorIndex, misbehaviour: Misbehaviour) -> bool {
        self.members.get(&member).is_some_and(|misbehaviours| misbehaviours.contains(&misbehaviour))
    }

    /// Validators that are correct, as far as this coalition knows, in random order.
    fn correct(&self, ctx: &mut MemberContext<'_>) -> Vec<usize> {
        let others = self.committee.indices().filter(|other| !self.members.contains_key(other));
        let mut correct: Vec<_> = others.map(ValidatorIndex::as_usize).collect();
        ctx.random.shuffle(&mut correct);
        correct
    }

    /// Two versions: the first one for members and as many others as a quorum needs, or a few less or more.
    fn split<T>(&self, ctx: &mut MemberContext<'_>, versions: [T; 2]) -> Split<T> {
        let order = self.correct(ctx);
        let missing = self.committee.quorum() - self.committee.weigh(self.members.keys().copied());
        let needed = self.committee.take_votes(order.iter().copied().map(index), missing).len();
        let first = if ctx.random.one_in(3) { ctx.random.below(order.len() as u64 + 1) as usize } else { needed };
        Split { versions, second: order[first.min(order.len())..].to_vec() }
    }

    fn sign(&self, member: ValidatorIndex, statement: &Statement) -> [u8; 64] {
        assert!(self.members.contains_key(&member), "only members' keys are available");
        FakeKeys(member).sign_digest(&self.context.digest(statement))
    }

    // ---- batches -------------------------------------------------------------------------------------------------------------

    fn pre_prepare(&self, epoch: EpochNumber, proposal: &Proposal) -> Message {
        let digest = self.context.proposal(proposal);
        let signature = self.sign(proposal.author, &Statement::Prepare { epoch, sn: proposal.sn, digest });
        Message::PrePrepare { epoch, proposal: proposal.clone(), signature }
    }

    fn send_batch(&mut self, ctx: &mut MemberContext<'_>, to: &[usize], epoch: EpochNumber, proposal: Proposal) {
        let (me, place) = (index(ctx.me), (epoch, proposal.sn));
        if !self.batches.contains_key(&place) && self.has(me, Misbehaviour::SplitBatches) && ctx.random.one_in(3) {
            let batch = if ctx.random.one_in(2) { proposal.batch.clone() } else { Bytes::new() };
            let other =
                Proposal { batch, time: corniche_types::TimestampMs(proposal.time.0.saturating_sub(1)), ..proposal.clone() };
            let split = self.split(ctx, [proposal.clone(), other]);
            self.batches.insert(place, split);
        }
        if let Some(split) = self.batches.get(&place) {
            for to in to {
                let message = self.pre_prepare(epoch, split.shown_to(*to));
                self.knowledge.learn(me, &message);
                ctx.send([*to], message.encode());
            }
            return;
        }
        let hides = self.has(me, Misbehaviour::HideVotes) && ctx.random.one_in(8);
        let shown: Vec<_> = to.iter().copied().filter(|_| !hides || ctx.random.one_in(2)).collect();
        ctx.send(shown, self.pre_prepare(epoch, &proposal).encode());
    }

    /// Votes for the batch that each validator saw.
    fn send_vote(&self, ctx: &mut MemberContext<'_>, to: &[usize], message: &Message) {
        let me = index(ctx.me);
        let (Message::Prepare { epoch, sn, .. } | Message::Commit { epoch, sn, .. }) = *message else { return };
        let Some(split) = self.batches.get(&(epoch, sn)) else {
            let hides = self.has(me, Misbehaviour::HideVotes) && ctx.random.one_in(3);
            let only = self.correct(ctx).into_iter().next();
            ctx.send(to.iter().copied().filter(|to| !hides || Some(*to) == only), message.encode());
            return;
        };
        for to in to {
            let digest = self.context.proposal(split.shown_to(*to));
            let vote = match message {
                Message::Commit { .. } => Message::Commit { epoch, sn, digest },
                _ => {
                    Message::Prepare { epoch, sn, digest, signature: self.sign(me, &Statement::Prepare { epoch, sn, digest }) }
                }
            };
            ctx.send([*to], vote.encode());
        }
    }

    // ---- configurations ------------------------------------------------------------------------------------------------------

    fn send_offer(&mut self, ctx: &mut MemberContext<'_>, to: &[usize], offer: NewEpoch) {
        let epoch = offer.config.epoch;
        if !self.offers.contains_key(&epoch) {
            let other = match ctx.random.below(4) {
                0 => self.false_offer(ctx, &offer),
                1 => offer.clone(),
                _ => self.harmful_offer(ctx, &offer).unwrap_or_else(|| self.false_offer(ctx, &offer)),
            };
            let split = self.split(ctx, [offer, other]);
            self.offers.insert(epoch, split);
        }
        let Some(split) = self.offers.get(&epoch) else { return };
        // Equal versions: the others get none.
        let is_partial = split.versions[0] == split.versions[1];
        for to in to.iter().filter(|to| !is_partial || !split.second.contains(to)) {
            ctx.send([*to], Message::NewEpoch(Box::new(split.shown_to(*to).clone())).encode());
        }
    }

    /// A configuration that does not follow from its EPOCH-CHANGEs.
    fn false_offer(&self, ctx: &mut MemberContext<'_>, offer: &NewEpoch) -> NewEpoch {
        let mut selection = rules::Selection {
            base: rules::first_epoch(&self.committee),
            start: offer.config.start,
            listed: offer.config.listed.clone(),
        };
        let mut leaders = offer.config.leaders.clone();
        match ctx.random.below(4) {
            0 => selection.listed.iter_mut().for_each(|digest| *digest = NULL),
            1 => _ = selection.listed.pop(),
            2 => selection.start = selection.start.plus(self.config.checkpoint_interval),
            _ => leaders = vec![index(ctx.me)],
        }
        let config = self.configuration(&selection, offer.config.epoch, leaders);
        NewEpoch { config, changes: offer.changes.clone() }
    }

    fn configuration(&self, selection: &rules::Selection, epoch: EpochNumber, leaders: Vec<ValidatorIndex>) -> EpochConfig {
        rules::ungracious(selection, epoch, leaders, &self.committee, self.config.epoch_length)
    }

    /// A valid configuration from other EPOCH-CHANGEs, those of the members without certificates. Prefers one that drops a batch which
    /// may be committed.
    fn harmful_offer(&self, ctx: &mut MemberContext<'_>, offer: &NewEpoch) -> Option<NewEpoch> {
        let epoch = offer.config.epoch;
        let known = self.knowledge.changes(epoch);
        let mut best: Option<(usize, NewEpoch)> = None;
        for _ in 0..MAX_TRIES {
            let mut order: Vec<_> = known.keys().copied().collect();
            ctx.random.shuffle(&mut order);
            let members: Vec<_> = self.members.keys().copied().collect();
            let others = order.into_iter().filter(|sender| !members.contains(sender));
            let missing = self.committee.quorum() - self.committee.weigh(members.iter().copied());
            let others = self.committee.take_votes(others, missing);
            if self.committee.weigh(others.iter().chain(&members).copied()) < self.committee.quorum() {
                return None;
            }
            let mut used: Vec<EpochChange> = others.iter().map(|sender| known[sender].clone()).collect();
            used.extend(members.iter().map(|member| self.empty_change(*member, epoch)));
            used.sort_by_key(|change| change.sender);
            let used: Vec<_> = used.iter().collect();
            let selection = rules::select(&used, &self.committee);
            let leaders = rules::leaders_without(&selection.base, epoch, &[], &self.committee);
            let config = self.configuration(&selection, epoch, leaders);
            let changes = used.iter().map(|change| (change.sender, self.context.change(change))).collect();
            let harm = self.knowledge.dropped(&config);
            if best.as_ref().is_none_or(|(most, _)| harm > *most) {
                best = Some((harm, NewEpoch { config, changes }));
            }
        }
        best.map(|(_, offer)| offer)
    }

    /// An EPOCH-CHANGE that knows nothing.
    fn empty_change(&self, sender: ValidatorIndex, target: EpochNumber) -> EpochChange {
        self.signed_change(EpochChange {
            sender,
            target,
            certificate: None,
            checkpoint: None,
            prepared: Vec::new(),
            signature: [0; 64],
        })
    }

    fn signed_change(&self, mut change: EpochChange) -> EpochChange {
        change.signature = self.sign(change.sender, &Statement::EpochChange(self.context.change(&change)));
        change
    }

    fn send_echo(&self, ctx: &mut MemberContext<'_>, to: &[usize], epoch: EpochNumber, message: &Message) {
        let me = index(ctx.me);
        if let Some(split) = self.offers.get(&epoch) {
            for to in to {
                let config = self.context.config(&split.shown_to(*to).config);
                let signature = self.sign(me, &Statement::Echo { epoch, config });
                ctx.send([*to], Message::Echo { epoch, config, signature }.encode());
            }
        } else if self.has(me, Misbehaviour::HideVotes) && ctx.random.one_in(2) {
            let only = self.correct(ctx).into_iter().next();
            ctx.send(to.iter().copied().filter(|to| Some(*to) == only), message.encode());
        } else {
            ctx.send(to.iter().copied(), message.encode());
        }
    }

    // ---- reports -------------------------------------------------------------------------------------------------------------

    /// A different lie to every validator, or the truth.
    fn send_reports(&self, ctx: &mut MemberContext<'_>, to: &[usize], message: &Message) {
        for to in to {
            let told = if ctx.random.one_in(2) { message.clone() } else { self.lie(ctx, message) };
            ctx.send([*to], told.encode());
        }
    }

    fn lie(&self, ctx: &mut MemberContext<'_>, message: &Message) -> Message {
        let me = index(ctx.me);
        let noise = |ctx: &mut MemberContext<'_>| B256::from(derive_bytes("noise", me.0, &ctx.random.draw().to_le_bytes()));
        match message {
            Message::Status(status) => {
                let far = [1, 2, 40, 1 << 40][ctx.random.below(4) as usize];
                Message::Status(match ctx.random.below(5) {
                    0 => Status { wants: status.wants.plus(far), ..*status },
                    1 => Status { delivered: status.delivered.plus(far), ..*status },
                    2 => Status { stable: status.stable.plus(far), ..*status },
                    3 => Status { seeks: Some(status.epoch.plus(far)), ..*status },
                    _ => Status { epoch: EpochNumber(0), delivered: Sn(0), stable: Sn(0), asks: true, ..*status },
                })
            }
            Message::Committed(committed) => {
                let other = noise(ctx);
                Message::Committed(committed.iter().map(|(sn, _)| (*sn, other)).collect())
            }
            Message::Checkpoint { sn, .. } => {
                let (sn, hash) = (*sn, noise(ctx));
                Message::Checkpoint { sn, hash, signature: self.sign(me, &Statement::Checkpoint { sn, hash }) }
            }
            Message::Body(proposal) => Message::Body(Proposal { batch: noise(ctx).to_vec().into(), ..proposal.clone() }),
            Message::EpochChange(change) if change.sender == me => {
                let mut change = (**change).clone();
                match ctx.random.below(3) {
                    0 => change = self.empty_change(me, change.target),
                    1 => change.prepared.clear(),
                    _ => change.prepared = self.knowledge.certificates(change.stable(), self.config.window, change.target),
                }
                Message::EpochChange(Box::new(self.signed_change(change)))
            }
            _ => message.clone(),
        }
    }

    fn learn(&mut self, ctx: &mut MemberContext<'_>, from: ValidatorIndex, message: &Message) {
        self.knowledge.learn(from, message);
        if let Some(contradiction) = self.knowledge.contradiction.take() {
            ctx.report_violation(contradiction);
        }
    }
}

impl Coalition for ByzantineCoalition {
    fn on_receive(&mut self, ctx: &mut MemberContext<'_>, from: usize, bytes: &Bytes) -> bool {
        let Ok(message) = wire::decode::<Message>(bytes) else { return true };
        self.learn(ctx, index(from), &message);
        true
    }

    fn on_send(&mut self, ctx: &mut MemberContext<'_>, to: &[usize], bytes: &Bytes) {
        let message = wire::decode::<Message>(bytes).expect("the engine encoded it");
        let me = index(ctx.me);
        self.learn(ctx, me, &message);
        match message {
            Message::PrePrepare { epoch, proposal, .. } => self.send_batch(ctx, to, epoch, proposal),
            Message::Prepare { .. } | Message::Commit { .. } => self.send_vote(ctx, to, &message),
            Message::NewEpoch(offer) if self.has(me, Misbehaviour::FalseConfigurations) && !offer.changes.is_empty() => {
                self.send_offer(ctx, to, *offer);
            }
            Message::Echo { epoch, .. } => self.send_echo(ctx, to, epoch, &message),
            _ if self.has(me, Misbehaviour::FalseReports) => self.send_reports(ctx, to, &message),
            _ => ctx.send(to.iter().copied(), bytes.clone()),
        }
    }
}

fn index(identity: usize) -> ValidatorIndex {
    ValidatorIndex(u16::try_from(identity).expect("the committee size fits the index type"))
}
