//! Byzantine validators specific to Autobahn (feature `kit`), for schedules of whole engines.
//!
//! Each runs the real engine. This module decides which messages are sent, and has the keys of all members. The
//! misbehaviour of a member is a set of [`Vice`]s. The attack on a view that a member leads is drawn once ([`slots`]).
//! The doubles remember every share they saw, and make every certificate that is possible from these. Two contradicting
//! certificates prove a loss of safety, even before execution.

mod judge;
mod known;
mod lanes;
mod slots;

pub use judge::Conduct;

use crate::{
    Config,
    message::{Context, Message, Slot, TimeoutQc, View},
    rules::Schedule,
};
use corniche_engine::Committee;
use corniche_testkit::{Act, Gang, Micros};
use corniche_types::{Bytes, ValidatorIndex, wire};
use known::Known;
use lanes::Disclosure;
use slots::Plan;
use std::collections::{BTreeMap, BTreeSet};

/// Names of the doubles, in the order used by schedules.
pub const NAMES: [&str; 9] =
    ["lane-forker", "discloser", "splitter", "liar", "hoarder", "stale-leader", "late-leader", "copier", "schemer"];

/// One kind of misbehaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Vice {
    /// Signs two cars for a position and shows them to different validators.
    Forks,
    /// Shows its cars only to f validators or to the next leader, and hardly responds to requests.
    Hides,
    /// As a leader, shows one value to as many as a certificate needs, and another one to the others.
    Splits,
    /// Complains at once, denies its votes or reports another value, and picks the complaints that make a TC.
    Lies,
    /// Withholds certificates, or shows them to few validators, or late.
    Hoards,
    /// As a leader, proposes old tips, and proposes before its turn.
    Repeats,
    /// As a leader, proposes after others have complained.
    Lingers,
    /// Forwards others' proposals without the parts that make them valid.
    Strips,
}

fn vices(name: &str) -> &'static [Vice] {
    match name {
        "lane-forker" => &[Vice::Forks],
        "discloser" => &[Vice::Hides],
        "splitter" => &[Vice::Splits],
        "liar" => &[Vice::Lies],
        "hoarder" => &[Vice::Hoards],
        "stale-leader" => &[Vice::Repeats],
        "late-leader" => &[Vice::Lingers, Vice::Lies],
        "copier" => &[Vice::Strips],
        _ => &[Vice::Forks, Vice::Hides, Vice::Splits, Vice::Lies, Vice::Hoards, Vice::Repeats, Vice::Lingers, Vice::Strips],
    }
}

/// All doubles of one run.
pub struct Doubles {
    config: Config,
    committee: Committee,
    context: Context,
    schedule: Schedule,
    members: BTreeMap<ValidatorIndex, &'static [Vice]>,
    known: Known,
    /// Attacks on views that a member leads.
    plans: BTreeMap<(Slot, View), Plan>,
    /// Members that already lied about a view.
    complained: BTreeSet<(ValidatorIndex, Slot, View)>,
    /// The TC chosen to end a view.
    chosen: BTreeMap<(Slot, View), TimeoutQc>,
    /// Slots whose commits are kept secret.
    secret: BTreeSet<Slot>,
    /// Delayed messages, by time.
    later: BTreeMap<(Micros, u64), (Vec<usize>, Message)>,
    /// The audience of each of a member's cars.
    disclosures: BTreeMap<(ValidatorIndex, u64), Disclosure>,
    sequence: u64,
}

impl Doubles {
    pub fn new(config: Config, committee: Committee, members: &BTreeMap<usize, &'static str>) -> Self {
        let members: BTreeMap<_, _> = members.iter().map(|(identity, name)| (index(*identity), vices(name))).collect();
        Self {
            context: Context::new(&committee),
            schedule: Schedule::new(&committee, &config),
            known: Known::new(&committee, members.keys().copied().collect()),
            config,
            committee,
            members,
            plans: BTreeMap::new(),
            complained: BTreeSet::new(),
            chosen: BTreeMap::new(),
            secret: BTreeSet::new(),
            later: BTreeMap::new(),
            disclosures: BTreeMap::new(),
            sequence: 0,
        }
    }

    fn has(&self, member: ValidatorIndex, vice: Vice) -> bool {
        self.members.get(&member).is_some_and(|vices| vices.contains(&vice))
    }

    fn is_member(&self, validator: ValidatorIndex) -> bool {
        self.members.contains_key(&validator)
    }

    /// Validators that are correct, as far as this gang knows.
    fn correct(&self) -> Vec<usize> {
        self.committee.indices().filter(|other| !self.is_member(*other)).map(ValidatorIndex::as_usize).collect()
    }

    fn everybody(&self) -> Vec<usize> {
        (0..self.committee.size()).collect()
    }

    /// `count` random correct validators.
    fn some(&self, act: &mut Act<'_>, count: usize) -> Vec<usize> {
        let mut correct = self.correct();
        act.random.shuffle(&mut correct);
        correct.truncate(count);
        correct
    }

    /// Number of shares that a certificate of n − f needs besides the members' own.
    fn needed(&self) -> usize {
        self.committee.quorum().saturating_sub(self.members.len())
    }

    fn send_later(&mut self, at: Micros, to: Vec<usize>, message: Message) {
        self.sequence += 1;
        self.later.insert((at, self.sequence), (to, message));
    }

    fn send_due(&mut self, act: &mut Act<'_>) {
        while let Some(first) = self.later.first_entry().filter(|first| first.key().0 <= act.now) {
            let (to, message) = first.remove();
            if let Message::Commit(certificate) = &message {
                self.secret.remove(&certificate.slot);
            }
            act.send(to, message.encode());
        }
    }
}

impl Gang for Doubles {
    fn hear(&mut self, act: &mut Act<'_>, from: usize, bytes: &Bytes) -> bool {
        self.send_due(act);
        let Ok(message) = wire::decode::<Message>(bytes) else { return true };
        self.learn(act, index(from), &message);
        self.hear_of_lanes(act, from, &message) && self.hear_of_slots(act, index(from), &message)
    }

    fn say(&mut self, act: &mut Act<'_>, to: &[usize], bytes: &Bytes) {
        self.send_due(act);
        let message = wire::decode::<Message>(bytes).expect("the engine encoded it");
        self.learn(act, index(act.me), &message);
        if !self.say_of_lanes(act, to, &message) && !self.say_of_slots(act, to, &message) {
            act.send(to.iter().copied(), bytes.clone());
        }
    }
}

impl Doubles {
    fn learn(&mut self, act: &mut Act<'_>, from: ValidatorIndex, message: &Message) {
        self.known.learn(from, message);
        if let Some(contradiction) = self.known.contradiction.take() {
            act.prove(contradiction);
        }
        let old = Slot(self.known.top.0.saturating_sub(known::SLOTS_KEPT));
        self.plans = self.plans.split_off(&(old, View(0)));
        self.chosen = self.chosen.split_off(&(old, View(0)));
    }
}

fn index(identity: usize) -> ValidatorIndex {
    ValidatorIndex(u16::try_from(identity).expect("committees are small"))
}
