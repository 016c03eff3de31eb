//! An unsigned transaction; the client fills in the missing fields.

use corniche_types::{Address, Bytes, TxKind, U256};

/// An unsigned transaction. The client asks the node for fields that are `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// Recipient, or the creation of a contract.
    pub to: TxKind,
    /// Value in wei.
    pub value: U256,
    /// Calldata, or the init data of a creation.
    pub input: Bytes,
    /// Nonce; `None` for the next one after all transactions that the node knows.
    pub nonce: Option<u64>,
    /// Gas limit; `None` for the node's estimate.
    pub gas_limit: Option<u64>,
    /// Max fee in wei per gas, tip included. `None`: see [`Client::fees`](crate::Client::fees).
    pub max_fee_per_gas: Option<u128>,
    /// Max priority fee in wei per gas, for the proposer. `None` for the node's suggestion.
    pub max_priority_fee_per_gas: Option<u128>,
}

impl Draft {
    /// Transfers value to an account.
    pub fn transfer(to: Address, value: U256) -> Self {
        Self { value, ..Self::call(to, Bytes::new()) }
    }

    /// Calls a contract.
    pub fn call(to: Address, input: impl Into<Bytes>) -> Self {
        Self::new(TxKind::Call(to), input.into())
    }

    /// Creates a contract from init data.
    pub fn create(input: impl Into<Bytes>) -> Self {
        Self::new(TxKind::Create, input.into())
    }

    fn new(to: TxKind, input: Bytes) -> Self {
        Self {
            to,
            value: U256::ZERO,
            input,
            nonce: None,
            gas_limit: None,
            max_fee_per_gas: None,
            max_priority_fee_per_gas: None,
        }
    }
}
