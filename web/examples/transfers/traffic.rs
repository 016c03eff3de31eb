//! Generates blocks full of transfers, with some other transactions.

use super::{
    blocks::{self, Call, Head, block, hash, transaction},
    random::Random,
};
use alloy_primitives::{Address, B256, Bytes, U256};
use corniche_web::{
    indexer::events::{Standard, TokenEvent},
    node::{Receipt, Transaction, WholeBlock},
};

/// Transfers of a block, and block interval in milliseconds: a hundred transfers a second.
const IN_BLOCK: u64 = 100;
const BLOCK_MS: u64 = 1_000;

/// Other transactions of a block: approvals, and failures.
const APPROVALS: u64 = 5;
const FAILURES: u64 = 2;

const TOKENS: u64 = 500;
/// Validators, all of which sign every block.
pub const VALIDATORS: u64 = 4;

/// Time of the first block in Unix milliseconds.
const BEGIN_MS: u64 = 1_700_000_000_000;

/// Generator of the traffic; see the module.
pub struct Traffic {
    random: Random,
    seed: u64,
    transfers: u64,
    accounts: u64,
    /// Number of blocks so far.
    pub blocks: u64,
    /// Hash of the last block.
    pub parent: B256,
}

impl Traffic {
    /// Generates this many transfers, with one account for every ten of them.
    pub fn new(seed: u64, transfers: u64) -> Self {
        let accounts = (transfers / 10).max(100);
        Self { random: Random::new(seed), seed, transfers, accounts, blocks: 0, parent: B256::ZERO }
    }

    /// Returns the parameters as text.
    pub fn name(&self) -> String {
        format!("accounts={}/tokens={TOKENS}/in-block={IN_BLOCK}", self.accounts)
    }

    /// Chooses a number below `of` by Zipf's law: the n-th with a frequency proportional to 1/n.
    fn zipf(random: &mut Random, of: u64) -> u64 {
        let uniform = (random.next() >> 11) as f64 / (1u64 << 53) as f64;
        (((of as f64 + 1.0).powf(uniform)) as u64).clamp(1, of) - 1
    }

    /// Returns an account by its rank.
    pub fn account(&self, rank: u64) -> Address {
        Address::from_word(hash(&[self.seed, 1, rank]))
    }

    /// Returns a token by its rank.
    pub fn token(&self, rank: u64) -> Address {
        Address::from_word(hash(&[self.seed, 2, rank]))
    }

    /// Returns the hash of a transfer.
    pub fn transfer(&self, at: u64) -> B256 {
        hash(&[self.seed, 3, at])
    }

    /// Returns the hash of a block.
    pub fn block(&self, number: u64) -> B256 {
        hash(&[self.seed, 4, number])
    }

    /// Returns the hash of the failed transaction of a block.
    pub fn failure(&self, block: u64) -> B256 {
        hash(&[self.seed, 5, block, 0])
    }

    /// Returns the number of transfers so far.
    pub fn made(&self) -> u64 {
        self.transfers.min(self.blocks * IN_BLOCK)
    }

    /// Returns the numbers of accounts, tokens and transfers.
    pub fn counts(&self) -> (u64, u64, u64) {
        (self.accounts, TOKENS, self.transfers)
    }

    /// Returns the next block, or `None` at the end.
    pub fn next_block(&mut self) -> Option<WholeBlock> {
        let first = self.blocks * IN_BLOCK;
        let count = IN_BLOCK.min(self.transfers.checked_sub(first).filter(|left| *left > 0)?);
        let number = self.blocks + 1;
        let mut transactions: Vec<_> = (first..first + count).map(|at| self.transfer_of(at)).collect();
        transactions.extend((0..APPROVALS).map(|at| self.approval(number, at)));
        transactions.extend((0..FAILURES).map(|at| self.failing(number, at)));
        let own = self.block(number);
        let (half, all) = (count / 2, transactions.len() as u64);
        let head = Head {
            number,
            hash: own,
            parent: self.parent,
            time_ms: BEGIN_MS + number * BLOCK_MS,
            leader: number % VALIDATORS,
            batches: vec![(number % VALIDATORS, half), ((number + 1) % VALIDATORS, all - half)],
            skipped: vec![],
        };
        (self.blocks, self.parent) = (number, own);
        Some(block(&head, transactions))
    }

    /// Chooses an account and a token.
    fn anyone(&mut self) -> (Address, Address) {
        let (account, token) = (Self::zipf(&mut self.random, self.accounts), Self::zipf(&mut self.random, TOKENS));
        (self.account(account), self.token(token))
    }

    fn transfer_of(&mut self, at: u64) -> (Transaction, Receipt) {
        let recipient = Self::zipf(&mut self.random, self.accounts);
        let ((from, token), to) = (self.anyone(), self.account(recipient));
        // A third of the transfers are mints, so that accounts get balances. Senders need no balance.
        let mint = self.random.percent(33);
        let amount = U256::from(1 + self.random.below(1_000_000));
        let from_side = if mint { Address::ZERO } else { from };
        let moved = TokenEvent::Transfer { token, standard: Standard::Erc20, from: from_side, to, id: None, amount };
        let call = Call { logs: vec![blocks::log(&[moved])], ..call(TRANSFER, from, token, to, amount) };
        transaction(self.transfer(at), Call { nonce: at, ..call })
    }

    fn approval(&mut self, block: u64, at: u64) -> (Transaction, Receipt) {
        // Few accounts are approved spenders.
        let spender = Self::zipf(&mut self.random, 100);
        let ((owner, token), spender, amount) = (self.anyone(), self.account(spender), U256::MAX);
        let moved = TokenEvent::Approval { token, owner, spender, id: None, amount };
        let call = Call { logs: vec![blocks::log(&[moved])], ..call(APPROVE, owner, token, spender, amount) };
        transaction(hash(&[self.seed, 6, block, at]), call)
    }

    fn failing(&mut self, block: u64, at: u64) -> (Transaction, Receipt) {
        let (from, token) = self.anyone();
        let call = Call { succeeded: false, ..call(TRANSFER, from, token, from, U256::MAX) };
        transaction(hash(&[self.seed, 5, block, at]), call)
    }
}

const TRANSFER: [u8; 4] = [0xa9, 0x05, 0x9c, 0xbb];
const APPROVE: [u8; 4] = [0x09, 0x5e, 0xa7, 0xb3];

/// Builds a call of a token's function with an address and an amount, without logs.
fn call(selector: [u8; 4], from: Address, token: Address, about: Address, amount: U256) -> Call {
    let input = [&selector[..], about.into_word().as_slice(), &amount.to_be_bytes::<32>()].concat();
    let (gas_used, succeeded, created, logs) = (52_000, true, None, vec![]);
    Call { from, to: Some(token), nonce: 0, input: Bytes::from(input), gas_used, succeeded, created, logs }
}
