//! Calls of the contract.
//!
//! The virtual machine charges [`extra_gas`] first, then moves the value, and then runs [`call`], whose slots cost what
//! storage costs. At the end it pays [`Output::pay`]. After an error it reverts everything. Calls that delegate never get here.
//!
//! A revert without data: input outside the [interface](crate::interface) or above 2,048 bytes, or value for a non-payable
//! function. Static calls of functions that write revert in the same way.

mod view;
mod write;

use crate::{
    Slots,
    interface::Staking::{self, StakingCalls},
};
use alloy_primitives::{Address, Bytes, LogData, U256};
use alloy_sol_types::{SolCall, SolError, SolInterface};
use corniche_types::StakingParameters;

/// Maximum bytes of a call's input. The longest call with keys, `register`, has 836.
const MAX_INPUT_BYTES: usize = 2_048;

/// A call, with its value already moved to the contract.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The calling account.
    pub sender: Address,
    /// Value in wei.
    pub value: U256,
    /// Encoded function and arguments.
    pub input: &'a [u8],
    /// True if nothing may be written.
    pub is_static: bool,
}

/// The chain on which a call runs.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Chain id; part of the proofs of keys.
    pub chain_id: u64,
    /// Parameters of the genesis.
    pub parameters: &'a StakingParameters,
}

/// Result of a call that succeeded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Encoded results.
    pub data: Bytes,
    /// Events, for receipts.
    pub logs: Vec<LogData>,
    /// Amount in wei that the contract's balance pays to an account, above 0.
    pub pay: Option<(Address, U256)>,
    /// Amount in wei to burn from the contract's balance.
    pub burn: U256,
}

/// Why a call failed. Its writes must not take effect.
#[derive(Debug, PartialEq, Eq)]
pub enum CallError<E> {
    /// The contract refuses the call, with this output.
    Revert(Bytes),
    /// A slot was not accessible.
    Slots(E),
}

impl<E> From<E> for CallError<E> {
    fn from(error: E) -> Self {
        Self::Slots(error)
    }
}

/// Kind of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    View,
    Write,
    CheckKeys,
    CheckEvidence,
}

impl Kind {
    /// Returns the kind of the function that an input calls. Input outside the interface counts as a view.
    fn from_input(input: &[u8]) -> Self {
        use Staking::*;
        let Some(selector) = input.first_chunk::<4>() else { return Self::View };
        match *selector {
            registerCall::SELECTOR | rotateCall::SELECTOR => Self::CheckKeys,
            reportCall::SELECTOR => Self::CheckEvidence,
            addCall::SELECTOR
            | unbondCall::SELECTOR
            | withdrawCall::SELECTOR
            | setEndpointsCall::SELECTOR
            | setFeeCall::SELECTOR
            | setOperatorCall::SELECTOR
            | transferOwnershipCall::SELECTOR
            | acceptOwnershipCall::SELECTOR => Self::Write,
            _ => Self::View,
        }
    }
}

/// Returns the gas of a call beside that of its slots. It depends on the function alone, so it is the same whether
/// signatures hold or not.
pub fn extra_gas(input: &[u8]) -> u64 {
    match Kind::from_input(input) {
        Kind::View => 2_000,
        Kind::Write => 5_000,
        // Two ed25519 signatures and one of BLS, with checks of the points.
        Kind::CheckKeys => 400_000,
        // Two signatures of ed25519 or BLS, with checks of the points.
        Kind::CheckEvidence => 300_000,
    }
}

/// Runs a call.
pub fn call<S: Slots>(slots: &mut S, call: &Call<'_>, context: &Context<'_>) -> Result<Output, CallError<S::Error>> {
    if call.input.len() > MAX_INPUT_BYTES {
        return Err(empty_revert());
    }
    let Ok(decoded) = StakingCalls::abi_decode_validate(call.input) else { return Err(empty_revert()) };
    let is_payable = matches!(decoded, StakingCalls::register(_) | StakingCalls::add(_));
    if !is_payable && !call.value.is_zero() {
        return Err(empty_revert());
    }
    if Kind::from_input(call.input) == Kind::View {
        let data = view::view(slots, &decoded, context.parameters)?.into();
        return Ok(Output { data, ..Output::default() });
    }
    if call.is_static {
        return Err(empty_revert());
    }
    if context.parameters.never_ends() {
        return Err(revert(Staking::EpochsNeverEnd {}));
    }
    write::write(slots, decoded, call, context)
}

pub(crate) fn revert<E>(error: impl SolError) -> CallError<E> {
    CallError::Revert(error.abi_encode().into())
}

fn empty_revert<E>() -> CallError<E> {
    CallError::Revert(Bytes::new())
}
