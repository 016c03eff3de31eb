//! The log of NeoBFT or Mir-BFT in a window: its slots with their packets or batches, gaps or nulls, and epochs.

use super::rounds::{Window, arrival_ms};
use crate::indexer::dag::{Form, Round};
use corniche_api::{DagVertex, LeaderSlot, SlotStatus};
use std::{collections::BTreeMap, str::FromStr};

/// Place in the sequence of a sequencer, as the rule of a slot names it; under Mir-BFT the number itself and its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Number that the sequencer gave.
    pub number: u64,
    /// Epoch of the group. Each epoch has one sequencer.
    pub epoch: u64,
}

/// Text that is not the rule of a slot in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidStamp;

impl FromStr for Stamp {
    type Err = InvalidStamp;

    /// Parses `packet N of epoch E` or `gap at N of epoch E`.
    fn from_str(rule: &str) -> Result<Self, InvalidStamp> {
        let place = rule.strip_prefix("packet ").or_else(|| rule.strip_prefix("gap at ")).ok_or(InvalidStamp)?;
        let (number, epoch) = place.split_once(" of epoch ").ok_or(InvalidStamp)?;
        // `u64` also accepts a sign.
        let decimal = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
        Ok(Self { number: decimal(number).ok_or(InvalidStamp)?, epoch: decimal(epoch).ok_or(InvalidStamp)? })
    }
}

/// Status of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryStatus {
    /// The packet has its place in the order for good.
    Final,
    /// The number has no request, for good.
    Gap,
    /// The slot is in the log of the node, but can still change.
    Pending,
    /// The slot is final, but its verdict was not reported.
    Unknown,
}

/// Content of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Transactions of this many bytes.
    Transactions(u64),
    /// A request without transactions: its author's clock.
    Clock,
    /// A batch without transactions.
    Empty,
    /// A packet that the sequencer sent without a request.
    Heartbeat,
    /// No request.
    Nothing,
    /// Not reported.
    Unknown,
}

/// A slot of the log.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// Form of its log.
    pub form: Form,
    /// Number of the slot.
    pub slot: u64,
    /// Status.
    pub status: EntryStatus,
    /// Place in its sequencer's sequence; known once the slot is final.
    pub stamp: Option<Stamp>,
    /// Content.
    pub content: Content,
    /// Request of the slot.
    pub vertex: Option<&'a DagVertex>,
    /// Requests that were in this slot before the log was rolled back.
    pub replaced: Vec<&'a DagVertex>,
    /// Verdict on the slot.
    pub verdict: Option<&'a LeaderSlot>,
    /// `true` if the slot before is of another epoch.
    pub begins_epoch: bool,
}

impl<'a> Entry<'a> {
    fn of(window: &Window, number: u64, round: Option<&'a Round>, newest_final: Option<u64>) -> Self {
        let form = window.form;
        let verdict = round.and_then(verdict);
        let vertices = round.map_or(&[][..], |round| &round.vertices);
        let vertex = match verdict {
            Some(slot) => vertices.iter().find(|vertex| Some(vertex.digest) == slot.digest),
            // A rollback puts a later request into the slot.
            None => vertices.iter().max_by_key(|vertex| arrival_ms(vertex)),
        };
        let status = match verdict.map(|slot| slot.status) {
            Some(SlotStatus::Committed) => EntryStatus::Final,
            Some(SlotStatus::Skipped) => EntryStatus::Gap,
            // Slots become final in their order.
            _ if newest_final > Some(number) => EntryStatus::Unknown,
            _ => EntryStatus::Pending,
        };
        let content = match (vertex, verdict) {
            _ if status == EntryStatus::Gap => Content::Nothing,
            (Some(vertex), _) if vertex.batch_bytes > 0 => Content::Transactions(vertex.batch_bytes),
            (Some(_), _) if form == Form::Numbers => Content::Empty,
            (Some(_), _) => Content::Clock,
            (None, _) if form == Form::Numbers => Content::Unknown,
            // A slot without an author names this member. Another member is the author of a request that was not reported.
            (None, Some(slot)) if slot.validator == number % window.size.max(1) => Content::Heartbeat,
            (None, _) => Content::Unknown,
        };
        let replaced = vertices.iter().filter(|other| vertex.is_none_or(|vertex| vertex.digest != other.digest)).collect();
        let stamp = verdict.and_then(stamp);
        Self { form, slot: number, status, stamp, content, vertex, replaced, verdict, begins_epoch: false }
    }

    /// Author of the request; `None` if the slot has none, or it is not known.
    pub fn author(&self) -> Option<u64> {
        let named = self.verdict.filter(|_| self.content == Content::Unknown).map(|slot| slot.validator);
        self.vertex.map(|vertex| vertex.author).or(named)
    }

    /// Time from the acceptance of the request to the verdict, in milliseconds.
    pub fn took_ms(&self) -> Option<u64> {
        let from = self.vertex.and_then(arrival_ms)?;
        Some(self.verdict?.decided_ms?.saturating_sub(from))
    }
}

/// Final verdict on a slot.
fn verdict(round: &Round) -> Option<&LeaderSlot> {
    round.slots.iter().find(|slot| slot.rank == 0 && slot.status != SlotStatus::Undecided)
}

fn stamp(slot: &LeaderSlot) -> Option<Stamp> {
    slot.why.as_deref()?.parse().ok().or_else(|| batch_stamp(slot))
}

/// Parses `committed in epoch E` or `null in epoch E`, the rules of Mir-BFT.
fn batch_stamp(slot: &LeaderSlot) -> Option<Stamp> {
    let why = slot.why.as_deref()?;
    let epoch = why.strip_prefix("committed in epoch ").or_else(|| why.strip_prefix("null in epoch "))?;
    let epoch = epoch.bytes().all(|byte| byte.is_ascii_digit()).then(|| epoch.parse().ok()).flatten()?;
    Some(Stamp { number: slot.round, epoch })
}

/// Returns `true` if the rules of these rounds are those of a log.
pub fn is_log(rounds: &BTreeMap<u64, Round>) -> bool {
    rounds.values().filter_map(verdict).any(|slot| stamp(slot).is_some())
}

/// Slots of a window, in ascending order.
pub fn entries(window: &Window) -> Vec<Entry<'_>> {
    let newest_final = window.all_rounds().filter_map(verdict).map(|slot| slot.round).max();
    let mut epoch = window.before.as_ref().and_then(verdict).and_then(stamp).map(|stamp| stamp.epoch);
    let mut entries = Vec::new();
    for number in window.first..=window.last {
        let mut entry = Entry::of(window, number, window.rounds.get(&number), newest_final);
        if let Some(stamp) = entry.stamp {
            entry.begins_epoch = epoch.is_some_and(|epoch| epoch != stamp.epoch);
            epoch = Some(stamp.epoch);
        }
        entries.push(entry);
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_log_are_parsed() {
        let stamp = |number, epoch| Ok(Stamp { number, epoch });
        for (rule, expected) in [
            ("packet 7 of epoch 0", stamp(7, 0)),
            ("gap at 18446744073709551615 of epoch 12", stamp(u64::MAX, 12)),
            ("packet 18446744073709551616 of epoch 0", Err(InvalidStamp)),
            ("packet +7 of epoch 0", Err(InvalidStamp)),
            ("packet  of epoch ", Err(InvalidStamp)),
            ("packet 7 of epoch 0 ", Err(InvalidStamp)),
            ("packet 7", Err(InvalidStamp)),
            ("gap 7 of epoch 0", Err(InvalidStamp)),
            ("fast in view 0", Err(InvalidStamp)),
            ("", Err(InvalidStamp)),
        ] {
            assert_eq!(rule.parse::<Stamp>(), expected, "{rule}");
        }
    }
}
