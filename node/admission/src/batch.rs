//! Encoding of a batch: a version byte, then each transaction with its length in front (4 bytes, little
//! endian). An empty batch has no bytes.
//!
//! All validators must decode an ordered batch identically, whatever its proposer put into it. So decoding
//! never fails: malformed bytes count as one transaction that cannot be decoded, which is then skipped. An
//! encoded transaction has at least [`MIN_TRANSACTION_BYTES`], so the number of entries is bounded by the
//! batch's size.

use corniche_types::Bytes;

/// Minimum size of a signed transaction; a shorter entry makes the batch malformed.
pub const MIN_TRANSACTION_BYTES: usize = 64;
/// Bytes that each transaction adds to the batch besides itself.
pub const ENTRY_OVERHEAD: usize = 4;
/// Bytes at the start of a nonempty batch.
pub const BATCH_OVERHEAD: usize = 1;

const VERSION: u8 = 1;

/// Transaction that a batch cannot contain, because it would be decoded differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("transaction {index} of the batch has {bytes} bytes, fewer than {MIN_TRANSACTION_BYTES} or too many")]
pub struct InvalidEntry {
    pub index: usize,
    pub bytes: usize,
}

/// Encodes transactions in order.
///
/// # Errors
///
/// A transaction is shorter than [`MIN_TRANSACTION_BYTES`].
pub fn encode(transactions: &[Bytes]) -> Result<Bytes, InvalidEntry> {
    if transactions.is_empty() {
        return Ok(Bytes::new());
    }
    let size: usize = transactions.iter().map(|raw| raw.len() + ENTRY_OVERHEAD).sum();
    let mut out = Vec::with_capacity(BATCH_OVERHEAD + size);
    out.push(VERSION);
    for (index, raw) in transactions.iter().enumerate() {
        let length = u32::try_from(raw.len()).ok().filter(|_| raw.len() >= MIN_TRANSACTION_BYTES);
        out.extend_from_slice(&length.ok_or(InvalidEntry { index, bytes: raw.len() })?.to_le_bytes());
        out.extend_from_slice(raw);
    }
    Ok(out.into())
}

/// Decodes a batch; the transactions share its memory. Malformed bytes give one entry with all of them.
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
