//! The slots of the log: recorder and proposer of this validator, hedging, decisions.

use crate::{
    engine::{AfterDurable, QuePaxa},
    message::{Answer, Message, Proposal, RequestId, Slot, Tip, Value},
    record::RecordKey,
    rules::{FIRST_STEP, Proposer, Register, Verdict, epoch_of, fastest_first, first_slot},
};
use corniche_engine::{Output, TraceEvent};
use corniche_lanes::{Added, MAX_SLOTS_AHEAD, advance};
use corniche_types::{TimestampMs, ValidatorIndex};
use std::collections::BTreeMap;

/// A slot that this validator drives.
pub(crate) struct Driving {
    proposer: Proposer,
    request: RequestId,
    /// One for each recorder. They are sent again as they are.
    proposals: Vec<Proposal>,
    /// Nothing is sent before the own value is on disk.
    is_durable: bool,
}

impl Driving {
    pub fn step(&self) -> u64 {
        self.proposer.step()
    }
}

/// A slot that this validator would drive once its delay is over (H1, H2).
pub(crate) struct Hedge {
    /// The slot is undecided, or wanted, since then.
    needed_since: TimestampMs,
    /// Start of the delay: it begins again whenever the own recorder advances.
    armed_at: TimestampMs,
    step: u64,
    due: TimestampMs,
}

/// Times until decisions, of the epochs of each leader (B3).
#[derive(Default)]
pub(crate) struct Timing {
    epoch: u64,
    sum: u64,
    count: u64,
    means: BTreeMap<ValidatorIndex, u64>,
}

impl Timing {
    fn add(&mut self, epoch: u64, leader: ValidatorIndex, milliseconds: u64) {
        if epoch < self.epoch {
            return; // Slots of two epochs are open at the border.
        }
        if epoch > self.epoch {
            *self = Self { epoch, sum: 0, count: 0, means: std::mem::take(&mut self.means) };
        }
        (self.sum, self.count) = (self.sum.saturating_add(milliseconds), self.count + 1);
        // In µs, so that fast networks have differences, too.
        self.means.insert(leader, self.sum.saturating_mul(1_000) / self.count);
    }
}

/// Recorder.
impl QuePaxa {
    pub(crate) fn handle_record(&mut self, from: ValidatorIndex, request: RequestId, proposal: Proposal) {
        let slot = request.slot;
        if self.send_decision(from, slot) {
            return;
        }
        if slot.0 > self.decisions.contiguous().0 + MAX_SLOTS_AHEAD {
            // The proposer knows decisions that are missing here.
            return self.send_progress(from);
        }
        if !self.silence.allows(slot) || slot <= self.decisions.contiguous() {
            return;
        }
        let newest =
            self.requests.get(&(slot, from)).is_none_or(|(known, _)| (known.run, known.step) <= (request.run, request.step));
        if newest {
            self.requests.insert((slot, from), (request, proposal));
        }
    }

    /// O4: the proposer of a decided slot learns the decision instead. Returns false if the slot is open.
    fn send_decision(&mut self, to: ValidatorIndex, slot: Slot) -> bool {
        let Some(value) = self.decisions.get(slot) else { return false };
        let values = vec![value.clone()];
        self.send(to, &Message::Decided { first: slot, values });
        true
    }

    /// O5: a recorder answers only with all batches on its disk, so that a quorum has what it decides.
    pub(crate) fn record_waiting_requests(&mut self) {
        let contiguous = self.decisions.contiguous();
        self.requests.retain(|(slot, _), _| *slot > contiguous);
        let keys: Vec<_> = self.requests.keys().copied().collect();
        for key in keys {
            let Some((_, proposal)) = self.requests.get(&key) else { continue };
            let missing = self.exchange.lanes.not_durable(&proposal.value.tips, self.order.tips());
            if self.want_all(missing, key.1)
                && let Some((request, proposal)) = self.requests.remove(&key)
            {
                self.record_now(key.1, request, proposal);
            }
        }
    }

    /// Asks for missing batches. Returns whether there are none.
    fn want_all(&mut self, missing: Vec<(ValidatorIndex, Tip)>, source: ValidatorIndex) -> bool {
        missing.iter().for_each(|(author, tip)| self.want(*author, *tip, source));
        missing.is_empty()
    }

    /// R1–R5. The answer waits for the disk.
    fn record_now(&mut self, from: ValidatorIndex, request: RequestId, proposal: Proposal) {
        let slot = request.slot;
        if self.send_decision(from, slot) {
            return;
        }
        let register = self.registers.entry(slot).or_default();
        let has_changed = register.record(request.step, proposal);
        let Some(answer) = register.answer() else { return };
        if has_changed && let Some(ticket) = self.persist(RecordKey::Register(slot), None) {
            self.writing.insert(slot, ticket);
        }
        match self.writing.get(&slot) {
            Some(ticket) => {
                self.waiting.entry(*ticket).or_default().push(AfterDurable::Answer { to: from, request, answer });
            }
            None => self.send_answer(from, request, answer),
        }
    }

    pub(crate) fn send_answer(&mut self, to: ValidatorIndex, request: RequestId, answer: Answer) {
        if to == self.me {
            self.handle_answer(to, request, answer);
        } else {
            self.send(to, &Message::Answer { request, answer, time: self.now });
        }
    }
}

/// Proposer.
impl QuePaxa {
    /// Highest slot that is in use, as far as this validator knows.
    pub(crate) fn highest(&self) -> Slot {
        let registers = self.registers.last_key_value().map(|(slot, _)| *slot);
        let requested = self.requests.last_key_value().map(|((slot, _), _)| *slot);
        [self.decisions.last(), registers, requested, Some(self.decisions.contiguous())]
            .into_iter()
            .flatten()
            .max()
            .unwrap_or_default()
    }

    fn schedule(&self, slot: Slot) -> Option<Vec<ValidatorIndex>> {
        self.leaders.schedule(slot, &self.order, |slot| self.decisions.get(slot))
    }

    /// Tips in decisions and in the registers of open slots: batches up to there need no new slot.
    fn covered(&self) -> Vec<Tip> {
        let mut covered = self.order.tips().to_vec();
        self.decisions.cover(self.order.at(), &mut covered);
        let proposed = self.driving.values().map(|driving| &driving.proposer.proposal().value);
        let recorded = self.registers.values().filter_map(Register::first).map(|proposal| &proposal.value);
        proposed.chain(recorded).for_each(|value| advance(&mut covered, &value.tips));
        covered
    }

    fn has_news(&self) -> bool {
        let tips = self.exchange.lanes.durable_tips(self.order.tips());
        tips.iter().zip(self.covered()).any(|(tip, covered)| tip.number > covered.number)
    }

    /// H1, H2: starts the slots that nobody decides, after the delay of this validator's rank.
    pub(crate) fn drive_slots(&mut self) {
        let contiguous = self.decisions.contiguous();
        self.hedges.retain(|slot, _| *slot > contiguous);
        let highest = self.highest();
        let last = Slot(contiguous.0 + self.config.window);
        let mut slot = contiguous.next();
        while slot <= last {
            let is_open = !self.decisions.contains(slot);
            if is_open && !self.driving.contains_key(&slot) {
                if slot > highest && !(slot == highest.next() && self.has_news()) {
                    self.hedges.remove(&slot);
                    return;
                }
                // X1: nobody leads before the schedule is decided.
                let Some(schedule) = self.schedule(slot) else { return };
                self.hedge(slot, &schedule);
            }
            slot = slot.next();
        }
    }

    fn hedge(&mut self, slot: Slot, schedule: &[ValidatorIndex]) {
        let may_propose = self.silence.allows(slot);
        let rank = schedule.iter().position(|member| *member == self.me).unwrap_or(schedule.len()) as u64;
        let step = self.registers.get(&slot).map_or(0, Register::step);
        let now = self.now;
        let hedge = self.hedges.entry(slot).or_insert(Hedge { needed_since: now, armed_at: now, step, due: now });
        if hedge.step != step {
            // H2, X9: only an advance of the recorder is evidence that somebody drives the slot.
            (hedge.armed_at, hedge.step) = (now, step);
        }
        hedge.due = TimestampMs(hedge.armed_at.0.saturating_add(rank.saturating_mul(self.config.hedge_ms)));
        if hedge.due > now || !may_propose {
            return;
        }
        let is_leader = rank == 0;
        let is_known = self.own_values.contains_key(&slot);
        let Some(value) = self.own_values.get(&slot).cloned().or_else(|| self.value(slot)) else { return };
        let proposer = Proposer::new(self.me, is_leader, value.clone());
        let driving = self.requests_of(slot, proposer, false);
        self.driving.insert(slot, driving);
        self.own_values.insert(slot, value);
        if is_known {
            // From an earlier run of this engine, on disk.
            self.send_requests(slot);
        } else {
            self.persist(RecordKey::Own(slot), Some(AfterDurable::Drive(slot)));
        }
    }

    pub(crate) fn next_hedge(&self) -> Option<TimestampMs> {
        let may_propose = self.proposed_time().is_some();
        let open = self.hedges.iter().filter(|(slot, _)| !self.driving.contains_key(slot) && self.silence.allows(**slot));
        open.map(|(_, hedge)| hedge.due).min().filter(|_| may_propose)
    }

    /// The value that this validator proposes. `None` before it knows the clocks of a majority.
    fn value(&self, slot: Slot) -> Option<Value> {
        let time = self.proposed_time()?;
        let mut tips = self.exchange.lanes.durable_tips(self.order.tips());
        // Never below what is decided: such a value would be wasted.
        self.decisions.cover(self.order.at(), &mut tips);
        let epoch = epoch_of(slot, self.config.epoch_slots);
        let decides_schedule = self.config.tune_leader && slot == first_slot(epoch, self.config.epoch_slots);
        // B4, X15: local times are only proposed.
        let schedule = if decides_schedule { fastest_first(&self.timing.means, &self.committee) } else { Vec::new() };
        Some(Value { time, tips, schedule })
    }

    fn requests_of(&mut self, slot: Slot, proposer: Proposer, is_durable: bool) -> Driving {
        let request = RequestId { slot, step: proposer.step(), run: self.run };
        let proposals = self.indices().map(|_| proposer.proposal_for(|| self.draws.draw())).collect();
        Driving { proposer, request, proposals, is_durable }
    }

    /// P2: sends the requests of the current step to all recorders that did not answer.
    pub(crate) fn send_requests(&mut self, slot: Slot) {
        let Some(driving) = self.driving.get_mut(&slot) else { return };
        driving.is_durable = true;
        let request = driving.request;
        let unanswered: Vec<(ValidatorIndex, Proposal)> = self
            .committee
            .indices()
            .zip(&driving.proposals)
            .filter(|(recorder, _)| !driving.proposer.has_answer_of(*recorder))
            .map(|(recorder, proposal)| (recorder, proposal.clone()))
            .collect();
        for (recorder, proposal) in unanswered {
            if recorder == self.me {
                self.handle_record(recorder, request, proposal);
            } else {
                self.send(recorder, &Message::Record { request, proposal });
            }
        }
    }

    pub(crate) fn resend_requests(&mut self) {
        let slots: Vec<_> = self.driving.iter().filter(|(_, driving)| driving.is_durable).map(|(slot, _)| *slot).collect();
        slots.into_iter().for_each(|slot| self.send_requests(slot));
    }

    pub(crate) fn handle_answer(&mut self, from: ValidatorIndex, request: RequestId, answer: Answer) {
        if self.driving.get(&request.slot).is_none_or(|driving| driving.request != request) {
            return; // P5
        }
        let proposals = [Some(&answer.first), answer.highest_before.as_ref()];
        let tips = proposals.into_iter().flatten().map(|proposal| &proposal.value.tips);
        let missing = tips.flat_map(|tips| self.exchange.lanes.missing(tips, self.order.tips())).collect();
        if !self.want_all(missing, from) {
            // Otherwise it could take over a value that nobody alive has the batches of.
            self.answers.insert((request.slot, from), (request, answer));
            return;
        }
        let Some(driving) = self.driving.get_mut(&request.slot) else { return };
        match driving.proposer.answered(from, answer, &self.committee) {
            Verdict::Wait => {}
            Verdict::Next => {
                let proposer = driving.proposer.clone();
                let driving = self.requests_of(request.slot, proposer, true);
                self.driving.insert(request.slot, driving);
                self.send_requests(request.slot);
            }
            Verdict::Decided(value) => {
                let why = if request.step == FIRST_STEP { "leader" } else { "common" };
                if self.decide(request.slot, &value, why) {
                    // P6.
                    self.broadcast(&Message::Decided { first: request.slot, values: vec![value] });
                }
            }
        }
    }

    pub(crate) fn take_waiting_answers(&mut self) {
        let contiguous = self.decisions.contiguous();
        self.answers.retain(|(slot, _), _| *slot > contiguous);
        for ((_, from), (request, answer)) in std::mem::take(&mut self.answers) {
            self.handle_answer(from, request, answer);
        }
    }

    /// P6: a slot is decided. Returns true the first time.
    pub(crate) fn decide(&mut self, slot: Slot, value: &Value, why: &str) -> bool {
        match self.decisions.add(slot, value, self.order.at()) {
            Added::New => {}
            Added::Ignored => return false,
            Added::Contradiction => {
                self.note("agreement-lost", format!("slot {} was decided twice", slot.0));
                return false;
            }
        }
        self.driving.remove(&slot);
        let leader = self.schedule(slot).and_then(|schedule| schedule.first().copied());
        if let (Some(hedge), Some(leader)) = (self.hedges.remove(&slot), leader) {
            let milliseconds = self.now.0.saturating_sub(hedge.needed_since.0);
            self.timing.add(epoch_of(slot, self.config.epoch_slots), leader, milliseconds);
        }
        self.outputs.push_back(Output::Trace(TraceEvent::Decided {
            round: slot.0,
            rank: 0,
            leader: leader.unwrap_or(ValidatorIndex(0)),
            committed: Some(self.context.value(slot, value)),
            why: why.to_owned(),
        }));
        self.persist(RecordKey::Decided(slot), Some(AfterDurable::Decided(slot)));
        true
    }
}
