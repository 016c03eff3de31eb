//! Checks everything that a correct validator sends against the rules of conduct (3.11 of the specification).

use corniche_autobahn::{
    Config,
    message::{Context, Message, Report, Slot, Tip, View},
    order::Order,
    rules::Schedule,
};
use corniche_engine::{Committee, Ordered, Resume};
use corniche_testkit::MessageChecker;
use corniche_types::{B256, Bytes, ValidatorIndex, wire};
use std::collections::BTreeMap;

/// Remembers everything that each validator has sent.
pub struct ConductChecker {
    context: Context,
    schedule: Schedule,
    config: Config,
    committee: Committee,
    /// The executed tip of every lane at some validator.
    executed: Vec<Tip>,
    validators: BTreeMap<usize, SentMessages>,
}

#[derive(Default)]
struct SentMessages {
    /// PREPAREs, votes, acknowledgements: one value each.
    values: BTreeMap<(Kind, Slot, View), B256>,
    /// Votes for cars: one per position.
    held: BTreeMap<(ValidatorIndex, u64), B256>,
    /// For each slot: the last view given up, and its report.
    timeouts: BTreeMap<Slot, (View, Report)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Proposal,
    Vote,
    WeakVote,
    Acknowledgement,
}

impl ConductChecker {
    pub fn new(config: &Config, committee: &Committee) -> Self {
        let (context, schedule) = (Context::new(committee), Schedule::new(committee, config));
        let executed = committee.indices().map(|lane| context.start(lane)).collect();
        let (config, committee) = (config.clone(), committee.clone());
        Self { context, schedule, config, committee, executed, validators: BTreeMap::new() }
    }
}

impl MessageChecker for ConductChecker {
    fn check(&mut self, from: usize, message: &Bytes) -> Result<(), String> {
        let message = wire::decode(message).map_err(|error| error.to_string())?;
        let sent = self.validators.entry(from).or_default();
        match message {
            // D5: a committed car counts as voted for, and its owner needs its certificate to continue.
            Message::CarVote { tip, .. } if self.executed.contains(&tip) => Ok(()),
            Message::CarVote { tip, .. } => sent.check_car_vote(tip),
            Message::Prepare(prepare) => {
                let (slot, view) = (prepare.cut.slot, prepare.view);
                // Validators forward proposals of others.
                let is_own = self.schedule.leader(slot, view).as_usize() == from;
                if is_own { sent.check_vote(Kind::Proposal, slot, view, self.context.cut(&prepare.cut)) } else { Ok(()) }
            }
            Message::PrepareVote { vote, strong: true } => sent.check_vote(Kind::Vote, vote.slot, vote.view, vote.cut),
            Message::PrepareVote { vote, strong: false } => sent.check_vote(Kind::WeakVote, vote.slot, vote.view, vote.cut),
            Message::ConfirmAck(vote) => sent.check_vote(Kind::Acknowledgement, vote.slot, vote.view, vote.cut),
            Message::Timeout(timeout) => sent.check_timeout(timeout.slot, timeout.view, timeout.report),
            _ => Ok(()),
        }
    }

    fn on_delivered(&mut self, commit: &Ordered) {
        let resume = Resume { index: commit.index, checkpoint: commit.checkpoint.clone(), ..Resume::default() };
        let Config { open_slots, genesis_time, genesis_randomness, .. } = self.config;
        let start = (genesis_time, genesis_randomness);
        self.executed = Order::new(&resume, &self.committee, self.schedule.clone(), open_slots, start).executed().to_vec();
    }
}

impl SentMessages {
    /// Checks N5.
    fn check_car_vote(&mut self, tip: Tip) -> Result<(), String> {
        let first = *self.held.entry((tip.lane, tip.position.0)).or_insert(tip.digest);
        ensure(first == tip.digest, || format!("N5: votes for two cars of lane {} at position {}", tip.lane, tip.position.0))
    }

    /// Checks N1, N2 and N10.
    fn check_vote(&mut self, kind: Kind, slot: Slot, view: View, value: B256) -> Result<(), String> {
        let place = (kind, slot, view);
        let is_new = !self.values.contains_key(&place);
        let first = *self.values.entry(place).or_insert(value);
        ensure(first == value, || format!("N1, N10: two values in slot {} view {}, {kind:?}", slot.0, view.0))?;
        let Some((_, report)) = self.timeouts.get(&slot).filter(|(given_up, _)| is_new && *given_up >= view) else {
            return Ok(());
        };
        // The votes named in its complaint were given before, but perhaps not sent because power failed.
        let is_named = match kind {
            Kind::Vote => report.voted == Some((view, value)),
            Kind::Acknowledgement => report.confirmed == Some((view, value)),
            // P5: these are not binding.
            Kind::WeakVote | Kind::Proposal => true,
        };
        ensure(is_named, || format!("N2: {kind:?} in slot {} view {} after giving it up", slot.0, view.0))
    }

    /// Checks N4, and that there is one complaint per view.
    fn check_timeout(&mut self, slot: Slot, view: View, report: Report) -> Result<(), String> {
        for (kind, named) in [(Kind::Vote, report.voted), (Kind::Acknowledgement, report.confirmed)] {
            let sent = self.values.range((kind, slot, View(0))..=(kind, slot, view)).next_back();
            let agrees = |last: View, value: B256| named.is_some_and(|(of, named)| of > last || of == last && named == value);
            ensure(sent.is_none_or(|((.., last), value)| agrees(*last, *value)), || {
                format!("N4: its complaint about slot {} view {} is silent on its {kind:?}", slot.0, view.0)
            })?;
        }
        let (last, first) = *self.timeouts.entry(slot).or_insert((view, report));
        ensure(last != view || first == report, || format!("N4: two complaints about slot {} view {}", slot.0, view.0))?;
        if view > last {
            self.timeouts.insert(slot, (view, report));
        }
        Ok(())
    }
}

fn ensure(holds: bool, error: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(error()) }
}
