//! A transaction as far as its author cares; the client fills in the rest.

use corniche_types::{Address, Bytes, TxKind, U256};

/// What a transaction should do. `None` means "fill this in from the node's answers".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// An account, or the creation of a contract.
    pub to: TxKind,
    /// Wei that go with it.
    pub value: U256,
    /// A call's selector and arguments, or a creation's data.
    pub input: Bytes,
    /// How many transactions of the sender's came before; `None`: after all that the node knows of.
    pub nonce: Option<u64>,
    /// `None`: as much as the node estimates.
    pub gas_limit: Option<u64>,
    /// Wei per gas, tip included. `None`: see [`Client::fees`](crate::Client::fees).
    pub max_fee_per_gas: Option<u128>,
    /// Wei per gas for whoever proposes it. `None`: what the node suggests.
    pub max_priority_fee_per_gas: Option<u128>,
}

impl Draft {
    /// Value to an account.
    pub fn transfer(to: Address, value: U256) -> Self {
        Self { value, ..Self::call(to, Bytes::new()) }
    }

    /// A call of a contract.
    pub fn call(to: Address, input: impl Into<Bytes>) -> Self {
        Self::new(TxKind::Call(to), input.into())
    }

    /// The creation of a contract from creation data.
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
