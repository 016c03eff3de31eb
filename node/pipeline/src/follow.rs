//! Follows blocks that others certified: full nodes always, validators when they have fallen behind.
//! Validators also follow blocks with a [`WeakCertificate`].

mod large_block;
mod proof;

pub use proof::{ExpectedBlock, Proof, ResponseError};

use crate::io::NodeKey;
use crate::message::{Part, Request, Response};
use corniche_certify::VerifiedCertificate;
use corniche_types::{Certificate, Height, TimestampMs};
use large_block::LargeBlock;
use proof::{Proven, check_blocks};
use std::collections::{BTreeMap, BTreeSet};

/// Timeout of a request.
const REQUEST_TIMEOUT_MS: u64 = 5_000;
/// Time after which an unanswered request for blocks is sent to another peer as well.
const HEDGE_DELAY_MS: u64 = 1_000;
/// Maximum number of peers asked for the same blocks at once.
const MAX_PARALLEL_REQUESTS: usize = 3;
/// Pause before a peer with a failed request is asked again; each further consecutive failure doubles it.
const RETRY_DELAY_MS: u64 = 500;
/// Longest such pause, for validators and for other peers. A quorum of validators is correct, so a validator
/// that fails is probably only unreachable.
const MAX_VALIDATOR_PAUSE_MS: u64 = 4_000;
const MAX_GUEST_PAUSE_MS: u64 = 60_000;
/// Times in a row that a peer responds without a block that it claims to have, before it counts as a peer without that block. A block
/// may reach the disk after its certificate was sent.
const MAX_EMPTY_RESPONSES: u32 = 3;

/// Chooses peers to request blocks from. Validators come first, because other identities are free.
#[derive(Default)]
pub struct Follower {
    peers: BTreeMap<NodeKey, PeerState>,
    /// At most one per peer.
    requests: BTreeMap<NodeKey, PendingRequest>,
    /// Peers that say that they have the next block, without a certificate that this node could verify.
    claimants: BTreeSet<NodeKey>,
    /// Parts of the next block received from each peer, if the block is too large for one response.
    large: BTreeMap<NodeKey, LargeBlock>,
}

/// Missing blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingBlocks {
    pub from: Height,
    /// Height of the weak certificate that covers them; `None`: a peer knows a certificate.
    pub through: Option<Height>,
}

/// Connected peer.
#[derive(Default)]
struct PeerState {
    validator: bool,
    /// Highest height that it claims to be certified.
    height: Height,
    /// Highest height for which it signed a weak certificate.
    executed: Height,
    /// Number of failed requests since the last useful response; 1 if that response was slow.
    failures: u32,
    not_before: TimestampMs,
    requested: TimestampMs,
    /// A block that it did not send, and the number of such responses in a row.
    lacks: (Height, u32),
}

/// Pending request.
struct PendingRequest {
    from: Height,
    at: TimestampMs,
}

/// Time at which a request fails: no response, or too few parts of a block in parts.
fn request_deadline(large: Option<&LargeBlock>, request: &PendingRequest) -> TimestampMs {
    let answer = TimestampMs(request.at.0 + REQUEST_TIMEOUT_MS);
    large.map_or(answer, |large| large.deadline().min(answer))
}

impl PeerState {
    /// Pauses requests to this peer, counted from `since`.
    fn record_failure(&mut self, since: TimestampMs) {
        let longest = if self.validator { MAX_VALIDATOR_PAUSE_MS } else { MAX_GUEST_PAUSE_MS };
        self.not_before = TimestampMs(since.0 + (RETRY_DELAY_MS << self.failures.min(16)).min(longest));
        self.failures = self.failures.saturating_add(1);
    }
}

impl Follower {
    pub fn peer_up(&mut self, peer: NodeKey, validator: bool) {
        self.peers.entry(peer).or_default().validator = validator;
    }

    pub fn peer_down(&mut self, peer: &NodeKey) {
        self.peers.remove(peer);
        self.cancel(peer);
    }

    /// Drops everything expected from this peer; returns its request.
    fn cancel(&mut self, peer: &NodeKey) -> Option<PendingRequest> {
        self.large.remove(peer);
        self.requests.remove(peer)
    }

    /// Records that `peer` has certified blocks up to `height`.
    pub fn record_height(&mut self, peer: NodeKey, height: Height) {
        if let Some(peer_state) = self.peers.get_mut(&peer) {
            peer_state.height = peer_state.height.max(height);
        }
    }

    /// Replaces the peers that say that they have the next block.
    pub fn set_claimants(&mut self, peers: impl IntoIterator<Item = NodeKey>) {
        self.claimants.clear();
        self.claimants.extend(peers);
    }

    /// True if peers say that they have the next block.
    pub fn has_claimants(&self) -> bool {
        !self.claimants.is_empty()
    }

    /// Records that `peer` signed the weak certificate for `height`.
    pub fn record_signer(&mut self, peer: &NodeKey, height: Height) {
        if let Some(peer_state) = self.peers.get_mut(peer) {
            peer_state.executed = peer_state.executed.max(height);
        }
    }

    /// True if a connected peer claims to have executed this block.
    pub fn has_signer(&self, height: Height) -> bool {
        self.peers.values().any(|peer_state| peer_state.executed >= height)
    }

    /// Highest claimed height.
    pub fn target(&self) -> Height {
        self.peers.values().map(|peer_state| peer_state.height).max().unwrap_or_default()
    }

    /// Chooses a peer to request the missing blocks from; `None` while enough requests are pending or no peer
    /// can help.
    pub fn next_request(&mut self, now: TimestampMs, missing: MissingBlocks) -> Option<(NodeKey, Request)> {
        let MissingBlocks { from, through } = missing;
        self.expire(now);
        self.large.retain(|_, large| large.height() == from);
        let next_part = self.large.iter().find(|(peer, _)| !self.requests.contains_key(*peer));
        let (peer, offset) = match next_part {
            Some((peer, large)) => (*peer, large.received()),
            None => (self.choose_peer(now, missing)?, 0),
        };
        self.peers.get_mut(&peer)?.requested = now;
        self.requests.insert(peer, PendingRequest { from, at: now });
        let request = match through {
            None => Request::Blocks { from, offset },
            Some(through) => Request::Executed { from, through, offset },
        };
        Some((peer, request))
    }

    /// Prefers validators, then peers with fewer failures, then round robin.
    fn choose_peer(&self, now: TimestampMs, missing: MissingBlocks) -> Option<NodeKey> {
        if self.next_request_at(missing.from).is_none_or(|at| now < at) {
            return None;
        }
        let ready = self.available_peers(missing).filter(|(_, peer_state)| peer_state.not_before <= now);
        ready
            .min_by_key(|(_, peer_state)| (!peer_state.validator, peer_state.failures, peer_state.requested))
            .map(|(peer, _)| *peer)
    }

    /// Peers that have the missing blocks and no pending request.
    fn available_peers(&self, missing: MissingBlocks) -> impl Iterator<Item = (&NodeKey, &PeerState)> {
        let has_blocks = move |(peer, peer_state): &(&NodeKey, &PeerState)| match missing.through {
            None => peer_state.height >= missing.from || self.claimants.contains(*peer),
            Some(through) => peer_state.executed >= through,
        };
        self.peers.iter().filter(has_blocks).filter(|(peer, _)| !self.requests.contains_key(*peer))
    }

    /// Time at which one more peer may be asked for these blocks: when all pending requests for them are
    /// slow. `None`: only after a request ends.
    fn next_request_at(&self, from: Height) -> Option<TimestampMs> {
        let for_same_blocks = self.requests.iter().filter(|(_, request)| request.from == from);
        if for_same_blocks.clone().count() >= MAX_PARALLEL_REQUESTS {
            return None;
        }
        let slow_at = |(peer, request): (&NodeKey, &PendingRequest)| {
            let whole = self.large.get(peer).map(|large| large.started().0 + REQUEST_TIMEOUT_MS);
            TimestampMs(whole.unwrap_or(u64::MAX).min(request.at.0 + HEDGE_DELAY_MS))
        };
        Some(for_same_blocks.map(slow_at).max().unwrap_or_default())
    }

    fn expire(&mut self, now: TimestampMs) {
        let expired: Vec<_> =
            self.requests.extract_if(.., |peer, request| request_deadline(self.large.get(peer), request) <= now).collect();
        for (peer, request) in expired {
            self.cancel(&peer);
            if let Some(peer_state) = self.peers.get_mut(&peer) {
                peer_state.record_failure(request.at);
            }
        }
    }

    /// Records that `peer` sent the requested blocks.
    fn record_success(&mut self, now: TimestampMs, peer: &NodeKey, requested: &PendingRequest) {
        if let Some(peer_state) = self.peers.get_mut(peer) {
            // A slow peer loses its priority: otherwise a faulty one could slow down everything without ever
            // failing.
            peer_state.failures = u32::from(now.0 >= requested.at.0 + HEDGE_DELAY_MS);
        }
    }

    /// Records that the request to `peer` ended without a useful response.
    pub fn record_failure(&mut self, now: TimestampMs, peer: &NodeKey) {
        // An expired request was counted as failed already.
        let pending = self.cancel(peer).is_some();
        if let Some(peer_state) = self.peers.get_mut(peer).filter(|peer_state| pending || peer_state.not_before <= now) {
            peer_state.record_failure(now);
        }
    }

    /// Handles blocks from `peer` that are no longer needed. If they were requested, another peer was faster.
    pub fn record_late(&mut self, now: TimestampMs, peer: &NodeKey, response: &Response) {
        let first = response.first();
        match self.cancel(peer) {
            Some(requested) if first == Some(requested.from) || (first.is_none() && response.part.is_some()) => {
                self.record_success(now, peer, &requested);
            }
            _ => self.record_failure(now, peer),
        }
    }

    /// Handles the response to a request for the blocks that continue our chain. Returns `None` if more parts
    /// must be requested.
    pub fn receive(
        &mut self,
        now: TimestampMs,
        peer: NodeKey,
        mut response: Response,
        next: ExpectedBlock<'_>,
        verify: impl FnOnce(Certificate) -> Option<VerifiedCertificate>,
    ) -> Result<Option<Proven>, ResponseError> {
        let first = response.first();
        let others_have_parts = !self.large.is_empty() && !self.large.contains_key(&peer);
        let is_late_part = first.is_none() && response.part.is_some() && others_have_parts;
        if is_late_part || first.is_some_and(|first| first != next.height) {
            self.record_late(now, &peer, &response);
            return Err(ResponseError::Late);
        }
        if response == Response::default() {
            self.record_lack(&peer, next.height);
            return Err(ResponseError::Unavailable);
        }
        let requested = self.requests.remove(&peer);
        let problem = |problem| if requested.is_some() { problem } else { ResponseError::Unavailable };
        let received = match response.part.take() {
            None => check_blocks(&response, next, verify).map(|proof| Some((response.blocks, proof))),
            Some(part) => {
                let expected = self.large.get(&peer).map_or(0, |large| large.received());
                match &requested {
                    Some(requested) if part.offset == expected => {
                        self.receive_part((peer, requested.at), &response, &part, next, verify)
                    }
                    _ => return Err(ResponseError::Unavailable),
                }
            }
        };
        let received = received.map_err(problem)?;
        if let Some(requested) = requested {
            self.record_success(now, &peer, &requested);
        }
        Ok(received)
    }

    fn record_lack(&mut self, peer: &NodeKey, height: Height) {
        let is_response = self.requests.get(peer).is_some_and(|request| request.from == height);
        if let Some(peer_state) = self.peers.get_mut(peer).filter(|_| is_response) {
            let (before, count) = peer_state.lacks;
            peer_state.lacks = (height, if before == height { count.saturating_add(1) } else { 1 });
        }
    }

    /// True if peers claim certified blocks from this height on, and none of them has this one.
    pub fn is_unavailable(&self, height: Height) -> bool {
        let mut claiming = self.peers.values().filter(|peer_state| peer_state.height >= height).peekable();
        let lacks = |peer_state: &PeerState| peer_state.lacks.0 == height && peer_state.lacks.1 >= MAX_EMPTY_RESPONSES;
        claiming.peek().is_some() && claiming.all(lacks)
    }

    fn receive_part(
        &mut self,
        (peer, requested): (NodeKey, TimestampMs),
        response: &Response,
        part: &Part,
        next: ExpectedBlock<'_>,
        verify: impl FnOnce(Certificate) -> Option<VerifiedCertificate>,
    ) -> Result<Option<Proven>, ResponseError> {
        let mut large = match self.large.remove(&peer) {
            Some(large) => large,
            None => LargeBlock::begin(requested, response, part.length, next, verify)?,
        };
        large.add(part)?;
        if large.is_complete() {
            let proven = large.finish()?;
            self.large.clear();
            return Ok(Some(proven));
        }
        self.large.insert(peer, large);
        Ok(None)
    }

    /// Time at which [`Self::next_request`] may succeed or a request expires, if nothing else happens.
    pub fn deadline(&self, missing: MissingBlocks) -> Option<TimestampMs> {
        let expiry = self.requests.iter().map(|(peer, request)| request_deadline(self.large.get(peer), request)).min();
        let next_part =
            self.large.iter().find(|(peer, _)| !self.requests.contains_key(*peer)).map(|(_, large)| large.started());
        let ready = self.available_peers(missing).map(|(_, peer_state)| peer_state.not_before).min();
        let ask = self.next_request_at(missing.from).zip(ready).map(|(earliest, ready)| earliest.max(ready));
        [expiry, next_part, ask].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_types::{B256, ProtocolRules};
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
            follower.record_height(key(number), Height(1_000));
        }
        follower
    }

    fn certified(from: Height) -> MissingBlocks {
        MissingBlocks { from, through: None }
    }

    fn ask(follower: &mut Follower, now: TimestampMs, from: Height) -> Option<NodeKey> {
        follower.next_request(now, certified(from)).map(|(peer, _)| peer)
    }

    fn respond(follower: &mut Follower, now: TimestampMs, peer: &NodeKey) {
        let requested = follower.requests.remove(peer).expect("it was asked");
        follower.record_success(now, peer, &requested);
    }

    /// Requests these ranges one after the other from `start` on; `responds` decides which peers respond,
    /// immediately. Returns the time it took.
    fn fetch(follower: &mut Follower, start: TimestampMs, ranges: RangeInclusive<u64>, responds: impl Fn(u8) -> bool) -> u64 {
        let mut now = start;
        for round in ranges {
            let from = Height(round);
            let mut steps = 0;
            loop {
                match ask(follower, now, from) {
                    Some(peer) if responds(peer[0]) => {
                        respond(follower, now, &peer);
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
    fn a_block_that_all_peers_deleted_is_noticed() {
        let (mut follower, missing) = (follower(0, 2), Height(7));
        let mut now = START;
        let mut lack = |follower: &mut Follower, peers: std::ops::Range<u8>| {
            for _ in 0..MAX_EMPTY_RESPONSES * 2 {
                now.0 += MAX_GUEST_PAUSE_MS;
                let peer = ask(follower, now, missing).unwrap();
                let next =
                    ExpectedBlock { height: missing, parent: B256::ZERO, weak: None, rules: ProtocolRules::of(1).unwrap() };
                if peers.contains(&peer[0]) {
                    assert!(follower.receive(now, peer, Response::default(), next, |_| None).is_err());
                }
                follower.record_failure(now, &peer);
            }
        };
        assert!(!follower.is_unavailable(missing), "nobody was asked");
        // Only one of the two responds.
        lack(&mut follower, 0..1);
        assert!(!follower.is_unavailable(missing));
        lack(&mut follower, 0..2);
        assert!(follower.is_unavailable(missing));
        assert!(!follower.is_unavailable(missing.next()), "that one was not requested");
        // A new peer may have it.
        follower.peer_up(key(9), false);
        assert!(follower.is_unavailable(missing), "it claims nothing yet");
        follower.record_height(key(9), missing);
        assert!(!follower.is_unavailable(missing));
    }

    #[test]
    fn silent_guests_do_not_delay_with_validator() {
        assert_eq!(fetch(&mut follower(1, 60), START, 1..=100, |peer| peer == 60), 0);
    }

    #[test]
    fn silent_guests_delay_once_without_validator() {
        let mut follower = follower(0, 60);
        // Three are asked per five seconds, until the last one is reached.
        let elapsed = fetch(&mut follower, START, 1..=1, |peer| peer == 59);
        assert!(elapsed <= 60 * REQUEST_TIMEOUT_MS / 2, "{elapsed}");
        let later = TimestampMs(START.0 + elapsed);
        assert_eq!(fetch(&mut follower, later, 2..=100, |peer| peer == 59), 0, "it is known by then");
    }

    #[test]
    fn silent_validators_cost_one_hedge_each() {
        let mut follower = follower(10, 60);
        // 60 to 62 are silent: together they use up the requests for the first range.
        assert!(fetch(&mut follower, START, 1..=100, |peer| peer >= 63) <= REQUEST_TIMEOUT_MS + 3 * HEDGE_DELAY_MS);
    }

    #[test]
    fn failing_peer_is_asked_less_often() {
        for (validators, guests, longest) in [(1, 0, MAX_VALIDATOR_PAUSE_MS), (0, 1, MAX_GUEST_PAUSE_MS)] {
            let mut follower = follower(validators, guests);
            let mut now = START;
            let mut pauses = Vec::new();
            for _ in 0..20 {
                assert_eq!(ask(&mut follower, now, Height(1)), Some(key(0)));
                follower.record_failure(now, &key(0));
                let next = follower.deadline(certified(Height(1))).expect("it is asked again");
                assert_eq!(ask(&mut follower, TimestampMs(next.0 - 1), Height(1)), None);
                pauses.push(next.0 - now.0);
                now = next;
            }
            assert_eq!(pauses[..3], [500, 1_000, 2_000]);
            assert_eq!(pauses[19], longest);
            assert_eq!(ask(&mut follower, now, Height(1)), Some(key(0)));
            respond(&mut follower, now, &key(0));
            assert_eq!(ask(&mut follower, now, Height(2)), Some(key(0)));
            follower.record_failure(now, &key(0));
            assert_eq!(follower.deadline(certified(Height(2))), Some(TimestampMs(now.0 + RETRY_DELAY_MS)));
        }
    }

    #[test]
    fn slow_peer_triggers_parallel_requests() {
        let mut follower = follower(10, 0);
        let mut requested = Vec::new();
        for step in 0..10 {
            let now = TimestampMs(START.0 + step * HEDGE_DELAY_MS / 2);
            requested.extend(ask(&mut follower, now, Height(1)).map(|peer| (step, peer[0])));
        }
        assert_eq!(requested, [(0, 0), (2, 1), (4, 2)]);
        // Requests for blocks that arrived meanwhile do not block others.
        let now = TimestampMs(START.0 + 4 * HEDGE_DELAY_MS);
        respond(&mut follower, now, &key(1));
        assert_eq!(follower.peers[&key(1)].failures, 1, "slow");
        assert_eq!(ask(&mut follower, now, Height(600)), Some(key(3)));
        respond(&mut follower, now, &key(3));
        assert_eq!(follower.peers[&key(3)].failures, 0);
    }
}
