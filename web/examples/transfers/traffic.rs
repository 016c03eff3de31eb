//! Blocks full of transfers.

use super::{
    blocks::{self, Call, Head, block, hash, transaction},
    random::Random,
};
use alloy_primitives::{Address, B256, Bytes, U256};
use corniche_web::{
    indexer::events::{Moved, Standard},
    node::WholeBlock,
};

/// Transfers of a block, and milliseconds between two: a hundred transfers a second.
const IN_BLOCK: u64 = 100;
const BLOCK_MS: u64 = 1_000;

const TOKENS: u64 = 500;
/// Who sign all blocks.
pub const VALIDATORS: u64 = 4;

/// When it begins, Unix milliseconds.
const BEGIN_MS: u64 = 1_700_000_000_000;

/// See the module.
pub struct Traffic {
    random: Random,
    seed: u64,
    transfers: u64,
    accounts: u64,
    /// Blocks so far.
    pub blocks: u64,
    /// The last one's hash.
    pub parent: B256,
}

impl Traffic {
    /// So many transfers; one account for ten of them.
    pub fn new(seed: u64, transfers: u64) -> Self {
        let accounts = (transfers / 10).max(100);
        Self { random: Random(seed), seed, transfers, accounts, blocks: 0, parent: B256::ZERO }
    }

    /// Its parameters.
    pub fn name(&self) -> String {
        format!("accounts={}/tokens={TOKENS}/in-block={IN_BLOCK}", self.accounts)
    }

    /// One of these by Zipf's law: the n-th is chosen as often as 1/n says.
    fn zipf(random: &mut Random, of: u64) -> u64 {
        let uniform = (random.next() >> 11) as f64 / (1u64 << 53) as f64;
        (((of as f64 + 1.0).powf(uniform)) as u64).clamp(1, of) - 1
    }

    /// An account by its rank.
    pub fn account(&self, rank: u64) -> Address {
        Address::from_word(hash(&[self.seed, 1, rank]))
    }

    /// A token by its rank.
    pub fn token(&self, rank: u64) -> Address {
        Address::from_word(hash(&[self.seed, 2, rank]))
    }

    /// The hash of a transfer.
    pub fn transfer(&self, at: u64) -> B256 {
        hash(&[self.seed, 3, at])
    }

    /// How many accounts, tokens and transfers there are.
    pub fn counts(&self) -> (u64, u64, u64) {
        (self.accounts, TOKENS, self.transfers)
    }

    /// The next block, if there is one.
    pub fn next_block(&mut self) -> Option<WholeBlock> {
        let first = self.blocks * IN_BLOCK;
        let count = IN_BLOCK.min(self.transfers.checked_sub(first).filter(|left| *left > 0)?);
        let number = self.blocks + 1;
        let transactions = (first..first + count).map(|at| self.one(at)).collect();
        let own = hash(&[self.seed, 4, number]);
        let head = Head {
            number,
            hash: own,
            parent: self.parent,
            time_ms: BEGIN_MS + number * BLOCK_MS,
            leader: number % VALIDATORS,
            batches: vec![(number % VALIDATORS, count / 2), ((number + 1) % VALIDATORS, count - count / 2)],
            skipped: vec![],
        };
        (self.blocks, self.parent) = (number, own);
        Some(block(&head, transactions))
    }

    fn one(&mut self, at: u64) -> (corniche_web::node::Transaction, corniche_web::node::Receipt) {
        let (sender, recipient) = (Self::zipf(&mut self.random, self.accounts), Self::zipf(&mut self.random, self.accounts));
        let (from, to) = (self.account(sender), self.account(recipient));
        let token = Self::zipf(&mut self.random, TOKENS);
        let token = self.token(token);
        // Who has nothing yet is given something by the same transaction; a third does not care to look.
        let mint = self.random.percent(33);
        let amount = U256::from(1 + self.random.below(1_000_000));
        let mut input = [0u8; 68];
        input[..4].copy_from_slice(&[0xa9, 0x05, 0x9c, 0xbb]);
        input[16..36].copy_from_slice(to.as_slice());
        input[36..].copy_from_slice(&amount.to_be_bytes::<32>());
        let from_side = if mint { Address::ZERO } else { from };
        let moved = Moved::Transfer { token, standard: Standard::Erc20, from: from_side, to, id: None, amount };
        let call = Call {
            from,
            to: Some(token),
            nonce: at,
            input: Bytes::copy_from_slice(&input),
            gas_used: 52_000,
            succeeded: true,
            created: None,
            logs: vec![blocks::log(&[moved])],
        };
        transaction(self.transfer(at), call)
    }
}
