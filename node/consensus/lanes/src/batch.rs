//! Batches of a lane, their digests and their checks.

use borsh::{BorshDeserialize, BorshSerialize};
use corniche_engine::{Committee, Scope, Vertex, VertexId, batch_digest};
use corniche_types::{B256, Bytes, TimestampMs, ValidatorIndex};

/// Maximum number of members of a committee.
pub const MAX_MEMBERS: usize = 1_000;
/// Higher numbers are rejected, so that arithmetic cannot overflow.
pub const MAX_NUMBER: u64 = 1 << 48;

/// The batch of one author with one number. Its digest covers the one before, so a tip identifies the whole lane below it.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct LaneBatch {
    pub author: ValidatorIndex,
    /// The first one of a lane is 1.
    pub number: u64,
    /// Digest of the batch before; zero for the first.
    pub parent: B256,
    pub bytes: Bytes,
}

impl LaneBatch {
    /// Tip of the lane below this batch.
    pub fn before(&self) -> Tip {
        Tip { number: self.number.saturating_sub(1), digest: self.parent }
    }

    /// A batch as it is shown to people: its round is its number in the lane. `None` for number 0, which no batch has.
    pub(crate) fn vertex(&self, tip: Tip) -> Option<Vertex> {
        let id = VertexId { round: tip.number, author: self.author, digest: tip.digest };
        let parent = VertexId { round: tip.number.checked_sub(1)?, author: self.author, digest: self.parent };
        let parents = if parent.round > 0 { vec![parent] } else { Vec::new() };
        let digest = (!self.bytes.is_empty()).then(|| batch_digest(&self.bytes));
        let batch_bytes = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        Some(Vertex { id, parents, batch_bytes, batch_digest: digest })
    }
}

/// Number and digest of a batch. The tip of an empty lane has number 0 and a digest of zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, BorshSerialize, BorshDeserialize)]
pub struct Tip {
    pub number: u64,
    pub digest: B256,
}

/// Context of the digests of batches: a lane belongs to one committee, and to one engine.
#[derive(Clone, Copy, Debug)]
pub struct LaneContext {
    scope: Scope,
    tag: &'static str,
}

impl LaneContext {
    /// The tag is different for each engine.
    pub fn new(committee: &Committee, tag: &'static str) -> Self {
        Self { scope: Scope::new(committee), tag }
    }

    /// The tip of a lane that ends with this batch.
    pub fn tip(&self, batch: &LaneBatch) -> Tip {
        let content = (batch.author, batch.number, batch.parent, batch_digest(&batch.bytes));
        Tip { number: batch.number, digest: self.scope.digest(self.tag, &content) }
    }
}

/// Content of a decision: one tip of every lane, by author, and the proposer's clock. It has a constant size, however large the batches
/// are.
pub trait LaneValue: Clone + PartialEq {
    fn tips(&self) -> &[Tip];
    fn time(&self) -> TimestampMs;
}

/// Delivered tips after the execution of these tips. Values of different proposers may go backwards; delivered numbers never do.
pub fn advance(delivered: &mut [Tip], tips: &[Tip]) {
    for (delivered, tip) in delivered.iter_mut().zip(tips) {
        if tip.number > delivered.number {
            *delivered = *tip;
        }
    }
}

/// # Errors
/// The text, if the condition does not hold.
pub fn ensure(holds: bool, error: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(error()) }
}

/// # Errors
/// The number is so high that no correct validator can use it.
pub fn check_number(number: u64) -> Result<(), String> {
    ensure(number < MAX_NUMBER, || format!("{number} is above every possible number"))
}

/// # Errors
/// The committee has no such member.
pub fn check_member(committee: &Committee, member: ValidatorIndex) -> Result<(), String> {
    ensure(committee.member(member).is_some(), || format!("validator {member} is not in the committee"))
}

/// Stateless checks of a peer's value.
///
/// # Errors
/// A lane has no tip, or a number or the time is impossible.
pub fn check_value(committee: &Committee, value: &impl LaneValue) -> Result<(), String> {
    let (size, tips) = (committee.size(), value.tips());
    ensure(tips.len() == size, || format!("value: expected {size} tips, got {}", tips.len()))?;
    check_number(value.time().0)?;
    tips.iter().try_for_each(|tip| check_number(tip.number))
}

/// Stateless checks of a peer's batch.
///
/// # Errors
/// The author is not in the committee, the batch is too large, or its number is impossible.
pub fn check_batch(committee: &Committee, batch: &LaneBatch, batch_bytes: u32) -> Result<(), String> {
    check_member(committee, batch.author)?;
    let length = batch.bytes.len();
    ensure(length <= batch_bytes as usize, || format!("batch: expected at most {batch_bytes} bytes, got {length}"))?;
    check_number(batch.number)?;
    ensure(batch.number > 0, || "batch: the first number is 1".into())
}
