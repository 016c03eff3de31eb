//! Responses to peers: greetings, missing blocks, late coin shares.
//!
//! **The cost of responses is limited per peer and time.** Every peer has a token bucket that refills with time and
//! pays for the responses to it. A request that comes while the token bucket is used up waits until it has refilled (one
//! request of each kind per peer, the newest). So a peer that floods requests gets no more than a polite one, and
//! neither takes anything from the others. No response walks more of the DAG than it sends.

use crate::{
    config::Config,
    engine::MahiMahi,
    keys::CoinShares,
    message::{Block, BlockRef, CoinHelp, Fetch, Found, Hello, Message, Round, Welcome},
    proposer::Proposer,
    verify::MAX_COINS,
};
use corniche_engine::{BucketRate, TokenBuckets};
use corniche_types::{TimestampMs, ValidatorIndex};
use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::Arc,
};

/// Full responses ([`Config::fetch_blocks`] blocks or [`Config::fetch_bytes`]) per second and peer, in a small
/// committee.
const RESPONSES_PER_SECOND: u64 = 8;
/// Cost of signing or checking one coin share, in blocks sent.
const COIN_COST: u64 = 4;
/// Token buckets count thousandths of a block, so that the refill of a millisecond is an integer.
const BLOCK: u64 = 1_000;
/// Limit of signature checks per second, for all peers together, of blocks in responses that do not extend the DAG: a
/// tenth of a thread.
const IDLE_CHECKS_PER_SECOND: u64 = 2_000;

/// Waiting requests of peers, and their token buckets.
#[derive(Default)]
pub struct Service {
    buckets: TokenBuckets,
    /// Token buckets for checks of blocks in responses that do not extend the DAG. Honest peers need few, so the checks
    /// are not charged to the token bucket for requests.
    idle_checks: TokenBuckets,
    hellos: BTreeMap<ValidatorIndex, Hello>,
    /// Own coin shares signed for peers. A share is deterministic, and signing one takes a fifth of a millisecond.
    own_shares: BTreeMap<Round, CoinShares>,
    fetches: BTreeMap<ValidatorIndex, Fetch>,
    /// For each peer that greeted: its latest start (the nonce), and the block named in the response.
    named: BTreeMap<ValidatorIndex, (u64, BlockRef)>,
    /// A starting peer must not propose before the clock is above this round. Rounds continue until it is.
    awaited: Round,
}

/// Token bucket for the responses to one peer: at least one full response per second.
fn rate(config: &Config, committee_size: usize) -> BucketRate {
    let response = BLOCK * u64::from(config.fetch_blocks);
    BucketRate::shared(RESPONSES_PER_SECOND * response, response, committee_size)
}

/// The bucket holds the checks of one full response.
fn idle_check_rate(config: &Config, committee_size: usize) -> BucketRate {
    BucketRate {
        capacity: BLOCK * u64::from(config.fetch_blocks),
        per_ms: IDLE_CHECKS_PER_SECOND * BLOCK / 1_000 / committee_size as u64,
    }
}

impl Service {
    /// A starting peer waits for a round above this one.
    pub fn awaited(&self) -> Round {
        self.awaited
    }

    /// Time at which the next waiting request may be served.
    pub fn deadline(&self) -> Option<TimestampMs> {
        self.buckets.ready_at(self.hellos.keys().chain(self.fetches.keys()))
    }

    /// Drops own shares of rounds up to `floor`, which are final.
    pub fn raise_floor(&mut self, floor: Round) {
        self.own_shares = self.own_shares.split_off(&(floor + 1));
    }

    /// Charges `blocks`, or equivalent work, to a peer.
    fn spend(&mut self, peer: ValidatorIndex, blocks: u64) {
        self.buckets.spend(peer, blocks.saturating_mul(BLOCK));
    }
}

impl MahiMahi {
    fn may_respond(&mut self, peer: ValidatorIndex) -> bool {
        let rate = rate(&self.config, self.committee.size());
        self.service.buckets.refill(peer, rate, self.now)
    }

    pub(crate) fn handle_hello(&mut self, from: ValidatorIndex, hello: &Hello) {
        self.service.hellos.insert(from, hello.clone());
        self.serve(from);
    }

    pub(crate) fn handle_fetch(&mut self, from: ValidatorIndex, fetch: &Fetch) {
        self.service.fetches.insert(from, fetch.clone());
        self.serve(from);
    }

    /// Called at every deadline.
    pub(crate) fn serve_waiting(&mut self) {
        let peers: BTreeSet<_> = self.service.hellos.keys().chain(self.service.fetches.keys()).copied().collect();
        peers.into_iter().for_each(|peer| self.serve(peer));
    }

    fn serve(&mut self, peer: ValidatorIndex) {
        if self.may_respond(peer)
            && let Some(hello) = self.service.hellos.remove(&peer)
        {
            self.respond_to_hello(peer, &hello);
        }
        if self.may_respond(peer)
            && let Some(fetch) = self.service.fetches.remove(&peer)
        {
            self.respond_to_fetch(peer, &fetch);
        }
    }

    /// Responds to a greeting. This never requires a proposal, so validators that start together can answer each other.
    fn respond_to_hello(&mut self, from: ValidatorIndex, hello: &Hello) {
        let latest = self.latest_known(from).filter(|block| block.round() > hello.own).map(|block| block.signed().clone());
        let named = self.choose_named_block(from, hello.nonce);
        self.send(from, &Message::Welcome(Welcome { nonce: hello.nonce, latest, named }));
        let pushed = self.push_own_blocks(from, hello.after);
        let help = self.coin_help(&hello.coins);
        let coins = help.checks();
        if coins > 0 {
            self.send(from, &Message::Coins(help));
        }
        self.service.spend(from, 1 + pushed + COIN_COST * coins as u64);
    }

    /// K2: a block that is not below any own block signed before the start of the asking peer. Normally the own tip as
    /// it was when that start first asked. This is the lowest sufficient round, so that validators that start together
    /// do not mistake each other's first blocks for an old network. `None` if this validator is not recovered after a
    /// loss.
    fn choose_named_block(&mut self, peer: ValidatorIndex, nonce: u64) -> Option<BlockRef> {
        if !self.repair.is_witness() {
            return None;
        }
        let floor = self.sequence.floor();
        let is_held = |block: &BlockRef| block.round == Round(0) && floor == Round(0) || self.dag.contains(block);
        let before = self.service.named.get(&peer).filter(|(start, _)| *start == nonce).map(|(_, block)| *block);
        let own = self.proposer.as_ref().map(Proposer::tip);
        let top = self.dag.round(self.dag.top()).next().map(|block| block.reference());
        let genesis = (floor == Round(0)).then(|| self.context.genesis(peer));
        let named = [before, own].into_iter().flatten().find(is_held).or(top).or(genesis)?;
        if before != Some(named) && named.round > Round(0) {
            self.service.awaited = self.service.awaited.max(named.round + 1);
        }
        self.service.named.insert(peer, (nonce, named));
        Some(named)
    }

    /// Pushes own blocks above `after`, oldest first, up to the limits of one response; the peer fetches the rest.
    /// Returns their number, or their size in blocks if that is larger.
    fn push_own_blocks(&mut self, to: ValidatorIndex, after: Round) -> u64 {
        let Some(me) = self.me().filter(|_| self.repair.may_record()) else { return 0 };
        let mut budget = ResponseBudget::new(&self.config);
        let chain: Vec<_> = self.dag.chain_of(me, after).take_while(|block| budget.take(block)).cloned().collect();
        for block in chain {
            self.send(to, &Message::Block(block.signed().clone()));
        }
        budget.used(&self.config)
    }

    /// Values and own shares for coins that a peer cannot open.
    fn coin_help(&mut self, coins: &[Round]) -> CoinHelp {
        let values: Vec<_> = coins.iter().filter_map(|round| Some((*round, self.coins.opened(*round)?.value))).collect();
        let closed: Vec<_> = coins.iter().copied().filter(|round| self.coins.opened(*round).is_none()).collect();
        let shares = self.own_shares(&closed, MAX_COINS.saturating_sub(values.len()));
        CoinHelp::new(values, shares)
    }

    /// C5: a share is sent only when no block of its round can be signed any more: up to the own durable tip. Round 0
    /// has no coin. Rounds below the floor are answered too: a validator that opened a coin and went on may hold the only
    /// share that the others lack. At most `most` shares are made, those of the lowest rounds. Others are asked for again.
    pub(crate) fn own_shares(&mut self, coins: &[Round], most: usize) -> Vec<(Round, CoinShares)> {
        let (Some(signer), Some(tip)) = (&self.signer, self.proposer.as_ref().map(Proposer::tip)) else { return Vec::new() };
        let floor = self.sequence.floor();
        let due: BTreeSet<Round> = coins.iter().copied().filter(|round| (Round(1)..=tip.round).contains(round)).collect();
        let known = &mut self.service.own_shares;
        let sign = |round| signer.coin_shares(&self.context.coin_message(round));
        // Old rounds are asked for rarely and would fill the cache; the asker's token bucket pays for the signature.
        let mut shares =
            |round| if round > floor { known.entry(round).or_insert_with(|| sign(round)).clone() } else { sign(round) };
        let votes = self.committee.votes(signer.index()).as_usize();
        due.into_iter().take(most / votes.max(1)).map(|round| (round, shares(round))).collect()
    }

    /// S4: responds with the wanted blocks that are held, then with the blocks below them, lowest rounds first, as far
    /// as they fit. It sends whole rounds rather than the exact history: the peer lacks nearly all of them, and finding
    /// the history would cost more than sending them.
    fn respond_to_fetch(&mut self, from: ValidatorIndex, fetch: &Fetch) {
        let mut budget = ResponseBudget::new(&self.config);
        let (known, missing): (Vec<BlockRef>, Vec<BlockRef>) =
            fetch.wanted.iter().partition(|wanted| self.dag.contains(wanted));
        let first = fetch.above.max(self.sequence.floor() - self.config.retain_rounds).0.saturating_add(1);
        let end = known.iter().map(|wanted| wanted.round.0).max().unwrap_or(0);
        let below = (first..end).flat_map(|round| self.dag.round(Round(round)));
        let wanted = known.iter().filter_map(|reference| self.dag.get(reference));
        // At most half of a response: a peer that is far behind lacks the lowest rounds first.
        let chains = known.iter().flat_map(|reference| self.chain_below(reference)).take(budget.blocks / 2);
        let below = chains.chain(below);
        let mut found = BTreeMap::new();
        for block in wanted.chain(below) {
            let Entry::Vacant(place) = found.entry(block.reference()) else { continue };
            if !budget.take(block) {
                break;
            }
            place.insert(block.signed().clone());
        }
        let blocks = found.into_values().collect();
        self.send(from, &Message::Found(Found { blocks, missing }));
        self.service.spend(from, 1 + budget.used(&self.config));
    }

    /// The chain of own blocks below an equivocator's block, newest first. A peer that lacks one sibling also lacks
    /// those before it, and would have to request them one by one.
    fn chain_below(&self, reference: &BlockRef) -> impl Iterator<Item = &Arc<Block>> {
        let first = Some(*reference).filter(|reference| self.is_equivocator(reference.author));
        let previous = |reference: &BlockRef| self.dag.get(reference)?.parents().first().copied();
        std::iter::successors(first, previous).skip(1).filter_map(|reference| self.dag.get(&reference))
    }

    /// Shares and values from a peer are checked one by one, which is expensive, so they are limited by its token bucket.
    /// Dropped ones are requested again.
    pub(crate) fn may_check_coins(&mut self, from: ValidatorIndex, count: usize) -> bool {
        let may = self.may_respond(from);
        if may {
            self.service.spend(from, COIN_COST * count as u64);
        }
        may
    }

    /// Returns true while this peer's responses may cost signature checks.
    pub(crate) fn may_check_block(&mut self, from: ValidatorIndex) -> bool {
        let rate = idle_check_rate(&self.config, self.committee.size());
        self.service.idle_checks.refill(from, rate, self.now)
    }

    /// Charges the check of a block that did not extend the DAG.
    pub(crate) fn spend_block_check(&mut self, from: ValidatorIndex) {
        self.service.idle_checks.spend(from, BLOCK);
    }
}

/// Remaining capacity of one response. The first block always fits.
struct ResponseBudget {
    blocks: usize,
    bytes: usize,
    empty: bool,
}

impl ResponseBudget {
    fn new(config: &Config) -> Self {
        Self { blocks: config.fetch_blocks as usize, bytes: config.fetch_bytes as usize, empty: true }
    }

    fn take(&mut self, block: &Block) -> bool {
        let bytes = block.variable_bytes() + 256;
        if self.blocks == 0 || (bytes > self.bytes && !self.empty) {
            return false;
        }
        self.blocks -= 1;
        self.bytes = self.bytes.saturating_sub(bytes);
        self.empty = false;
        true
    }

    /// Used capacity in blocks: the number taken, or more if they are large.
    fn used(&self, config: &Config) -> u64 {
        let (blocks, bytes) = (u64::from(config.fetch_blocks), u64::from(config.fetch_bytes));
        let by_bytes = (bytes - self.bytes as u64) * blocks / bytes.max(1);
        (blocks - self.blocks as u64).max(by_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Content, Context, SignedBlock};
    use corniche_testkit::committee_of;
    use corniche_types::Bytes;

    /// A response within the budget is within what a verifier accepts, however many votes the authors have.
    #[test]
    fn full_response_fits_a_message() {
        for (votes, batch) in [(1, 0), (1, 8_000), (16, 0), (16, 8_000), (64, 0), (64, 1_000), (64, 50_000)] {
            let committee = committee_of("mahi-mahi", &[votes; 4]);
            let (context, config) = (Context::new(&committee), Config::default());
            let parents: Vec<_> = committee.indices().map(|author| context.genesis(author)).collect();
            let batch = Bytes::from(vec![1; batch]);
            let block = |round| {
                let (author, coin_shares) = (ValidatorIndex(0), vec![[7; 48]; votes as usize]);
                let (timestamp, parents, batch) = (TimestampMs(0), parents.clone(), batch.clone());
                let content = Content { author, round: Round(round), timestamp, parents, coin_shares, batch };
                Block::trusted(SignedBlock { content, signature: [0; 64] }, &context)
            };
            let mut budget = ResponseBudget::new(&config);
            let blocks: Vec<_> = (1..).map(block).take_while(|block| budget.take(block)).collect();
            let (count, blocks) = (blocks.len(), blocks.iter().map(|block| block.signed().clone()).collect());
            let missing = vec![BlockRef { round: Round(1), ..parents[0] }; config.fetch_blocks as usize];
            let bytes = Message::Found(Found { blocks, missing }).encode().len();
            let limit = config.max_message_bytes(committee.weights());
            assert!(bytes <= limit, "{votes} votes each: {count} blocks take {bytes} bytes of {limit}");
        }
    }
}
