//! Byzantine validators specific to Autobahn, for schedules of whole engines.
//!
//! Each runs the real engine. This module decides which messages are sent, and has the keys of all members. The
//! misbehaviour of a member is a set of [`Misbehaviour`]s. The attack on a view that a member leads is drawn once ([`slots`]).
//! The doubles remember every share they saw, and make every certificate that is possible from these. Two contradicting
//! certificates prove a loss of safety, even before execution.

mod conduct;
mod knowledge;
mod lanes;
mod slots;

pub use conduct::ConductChecker;

use corniche_autobahn::{
    Config,
    message::{Context, Message, Slot, TimeoutQc, View},
    rules::Schedule,
};
use corniche_engine::Committee;
use corniche_testkit::{Coalition, MemberContext, Micros};
use corniche_types::{Bytes, ValidatorIndex, Votes, wire};
use knowledge::Knowledge;
use lanes::Disclosure;
use slots::LeaderAttack;
use std::collections::{BTreeMap, BTreeSet};

/// Names of the doubles, in the order used by schedules.
pub const NAMES: [&str; 9] =
    ["lane-forker", "discloser", "splitter", "liar", "hoarder", "stale-leader", "late-leader", "copier", "schemer"];

/// One kind of misbehaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Misbehaviour {
    /// Signs two cars for a position and shows them to different validators.
    ForkLanes,
    /// Shows its cars only to as many as a certificate needs or to the next leader, and hardly responds to requests.
    WithholdCars,
    /// As a leader, shows one value to as many as a certificate needs, and another one to the others.
    EquivocatePrepares,
    /// Complains at once, denies its votes or reports another value, and picks the complaints that make a TC.
    FalseTimeouts,
    /// Withholds certificates, or shows them to few validators, or late.
    WithholdCertificates,
    /// As a leader, proposes old tips, and proposes before its turn.
    StaleTips,
    /// As a leader, proposes after others have complained.
    LatePrepares,
    /// Forwards others' proposals without the parts that make them valid.
    StripProofs,
}

fn misbehaviours(name: &str) -> &'static [Misbehaviour] {
    match name {
        "lane-forker" => &[Misbehaviour::ForkLanes],
        "discloser" => &[Misbehaviour::WithholdCars],
        "splitter" => &[Misbehaviour::EquivocatePrepares],
        "liar" => &[Misbehaviour::FalseTimeouts],
        "hoarder" => &[Misbehaviour::WithholdCertificates],
        "stale-leader" => &[Misbehaviour::StaleTips],
        "late-leader" => &[Misbehaviour::LatePrepares, Misbehaviour::FalseTimeouts],
        "copier" => &[Misbehaviour::StripProofs],
        _ => &[
            Misbehaviour::ForkLanes,
            Misbehaviour::WithholdCars,
            Misbehaviour::EquivocatePrepares,
            Misbehaviour::FalseTimeouts,
            Misbehaviour::WithholdCertificates,
            Misbehaviour::StaleTips,
            Misbehaviour::LatePrepares,
            Misbehaviour::StripProofs,
        ],
    }
}

/// All doubles of one run.
pub struct ByzantineCoalition {
    config: Config,
    committee: Committee,
    context: Context,
    schedule: Schedule,
    members: BTreeMap<ValidatorIndex, &'static [Misbehaviour]>,
    knowledge: Knowledge,
    /// Attacks on views that a member leads.
    attacks: BTreeMap<(Slot, View), LeaderAttack>,
    /// Members that already lied about a view.
    timeouts_sent: BTreeSet<(ValidatorIndex, Slot, View)>,
    /// The TC chosen to end a view.
    chosen: BTreeMap<(Slot, View), TimeoutQc>,
    /// Slots whose commits are kept secret.
    withheld_commits: BTreeSet<Slot>,
    /// Delayed messages, by time.
    later: BTreeMap<(Micros, u64), (Vec<usize>, Message)>,
    /// The audience of each of a member's cars.
    disclosures: BTreeMap<(ValidatorIndex, u64), Disclosure>,
    sequence: u64,
}

impl ByzantineCoalition {
    pub fn new(config: Config, committee: Committee, members: &BTreeMap<usize, &'static str>) -> Self {
        let members: BTreeMap<_, _> = members.iter().map(|(identity, name)| (index(*identity), misbehaviours(name))).collect();
        Self {
            context: Context::new(&committee),
            schedule: Schedule::new(&committee, &config),
            knowledge: Knowledge::new(&committee, members.keys().copied().collect()),
            config,
            committee,
            members,
            attacks: BTreeMap::new(),
            timeouts_sent: BTreeSet::new(),
            chosen: BTreeMap::new(),
            withheld_commits: BTreeSet::new(),
            later: BTreeMap::new(),
            disclosures: BTreeMap::new(),
            sequence: 0,
        }
    }

    fn has(&self, member: ValidatorIndex, misbehaviour: Misbehaviour) -> bool {
        self.members.get(&member).is_some_and(|misbehaviours| misbehaviours.contains(&misbehaviour))
    }

    fn is_member(&self, validator: ValidatorIndex) -> bool {
        self.members.contains_key(&validator)
    }

    /// Validators that are correct, as far as this coalition knows.
    fn correct(&self) -> Vec<usize> {
        self.committee.indices().filter(|other| !self.is_member(*other)).map(ValidatorIndex::as_usize).collect()
    }

    fn all_validators(&self) -> Vec<usize> {
        (0..self.committee.size()).collect()
    }

    /// `count` random correct validators.
    fn random_correct(&self, ctx: &mut MemberContext<'_>, count: usize) -> Vec<usize> {
        let mut correct = self.correct();
        ctx.random.shuffle(&mut correct);
        correct.truncate(count);
        correct
    }

    /// Random correct validators with this number of votes.
    fn random_correct_with(&self, ctx: &mut MemberContext<'_>, votes: Votes) -> Vec<usize> {
        let order = self.random_correct(ctx, usize::MAX);
        self.committee.take_votes(order.into_iter().map(index), votes).into_iter().map(ValidatorIndex::as_usize).collect()
    }

    /// Votes that a quorum needs besides those of the members.
    fn missing_votes(&self) -> Votes {
        self.committee.quorum() - self.committee.weigh(self.members.keys().copied())
    }

    fn send_later(&mut self, at: Micros, to: Vec<usize>, message: Message) {
        self.sequence += 1;
        self.later.insert((at, self.sequence), (to, message));
    }

    fn send_due(&mut self, ctx: &mut MemberContext<'_>) {
        while let Some(first) = self.later.first_entry().filter(|first| first.key().0 <= ctx.now) {
            let (to, message) = first.remove();
            if let Message::Commit(certificate) = &message {
                self.withheld_commits.remove(&certificate.slot);
            }
            ctx.send(to, message.encode());
        }
    }
}

impl Coalition for ByzantineCoalition {
    fn on_receive(&mut self, ctx: &mut MemberContext<'_>, from: usize, bytes: &Bytes) -> bool {
        self.send_due(ctx);
        let Ok(message) = wire::decode::<Message>(bytes) else { return true };
        self.learn(ctx, index(from), &message);
        self.on_receive_lanes(ctx, from, &message) && self.on_receive_slots(ctx, index(from), &message)
    }

    fn on_send(&mut self, ctx: &mut MemberContext<'_>, to: &[usize], bytes: &Bytes) {
        self.send_due(ctx);
        let message = wire::decode::<Message>(bytes).expect("the engine encoded it");
        self.learn(ctx, index(ctx.me), &message);
        if !self.on_send_lanes(ctx, to, &message) && !self.on_send_slots(ctx, to, &message) {
            ctx.send(to.iter().copied(), bytes.clone());
        }
    }
}

impl ByzantineCoalition {
    fn learn(&mut self, ctx: &mut MemberContext<'_>, from: ValidatorIndex, message: &Message) {
        self.knowledge.learn(from, message);
        if let Some(contradiction) = self.knowledge.contradiction.take() {
            ctx.report_violation(contradiction);
        }
        let old = Slot(self.knowledge.top.0.saturating_sub(knowledge::RETAINED_SLOTS));
        self.attacks = self.attacks.split_off(&(old, View(0)));
        self.chosen = self.chosen.split_off(&(old, View(0)));
    }
}

fn index(identity: usize) -> ValidatorIndex {
    ValidatorIndex(u16::try_from(identity).expect("the committee size fits the index type"))
}
