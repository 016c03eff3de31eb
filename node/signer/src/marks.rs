//! Rules for signatures, without I/O. The rules are listed in the documentation of the crate.
//!
//! A statement is checked first, which changes nothing, and marked only if it may be signed. [`Record`] is the whole state, so
//! marks that are read back from disk decide like those that were never lost.

use crate::request::{Refusal, Scope, Statement};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_types::evidence::{Heading, SlotReport, VoteKind};
use corniche_types::{B256, Epoch, Height};
use std::collections::BTreeMap;

/// Slots, from the highest one down, in which statements may be signed. An engine has far fewer open ones.
pub const OPEN_SLOTS: u64 = 64;

/// Headers that are remembered, so that their shares can be made again.
const MAX_HEADERS: usize = 64;

/// State that survives a restart: everything that decides about later statements. Its size is bounded by [`OPEN_SLOTS`] and
/// [`MAX_HEADERS`].
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Record {
    /// Chain id.
    chain_id: u64,
    /// Hash of the genesis.
    genesis: B256,
    /// First epoch that may be signed. `None` until the first statement is asked for.
    open_from: Option<Epoch>,
    /// Greatest epoch with a signature.
    epoch: Option<Epoch>,
    /// Statements of this epoch.
    current: EpochMarks,
    /// Signed headers of the highest heights, in all epochs.
    headers: BTreeMap<u64, B256>,
}

/// Marks of one epoch. Nothing is signed for round 0 and slot 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
struct EpochMarks {
    /// Block of the highest round.
    block: Option<Heading>,
    /// Position of the last own car; 0 before the first one.
    car: u64,
    /// Open slots with a signature, also the highest one.
    slots: BTreeMap<u64, SlotMarks>,
}

/// Last statement of each kind in a slot: view and value. The engine never enters a view again, so a statement of a lower view
/// is refused and the last one suffices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
struct SlotMarks {
    prepare: Option<(u32, B256)>,
    strong: Option<(u32, B256)>,
    weak: Option<(u32, B256)>,
    confirmed: Option<(u32, B256)>,
    timeout: Option<(u32, SlotReport)>,
}

/// Verdict about a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Verdict {
    /// Permission to sign, or the reason against it.
    pub outcome: Result<(), Refusal>,
    /// True if [`Marks::record`] must be durable before the signature or the refusal leaves. False for an exact repeat.
    pub is_changed: bool,
}

/// Marks of a validator. Key sets share them: a validator signs with one key set in each epoch.
#[derive(Clone, Debug)]
pub struct Marks {
    record: Record,
    /// Epochs from this one are open even without earlier marks, because the operator says so.
    from_epoch: Option<Epoch>,
}

impl Marks {
    /// Marks without a past. No statement of the first epoch that is asked about will be signed, unless `from_epoch` opens it.
    pub fn new(chain_id: u64, genesis: B256, from_epoch: Option<Epoch>) -> Self {
        let (current, headers) = (EpochMarks::default(), BTreeMap::new());
        Self::resume(Record { chain_id, genesis, open_from: None, epoch: None, current, headers }, from_epoch)
    }

    /// Continues after the last statement of a record.
    pub fn resume(record: Record, from_epoch: Option<Epoch>) -> Self {
        Self { record, from_epoch }
    }

    /// Returns the state.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Rule Chain: checks that the marks belong to this chain.
    pub fn check_chain(&self, chain_id: u64, genesis: B256) -> Result<(), Refusal> {
        let Record { chain_id: own_id, genesis: own_genesis, .. } = self.record;
        let is_own = (chain_id, genesis) == (own_id, own_genesis);
        if is_own { Ok(()) } else { Err(Refusal::OtherChain { chain_id: own_id, genesis: own_genesis }) }
    }

    /// Decides about a statement, and marks it as signed if it may be signed.
    pub fn admit(&mut self, scope: &Scope, statement: &Statement) -> Verdict {
        // At most 128 slots and headers: a copy takes far less time than a signature.
        let before = self.record.clone();
        let outcome = self.check_and_mark(scope, statement);
        Verdict { outcome, is_changed: self.record != before }
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
            self.check(&self.record.current, statement)?;
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
        let Record { open_from, epoch: greatest, current, .. } = &mut self.record;
        // An epoch with a signature stays open when the operator no longer gives `from_epoch`.
        *open_from = open_from.map(|open_from| open_from.min(epoch));
        *greatest = Some(epoch);
        *current = EpochMarks::default();
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
        let Record { current, headers, .. } = &mut self.record;
        match *statement {
            Statement::Block(heading) => current.block = Some(heading),
            Statement::Car { position, .. } => current.car = position,
            Statement::Prepare { slot, view, cut } => current.slot_mut(slot).prepare = Some((view, cut)),
            Statement::Vote { kind, slot, view, cut, .. } => {
                *current.slot_mut(slot).last_mut(kind) = Some((view, cut));
            }
            Statement::Timeout { slot, view, report, .. } => current.slot_mut(slot).timeout = Some((view, report)),
            Statement::Header { height, hash, .. } => {
                headers.insert(height.0, hash);
                if headers.len() > MAX_HEADERS {
                    headers.pop_first();
                }
            }
            Statement::CarVote { .. } | Statement::DiskId { .. } | Statement::Notice { .. } => {}
        }
    }

    /// Rule Header.
    fn check_header(&self, height: Height, hash: B256) -> Result<(), Refusal> {
        let headers = &self.record.headers;
        let mark = highest(headers);
        let is_allowed = height.0 > mark || headers.get(&height.0) == Some(&hash);
        if is_allowed { Ok(()) } else { Err(Refusal::Height { mark }) }
    }
}

/// Highest number with a mark; 0 if there is none.
fn highest<T>(marks: &BTreeMap<u64, T>) -> u64 {
    marks.last_key_value().map_or(0, |(number, _)| *number)
}

impl EpochMarks {
    /// Rule Block.
    fn check_block(&self, heading: &Heading) -> Result<(), Refusal> {
        let mark = self.block.map_or(0, |block| block.round);
        let is_allowed = heading.round > mark || self.block == Some(*heading);
        if is_allowed { Ok(()) } else { Err(Refusal::Round { mark }) }
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

    /// Opens a slot that was checked, and forgets those that it closes.
    fn slot_mut(&mut self, slot: u64) -> &mut SlotMarks {
        self.slots.entry(slot).or_default();
        let first_open = self.closed_through().saturating_add(1);
        self.slots.retain(|number, _| *number >= first_open);
        self.slots.get_mut(&slot).expect("invariant: a checked slot is open")
    }

    /// Highest closed slot.
    fn closed_through(&self) -> u64 {
        highest(&self.slots).saturating_sub(OPEN_SLOTS)
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
