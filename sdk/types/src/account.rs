//! Accounts in the state.

use crate::{B256, U256};
use borsh::{BorshDeserialize, BorshSerialize};

/// keccak-256 of the empty string: the code hash of an account without code.
pub const KECCAK_EMPTY: B256 = alloy_primitives::KECCAK256_EMPTY;

/// Version of the host interface for newly deployed code: `vm_hooks`.
pub const ABI_VERSION: u8 = 1;

/// One account. An account equal to `Account::default()` does not exist (EIP-161).
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Account {
    /// Nonce of the next transaction; for a contract, one more than its number of creations.
    pub nonce: u64,
    /// Balance in wei.
    pub balance: U256,
    /// keccak-256 of the code; [`KECCAK_EMPTY`] without code.
    pub code_hash: B256,
    /// Version of the host interface the code was deployed under; 0 without code, 1 is `vm_hooks`.
    pub abi_version: u8,
    /// Version of the gas table and instrumentation that the code was validated under
    /// ([`ProtocolRules::gas_version`](crate::ProtocolRules)); 0 without code.
    pub gas_version: u8,
}

impl Default for Account {
    fn default() -> Self {
        Self { nonce: 0, balance: U256::ZERO, code_hash: KECCAK_EMPTY, abi_version: 0, gas_version: 0 }
    }
}

impl Account {
    /// Returns whether the account is a contract.
    pub fn has_code(&self) -> bool {
        self.code_hash != KECCAK_EMPTY
    }

    /// Returns whether nonce, balance and code are empty: such an account does not exist (EIP-161).
    pub fn is_empty(&self) -> bool {
        self.nonce == 0 && self.balance.is_zero() && !self.has_code()
    }

    /// Returns the account with wei added. The genesis bounds the supply, so the sum fits; if a genesis distributes
    /// more than 2^256 wei, it saturates.
    #[must_use]
    pub fn credited(self, wei: U256) -> Self {
        Self { balance: self.balance.saturating_add(wei), ..self }
    }
}
