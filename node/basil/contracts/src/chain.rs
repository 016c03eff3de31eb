//! Execution of a wallet's transaction over values that were read, the same at gateways and replicas.

use crate::claims::{Claims, Codes, Stop};
use crate::keys;
use corniche_basil::shards::Key;
use corniche_basil::transaction::{Timestamp, Transaction, Value, Write};
use corniche_basil::{Constants, MAX_CONSTANTS, Program, Refusal};
use corniche_crypto::VerifiedTransaction;
use corniche_state::{Changes, StateView};
use corniche_types::{Address, B256, Bytes, ProtocolRules, Receipt, SkipReason, Transaction as Signed, keccak256};
use corniche_vm::{BlockEnv, NotExecuted, Vm};
use std::collections::BTreeMap;

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
    /// It reads this key, or this code.
    Needs(Key),
    /// It uses more than [`MAX_CONSTANTS`] contracts.
    TooManyCodes,
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

    /// Runs a transaction over the values read so far, and code by its hash. The fee of a fixed base fee is burned; a tip goes to nobody, because an
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
        let run = match (view.stop().cloned(), result) {
            (Some(Stop::Missing(key)), _) => Run::Needs(key),
            (Some(Stop::TooManyCodes), _) => Run::TooManyCodes,
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
    /// Receipt of a proposed transaction. A1: the writes must be those of the wallet's transaction over the claimed reads, and it must read
    /// all of these. An additional read would protect a key from others' writes (K4). `codes` has code by its hash, which is not among the reads.
    ///
    /// # Errors
    /// The first rule that is broken, or the code that is missing.
    pub fn receipt(&self, transaction: &Transaction, codes: &Codes) -> Result<Receipt, Refusal> {
        let invalid = |error: String| Err(Refusal::Invalid(error));
        let wallet = self.decode(&transaction.call).map_err(Refusal::Invalid)?;
        let values: BTreeMap<_, _> = transaction.reads.iter().map(|read| (read.key.clone(), read.value.clone())).collect();
        let (run, read) = self.run(transaction.timestamp, &wallet, &values, codes);
        match run {
            Run::Done(_) if read < values.len() => invalid("reads: expected only those of the call".into()),
            Run::Done(ran) if ran.writes == transaction.writes => Ok(ran.receipt),
            Run::Done(_) => invalid("writes: expected those of the call".into()),
            Run::Needs(key) if keys::code_hash(&key).is_some() => Err(Refusal::Needs(key)),
            Run::TooManyCodes => invalid(format!("call: expected at most {MAX_CONSTANTS} contracts")),
            Run::Needs(key) => invalid(format!("reads: expected one of {}", key.account)),
            Run::Impossible(fault) => invalid(format!("reads: {fault}")),
            Run::Invalid(reason) => invalid(format!("call: not valid over these reads ({reason:?})")),
        }
    }
}

impl Program for Chain {
    fn check(&self, transaction: &Transaction, constants: &Constants) -> Result<(), Refusal> {
        self.receipt(transaction, &|hash| constants(&keys::code_key(hash))).map(drop)
    }

    /// Code by its hash.
    fn is_constant(&self, key: &Key, value: &Bytes) -> bool {
        keys::code_hash(key).is_some_and(|hash| keccak256(value) == hash)
    }
}

/// Keys and values of a state, for the genesis of shards.
pub fn genesis(changes: &Changes) -> BTreeMap<Key, Value> {
    keys::values(changes).into_iter().filter(|(_, value)| value.is_some()).collect()
}

/// The account of a map of values, for tests and queries.
pub fn account(values: &BTreeMap<Key, Value>, address: &Address) -> Option<corniche_types::Account> {
    Claims::new(values, &|_| Some(Bytes::new())).account(address)
}

/// Hash of a wallet's transaction.
pub fn hash(raw: &Bytes) -> B256 {
    keccak256(raw)
}
