//! A batch's bytes: a version byte, then each transaction behind its length (4 bytes, little endian). An empty batch is no
//! bytes at all.
//!
//! Everyone must read an ordered batch the same way, whatever its proposer put into it, so decoding never fails: bytes that
//! are not a batch are one transaction that will not decode, and will be skipped as such. A transaction is never shorter
//! than [`MIN_TRANSACTION_BYTES`], so a batch cannot hold more entries than its size accounts for.

use corniche_types::Bytes;

/// No signed transaction is shorter; an entry that is makes the batch malformed.
pub const MIN_TRANSACTION_BYTES: usize = 64;
/// What each transaction adds to the batch besides itself.
pub const ENTRY_OVERHEAD: usize = 4;
/// What a batch that is not empty begins with.
pub const BATCH_OVERHEAD: usize = 1;

const VERSION: u8 = 1;

/// A transaction that no batch can carry: whoever decoded it would read something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("transaction {index} of the batch has {bytes} bytes, fewer than {MIN_TRANSACTION_BYTES} or more than a length can say")]
pub struct Unfit {
    pub index: usize,
    pub bytes: usize,
}

/// Encodes transactions in order, each of [`MIN_TRANSACTION_BYTES`] at least.
pub fn encode(transactions: &[Bytes]) -> Result<Bytes, Unfit> {
    if transactions.is_empty() {
        return Ok(Bytes::new());
    }
    let size: usize = transactions.iter().map(|raw| raw.len() + ENTRY_OVERHEAD).sum();
    let mut out = Vec::with_capacity(BATCH_OVERHEAD + size);
    out.push(VERSION);
    for (index, raw) in transactions.iter().enumerate() {
        let length = u32::try_from(raw.len()).ok().filter(|_| raw.len() >= MIN_TRANSACTION_BYTES);
        out.extend_from_slice(&length.ok_or(Unfit { index, bytes: raw.len() })?.to_le_bytes());
        out.extend_from_slice(raw);
    }
    Ok(out.into())
}

/// The transactions of a batch, sharing its memory; one entry with the whole bytes when they are not a batch.
pub fn decode(bytes: &Bytes) -> Vec<Bytes> {
    if bytes.is_empty() {
        return Vec::new();
    }
    try_decode(bytes).unwrap_or_else(|| vec![bytes.clone()])
}

fn try_decode(bytes: &Bytes) -> Option<Vec<Bytes>> {
    if bytes[0] != VERSION || bytes.len() == BATCH_OVERHEAD {
        return None;
    }
    let mut transactions = Vec::new();
    let mut at = BATCH_OVERHEAD;
    while at < bytes.len() {
        let length: [u8; ENTRY_OVERHEAD] = bytes.get(at..at + ENTRY_OVERHEAD)?.try_into().ok()?;
        let length = usize::try_from(u32::from_le_bytes(length)).ok()?;
        let start = at + ENTRY_OVERHEAD;
        let end = start.checked_add(length).filter(|&end| length >= MIN_TRANSACTION_BYTES && end <= bytes.len())?;
        transactions.push(Bytes(bytes.0.slice(start..end)));
        at = end;
    }
    Some(transactions)
}
