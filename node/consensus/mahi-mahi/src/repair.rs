//! Transport repair and start-up: greeting peers, answering them, fetching, late coin shares. None of it decides anything;
//! its timers never influence a verdict.
//!
//! **Standing.** On every start a validator proposes only after a quorum (itself included) told it of its own highest block, so
//! a restored backup or an empty disk does not sign a round twice (K2). The answer is the signed block itself, so a liar can
//! withhold but not invent.

use crate::{
    config::Config,
    engine::MahiMahi,
    keys::CoinShare,
    message::{Block, BlockRef, CoinHelp, Fetch, Found, Hello, Message, Round, Welcome},
    proposer::Proposer,
    verify::MAX_COINS,
};
use corniche_engine::{Output, Recipients};
use corniche_types::{TimestampMs, ValidatorIndex};
use std::{collections::BTreeSet, sync::Arc};

/// What has been asked of peers, and when to ask again.
pub struct Repair {
    nonce: u64,
    /// Who answered since this start.
    answered: BTreeSet<ValidatorIndex>,
    /// Own proposals are allowed.
    standing: bool,
    /// K2: our records do not tell all that we signed. Then we are no witness of ourselves, and a quorum of others must be.
    forgot: bool,
    /// When a block was last accepted or a repair attempted.
    progress_at: TimestampMs,
    /// Repairs since the last accepted block.
    attempts: u32,
    /// When to ask for shares of coins that blocks cannot open; `None` while there are none.
    coins_at: Option<TimestampMs>,
}

impl Repair {
    pub fn new(seed: u64, forgot: bool, now: TimestampMs) -> Self {
        // Time as well, in case the caller's seed is a constant.
        let nonce = seed.rotate_left(32) ^ now.0;
        Self { nonce, answered: BTreeSet::new(), standing: false, forgot, progress_at: now, attempts: 0, coins_at: None }
    }

    pub fn has_standing(&self) -> bool {
        self.standing
    }

    pub fn progress(&mut self, now: TimestampMs) {
        // Others' blocks do not make up for a lost greeting: without standing, keep asking whatever else arrives.
        if self.standing {
            (self.progress_at, self.attempts) = (now, 0);
        }
    }

    /// Quick while starting or while something waits to be ordered, slower with each attempt, never quicker than the heartbeat
    /// when idle.
    fn due(&self, config: &Config, busy: bool) -> TimestampMs {
        let idle = config.heartbeat_ms + config.heartbeat_ms / 2;
        let hasty = config.fetch_retry_ms.saturating_mul(4 << self.attempts.min(16)).min(idle);
        TimestampMs(self.progress_at.0 + if busy || !self.standing { hasty } else { idle })
    }
}

impl MahiMahi {
    fn send(&mut self, to: ValidatorIndex, message: &Message) {
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

    fn latest_known(&self, author: ValidatorIndex) -> Option<&Arc<Block>> {
        let known = [self.dag.latest_of(author), self.synchroniser.latest_of(author)];
        known.into_iter().flatten().max_by_key(|block| block.round())
    }

    fn check_standing(&mut self) {
        let (others, quorum) = (self.committee.size() - 1, self.committee.quorum());
        let told = self.repair.answered.len();
        self.repair.standing |=
            if self.repair.forgot { told >= quorum.min(others) } else { told + usize::from(self.me().is_some()) >= quorum };
    }

    /// Answering never requires proposing, so a cluster of starting validators answers itself.
    pub(crate) fn take_hello(&mut self, from: ValidatorIndex, hello: &Hello) {
        let latest = self.latest_known(from).filter(|block| block.round() > hello.own).map(|block| block.signed().clone());
        self.send(from, &Message::Welcome(Welcome { nonce: hello.nonce, latest }));
        self.push_own(from, hello.after);
        let help = self.coin_help(&hello.coins);
        if !(help.values.is_empty() && help.shares.is_empty()) {
            self.send(from, &Message::Coins(help));
        }
    }

    /// Own blocks above `after`, oldest first, as far as one answer's limits allow; the rest is fetched.
    fn push_own(&mut self, to: ValidatorIndex, after: Round) {
        let Some(me) = self.me() else { return };
        let mut room = Room::new(&self.config);
        let chain: Vec<_> = self.dag.chain_of(me, after).take_while(|block| room.take(block)).cloned().collect();
        for block in chain {
            self.send(to, &Message::Block(block.signed().clone()));
        }
    }

    /// What can be said about coins that somebody cannot open.
    fn coin_help(&self, coins: &[Round]) -> CoinHelp {
        let open = coins.iter().filter_map(|round| Some((*round, self.coins.opened(*round)?.value)));
        let closed: Vec<_> = coins.iter().copied().filter(|round| self.coins.opened(*round).is_none()).collect();
        CoinHelp { values: open.collect(), shares: self.own_shares(&closed) }
    }

    /// C5: a share leaves only when no block of its round can be signed any more: up to the own durable tip.
    fn own_shares(&self, coins: &[Round]) -> Vec<(Round, CoinShare)> {
        let (Some(signer), Some(tip)) = (&self.signer, self.proposer.as_ref().map(Proposer::tip)) else { return Vec::new() };
        let due = coins.iter().filter(|round| **round <= tip.round);
        due.map(|round| (*round, signer.coin_share(&self.context.coin_message(*round)))).collect()
    }

    /// The own block before the newest one was of round `before`. Where coins of the rounds between are still closed, although
    /// a quorum has blocks there, somebody's shares are bad and ours are needed, without a block to carry them.
    pub(crate) fn send_skipped_shares(&mut self, before: Round) {
        let skipped: Vec<_> = self.stuck_coins().into_iter().filter(|round| *round > before).collect();
        let shares = self.own_shares(&skipped);
        if !shares.is_empty() {
            let message = Message::Coins(CoinHelp { values: Vec::new(), shares }).encode();
            self.outputs.push_back(Output::Send { to: Recipients::All, message });
        }
    }

    pub(crate) fn take_welcome(&mut self, from: ValidatorIndex, nonce: u64, latest: Option<Arc<Block>>) {
        if nonce != self.repair.nonce {
            return;
        }
        if let Some(block) = latest.filter(|block| Some(block.author()) == self.me()) {
            // What we sent was durable before; a block of ours that our records lack says that they are not the newest.
            self.repair.forgot |= self.proposer.as_ref().is_some_and(|own| block.round() > own.highest_signed);
            self.take_block(from, block);
        }
        self.repair.answered.insert(from);
        self.check_standing();
    }

    /// S4: what is still here, then what it stands on, lowest rounds first, as far as it fits.
    pub(crate) fn take_fetch(&mut self, from: ValidatorIndex, fetch: &Fetch) {
        let mut room = Room::new(&self.config);
        let (known, missing): (Vec<_>, Vec<_>) = fetch.wanted.iter().partition(|wanted| self.dag.contains(wanted));
        let mut found: BTreeSet<BlockRef> = BTreeSet::new();
        let below = self.history_above(&known, fetch.above);
        for reference in known.iter().chain(&below) {
            let fits = self.dag.get(reference).is_some_and(|block| found.contains(reference) || room.take(block));
            if !fits {
                break;
            }
            found.insert(*reference);
        }
        let blocks = found.iter().filter_map(|reference| self.dag.get(reference)).map(|block| block.signed().clone()).collect();
        self.send(from, &Message::Found(Found { blocks, missing }));
    }

    /// The history of `known` above a round, in ascending order.
    fn history_above(&self, known: &[BlockRef], above: Round) -> Vec<BlockRef> {
        let mut seen: BTreeSet<BlockRef> = known.iter().copied().collect();
        let mut stack = known.to_vec();
        while let Some(block) = stack.pop().and_then(|reference| self.dag.get(&reference)) {
            let parents = block.parents().iter().filter(|parent| parent.round > above && self.dag.contains(parent));
            stack.extend(parents.filter(|parent| seen.insert(**parent)));
        }
        seen.into_iter().collect()
    }

    pub(crate) fn take_found(&mut self, from: ValidatorIndex, blocks: &[Arc<Block>], missing: &[BlockRef]) {
        let before = self.dag.len();
        for block in blocks {
            self.take_block(from, block.clone());
        }
        for reference in missing {
            self.synchroniser.not_found(self.now, reference);
        }
        if self.dag.len() > before {
            self.synchroniser.hurry(self.now, from);
        }
        self.ask_for_missing();
    }

    pub(crate) fn ask_for_missing(&mut self) {
        let limit = self.config.fetch_blocks as usize;
        let above = (self.dag.clock() - 1).max(self.sequence.floor());
        for (whom, wanted) in self.synchroniser.due(self.now, limit) {
            self.send(whom, &Message::Fetch(Fetch { wanted, above }));
        }
    }

    pub(crate) fn take_coin_help(&mut self, from: ValidatorIndex, help: &CoinHelp) {
        let (floor, top) = (self.sequence.floor(), self.dag.top());
        let useful = |round: &Round| *round > floor && *round <= top;
        for (round, value) in help.values.iter().filter(|(round, _)| useful(round)) {
            self.coins.add_value(*round, value);
        }
        for (round, share) in help.shares.iter().filter(|(round, _)| useful(round)) {
            let refused = self.coins.add_share(*round, from, *share);
            self.accuse_of_bad_shares(refused);
        }
        self.note_change();
    }

    /// Rounds with blocks of a quorum whose coin is closed all the same: some of the shares are bad.
    fn stuck_coins(&self) -> Vec<Round> {
        let first = self.sequence.next().round + (self.config.wave_length - 1);
        let stuck = self.closed_coins.range(first..).filter(|round| self.coins.opened(**round).is_none()).copied();
        stuck.take(MAX_COINS).collect()
    }

    /// A lone validator has nobody to ask.
    fn stall_deadline(&self) -> Option<TimestampMs> {
        (self.committee.size() > 1).then(|| self.repair.due(&self.config, self.is_busy()))
    }

    pub(crate) fn repair_deadline(&self) -> Option<TimestampMs> {
        [self.stall_deadline(), self.repair.coins_at].into_iter().flatten().min()
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

    /// Called after every decision pass: gives own shares of rounds without an own block, and notices coins that need asking
    /// for.
    pub(crate) fn watch_coins(&mut self) {
        if let Some(me) = self.me() {
            let mut stuck = self.stuck_coins();
            stuck.retain(|round| self.coins.lacks_share_of(*round, me));
            for (round, share) in self.own_shares(&stuck) {
                let refused = self.coins.add_share(round, me, share);
                self.accuse_of_bad_shares(refused);
                // Another pass only for a coin that opened, so that passes end.
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

/// How much still fits into one answer. The first block always does.
struct Room {
    blocks: usize,
    bytes: usize,
    empty: bool,
}

impl Room {
    fn new(config: &Config) -> Self {
        Self { blocks: config.fetch_blocks as usize, bytes: config.fetch_bytes as usize, empty: true }
    }

    fn take(&mut self, block: &Block) -> bool {
        let bytes = block.content().batch.len() + block.parents().len() * 42 + 256;
        if self.blocks == 0 || (bytes > self.bytes && !self.empty) {
            return false;
        }
        self.blocks -= 1;
        self.bytes = self.bytes.saturating_sub(bytes);
        self.empty = false;
        true
    }
}
