//! The slots of the log: acceptor and proposer of this validator, back-off, decisions.

use crate::{
    config::decisions_for_request,
    engine::{AfterDurable, Baxos},
    message::{Answer, Message, Promise, RequestId, Slot, Tip, Try, Value},
    record::RecordKey,
    rules::{Backoff, Proposer, Verdict, Wait, next_try},
};
use corniche_engine::{Output, TraceEvent};
use corniche_lanes::{Added, MAX_SLOTS_AHEAD, advance};
use corniche_types::{TimestampMs, ValidatorIndex};

/// A phase takes at most 2^6 times as long as usual.
const MAX_LATE_PHASES: u32 = 6;

/// A try of this validator.
pub(crate) struct Attempt {
    pub slot: Slot,
    pub proposer: Proposer,
    /// End of the phase (P5). `None` until its request leaves: the own disk is no part of the network.
    pub ends_at: Option<TimestampMs>,
}

impl Attempt {
    fn request(&self) -> RequestId {
        RequestId { slot: self.slot, attempt: self.proposer.attempt() }
    }
}

/// A PROPOSE that waits for batches.
pub(crate) struct WaitingPropose {
    pub request: RequestId,
    pub value: Value,
    pub next: Option<Try>,
    /// The time in the request.
    pub echo: TimestampMs,
    /// It came at this time.
    pub since: TimestampMs,
}

/// Acceptor. It works while the own proposer backs off, too (P8, X8).
impl Baxos {
    /// Returns whether this acceptor takes part in a slot. Proposers of decided slots learn the decisions instead.
    fn takes_part(&mut self, from: ValidatorIndex, slot: Slot) -> bool {
        if slot <= self.decisions.contiguous() || self.decisions.contains(slot) {
            self.send_decisions(from, slot, decisions_for_request(self.committee.size()));
            return false;
        }
        if slot > self.decisions.contiguous().next() {
            // The proposer knows decisions that are missing here.
            self.catch_up(from);
        }
        slot.0 <= self.decisions.contiguous().0 + MAX_SLOTS_AHEAD && self.silence.allows(slot)
    }

    /// A1. The answer waits for the disk.
    pub(crate) fn handle_prepare(&mut self, from: ValidatorIndex, request: RequestId, sent: TimestampMs) {
        if !self.takes_part(from, request.slot) {
            return;
        }
        match self.acceptors.entry(request.slot).or_default().prepare(request.attempt) {
            Some(promise) => {
                let answer = Answer::Promise(promise.accepted);
                let answer = AfterDurable::Answer { to: from, request, answer, echo: sent };
                self.persist(RecordKey::Acceptor(request.slot), Some(answer));
            }
            None => self.refuse(from, request, sent),
        }
    }

    /// M9: NACK.
    fn refuse(&mut self, to: ValidatorIndex, request: RequestId, echo: TimestampMs) {
        let promised = self.acceptors.get(&request.slot).and_then(|acceptor| acceptor.promised);
        // The network may deliver a request twice.
        if let Some(promised) = promised.filter(|promised| self.config.nack && *promised > request.attempt) {
            self.send_answer(to, request, Answer::Refuse { promised }, echo);
        }
    }

    pub(crate) fn handle_propose(&mut self, from: ValidatorIndex, propose: WaitingPropose) {
        let request = propose.request;
        if !self.takes_part(from, request.slot) {
            return;
        }
        let is_refused = self.acceptors.get(&request.slot).is_some_and(|acceptor| !acceptor.allows(request.attempt));
        if is_refused {
            return self.refuse(from, request, propose.echo);
        }
        // A proposer has one PROPOSE open. One that comes again, late, ends none of a higher try.
        let is_late = |known: &WaitingPropose| known.request.slot == request.slot && known.request.attempt > request.attempt;
        if !self.requests.get(&from).is_some_and(is_late) {
            self.requests.insert(from, propose);
        }
    }

    /// An acceptor accepts only with all batches on its disk, so that a quorum has what it decides.
    pub(crate) fn accept_waiting_values(&mut self) {
        let contiguous = self.decisions.contiguous();
        self.requests.retain(|_, propose| propose.request.slot > contiguous);
        let proposers: Vec<_> = self.requests.keys().copied().collect();
        for from in proposers {
            let Some(propose) = self.requests.get(&from) else { continue };
            let missing = self.exchange.lanes.not_durable(&propose.value.tips, self.order.tips());
            if self.want_all(missing, from)
                && let Some(propose) = self.requests.remove(&from)
            {
                self.accept(from, propose);
            }
        }
    }

    /// Asks for missing batches. Returns whether there are none.
    fn want_all(&mut self, missing: Vec<(ValidatorIndex, Tip)>, source: ValidatorIndex) -> bool {
        missing.iter().for_each(|(author, tip)| self.want(*author, *tip, source));
        missing.is_empty()
    }

    /// A2, and A1 for the next slot (P10). The answer waits for the disk.
    fn accept(&mut self, from: ValidatorIndex, propose: WaitingPropose) {
        let WaitingPropose { request, value, next, echo, since } = propose;
        let RequestId { slot, attempt } = request;
        // The wait for batches is no time of the network.
        let echo = TimestampMs(echo.0.saturating_add(self.now.0.saturating_sub(since.0)));
        if self.decisions.contains(slot) {
            return self.send_decisions(from, slot, decisions_for_request(self.committee.size()));
        }
        if !self.acceptors.entry(slot).or_default().propose(attempt, value) {
            return self.refuse(from, request, echo);
        }
        let may_promise = slot.0 < self.decisions.contiguous().0 + MAX_SLOTS_AHEAD && !self.decisions.contains(slot.next());
        let next = next.filter(|_| may_promise).and_then(|next| self.acceptors.entry(slot.next()).or_default().prepare(next));
        if next.is_some() {
            self.persist(RecordKey::Acceptor(slot.next()), None);
        }
        // Records become durable in their order, so this one is the last.
        let answer = AfterDurable::Answer { to: from, request, answer: Answer::Accept { next }, echo };
        self.persist(RecordKey::Acceptor(slot), Some(answer));
    }

    pub(crate) fn send_answer(&mut self, to: ValidatorIndex, request: RequestId, answer: Answer, echo: TimestampMs) {
        if to == self.me {
            // Disks of all acceptors are in the measured times, so the own one is, too.
            self.trips.measure(to, self.now.0.saturating_sub(echo.0));
            self.handle_answer(to, request, answer);
        } else {
            self.send(to, &Message::Answer { request, answer, stamp: self.stamp(echo) });
        }
    }
}

/// Reason for which a proposer starts.
enum Need {
    Nothing,
    /// Others have what is not decided. They may be dead.
    Others,
    /// An own batch is in no value that this validator knows.
    Own,
}

/// Proposer.
impl Baxos {
    /// Highest slot that is in use, as far as this validator knows.
    pub(crate) fn highest(&self) -> Slot {
        let accepting = self.acceptors.last_key_value().map(|(slot, _)| *slot);
        [self.decisions.last(), accepting, Some(self.decisions.contiguous())].into_iter().flatten().max().unwrap_or_default()
    }

    /// P1, P4: what is not decided. All lanes are in every value, so a proposer whose batches are in the value of another one does not
    /// contend, and a batch is not lost when its author's value loses (X9).
    fn need(&self) -> Need {
        let (contiguous, tips) = (self.decisions.contiguous(), self.exchange.lanes.durable_tips(self.order.tips()));
        let mut covered = self.order.tips().to_vec();
        self.decisions.cover(self.order.at(), &mut covered);
        let is_new =
            |author: ValidatorIndex, covered: &[Tip]| tips[author.as_usize()].number > covered[author.as_usize()].number;
        let has_gap = self.decisions.last().is_some_and(|slot| slot > contiguous);
        let has_others = has_gap || self.indices().any(|author| is_new(author, &covered));
        let accepted = self.acceptors.range(contiguous.next()..).filter_map(|(_, acceptor)| acceptor.accepted.as_ref());
        accepted.for_each(|accepted| advance(&mut covered, &accepted.value.tips));
        match (is_new(self.me, &covered), has_others) {
            (true, _) => Need::Own,
            (false, true) => Need::Others,
            (false, false) => Need::Nothing,
        }
    }

    /// P9: the time of a phase. It doubles with timeouts at the highest l: measured times have a maximum, and answers that come later
    /// than any phase would stop the chain.
    fn phase_ms(&self) -> u64 {
        self.rtt_max_ms().saturating_add(self.config.slack_ms).saturating_mul(1 << self.late_phases)
    }

    fn after(&self, ms: u64) -> TimestampMs {
        TimestampMs(self.now.0.saturating_add(ms))
    }

    /// P6, X4: a fresh draw.
    fn wait(&mut self, phases: u64, backoff: Backoff) -> Wait {
        Wait::new(self.now, phases, backoff, self.draws.draw() as u64)
    }

    /// P1: starts a try in the lowest slot that is not known decided.
    pub(crate) fn start_try(&mut self) {
        self.start_at = None;
        let (rtt_ms, phase_ms) = (self.rtt_max_ms(), self.phase_ms());
        self.backoff.calm(self.now.0.saturating_sub(self.failed_at.0), rtt_ms, phase_ms);
        if self.attempt.is_some() {
            return;
        }
        let need = self.need();
        if matches!(need, Need::Nothing) {
            self.help = None;
            return;
        }
        let slot = self.decisions.contiguous().next();
        // Without a quorum, a try would only raise l.
        let connected = self.connected.iter().copied().chain([self.me]);
        let can_succeed = self.committee.weigh(connected) >= self.committee.quorum();
        let Some(time) = self.proposed_time().filter(|_| can_succeed && self.silence.allows(slot)) else { return };
        if self.help.is_none() {
            // Others get the time for two phases, and those that help do not start at once. One of them has a window for itself at an l
            // that fits their number, whatever happened before.
            let helpers = self.committee.size().ilog2() + 1;
            self.help = Some(self.wait(2, self.backoff.at_most(helpers)));
        }
        let is_own = matches!(need, Need::Own);
        let waits = self.help.iter_mut().filter(|_| !is_own).chain(&mut self.pause);
        let start_at = waits.map(|wait| wait.until(rtt_ms, phase_ms)).max().unwrap_or(self.now);
        if start_at > self.now {
            self.start_at = Some(start_at);
            return;
        }
        self.begin(slot, time);
    }

    fn begin(&mut self, slot: Slot, time: TimestampMs) {
        let ahead = self.ahead.take().filter(|ahead| ahead.slot == slot && ahead.proposer.has_promises(&self.committee));
        if let Some(ahead) = ahead
            && self.acceptors.get(&slot).is_some_and(|acceptor| acceptor.allows(ahead.proposer.attempt()))
        {
            // P10: PREPARE came with the PROPOSE of the slot before. It counts for this slot only (X10).
            self.attempt = Some(ahead);
            return self.propose(time);
        }
        let promise = self.promise_itself(slot);
        let attempt = Attempt { slot, proposer: Proposer::new(promise.attempt), ends_at: None };
        let request = attempt.request();
        self.attempt = Some(attempt);
        self.persist(RecordKey::Acceptor(slot), Some(AfterDurable::Prepare(request, promise)));
    }

    /// The own acceptor promises a fresh try. On disk before the PREPARE leaves, so no try is used twice.
    fn promise_itself(&mut self, slot: Slot) -> Promise {
        let (refused_slot, counter) = self.refused;
        let refused = if refused_slot == slot { counter } else { 0 };
        let acceptor = self.acceptors.entry(slot).or_default();
        let attempt = next_try(self.me, acceptor.promised, refused);
        acceptor.prepare(attempt).expect("the next try is above all promises")
    }

    pub(crate) fn send_prepare(&mut self, request: RequestId, promise: Promise) {
        let ends_at = self.after(self.phase_ms());
        let Some(attempt) = self.attempt.as_mut().filter(|attempt| attempt.request() == request) else { return };
        attempt.ends_at = Some(ends_at);
        self.broadcast(&Message::Prepare { request, sent: self.now });
        self.handle_promise(self.me, request.slot, promise);
    }

    /// P2: proposes the value of the highest accepted try, or an own one.
    fn propose(&mut self, time: TimestampMs) {
        let own = self.value(time);
        let Some(attempt) = &mut self.attempt else { return };
        attempt.ends_at = None;
        let request = attempt.request();
        let value = attempt.proposer.choose(own);
        // P10: a fresh try for the next slot.
        let next = self.promise_itself(request.slot.next());
        self.ahead = Some(Attempt { slot: request.slot.next(), proposer: Proposer::new(next.attempt), ends_at: None });
        let next_attempt = next.attempt;
        self.persist(RecordKey::Acceptor(request.slot.next()), Some(AfterDurable::Propose(request, next)));
        let now = self.now;
        self.handle_propose(self.me, WaitingPropose { request, value, next: Some(next_attempt), echo: now, since: now });
    }

    pub(crate) fn send_propose(&mut self, request: RequestId, next: Promise) {
        let ends_at = self.after(self.phase_ms());
        let Some(attempt) = self.attempt.as_mut().filter(|attempt| attempt.request() == request) else { return };
        let Some(value) = attempt.proposer.value().cloned() else { return };
        attempt.ends_at = Some(ends_at);
        self.broadcast(&Message::Propose { request, value, next: Some(next.attempt), sent: self.now });
        self.handle_promise(self.me, request.slot.next(), next);
    }

    /// The value that this validator proposes.
    fn value(&self, time: TimestampMs) -> Value {
        let mut tips = self.exchange.lanes.durable_tips(self.order.tips());
        // Never below what is decided: such a value would be wasted.
        self.decisions.cover(self.order.at(), &mut tips);
        Value { proposer: self.me, time, tips }
    }

    pub(crate) fn handle_answer(&mut self, from: ValidatorIndex, request: RequestId, answer: Answer) {
        match answer {
            Answer::Promise(accepted) => {
                self.handle_promise(from, request.slot, Promise { attempt: request.attempt, accepted });
            }
            Answer::Accept { next } => {
                if let Some(next) = next {
                    self.handle_promise(from, request.slot.next(), next);
                }
                self.handle_accept(from, request);
            }
            Answer::Refuse { promised } => self.handle_refuse(from, request, promised),
        }
    }

    /// P2, for the slot in progress and for the next one (P10).
    fn handle_promise(&mut self, from: ValidatorIndex, slot: Slot, promise: Promise) {
        let request = RequestId { slot, attempt: promise.attempt };
        if ![&self.attempt, &self.ahead].into_iter().flatten().any(|attempt| attempt.request() == request) {
            return; // X3
        }
        let accepted = promise.accepted.as_ref();
        let missing = accepted.map(|accepted| self.exchange.lanes.missing(&accepted.value.tips, self.order.tips()));
        if !self.want_all(missing.unwrap_or_default(), from) {
            // Acceptors would ask this proposer for the batches of a value that it takes over.
            self.promises.insert((slot, from), promise);
            return;
        }
        if let Some(ahead) = self.ahead.as_mut().filter(|ahead| ahead.slot == slot) {
            ahead.proposer.promised(from, promise, &self.committee);
            return;
        }
        let Some(attempt) = &mut self.attempt else { return };
        let verdict = attempt.proposer.promised(from, promise, &self.committee);
        if verdict == Verdict::Promised
            && let Some(time) = self.proposed_time()
        {
            self.propose(time);
        }
    }

    pub(crate) fn take_waiting_promises(&mut self) {
        for ((slot, from), promise) in std::mem::take(&mut self.promises) {
            self.handle_promise(from, slot, promise);
        }
    }

    /// P3.
    fn handle_accept(&mut self, from: ValidatorIndex, request: RequestId) {
        let Some(attempt) = self.attempt.as_mut().filter(|attempt| attempt.request() == request) else { return }; // X3
        if let Verdict::Decided(value) = attempt.proposer.accepted(from, request.attempt, &self.committee) {
            self.backoff.succeeded(); // P7
            let why = if value.proposer == self.me { "proposed" } else { "adopted" };
            self.decide(request.slot, &value, why);
            self.broadcast(&Message::Decided { first: request.slot, values: vec![value] });
        }
    }

    /// M9.
    fn handle_refuse(&mut self, from: ValidatorIndex, request: RequestId, promised: Try) {
        let Some(attempt) = self.attempt.as_mut().filter(|attempt| attempt.request() == request) else { return }; // X3
        let counter = if self.refused.0 == request.slot { self.refused.1 } else { 0 };
        self.refused = (request.slot, counter.max(promised.counter));
        if attempt.proposer.refused(from, request.attempt, &self.committee) == Verdict::Refused {
            self.back_off();
        }
    }

    /// P5: the phase took too long: contention, loss or a crash.
    pub(crate) fn end_phase(&mut self) {
        if self.attempt.as_ref().and_then(|attempt| attempt.ends_at).is_some_and(|at| at <= self.now) {
            if self.backoff.exponent() == self.config.max_exponent {
                self.late_phases = (self.late_phases + 1).min(MAX_LATE_PHASES);
            }
            self.back_off();
        }
    }

    /// P5, X7: every failure is followed by back-off.
    fn back_off(&mut self) {
        self.attempt = None;
        self.ahead = None;
        self.backoff.failed();
        self.failed_at = self.now;
        self.pause = Some(self.wait(0, self.backoff.clone()));
    }

    /// P3: a slot is decided.
    pub(crate) fn decide(&mut self, slot: Slot, value: &Value, why: &str) {
        if slot.0 > self.order.at().0 + self.config.max_undelivered() {
            return;
        }
        match self.decisions.add(slot, value, self.order.at()) {
            Added::New => {}
            Added::Ignored => return,
            Added::Contradiction => {
                self.note("agreement-lost", format!("slot {} was decided twice", slot.0));
                return;
            }
        }
        if self.attempt.as_ref().is_some_and(|attempt| attempt.slot == slot) {
            self.attempt = None;
        }
        // P9: somebody makes progress.
        self.late_phases = self.late_phases.saturating_sub(1);
        self.help = None;
        self.outputs.push_back(Output::Trace(TraceEvent::Decided {
            round: slot.0,
            rank: 0,
            leader: value.proposer,
            committed: Some(self.context.value(slot, value)),
            why: why.to_owned(),
        }));
        self.persist(RecordKey::Decided(slot), Some(AfterDurable::Decided(slot)));
    }
}
