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
//! sends its share on request ([`crate::message::Hello::coins`]), so q honest shares arrive even when blocks carried
//! bad ones. An opened value can also be forwarded and verified.

use crate::{
    keys::{Coin, CoinShare, CoinValue},
    message::{Block, Context, Round},
};
use corniche_engine::Committee;
use corniche_types::{B256, ValidatorIndex};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The coins of all rounds above the floor.
pub struct Coins {
    coin: Arc<dyn Coin>,
    context: Context,
    committee_size: usize,
    /// Number of shares needed: a quorum, so that no coalition of f + 1 can learn a coin early with the network's help.
    threshold: usize,
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
    checked: BTreeMap<ValidatorIndex, CoinShare>,
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

impl Coins {
    pub fn new(coin: Arc<dyn Coin>, committee: &Committee) -> Self {
        Self {
            coin,
            context: Context::new(committee),
            committee_size: committee.size(),
            threshold: committee.quorum(),
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

    /// Adds a share sent in a message and verifies it at once. The caller bounds the rounds.
    pub fn add_share(&mut self, round: Round, author: ValidatorIndex, share: CoinShare) -> Vec<Arc<Block>> {
        let entry = self.rounds.entry(round).or_default();
        if entry.opened.is_some() || entry.checked.contains_key(&author) || entry.false_senders.contains(&author) {
            return Vec::new();
        }
        if !self.coin.verify_share(author, &self.context.coin_message(round), &share) {
            entry.false_senders.insert(author);
            return Vec::new();
        }
        entry.unchecked.remove(&author);
        entry.checked.insert(author, share);
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
            *entry = RoundCoin { opened: Some(elect(value, self.committee_size)), ..RoundCoin::default() };
            self.opened.push(round);
        }
    }

    /// Drops the coins of rounds up to `floor`.
    pub fn prune(&mut self, floor: Round) {
        self.rounds = self.rounds.split_off(&(floor + 1));
    }

    /// Combines first and verifies only the result. Checks single shares only when that fails.
    fn try_open(&mut self, round: Round) -> Vec<Arc<Block>> {
        if self.rounds.get(&round).is_none_or(|entry| entry.checked.len() + entry.unchecked.len() < self.threshold) {
            return Vec::new();
        }
        let message = self.context.coin_message(round);
        let mut bad_blocks = Vec::new();
        loop {
            let Some(shares) = self.choose(round, &message, &mut bad_blocks) else { return bad_blocks };
            let opened = self.coin.combine(&message, &shares).map(|value| elect(&value, self.committee_size));
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

    /// Chooses a threshold of shares, verified and trusted ones first. Returns `None` if there are too few.
    fn choose(
        &mut self,
        round: Round,
        message: &[u8],
        bad_blocks: &mut Vec<Arc<Block>>,
    ) -> Option<Vec<(ValidatorIndex, CoinShare)>> {
        let entry = self.rounds.get(&round)?;
        let suspects: Vec<_> = entry.unchecked.keys().copied().filter(|author| self.bad_authors.contains(author)).collect();
        let available = entry.checked.len() + entry.unchecked.len();
        if available < self.threshold {
            return None;
        }
        if available - suspects.len() < self.threshold {
            suspects.iter().for_each(|author| self.check_individually(round, *author, message, bad_blocks));
        }
        let entry = self.rounds.get(&round)?;
        let checked = entry.checked.iter().map(|(author, share)| (*author, *share));
        let trusted = entry.unchecked.iter().filter(|(author, _)| !self.bad_authors.contains(author));
        let trusted = trusted.map(|(author, block)| (*author, block.content().coin_share));
        let shares: Vec<_> = checked.chain(trusted).take(self.threshold).collect();
        (shares.len() == self.threshold).then_some(shares)
    }

    fn check_individually(&mut self, round: Round, author: ValidatorIndex, message: &[u8], bad_blocks: &mut Vec<Arc<Block>>) {
        let Some(entry) = self.rounds.get_mut(&round) else { return };
        let Some(block) = entry.unchecked.remove(&author) else { return };
        let share = block.content().coin_share;
        if self.coin.verify_share(author, message, &share) {
            entry.checked.insert(author, share);
        } else {
            entry.bad_blocks.insert(author);
            self.bad_authors.insert(author);
            bad_blocks.push(block);
        }
    }
}

/// C4: derives the seed, and from it a Fisher–Yates shuffle: a uniform order without replacement, unlike "seed + rank
/// mod n" (P5).
pub fn elect(value: &CoinValue, committee_size: usize) -> OpenCoin {
    let seed = *blake3::hash(value).as_bytes();
    let mut stream = blake3::Hasher::new_keyed(&seed).finalize_xof();
    let mut below = |bound: u64| {
        // Rejection sampling keeps all remainders equally likely.
        let limit = u64::MAX - u64::MAX % bound;
        loop {
            let mut word = [0; 8];
            stream.fill(&mut word);
            let word = u64::from_le_bytes(word);
            if word < limit {
                return usize::try_from(word % bound).expect("below a committee size");
            }
        }
    };
    let members = u16::try_from(committee_size).expect("a committee has at most 1000 members");
    let mut order: Vec<_> = (0..members).map(ValidatorIndex).collect();
    for place in 0..committee_size {
        let rest = u64::from(members) - u64::try_from(place).expect("a committee has at most 1000 members");
        order.swap(place, place + below(rest));
    }
    OpenCoin { value: *value, seed: B256::from(seed), order }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretched(bytes: &[u8]) -> CoinValue {
        let mut value = [0; 48];
        value[..bytes.len()].copy_from_slice(bytes);
        value
    }

    #[test]
    fn leaders_are_uniform_at_every_rank() {
        let mut counts = [[0u32; 7]; 7];
        for value in 0u32..7_000 {
            let order = elect(&stretched(&value.to_le_bytes()), 7).order;
            for (rank, author) in order.iter().enumerate() {
                counts[rank][author.as_usize()] += 1;
            }
        }
        // Expected value 1000; five standard deviations are about 146.
        assert!(counts.iter().flatten().all(|count| count.abs_diff(1_000) < 146), "{counts:?}");
    }

    #[test]
    fn leader_order_is_frozen() {
        let order: Vec<_> = elect(&stretched(b"corniche"), 10).order.iter().map(|author| author.0).collect();
        assert_eq!(order, FROZEN);
    }

    const FROZEN: [u16; 10] = [6, 9, 4, 1, 5, 8, 7, 2, 3, 0];
}
