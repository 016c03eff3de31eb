//! `debug_trace*`: traces of transactions and calls in the format of geth's tracers.
//!
//! There are no EVM opcodes here, so only geth's tracers for calls and state apply: `callTracer` and
//! `prestateTracer`.

mod calls;
mod prestate;

pub(crate) use calls::name;

use crate::call::{self, Prepared, Trial};
use crate::jsonrpc::{Json, json};
use crate::node::{Node, still_there};
use crate::replay::Replay;
use alloy_eips::BlockId;
use alloy_primitives::B256;
use alloy_rpc_types_eth::state::StateOverride;
use alloy_rpc_types_eth::{BlockOverrides, TransactionRequest};
use corniche_api::{Reason, RpcError};
use corniche_state::StateView;
use corniche_vm::{End, Trace, TraceFrame, TraceLimits};
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
    Calls(calls::Wanted),
    Prestate(prestate::Wanted),
}

impl Tracer {
    fn of(request: &TraceRequest) -> Result<Self, RpcError> {
        let there_are = "there are \"callTracer\" and \"prestateTracer\"";
        match request.tracer.as_deref() {
            Some("callTracer") => wanted(request).map(Self::Calls),
            Some("prestateTracer") => wanted(request).map(Self::Prestate),
            Some(other) => {
                let name: String = other.chars().take(64).collect();
                Err(Reason::TracerNotAvailable.with(format!("\"{name}\"; {there_are}")))
            }
            None => Err(Reason::TracerNotAvailable.with(format!("contracts here have no EVM opcodes to log; {there_are}"))),
        }
    }

    /// Recorder for one run. The JSON text has about twice the recorded bytes and must fit into a response.
    fn trace(self, room: usize) -> Trace {
        match self {
            Self::Calls(wanted) => Trace::new(TraceLimits { bytes: room, top_only: wanted.only_top_call }),
            // This tracer needs no frames.
            Self::Prestate(_) => Trace::new(TraceLimits { bytes: room, top_only: true }),
        }
    }

    /// Returns the result and the recorded bytes. The view must have the code of all accounts that the run
    /// touched. A trace that is too large is refused before it becomes text.
    fn result(self, node: &Node, trace: &Trace, view: &dyn StateView, room: usize) -> Result<(Json, usize), RpcError> {
        match self {
            Self::Calls(_) if trace.overflowed() => Err(too_large(node)),
            Self::Calls(wanted) => {
                let result = json(&trace.root().map(|root| calls::Frame::new(root, wanted.with_log)))?;
                Ok((result, trace.bytes()))
            }
            Self::Prestate(wanted) => {
                prestate::result(trace.touched(), view, wanted, room).unwrap_or_else(|| Err(too_large(node)))
            }
        }
    }
}

/// Error for a trace that exceeds the limit of a response.
pub(crate) fn too_large(node: &Node) -> RpcError {
    let bytes = room(node);
    let ask = "ask with \"onlyTopCall\", \"disableCode\" or \"disableStorage\", or for less at once";
    Reason::TraceTooLarge.with(format!("an answer records at most {bytes} bytes; {ask}"))
}

fn wanted<'r, T: Deserialize<'r> + Default>(request: &'r TraceRequest) -> Result<T, RpcError> {
    let Some(config) = &request.tracer_config else { return Ok(T::default()) };
    serde_json::from_str::<Option<T>>(config.get())
        .map(Option::unwrap_or_default)
        .map_err(|error| RpcError::invalid_params(format!("tracerConfig: {error}")))
}

/// Bytes that may be recorded for one response.
fn room(node: &Node) -> usize {
    node.config.max_response_bytes / 2
}

/// `debug_traceTransaction`.
pub(crate) fn transaction(node: &Node, hash: &B256, request: &TraceRequest) -> Result<Json, RpcError> {
    let tracer = Tracer::of(request)?;
    let (height, position) = node.backend.transaction(hash).ok_or_else(|| Reason::TransactionNotFound.error())?;
    let block = node.backend.block(height).ok_or_else(|| Reason::HeaderNotFound.error())?;
    let mut replay = Replay::new(node, block)?;
    replay.skip_to(position as usize)?;
    one(node, tracer, &mut replay, room(node)).map(|(result, _)| result)
}

/// Traces the next transaction; returns the result and its recorded bytes.
fn one(node: &Node, tracer: Tracer, replay: &mut Replay<'_>, room: usize) -> Result<(Json, usize), RpcError> {
    let mut trace = tracer.trace(room);
    replay.run_traced(&mut trace, matches!(tracer, Tracer::Calls(_)))?;
    tracer.result(node, &trace, &replay.view(), room)
}

/// `debug_traceBlockByNumber` and `debug_traceBlockByHash`: all transactions of a block in one response.
pub(crate) fn block(node: &Node, block: BlockId, request: &TraceRequest) -> Result<Json, RpcError> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Traced {
        tx_hash: B256,
        result: Box<RawValue>,
    }

    let tracer = Tracer::of(request)?;
    let block = node.block(block).ok_or_else(|| Reason::HeaderNotFound.error())?;
    let mut replay = Replay::new(node, block.clone())?;
    let (mut room, mut written) = (room(node), 0);
    let mut all = Vec::with_capacity(block.receipts.len());
    for receipt in &block.receipts {
        let (result, bytes) = one(node, tracer, &mut replay, room)?;
        room = room.saturating_sub(bytes);
        written += result.text.get().len();
        if written > node.config.max_response_bytes {
            return Err(Reason::ResponseTooLarge.error());
        }
        all.push(Traced { tx_hash: receipt.transaction_hash, result: result.text });
    }
    json(&all)
}

/// `debug_traceCall`.
pub(crate) fn call(node: &Node, call: TransactionRequest, block: BlockId, request: TraceRequest) -> Result<Json, RpcError> {
    let tracer = Tracer::of(&request)?;
    if request.tx_index.is_some() {
        return Err(RpcError::invalid_params("txIndex is not supported: a call is traced after the whole block"));
    }
    let (overrides, block_overrides) = (request.state_overrides, request.block_overrides);
    let Prepared { vm, view, env, call } = call::prepare(node, Trial { request: call, block, overrides, block_overrides })?;
    let mut trace = tracer.trace(room(node));
    let mut outcome = vm.trace_call(&*view, &env, &call, &mut trace);
    if matches!(tracer, Tracer::Calls(_)) && trace.root().is_some_and(TraceFrame::has_place) {
        trace = trace.again().with_places();
        outcome = vm.trace_call(&*view, &env, &call, &mut trace);
    }
    still_there(&*view)?;
    match outcome.end {
        End::Invalid(_) | End::Fault(_) => Err(call::failure(outcome, call.gas, false)),
        _ => tracer.result(node, &trace, &*view, room(node)).map(|(result, _)| result),
    }
}
