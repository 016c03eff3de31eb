//! The state as keys and values of shards.

use borsh::{BorshDeserialize, BorshSerialize};
use corniche_basil::shards::Key;
use corniche_basil::transaction::{Value, Write};
use corniche_state::{AccountCode, Changes, StateView};
use corniche_types::{Account, Address, B256, Bytes, KECCAK_EMPTY, U256};
use std::collections::{BTreeMap, BTreeSet};

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

/// The hash in a [`code_key`]; `None` for other keys.
pub fn code_hash(key: &Key) -> Option<B256> {
    let hash = B256::try_from(key.item.strip_prefix(CODE)?).ok()?;
    (*key == code_key(&hash)).then_some(hash)
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

/// Hashes of the code that code names among these values name.
pub fn codes<'a>(values: impl Iterator<Item = (&'a Key, &'a Value)>) -> BTreeSet<B256> {
    let names = values.filter(|(key, _)| *key.item == *CODE_NAME).map(|(_, value)| code(value));
    names.filter(AccountCode::is_contract).map(|name| name.hash).collect()
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

/// Changes that writes make to a state: the inverse of [`values`]. Keys in another format change nothing.
pub fn changes(writes: &[Write], view: &dyn StateView) -> Changes {
    let mut changes = Changes::default();
    for Write { key, value } in writes {
        let address = key.account;
        let item = key.item.as_ref();
        if item == BALANCE || item == CODE_NAME {
            let current = || view.account(&address).unwrap_or_default();
            let mut account = changes.accounts.remove(&address).map_or_else(current, Option::unwrap_or_default);
            if item == BALANCE {
                let Balance { nonce, balance } = decode(value).unwrap_or_default();
                (account.nonce, account.balance) = (nonce, balance);
            } else {
                let AccountCode { hash, abi_version, gas_version } = code(value);
                (account.code_hash, account.abi_version, account.gas_version) = (hash, abi_version, gas_version);
            }
            changes.accounts.insert(address, (!account.is_empty()).then_some(account));
        } else if let Some(hash) = code_hash(key) {
            changes.code.extend(value.clone().map(|code| (hash, code)));
        } else if let Some(slot) = item.strip_prefix(SLOT).and_then(|slot| B256::try_from(slot).ok()) {
            changes.storage.insert((address, slot), self::slot(value));
        }
    }
    changes
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

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_state::{EmptyState, Overlay};

    #[test]
    fn changes_of_writes_are_those_that_made_them() {
        let [plain, contract, deleted] = [1, 2, 3].map(Address::with_last_byte);
        let code = Bytes::from_static(b"code");
        let hash = corniche_types::keccak256(&code);
        let account = |nonce, balance: u64| Account { nonce, balance: U256::from(balance), ..Account::default() };
        let with_code = Account { code_hash: hash, abi_version: 3, gas_version: 2, ..account(1, 0) };
        let made = Changes {
            accounts: [(plain, Some(account(7, 9))), (contract, Some(with_code.clone())), (deleted, None)].into(),
            storage: [
                ((contract, B256::with_last_byte(1)), B256::with_last_byte(8)),
                ((contract, B256::with_last_byte(2)), B256::ZERO),
            ]
            .into(),
            code: [(hash, code)].into(),
        };
        let writes =
            |values: BTreeMap<Key, Value>| -> Vec<_> { values.into_iter().map(|(key, value)| Write { key, value }).collect() };
        let before = Changes { accounts: [(deleted, Some(account(1, 1)))].into(), ..Changes::default() };
        let base = Overlay { base: &EmptyState, changes: &before };
        assert_eq!(changes(&writes(values(&made)), &base), made);
        // One of an account's two values leaves the other one as it is.
        let only = [Write { key: balance_key(contract), value: encode(&Balance { nonce: 2, balance: U256::from(5) }) }];
        let found = changes(&only, &Overlay { base: &base, changes: &made });
        let expected = Account { nonce: 2, balance: U256::from(5), ..with_code };
        assert_eq!(found.accounts, [(contract, Some(expected))].into());
        let foreign = Write { key: Key { account: plain, item: Bytes::from_static(b"x") }, value: None };
        assert_eq!(changes(&[foreign], &base), Changes::default());
    }
}
