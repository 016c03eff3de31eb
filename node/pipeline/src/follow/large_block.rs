//! A block that is too large for one response and arrives in parts.

use super::REQUEST_TIMEOUT_MS;
use super::proof::{ExpectedBlock, Proof, Proven, ResponseError, check_body, check_chain};
use crate::message::{FollowedBlock, PART_BYTES, Part, Response};
use corniche_certify::VerifiedCertificate;
use corniche_types::{Certificate, Header, Height, TimestampMs, wire};

/// A block in parts must arrive within [`REQUEST_TIMEOUT_MS`] plus this per part.
const PART_TIMEOUT_MS: u64 = 1_000;

/// Block that arrives in parts from one peer.
pub(super) struct LargeBlock {
    /// Time of the request for its first part.
    started: TimestampMs,
    /// Header, already proven.
    header: Header,
    proof: Proof,
    length: u64,
    received: Vec<u8>,
}

impl LargeBlock {
    /// Starts with the response that contains the first part.
    pub fn begin(
        started: TimestampMs,
        response: &Response,
        length: u64,
        next: ExpectedBlock<'_>,
        verify: impl FnOnce(Certificate) -> Option<VerifiedCertificate>,
    ) -> Result<Self, ResponseError> {
        if !response.blocks.is_empty() {
            return Err("response with both blocks and a part".into());
        }
        let limit = next.max_bytes();
        if length > limit {
            return Err(format!("block {} has {length} bytes, the limit is {limit}", next.height).into());
        }
        let proof = check_chain(response, next, verify)?;
        let header = response.headers.first().ok_or("block part without header")?.0.clone();
        Ok(Self { started, header, proof, length, received: Vec::new() })
    }

    /// Time of the request for the first part.
    pub fn started(&self) -> TimestampMs {
        self.started
    }

    pub fn height(&self) -> Height {
        Height(self.header.number)
    }

    /// Number of bytes received.
    pub fn received(&self) -> u64 {
        self.received.len() as u64
    }

    pub fn is_complete(&self) -> bool {
        self.received() == self.length
    }

    /// Time by which it must be complete.
    pub fn deadline(&self) -> TimestampMs {
        TimestampMs(self.started.0 + REQUEST_TIMEOUT_MS + PART_TIMEOUT_MS * self.length.div_ceil(PART_BYTES as u64))
    }

    pub fn add(&mut self, part: &Part) -> Result<(), String> {
        let expected = (self.length - self.received()).min(PART_BYTES as u64);
        if part.length != self.length || part.bytes.is_empty() || part.bytes.len() as u64 != expected {
            let (bytes, length) = (part.bytes.len(), part.length);
            return Err(format!("part of a block: expected {expected} bytes of {}, got {bytes} of {length}", self.length));
        }
        self.received.extend_from_slice(&part.bytes);
        Ok(())
    }

    pub fn finish(self) -> Result<Proven, String> {
        let followed: FollowedBlock = wire::decode(&self.received).map_err(|error| error.to_string())?;
        if followed.block.header != self.header {
            return Err("the block is not the certified one".into());
        }
        check_body(&followed)?;
        Ok((vec![followed], self.proof))
    }
}
