//! Start-up and requests: greets peers, fetches blocks and late coin shares. No decision depends on this module or its
//! timers. `serve` contains the responses.
//!
//! **Standing (K2).** A validator whose disk was lost or restored from a backup must not sign a round twice. So on
//! every start it asks two things: the highest block of its own that a peer knows (a signed block: a liar can withhold
//! but not invent one), and a block of a round that the peer has reached. It has *standing*, and may propose, only
//! after enough peers responded, and then only above all rounds that the forgotten life can have reached. The README
//! contains the argument.

use crate::{
    config::Config,
    engine::MahiMahi,
    message::{Block, BlockRef, CoinHelp, Fetch, Hello, Message, Round},
    verify::MAX_COINS,
};
use corniche_engine::{Output, Recipients, TraceEvent};
use corniche_types::{Bytes, TimestampMs, ValidatorIndex};
use std::{collections::BTreeMap, sync::Arc};

/// State of requests to peers, and the times of retries.
pub struct Repair {
    nonce: u64,
    /// Block that each peer named since this start. A response counts once that block is in the DAG, so that a peer
    /// cannot name a round that does not exist.
    named: BTreeMap<ValidatorIndex, BlockRef>,
    /// Time since when own proposals are allowed; `None` before.
    standing_since: Option<TimestampMs>,
    /// Our records do not contain all that we signed. Then we are no witness, neither for ourselves nor for others.
    forgot: bool,
    /// There was no record at the start.
    blank: bool,
    /// A forgotten life might have signed rounds up to this one, though there is no evidence of such a life. In these
    /// rounds we propose only when the network does not progress without us.
    doubtful: Round,
    /// Time of the last accepted block or repair attempt.
    progress_at: TimestampMs,
    /// Repair attempts since the last accepted block.
    attempts: u32,
    /// Time to request shares of coins that blocks cannot open; `None` if there are none.
    coins_at: Option<TimestampMs>,
    /// Unanswered block requests per peer, up to [`MAX_QUESTIONS`].
    questions: BTreeMap<ValidatorIndex, u32>,
}

/// Maximum number of responses that a peer may owe at once.
const MAX_QUESTIONS: u32 = 16;

impl Repair {
    /// `forgot`: there was an earlier life without records. `blank`: there was no record.
    pub fn new(seed: u64, forgot: bool, blank: bool, now: TimestampMs) -> Self {
        // Includes the time in case the caller's seed is constant.
        let nonce = seed.rotate_left(32) ^ now.0;
        let (named, doubtful) = (BTreeMap::new(), Round(0));
        let (standing_since, progress_at, attempts, coins_at) = (None, now, 0, None);
        let questions = BTreeMap::new();
        Self { nonce, named, standing_since, forgot, blank, doubtful, progress_at, attempts, coins_at, questions }
    }

    fn asked(&mut self, peer: ValidatorIndex) {
        let questions = self.questions.entry(peer).or_default();
        *questions = (*questions + 1).min(MAX_QUESTIONS);
    }

    /// Returns true if a block request to this peer was unanswered, and counts it as answered.
    fn is_answer(&mut self, peer: ValidatorIndex) -> bool {
        let questions = self.questions.entry(peer).or_default();
        let owed = *questions > 0;
        *questions = questions.saturating_sub(1);
        owed
    }

    pub fn has_standing(&self) -> bool {
        self.standing_since.is_some()
    }

    /// Returns true if our statements about our own past are reliable.
    pub fn is_witness(&self) -> bool {
        !self.forgot || self.has_standing()
    }

    /// A validator without knowledge of its past records nothing: after a power cut it must find itself as empty as
    /// before.
    pub fn may_record(&self) -> bool {
        self.has_standing() || !(self.forgot || self.blank)
    }

    /// A blank validator does not deliver either. After a power cut, commits without records would look like lost
    /// records. Such a loss counts among the f faults although the validator signed nothing.
    pub fn may_deliver(&self) -> bool {
        self.may_record() || self.forgot
    }

    /// Earliest time to propose in round `clock`, known since `clock_since`, as far as earlier lives are concerned.
    pub fn allowed_at(&self, config: &Config, clock: Round, clock_since: TimestampMs) -> Option<TimestampMs> {
        let standing_since = self.standing_since?;
        let patience = if clock > self.doubtful { 0 } else { hasty(config) };
        Some(TimestampMs(standing_since.max(clock_since).0 + patience))
    }

    /// The network needed our proposal: from now on no round is doubtful.
    pub fn leave_doubt(&mut self) {
        self.doubtful = Round(0);
    }

    pub fn progress(&mut self, now: TimestampMs) {
        // Blocks of others do not replace a lost greeting: without standing, keep asking even if other messages arrive.
        if self.has_standing() {
            (self.progress_at, self.attempts) = (now, 0);
        }
    }

    /// Time of the next repair: soon while starting or while a batch waits to be ordered, later with each attempt, and
    /// 1.5 heartbeats when idle.
    fn due(&self, config: &Config, busy: bool) -> TimestampMs {
        let idle = config.heartbeat_ms + config.heartbeat_ms / 2;
        let soon = hasty(config).saturating_mul(1 << self.attempts.min(16)).min(idle);
        TimestampMs(self.progress_at.0 + if busy || !self.has_standing() { soon } else { idle })
    }
}

/// Time without progress after which the network counts as stalled, ms.
fn hasty(config: &Config) -> u64 {
    config.fetch_retry_ms.saturating_mul(4)
}

impl MahiMahi {
    pub(crate) fn send(&mut self, to: ValidatorIndex, message: &Message) {
        if Some(to) != self.me() {
            self.outputs.push_back(Output::Send { to: Recipients::One(to), message: message.encode() });
        }
    }

    pub(crate) fn start_greeting(&mut self) {
        self.check_standing();
        self.greet_all();
    }

    fn greet_all(&mut self) {
        let me = self.me();
        self.committee.indices().filter(|peer| Some(*peer) != me).for_each(|peer| self.greet(peer));
    }

    pub(crate) fn greet(&mut self, peer: ValidatorIndex) {
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
    /// reached.
    pub(crate) fn check_standing(&mut self) {
        if self.repair.has_standing() {
            return;
        }
        let floor = self.sequence.floor();
        let is_here = |named: &&BlockRef| named.round <= floor || self.dag.contains(named);
        let reached: Vec<Round> = self.repair.named.values().filter(is_here).map(|named| named.round).collect();
        let beyond_doubt = self.committee.faulty() + self.committee.validity();
        let needed = match self.me() {
            None => self.committee.quorum(),
            Some(_) if self.repair.forgot => beyond_doubt.max(self.committee.quorum() - 1),
            Some(_) => self.committee.quorum() - 1,
        };
        if reached.len() < needed.min(self.committee.size() - 1) {
            return;
        }
        self.repair.standing_since = Some(self.now);
        let highest = reached.into_iter().max().unwrap_or(Round(0));
        // Without Byzantine validators, the others know every block of ours that exists, and all of them responded. If
        // no peer has reached round 1, the network is being born.
        if self.committee.faulty() > 0 {
            if self.repair.forgot && self.proposer.is_some() {
                self.vow_silence(highest + 1);
            } else if highest > Round(0) {
                self.repair.doubtful = highest + 1;
            }
        }
        self.record_postponed();
        self.note_change();
    }

    /// A block of ours is missing in our records, so they are outdated: everything we sent was durable before.
    pub(crate) fn learn_of_lost_life(&mut self, block: &Block) {
        if !self.repair.forgot {
            let detail = format!("{:?} is ours and not in our records", block.reference());
            self.trace(TraceEvent::note("history-lost", detail));
        }
        (self.repair.forgot, self.repair.standing_since) = (true, None);
        self.note_change();
    }

    /// The previous own block was of round `before`. If coins of the rounds between are still closed although a quorum
    /// has blocks there, some shares are bad. Then ours are needed, and we have no block to carry them.
    pub(crate) fn send_skipped_shares(&mut self, before: Round) {
        let skipped: Vec<_> = self.stuck_coins().into_iter().filter(|round| *round > before).collect();
        let shares = self.own_shares(&skipped);
        if !shares.is_empty() {
            let message = Message::Coins(CoinHelp { values: Vec::new(), shares }).encode();
            self.outputs.push_back(Output::Send { to: Recipients::All, message });
        }
    }

    pub(crate) fn take_welcome(
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
            self.take_block(from, block);
        }
        if let Some(named) = named {
            self.repair.named.insert(from, named);
        }
        self.check_standing();
    }

    /// Processes blocks with unverified signatures. Blocks that were not requested, are known, or would not be kept
    /// need no check. Checks of other blocks that do not extend the DAG are limited.
    pub(crate) fn take_found(&mut self, from: ValidatorIndex, unread: &Bytes) {
        if !self.repair.is_answer(from) {
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
            if !self.may_check_block(from) || !self.take_unsigned(from, block) {
                break;
            }
        }
        for reference in &missing {
            self.synchroniser.not_found(self.now, reference);
        }
        self.synchroniser.answered(self.now, from, self.dag.len() > before);
        self.ask_for_missing();
    }

    /// Returns false if the signature is invalid.
    fn take_unsigned(&mut self, from: ValidatorIndex, block: &Arc<Block>) -> bool {
        let reference = block.reference();
        let is_signed = self.signatures.verify(reference.author, &reference.digest, &block.signed().signature);
        let is_first = self.dag.siblings(reference.round, reference.author).next().is_none();
        if is_signed {
            self.take_block(from, block.clone());
        } else {
            self.trace(TraceEvent::note("bad-answer", format!("of validator {from}: {reference:?} is not signed")));
        }
        if !(is_first && self.dag.contains(&reference)) {
            self.spend_block_check(from);
        }
        is_signed
    }

    pub(crate) fn ask_for_missing(&mut self) {
        let limit = self.config.fetch_blocks as usize;
        for (whom, wanted) in self.synchroniser.due(self.now, limit) {
            self.ask(whom, wanted);
        }
        if let Some(far) = self.synchroniser.ask_far(self.now) {
            self.ask(far.author, vec![far]);
        }
    }

    fn ask(&mut self, whom: ValidatorIndex, wanted: Vec<BlockRef>) {
        let above = (self.dag.clock() - 1).max(self.sequence.floor());
        self.repair.asked(whom);
        self.send(whom, &Message::Fetch(Fetch { wanted, above }));
    }

    pub(crate) fn take_coin_help(&mut self, from: ValidatorIndex, help: &CoinHelp) {
        let (floor, top) = (self.sequence.floor(), self.dag.top());
        let useful = |round: &Round| *round > floor && *round <= top;
        let rounds = help.values.iter().map(|(round, _)| round).chain(help.shares.iter().map(|(round, _)| round));
        let count = rounds.filter(|round| useful(round) && self.coins.opened(**round).is_none()).count();
        if count == 0 || !self.may_check_coins(from, count) {
            return;
        }
        for (round, value) in help.values.iter().filter(|(round, _)| useful(round)) {
            self.coins.add_value(*round, from, value);
        }
        for (round, share) in help.shares.iter().filter(|(round, _)| useful(round)) {
            let refused = self.coins.add_share(*round, from, *share);
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
            self.greet_all();
        }
    }

    /// Called after every decision pass: adds own shares of rounds without an own block, and schedules requests for
    /// closed coins.
    pub(crate) fn watch_coins(&mut self) {
        if let Some(me) = self.me() {
            let mut stuck = self.stuck_coins();
            stuck.retain(|round| self.coins.lacks_share_of(*round, me));
            for (round, share) in self.own_shares(&stuck) {
                let refused = self.coins.add_share(round, me, share);
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
