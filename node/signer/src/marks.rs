//! Rules for signatures, without I/O. The rules are listed in the documentation of the crate.
//!
//! [`Marks`] knows every signature since the process started, and from the last run a record with upper limits. A statement is
//! checked first, which changes nothing, and marked only if it may be signed.

use crate::request::{Refusal, Scope, Statement};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_types::evidence::{Heading, SlotReport, VoteKind};
use corniche_types::{B256, Epoch, Height};
use std::collections::BTreeMap;

/// Rounds, slots and heights that a record covers from the one that needed it: one sync for as many signatures.
pub const RESERVED: u64 = 16;

/// Slots, from the highest one down, in which statements may be signed. An engine has far fewer open ones.
pub const OPEN_SLOTS: u64 = 256;

/// Headers that are remembered, so that their shares can be made again.
const MAX_HEADERS: usize = 256;

/// State that survives a restart. Limits are inclusive; 0 means none, and nothing is signed for 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Record {
    /// Chain id.
    pub chain_id: u64,
    /// Hash of the genesis.
    pub genesis: B256,
    /// First epoch that may be signed. `None` until the first statement is asked for.
    pub open_from: Option<Epoch>,
    /// Greatest epoch with a signature.
    pub epoch: Option<Epoch>,
    /// In this epoch, no block was signed above this round.
    pub round: u64,
    /// In this epoch, position of the last own car.
    pub car: u64,
    /// In this epoch, nothing was signed about slots above this one.
    pub slot: u64,
    /// In all epochs, no header was signed above this height.
    pub height: u64,
}

/// Verdict about a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Verdict {
    /// Permission to sign, or the reason against it.
    pub outcome: Result<(), Refusal>,
    /// Record to make durable before the signature or the refusal leaves. `None` if the last one still covers everything.
    pub record: Option<Record>,
}

/// Marks of a validator. Key sets share them: a validator signs with one key set in each epoch.
#[derive(Clone, Debug)]
pub struct Marks {
    /// The newest record: upper limits of the fields below.
    record: Record,
    /// Epochs from this one are open even without earlier marks, because the operator says so.
    from_epoch: Option<Epoch>,
    /// Statements of the greatest epoch with a signature.
    epoch: EpochMarks,
    /// Highest height with a signature, in all epochs.
    height: u64,
    /// Signed headers of the highest heights.
    headers: BTreeMap<u64, B256>,
}

/// Marks of one epoch.
#[derive(Clone, Debug, Default)]
struct EpochMarks {
    /// Highest round with a signature.
    round: u64,
    /// The block of that round; `None` after a restart.
    heading: Option<Heading>,
    /// Position of the last own car.
    car: u64,
    /// Highest slot with a signature.
    slot: u64,
    /// Slots up to this one are closed, because their marks were lost with an earlier process.
    closed: u64,
    /// Open slots.
    slots: BTreeMap<u64, SlotMarks>,
}

/// Last statement of each kind in a slot: view and value. The engine never enters a view again, so a statement of a lower view
/// is refused and the last one suffices.
#[derive(Clone, Copy, Debug, Default)]
struct SlotMarks {
    prepare: Option<(u32, B256)>,
    strong: Option<(u32, B256)>,
    weak: Option<(u32, B256)>,
    confirmed: Option<(u32, B256)>,
    timeout: Option<(u32, SlotReport)>,
}

impl Marks {
    /// Marks without a past. No statement of the first epoch that is asked about will be signed, unless `from_epoch` opens it.
    pub fn new(chain_id: u64, genesis: B256, from_epoch: Option<Epoch>) -> Self {
        let record = Record { chain_id, genesis, open_from: None, epoch: None, round: 0, car: 0, slot: 0, height: 0 };
        Self::resume(record, from_epoch)
    }

    /// Continues above the limits of a record. Rule Reservation.
    pub fn resume(record: Record, from_epoch: Option<Epoch>) -> Self {
        let Record { round, car, slot, height, .. } = record;
        let epoch = EpochMarks { round, heading: None, car, slot, closed: slot, slots: BTreeMap::new() };
        Self { record, from_epoch, epoch, height, headers: BTreeMap::new() }
    }

    /// Returns the newest record.
    pub fn record(&self) -> Record {
        self.record
    }

    /// Rule Chain: checks that the marks belong to this chain.
    pub fn check_chain(&self, chain_id: u64, genesis: B256) -> Result<(), Refusal> {
        let Record { chain_id: own_id, genesis: own_genesis, .. } = self.record;
        let is_own = (chain_id, genesis) == (own_id, own_genesis);
        if is_own { Ok(()) } else { Err(Refusal::OtherChain { chain_id: own_id, genesis: own_genesis }) }
    }

    /// Decides about a statement, and marks it as signed if it may be signed.
    pub fn admit(&mut self, scope: &Scope, statement: &Statement) -> Verdict {
        let before = self.record;
        let outcome = self.check_and_mark(scope, statement);
        Verdict { outcome, record: Some(self.record).filter(|record| *record != before) }
    }

    /// Returns unreserved limits, for a clean stop. `None` if the last record has them.
    pub fn close(&mut self) -> Option<Record> {
        let before = self.record;
        (self.record.round, self.record.slot, self.record.height) = (self.epoch.round, self.epoch.slot, self.height);
        Some(self.record).filter(|record| *record != before)
    }

    fn check_and_mark(&mut self, scope: &Scope, statement: &Statement) -> Result<(), Refusal> {
        self.check_chain(scope.chain_id, self.record.genesis)?;
        // Rule Epoch.
        if let Some(signed) = self.record.epoch.filter(|signed| scope.epoch < *signed) {
            return Err(Refusal::OldEpoch { signed });
        }
        if matches!(statement, Statement::Notice { .. }) {
            return Ok(());
        }
        self.check_start(scope.epoch)?;
        let is_later = self.record.epoch != Some(scope.epoch);
        if is_later {
            self.check(&EpochMarks::default(), statement)?;
            self.enter(scope.epoch);
        } else {
            self.check(&self.epoch, statement)?;
        }
        self.mark(statement);
        Ok(())
    }

    /// Rule Start. The first epoch that is asked about enters the record, so that a restart does not close another one.
    fn check_start(&mut self, epoch: Epoch) -> Result<(), Refusal> {
        let is_opened = self.from_epoch.is_some_and(|from| epoch >= from);
        let after = Epoch(epoch.0.saturating_add(1));
        let open_from = *self.record.open_from.get_or_insert(if is_opened { epoch } else { after });
        if is_opened || epoch >= open_from { Ok(()) } else { Err(Refusal::NoMarks { open_from }) }
    }

    /// Rule Epoch: closes the earlier ones.
    fn enter(&mut self, epoch: Epoch) {
        self.epoch = EpochMarks::default();
        let Record { chain_id, genesis, open_from, height, .. } = self.record;
        // An epoch with a signature stays open when the operator no longer gives `from_epoch`.
        let open_from = open_from.map(|open_from| open_from.min(epoch));
        self.record = Record { chain_id, genesis, open_from, epoch: Some(epoch), round: 0, car: 0, slot: 0, height };
    }

    fn check(&self, marks: &EpochMarks, statement: &Statement) -> Result<(), Refusal> {
        match *statement {
            Statement::Block(heading) => marks.check_block(&heading),
            Statement::Car { position, .. } => marks.check_car(position),
            Statement::Prepare { slot, view, cut } => marks.slot(slot)?.check_prepare(view, cut),
            Statement::Vote { kind, slot, view, cut, .. } => marks.slot(slot)?.check_vote(kind, view, cut),
            Statement::Timeout { slot, view, report, .. } => marks.slot(slot)?.check_timeout(view, &report),
            Statement::Header { height, hash, .. } => self.check_header(height, hash),
            // Rule Unmarked.
            Statement::CarVote { .. } | Statement::DiskId { .. } | Statement::Notice { .. } => Ok(()),
        }
    }

    fn mark(&mut self, statement: &Statement) {
        match *statement {
            Statement::Block(heading) => {
                (self.epoch.round, self.epoch.heading) = (heading.round, Some(heading));
                reserve(&mut self.record.round, heading.round);
            }
            Statement::Car { position, .. } => {
                self.epoch.car = position;
                self.record.car = position;
            }
            Statement::Prepare { slot, view, cut } => self.slot_mut(slot).prepare = Some((view, cut)),
            Statement::Vote { kind, slot, view, cut, .. } => {
                *self.slot_mut(slot).last_mut(kind) = Some((view, cut));
            }
            Statement::Timeout { slot, view, report, .. } => self.slot_mut(slot).timeout = Some((view, report)),
            Statement::Header { height, hash, .. } => {
                self.height = self.height.max(height.0);
                self.headers.insert(height.0, hash);
                if self.headers.len() > MAX_HEADERS {
                    self.headers.pop_first();
                }
                reserve(&mut self.record.height, height.0);
            }
            Statement::CarVote { .. } | Statement::DiskId { .. } | Statement::Notice { .. } => {}
        }
    }

    /// Rule Header.
    fn check_header(&self, height: Height, hash: B256) -> Result<(), Refusal> {
        let is_allowed = height.0 > self.height || self.headers.get(&height.0) == Some(&hash);
        if is_allowed { Ok(()) } else { Err(Refusal::Height { mark: self.height }) }
    }

    /// Opens a slot that was checked, and forgets those that it closes.
    fn slot_mut(&mut self, slot: u64) -> &mut SlotMarks {
        reserve(&mut self.record.slot, slot);
        self.epoch.slot = self.epoch.slot.max(slot);
        self.epoch.slots = self.epoch.slots.split_off(&self.epoch.closed_through().saturating_add(1));
        self.epoch.slots.entry(slot).or_default()
    }
}

/// Rule Reservation: moves a limit, if necessary, so that it covers a number and those that follow.
fn reserve(limit: &mut u64, number: u64) {
    if number > *limit {
        *limit = number.saturating_add(RESERVED - 1);
    }
}

impl EpochMarks {
    /// Rule Block.
    fn check_block(&self, heading: &Heading) -> Result<(), Refusal> {
        let is_allowed = heading.round > self.round || self.heading == Some(*heading);
        if is_allowed { Ok(()) } else { Err(Refusal::Round { mark: self.round }) }
    }

    /// Rule Car. A node that lost power after a signature and before its own record makes another car of this position. A lane
    /// cannot skip it, and two such cars are no offence.
    fn check_car(&self, position: u64) -> Result<(), Refusal> {
        if position >= self.car { Ok(()) } else { Err(Refusal::Position { mark: self.car }) }
    }

    /// Rule Slot: returns what was signed about an open slot.
    fn slot(&self, slot: u64) -> Result<SlotMarks, Refusal> {
        let mark = self.closed_through();
        if slot <= mark {
            return Err(Refusal::Slot { mark });
        }
        Ok(self.slots.get(&slot).copied().unwrap_or_default())
    }

    /// Highest closed slot.
    fn closed_through(&self) -> u64 {
        self.closed.max(self.slot.saturating_sub(OPEN_SLOTS))
    }
}

impl SlotMarks {
    fn last_mut(&mut self, kind: VoteKind) -> &mut Option<(u32, B256)> {
        match kind {
            VoteKind::Prepared => &mut self.strong,
            VoteKind::PreparedWeakly => &mut self.weak,
            VoteKind::Confirmed => &mut self.confirmed,
        }
    }

    /// Rule Once.
    fn check_prepare(&self, view: u32, cut: B256) -> Result<(), Refusal> {
        check_once(self.prepare, view, cut)
    }

    /// Rules Once and Given up.
    fn check_vote(mut self, kind: VoteKind, view: u32, cut: B256) -> Result<(), Refusal> {
        // The engine repeats a vote for a leader that asks again, also after its TIMEOUT.
        if *self.last_mut(kind) == Some((view, cut)) {
            return Ok(());
        }
        if let Some((mark, _)) = self.timeout.filter(|(mark, _)| view <= *mark) {
            return Err(Refusal::TimedOut { mark });
        }
        match kind {
            VoteKind::Prepared | VoteKind::PreparedWeakly => {
                check_once(self.strong, view, cut)?;
                check_once(self.weak, view, cut)
            }
            VoteKind::Confirmed => check_once(self.confirmed, view, cut),
        }
    }

    /// Rules Once and Report. The report must cover the last votes even if their views are later than the TIMEOUT's: earlier votes
    /// are not remembered.
    fn check_timeout(&self, view: u32, report: &SlotReport) -> Result<(), Refusal> {
        match &self.timeout {
            Some(last) if *last == (view, *report) => return Ok(()),
            Some((mark, _)) if view < *mark => return Err(Refusal::View { mark: *mark }),
            Some((mark, _)) if view == *mark => return Err(Refusal::OtherReport),
            _ => {}
        }
        check_reported(VoteKind::Prepared, self.strong, report.voted)?;
        check_reported(VoteKind::Confirmed, self.confirmed, report.confirmed)
    }
}

/// Rule Once: one value for each view, and no lower view than the last.
fn check_once(last: Option<(u32, B256)>, view: u32, cut: B256) -> Result<(), Refusal> {
    match last {
        Some((mark, _)) if view < mark => Err(Refusal::View { mark }),
        Some((mark, signed)) if view == mark && cut != signed => Err(Refusal::OtherValue { cut: signed }),
        _ => Ok(()),
    }
}

/// Rule Report: the opposite of a forgotten vote ([`Contradiction::holds`](corniche_types::evidence::Contradiction::holds)).
fn check_reported(kind: VoteKind, signed: Option<(u32, B256)>, reported: Option<(u32, B256)>) -> Result<(), Refusal> {
    let Some((view, cut)) = signed else { return Ok(()) };
    let is_named = reported.is_some_and(|(later, named)| later > view || later == view && named == cut);
    if is_named { Ok(()) } else { Err(Refusal::ForgottenVote { kind, view, cut }) }
}

#[cfg(test)]
mod tests;
