//! What can be read of a state.

use borsh::{BorshDeserialize, BorshSerialize};
use corniche_types::{Address, B256, Bytes, U256};

/// keccak-256 of nothing: the code hash of an account without code.
pub const KECCAK_EMPTY: B256 = alloy_primitives::KECCAK256_EMPTY;

/// One account. An account that would equal `Account::default()` does not exist (EIP-161).
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Account {
    pub nonce: u64,
    /// Wei.
    pub balance: U256,
    pub code_hash: B256,
    /// Version of the host interface the code was deployed under; 0 without code, 1 is `vm_hooks`.
    pub abi_version: u8,
    /// Version of the gas table the code was deployed under; 0 without code.
    pub gas_version: u8,
}

impl Default for Account {
    fn default() -> Self {
        Self { nonce: 0, balance: U256::ZERO, code_hash: KECCAK_EMPTY, abi_version: 0, gas_version: 0 }
    }
}

impl Account {
    pub fn has_code(&self) -> bool {
        self.code_hash != KECCAK_EMPTY
    }
}

/// A state that can be read. Implementations answer from memory, always, and never change under the reader.
pub trait StateView: Send + Sync {
    /// `None` when the account does not exist.
    fn account(&self, address: &Address) -> Option<Account>;
    /// Zero when never written.
    fn storage(&self, address: &Address, slot: &B256) -> B256;
    /// Code by its keccak-256 hash.
    fn code(&self, hash: &B256) -> Option<Bytes>;
}
