//! Interface of the rules of state to a machine that runs code. The WebAssembly engine implements it; tests of the
//! rules use scripts instead.

use crate::host::{Entry, Exit, Host};
use crate::outcome::ExecutionStatus;
use alloy_primitives::{B256, Bytes};
use corniche_state::AccountCode;
use corniche_types::StakingParameters;

/// Loads code on demand; `None` is a broken invariant.
pub(crate) type Code<'c> = &'c dyn Fn() -> Option<Bytes>;

pub(crate) trait Machine: Send + Sync {
    /// Runs the code of an account. `code` loads it if the machine does not have it.
    fn run(&self, account: AccountCode, code: Code<'_>, host: &mut dyn Host, entry: Entry) -> Exit;

    /// Decodes creation data and validates its code by the rules of `gas_version`, within `gas`.
    fn prepare(&self, data: &Bytes, gas: u64, gas_version: u8) -> Prepared;

    /// Parameters of the staking contract; `None` if the chain has none.
    fn staking(&self) -> Option<&StakingParameters>;

    /// Returns a permit to run something outside of blocks, held until it is dropped; `None` if too much is running.
    fn call_permit(&self) -> Option<Box<dyn Send>> {
        Some(Box::new(()))
    }
}

/// Result of decoding creation data.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    /// Cost of decoding, validating and compiling, charged in any case. If it exceeds the offered gas, nothing was
    /// validated.
    pub gas: u64,
    /// An error is `Refused`, or a `Fault` of this node.
    pub contract: Result<Deployment, ExecutionStatus>,
}

/// A contract to store.
#[derive(Clone, Debug)]
pub(crate) struct Deployment {
    /// Exactly as sent.
    pub code: Bytes,
    pub code_hash: B256,
    pub abi_version: u8,
    pub gas_version: u8,
    /// Input of the constructor's call; `None` if no constructor runs.
    pub constructor_input: Option<Bytes>,
}
