//! Following blocks that others certified: what a full node always does and a validator does when it has fallen behind.

use crate::message::{FollowedBlock, Response};
use crate::words::NodeKey;
use corniche_certify::VerifiedCertificate;
use corniche_types::{B256, Block, Certificate, Height, TimestampMs, header_hash};
use std::collections::BTreeMap;

/// A request that was not answered by then is given up and another peer is asked.
const REQUEST_MS: u64 = 5_000;
/// A peer that could not answer is asked again only after this long.
const RETRY_MS: u64 = 500;

/// Whom to ask for blocks, and what is under way.
#[derive(Default)]
pub struct Follower {
    /// The highest height each connected peer says is certified.
    claims: BTreeMap<NodeKey, Claim>,
    request: Option<(NodeKey, TimestampMs)>,
}

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
        if self.request.is_some_and(|(asked, _)| asked == *peer) {
            self.request = None;
        }
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

    /// Chooses a peer to ask for blocks from `from` on; `None` while a request is under way or nobody can help now.
    pub fn ask(&mut self, now: TimestampMs, from: Height) -> Option<NodeKey> {
        if self.request.is_some_and(|(_, until)| now < until) {
            return None;
        }
        let able = |claim: &Claim| claim.height >= from && claim.not_before <= now;
        // The one with the oldest refusal first, so that peers take turns after failures.
        let (peer, claim) = self
            .claims
            .iter_mut()
            .filter(|(_, claim)| able(claim))
            .min_by_key(|(_, claim)| (claim.not_before, std::cmp::Reverse(claim.height)))?;
        claim.not_before = TimestampMs(now.0 + 1);
        self.request = Some((*peer, TimestampMs(now.0 + REQUEST_MS)));
        Some(*peer)
    }

    /// The request to `peer` ended.
    pub fn answered(&mut self, now: TimestampMs, peer: &NodeKey, useful: bool) {
        if self.request.is_some_and(|(asked, _)| asked == *peer) {
            self.request = None;
        }
        if let Some(claim) = self.claims.get_mut(peer).filter(|_| !useful) {
            claim.not_before = TimestampMs(now.0 + RETRY_MS);
        }
    }

    /// When [`Self::ask`] may succeed without anything else happening.
    pub fn deadline(&self, from: Height) -> Option<TimestampMs> {
        if let Some((_, until)) = self.request {
            return Some(until);
        }
        self.claims.values().filter(|claim| claim.height >= from).map(|claim| claim.not_before).min()
    }
}

/// Checks that `response` continues our chain (next height `from`, parent hash `parent`) and ends in a certified header.
/// Signatures are the caller's: `verify`. What passes is what a quorum certified: if executing it gives another
/// header, it is our execution that differs, and never a peer's doing.
pub fn check_response(
    response: Response,
    from: Height,
    parent: B256,
    verify: impl FnOnce(Certificate) -> Option<VerifiedCertificate>,
) -> Result<(Vec<FollowedBlock>, VerifiedCertificate), String> {
    let certificate = response.certificate.ok_or("no certificate")?;
    let (mut height, mut hash) = (from, parent);
    for followed in &response.blocks {
        let header = &followed.block.header;
        if header.number != height.0 || header.parent_hash != hash {
            return Err(format!("block {} does not continue our chain at {height}", header.number));
        }
        check_body(followed).map_err(|problem| format!("block {height}: {problem}"))?;
        hash = header_hash(header);
        height = height.next();
    }
    let last = Height(height.0 - 1);
    if response.blocks.is_empty() || certificate.height != last || certificate.header_hash != hash {
        return Err(format!("the certificate is not for the last block, {last}"));
    }
    let certificate = verify(certificate).ok_or("the certificate's signature does not verify")?;
    Ok((response.blocks, certificate))
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
