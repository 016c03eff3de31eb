//! Follows blocks that others certified: full nodes always, validators when they have fallen behind.
//! Validators also follow blocks with a [`WeakCertificate`].

use crate::message::{FollowedBlock, PART_BYTES, Part, Request, Response};
use crate::words::NodeKey;
use corniche_certify::{VerifiedCertificate, WeakCertificate};
use corniche_types::{B256, Block, Certificate, Header, Height, ProtocolRules, TimestampMs, header_hash, wire};
use std::collections::BTreeMap;

/// Timeout of a request.
const REQUEST_MS: u64 = 5_000;
/// Time after which an unanswered request for blocks is sent to another peer as well.
const HEDGE_MS: u64 = 1_000;
/// Maximum number of peers asked for the same blocks at once.
const PARALLEL: usize = 3;
/// Pause before a peer with a failed request is asked again; each further consecutive failure doubles it.
const RETRY_MS: u64 = 500;
/// Longest such pause, for validators and for other peers. A quorum of validators is correct, so a validator
/// that fails is probably only unreachable.
const VALIDATOR_PAUSE_MS: u64 = 4_000;
const GUEST_PAUSE_MS: u64 = 60_000;
/// A block in parts must arrive within [`REQUEST_MS`] plus this per part.
const PART_MS: u64 = 1_000;
/// Maximum size of a block under rules that do not bound it, in bytes.
const MAX_BLOCK_BYTES: u64 = 256 << 20;
/// Upper bound of the encoded size of a block, as a multiple of the bytes that the rules allow its
/// transactions. The shortest entries have 64 bytes and need up to 90 bytes in the ordering record.
const ENCODED_RATIO: u64 = 4;

/// Chooses peers to request blocks from. Validators come first, because other identities are free.
#[derive(Default)]
pub struct Follower {
    claims: BTreeMap<NodeKey, Claim>,
    /// At most one per peer.
    requests: BTreeMap<NodeKey, Pending>,
    /// Parts of the next block received from each peer, if the block is too large for one response.
    large: BTreeMap<NodeKey, LargeBlock>,
}

/// Block that arrives in parts from one peer.
struct LargeBlock {
    /// Time of the request for its first part.
    begun: TimestampMs,
    /// Header, already proven.
    header: Header,
    proof: Proof,
    length: u64,
    received: Vec<u8>,
}

/// Reason why a response is unusable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Another peer was faster.
    Late,
    /// The peer has no such blocks, or responded after the timeout: no fault.
    Nothing,
    Fault(String),
}

impl From<String> for Problem {
    fn from(fault: String) -> Self {
        Self::Fault(fault)
    }
}

impl From<&str> for Problem {
    fn from(fault: &str) -> Self {
        Self::Fault(fault.into())
    }
}

/// Missing blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    pub from: Height,
    /// Height of the weak certificate that covers them; `None`: a peer knows a certificate.
    pub through: Option<Height>,
}

/// Requirements for followed blocks: the chain that they must continue, and a weak certificate, if there is
/// one.
#[derive(Clone, Copy)]
pub struct Next<'a> {
    pub height: Height,
    pub parent: B256,
    pub weak: Option<&'a WeakCertificate>,
    pub rules: &'static ProtocolRules,
}

impl Next<'_> {
    /// Maximum size of the encoded block, in bytes.
    fn max_bytes(&self) -> u64 {
        self.rules.max_block_bytes.saturating_mul(ENCODED_RATIO).min(MAX_BLOCK_BYTES)
    }
}

/// Proof that blocks are valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    Certificate(VerifiedCertificate),
    /// The weak certificate of [`Next`].
    Weak,
}

/// Blocks, with a proof for the last of them or for a descendant of it.
type Proven = (Vec<FollowedBlock>, Proof);

/// Connected peer.
#[derive(Default)]
struct Claim {
    validator: bool,
    /// Highest height that it claims to be certified.
    height: Height,
    /// Highest height for which it signed a weak certificate.
    executed: Height,
    /// Number of failed requests since the last useful response; 1 if that response was slow.
    failures: u32,
    not_before: TimestampMs,
    asked: TimestampMs,
}

/// Pending request.
struct Pending {
    from: Height,
    at: TimestampMs,
}

/// Time at which a request fails: no response, or too few parts of a block in parts.
fn until(large: Option<&LargeBlock>, request: &Pending) -> TimestampMs {
    let answer = TimestampMs(request.at.0 + REQUEST_MS);
    large.map_or(answer, |large| large.until().min(answer))
}

impl Claim {
    /// Pauses requests to this peer, counted from `since`.
    fn failed(&mut self, since: TimestampMs) {
        let longest = if self.validator { VALIDATOR_PAUSE_MS } else { GUEST_PAUSE_MS };
        self.not_before = TimestampMs(since.0 + (RETRY_MS << self.failures.min(16)).min(longest));
        self.failures = self.failures.saturating_add(1);
    }
}

impl Follower {
    pub fn peer_up(&mut self, peer: NodeKey, validator: bool) {
        self.claims.entry(peer).or_default().validator = validator;
    }

    pub fn peer_down(&mut self, peer: &NodeKey) {
        self.claims.remove(peer);
        self.give_up(peer);
    }

    /// Drops everything expected from this peer; returns its request.
    fn give_up(&mut self, peer: &NodeKey) -> Option<Pending> {
        self.large.remove(peer);
        self.requests.remove(peer)
    }

    /// Records that `peer` has certified blocks up to `height`.
    pub fn claim(&mut self, peer: NodeKey, height: Height) {
        if let Some(claim) = self.claims.get_mut(&peer) {
            claim.height = claim.height.max(height);
        }
    }

    /// Records that `peer` signed the weak certificate for `height`.
    pub fn signed(&mut self, peer: &NodeKey, height: Height) {
        if let Some(claim) = self.claims.get_mut(peer) {
            claim.executed = claim.executed.max(height);
        }
    }

    /// True if a connected peer claims to have executed this block.
    pub fn has_signer(&self, height: Height) -> bool {
        self.claims.values().any(|claim| claim.executed >= height)
    }

    /// Highest claimed height.
    pub fn target(&self) -> Height {
        self.claims.values().map(|claim| claim.height).max().unwrap_or_default()
    }

    /// Chooses a peer to request the missing blocks from; `None` while enough requests are pending or no peer
    /// can help.
    pub fn ask(&mut self, now: TimestampMs, missing: Missing) -> Option<(NodeKey, Request)> {
        let Missing { from, through } = missing;
        self.expire(now);
        self.large.retain(|_, large| large.header.number == from.0);
        let next_part = self.large.iter().find(|(peer, _)| !self.requests.contains_key(*peer));
        let (peer, offset) = match next_part {
            Some((peer, large)) => (*peer, large.received.len() as u64),
            None => (self.choose(now, missing)?, 0),
        };
        self.claims.get_mut(&peer)?.asked = now;
        self.requests.insert(peer, Pending { from, at: now });
        let request = match through {
            None => Request::Blocks { from, offset },
            Some(through) => Request::Executed { from, through, offset },
        };
        Some((peer, request))
    }

    /// Prefers validators, then peers with fewer failures, then round robin.
    fn choose(&self, now: TimestampMs, missing: Missing) -> Option<NodeKey> {
        if self.may_ask_at(missing.from).is_none_or(|at| now < at) {
            return None;
        }
        let ready = self.able(missing).filter(|(_, claim)| claim.not_before <= now);
        ready.min_by_key(|(_, claim)| (!claim.validator, claim.failures, claim.asked)).map(|(peer, _)| *peer)
    }

    /// Peers that have the missing blocks and no pending request.
    fn able(&self, missing: Missing) -> impl Iterator<Item = (&NodeKey, &Claim)> {
        let has_it = move |claim: &Claim| match missing.through {
            None => claim.height >= missing.from,
            Some(through) => claim.executed >= through,
        };
        self.claims.iter().filter(move |(peer, claim)| has_it(claim) && !self.requests.contains_key(*peer))
    }

    /// Time at which one more peer may be asked for these blocks: when all pending requests for them are
    /// slow. `None`: only after a request ends.
    fn may_ask_at(&self, from: Height) -> Option<TimestampMs> {
        let of_these = self.requests.iter().filter(|(_, request)| request.from == from);
        if of_these.clone().count() >= PARALLEL {
            return None;
        }
        let slow_at = |(peer, request): (&NodeKey, &Pending)| {
            let whole = self.large.get(peer).map(|large| large.begun.0 + REQUEST_MS);
            TimestampMs(whole.unwrap_or(u64::MAX).min(request.at.0 + HEDGE_MS))
        };
        Some(of_these.map(slow_at).max().unwrap_or_default())
    }

    fn expire(&mut self, now: TimestampMs) {
        let expired: Vec<_> =
            self.requests.extract_if(.., |peer, request| until(self.large.get(peer), request) <= now).collect();
        for (peer, request) in expired {
            self.give_up(&peer);
            if let Some(claim) = self.claims.get_mut(&peer) {
                claim.failed(request.at);
            }
        }
    }

    /// Records that `peer` sent the requested blocks.
    fn served(&mut self, now: TimestampMs, peer: &NodeKey, asked: &Pending) {
        if let Some(claim) = self.claims.get_mut(peer) {
            // A slow peer loses its priority: otherwise a faulty one could slow down everything without ever
            // failing.
            claim.failures = u32::from(now.0 >= asked.at.0 + HEDGE_MS);
        }
    }

    /// Records that the request to `peer` ended without a useful response.
    pub fn failed(&mut self, now: TimestampMs, peer: &NodeKey) {
        // An expired request was counted as failed already.
        let pending = self.give_up(peer).is_some();
        if let Some(claim) = self.claims.get_mut(peer).filter(|claim| pending || claim.not_before <= now) {
            claim.failed(now);
        }
    }

    /// Handles blocks from `peer` that are no longer needed. If they were requested, another peer was faster.
    pub fn late(&mut self, now: TimestampMs, peer: &NodeKey, response: &Response) {
        let first = response.first();
        match self.give_up(peer) {
            Some(asked) if first == Some(asked.from) || (first.is_none() && response.part.is_some()) => {
                self.served(now, peer, &asked);
            }
            _ => self.failed(now, peer),
        }
    }

    /// Handles the response to a request for the blocks that continue our chain. Returns `None` if more parts
    /// must be requested.
    pub fn receive(
        &mut self,
        now: TimestampMs,
        peer: NodeKey,
        mut response: Response,
        next: Next<'_>,
        verify: impl FnOnce(Certificate) -> Option<VerifiedCertificate>,
    ) -> Result<Option<Proven>, Problem> {
        let first = response.first();
        let others_are_ahead = !self.large.is_empty() && !self.large.contains_key(&peer);
        let is_late_part = first.is_none() && response.part.is_some() && others_are_ahead;
        if is_late_part || first.is_some_and(|first| first != next.height) {
            self.late(now, &peer, &response);
            return Err(Problem::Late);
        }
        if response == Response::default() {
            return Err(Problem::Nothing);
        }
        let asked = self.requests.remove(&peer);
        let problem = |problem| if asked.is_some() { problem } else { Problem::Nothing };
        let received = match response.part.take() {
            None => check_blocks(&response, next, verify).map(|proof| Some((response.blocks, proof))),
            Some(part) => {
                let expected = self.large.get(&peer).map_or(0, |large| large.received.len() as u64);
                match &asked {
                    Some(asked) if part.offset == expected => {
                        self.receive_part((peer, asked.at), &response, &part, next, verify)
                    }
                    _ => return Err(Problem::Nothing),
                }
            }
        };
        let received = received.map_err(problem)?;
        if let Some(asked) = asked {
            self.served(now, &peer, &asked);
        }
        Ok(received)
    }

    fn receive_part(
        &mut self,
        (peer, asked): (NodeKey, TimestampMs),
        response: &Response,
        part: &Part,
        next: Next<'_>,
        verify: impl FnOnce(Certificate) -> Option<VerifiedCertificate>,
    ) -> Result<Option<Proven>, Problem> {
        let mut large = match self.large.remove(&peer) {
            Some(large) => large,
            None => LargeBlock::begin(asked, response, part.length, next, verify)?,
        };
        large.add(part)?;
        if large.received.len() as u64 == large.length {
            let proven = large.finish()?;
            self.large.clear();
            return Ok(Some(proven));
        }
        self.large.insert(peer, large);
        Ok(None)
    }

    /// Time at which [`Self::ask`] may succeed or a request expires, if nothing else happens.
    pub fn deadline(&self, missing: Missing) -> Option<TimestampMs> {
        let expiry = self.requests.iter().map(|(peer, request)| until(self.large.get(peer), request)).min();
        let next_part = self.large.iter().find(|(peer, _)| !self.requests.contains_key(*peer)).map(|(_, large)| large.begun);
        let ready = self.able(missing).map(|(_, claim)| claim.not_before).min();
        let ask = self.may_ask_at(missing.from).zip(ready).map(|(may, ready)| may.max(ready));
        [expiry, next_part, ask].into_iter().flatten().min()
    }
}

impl LargeBlock {
    /// Starts with the response that contains the first part.
    fn begin(
        begun: TimestampMs,
        response: &Response,
        length: u64,
        next: Next<'_>,
        verify: impl FnOnce(Certificate) -> Option<VerifiedCertificate>,
    ) -> Result<Self, Problem> {
        if !response.blocks.is_empty() {
            return Err("blocks beside a part of one".into());
        }
        let most = next.max_bytes();
        if length > most {
            return Err(format!("block {} has {length} bytes, at most {most} are possible", next.height).into());
        }
        let proof = check_chain(response, next, verify)?;
        let header = response.headers.first().ok_or("a part without its header")?.0.clone();
        Ok(Self { begun, header, proof, length, received: Vec::new() })
    }

    /// Time by which it must be complete.
    fn until(&self) -> TimestampMs {
        TimestampMs(self.begun.0 + REQUEST_MS + PART_MS * self.length.div_ceil(PART_BYTES as u64))
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

    fn finish(self) -> Result<Proven, String> {
        let followed: FollowedBlock = wire::decode(&self.received).map_err(|error| error.to_string())?;
        if followed.block.header != self.header {
            return Err("another block than the certified one".into());
        }
        check_body(&followed)?;
        Ok((vec![followed], self.proof))
    }
}

/// Checks that the blocks and headers of `response` continue our chain and end in a proven header. The caller
/// provides `verify` for the signatures of a certificate. Blocks that pass were certified by a quorum or
/// executed by an honest validator. If executing them gives another header, our execution is wrong, not the
/// peer.
fn check_chain(
    response: &Response,
    next: Next<'_>,
    verify: impl FnOnce(Certificate) -> Option<VerifiedCertificate>,
) -> Result<Proof, Problem> {
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
fn check_weak(weak: Option<&WeakCertificate>, height: Height, hash: B256) -> Result<Proof, Problem> {
    let weak = weak.ok_or("no certificate")?;
    // A response to an earlier request is no fault.
    if weak.height() != height {
        return Err(Problem::Nothing);
    }
    if weak.header_hash() != hash {
        return Err(format!("another header at {height} than the weak certificate's").into());
    }
    Ok(Proof::Weak)
}

/// Like [`check_chain`], for whole blocks including their bodies.
fn check_blocks(
    response: &Response,
    next: Next<'_>,
    verify: impl FnOnce(Certificate) -> Option<VerifiedCertificate>,
) -> Result<Proof, Problem> {
    if response.blocks.is_empty() {
        return Err("headers without blocks".into());
    }
    let proof = check_chain(response, next, verify)?;
    for followed in &response.blocks {
        let height = followed.block.height();
        check_body(followed).map_err(|problem| format!("block {height}: {problem}"))?;
    }
    Ok(proof)
}

/// Checks that the body is what the header commits to.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::RangeInclusive;

    const START: TimestampMs = TimestampMs(1_000_000);

    fn key(number: u8) -> NodeKey {
        [number; 32]
    }

    /// Peers with blocks up to height 1,000; the last `validators` of them are validators.
    fn follower(validators: u8, guests: u8) -> Follower {
        let mut follower = Follower::default();
        // Guests have the smaller keys, so only the rule prefers validators.
        for number in 0..guests + validators {
            follower.peer_up(key(number), number >= guests);
            follower.claim(key(number), Height(1_000));
        }
        follower
    }

    fn certified(from: Height) -> Missing {
        Missing { from, through: None }
    }

    fn ask(follower: &mut Follower, now: TimestampMs, from: Height) -> Option<NodeKey> {
        follower.ask(now, certified(from)).map(|(peer, _)| peer)
    }

    fn serve(follower: &mut Follower, now: TimestampMs, peer: &NodeKey) {
        let asked = follower.requests.remove(peer).expect("it was asked");
        follower.served(now, peer, &asked);
    }

    /// Requests these ranges one after the other from `start` on; `answers` decides which peers respond,
    /// immediately. Returns the time it took.
    fn fetch(follower: &mut Follower, start: TimestampMs, ranges: RangeInclusive<u64>, answers: impl Fn(u8) -> bool) -> u64 {
        let mut now = start;
        for round in ranges {
            let from = Height(round);
            let mut steps = 0;
            loop {
                match ask(follower, now, from) {
                    Some(peer) if answers(peer[0]) => {
                        serve(follower, now, &peer);
                        break;
                    }
                    Some(_) => {}
                    None => now = now.max(follower.deadline(certified(from)).expect("somebody can be asked some time")),
                }
                steps += 1;
                assert!(steps < 1_000, "no progress at {now:?}");
            }
        }
        now.0 - start.0
    }

    #[test]
    fn silent_guests_do_not_delay_who_has_a_validator() {
        assert_eq!(fetch(&mut follower(1, 60), START, 1..=100, |peer| peer == 60), 0);
    }

    #[test]
    fn silent_guests_delay_who_has_none_once() {
        let mut follower = follower(0, 60);
        // Three are asked per five seconds, until the last one is reached.
        let took = fetch(&mut follower, START, 1..=1, |peer| peer == 59);
        assert!(took <= 60 * REQUEST_MS / 2, "{took}");
        let later = TimestampMs(START.0 + took);
        assert_eq!(fetch(&mut follower, later, 2..=100, |peer| peer == 59), 0, "it is known by then");
    }

    #[test]
    fn silent_validators_cost_a_hedge_each_and_no_timeout() {
        let mut follower = follower(10, 60);
        // 60 to 62 are silent: together they use up the requests for the first range.
        assert!(fetch(&mut follower, START, 1..=100, |peer| peer >= 63) <= REQUEST_MS + 3 * HEDGE_MS);
    }

    #[test]
    fn a_peer_that_fails_is_asked_ever_more_rarely_and_forgiven_when_it_serves() {
        for (validators, guests, longest) in [(1, 0, VALIDATOR_PAUSE_MS), (0, 1, GUEST_PAUSE_MS)] {
            let mut follower = follower(validators, guests);
            let mut now = START;
            let mut pauses = Vec::new();
            for _ in 0..20 {
                assert_eq!(ask(&mut follower, now, Height(1)), Some(key(0)));
                follower.failed(now, &key(0));
                let next = follower.deadline(certified(Height(1))).expect("it is asked again");
                assert_eq!(ask(&mut follower, TimestampMs(next.0 - 1), Height(1)), None);
                pauses.push(next.0 - now.0);
                now = next;
            }
            assert_eq!(pauses[..3], [500, 1_000, 2_000]);
            assert_eq!(pauses[19], longest);
            assert_eq!(ask(&mut follower, now, Height(1)), Some(key(0)));
            serve(&mut follower, now, &key(0));
            assert_eq!(ask(&mut follower, now, Height(2)), Some(key(0)));
            follower.failed(now, &key(0));
            assert_eq!(follower.deadline(certified(Height(2))), Some(TimestampMs(now.0 + RETRY_MS)));
        }
    }

    #[test]
    fn several_are_asked_at_once_when_the_first_takes_its_time() {
        let mut follower = follower(10, 0);
        let mut asked = Vec::new();
        for step in 0..10 {
            let now = TimestampMs(START.0 + step * HEDGE_MS / 2);
            asked.extend(ask(&mut follower, now, Height(1)).map(|peer| (step, peer[0])));
        }
        assert_eq!(asked, [(0, 0), (2, 1), (4, 2)]);
        // Requests for blocks that arrived meanwhile do not block others.
        let now = TimestampMs(START.0 + 4 * HEDGE_MS);
        serve(&mut follower, now, &key(1));
        assert_eq!(follower.claims[&key(1)].failures, 1, "slow");
        assert_eq!(ask(&mut follower, now, Height(600)), Some(key(3)));
        serve(&mut follower, now, &key(3));
        assert_eq!(follower.claims[&key(3)].failures, 0);
    }
}
