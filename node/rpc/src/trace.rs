//! `debug_trace*`: traces of transactions and calls in the format of geth's tracers.
//!
//! There are no EVM opcodes here, so only geth's tracers for calls and state apply: `callTracer` and
//! `prestateTracer`.

mod calls;
mod prestate;

pub(crate) use calls::opcode_name;

use crate::jsonrpc::{Json, json};
use crate::node::{Node, ensure_available};
use crate::prepare::{CallRequest, PreparedCall, execution_error, prepare};
use crate::replay::Replay;
use alloy_eips::BlockId;
use alloy_primitives::B256;
use alloy_rpc_types_eth::state::StateOverride;
use alloy_rpc_types_eth::{BlockOverrides, TransactionRequest};
use corniche_api::{Reason, RpcError};
use corniche_state::StateView;
use corniche_vm::{ExecutionStatus, Trace, TraceFrame, TraceLimits};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Options of a trace request, e.g. `{"tracer": "callTracer", "tracerConfig": {"withLog": true}}`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct TraceRequest {
    tracer: Option<String>,
    tracer_config: Option<Box<RawValue>>,
    /// Only for `debug_traceCall`.
    state_overrides: Option<StateOverride>,
    block_overrides: Option<BlockOverrides>,
    tx_index: Option<serde::de::IgnoredAny>,
}

/// Supported tracers.
#[derive(Clone, Copy, Debug)]
enum Tracer {
    Calls(calls::CallTracerConfig),
    Prestate(prestate::PrestateTracerConfig),
}

impl Tracer {
    fn from_request(request: &TraceRequest) -> Result<Self, RpcError> {
        let supported = "there are \"callTracer\" and \"prestateTracer\"";
        match request.tracer.as_deref() {
            Some("callTracer") => parse_config(request).map(Self::Calls),
            Some("prestateTracer") => parse_config(request).map(Self::Prestate),
            Some(other) => {
                let name: String = other.chars().take(64).collect();
                Err(Reason::TracerNotAvailable.with(format!("\"{name}\"; {supported}")))
            }
            None => Err(Reason::TracerNotAvailable.with(format!("contracts here have no EVM opcodes to log; {supported}"))),
        }
    }

    /// Recorder for one run. The JSON text has about twice the recorded bytes and must fit into a response.
    fn trace(self, max_bytes: usize) -> Trace {
        match self {
            Self::Calls(config) => Trace::new(TraceLimits { bytes: max_bytes, top_only: config.only_top_call }),
            // This tracer needs no frames.
            Self::Prestate(_) => Trace::new(TraceLimits { bytes: max_bytes, top_only: true }),
        }
    }

    /// Returns the result and the recorded bytes. The view must have the code of all accounts that the run
    /// touched. A trace that is too large is refused before it becomes text.
    fn result(self, node: &Node, trace: &Trace, view: &dyn StateView, max_bytes: usize) -> Result<(Json, usize), RpcError> {
        match self {
            Self::Calls(_) if trace.overflowed() => Err(trace_too_large(node)),
            Self::Calls(config) => {
                let result = json(&trace.root().map(|root| calls::Frame::new(root, config.with_log)))?;
                Ok((result, trace.bytes()))
            }
            Self::Prestate(config) => {
                prestate::result(trace.touched(), view, config, max_bytes).unwrap_or_else(|| Err(trace_too_large(node)))
            }
        }
    }
}

/// Error for a trace that exceeds the limit of a response.
pub(crate) fn trace_too_large(node: &Node) -> RpcError {
    let bytes = max_recorded_bytes(node);
    let advice = "ask with \"onlyTopCall\", \"disableCode\" or \"disableStorage\", or for less at once";
    Reason::TraceTooLarge.with(format!("a trace records at most {bytes} bytes; {advice}"))
}

fn parse_config<'r, T: Deserialize<'r> + Default>(request: &'r TraceRequest) -> Result<T, RpcError> {
    let Some(config) = &request.tracer_config else { return Ok(T::default()) };
    serde_json::from_str::<Option<T>>(config.get())
        .map(Option::unwrap_or_default)
        .map_err(|error| RpcError::invalid_params(format!("tracerConfig: {error}")))
}

/// Bytes that may be recorded for one response.
fn max_recorded_bytes(node: &Node) -> usize {
    node.config.max_response_bytes / 2
}

/// `debug_traceTransaction`.
pub(crate) fn transaction(node: &Node, hash: &B256, request: &TraceRequest) -> Result<Json, RpcError> {
    let tracer = Tracer::from_request(request)?;
    let (block, position) = node.executed(hash).ok_or_else(|| Reason::TransactionNotFound.error())?;
    let mut replay = Replay::new(node, block)?;
    replay.skip_to(position)?;
    trace_next(node, tracer, &mut replay, max_recorded_bytes(node)).map(|(result, _)| result)
}

/// Traces the next transaction; returns the result and its recorded bytes.
fn trace_next(node: &Node, tracer: Tracer, replay: &mut Replay<'_>, max_bytes: usize) -> Result<(Json, usize), RpcError> {
    let mut trace = tracer.trace(max_bytes);
    replay.run_traced(&mut trace, matches!(tracer, Tracer::Calls(_)))?;
    tracer.result(node, &trace, &replay.view(), max_bytes)
}

/// `debug_traceBlockByNumber` and `debug_traceBlockByHash`: all transactions of a block in one response.
pub(crate) fn block(node: &Node, block: BlockId, request: &TraceRequest) -> Result<Json, RpcError> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct TracedTransaction {
        tx_hash: B256,
        result: Box<RawValue>,
    }

    let tracer = Tracer::from_request(request)?;
    let block = node.block(block)?.ok_or_else(|| Reason::HeaderNotFound.error())?;
    let mut replay = Replay::new(node, block.clone())?;
    let (mut max_bytes, mut written) = (max_recorded_bytes(node), 0);
    let mut all = Vec::with_capacity(block.receipts.len());
    for receipt in &block.receipts {
        let (result, bytes) = trace_next(node, tracer, &mut replay, max_bytes)?;
        max_bytes = max_bytes.saturating_sub(bytes);
        written += result.text.get().len();
        if written > node.config.max_response_bytes {
            return Err(Reason::ResponseTooLarge.error());
        }
        all.push(TracedTransaction { tx_hash: receipt.transaction_hash, result: result.text });
    }
    json(&all)
}

/// `debug_traceCall`.
pub(crate) fn call(node: &Node, call: TransactionRequest, block: BlockId, request: TraceRequest) -> Result<Json, RpcError> {
    let tracer = Tracer::from_request(&request)?;
    if request.tx_index.is_some() {
        return Err(RpcError::invalid_params("txIndex is not supported: a call is traced after the whole block"));
    }
    let (overrides, block_overrides) = (request.state_overrides, request.block_overrides);
    let PreparedCall { vm, view, env, call } = prepare(node, CallRequest { request: call, block, overrides, block_overrides })?;
    let mut trace = tracer.trace(max_recorded_bytes(node));
    let mut outcome = vm.trace_call(&*view, &env, &call, &mut trace);
    if matches!(tracer, Tracer::Calls(_)) && trace.root().is_some_and(TraceFrame::has_backtrace) {
        trace = trace.empty_copy().with_backtrace();
        outcome = vm.trace_call(&*view, &env, &call, &mut trace);
    }
    ensure_available(&*view)?;
    match outcome.end {
        ExecutionStatus::Invalid(_) | ExecutionStatus::Fault(_) => Err(execution_error(outcome, call.gas, false)),
        _ => tracer.result(node, &trace, &*view, max_recorded_bytes(node)).map(|(result, _)| result),
    }
}
