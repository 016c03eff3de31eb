//! Content of a record: a kind byte, then the data.

use crate::StoreError;
use crate::log::{LogRecord, Position};
use alloy_rlp::Decodable;
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_engine::Ticket;
use corniche_state::CommittedBlock;
use corniche_types::{Bytes, Certificate, Header, Resume, wire};

const BLOCK: u8 = 1;
const CERTIFICATE: u8 = 2;
const PROGRESS: u8 = 3;
const DIVERGENCE: u8 = 4;
const SAFETY_END: u8 = 5;

const ENGINE: u8 = 1;
const RELEASED: u8 = 2;
const HISTORY_KNOWN: u8 = 3;

/// Record of the block log.
#[derive(Debug)]
pub(crate) enum BlockRecord {
    Block(Box<CommittedBlock>),
    Certificate(Certificate),
    /// Point where ordering resumes after a commit that made no block.
    Progress(Resume),
    /// A quorum certified a different block at this height, or f + 1 validators signed one.
    Divergence(Certificate),
    /// Durable end of the safety log when this record was written. A safety log that ends earlier has lost
    /// signatures.
    SafetyEnd(Position),
}

pub(crate) fn write_block(out: &mut Vec<u8>, committed: &CommittedBlock) {
    write(out, BLOCK, committed);
}

pub(crate) fn write_certificate(out: &mut Vec<u8>, certificate: &Certificate) {
    write(out, CERTIFICATE, certificate);
}

pub(crate) fn write_progress(out: &mut Vec<u8>, resume: &Resume) {
    write(out, PROGRESS, resume);
}

pub(crate) fn write_divergence(out: &mut Vec<u8>, certificate: &Certificate) {
    write(out, DIVERGENCE, certificate);
}

pub(crate) fn write_safety_end(out: &mut Vec<u8>, end: Position) {
    write(out, SAFETY_END, &end);
}

/// Writes the bytes of `wire::encode` without a copy.
fn write<T: BorshSerialize>(out: &mut Vec<u8>, kind: u8, value: &T) {
    out.extend_from_slice(&[kind, wire::VERSION]);
    value.serialize(out).expect("writing into memory cannot fail");
}

/// Encoded block in a record's payload, if it is one.
pub(crate) fn block_bytes(mut payload: Vec<u8>) -> Option<Bytes> {
    (payload.first() == Some(&BLOCK)).then(|| {
        payload.remove(0);
        payload.into()
    })
}

/// Number of bytes that always contain the start of a block's record up to the end of its header: the
/// header's fields have bounded sizes.
pub(crate) const MAX_HEADER_BYTES: usize = 1 << 10;

/// Decodes the header, the first part of a block's record. Does not check it.
pub(crate) fn header_at_start(payload: &[u8]) -> Option<Header> {
    let mut rest = payload.strip_prefix(&[BLOCK, wire::VERSION])?;
    let header = Vec::<u8>::deserialize(&mut rest).ok()?;
    Header::decode(&mut header.as_slice()).ok()
}

pub(crate) fn read_block_record(payload: &[u8]) -> Result<BlockRecord, String> {
    let (kind, body) = payload.split_first().ok_or("an empty record")?;
    let text = |error: wire::WireError| error.to_string();
    Ok(match *kind {
        BLOCK => BlockRecord::Block(Box::new(wire::decode(body).map_err(text)?)),
        CERTIFICATE => BlockRecord::Certificate(wire::decode(body).map_err(text)?),
        PROGRESS => BlockRecord::Progress(wire::decode(body).map_err(text)?),
        DIVERGENCE => BlockRecord::Divergence(wire::decode(body).map_err(text)?),
        SAFETY_END => BlockRecord::SafetyEnd(wire::decode(body).map_err(text)?),
        other => return Err(format!("a record of unknown kind {other}")),
    })
}

/// Record of the safety log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SafetyRecord {
    Engine(Ticket, Bytes),
    /// Records with smaller tickets are no longer needed.
    Released(Ticket),
    /// The engine has learned from a quorum what it signed before the log was lost.
    HistoryKnown,
}

impl SafetyRecord {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Engine(ticket, bytes) => Self::write_engine(out, *ticket, bytes),
            Self::Released(ticket) => {
                out.push(RELEASED);
                out.extend_from_slice(&ticket.0.to_le_bytes());
            }
            Self::HistoryKnown => out.push(HISTORY_KNOWN),
        }
    }

    pub(crate) fn write_engine(out: &mut Vec<u8>, ticket: Ticket, bytes: &[u8]) {
        out.push(ENGINE);
        out.extend_from_slice(&ticket.0.to_le_bytes());
        out.extend_from_slice(bytes);
    }

    pub(crate) fn read(payload: &[u8]) -> Option<Self> {
        let (kind, body) = payload.split_first()?;
        let ticket = || body.first_chunk().map(|bytes| Ticket(u64::from_le_bytes(*bytes)));
        match *kind {
            ENGINE => Some(Self::Engine(ticket()?, Bytes::copy_from_slice(&body[8..]))),
            RELEASED if body.len() == 8 => ticket().map(Self::Released),
            HISTORY_KNOWN if body.is_empty() => Some(Self::HistoryKnown),
            _ => None,
        }
    }
}

/// Error for a record with a valid checksum that cannot be decoded: written by a newer version or by a bug.
pub(crate) fn unreadable(record: &LogRecord, problem: &str) -> StoreError {
    StoreError::Unreadable { segment: record.at.segment, offset: record.at.offset, problem: problem.into() }
}
