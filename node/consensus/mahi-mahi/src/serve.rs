//! Answering peers: greetings, missing blocks, late coin shares.
//!
//! **What answers cost is bounded per peer and time.** Every peer has an allowance that refills with time and is charged with
//! what its answers cost. A question that comes while it is used up waits (one of a kind per peer, the newest) until it is
//! not. So a peer that floods questions gets the same share as one that asks politely, and neither takes anything from the
//! others. No answer walks more of the DAG than it sends.

use crate::{
    config::Config,
    engine::MahiMahi,
    keys::CoinShare,
    message::{Block, BlockRef, CoinHelp, Fetch, Found, Hello, Message, Round, Welcome},
    proposer::Proposer,
};
use corniche_engine::{Allowances, Rate};
use corniche_types::{TimestampMs, ValidatorIndex};
use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::Arc,
};

/// Full answers ([`Config::fetch_blocks`] blocks or [`Config::fetch_bytes`]) that a peer gets in a second, in a small committee.
const ANSWERS_PER_SECOND: u64 = 8;
/// Signing or checking one coin share takes about as long as sending this many blocks.
const COIN_COST: u64 = 4;
/// Allowances are counted in thousandths of a block, so that a millisecond's refill is an integer.
const BLOCK: u64 = 1_000;
/// Signature checks in a second, for all peers together, of blocks in answers that do not extend the DAG: a tenth of a thread.
const IDLE_CHECKS_PER_SECOND: u64 = 2_000;

/// What is owed to peers, and what they may still cost.
#[derive(Default)]
pub struct Service {
    allowances: Allowances,
    /// Checks of blocks in the answers of a peer that do not extend the DAG. Honest peers need few, so this is not their allowance for questions.
    idle_checks: Allowances,
    hellos: BTreeMap<ValidatorIndex, Hello>,
    /// Own coin shares that were signed for peers. A share is deterministic, and signing one takes a fifth of a millisecond.
    own_shares: BTreeMap<Round, CoinShare>,
    fetches: BTreeMap<ValidatorIndex, Fetch>,
    /// The start of each peer that asked last (its nonce), and the block named to it then.
    named: BTreeMap<ValidatorIndex, (u64, BlockRef)>,
    /// Somebody started and must not propose before the clock is above this round: rounds go on until it is.
    awaited: Round,
}

/// Allowance for the answers to one peer. Each gets one full answer a second at least.
fn rate(config: &Config, committee_size: usize) -> Rate {
    let answer = BLOCK * u64::from(config.fetch_blocks);
    Rate::shared(ANSWERS_PER_SECOND * answer, answer, committee_size)
}

/// One full answer at once.
fn idle_check_rate(config: &Config, committee_size: usize) -> Rate {
    Rate {
        most: BLOCK * u64::from(config.fetch_blocks),
        per_ms: IDLE_CHECKS_PER_SECOND * BLOCK / 1_000 / committee_size as u64,
    }
}

impl Service {
    /// A peer that started waits for a round above this one.
    pub fn awaited(&self) -> Round {
        self.awaited
    }

    /// When the next waiting question may be answered.
    pub fn deadline(&self) -> Option<TimestampMs> {
        self.allowances.ready_at(self.hellos.keys().chain(self.fetches.keys()))
    }

    /// Rounds up to `floor` are final: nobody needs their coins.
    pub fn raise_floor(&mut self, floor: Round) {
        self.own_shares = self.own_shares.split_off(&(floor + 1));
    }

    /// `blocks` answered, or as much work as that.
    fn spend(&mut self, peer: ValidatorIndex, blocks: u64) {
        self.allowances.spend(peer, blocks.saturating_mul(BLOCK));
    }
}

impl MahiMahi {
    fn may_spend(&mut self, peer: ValidatorIndex) -> bool {
        let rate = rate(&self.config, self.committee.size());
        self.service.allowances.refill(peer, rate, self.now)
    }

    pub(crate) fn take_hello(&mut self, from: ValidatorIndex, hello: &Hello) {
        self.service.hellos.insert(from, hello.clone());
        self.serve(from);
    }

    pub(crate) fn take_fetch(&mut self, from: ValidatorIndex, fetch: &Fetch) {
        self.service.fetches.insert(from, fetch.clone());
        self.serve(from);
    }

    /// Called at every deadline.
    pub(crate) fn serve_waiting(&mut self) {
        let peers: BTreeSet<_> = self.service.hellos.keys().chain(self.service.fetches.keys()).copied().collect();
        peers.into_iter().for_each(|peer| self.serve(peer));
    }

    fn serve(&mut self, peer: ValidatorIndex) {
        if self.may_spend(peer)
            && let Some(hello) = self.service.hellos.remove(&peer)
        {
            self.answer_hello(peer, &hello);
        }
        if self.may_spend(peer)
            && let Some(fetch) = self.service.fetches.remove(&peer)
        {
            self.answer_fetch(peer, &fetch);
        }
    }

    /// Answering never requires proposing, so a cluster of starting validators answers itself.
    fn answer_hello(&mut self, from: ValidatorIndex, hello: &Hello) {
        let latest = self.latest_known(from).filter(|block| block.round() > hello.own).map(|block| block.signed().clone());
        let named = self.name_block(from, hello.nonce);
        self.send(from, &Message::Welcome(Welcome { nonce: hello.nonce, latest, named }));
        let pushed = self.push_own(from, hello.after);
        let help = self.coin_help(&hello.coins);
        let coins = help.values.len() + help.shares.len();
        if coins > 0 {
            self.send(from, &Message::Coins(help));
        }
        self.service.spend(from, 1 + pushed + COIN_COST * coins as u64);
    }

    /// K2: a block that is not below any own block signed before the asker's start. Normally the own tip, as it was when that
    /// start first asked: the lowest round that serves, so that validators starting together do not take each other's first
    /// blocks for an old network. `None` from one that has forgotten itself.
    fn name_block(&mut self, asker: ValidatorIndex, nonce: u64) -> Option<BlockRef> {
        if !self.repair.is_witness() {
            return None;
        }
        let floor = self.sequence.floor();
        let is_held = |block: &BlockRef| block.round == Round(0) && floor == Round(0) || self.dag.contains(block);
        let before = self.service.named.get(&asker).filter(|(start, _)| *start == nonce).map(|(_, block)| *block);
        let own = self.proposer.as_ref().map(Proposer::tip);
        let top = self.dag.round(self.dag.top()).next().map(|block| block.reference());
        let genesis = (floor == Round(0)).then(|| self.context.genesis(asker));
        let named = [before, own].into_iter().flatten().find(is_held).or(top).or(genesis)?;
        if before != Some(named) && named.round > Round(0) {
            self.service.awaited = self.service.awaited.max(named.round + 1);
        }
        self.service.named.insert(asker, (nonce, named));
        Some(named)
    }

    /// Own blocks above `after`, oldest first, as far as one answer's limits allow; the rest is fetched. Returns how many, or
    /// what they weigh.
    fn push_own(&mut self, to: ValidatorIndex, after: Round) -> u64 {
        let Some(me) = self.me().filter(|_| self.repair.may_record()) else { return 0 };
        let mut room = Room::new(&self.config);
        let chain: Vec<_> = self.dag.chain_of(me, after).take_while(|block| room.take(block)).cloned().collect();
        for block in chain {
            self.send(to, &Message::Block(block.signed().clone()));
        }
        room.used(&self.config)
    }

    /// What can be said about coins that somebody cannot open.
    fn coin_help(&mut self, coins: &[Round]) -> CoinHelp {
        let values = coins.iter().filter_map(|round| Some((*round, self.coins.opened(*round)?.value))).collect();
        let closed: Vec<_> = coins.iter().copied().filter(|round| self.coins.opened(*round).is_none()).collect();
        CoinHelp { values, shares: self.own_shares(&closed) }
    }

    /// C5: a share leaves only when no block of its round can be signed any more: up to the own durable tip.
    pub(crate) fn own_shares(&mut self, coins: &[Round]) -> Vec<(Round, CoinShare)> {
        let (Some(signer), Some(tip)) = (&self.signer, self.proposer.as_ref().map(Proposer::tip)) else { return Vec::new() };
        // None that nobody needs any more: signing is what a question costs us.
        let floor = self.sequence.floor();
        let due: BTreeSet<Round> = coins.iter().copied().filter(|round| *round > floor && *round <= tip.round).collect();
        let known = &mut self.service.own_shares;
        let sign = |round| signer.coin_share(&self.context.coin_message(round));
        due.into_iter().map(|round| (round, *known.entry(round).or_insert_with(|| sign(round)))).collect()
    }

    /// S4: what is still here, then what is below it, lowest rounds first, as far as it fits. Whole rounds rather than exactly
    /// the history: who asks so lacks nearly all of them, and finding the history would cost more than sending it.
    fn answer_fetch(&mut self, from: ValidatorIndex, fetch: &Fetch) {
        let mut room = Room::new(&self.config);
        let (known, missing): (Vec<BlockRef>, Vec<BlockRef>) =
            fetch.wanted.iter().partition(|wanted| self.dag.contains(wanted));
        let first = fetch.above.max(self.sequence.floor() - self.config.retain_rounds).0.saturating_add(1);
        let end = known.iter().map(|wanted| wanted.round.0).max().unwrap_or(0);
        let below = (first..end).flat_map(|round| self.dag.round(Round(round)));
        let wanted = known.iter().filter_map(|reference| self.dag.get(reference));
        // Half of an answer at most: whoever is far behind lacks the lowest rounds first.
        let chains = known.iter().flat_map(|reference| self.chain_below(reference)).take(room.blocks / 2);
        let below = chains.chain(below);
        let mut found = BTreeMap::new();
        for block in wanted.chain(below) {
            let Entry::Vacant(place) = found.entry(block.reference()) else { continue };
            if !room.take(block) {
                break;
            }
            place.insert(block.signed().clone());
        }
        let blocks = found.into_values().collect();
        self.send(from, &Message::Found(Found { blocks, missing }));
        self.service.spend(from, 1 + room.used(&self.config));
    }

    /// The own blocks that an equivocator's block stands on, from the newest down. Who lacks one sibling lacks those before it as well, and would
    /// have to ask for one after the other.
    fn chain_below(&self, reference: &BlockRef) -> impl Iterator<Item = &Arc<Block>> {
        let first = Some(*reference).filter(|reference| self.is_equivocator(reference.author));
        let previous = |reference: &BlockRef| self.dag.get(reference)?.parents().first().copied();
        std::iter::successors(first, previous).skip(1).filter_map(|reference| self.dag.get(&reference))
    }

    /// Shares and values that a peer sends are checked one by one, which is dear: within its allowance only. What is dropped is
    /// asked for again.
    pub(crate) fn may_check_coins(&mut self, from: ValidatorIndex, count: usize) -> bool {
        let may = self.may_spend(from);
        if may {
            self.service.spend(from, COIN_COST * count as u64);
        }
        may
    }

    /// True while this peer's answers may cost signature checks.
    pub(crate) fn may_check_block(&mut self, from: ValidatorIndex) -> bool {
        let rate = idle_check_rate(&self.config, self.committee.size());
        self.service.idle_checks.refill(from, rate, self.now)
    }

    /// A block in an answer was checked and did not extend the DAG.
    pub(crate) fn spend_block_check(&mut self, from: ValidatorIndex) {
        self.service.idle_checks.spend(from, BLOCK);
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

    /// In blocks: as many as were taken, or more when they are large.
    fn used(&self, config: &Config) -> u64 {
        let (blocks, bytes) = (u64::from(config.fetch_blocks), u64::from(config.fetch_bytes));
        let by_bytes = (bytes - self.bytes as u64) * blocks / bytes.max(1);
        (blocks - self.blocks as u64).max(by_bytes)
    }
}
