//! `eth_simulateV1`: simulates blocks of calls on top of an existing block, each on the state after the one
//! before.
//!
//! The results look like blocks, but they were not ordered and their transactions are unsigned. Their state
//! root is zero, because computing it would cost as much as executing them.

use crate::backend::ChainBlock;
use crate::jsonrpc::{Json, json};
use crate::node::{Node, ensure_available};
use crate::overrides::{OverriddenState, override_block};
use crate::prepare::{execution_error, to_call};
use alloy_consensus::proofs::calculate_transaction_root;
use alloy_consensus::transaction::Recovered;
use alloy_consensus::{SignableTransaction, Transaction as _, TxEnvelope};
use alloy_eips::BlockId;
use alloy_eips::eip2718::Encodable2718;
use alloy_primitives::{Address, B256, Bytes, Signature, U256, address, b256};
use alloy_rpc_types_eth::simulate::{SimBlock, SimCallResult, SimulateError, SimulatePayload, SimulatedBlock};
use alloy_rpc_types_eth::{Block, BlockOverrides, BlockTransactions, Transaction, TransactionRequest};
use corniche_api::{Reason, RpcError};
use corniche_state::{Changes, Overlay, StateView};
use corniche_types::{Header, Height, Log, Receipt, SkipReason, certified, header_hash};
use corniche_vm::{BlockEnv, Call, ExecutionStatus, FrameKind, Trace, TraceFrame, TraceLimits, Vm};
use std::sync::Arc;

/// Maximum number of blocks per request, including the empty ones that fill gaps in the numbers.
const MAX_BLOCKS: u64 = 256;
/// Seconds between two blocks without an explicit time.
const BLOCK_SECONDS: u64 = 1;
/// Emitter and topic of the logs for wei transfers (`traceTransfers`): ERC-20's
/// Transfer(address,address,uint256).
const TRANSFER_EMITTER: Address = address!("eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee");
const TRANSFER_TOPIC: B256 = b256!("ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef");

/// Error with a code from the specification of `eth_simulateV1`.
fn spec_error(code: i32, message: String) -> RpcError {
    RpcError { code, message, data: None }
}

pub(crate) fn simulate(node: &Node, payload: SimulatePayload, on: BlockId) -> Result<Json, RpcError> {
    let (height, view) = node.state(on)?;
    let parent = node.header_at(height)?;
    let planned = plan(&parent, payload.block_state_calls)?;
    let mut simulation = Simulation {
        node,
        vm: node.backend.vm().clone(),
        validation: payload.validation,
        trace_transfers: payload.trace_transfers,
        full: payload.return_full_transactions,
        view,
        parent_hash: header_hash(&parent),
        parent,
        base: height,
        hashes: Vec::new(),
        gas: node.config.call_gas_cap,
        bytes_left: node.config.max_response_bytes / 2,
    };
    let blocks: Vec<_> = planned.into_iter().map(|block| simulation.block(block)).collect::<Result<_, _>>()?;
    json(&blocks)
}

/// Returns the blocks in ascending order; fills gaps with empty blocks.
fn plan(parent: &Header, requested: Vec<SimBlock>) -> Result<Vec<SimBlock>, RpcError> {
    if requested.is_empty() {
        return Err(RpcError::invalid_params("empty input"));
    }
    let first = parent.number;
    let (mut number, mut time) = (first, parent.timestamp);
    let mut blocks = Vec::with_capacity(requested.len());
    for mut block in requested {
        let overrides = block.block_overrides.get_or_insert_default();
        let number_requested = overrides.number.unwrap_or(U256::from(number) + U256::from(1));
        if number_requested <= U256::from(number) {
            return Err(spec_error(-38020, format!("block numbers must be in order: {number_requested} <= {number}")));
        }
        if number_requested - U256::from(first) > U256::from(MAX_BLOCKS) {
            return Err(spec_error(-38026, "too many blocks".into()));
        }
        let number_requested: u64 = number_requested.to();
        for between in number + 1..number_requested {
            time = time.saturating_add(BLOCK_SECONDS);
            let block_overrides = BlockOverrides { number: Some(U256::from(between)), time: Some(time), ..Default::default() };
            blocks.push(SimBlock { block_overrides: Some(block_overrides), ..SimBlock::default() });
        }
        let time_requested = overrides.time.unwrap_or(time.saturating_add(BLOCK_SECONDS));
        if time_requested <= time {
            return Err(spec_error(-38021, format!("block timestamps must be in order: {time_requested} <= {time}")));
        }
        (number, time) = (number_requested, time_requested);
        (overrides.number, overrides.time) = (Some(U256::from(number)), Some(time));
        blocks.push(block);
    }
    Ok(blocks)
}

struct Simulation<'n> {
    node: &'n Node,
    /// Contains the code overrides so far.
    vm: Vm,
    validation: bool,
    trace_transfers: bool,
    full: bool,
    /// State after the blocks so far.
    view: Arc<dyn StateView>,
    parent: Header,
    parent_hash: B256,
    /// Existing block below the simulated ones.
    base: Height,
    /// Hashes of the blocks so far.
    hashes: Vec<B256>,
    /// Gas left for all remaining calls.
    gas: u64,
    /// Bytes that calls may still return and log.
    bytes_left: usize,
}

/// Block being simulated.
struct PendingBlock {
    env: BlockEnv,
    gas_used: u64,
    changes: Changes,
    transactions: Vec<(TxEnvelope, Address)>,
    receipts: Vec<Receipt>,
    results: Vec<SimCallResult>,
}

impl Simulation<'_> {
    fn block(&mut self, block: SimBlock) -> Result<SimulatedBlock, RpcError> {
        let overrides = block.block_overrides.unwrap_or_default();
        let base_fee = if self.validation { self.parent.base_fee_per_gas.unwrap_or_default() } else { 0 };
        let mut env = BlockEnv {
            rules: self.node.backend.rules(Height(self.parent.number + 1)),
            chain_id: self.node.backend.chain_id(),
            number: 0,
            timestamp: 0,
            base_fee,
            coinbase: self.parent.beneficiary,
            gas_limit: self.parent.gas_limit,
            randomness: B256::ZERO,
        };
        override_block(&mut env, &overrides)?;
        if let Some(state_overrides) = block.state_overrides.filter(|state_overrides| !state_overrides.is_empty()) {
            self.view =
                Arc::new(OverriddenState::new(self.view.clone(), env.rules, state_overrides, &mut self.vm, &mut self.gas)?);
        }
        let mut pending = PendingBlock {
            env,
            gas_used: 0,
            changes: Changes::default(),
            transactions: Vec::new(),
            receipts: Vec::new(),
            results: Vec::new(),
        };
        for request in block.calls {
            self.call(&mut pending, request)?;
        }
        let finished = self.finish(&mut pending);
        // Executing a real block ends with the same write.
        if let Some((number, hash)) = certified::written_by(pending.env.number).and_then(|number| self.hash_of(number)) {
            pending.changes.storage.insert((certified::ADDRESS, certified::slot(number)), hash);
        }
        let base = std::mem::replace(&mut self.view, Arc::new(corniche_state::EmptyState));
        self.view = Arc::new(OverlayState { base, changes: pending.changes });
        Ok(finished)
    }

    /// Number and hash of a header, if it exists.
    fn hash_of(&self, number: u64) -> Option<(u64, B256)> {
        let hash = match number.checked_sub(self.base.0 + 1) {
            Some(above) => self.hashes.get(usize::try_from(above).ok()?).copied(),
            None => self.node.backend.header(Height(number)).map(|header| header_hash(&header)),
        };
        hash.map(|hash| (number, hash))
    }

    fn call(&mut self, pending: &mut PendingBlock, mut request: TransactionRequest) -> Result<(), RpcError> {
        let now = Overlay { base: &*self.view, changes: &pending.changes };
        let from = *request.from.get_or_insert_default();
        let account = now.account(&from).unwrap_or_default();
        let left = pending.env.gas_limit - pending.gas_used;
        let gas = *request.gas.get_or_insert(left.min(self.gas));
        if gas > left {
            let (used, limit) = (pending.gas_used, pending.env.gas_limit);
            return Err(spec_error(-38015, format!("block gas limit reached: {used} + {gas} > {limit}")));
        }
        if gas > self.gas {
            return Err(spec_error(-38026, format!("gas of all calls together exceeds {}", self.node.config.call_gas_cap)));
        }
        let nonce = *request.nonce.get_or_insert(account.nonce);
        if self.validation && nonce != account.nonce {
            let reason = if nonce < account.nonce { SkipReason::NonceTooLow } else { SkipReason::NonceTooHigh };
            return Err(invalid(reason, format!("address {from}, tx: {nonce} state: {}", account.nonce)));
        }
        let call = to_call(self.node, request.clone(), pending.env.base_fee).map_err(underpriced)?;
        if self.validation && call.max_gas_price < u128::from(pending.env.base_fee) {
            let (price, base_fee) = (call.max_gas_price, pending.env.base_fee);
            return Err(invalid(SkipReason::Underpriced, format!("maxFeePerGas: {price}, baseFee: {base_fee}")));
        }
        let mut trace = self.trace_transfers.then(|| Trace::new(TraceLimits { bytes: self.bytes_left, top_only: false }));
        let (outcome, changes) = self.vm.simulate(&now, &pending.env, &call, trace.as_mut());
        ensure_available(&*self.view)?;
        match outcome.end {
            ExecutionStatus::Invalid(reason) => return Err(invalid(reason, format!("address {from}"))),
            ExecutionStatus::Fault(_) => return Err(execution_error(outcome, gas, false)),
            _ => {}
        }
        let logs = match &trace {
            Some(trace) if trace.overflowed() => return Err(crate::trace::trace_too_large(self.node)),
            Some(trace) => trace.root().map(with_transfers).unwrap_or_default(),
            None => outcome.logs.clone(),
        };
        let response_bytes =
            outcome.output.len() + logs.iter().map(|log| 256 + 32 * log.topics.len() + log.data.len()).sum::<usize>();
        self.bytes_left =
            self.bytes_left.checked_sub(response_bytes + 1_024).ok_or_else(|| Reason::ResponseTooLarge.error())?;
        self.gas -= outcome.gas_used;
        pending.gas_used += outcome.gas_used;
        pending.changes.merge(changes);

        let envelope = unsigned(request, &call, pending.env.chain_id)?;
        pending.receipts.push(Receipt {
            transaction_hash: *envelope.tx_hash(),
            type_byte: envelope.tx_type() as u8,
            success: outcome.success(),
            gas_used: outcome.gas_used,
            cumulative_gas_used: pending.gas_used,
            effective_gas_price: call.gas_price,
            sender: from,
            to: call.to,
            contract_address: outcome.contract_address,
            logs,
            output: Bytes::new(),
        });
        pending.transactions.push((envelope, from));
        let error = (!outcome.success()).then(|| match &outcome.end {
            ExecutionStatus::Revert => {
                let failure = execution_error(outcome.clone(), gas, false);
                SimulateError { code: failure.code, message: failure.message, data: failure.data }
            }
            end => SimulateError {
                code: SimulateError::VM_EXECUTION_ERROR_CODE,
                message: format!("vm execution error: {}", end.reason().unwrap_or_default()),
                data: None,
            },
        });
        pending.results.push(SimCallResult {
            status: outcome.success(),
            gas_used: outcome.gas_used,
            return_data: outcome.output,
            error,
            ..SimCallResult::default()
        });
        Ok(())
    }

    /// Completes the block and moves on to its successor.
    fn finish(&mut self, pending: &mut PendingBlock) -> SimulatedBlock {
        let (envelopes, senders): (Vec<_>, Vec<_>) = std::mem::take(&mut pending.transactions).into_iter().unzip();
        let header = Header {
            parent_hash: self.parent_hash,
            number: pending.env.number,
            timestamp: pending.env.timestamp,
            beneficiary: pending.env.coinbase,
            gas_limit: pending.env.gas_limit,
            gas_used: pending.gas_used,
            base_fee_per_gas: Some(pending.env.base_fee),
            mix_hash: pending.env.randomness,
            transactions_root: calculate_transaction_root(&envelopes),
            receipts_root: Receipt::root(&pending.receipts),
            logs_bloom: pending.receipts.iter().fold(Default::default(), |bloom, receipt| bloom | receipt.logs_bloom()),
            state_root: B256::ZERO,
            ..Header::default()
        };
        let hash = header_hash(&header);
        let transactions: Vec<Bytes> = envelopes.iter().map(|envelope| envelope.encoded_2718().into()).collect();
        let block = ChainBlock { header, hash, ordering: None, transactions, receipts: std::mem::take(&mut pending.receipts) };
        let mut calls = std::mem::take(&mut pending.results);
        for log in crate::convert::logs(&block) {
            if let Some(call) = log.transaction_index.and_then(|index| calls.get_mut(index as usize)) {
                call.logs.push(log);
            }
        }
        let transactions = if self.full {
            let all = envelopes.into_iter().zip(senders).zip(0u64..).map(|((envelope, sender), index)| Transaction {
                effective_gas_price: Some(envelope.effective_gas_price(Some(pending.env.base_fee))),
                inner: Recovered::new_unchecked(envelope, sender),
                block_hash: Some(hash),
                block_number: Some(pending.env.number),
                transaction_index: Some(index),
                block_timestamp: Some(pending.env.timestamp),
            });
            BlockTransactions::Full(all.collect())
        } else {
            BlockTransactions::Hashes(envelopes.iter().map(|envelope| *envelope.tx_hash()).collect())
        };
        let inner = Block::new(crate::convert::header(&block), transactions);
        (self.parent, self.parent_hash) = (block.header, hash);
        self.hashes.push(hash);
        SimulatedBlock { inner, calls }
    }
}

/// View with its own changes on top of a base.
struct OverlayState {
    base: Arc<dyn StateView>,
    changes: Changes,
}

impl OverlayState {
    fn overlay(&self) -> Overlay<'_> {
        Overlay { base: &*self.base, changes: &self.changes }
    }
}

impl StateView for OverlayState {
    fn account(&self, address: &Address) -> Option<corniche_state::Account> {
        self.overlay().account(address)
    }

    fn storage(&self, address: &Address, slot: &B256) -> B256 {
        self.overlay().storage(address, slot)
    }

    fn code(&self, hash: &B256) -> Option<Bytes> {
        self.overlay().code(hash)
    }

    fn interrupted(&self) -> bool {
        self.base.interrupted()
    }
}

/// Error for a call that is not a valid transaction, with the code of the method's specification.
fn invalid(reason: SkipReason, detail: String) -> RpcError {
    let code = match reason {
        SkipReason::NonceTooLow => -38010,
        SkipReason::NonceTooHigh => -38011,
        SkipReason::Underpriced => -38012,
        SkipReason::IntrinsicGas => -38013,
        SkipReason::Underfunded => -38014,
        SkipReason::GasLimit => -38015,
        SkipReason::SenderNotEoa => -38024,
        SkipReason::InitCodeSize => -38025,
        other => return Reason::from(other).with(detail),
    };
    spec_error(code, Reason::from(reason).with(detail).message)
}

/// Replaces the code of the fee error: `eth_simulateV1` has its own.
fn underpriced(error: RpcError) -> RpcError {
    if error.message.starts_with(Reason::FeeCapBelowBaseFee.phrase()) { spec_error(-38012, error.message) } else { error }
}

/// Transaction for the call, without a signature.
fn unsigned(request: TransactionRequest, call: &Call, chain_id: u64) -> Result<TxEnvelope, RpcError> {
    let mut request = TransactionRequest { chain_id: Some(chain_id), transaction_type: None, ..request };
    request.input = call.input.clone().into();
    request.value = Some(call.value);
    if request.gas_price.is_none() {
        request.max_fee_per_gas.get_or_insert(0);
        request.max_priority_fee_per_gas.get_or_insert(0);
    }
    request.to.get_or_insert(alloy_primitives::TxKind::Create);
    let typed = request.build_typed_tx().map_err(|_| RpcError::invalid_params("the call is no transaction"))?;
    let signature = Signature::new(U256::ZERO, U256::ZERO, false);
    Ok(typed.into_signed(signature).into())
}

/// Logs that were not reverted, with a log for each wei transfer at its position.
fn with_transfers(root: &TraceFrame) -> Vec<Log> {
    fn collect(frame: &TraceFrame, logs: &mut Vec<Log>) {
        if !frame.ending.is_success() {
            return;
        }
        let transfers_value = matches!(frame.kind, FrameKind::Call | FrameKind::Create | FrameKind::Create2);
        if transfers_value && !frame.value.is_zero() {
            let topics = vec![TRANSFER_TOPIC, frame.from.into_word(), frame.to.into_word()];
            logs.push(Log { address: TRANSFER_EMITTER, topics, data: frame.value.to_be_bytes::<32>().into() });
        }
        let mut own = frame.logs.iter().peekable();
        for position in 0..=frame.calls.len() {
            while let Some(log) = own.next_if(|log| log.position == position) {
                logs.push(log.log.clone());
            }
            if let Some(call) = frame.calls.get(position) {
                collect(call, logs);
            }
        }
    }
    let mut logs = Vec::new();
    collect(root, &mut logs);
    logs
}
