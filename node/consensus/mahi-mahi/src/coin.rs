//! The global coin: combines shares and elects leaders.
//!
//! Coin(R) elects the leaders of propose round R − (w − 1), after the votes on them are fixed (C2). Blocks carry the
//! shares. Shares are deterministic and counted by author, so siblings have no effect (C3).
//!
//! **Share validity is not block validity.** A block with a bad share stays a valid block; the share is excluded and
//! its author accused. In the thesis (rule V6), the share is part of block validity, which costs one pairing check per
//! block. Here a quorum of shares is combined first and only the result is verified. Single shares are checked only
//! when that fails. This is safe because the combined signature is unique: no choice of shares gives a second valid
//! value, so nodes that excluded different shares still open the same coin. It is live because every honest validator
//! sends its shares on request ([`crate::message::Hello::coins`]), so a quorum of honest shares arrives even when blocks carried
//! bad ones. An opened value can also be forwarded and verified.

use crate::{
    keys::{Coin, CoinShares, CoinValue},
    message::{Block, Context, Round},
};
use corniche_engine::Committee;
use corniche_types::{B256, ValidatorIndex, Weights};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The coins of all rounds above the floor.
pub struct Coins {
    coin: Arc<dyn Coin>,
    context: Context,
    weights: Weights,
    /// Owners of the seats among which leaders are elected.
    seats: Vec<ValidatorIndex>,
    rounds: BTreeMap<Round, RoundCoin>,
    /// Authors that once sent a bad share. Their shares are checked one by one before they are combined.
    bad_authors: BTreeSet<ValidatorIndex>,
    /// Rounds whose coin opened since [`Self::take_opened`].
    opened: Vec<Round>,
}

#[derive(Default)]
struct RoundCoin {
    /// Unverified shares from blocks, with the block as evidence.
    unchecked: BTreeMap<ValidatorIndex, Arc<Block>>,
    /// Verified shares.
    checked: BTreeMap<ValidatorIndex, CoinShares>,
    /// Authors whose block of this round carries a bad share.
    bad_blocks: BTreeSet<ValidatorIndex>,
    /// Peers that sent a false share or value in a message. They get no further pairing check for this round.
    false_senders: BTreeSet<ValidatorIndex>,
    opened: Option<OpenCoin>,
}

/// An opened coin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenCoin {
    /// The combined signature, sent to validators that cannot open the coin themselves.
    pub value: CoinValue,
    /// Hash of `value` (C4).
    pub seed: B256,
    /// All validators in leader order; the first ℓ get the ranks.
    pub order: Vec<ValidatorIndex>,
}

impl RoundCoin {
    /// Authors whose shares may be used.
    fn authors(&self) -> impl Iterator<Item = ValidatorIndex> {
        self.checked.keys().chain(self.unchecked.keys()).copied()
    }

    fn shares_of(&self, author: ValidatorIndex) -> Option<&CoinShares> {
        let unchecked = self.unchecked.get(&author).map(|block| &block.content().coin_shares);
        self.checked.get(&author).or(unchecked)
    }
}

impl Coins {
    pub fn new(coin: Arc<dyn Coin>, committee: &Committee) -> Self {
        Self {
            coin,
            context: Context::new(committee),
            weights: committee.weights().clone(),
            seats: committee.weights().seats(),
            rounds: BTreeMap::new(),
            bad_authors: BTreeSet::new(),
            opened: Vec::new(),
        }
    }

    /// The coin of `round`, if open.
    pub fn opened(&self, round: Round) -> Option<&OpenCoin> {
        self.rounds.get(&round)?.opened.as_ref()
    }

    /// Returns the rounds whose coin opened since the last call, each once.
    pub fn take_opened(&mut self) -> Vec<Round> {
        std::mem::take(&mut self.opened)
    }

    /// Adds the share of an accepted block. Returns the blocks whose share proved bad.
    pub fn add_block(&mut self, block: &Arc<Block>) -> Vec<Arc<Block>> {
        let entry = self.rounds.entry(block.round()).or_default();
        let author = block.author();
        let known = entry.checked.contains_key(&author) || entry.bad_blocks.contains(&author);
        if entry.opened.is_some() || known || entry.unchecked.contains_key(&author) {
            return Vec::new();
        }
        entry.unchecked.insert(author, block.clone());
        self.try_open(block.round())
    }

    /// Adds an author's shares sent in a message and verifies them at once. The caller bounds the rounds.
    pub fn add_shares(&mut self, round: Round, author: ValidatorIndex, shares: CoinShares) -> Vec<Arc<Block>> {
        let entry = self.rounds.entry(round).or_default();
        if entry.opened.is_some() || entry.checked.contains_key(&author) || entry.false_senders.contains(&author) {
            return Vec::new();
        }
        if !self.coin.verify_shares(author, &self.context.coin_message(round), &shares) {
            entry.false_senders.insert(author);
            return Vec::new();
        }
        entry.unchecked.remove(&author);
        entry.checked.insert(author, shares);
        self.try_open(round)
    }

    /// Returns true if neither a block nor a message brought this author's share.
    pub fn lacks_share_of(&self, round: Round, author: ValidatorIndex) -> bool {
        let knows = |entry: &RoundCoin| {
            entry.checked.contains_key(&author) || entry.unchecked.contains_key(&author) || entry.bad_blocks.contains(&author)
        };
        !self.rounds.get(&round).is_some_and(knows)
    }

    /// Adds a value that a peer opened and verifies it at once. The caller bounds the rounds.
    pub fn add_value(&mut self, round: Round, from: ValidatorIndex, value: &CoinValue) {
        let entry = self.rounds.entry(round).or_default();
        if entry.opened.is_some() || entry.false_senders.contains(&from) {
            return;
        }
        if !self.coin.verify(&self.context.coin_message(round), value) {
            entry.false_senders.insert(from);
        } else {
            *entry = RoundCoin { opened: Some(elect(value, &self.seats)), ..RoundCoin::default() };
            self.opened.push(round);
        }
    }

    /// Drops the coins of rounds up to `floor`.
    pub fn prune(&mut self, floor: Round) {
        self.rounds = self.rounds.split_off(&(floor + 1));
    }

    /// Combines first and verifies only the result. Checks single shares only when that fails.
    fn try_open(&mut self, round: Round) -> Vec<Arc<Block>> {
        if self.rounds.get(&round).is_none_or(|entry| self.weights.weigh(entry.authors()) < self.weights.quorum()) {
            return Vec::new();
        }
        let message = self.context.coin_message(round);
        let mut bad_blocks = Vec::new();
        loop {
            let Some(shares) = self.choose(round, &message, &mut bad_blocks) else { return bad_blocks };
            let opened = self.coin.combine(&message, &shares).map(|value| elect(&value, &self.seats));
            let entry = self.rounds.entry(round).or_default();
            if opened.is_some() {
                *entry = RoundCoin { opened, ..RoundCoin::default() };
                self.opened.push(round);
                return bad_blocks;
            }
            let suspects: Vec<_> =
                shares.iter().map(|(author, _)| *author).filter(|author| entry.unchecked.contains_key(author)).collect();
            if suspects.is_empty() {
                // Good shares that do not combine: the dealt keys are inconsistent. No peer can cause this; the coin
                // stays closed.
                return bad_blocks;
            }
            for author in suspects {
                self.check_individually(round, author, &message, &mut bad_blocks);
            }
        }
    }

    /// Chooses the shares of authors with a quorum of votes, verified and trusted ones first. Returns `None` if they have
    /// too few. It takes a quorum so that no coalition with F votes learns a coin early with the network's help.
    fn choose(
        &mut self,
        round: Round,
        message: &[u8],
        bad_blocks: &mut Vec<Arc<Block>>,
    ) -> Option<Vec<(ValidatorIndex, CoinShares)>> {
        let (entry, quorum) = (self.rounds.get(&round)?, self.weights.quorum());
        let suspects: Vec<_> = entry.unchecked.keys().copied().filter(|author| self.bad_authors.contains(author)).collect();
        let available = self.weights.weigh(entry.authors());
        if available < quorum {
            return None;
        }
        if available - self.weights.weigh(suspects.iter().copied()) < quorum {
            suspects.iter().for_each(|author| self.check_individually(round, *author, message, bad_blocks));
        }
        let entry = self.rounds.get(&round)?;
        let trusted = entry.unchecked.keys().filter(|author| !self.bad_authors.contains(author));
        let chosen = self.weights.take_votes(entry.checked.keys().chain(trusted).copied(), quorum);
        let is_enough = self.weights.weigh(chosen.iter().copied()) >= quorum;
        is_enough.then(|| chosen.into_iter().filter_map(|author| Some((author, entry.shares_of(author)?.clone()))).collect())
    }

    fn check_individually(&mut self, round: Round, author: ValidatorIndex, message: &[u8], bad_blocks: &mut Vec<Arc<Block>>) {
        let Some(entry) = self.rounds.get_mut(&round) else { return };
        let Some(block) = entry.unchecked.remove(&author) else { return };
        let shares = &block.content().coin_shares;
        if self.coin.verify_shares(author, message, shares) {
            entry.checked.insert(author, shares.clone());
        } else {
            entry.bad_blocks.insert(author);
            self.bad_authors.insert(author);
            bad_blocks.push(block);
        }
    }
}

/// C4: derives the seed, and from it a Fisher–Yates shuffle of all seats: a uniform order without replacement, unlike
/// "seed + rank mod n" (P5). The order is that of the seats' owners. An owner's later seats are dropped, because a validator
/// leads at most one slot of a round.
pub fn elect(value: &CoinValue, seats: &[ValidatorIndex]) -> OpenCoin {
    let seed = *blake3::hash(value).as_bytes();
    let mut stream = blake3::Hasher::new_keyed(&seed).finalize_xof();
    let mut below = |bound: usize| {
        // Rejection sampling keeps all remainders equally likely.
        let bound = u64::try_from(bound).expect("a committee has at most 1000 votes");
        let limit = u64::MAX - u64::MAX % bound;
        loop {
            let mut word = [0; 8];
            stream.fill(&mut word);
            let word = u64::from_le_bytes(word);
            if word < limit {
                return usize::try_from(word % bound).expect("below a number of votes");
            }
        }
    };
    let mut shuffled = seats.to_vec();
    for place in 0..shuffled.len() {
        shuffled.swap(place, place + below(seats.len() - place));
    }
    let mut named = BTreeSet::new();
    shuffled.retain(|owner| named.insert(*owner));
    OpenCoin { value: *value, seed: B256::from(seed), order: shuffled }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_types::{FaultModel, Votes};

    fn stretched(bytes: &[u8]) -> CoinValue {
        let mut value = [0; 48];
        value[..bytes.len()].copy_from_slice(bytes);
        value
    }

    fn members(size: u16) -> Vec<ValidatorIndex> {
        (0..size).map(ValidatorIndex).collect()
    }

    #[test]
    fn leaders_are_drawn_by_votes_and_named_once() {
        let weights = Weights::new([3, 2, 2, 1, 1, 1].map(Votes), FaultModel::Byzantine);
        let mut first = [0u32; 6];
        for value in 0u32..10_000 {
            let order = elect(&stretched(&value.to_le_bytes()), &weights.seats()).order;
            first[order[0].as_usize()] += 1;
            let named: BTreeSet<_> = order.iter().collect();
            assert_eq!((order.len(), named.len()), (6, 6), "B4: a validator has one rank: {order:?}");
        }
        // Expected values 3000, 2000 and 1000; five standard deviations are at most 230.
        let expected = [3_000, 2_000, 2_000, 1_000, 1_000, 1_000];
        assert!(first.iter().zip(expected).all(|(count, expected)| count.abs_diff(expected) < 230), "{first:?}");
    }

    #[test]
    fn leaders_are_uniform_at_every_rank() {
        let mut counts = [[0u32; 7]; 7];
        for value in 0u32..7_000 {
            let order = elect(&stretched(&value.to_le_bytes()), &members(7)).order;
            for (rank, author) in order.iter().enumerate() {
                counts[rank][author.as_usize()] += 1;
            }
        }
        // Expected value 1000; five standard deviations are about 146.
        assert!(counts.iter().flatten().all(|count| count.abs_diff(1_000) < 146), "{counts:?}");
    }

    #[test]
    fn leader_order_is_frozen() {
        let order: Vec<_> = elect(&stretched(b"corniche"), &members(10)).order.iter().map(|author| author.0).collect();
        assert_eq!(order, FROZEN);
    }

    const FROZEN: [u16; 10] = [6, 9, 4, 1, 5, 8, 7, 2, 3, 0];
}
