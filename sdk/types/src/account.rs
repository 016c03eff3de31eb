//! An account as the state holds it.

use crate::{B256, U256};
use borsh::{BorshDeserialize, BorshSerialize};

/// keccak-256 of nothing: the code hash of an account without code.
pub const KECCAK_EMPTY: B256 = alloy_primitives::KECCAK256_EMPTY;

/// Version of the host interface that code is deployed under now: `vm_hooks`.
pub const ABI_VERSION: u8 = 1;

/// One account. An account that would equal `Account::default()` does not exist (EIP-161).
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Account {
    /// Of its next transaction; of a contract, one more than it has created.
    pub nonce: u64,
    /// Wei.
    pub balance: U256,
    /// keccak-256 of its code; [`KECCAK_EMPTY`] without.
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
    /// Whether it is a contract.
    pub fn has_code(&self) -> bool {
        self.code_hash != KECCAK_EMPTY
    }

    /// Nothing worth storing: such an account does not exist (EIP-161).
    pub fn is_empty(&self) -> bool {
        self.nonce == 0 && self.balance.is_zero() && !self.has_code()
    }

    /// With wei brought in. Supply is bounded by the genesis, so the sum fits; a genesis that hands out more than 2^256 wei saturates.
    #[must_use]
    pub fn credited(self, wei: U256) -> Self {
        Self { balance: self.balance.saturating_add(wei), ..self }
    }
}
