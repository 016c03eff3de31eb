//! What the rules of state need of whatever runs code. The WebAssembly engine implements it; tests of the rules put
//! scripts in its place.

use crate::host::{Exit, Host};
use crate::outcome::End;
use crate::wasm::Entry;
use alloy_primitives::{B256, Bytes};
use corniche_state::Account;

/// Code, when it is needed; `None` is a broken invariant.
pub(crate) type Code<'c> = &'c dyn Fn() -> Option<Bytes>;

pub(crate) trait Machine: Send + Sync {
    /// Runs the code of `account`; the code's hash is the account's. `code` finds it, for a machine that does not have it ready.
    fn run(&self, account: &Account, code: Code<'_>, host: &mut dyn Host, entry: Entry) -> Exit;

    /// Reads creation data and checks the code in it by the rules of `gas_version`, within `gas`.
    fn prepare(&self, data: &Bytes, gas: u64, gas_version: u8) -> Prepared;

    /// The right to run something that is not part of a block, until it is dropped. `None`: too much runs already.
    fn call_permit(&self) -> Option<Box<dyn Send>> {
        Some(Box::new(()))
    }
}

/// What creation data holds.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    /// For reading, checking and compiling; charged whether or not it is accepted. Above the gas offered: out of gas, and
    /// nothing was checked.
    pub gas: u64,
    /// Otherwise `Refused`, or a `Fault` of this node.
    pub contract: Result<Deployment, End>,
}

/// A contract as it is to be stored.
#[derive(Clone, Debug)]
pub(crate) struct Deployment {
    /// Exactly as sent.
    pub code: Bytes,
    pub code_hash: B256,
    pub abi_version: u8,
    pub gas_version: u8,
    /// What to call the new contract with; `None` when nothing is to run.
    pub constructor_input: Option<Bytes>,
}
