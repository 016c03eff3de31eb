//! Checks of blocks that others certified or executed, against the chain that they must continue.

use crate::message::{FollowedBlock, MAX_BLOCK_BYTES, Response};
use corniche_certify::{VerifiedCertificate, WeakCertificate};
use corniche_types::{B256, Block, Certificate, Height, ProtocolRules, header_hash};

/// Upper bound of the encoded size of a block, as a multiple of the bytes that the rules allow its
/// transactions. The shortest entries have 64 bytes and need up to 90 bytes in the ordering record.
const MAX_ENCODED_RATIO: u64 = 4;

/// Reason why a response is unusable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResponseError {
    /// Another peer was faster.
    Late,
    /// The peer has no such blocks, or responded after the timeout: no fault.
    Unavailable,
    Fault(String),
}

impl From<String> for ResponseError {
    fn from(fault: String) -> Self {
        Self::Fault(fault)
    }
}

impl From<&str> for ResponseError {
    fn from(fault: &str) -> Self {
        Self::Fault(fault.into())
    }
}

/// Requirements for followed blocks: the chain that they must continue, and a weak certificate, if there is
/// one.
#[derive(Clone, Copy)]
pub struct ExpectedBlock<'a> {
    pub height: Height,
    pub parent: B256,
    pub weak: Option<&'a WeakCertificate>,
    pub rules: &'static ProtocolRules,
}

impl ExpectedBlock<'_> {
    /// Maximum size of the encoded block, in bytes.
    pub(super) fn max_bytes(&self) -> u64 {
        self.rules.max_block_bytes.saturating_mul(MAX_ENCODED_RATIO).min(MAX_BLOCK_BYTES)
    }
}

/// Proof that blocks are valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    Certificate(VerifiedCertificate),
    /// The weak certificate of [`ExpectedBlock`].
    Weak,
}

/// Blocks, with a proof for the last of them or for a descendant of it.
pub(super) type Proven = (Vec<FollowedBlock>, Proof);

/// Checks that the blocks and headers of `response` continue our chain and end in a proven header. The caller
/// provides `verify` for the signatures of a certificate. Blocks that pass were certified by a quorum or
/// executed by an honest validator. If executing them gives another header, our execution is wrong, not the
/// peer.
pub(super) fn check_chain(
    response: &Response,
    next: ExpectedBlock<'_>,
    verify: impl FnOnce(Certificate) -> Option<VerifiedCertificate>,
) -> Result<Proof, ResponseError> {
    let blocks = response.blocks.iter().map(|followed| &followed.block.header);
    let (mut height, mut hash) = (next.height, next.parent);
    for header in blocks.chain(response.headers.iter().map(|header| &header.0)) {
        if header.number != height.0 || header.parent_hash != hash {
            return Err(format!("block {} does not continue our chain at {height}", header.number).into());
        }
        hash = header_hash(header);
        height = height.next();
    }
    let last = Height(height.0 - 1);
    if last < next.height {
        return Err("no header".into());
    }
    let Some(certificate) = response.certificate.clone() else { return check_weak(next.weak, last, hash) };
    if certificate.height != last || certificate.header_hash != hash {
        return Err(format!("the certificate is not for the last header, {last}").into());
    }
    verify(certificate).map(Proof::Certificate).ok_or_else(|| "the certificate's signature does not verify".into())
}

/// Accepts a header that is covered by the weak certificate.
fn check_weak(weak: Option<&WeakCertificate>, height: Height, hash: B256) -> Result<Proof, ResponseError> {
    let weak = weak.ok_or("no certificate")?;
    // A response to an earlier request is no fault.
    if weak.height() != height {
        return Err(ResponseError::Unavailable);
    }
    if weak.header_hash() != hash {
        return Err(format!("the header at {height} is not the one of the weak certificate").into());
    }
    Ok(Proof::Weak)
}

/// Like [`check_chain`], for whole blocks including their bodies.
pub(super) fn check_blocks(
    response: &Response,
    next: ExpectedBlock<'_>,
    verify: impl FnOnce(Certificate) -> Option<VerifiedCertificate>,
) -> Result<Proof, ResponseError> {
    if response.blocks.is_empty() {
        return Err("response with headers but no blocks".into());
    }
    let proof = check_chain(response, next, verify)?;
    for followed in &response.blocks {
        let height = followed.block.height();
        check_body(followed).map_err(|problem| format!("block {height}: {problem}"))?;
    }
    Ok(proof)
}

/// Checks that the body is what the header commits to.
pub(super) fn check_body(followed: &FollowedBlock) -> Result<(), &'static str> {
    let FollowedBlock { block, resume } = followed;
    let ordering = &block.ordering;
    if ordering.extra_data() != block.header.extra_data {
        return Err("the ordering record does not match the header");
    }
    if Block::transactions_hash(&block.ordered) != ordering.transactions_hash {
        return Err("the transactions are not the ordered ones");
    }
    let authors = ordering.batches.iter().flat_map(|batch| (0..batch.count).map(|_| batch.author));
    if !authors.eq(block.ordered.iter().map(|transaction| transaction.author)) {
        return Err("the authors are not the ordered ones");
    }
    if resume.hash() != ordering.resume_hash {
        return Err("the resume point does not match the header");
    }
    Ok(())
}
