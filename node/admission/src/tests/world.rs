//! Test environment of the pool: adjustable accounts, numbered keys, and short transaction builders.

use crate::{Event, Pool, PoolConfig, Refusal, Responsibility, batch};
use alloy_consensus::{TxEip1559, TxLegacy};
use alloy_primitives::TxKind;
use corniche_crypto::{EthereumKey, VerifiedTransaction};
use corniche_engine::Batch;
use corniche_state::{Account, StateView};
use corniche_types::{Address, B256, Bytes, TimestampMs, Transaction, U256};
use std::collections::BTreeMap;

pub const CHAIN_ID: u64 = 7;
pub const BASE_FEE: u64 = 100;
pub const ETHER: u64 = 1_000_000_000_000_000_000;

pub fn key(number: u8) -> EthereumKey {
    EthereumKey::from_bytes(&[number; 32]).unwrap()
}

pub fn address(number: u8) -> Address {
    key(number).address()
}

/// Transaction builder: a transfer of 0 wei that pays the base fee and a tip of 10.
#[derive(Clone, Debug)]
pub struct Draft {
    pub from: u8,
    pub nonce: u64,
    pub max_fee: u128,
    pub tip: u128,
    pub gas: u64,
    pub value: u128,
    pub input: Vec<u8>,
    pub create: bool,
}

pub fn draft(from: u8, nonce: u64) -> Draft {
    Draft { from, nonce, max_fee: 1_000, tip: 10, gas: 21_000, value: 0, input: Vec::new(), create: false }
}

impl Draft {
    pub fn tip(self, tip: u128) -> Self {
        Self { tip, ..self }
    }

    pub fn max_fee(self, max_fee: u128) -> Self {
        Self { max_fee, tip: self.tip.min(max_fee), ..self }
    }

    pub fn gas(self, gas: u64) -> Self {
        Self { gas, ..self }
    }

    pub fn value(self, value: u128) -> Self {
        Self { value, ..self }
    }

    pub fn raw(&self) -> Bytes {
        key(self.from).sign(TxEip1559 {
            chain_id: CHAIN_ID,
            nonce: self.nonce,
            gas_limit: self.gas,
            max_fee_per_gas: self.max_fee,
            max_priority_fee_per_gas: self.tip,
            to: if self.create { TxKind::Create } else { TxKind::Call(Address::repeat_byte(0xcc)) },
            value: U256::from(self.value),
            input: self.input.clone().into(),
            ..TxEip1559::default()
        })
    }

    pub fn signed(&self) -> VerifiedTransaction {
        crate::check(self.raw(), CHAIN_ID).unwrap()
    }

    pub fn hash(&self) -> B256 {
        self.signed().hash()
    }
}

pub fn legacy(from: u8, nonce: u64, gas_price: u128) -> VerifiedTransaction {
    let raw = key(from).sign(TxLegacy {
        chain_id: Some(CHAIN_ID),
        nonce,
        gas_price,
        gas_limit: 21_000,
        to: TxKind::Call(Address::ZERO),
        ..TxLegacy::default()
    });
    VerifiedTransaction::verify(Transaction::decode(raw).unwrap(), CHAIN_ID).unwrap()
}

#[derive(Clone, Debug, Default)]
pub struct Accounts(pub BTreeMap<Address, Account>);

impl StateView for Accounts {
    fn account(&self, address: &Address) -> Option<Account> {
        self.0.get(address).cloned()
    }

    fn storage(&self, _: &Address, _: &B256) -> B256 {
        B256::ZERO
    }

    fn code(&self, _: &B256) -> Option<Bytes> {
        None
    }
}

/// Pool with its accounts.
pub struct World {
    pub pool: Pool,
    pub accounts: Accounts,
    pub base_fee: u64,
    pub now: TimestampMs,
    /// Checks the pool after each operation, which also updates all of its indices.
    pub checked: bool,
}

impl World {
    pub fn new() -> Self {
        Self::with(config())
    }

    /// Accounts 1 to 9 have one ether each.
    pub fn with(config: PoolConfig) -> Self {
        let (pool, accounts) = (Pool::new(config), Accounts::default());
        let mut world = Self { pool, accounts, base_fee: BASE_FEE, now: TimestampMs(0), checked: true };
        (1..=9).for_each(|number| world.account(number).balance = U256::from(ETHER));
        world
    }

    pub fn account(&mut self, number: u8) -> &mut Account {
        self.accounts.0.entry(address(number)).or_default()
    }

    pub fn check(&mut self) {
        if self.checked {
            self.pool.assert_consistent();
        }
    }

    pub fn admit(&mut self, draft: &Draft) -> Result<(), Refusal> {
        self.admit_as(draft, Responsibility::ALONE)
    }

    pub fn admit_as(&mut self, draft: &Draft, responsibility: Responsibility) -> Result<(), Refusal> {
        let result = self.pool.admit_as(draft.signed(), responsibility, &self.accounts, self.base_fee, self.now);
        self.check();
        result
    }

    pub fn wait(&mut self, ms: u64) {
        self.now.0 += ms;
        self.pool.tick(self.now);
        self.check();
    }

    pub fn admit_all(&mut self, drafts: &[Draft]) {
        for draft in drafts {
            self.admit(draft).unwrap_or_else(|refusal| panic!("{draft:?}: {refusal}"));
        }
    }

    pub fn cut_at_most(&mut self, bytes: u32, gas: u64) -> Option<Batch> {
        let batch = self.pool.cut(bytes, gas, &self.accounts, self.base_fee);
        self.check();
        batch
    }

    /// All ready transactions, as (sender's number, nonce).
    pub fn cut(&mut self) -> Vec<(u8, u64)> {
        self.cut_at_most(1 << 20, 30_000_000).map(|batch| contents(&batch)).unwrap_or_default()
    }

    /// Block that executed these: their nonces are used.
    pub fn block(&mut self, executed: &[Draft]) {
        for draft in executed {
            self.account(draft.from).nonce = draft.nonce + 1;
        }
        let hashes: Vec<_> = executed.iter().map(|draft| (draft.hash(), address(draft.from))).collect();
        self.on_block(&hashes, &[]);
    }

    pub fn on_block(&mut self, executed: &[(B256, Address)], returned: &[VerifiedTransaction]) {
        self.pool.on_block(&self.accounts, self.base_fee, executed, returned);
        self.check();
    }

    pub fn events(&mut self) -> Vec<Event> {
        self.pool.take_events()
    }

    pub fn pending_nonce(&self, number: u8) -> u64 {
        self.pool.pending_nonce(&address(number), &self.accounts)
    }
}

pub fn config() -> PoolConfig {
    PoolConfig {
        gas_limit: 10_000_000,
        max_transactions: 100,
        max_bytes: 1 << 20,
        max_per_sender: 16,
        max_nonces_ahead: 64,
        queued_lifetime_ms: 1_000,
    }
}

pub fn contents(batch: &Batch) -> Vec<(u8, u64)> {
    let transactions = batch::decode(&batch.bytes);
    assert!(!transactions.is_empty());
    transactions
        .into_iter()
        .map(|raw| crate::check(raw, CHAIN_ID).unwrap())
        .map(|tx| (number_of(tx.sender()), tx.nonce()))
        .collect()
}

pub fn number_of(sender: Address) -> u8 {
    (1..=9).find(|&number| address(number) == sender).expect("one of the accounts")
}
