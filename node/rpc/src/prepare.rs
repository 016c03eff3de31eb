//! Turns a client's request into a run of the virtual machine, and a failed run into an error.

use crate::node::Node;
use crate::overrides::{OverriddenState, override_block};
use alloy_eips::{BlockId, BlockNumberOrTag};
use alloy_primitives::TxKind;
use alloy_rpc_types_eth::state::StateOverride;
use alloy_rpc_types_eth::{BlockOverrides, TransactionRequest};
use corniche_api::{ErrorCode, Reason, RpcError};
use corniche_state::StateView;
use corniche_types::{Header, Height};
use corniche_vm::{BlockEnv, Call, CallOutcome, ExecutionStatus, Vm};
use std::sync::Arc;

/// Call requested by a client, with its overrides.
pub(crate) struct CallRequest {
    pub request: TransactionRequest,
    pub block: BlockId,
    pub overrides: Option<StateOverride>,
    pub block_overrides: Option<BlockOverrides>,
}

/// Call that is ready to run.
pub(crate) struct PreparedCall {
    /// Contains the overridden code.
    pub vm: Vm,
    pub view: Arc<dyn StateView>,
    pub env: BlockEnv,
    pub call: Call,
}

pub(crate) fn prepare(node: &Node, call_request: CallRequest) -> Result<PreparedCall, RpcError> {
    let (height, state) = node.state(call_request.block)?;
    let mut env = block_env(node, &node.header_at(height)?);
    if call_request.block == BlockId::Number(BlockNumberOrTag::Pending) {
        env.number += 1;
        env.rules = node.backend.rules(Height(env.number));
        env.base_fee = node.backend.next_base_fee();
    }
    if let Some(overrides) = &call_request.block_overrides {
        override_block(&mut env, overrides)?;
    }
    let mut call = to_call(node, call_request.request, env.base_fee)?;
    if call.max_gas_price == 0 && call_request.block_overrides.is_none_or(|overrides| overrides.base_fee.is_none()) {
        // As in geth: without a gas price the base fee reads as 0, unless the client overrides it.
        env.base_fee = 0;
    }
    let (mut vm, mut gas) = (node.backend.vm().clone(), node.config.call_gas_cap);
    let view: Arc<dyn StateView> = match call_request.overrides {
        Some(overrides) if !overrides.is_empty() => {
            Arc::new(OverriddenState::new(state, env.rules, overrides, &mut vm, &mut gas)?)
        }
        _ => state,
    };
    call.gas = call.gas.min(gas);
    Ok(PreparedCall { vm, view, env, call })
}

/// Block environment as the block's transactions saw it.
pub(crate) fn block_env(node: &Node, header: &Header) -> BlockEnv {
    BlockEnv {
        rules: node.backend.rules(Height(header.number)),
        chain_id: node.backend.chain_id(),
        number: header.number,
        timestamp: header.timestamp,
        base_fee: header.base_fee_per_gas.unwrap_or_default(),
        coinbase: header.beneficiary,
        gas_limit: header.gas_limit,
        randomness: header.mix_hash,
    }
}

pub(crate) fn to_call(node: &Node, request: TransactionRequest, base_fee: u64) -> Result<Call, RpcError> {
    if let (Some(input), Some(data)) = (&request.input.input, &request.input.data)
        && input != data
    {
        return Err(RpcError::invalid_params(
            "both \"data\" and \"input\" are set and not equal. Please use \"input\" to pass transaction call data",
        ));
    }
    if request.blob_versioned_hashes.is_some() || request.max_fee_per_blob_gas.is_some() || request.authorization_list.is_some()
    {
        return Err(Reason::TypeNotSupported.error());
    }
    let chain_id = node.backend.chain_id();
    if let Some(requested) = request.chain_id.filter(|requested| *requested != chain_id) {
        return Err(RpcError::invalid_params(format!("chainId does not match node's (have={requested}, want={chain_id})")));
    }
    let (gas_price, max_gas_price) = gas_prices(&request, base_fee)?;
    Ok(Call {
        gas_price,
        max_gas_price,
        from: request.from.unwrap_or_default(),
        to: match request.to {
            Some(TxKind::Call(to)) => Some(to),
            Some(TxKind::Create) | None => None,
        },
        value: request.value.unwrap_or_default(),
        gas: request.gas.unwrap_or(u64::MAX).min(node.config.call_gas_cap),
        access_list: request
            .access_list
            .unwrap_or_default()
            .0
            .into_iter()
            .map(|item| (item.address, item.storage_keys))
            .collect(),
        input: request.input.into_input().unwrap_or_default(),
    })
}

/// Returns what the sender pays and its maximum fee, in wei per gas. Both are 0 if the request has no price;
/// then the sender needs no balance. As in geth, a given price must be high enough for the block.
fn gas_prices(request: &TransactionRequest, base_fee: u64) -> Result<(u128, u128), RpcError> {
    let (fee_cap, tip) = match (request.gas_price, request.max_fee_per_gas, request.max_priority_fee_per_gas) {
        (None, fee_cap, tip) => (fee_cap.unwrap_or_default(), tip.unwrap_or_default()),
        (Some(price), None, None) => (price, price),
        _ => {
            return Err(RpcError::invalid_params("both gasPrice and (maxFeePerGas or maxPriorityFeePerGas) specified"));
        }
    };
    let from = request.from.unwrap_or_default();
    if tip > fee_cap {
        let detail = format!("address {from}, maxPriorityFeePerGas: {tip}, maxFeePerGas: {fee_cap}");
        return Err(Reason::TipAboveFeeCap.with(detail));
    }
    if fee_cap > 0 && fee_cap < u128::from(base_fee) {
        let detail = format!("address {from}, maxFeePerGas: {fee_cap}, baseFee: {base_fee}");
        return Err(Reason::FeeCapBelowBaseFee.with(detail));
    }
    Ok((tip.saturating_add(base_fee.into()).min(fee_cap), fee_cap))
}

/// Converts a failed run to an error. Only a revert by the contract itself gets code 3 and data.
pub(crate) fn execution_error(outcome: CallOutcome, gas: u64, estimating: bool) -> RpcError {
    match outcome.end {
        ExecutionStatus::Revert => RpcError::reverted(outcome.output.clone(), revert_reason(&outcome.output).as_deref()),
        ExecutionStatus::OutOfGas if estimating => {
            RpcError::new(ErrorCode::Refused, format!("{} ({gas})", Reason::GasRequiredExceedsAllowance.phrase()))
        }
        ExecutionStatus::OutOfGas => Reason::OutOfGas.with(format!("gas limit {gas}")),
        ExecutionStatus::Invalid(reason) => Reason::from(reason).error(),
        // The request timed out; its handler reports that already.
        ExecutionStatus::Fault(fault) if fault.is_interruption() => Reason::ExecutionAborted.error(),
        ExecutionStatus::Fault(fault) => {
            tracing::error!(%fault, "a call failed because of a fault of this node");
            RpcError::internal("internal error")
        }
        end => Reason::ExecutionFailed.with(end.reason().unwrap_or_default()),
    }
}

/// Decodes the text of revert data of the form `Error(string)`.
pub(crate) fn revert_reason(data: &[u8]) -> Option<String> {
    let body = data.strip_prefix(&[0x08, 0xc3, 0x79, 0xa0])?;
    let word = |at: usize| -> Option<usize> {
        let word = body.get(at..at.checked_add(32)?)?;
        let (high, low) = word.split_at(24);
        high.iter().all(|byte| *byte == 0).then_some(())?;
        usize::try_from(u64::from_be_bytes(low.try_into().ok()?)).ok()
    };
    let offset = word(0)?;
    let length = word(offset)?;
    let start = offset.checked_add(32)?;
    let text = body.get(start..start.checked_add(length)?)?;
    String::from_utf8(text.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_primitives::hex;

    #[test]
    fn revert_reason_is_decoded() {
        let data = hex!(
            "08c379a0"
            "0000000000000000000000000000000000000000000000000000000000000020"
            "0000000000000000000000000000000000000000000000000000000000000006"
            "6e6f206e6f210000000000000000000000000000000000000000000000000000"
        );
        assert_eq!(revert_reason(&data).as_deref(), Some("no no!"));
        for cut in 0..data.len() - 26 {
            assert_eq!(revert_reason(&data[..cut]), None, "{cut}");
        }
        let mut far = data;
        far[4..36].fill(0xff);
        assert_eq!(revert_reason(&far), None);
        far = data;
        far[36..68].fill(0);
        far[60..68].fill(0xff);
        assert_eq!(revert_reason(&far), None);
    }
}
