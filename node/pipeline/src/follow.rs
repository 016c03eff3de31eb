//! Following blocks that others certified: what a full node always does and a validator does when it has fallen behind.

use crate::message::{FollowedBlock, PART_BYTES, Part, Response};
use crate::words::NodeKey;
use corniche_certify::VerifiedCertificate;
use corniche_types::{B256, Block, Certificate, Header, Height, TimestampMs, header_hash, wire};
use std::collections::BTreeMap;

/// A request that was not answered by then is given up and another peer is asked.
const REQUEST_MS: u64 = 5_000;
/// A peer that could not answer is asked again only after this long.
const RETRY_MS: u64 = 500;
/// Most bytes of one block. Blocks under the newest rules have about 10 MiB at most, earlier ones had no bound.
const MAX_BLOCK_BYTES: u64 = 256 << 20;

/// Whom to ask for blocks, and what is under way.
#[derive(Default)]
pub struct Follower {
    /// The highest height each connected peer says is certified.
    claims: BTreeMap<NodeKey, Claim>,
    request: Option<(NodeKey, TimestampMs)>,
    /// The next block, if it is too large for one answer.
    large: Option<LargeBlock>,
}

/// A block that comes in parts, all from one peer.
struct LargeBlock {
    peer: NodeKey,
    /// Certified.
    header: Header,
    certificate: VerifiedCertificate,
    length: u64,
    received: Vec<u8>,
}

/// Why an answer is of no use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The peer has nothing for us, or answers too late: no fault.
    Nothing,
    Fault(String),
}

/// Blocks of which the last is certified, or an ancestor of the certified one.
type Certified = (Vec<FollowedBlock>, VerifiedCertificate);

#[derive(Default)]
struct Claim {
    height: Height,
    not_before: TimestampMs,
}

impl Follower {
    pub fn peer_up(&mut self, peer: NodeKey) {
        self.claims.entry(peer).or_default();
    }

    pub fn peer_down(&mut self, peer: &NodeKey) {
        self.claims.remove(peer);
        self.give_up(peer);
    }

    /// Nothing more comes from this peer.
    fn give_up(&mut self, peer: &NodeKey) {
        self.request.take_if(|(asked, _)| asked == peer);
        self.large.take_if(|large| large.peer == *peer);
    }

    /// `peer` holds certified blocks up to `height`.
    pub fn claim(&mut self, peer: NodeKey, height: Height) {
        if let Some(claim) = self.claims.get_mut(&peer) {
            claim.height = claim.height.max(height);
        }
    }

    /// The highest height somebody claims.
    pub fn target(&self) -> Height {
        self.claims.values().map(|claim| claim.height).max().unwrap_or_default()
    }

    /// Chooses a peer to ask for blocks from `from` on, and the offset to ask for; `None` while a request is under way or nobody
    /// can help now.
    pub fn ask(&mut self, now: TimestampMs, from: Height) -> Option<(NodeKey, u64)> {
        if self.request.is_some_and(|(_, until)| now < until) {
            return None;
        }
        if let Some((silent, _)) = self.request.take() {
            self.give_up(&silent);
        }
        self.large.take_if(|large| large.header.number != from.0);
        let (peer, offset) = match &self.large {
            Some(large) => (large.peer, large.received.len() as u64),
            None => (self.choose(now, from)?, 0),
        };
        self.request = Some((peer, TimestampMs(now.0 + REQUEST_MS)));
        Some((peer, offset))
    }

    fn choose(&mut self, now: TimestampMs, from: Height) -> Option<NodeKey> {
        let able = |claim: &Claim| claim.height >= from && claim.not_before <= now;
        // The one with the oldest refusal first, so that peers take turns after failures.
        let (peer, claim) = self
            .claims
            .iter_mut()
            .filter(|(_, claim)| able(claim))
            .min_by_key(|(_, claim)| (claim.not_before, std::cmp::Reverse(claim.height)))?;
        claim.not_before = TimestampMs(now.0 + 1);
        Some(*peer)
    }

    /// The request to `peer` ended without anything useful.
    pub fn failed(&mut self, now: TimestampMs, peer: &NodeKey) {
        self.give_up(peer);
        if let Some(claim) = self.claims.get_mut(peer) {
            claim.not_before = TimestampMs(now.0 + RETRY_MS);
        }
    }

    /// Takes the answer to a request for blocks that continue our chain (next height `from`, parent hash `parent`). `None` when
    /// more parts are to be asked for.
    pub fn receive(
        &mut self,
        peer: NodeKey,
        mut response: Response,
        (from, parent): (Height, B256),
        verify: impl FnOnce(Certificate) -> Option<VerifiedCertificate>,
    ) -> Result<Option<Certified>, Problem> {
        let was_asked = self.request.take_if(|(asked, _)| *asked == peer).is_some();
        // A late answer fits no more, because another peer was faster.
        let problem = |fault| if was_asked { Problem::Fault(fault) } else { Problem::Nothing };
        if response == Response::default() {
            return Err(Problem::Nothing);
        }
        let Some(part) = response.part.take() else {
            let certificate = check_blocks(&response, from, parent, verify).map_err(problem)?;
            return Ok(Some((response.blocks, certificate)));
        };
        let expected = self.large.as_ref().map_or(0, |large| large.received.len() as u64);
        if !was_asked || part.offset != expected {
            return Err(Problem::Nothing);
        }
        self.receive_part(peer, &response, &part, (from, parent), verify).map_err(problem)
    }

    fn receive_part(
        &mut self,
        peer: NodeKey,
        response: &Response,
        part: &Part,
        next: (Height, B256),
        verify: impl FnOnce(Certificate) -> Option<VerifiedCertificate>,
    ) -> Result<Option<Certified>, String> {
        let mut large = match self.large.take() {
            Some(large) => large,
            None => LargeBlock::begin(peer, response, part.length, next, verify)?,
        };
        large.add(part)?;
        if large.received.len() as u64 == large.length {
            return large.finish().map(Some);
        }
        self.large = Some(large);
        Ok(None)
    }

    /// When [`Self::ask`] may succeed without anything else happening.
    pub fn deadline(&self, from: Height) -> Option<TimestampMs> {
        if let Some((_, until)) = self.request {
            return Some(until);
        }
        self.claims.values().filter(|claim| claim.height >= from).map(|claim| claim.not_before).min()
    }
}

impl LargeBlock {
    /// From the answer that brings the first part.
    fn begin(
        peer: NodeKey,
        response: &Response,
        length: u64,
        (from, parent): (Height, B256),
        verify: impl FnOnce(Certificate) -> Option<VerifiedCertificate>,
    ) -> Result<Self, String> {
        if !response.blocks.is_empty() {
            return Err("blocks beside a part of one".into());
        }
        if length > MAX_BLOCK_BYTES {
            return Err(format!("a block of {length} bytes, above {MAX_BLOCK_BYTES}"));
        }
        let certificate = check_chain(response, from, parent, verify)?;
        let header = response.headers.first().ok_or("a part without its header")?.0.clone();
        Ok(Self { peer, header, certificate, length, received: Vec::new() })
    }

    fn add(&mut self, part: &Part) -> Result<(), String> {
        let expected = (self.length - self.received.len() as u64).min(PART_BYTES as u64);
        if part.length != self.length || part.bytes.is_empty() || part.bytes.len() as u64 != expected {
            let (bytes, length) = (part.bytes.len(), part.length);
            return Err(format!("part of a block: expected {expected} bytes of {}, got {bytes} of {length}", self.length));
        }
        self.received.extend_from_slice(&part.bytes);
        Ok(())
    }

    fn finish(self) -> Result<Certified, String> {
        let followed: FollowedBlock = wire::decode(&self.received).map_err(|error| error.to_string())?;
        if followed.block.header != self.header {
            return Err("another block than the certified one".into());
        }
        check_body(&followed)?;
        Ok((vec![followed], self.certificate))
    }
}

/// Checks that the blocks and headers of `response` continue our chain (next height `from`, parent hash `parent`) and end in a
/// certified header. Signatures are the caller's: `verify`. What passes is what a quorum certified: if executing it gives another
/// header, it is our execution that differs, and never a peer's doing.
fn check_chain(
    response: &Response,
    from: Height,
    parent: B256,
    verify: impl FnOnce(Certificate) -> Option<VerifiedCertificate>,
) -> Result<VerifiedCertificate, String> {
    let certificate = response.certificate.clone().ok_or("no certificate")?;
    let blocks = response.blocks.iter().map(|followed| &followed.block.header);
    let (mut height, mut hash) = (from, parent);
    for header in blocks.chain(response.headers.iter().map(|header| &header.0)) {
        if header.number != height.0 || header.parent_hash != hash {
            return Err(format!("block {} does not continue our chain at {height}", header.number));
        }
        hash = header_hash(header);
        height = height.next();
    }
    let last = Height(height.0 - 1);
    if last < from || certificate.height != last || certificate.header_hash != hash {
        return Err(format!("the certificate is not for the last header, {last}"));
    }
    verify(certificate).ok_or_else(|| "the certificate's signature does not verify".into())
}

/// The same for whole blocks, with what is in them.
fn check_blocks(
    response: &Response,
    from: Height,
    parent: B256,
    verify: impl FnOnce(Certificate) -> Option<VerifiedCertificate>,
) -> Result<VerifiedCertificate, String> {
    if response.blocks.is_empty() {
        return Err("headers without blocks".into());
    }
    let certificate = check_chain(response, from, parent, verify)?;
    for followed in &response.blocks {
        let height = followed.block.height();
        check_body(followed).map_err(|problem| format!("block {height}: {problem}"))?;
    }
    Ok(certificate)
}

/// Whether everything beside the header is what the header commits to.
fn check_body(followed: &FollowedBlock) -> Result<(), &'static str> {
    let FollowedBlock { block, resume } = followed;
    let ordering = &block.ordering;
    if ordering.extra_data() != block.header.extra_data {
        return Err("another ordering record than the header names");
    }
    if Block::transactions_hash(&block.ordered) != ordering.transactions_hash {
        return Err("other transactions than were ordered");
    }
    let authors = ordering.batches.iter().flat_map(|batch| (0..batch.count).map(|_| batch.author));
    if !authors.eq(block.ordered.iter().map(|transaction| transaction.author)) {
        return Err("transactions of other authors than were ordered");
    }
    if resume.hash() != ordering.resume_hash {
        return Err("another resume point than the header names");
    }
    Ok(())
}
