//! Byzantine validators as only Autobahn can have them (feature `kit`), for schedules of whole engines.
//!
//! Each runs the real engine; what leaves is decided here, with the keys of all members at hand. What one of them does wrong is a set of
//! [`Vice`]s; how it attacks a view that it leads is drawn once ([`slots`]). They remember every share that they were shown, so they
//! make every certificate that could be made of them, and two that contradict each other are proof that safety is lost, whoever has
//! executed what.

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

/// By name, as schedules draw them.
pub const NAMES: [&str; 9] =
    ["lane-forker", "discloser", "splitter", "liar", "hoarder", "stale-leader", "late-leader", "copier", "schemer"];

/// What a member does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Vice {
    /// Signs two cars for a position and shows them to different validators.
    Forks,
    /// Shows its cars to f or to the next leader only, and hardly answers questions.
    Hides,
    /// As a leader shows one value to as many as it needs for a certificate, and another one to the others.
    Splits,
    /// Complains at once, denies what it voted for or reports another value, and picks the complaints that make a TC.
    Lies,
    /// Keeps certificates that it could show, or shows them to few, or late.
    Hoards,
    /// As a leader proposes old tips, and before its turn.
    Repeats,
    /// As a leader proposes after others have complained.
    Lingers,
    /// Passes on others' proposals without what makes them valid.
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

/// All of one run. See the module documentation.
pub struct Doubles {
    config: Config,
    committee: Committee,
    context: Context,
    schedule: Schedule,
    members: BTreeMap<ValidatorIndex, &'static [Vice]>,
    known: Known,
    /// How a view that a member leads is attacked.
    plans: BTreeMap<(Slot, View), Plan>,
    /// Who has lied about a view already.
    complained: BTreeSet<(ValidatorIndex, Slot, View)>,
    /// How a view is to end.
    chosen: BTreeMap<(Slot, View), TimeoutQc>,
    /// Slots whose commits are kept secret.
    secret: BTreeSet<Slot>,
    /// What leaves later, by time.
    later: BTreeMap<(Micros, u64), (Vec<usize>, Message)>,
    /// Which of a member's cars is shown to whom.
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

    /// The others that are correct, as far as this gang knows.
    fn correct(&self) -> Vec<usize> {
        self.committee.indices().filter(|other| !self.is_member(*other)).map(ValidatorIndex::as_usize).collect()
    }

    fn everybody(&self) -> Vec<usize> {
        (0..self.committee.size()).collect()
    }

    /// `count` of the correct ones.
    fn some(&self, act: &mut Act<'_>, count: usize) -> Vec<usize> {
        let mut correct = self.correct();
        act.random.shuffle(&mut correct);
        correct.truncate(count);
        correct
    }

    /// Of a certificate of n − f, what is missing besides the members' own shares.
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
