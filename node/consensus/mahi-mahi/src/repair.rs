//! Start-up and requests: greets peers, fetches blocks and late coin shares. No decision depends on this module or its
//! timers. `serve` contains the responses.
//!
//! **Recovery (K2).** A validator whose disk was lost or restored from a backup must not sign a round twice. So on
//! every start it asks two things: the highest block of its own that a peer knows (a signed block: a liar can withhold
//! but not invent one), and a block of a round that the peer has reached. It is *recovered*, and may propose, only
//! after enough peers responded, and then only above all rounds that the forgotten incarnation can have reached. The README
//! contains the argument.

use crate::{
    config::Config,
    engine::MahiMahi,
    message::{Block, BlockRef, CoinHelp, Fetch, Hello, Message, Round},
    verify::MAX_COINS,
};
use corniche_engine::{Output, Recipients, TraceEvent};
use corniche_types::{Bytes, TimestampMs, ValidatorIndex, Votes};
use std::{collections::BTreeMap, sync::Arc};

/// State of requests to peers, and the times of retries.
pub struct Repair {
    nonce: u64,
    /// Block that each peer named since this start. A response counts once that block is in the DAG, so that a peer
    /// cannot name a round that does not exist.
    named: BTreeMap<ValidatorIndex, BlockRef>,
    /// First block that each peer named since this start: what an earlier incarnation signed was not later.
    first_named: BTreeMap<ValidatorIndex, BlockRef>,
    /// Highest own block that this incarnation did not make.
    foreign: Round,
    /// A twin was reported.
    has_twin: bool,
    /// Time since when own proposals are allowed; `None` before.
    recovered_at: Option<TimestampMs>,
    /// Our records do not contain all that we signed. Then we are no witness, neither for ourselves nor for others.
    lost_records: bool,
    /// There was no record at the start.
    no_records: bool,
    /// A forgotten incarnation might have signed rounds up to this one, though there is no evidence of such an incarnation. In these
    /// rounds we propose only when the network does not progress without us.
    uncertain_through: Round,
    /// Time of the last accepted block or repair attempt.
    progress_at: TimestampMs,
    /// Repair attempts since the last accepted block.
    attempts: u32,
    /// Time to request shares of coins that blocks cannot open; `None` if there are none.
    coins_at: Option<TimestampMs>,
    /// Unanswered block requests per peer, up to [`MAX_OPEN_REQUESTS`].
    open_requests: BTreeMap<ValidatorIndex, u32>,
}

/// Maximum number of responses that a peer may owe at once.
const MAX_OPEN_REQUESTS: u32 = 16;

impl Repair {
    /// `lost_records`: there was an earlier incarnation without records. `no_records`: there was no record.
    pub fn new(seed: u64, lost_records: bool, no_records: bool, now: TimestampMs) -> Self {
        // Includes the time in case the caller's seed is constant.
        let nonce = seed.rotate_left(32) ^ now.0;
        let (named, uncertain_through) = (BTreeMap::new(), Round(0));
        let (recovered_at, progress_at, attempts, coins_at) = (None, now, 0, None);
        let open_requests = BTreeMap::new();
        Self {
            nonce,
            named,
            first_named: BTreeMap::new(),
            foreign: Round(0),
            has_twin: false,
            recovered_at,
            lost_records,
            no_records,
            uncertain_through,
            progress_at,
            attempts,
            coins_at,
            open_requests,
        }
    }

    fn count_request(&mut self, peer: ValidatorIndex) {
        let open_requests = self.open_requests.entry(peer).or_default();
        *open_requests = (*open_requests + 1).min(MAX_OPEN_REQUESTS);
    }

    /// Returns true if a block request to this peer was unanswered, and counts it as answered.
    fn is_expected_response(&mut self, peer: ValidatorIndex) -> bool {
        let open_requests = self.open_requests.entry(peer).or_default();
        let owed = *open_requests > 0;
        *open_requests = open_requests.saturating_sub(1);
        owed
    }

    pub fn is_recovered(&self) -> bool {
        self.recovered_at.is_some()
    }

    /// Returns true if our statements about our own past are reliable.
    pub fn is_witness(&self) -> bool {
        !self.lost_records || self.is_recovered()
    }

    /// A validator without knowledge of its past records nothing: after a power cut it must find itself as empty as
    /// before.
    pub fn may_record(&self) -> bool {
        self.is_recovered() || !(self.lost_records || self.no_records)
    }

    /// A blank validator does not deliver either. After a power cut, commits without records would look like lost
    /// records. Such a loss counts among the f faults although the validator signed nothing.
    pub fn may_deliver(&self) -> bool {
        self.may_record() || self.lost_records
    }

    /// Earliest time to propose in round `clock`, known since `clock_since`, as far as earlier incarnations are concerned.
    pub fn allowed_at(&self, config: &Config, clock: Round, clock_since: TimestampMs) -> Option<TimestampMs> {
        let recovered_at = self.recovered_at?;
        let grace_ms = if clock > self.uncertain_through { 0 } else { stall_timeout_ms(config) };
        Some(TimestampMs(recovered_at.max(clock_since).0 + grace_ms))
    }

    /// The network needed our proposal: from now on no round is uncertain.
    pub fn clear_uncertain(&mut self) {
        self.uncertain_through = Round(0);
    }

    pub fn progress(&mut self, now: TimestampMs) {
        // Blocks of others do not replace a lost greeting: before recovery, keep asking even if other messages arrive.
        if self.is_recovered() {
            (self.progress_at, self.attempts) = (now, 0);
        }
    }

    /// Time of the next repair: soon while starting or while a batch waits to be ordered, later with each attempt, and
    /// 1.5 heartbeats when idle.
    fn due(&self, config: &Config, busy: bool) -> TimestampMs {
        let idle = config.heartbeat_ms + config.heartbeat_ms / 2;
        let soon = stall_timeout_ms(config).saturating_mul(1 << self.attempts.min(16)).min(idle);
        TimestampMs(self.progress_at.0 + if busy || !self.is_recovered() { soon } else { idle })
    }
}

/// Time without progress after which the network counts as stalled, ms.
fn stall_timeout_ms(config: &Config) -> u64 {
    config.fetch_retry_ms.saturating_mul(4)
}

impl MahiMahi {
    pub(crate) fn send(&mut self, to: ValidatorIndex, message: &Message) {
        if Some(to) != self.me() {
            self.outputs.push_back(Output::Send { to: Recipients::One(to), message: message.encode() });
        }
    }

    pub(crate) fn start_recovery(&mut self) {
        self.check_recovery();
        self.broadcast_hello();
    }

    fn broadcast_hello(&mut self) {
        let me = self.me();
        self.committee.indices().filter(|peer| Some(*peer) != me).for_each(|peer| self.send_hello(peer));
    }

    pub(crate) fn send_hello(&mut self, peer: ValidatorIndex) {
        let held = self.latest_known(peer).map_or(Round(0), |block| block.round());
        let own = self.proposer.as_ref().map_or(Round(0), |proposer| proposer.highest_signed);
        let after = held.max(self.sequence.floor());
        let hello = Hello { nonce: self.repair.nonce, after, own, coins: self.stuck_coins() };
        self.send(peer, &Message::Hello(hello));
    }

    pub(crate) fn latest_known(&self, author: ValidatorIndex) -> Option<&Arc<Block>> {
        let known = [self.dag.latest_of(author), self.synchroniser.latest_of(author)];
        known.into_iter().flatten().max_by_key(|block| block.round())
    }

    /// K2, see the README: if our records look whole, a quorum including ourselves is enough. If we know that we
    /// forgot, every quorum must contain an honest one of the respondents, and we start above all rounds that they
    /// reached. All others are always enough.
    pub(crate) fn check_recovery(&mut self) {
        if self.repair.is_recovered() {
            return;
        }
        let reached = self.reached(&self.repair.named);
        let beyond_doubt = self.committee.beyond_doubt();
        let others = self.committee.quorum() - self.me().map_or(Votes(0), |me| self.committee.votes(me));
        let needed = if self.repair.lost_records { beyond_doubt.max(others) } else { others };
        let votes = self.committee.weigh(reached.keys().copied());
        if votes < needed && reached.len() < self.committee.size() - 1 {
            return;
        }
        self.repair.recovered_at = Some(self.now);
        let highest = reached.into_values().max().unwrap_or(Round(0));
        // Without Byzantine validators, the others know every block of ours that exists, and all of them responded. If
        // no peer has reached round 1, the network is being born.
        if self.committee.max_faulty() > Votes(0) {
            if self.repair.lost_records && self.proposer.is_some() {
                self.vow_silence(highest + 1);
            } else if highest > Round(0) {
                self.repair.uncertain_through = highest + 1;
            }
        }
        self.record_postponed();
        self.note_change();
    }

    /// Rounds of these blocks, without those that are not in the DAG: a peer could name any.
    fn reached(&self, named: &BTreeMap<ValidatorIndex, BlockRef>) -> BTreeMap<ValidatorIndex, Round> {
        let floor = self.sequence.floor();
        let is_here = |named: &&BlockRef| named.round <= floor || self.dag.contains(named);
        named.iter().filter(|(_, named)| is_here(named)).map(|(peer, named)| (*peer, named.round)).collect()
    }

    /// K5 of validators.md: an earlier incarnation ended before the peers answered. It needed a quorum of blocks of the round before
    /// each of its own, and one of the respondents had signed one of these. So it signed no round above the next one. A later block is
    /// another process's.
    fn check_twin(&mut self) {
        let beyond_doubt = self.committee.beyond_doubt();
        let reached = self.reached(&self.repair.first_named);
        let votes = self.committee.weigh(reached.keys().copied());
        let all_responded = reached.len() >= self.committee.size() - 1;
        if self.repair.has_twin || votes < beyond_doubt && !all_responded {
            return;
        }
        let highest = reached.into_values().max().unwrap_or(Round(0));
        if self.repair.foreign > highest + 1 {
            self.repair.has_twin = true;
            let detail = format!("a block of round {}, and no peer had passed round {}", self.repair.foreign.0, highest.0);
            self.outputs.push_back(Output::Twin(detail));
        }
    }

    /// A block of ours is missing in our records, so they are outdated: everything we sent was durable before.
    pub(crate) fn handle_lost_records(&mut self, block: &Block) {
        self.repair.foreign = self.repair.foreign.max(block.round());
        self.check_twin();
        if !self.repair.lost_records {
            let detail = format!("own block {:?} is missing in the records", block.reference());
            self.trace(TraceEvent::note("history-lost", detail));
        }
        (self.repair.lost_records, self.repair.recovered_at) = (true, None);
        self.note_change();
    }

    /// The previous own block was of round `before`. If coins of the rounds between are still closed although a quorum
    /// has blocks there, some shares are bad. Then ours are needed, and we have no block to carry them.
    pub(crate) fn send_skipped_shares(&mut self, before: Round) {
        let skipped: Vec<_> = self.stuck_coins().into_iter().filter(|round| *round > before).collect();
        let shares = self.own_shares(&skipped, MAX_COINS);
        if !shares.is_empty() {
            let message = Message::Coins(CoinHelp::new(Vec::new(), shares)).encode();
            self.outputs.push_back(Output::Send { to: Recipients::All, message });
        }
    }

    pub(crate) fn handle_welcome(
        &mut self,
        from: ValidatorIndex,
        nonce: u64,
        latest: Option<Arc<Block>>,
        named: Option<BlockRef>,
    ) {
        if nonce != self.repair.nonce {
            return;
        }
        if let Some(block) = latest.filter(|block| Some(block.author()) == self.me()) {
            self.handle_block(from, block);
        }
        if let Some(named) = named {
            self.repair.named.insert(from, named);
            self.repair.first_named.entry(from).or_insert(named);
            self.check_twin();
        }
        self.check_recovery();
    }

    /// Processes blocks with unverified signatures. Blocks that were not requested, are known, or would not be kept
    /// need no check. Checks of other blocks that do not extend the DAG are limited.
    pub(crate) fn handle_found(&mut self, from: ValidatorIndex, unread: &Bytes) {
        if !self.repair.is_expected_response(from) {
            return;
        }
        // An invalid response counts as an empty one.
        let (unsigned, missing) = self.reader.read_found(unread).unwrap_or_default();
        let before = self.dag.len();
        for block in &unsigned {
            let reference = block.reference();
            if self.is_known(&reference) || reference.round > self.horizon() || self.is_surplus(&reference) {
                continue;
            }
            if !self.may_check_block(from) || !self.handle_unsigned(from, block) {
                break;
            }
        }
        for reference in &missing {
            self.synchroniser.not_found(self.now, reference);
        }
        self.synchroniser.on_response(self.now, from, self.dag.len() > before);
        self.request_missing();
    }

    /// Returns false if the signature is invalid.
    fn handle_unsigned(&mut self, from: ValidatorIndex, block: &Arc<Block>) -> bool {
        let reference = block.reference();
        let is_signed = self.signatures.verify(reference.author, &reference.digest, &block.signed().signature);
        let is_first = self.dag.siblings(reference.round, reference.author).next().is_none();
        if is_signed {
            self.handle_block(from, block.clone());
        } else {
            self.trace(TraceEvent::note("bad-response", format!("validator {from}: bad signature on {reference:?}")));
        }
        if !(is_first && self.dag.contains(&reference)) {
            self.spend_block_check(from);
        }
        is_signed
    }

    pub(crate) fn request_missing(&mut self) {
        let limit = self.config.fetch_blocks as usize;
        for (peer, wanted) in self.synchroniser.due(self.now, limit) {
            self.send_fetch(peer, wanted);
        }
        if let Some(far) = self.synchroniser.due_far_block(self.now) {
            self.send_fetch(far.author, vec![far]);
        }
    }

    fn send_fetch(&mut self, peer: ValidatorIndex, wanted: Vec<BlockRef>) {
        let above = (self.dag.clock() - 1).max(self.sequence.floor());
        self.repair.count_request(peer);
        self.send(peer, &Message::Fetch(Fetch { wanted, above }));
    }

    pub(crate) fn handle_coin_help(&mut self, from: ValidatorIndex, help: &CoinHelp) {
        let (floor, top) = (self.sequence.floor(), self.dag.top());
        let in_range = |round: &Round| *round > floor && *round <= top;
        let is_closed = |round: &Round| in_range(round) && self.coins.opened(*round).is_none();
        let values = help.values.iter().filter(|(round, _)| is_closed(round)).count();
        let shares = help.shares().filter(|(round, _)| is_closed(round)).map(|(_, shares)| shares.len());
        let count = values + shares.sum::<usize>();
        if count == 0 || !self.may_check_coins(from, count) {
            return;
        }
        for (round, value) in help.values.iter().filter(|(round, _)| in_range(round)) {
            self.coins.add_value(*round, from, value);
        }
        for (round, shares) in help.shares().filter(|(round, _)| in_range(round)) {
            let refused = self.coins.add_shares(round, from, shares);
            self.accuse_of_bad_shares(refused);
        }
        self.note_change();
    }

    /// Rounds with blocks of a quorum whose coin is still closed: some of the shares are bad.
    fn stuck_coins(&self) -> Vec<Round> {
        let first = self.sequence.next().round + (self.config.wave_length - 1);
        let stuck = self.closed_coins.range(first..).filter(|round| self.coins.opened(**round).is_none()).copied();
        stuck.take(MAX_COINS).collect()
    }

    /// `None` for a lone validator, which has no peers.
    fn stall_deadline(&self) -> Option<TimestampMs> {
        (self.committee.size() > 1).then(|| self.repair.due(&self.config, self.is_busy()))
    }

    pub(crate) fn repair_deadline(&self) -> Option<TimestampMs> {
        let serving = self.service.deadline();
        [self.stall_deadline(), self.repair.coins_at, serving].into_iter().flatten().min()
    }

    /// Called at every deadline.
    pub(crate) fn repair_if_due(&mut self) {
        let stalled = self.stall_deadline().is_some_and(|at| at <= self.now);
        let closed = self.repair.coins_at.is_some_and(|at| at <= self.now);
        if stalled {
            self.repair.progress_at = self.now;
            self.repair.attempts = self.repair.attempts.saturating_add(1);
        }
        if closed {
            self.repair.coins_at = Some(TimestampMs(self.now.0 + self.config.fetch_retry_ms));
        }
        if stalled || closed {
            self.broadcast_hello();
        }
    }

    /// Called after every decision pass: adds own shares of rounds without an own block, and schedules requests for
    /// closed coins.
    pub(crate) fn update_coins(&mut self) {
        if let Some(me) = self.me() {
            let mut stuck = self.stuck_coins();
            stuck.retain(|round| self.coins.lacks_share_of(*round, me));
            for (round, shares) in self.own_shares(&stuck, MAX_COINS) {
                let refused = self.coins.add_shares(round, me, shares);
                self.accuse_of_bad_shares(refused);
                // Requests another pass only for a coin that opened, so that the passes end.
                if self.coins.opened(round).is_some() {
                    self.note_change();
                }
            }
        }
        if self.stuck_coins().is_empty() {
            self.repair.coins_at = None;
        } else if self.repair.coins_at.is_none() {
            self.repair.coins_at = Some(TimestampMs(self.now.0 + self.config.fetch_delay_ms));
        }
    }
}
