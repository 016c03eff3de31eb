//! Histories and bodies that others hold (Y1–Y5). One holder is asked; when nothing comes, another one too (P15).

use super::{Effect, Lanes, lane::Lane};
use crate::message::{Message, NamedCar, Position, Tip};
use corniche_engine::Recipients;
use corniche_types::{TimestampMs, ValidatorIndex};
use std::{collections::BTreeMap, sync::Arc};

/// What is being fetched, by what it is fetched for.
pub struct Fetches {
    me: Option<ValidatorIndex>,
    retry_ms: u64,
    targets: BTreeMap<Tip, Target>,
}

struct Target {
    /// The highest car of it that is missing; moves down as answers come.
    gap: Tip,
    /// Cars down to above this position are wanted, and none that is executed.
    above: Position,
    /// Who holds it, in the order in which to ask; asked round and round.
    sources: Vec<ValidatorIndex>,
    asked: usize,
    ask_at: TimestampMs,
}

impl Target {
    /// The rest is asked of who gave a part; somebody else is asked at once when the last one asked has nothing, but nobody twice so.
    fn answered(&mut self, now: TimestampMs, from: ValidatorIndex, helped: bool) {
        if helped {
            self.asked = self.sources.iter().position(|source| *source == from).unwrap_or(0);
            self.ask_at = now;
        } else if self.sources.get(self.asked.wrapping_sub(1)) == Some(&from) && self.asked < self.sources.len() {
            self.ask_at = now;
        }
    }
}

impl Fetches {
    pub fn new(me: Option<ValidatorIndex>, retry_ms: u64) -> Self {
        Self { me, retry_ms, targets: BTreeMap::new() }
    }

    pub fn count(&self) -> usize {
        self.targets.len()
    }

    pub fn deadline(&self) -> Option<TimestampMs> {
        self.targets.values().filter(|target| !target.sources.is_empty()).map(|target| target.ask_at).min()
    }

    /// Cars of a lane came, or were executed.
    pub fn refresh(&mut self, lane: ValidatorIndex, held: &Lane) {
        let first = Tip { lane, position: Position(0), digest: Default::default() };
        let of_lane: Vec<Tip> = self.targets.range(first..).map(|(tip, _)| *tip).take_while(|tip| tip.lane == lane).collect();
        for tip in of_lane {
            let target = self.targets.get_mut(&tip).expect("just seen");
            match held.gap(target.gap, target.above) {
                Some(gap) => target.gap = gap,
                None => _ = self.targets.remove(&tip),
            }
        }
    }

    pub fn drop_executed(&mut self, lanes: &[Lane]) {
        self.targets.retain(|tip, _| tip.position > lanes[tip.lane.as_usize()].executed().position);
    }

    /// What is missing of a tip that is being fetched.
    fn gap(&self, tip: &Tip) -> Option<Tip> {
        self.targets.get(tip).map(|target| target.gap)
    }

    /// The highest position below this tip's that a fetch for the same lane ends at.
    fn below(&self, tip: &Tip) -> Position {
        let first = Tip { position: Position(0), digest: Default::default(), ..*tip };
        let end = Tip { digest: Default::default(), ..*tip };
        self.targets.range(first..end).next_back().map_or(Position(0), |(lower, _)| lower.position)
    }

    fn add(&mut self, now: TimestampMs, tip: Tip, gap: Tip, above: Position, sources: &[ValidatorIndex]) {
        let sources = sources.iter().copied().filter(|source| Some(*source) != self.me);
        let target = self.targets.entry(tip).or_insert(Target { gap, above, sources: Vec::new(), asked: 0, ask_at: now });
        // A body was wanted first, and now its history is.
        target.above = target.above.min(above);
        for source in sources {
            if !target.sources.contains(&source) {
                target.sources.push(source);
            }
        }
    }

    /// Whom to ask for what now: `(whom, chain's end, above)`.
    fn due(&mut self, now: TimestampMs) -> Vec<(ValidatorIndex, Tip, Position)> {
        let mut questions = Vec::new();
        for target in self.targets.values_mut().filter(|target| target.ask_at <= now && !target.sources.is_empty()) {
            let whom = target.sources[target.asked % target.sources.len()];
            target.asked += 1;
            // Each round of unanswered questions doubles the patience.
            let rounds = (target.asked / target.sources.len()).min(6);
            target.ask_at = TimestampMs(now.0.saturating_add(self.retry_ms << rounds));
            let question = (whom, target.gap, target.above);
            if !questions.contains(&question) {
                questions.push(question);
            }
        }
        questions
    }
}

impl Lanes {
    /// Y1: the history of a tip that these validators hold, above a position and above what is executed.
    pub fn fetch_history(&mut self, now: TimestampMs, tip: Tip, above: Position, sources: &[ValidatorIndex]) {
        self.fetch(now, tip, above, sources);
    }

    /// Y2: the same for a tip that is not committed yet. What is being fetched for a lower tip of the lane is most likely part of it.
    pub fn prefetch(&mut self, now: TimestampMs, tip: Tip, sources: &[ValidatorIndex]) {
        self.fetch(now, tip, self.fetches.below(&tip), sources);
    }

    /// Y4: the body of a tip that is not certified, and nothing below.
    pub fn fetch_body(&mut self, now: TimestampMs, tip: Tip, source: ValidatorIndex) {
        self.fetch(now, tip, tip.position.before(), &[source]);
    }

    fn fetch(&mut self, now: TimestampMs, tip: Tip, above: Position, sources: &[ValidatorIndex]) {
        let from = self.fetches.gap(&tip).unwrap_or(tip);
        if let Some(gap) = self.lane(tip.lane).gap(from, above) {
            self.fetches.add(now, tip, gap, above, sources);
            self.ask(now);
        }
    }

    /// D4: the car before is certified and unknown here.
    pub(super) fn fetch_certified(&mut self, now: TimestampMs, lane: ValidatorIndex) {
        if let Some(certificate) = self.lane(lane).certified().cloned() {
            self.prefetch(now, certificate.tip, &certificate.proof.signers);
        }
    }

    pub(super) fn ask(&mut self, now: TimestampMs) {
        for (whom, tip, above) in self.fetches.due(now) {
            let lane = self.lane(tip.lane);
            // What we support is most likely on the same chain; if not, the next question goes deeper.
            let known = [lane.voted().position, lane.executed().position];
            let known = known.into_iter().filter(|known| *known < tip.position).max().unwrap_or(Position(0));
            let message = Message::FetchCars { tip, above: above.max(known) };
            self.effects.push_back(Effect::Send { to: Recipients::One(whom), message: Box::new(message) });
        }
    }

    /// SYNC-REPLY: a verified chain that ends at `tip`; nothing when the sender does not hold it. What nobody asked for is dropped.
    pub fn take_cars(&mut self, now: TimestampMs, from: ValidatorIndex, tip: Tip, cars: &[Arc<NamedCar>]) {
        let mut wanted = self.fetches.targets.values_mut().filter(|target| target.gap == tip).peekable();
        if wanted.peek().is_none() {
            return;
        }
        wanted.for_each(|target| target.answered(now, from, !cars.is_empty()));
        for car in cars.iter().rev() {
            self.report_fork(car);
            self.insert(car.clone());
        }
        self.advance(tip.lane);
        self.ask(now);
    }
}
