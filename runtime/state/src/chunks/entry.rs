//! An account or a slot in the form of a snapshot. Each entry has exactly one encoding.

use crate::{Account, TreeKey};
use corniche_types::proof::{account_value, value_hash};
use corniche_types::{Address, B256, KECCAK_EMPTY, U256};

const ACCOUNT: u8 = 0;
const SLOT: u8 = 1;
const PLAIN: u8 = 0;
const WITH_CODE: u8 = 1;

/// An account, or a slot with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    Account(Address, Account),
    /// The value is not zero.
    Slot(Address, B256, B256),
}

impl Entry {
    /// Position in the tree.
    pub fn key(&self) -> TreeKey {
        match self {
            Self::Account(address, _) => TreeKey::account(address),
            Self::Slot(address, slot, _) => TreeKey::storage(address, slot),
        }
    }

    pub(super) fn value_hash(&self) -> B256 {
        match self {
            Self::Account(_, account) => value_hash(&account_value(account)),
            Self::Slot(_, _, value) => value_hash(value.as_slice()),
        }
    }

    /// Appends the encoding:
    ///
    /// ```text
    /// 0 ‖ address ‖ nonce ‖ balance ‖ 0                                 an account without code
    /// 0 ‖ address ‖ nonce ‖ balance ‖ 1 ‖ code hash ‖ abi ‖ gas version
    /// 1 ‖ address ‖ slot ‖ value                                        the value is not zero
    /// ```
    ///
    /// Nonce, balance and value are numbers: one byte with the length, then that many bytes, big-endian, without leading zeros.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Account(address, account) => {
                out.push(ACCOUNT);
                out.extend_from_slice(address.as_slice());
                put_number(out, &account.nonce.to_be_bytes());
                put_number(out, &account.balance.to_be_bytes::<32>());
                if is_plain(account) {
                    out.push(PLAIN);
                } else {
                    out.push(WITH_CODE);
                    out.extend_from_slice(account.code_hash.as_slice());
                    out.extend_from_slice(&[account.abi_version, account.gas_version]);
                }
            }
            Self::Slot(address, slot, value) => {
                out.push(SLOT);
                out.extend_from_slice(address.as_slice());
                out.extend_from_slice(slot.as_slice());
                put_number(out, value.as_slice());
            }
        }
    }

    /// Decodes one entry from the front of `bytes`. `None` for anything that [`Self::encode`] does not write.
    pub fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let [kind] = take(bytes)?;
        let address = Address::from(take::<20>(bytes)?);
        match kind {
            ACCOUNT => {
                let nonce = u64::from_be_bytes(take_number(bytes)?);
                let balance = U256::from_be_bytes(take_number::<32>(bytes)?);
                let account = match take(bytes)? {
                    [PLAIN] => Account { nonce, balance, ..Account::default() },
                    [WITH_CODE] => {
                        let code_hash = B256::from(take::<32>(bytes)?);
                        let [abi_version, gas_version] = take(bytes)?;
                        let account = Account { nonce, balance, code_hash, abi_version, gas_version };
                        (!is_plain(&account)).then_some(account)?
                    }
                    _ => return None,
                };
                (!account.is_empty()).then_some(Self::Account(address, account))
            }
            SLOT => {
                let slot = B256::from(take::<32>(bytes)?);
                let value = B256::from(take_number::<32>(bytes)?);
                (!value.is_zero()).then_some(Self::Slot(address, slot, value))
            }
            _ => None,
        }
    }
}

/// True if the fields of the code are those of an account without code.
fn is_plain(account: &Account) -> bool {
    (account.code_hash, account.abi_version, account.gas_version) == (KECCAK_EMPTY, 0, 0)
}

fn put_number(out: &mut Vec<u8>, big_endian: &[u8]) {
    let zeros = big_endian.iter().take_while(|byte| **byte == 0).count();
    let digits = &big_endian[zeros..];
    out.push(u8::try_from(digits.len()).expect("numbers have at most 32 bytes"));
    out.extend_from_slice(digits);
}

fn take_number<const BYTES: usize>(bytes: &mut &[u8]) -> Option<[u8; BYTES]> {
    let [length] = take(bytes)?;
    let (digits, rest) = bytes.split_at_checked(usize::from(length))?;
    *bytes = rest;
    let zeros = BYTES.checked_sub(digits.len())?;
    let mut number = [0; BYTES];
    number[zeros..].copy_from_slice(digits);
    (digits.first() != Some(&0)).then_some(number)
}

fn take<const BYTES: usize>(bytes: &mut &[u8]) -> Option<[u8; BYTES]> {
    let (taken, rest) = bytes.split_first_chunk::<BYTES>()?;
    *bytes = rest;
    Some(*taken)
}
