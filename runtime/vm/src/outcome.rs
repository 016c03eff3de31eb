//! What comes of a transaction or a call.

use crate::block_reads::BlockReads;
use crate::host::{Exit, ExitStatus, Trap};
use crate::precompile::PrecompileError;
use alloy_primitives::{Address, B256, Bytes, U256};
use corniche_state::{Additions, Changes};
use corniche_types::{Log, Receipt, SkipReason};

/// A transaction that was valid: it paid, whether or not it succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executed {
    /// `cumulative_gas_used` is left at 0 for the block to fill in.
    pub receipt: Receipt,
    pub changes: Changes,
    /// To values that are not in `changes`: the tip, unless the transaction dealt with whoever gets it.
    pub additions: Additions,
    /// What of the block it depends on.
    pub block_reads: BlockReads,
}

impl Executed {
    /// The accounts it changed, whether or not it read them.
    #[cfg(test)]
    pub fn touched(&self) -> std::collections::BTreeSet<Address> {
        self.changes.accounts.keys().chain(self.additions.balances.keys()).copied().collect()
    }
}

/// Why a transaction has no receipt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotExecuted {
    /// It is not valid in this state. Nothing happened.
    Skipped(SkipReason),
    /// A fault of this node: stop.
    Fault(Fault),
    /// The view took an answer back ([`corniche_state::StateView::interrupted`]): run it again.
    Interrupted,
}

/// A broken invariant of our own, named; nothing a contract, client or peer does may cause one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("fault while executing: {0}")]
pub struct Fault(pub String);

impl Fault {
    /// No fault at all: whoever lent the view wants no result ([`corniche_state::StateView::interrupted`]).
    pub(crate) fn interruption() -> Self {
        Self("interrupted".into())
    }

    pub fn is_interruption(&self) -> bool {
        self.0 == "interrupted"
    }
}

/// A call to be tried out, as `eth_call` and `eth_estimateGas` mean it. Nothing is signed, and nonce and sender are taken as given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    pub from: Address,
    /// `None` is a creation.
    pub to: Option<Address>,
    pub value: U256,
    pub input: Bytes,
    /// The most gas it may use.
    pub gas: u64,
    /// What gas costs `from`, and what contracts see as gas price.
    pub gas_price: u128,
    /// The most that `from` would pay for gas. It must be able to, though it pays `gas_price`; nothing below that counts.
    pub max_gas_price: u128,
    pub access_list: Vec<(Address, Vec<B256>)>,
}

/// No gas limit would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoEstimate {
    /// How the call ended with all the gas there could be.
    pub outcome: Box<CallOutcome>,
    /// So much it was: the least of what was asked for, what a block may use and what the sender can pay.
    pub allowance: u64,
}

/// How a call went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallOutcome {
    pub end: End,
    /// Return or revert data.
    pub output: Bytes,
    pub gas_used: u64,
    pub logs: Vec<Log>,
    /// Of a creation.
    pub contract_address: Option<Address>,
}

impl Call {
    /// What the sender's balance has to cover for each gas.
    pub(crate) fn named_price(&self) -> u128 {
        self.gas_price.max(self.max_gas_price)
    }
}

impl CallOutcome {
    pub fn success(&self) -> bool {
        self.end == End::Success
    }

    pub(crate) fn before_running(end: End) -> Self {
        Self { end, output: Bytes::new(), gas_used: 0, logs: Vec::new(), contract_address: None }
    }
}

/// How running ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    Success,
    /// By the contract, with data; unused gas came back.
    Revert,
    OutOfGas,
    Trap(Trap),
    /// A precompile could make nothing of its input.
    Precompile(PrecompileError),
    /// The creation data is nothing this chain deploys; says why.
    Refused(String),
    /// Two contracts would have the same address (EIP-684).
    Collision,
    /// Checks before running failed: calls only.
    Invalid(SkipReason),
    /// A fault of this node, not of the contract: never part of a receipt.
    Fault(Fault),
}

impl End {
    /// For people, where there is no revert data to show.
    pub fn reason(&self) -> Option<String> {
        match self {
            Self::Success | Self::Revert => None,
            Self::OutOfGas => Some("out of gas".into()),
            Self::Trap(trap) => Some(format!("contract trapped: {trap}")),
            Self::Precompile(error) => Some(format!("precompile: {error}")),
            Self::Refused(reason) => Some(reason.clone()),
            Self::Collision => Some("contract address collision".into()),
            Self::Invalid(reason) => Some(format!("invalid: {reason:?}")),
            Self::Fault(fault) => Some(fault.to_string()),
        }
    }
}

/// How one frame ended, inside a transaction.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub end: End,
    pub output: Bytes,
    pub gas_left: u64,
}

impl Ended {
    pub fn success(gas_left: u64) -> Self {
        Self { end: End::Success, output: Bytes::new(), gas_left }
    }

    /// Without output; `gas_left` as given.
    pub fn failed(end: End, gas_left: u64) -> Self {
        Self { end, output: Bytes::new(), gas_left }
    }
}

impl From<Exit> for Ended {
    fn from(exit: Exit) -> Self {
        let end = match exit.status {
            ExitStatus::Return => End::Success,
            ExitStatus::Revert => End::Revert,
            ExitStatus::OutOfGas => End::OutOfGas,
            ExitStatus::Trap(trap) => End::Trap(trap),
            ExitStatus::Fault(text) => End::Fault(Fault(text)),
        };
        match end {
            End::Success | End::Revert => Self { end, output: exit.output, gas_left: exit.gas_left },
            _ => Self::failed(end, 0),
        }
    }
}
