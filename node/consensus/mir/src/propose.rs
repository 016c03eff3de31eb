//! Own batches (N1): when to ask for one, and when an empty one has to do.

use crate::{
    engine::Mir,
    message::{Proposal, Sn},
    rules,
};
use corniche_engine::{Batch, Output, TraceEvent};
use corniche_types::{Bytes, TimestampMs, ValidatorIndex};

pub(crate) struct Proposer {
    /// A batch of the caller that is not proposed yet.
    held: Option<Batch>,
    /// Time at which the caller was asked for a batch, until it responds.
    wanted_at: Option<TimestampMs>,
    /// Time and bytes of the last own batch.
    last: (TimestampMs, usize),
    /// Time at which the current epoch began.
    entered_at: TimestampMs,
    /// The own number that was proposed last in the current epoch.
    last_sn: Sn,
    /// The highest number that a leader proposed in the current epoch.
    highest: Sn,
}

impl Proposer {
    pub fn new(now: TimestampMs) -> Self {
        Self { held: None, wanted_at: None, last: (TimestampMs(0), 0), entered_at: now, last_sn: Sn(0), highest: Sn(0) }
    }

    /// A leader proposed this number.
    pub fn note_offer(&mut self, sn: Sn) {
        self.highest = self.highest.max(sn);
    }

    /// The highest number that a leader proposed in the current epoch.
    pub fn highest(&self) -> Sn {
        self.highest
    }

    pub fn describe(&self) -> String {
        format!("held {}, wanted at {:?}, last own {}", self.held.is_some(), self.wanted_at, self.last_sn)
    }
}

impl Mir {
    /// The caller's batch. It waits for the next own number.
    pub(crate) fn handle_batch(&mut self, batch: Batch) {
        self.proposer.wanted_at = None;
        let is_leader = self.epoch.leaders.contains(&self.me);
        match self.proposer.held {
            None if is_leader => self.proposer.held = Some(batch),
            _ => self.requeue(batch.bytes),
        }
    }

    /// A new epoch begins, perhaps with other leaders. A batch of a member that does not lead returns to the pool, so that others
    /// may propose it.
    pub(crate) fn restart_proposals(&mut self, highest: Sn) {
        (self.proposer.entered_at, self.proposer.last_sn, self.proposer.highest) = (self.now, Sn(0), highest);
        self.bodies.forget_late_leaders();
        self.outputs.push_back(Output::Proposers(self.epoch.leaders.iter().copied().collect()));
        if !self.epoch.leaders.contains(&self.me)
            && let Some(batch) = self.proposer.held.take()
        {
            self.requeue(batch.bytes);
        }
    }

    /// X8: the next own number, if this member may propose it now or later without further events.
    fn own_number(&self) -> Option<Sn> {
        if !self.is_normal() || !self.epoch.leaders.contains(&self.me) {
            return None;
        }
        let from = self.proposer.last_sn.next().max(self.epoch.first).max(self.stable().next());
        let is_unused = |sn: &Sn| !self.is_committed(*sn) && self.instances.get(sn).is_none_or(|it| it.offered.is_none());
        let sn = self.led_numbers(self.me, from, self.window_end()).find(is_unused)?;
        let open = self.led_numbers(self.me, self.order.sn().next(), sn).filter(|sn| self.is_offered(*sn)).count();
        (self.may_vote() && (open as u64) < self.config.open_batches).then_some(sn)
    }

    /// A leader proposed this number.
    pub(crate) fn is_offered(&self, sn: Sn) -> bool {
        self.instances.get(&sn).is_some_and(|instance| instance.offered.is_some())
    }

    /// The numbers within these bounds that a member leads.
    pub(crate) fn led_numbers(&self, member: ValidatorIndex, from: Sn, to: Sn) -> impl Iterator<Item = Sn> {
        let (step, last) = (self.epoch.leaders.len(), self.epoch.last.unwrap_or(to).min(to));
        let first = rules::next_led(&self.epoch, member, from, &self.committee);
        first.into_iter().flat_map(move |first| (first.0..=last.0).step_by(step.max(1))).map(Sn)
    }

    /// The time from which the next batch may be proposed.
    fn interval_end(&self) -> TimestampMs {
        let (at, bytes) = self.proposer.last;
        TimestampMs(at.0.saturating_add(self.config.interval_ms(bytes)))
    }

    /// The time at which an empty batch is proposed: soon if others wait for this number, otherwise when this leader was idle for
    /// long (M33). The caller always has `fill_ms` to respond: otherwise its batch would wait a whole interval for the next number.
    fn empty_at(&self, sn: Sn) -> Option<TimestampMs> {
        let wanted_at = self.proposer.wanted_at?;
        let idle = self.proposer.last.0.max(self.proposer.entered_at).0.saturating_add(self.config.idle_ms);
        let fill = wanted_at.0.saturating_add(self.config.fill_ms.min(self.config.idle_ms));
        Some(TimestampMs(if self.proposer.highest > sn { fill } else { idle.max(fill) }).max(self.interval_end()))
    }

    /// N1: proposes for the next own number, or asks for a batch.
    pub(crate) fn propose(&mut self) {
        while let Some(sn) = self.own_number().filter(|_| self.interval_end() <= self.now) {
            if self.proposer.held.is_none() && self.proposer.wanted_at.is_none() {
                self.proposer.wanted_at = Some(self.now);
                let (bytes, gas) = (self.config.batch_bytes, self.config.batch_gas);
                self.outputs.push_back(Output::WantBatch { bytes, gas });
            }
            let batch = match self.proposer.held.take() {
                Some(batch) => batch.bytes,
                None if self.empty_at(sn).is_some_and(|at| at <= self.now) => Bytes::new(),
                None => return,
            };
            self.proposer.last = (self.now, batch.len());
            self.proposer.last_sn = sn;
            self.propose_batch(Proposal { sn, author: self.me, time: self.now, batch });
        }
    }

    fn propose_batch(&mut self, proposal: Proposal) {
        let (sn, digest) = (proposal.sn, self.context.proposal(&proposal));
        self.outputs.push_back(Output::Trace(TraceEvent::Proposed(crate::trace::vertex(&proposal, digest))));
        self.instances.entry(sn).or_default().offered = Some(digest);
        self.proposer.note_offer(sn);
        self.keep_body(digest, proposal);
        // N3: the leader does as others do. Its PRE-PREPARE leaves when the batch is on disk.
        self.accept(sn);
    }

    pub(crate) fn proposal_deadline(&self) -> Option<TimestampMs> {
        let sn = self.own_number()?;
        let at = self.empty_at(sn).unwrap_or_else(|| self.interval_end());
        Some(if self.interval_end() > self.now { self.interval_end() } else { at })
    }
}
