//! Following blocks that others certified: what a full node always does and a validator does when it has fallen behind.

use crate::message::{FollowedBlock, Response};
use crate::words::NodeKey;
use corniche_types::{B256, Block, Certificate, Height, TimestampMs, header_hash};
use std::collections::BTreeMap;

/// A request that was not answered by then has failed.
const REQUEST_MS: u64 = 5_000;
/// While a request is not answered, another peer is asked for the same blocks after this long.
const HEDGE_MS: u64 = 1_000;
/// Peers that are asked for the same blocks at once.
const PARALLEL: usize = 3;
/// A peer whose request failed is not asked again for this long; each further failure in a row doubles it.
const RETRY_MS: u64 = 500;
/// Longest such pause. A quorum of validators is correct, so one that fails is probably only out of reach.
const VALIDATOR_PAUSE_MS: u64 = 4_000;
const GUEST_PAUSE_MS: u64 = 60_000;

/// Chooses peers to ask for blocks. Validators come first: connecting as anybody else costs nothing.
#[derive(Default)]
pub struct Follower {
    claims: BTreeMap<NodeKey, Claim>,
    /// At most one for each peer.
    requests: BTreeMap<NodeKey, Pending>,
}

/// A connected peer.
#[derive(Default)]
struct Claim {
    validator: bool,
    /// The highest height that it says is certified.
    height: Height,
    /// Requests that failed since the last useful answer.
    failures: u32,
    not_before: TimestampMs,
    asked: TimestampMs,
}

/// An unanswered request.
struct Pending {
    from: Height,
    at: TimestampMs,
}

impl Pending {
    fn until(&self) -> TimestampMs {
        TimestampMs(self.at.0 + REQUEST_MS)
    }
}

impl Claim {
    fn failed(&mut self, now: TimestampMs) {
        let longest = if self.validator { VALIDATOR_PAUSE_MS } else { GUEST_PAUSE_MS };
        self.not_before = TimestampMs(now.0 + (RETRY_MS << self.failures.min(16)).min(longest));
        self.failures = self.failures.saturating_add(1);
    }
}

impl Follower {
    pub fn peer_up(&mut self, peer: NodeKey, validator: bool) {
        self.claims.entry(peer).or_default().validator = validator;
    }

    pub fn peer_down(&mut self, peer: &NodeKey) {
        self.claims.remove(peer);
        self.requests.remove(peer);
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

    /// Chooses a peer to ask for blocks from `from` on; `None` while enough are asked or nobody can help now.
    ///
    /// Validators before others, then the one with fewer failures, then in turn.
    pub fn ask(&mut self, now: TimestampMs, from: Height) -> Option<NodeKey> {
        self.expire(now);
        if self.may_ask_at(from).is_none_or(|at| now < at) {
            return None;
        }
        let ready = self.able(from).filter(|(_, claim)| claim.not_before <= now);
        let (peer, _) = ready.min_by_key(|(_, claim)| (!claim.validator, claim.failures, claim.asked))?;
        let peer = *peer;
        self.claims.get_mut(&peer)?.asked = now;
        self.requests.insert(peer, Pending { from, at: now });
        Some(peer)
    }

    /// Peers that have blocks from `from` on and owe no answer.
    fn able(&self, from: Height) -> impl Iterator<Item = (&NodeKey, &Claim)> {
        self.claims.iter().filter(move |(peer, claim)| claim.height >= from && !self.requests.contains_key(*peer))
    }

    /// When one more may be asked for these blocks; `None`: not before a request ends.
    fn may_ask_at(&self, from: Height) -> Option<TimestampMs> {
        let of_these = self.requests.values().filter(|request| request.from == from);
        if of_these.clone().count() >= PARALLEL {
            return None;
        }
        Some(of_these.map(|request| TimestampMs(request.at.0 + HEDGE_MS)).max().unwrap_or_default())
    }

    fn expire(&mut self, now: TimestampMs) {
        let expired = self.requests.extract_if(.., |_, request| request.until() <= now);
        for (peer, _) in expired {
            if let Some(claim) = self.claims.get_mut(&peer) {
                claim.failed(now);
            }
        }
    }

    /// `peer` sent blocks that were of use.
    pub fn served(&mut self, peer: &NodeKey) {
        self.requests.remove(peer);
        if let Some(claim) = self.claims.get_mut(peer) {
            claim.failures = 0;
        }
    }

    /// `peer` sent blocks from `first` on, which are not needed: others were quicker, if these are the ones it was asked for.
    pub fn late(&mut self, now: TimestampMs, peer: &NodeKey, first: Height) {
        match self.requests.get(peer) {
            Some(request) if request.from == first => self.served(peer),
            _ => self.failed(now, peer),
        }
    }

    /// `peer` sent nothing of use.
    pub fn failed(&mut self, now: TimestampMs, peer: &NodeKey) {
        // An expired request has failed already.
        let pending = self.requests.remove(peer).is_some();
        if let Some(claim) = self.claims.get_mut(peer).filter(|claim| pending || claim.not_before <= now) {
            claim.failed(now);
        }
    }

    /// When [`Self::ask`] may succeed, or a request expires, without anything else happening.
    pub fn deadline(&self, from: Height) -> Option<TimestampMs> {
        let expiry = self.requests.values().map(Pending::until).min();
        let ready = self.able(from).map(|(_, claim)| claim.not_before).min();
        let ask = self.may_ask_at(from).zip(ready).map(|(may, ready)| may.max(ready));
        [expiry, ask].into_iter().flatten().min()
    }
}

/// Checks that `response` continues our chain (next height `from`, parent hash `parent`) and ends in a certified header.
/// Signatures are the caller's: `certificate_is_valid`. What passes is what a quorum certified: if executing it gives another
/// header, it is our execution that differs, and never a peer's doing.
pub fn check_response(
    response: Response,
    from: Height,
    parent: B256,
    certificate_is_valid: impl FnOnce(&Certificate) -> bool,
) -> Result<(Vec<FollowedBlock>, Certificate), String> {
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
    if !certificate_is_valid(&certificate) {
        return Err("the certificate's signature does not verify".into());
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::RangeInclusive;

    const START: TimestampMs = TimestampMs(1_000_000);

    fn key(number: u8) -> NodeKey {
        [number; 32]
    }

    /// Peers with everything up to height 1,000; the first `validators` are validators.
    fn follower(validators: u8, guests: u8) -> Follower {
        let mut follower = Follower::default();
        // Guests have the smaller keys, so nothing but the rule prefers validators.
        for number in 0..guests + validators {
            follower.peer_up(key(number), number >= guests);
            follower.claim(key(number), Height(1_000));
        }
        follower
    }

    /// Asks for these ranges, one after the other, from `start` on; `answers` says who answers, at once. Returns how long it took.
    fn fetch(follower: &mut Follower, start: TimestampMs, ranges: RangeInclusive<u64>, answers: impl Fn(u8) -> bool) -> u64 {
        let mut now = start;
        for round in ranges {
            let from = Height(round);
            let mut steps = 0;
            loop {
                match follower.ask(now, from) {
                    Some(peer) if answers(peer[0]) => {
                        follower.served(&peer);
                        break;
                    }
                    Some(_) => {}
                    None => now = now.max(follower.deadline(from).expect("somebody can be asked some time")),
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
        // Three are asked in five seconds, until the last one is.
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
                assert_eq!(follower.ask(now, Height(1)), Some(key(0)));
                follower.failed(now, &key(0));
                let next = follower.deadline(Height(1)).expect("it is asked again");
                assert_eq!(follower.ask(TimestampMs(next.0 - 1), Height(1)), None);
                pauses.push(next.0 - now.0);
                now = next;
            }
            assert_eq!(pauses[..3], [500, 1_000, 2_000]);
            assert_eq!(pauses[19], longest);
            assert_eq!(follower.ask(now, Height(1)), Some(key(0)));
            follower.served(&key(0));
            assert_eq!(follower.ask(now, Height(2)), Some(key(0)));
            follower.failed(now, &key(0));
            assert_eq!(follower.deadline(Height(2)), Some(TimestampMs(now.0 + RETRY_MS)));
        }
    }

    #[test]
    fn several_are_asked_at_once_when_the_first_takes_its_time() {
        let mut follower = follower(10, 0);
        let asked: Vec<_> = (0..10)
            .filter_map(|step| follower.ask(TimestampMs(START.0 + step * HEDGE_MS / 2), Height(1)).map(|peer| (step, peer[0])))
            .collect();
        assert_eq!(asked, [(0, 0), (2, 1), (4, 2)]);
        // Requests for blocks that came meanwhile are in nobody's way.
        follower.served(&key(1));
        let now = TimestampMs(START.0 + 4 * HEDGE_MS);
        assert!(follower.ask(now, Height(600)).is_some());
        follower.late(now, &key(0), Height(1));
        assert_eq!(follower.claims[&key(0)].failures, 0, "it did what it was asked for");
        follower.late(now, &key(2), Height(7));
        assert_eq!(follower.claims[&key(2)].failures, 1, "nobody asked for that");
    }
}
