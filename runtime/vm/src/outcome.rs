//! Results of transactions and calls.

use crate::block_reads::BlockReads;
use crate::host::{Exit, ExitStatus, Trap};
use alloy_primitives::{Address, B256, Bytes, U256};
use corniche_state::{Additions, Changes};
use corniche_types::{Log, Receipt, SkipReason};

/// A valid transaction: it paid its fee, and succeeded or failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executed {
    /// `cumulative_gas_used` is 0; the block sets it.
    pub receipt: Receipt,
    pub changes: Changes,
    /// Additions to values that the transaction has not read, so that are not in `changes`: payments, the tip, counters.
    pub additions: Additions,
    /// Fields of the block that the result depends on.
    pub block_reads: BlockReads,
}

impl Executed {
    /// Returns the changed accounts, including unread ones.
    #[cfg(test)]
    pub fn touched(&self) -> std::collections::BTreeSet<Address> {
        self.changes.accounts.keys().chain(self.additions.balances.keys()).copied().collect()
    }
}

/// Why a transaction has no receipt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotExecuted {
    /// It is not valid in this state. Nothing changed.
    Skipped(SkipReason),
    /// A fault of this node: stop.
    Fault(Fault),
    /// The view was interrupted ([`corniche_state::StateView::interrupted`]): run it again.
    Interrupted,
}

/// A broken invariant of the node. No contract, client or peer can cause one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("fault while executing: {0}")]
pub struct Fault(pub String);

impl Fault {
    /// Not a real fault: the view was interrupted, so the result is not used
    /// ([`corniche_state::StateView::interrupted`]).
    pub(crate) fn interruption() -> Self {
        Self("interrupted".into())
    }

    pub fn is_interruption(&self) -> bool {
        self.0 == "interrupted"
    }
}

/// A call for `eth_call` and `eth_estimateGas`. It has no signature, and nonce and sender are not checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    pub from: Address,
    /// `None` for a creation.
    pub to: Option<Address>,
    pub value: U256,
    pub input: Bytes,
    /// Gas limit.
    pub gas: u64,
    /// Gas price that `from` pays and contracts read.
    pub gas_price: u128,
    /// Maximum gas price. The balance must cover it, although `from` pays `gas_price`; ignored if lower than that.
    pub max_gas_price: u128,
    pub access_list: Vec<(Address, Vec<B256>)>,
}

/// Error of an estimate: no gas limit suffices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EstimateError {
    /// Result with the maximum gas.
    pub outcome: Box<CallOutcome>,
    /// The maximum gas: the minimum of the requested gas, the block's limit and what the sender can pay for.
    pub allowance: u64,
}

/// Result of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallOutcome {
    pub end: ExecutionStatus,
    /// Return or revert data.
    pub output: Bytes,
    pub gas_used: u64,
    pub logs: Vec<Log>,
    /// Only for a creation.
    pub contract_address: Option<Address>,
}

impl Call {
    /// Gas price that the sender's balance must cover.
    pub(crate) fn named_price(&self) -> u128 {
        self.gas_price.max(self.max_gas_price)
    }
}

impl CallOutcome {
    pub fn success(&self) -> bool {
        self.end == ExecutionStatus::Success
    }

    pub(crate) fn before_running(end: ExecutionStatus) -> Self {
        Self { end, output: Bytes::new(), gas_used: 0, logs: Vec::new(), contract_address: None }
    }
}

/// Maximum length in bytes of base, exponent and modulus (EIP-7823).
pub(crate) const MAX_NUMBER_BYTES: usize = 1_024;

/// Why a precompile rejected its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrecompileError {
    #[error("invalid input length")]
    Length,
    #[error("invalid final flag")]
    FinalFlag,
    #[error("bn254: coordinate exceeds modulus")]
    Coordinate,
    #[error("bn254: malformed point")]
    Point,
    #[error("bad elliptic curve pairing size")]
    PairingLength,
    #[error("one or more of base/exponent/modulus length exceeded {} bytes", MAX_NUMBER_BYTES)]
    NumberLength,
}

/// How execution ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecutionStatus {
    Success,
    /// The contract reverted with data; unused gas was returned.
    Revert,
    OutOfGas,
    Trap(Trap),
    /// A precompile rejected its input.
    Precompile(PrecompileError),
    /// The creation data is not deployable; contains the reason.
    Refused(String),
    /// Two contracts would have the same address (EIP-684).
    Collision,
    /// Checks before execution failed; calls only.
    Invalid(SkipReason),
    /// A fault of this node, not of the contract: never part of a receipt.
    Fault(Fault),
}

impl ExecutionStatus {
    /// Returns a readable reason, if there is no revert data to show.
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

/// How a frame ended, within a transaction.
#[derive(Clone, Debug)]
pub(crate) struct FrameOutcome {
    pub end: ExecutionStatus,
    pub output: Bytes,
    pub gas_left: u64,
}

impl FrameOutcome {
    pub fn success(gas_left: u64) -> Self {
        Self { end: ExecutionStatus::Success, output: Bytes::new(), gas_left }
    }

    /// Without output; `gas_left` as given.
    pub fn failed(end: ExecutionStatus, gas_left: u64) -> Self {
        Self { end, output: Bytes::new(), gas_left }
    }
}

impl From<Exit> for FrameOutcome {
    fn from(exit: Exit) -> Self {
        let end = match exit.status {
            ExitStatus::Return => ExecutionStatus::Success,
            ExitStatus::Revert => ExecutionStatus::Revert,
            ExitStatus::OutOfGas => ExecutionStatus::OutOfGas,
            ExitStatus::Trap(trap) => ExecutionStatus::Trap(trap),
            ExitStatus::Fault(text) => ExecutionStatus::Fault(Fault(text)),
        };
        match end {
            ExecutionStatus::Success | ExecutionStatus::Revert => Self { end, output: exit.output, gas_left: exit.gas_left },
            _ => Self::failed(end, 0),
        }
    }
}
