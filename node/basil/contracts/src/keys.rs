//! The state as keys and values of shards.

use borsh::{BorshDeserialize, BorshSerialize};
use corniche_basil::shards::Key;
use corniche_basil::transaction::Value;
use corniche_state::{AccountCode, Changes};
use corniche_types::{Account, Address, B256, Bytes, KECCAK_EMPTY, U256};
use std::collections::BTreeMap;

/// Nonce and balance.
const BALANCE: &[u8] = b"b";
/// Hash and versions of the code.
const CODE_NAME: &[u8] = b"c";
/// Prefix of the code's bytes.
const CODE: &[u8] = b"code";
/// Prefix of a storage slot.
const SLOT: &[u8] = b"s";

/// Content of [`balance_key`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
struct Balance {
    nonce: u64,
    balance: U256,
}

/// Content of [`code_name_key`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
struct CodeName {
    hash: B256,
    abi_version: u8,
    gas_version: u8,
}

/// Nonce and balance of an account.
pub fn balance_key(account: Address) -> Key {
    Key { account, item: Bytes::from_static(BALANCE) }
}

/// Name of an account's code.
pub fn code_name_key(account: Address) -> Key {
    Key { account, item: Bytes::from_static(CODE_NAME) }
}

/// A storage slot.
pub fn slot_key(account: Address, slot: &B256) -> Key {
    Key { account, item: [SLOT, slot.as_slice()].concat().into() }
}

/// Code by its hash. The first 20 bytes of the hash select the shard.
pub fn code_key(hash: &B256) -> Key {
    Key { account: Address::from_slice(&hash[..20]), item: [CODE, hash.as_slice()].concat().into() }
}

fn encode<T: BorshSerialize>(content: &T) -> Value {
    Some(borsh::to_vec(content).expect("writing into memory cannot fail").into())
}

/// Decodes a value; `None` if it is missing or not in this format. Only a false claim has another format.
fn decode<T: BorshDeserialize>(value: &Value) -> Option<T> {
    borsh::from_slice(value.as_ref()?).ok()
}

/// The account of its two values; `None` if it does not exist.
pub fn account(balance: &Value, code_name: &Value) -> Option<Account> {
    let Balance { nonce, balance } = decode(balance).unwrap_or_default();
    let AccountCode { hash, abi_version, gas_version } = code(code_name);
    let account = Account { nonce, balance, code_hash: hash, abi_version, gas_version };
    (!account.is_empty()).then_some(account)
}

/// The code name; that of an account without code if there is none.
pub fn code(code_name: &Value) -> AccountCode {
    decode(code_name).map_or(AccountCode::of(None), |CodeName { hash, abi_version, gas_version }| AccountCode {
        hash,
        abi_version,
        gas_version,
    })
}

/// The content of a slot.
pub fn slot(value: &Value) -> B256 {
    value.as_ref().and_then(|value| B256::try_from(value.as_ref()).ok()).unwrap_or_default()
}

/// Values of an account.
fn account_values(account: Option<&Account>) -> [Value; 2] {
    let account = account.cloned().unwrap_or_default();
    let Account { nonce, balance, code_hash: hash, abi_version, gas_version } = account;
    let has_balance = nonce != 0 || !balance.is_zero();
    let has_code = hash != KECCAK_EMPTY;
    [
        has_balance.then(|| encode(&Balance { nonce, balance })).flatten(),
        has_code.then(|| encode(&CodeName { hash, abi_version, gas_version })).flatten(),
    ]
}

/// All values that changes give to keys.
pub fn values(changes: &Changes) -> BTreeMap<Key, Value> {
    let mut values = BTreeMap::new();
    for (address, account) in &changes.accounts {
        let [balance, code_name] = account_values(account.as_ref());
        values.insert(balance_key(*address), balance);
        values.insert(code_name_key(*address), code_name);
    }
    for ((address, slot), value) in &changes.storage {
        let value = (!value.is_zero()).then(|| Bytes::copy_from_slice(value.as_slice()));
        values.insert(slot_key(*address, slot), value);
    }
    for (hash, code) in &changes.code {
        values.insert(code_key(hash), Some(code.clone()));
    }
    values
}
