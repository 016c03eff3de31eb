//! Execution of a wallet's transaction over values that were read, the same at gateways and replicas.

use crate::claims::{Claims, Codes};
use crate::keys;
use corniche_basil::shards::Key;
use corniche_basil::transaction::{Timestamp, Transaction, Value, Write};
use corniche_basil::{MAX_CONSTANTS, Program};
use corniche_crypto::VerifiedTransaction;
use corniche_state::{Changes, StateView};
use corniche_types::intrinsic::MAX_INIT_CODE_BYTES;
use corniche_types::{Address, B256, Bytes, ProtocolRules, Receipt, SkipReason, Transaction as Signed, keccak256};
use corniche_vm::{BlockEnv, NotExecuted, Vm};
use std::collections::{BTreeMap, BTreeSet};

/// Rules of one chain. All gateways and replicas have the same.
#[derive(Clone)]
pub struct Chain {
    pub vm: Vm,
    pub rules: &'static ProtocolRules,
    pub chain_id: u64,
    /// Unix time of block 0, ms.
    pub genesis_ms: u64,
    /// Must equal `Config::close_ms`: each closed range is a block.
    pub block_ms: u64,
    pub gas_limit: u64,
    /// Constant: no gateway knows the load of all shards.
    pub base_fee: u64,
}

/// A run of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// In the order of their keys. Values that did not change are left out.
    pub writes: Vec<Write>,
    pub receipt: Receipt,
}

/// Result of a run over some values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Run {
    Done(Box<Ran>),
    /// It reads this key.
    Needs(Key),
    /// It is not valid in this state.
    Invalid(SkipReason),
    /// No state has these values together: a claim is false.
    Impossible(String),
}

impl Chain {
    /// Checks everything that needs no state.
    ///
    /// # Errors
    /// The bytes are no transaction, or its signature is not valid on this chain.
    pub fn decode(&self, raw: &Bytes) -> Result<VerifiedTransaction, String> {
        let transaction = Signed::decode(raw.clone()).map_err(|error| error.to_string())?;
        VerifiedTransaction::verify(transaction, self.chain_id).map_err(|error| error.to_string())
    }

    /// The block that will contain a transaction: known from its timestamp, since each range of time is a block.
    pub fn block(&self, timestamp: Timestamp) -> BlockEnv {
        let time_ms = timestamp.time_us / 1_000;
        let block_ms = self.block_ms.max(1);
        let interval = time_ms / block_ms;
        let number = interval.saturating_sub(self.genesis_ms / block_ms) + 1;
        BlockEnv {
            rules: self.rules,
            chain_id: self.chain_id,
            number,
            // That of the block: its beginning.
            timestamp: interval * block_ms / 1_000,
            base_fee: self.base_fee,
            coinbase: Address::ZERO,
            gas_limit: self.gas_limit,
            // Nobody draws lots for a range of time, so it is predictable.
            randomness: keccak256([self.chain_id.to_be_bytes(), number.to_be_bytes()].concat()),
        }
    }

    /// Runs a transaction over the values read so far, with the code of the contracts that they name. The fee of a fixed base fee is burned; a tip goes to nobody, because an
    /// account that every transaction pays would make all of them conflict.
    ///
    /// Also returns the number of values that the run read.
    pub(crate) fn run(
        &self,
        timestamp: Timestamp,
        transaction: &VerifiedTransaction,
        values: &BTreeMap<Key, Value>,
        codes: &Codes,
    ) -> (Run, usize) {
        let view = Claims::new(values, codes);
        let result = self.vm.transact(&view, &self.block(timestamp), transaction, Address::ZERO);
        let result = result.map(|executed| {
            let mut changes = executed.changes;
            let mut additions = executed.additions;
            additions.balances.remove(&Address::ZERO);
            changes.merge(additions.resolve(&view));
            (executed.receipt, changes)
        });
        let run = match (view.missing().cloned(), result) {
            (Some(key), _) => Run::Needs(key),
            (None, Ok((receipt, changes))) => Run::Done(Box::new(Ran { writes: writes(&changes, values), receipt })),
            (None, Err(NotExecuted::Skipped(reason))) => Run::Invalid(reason),
            (None, Err(NotExecuted::Interrupted)) => unreachable!("only a missing value interrupts"),
            // Over claims, a fault shows nothing about this node.
            (None, Err(NotExecuted::Fault(fault))) => Run::Impossible(fault.to_string()),
        };
        (run, view.read_count())
    }
}

/// Values that differ from those that were read.
fn writes(changes: &Changes, values: &BTreeMap<Key, Value>) -> Vec<Write> {
    let changed = |(key, value): (Key, Value)| (values.get(&key) != Some(&value)).then_some(Write { key, value });
    keys::values(changes).into_iter().filter_map(changed).collect()
}

impl Chain {
    /// Hashes of the code of all contracts that a proposed transaction reads. The code is not in it, and everybody must have it.
    pub fn codes(transaction: &Transaction) -> BTreeSet<B256> {
        keys::codes(transaction.reads.iter().map(|read| (&read.key, &read.value)))
    }

    /// Receipt of a proposed transaction. A1: the writes must be those of the wallet's transaction over the claimed reads, and it must read
    /// all of these. An additional read would protect a key from others' writes (K4). `codes` has all of [`Self::codes`].
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn receipt(&self, transaction: &Transaction, codes: &Codes) -> Result<Receipt, String> {
        let needed = Self::codes(transaction);
        if needed.len() > MAX_CONSTANTS {
            return Err(format!("call: expected at most {MAX_CONSTANTS} contracts"));
        }
        if let Some(missing) = needed.iter().find(|hash| !codes.contains_key(*hash)) {
            return Err(format!("code {missing}: expected it to be known"));
        }
        let wallet = self.decode(&transaction.call)?;
        let values: BTreeMap<_, _> = transaction.reads.iter().map(|read| (read.key.clone(), read.value.clone())).collect();
        let (run, read) = self.run(transaction.timestamp, &wallet, &values, codes);
        match run {
            Run::Done(_) if read < values.len() => Err("reads: expected only those of the call".into()),
            Run::Done(ran) if ran.writes == transaction.writes => Ok(ran.receipt),
            Run::Done(_) => Err("writes: expected those of the call".into()),
            Run::Needs(key) => Err(format!("reads: expected one of {}", key.account)),
            Run::Impossible(fault) => Err(format!("reads: {fault}")),
            Run::Invalid(reason) => Err(format!("call: not valid over these reads ({reason:?})")),
        }
    }

    /// As [`Self::receipt`], with the code in a state. `None` if the code of a contract is not there.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn receipt_in(&self, state: &dyn StateView, transaction: &Transaction) -> Result<Option<Receipt>, String> {
        let codes = Self::codes(transaction).into_iter().map(|hash| Some((hash, state.code(&hash)?)));
        codes.collect::<Option<_>>().map(|codes| self.receipt(transaction, &codes)).transpose()
    }
}

impl Program for Chain {
    fn check(&self, transaction: &Transaction, constants: &BTreeMap<Key, Bytes>) -> Result<(), String> {
        let code = |(key, code): (&Key, &Bytes)| Some((keys::code_hash(key)?, code.clone()));
        self.receipt(transaction, &constants.iter().filter_map(code).collect()).map(drop)
    }

    /// Code by its hash.
    fn constants(&self, transaction: &Transaction) -> BTreeSet<Key> {
        Self::codes(transaction).iter().map(keys::code_key).collect()
    }

    fn is_constant(&self, key: &Key, value: &Bytes) -> bool {
        value.len() <= MAX_INIT_CODE_BYTES && keys::code_hash(key).is_some_and(|hash| keccak256(value) == hash)
    }
}

/// Keys and values of a state, for the genesis of shards.
pub fn genesis(changes: &Changes) -> BTreeMap<Key, Value> {
    keys::values(changes).into_iter().filter(|(_, value)| value.is_some()).collect()
}

/// The account of a map of values, for tests and queries.
pub fn account(values: &BTreeMap<Key, Value>, address: &Address) -> Option<corniche_types::Account> {
    Claims::new(values, &Codes::new()).account(address)
}

/// Hash of a wallet's transaction.
pub fn hash(raw: &Bytes) -> B256 {
    keccak256(raw)
}
