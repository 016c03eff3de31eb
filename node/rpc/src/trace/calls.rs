//! `callTracer`: the tree of calls.

use crate::prepare::revert_reason;
use alloy_primitives::{Address, B256, Bytes, U64, U256};
use corniche_vm::host::Trap;
use corniche_vm::{ExecutionStatus, FrameKind, FrameStatus, TraceFrame, TraceLog};
use serde::{Deserialize, Serialize};

/// Its `tracerConfig`.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CallTracerConfig {
    pub only_top_call: bool,
    pub with_log: bool,
}

/// Call in geth's format.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Frame<'t> {
    from: Address,
    gas: U64,
    gas_used: U64,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<Address>,
    input: &'t Bytes,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<&'t Bytes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revert_reason: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    calls: Vec<Self>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    logs: Vec<Log<'t>>,
    /// Console output of a debug build, of failed calls too. Extension to geth's format.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    console: Vec<ConsoleLine<'t>>,
    /// Positions of the trap or of running out of gas, innermost function first. Extension to geth's format.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    places: Vec<CodePosition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<U256>,
    #[serde(rename = "type")]
    kind: &'static str,
}

#[derive(Serialize)]
struct Log<'t> {
    address: Address,
    topics: &'t [B256],
    data: &'t Bytes,
    position: U64,
}

/// Function by its index, and offset in bytes from the start of the code section's content.
#[derive(Serialize)]
struct CodePosition {
    function: U64,
    offset: U64,
}

/// Console line, with the number of calls and logs of the frame before it.
#[derive(Serialize)]
struct ConsoleLine<'t> {
    text: &'t str,
    position: U64,
    logs: U64,
}

impl<'t> ConsoleLine<'t> {
    fn new(line: &'t corniche_vm::ConsoleLine) -> Self {
        Self { text: &line.text, position: U64::from(line.calls), logs: U64::from(line.logs) }
    }
}

impl<'t> Log<'t> {
    fn new(log: &'t TraceLog) -> Self {
        let TraceLog { position, log } = log;
        Self { address: log.address, topics: &log.topics, data: &log.data, position: U64::from(*position) }
    }
}

impl<'t> Frame<'t> {
    /// With `logs`, includes logs, unless this frame or one above it was reverted.
    pub fn new(frame: &'t TraceFrame, logs: bool) -> Self {
        let success = frame.ending.is_success();
        let logs = logs && success;
        let reverted = frame.ending == FrameStatus::Ran(ExecutionStatus::Revert);
        let output = (success || reverted) && !frame.output.is_empty();
        Self {
            from: frame.from,
            gas: U64::from(frame.gas),
            gas_used: U64::from(frame.gas_used),
            to: (success || !frame.kind.is_create()).then_some(frame.to),
            input: &frame.input,
            output: output.then_some(&frame.output),
            error: error_text(&frame.ending),
            revert_reason: if reverted { decode_revert(&frame.output) } else { None },
            calls: frame.calls.iter().map(|call| Self::new(call, logs)).collect(),
            logs: if logs { frame.logs.iter().map(Log::new).collect() } else { Vec::new() },
            console: frame.lines.iter().map(ConsoleLine::new).collect(),
            places: frame
                .backtrace
                .iter()
                .map(|place| CodePosition { function: U64::from(place.function), offset: U64::from(place.offset) })
                .collect(),
            value: (frame.kind != FrameKind::StaticCall).then_some(frame.value),
            kind: opcode_name(frame.kind),
        }
    }
}

/// EVM opcode that corresponds to the kind of frame.
pub fn opcode_name(kind: FrameKind) -> &'static str {
    match kind {
        FrameKind::Call => "CALL",
        FrameKind::StaticCall => "STATICCALL",
        FrameKind::DelegateCall => "DELEGATECALL",
        FrameKind::Create => "CREATE",
        FrameKind::Create2 => "CREATE2",
    }
}

/// Error text; the same as geth's where geth has one.
fn error_text(ending: &FrameStatus) -> Option<String> {
    Some(match ending {
        FrameStatus::CallTooDeep => "max call depth exceeded".into(),
        FrameStatus::InsufficientBalance => "insufficient balance for transfer".into(),
        FrameStatus::Ran(ExecutionStatus::Success) => return None,
        FrameStatus::Ran(ExecutionStatus::Revert) => "execution reverted".into(),
        FrameStatus::Ran(ExecutionStatus::Trap(Trap::StaticViolation)) => "write protection".into(),
        FrameStatus::Ran(end) => end.reason().unwrap_or_default(),
    })
}

/// Text of `Error(string)`, or meaning of the code of `Panic(uint256)`.
fn decode_revert(output: &[u8]) -> Option<String> {
    if let Some(code) = output.strip_prefix(&[0x4e, 0x48, 0x7b, 0x71]) {
        let code = U256::from_be_bytes(<[u8; 32]>::try_from(code).ok()?);
        let meaning = match u8::try_from(code).ok() {
            Some(0x00) => "generic panic",
            Some(0x01) => "assert(false)",
            Some(0x11) => "arithmetic underflow or overflow",
            Some(0x12) => "division or modulo by zero",
            Some(0x21) => "enum overflow",
            Some(0x22) => "invalid encoded storage byte array accessed",
            Some(0x31) => "out-of-bounds array access; popping on an empty array",
            Some(0x32) => "out-of-bounds access of an array or bytesN",
            Some(0x41) => "out of memory",
            Some(0x51) => "uninitialized function",
            _ => return Some(format!("unknown panic code: {code:#x}")),
        };
        return Some(meaning.into());
    }
    revert_reason(output)
}
