//! `eth_call` and `eth_estimateGas`.

use crate::console;
use crate::node::{Node, ensure_available};
use crate::prepare::{CallRequest, execution_error, prepare};
use alloy_primitives::Bytes;
use corniche_api::RpcError;
use corniche_vm::ExecutionStatus;

/// `eth_call`: returns the output of the call.
pub(crate) fn call(node: &Node, call_request: CallRequest) -> Result<Bytes, RpcError> {
    let prepared = prepare(node, call_request)?;
    let outcome = prepared.vm.call(&*prepared.view, &prepared.env, &prepared.call);
    ensure_available(&*prepared.view)?;
    console::print_call(node, "eth_call", &prepared);
    match outcome.end {
        ExecutionStatus::Success => Ok(outcome.output),
        _ => Err(execution_error(outcome, prepared.call.gas, false)),
    }
}

/// `eth_estimateGas`: returns a gas limit with which the call succeeds.
pub(crate) fn estimate(node: &Node, call_request: CallRequest) -> Result<u64, RpcError> {
    let prepared = prepare(node, call_request)?;
    let estimated = prepared.vm.estimate_gas(&*prepared.view, &prepared.env, &prepared.call);
    ensure_available(&*prepared.view)?;
    estimated.map_err(|none| {
        // A call that succeeds is sent later, and its console output is printed then.
        console::print_call(node, "eth_estimateGas", &prepared);
        execution_error(*none.outcome, none.allowance, true)
    })
}
