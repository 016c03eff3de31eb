//! Traces of runs, for debuggers, explorers and access lists.
//!
//! A run fills the [`Trace`] that it borrows. A run without one pays a comparison per frame and log. Gas can buy more
//! output than a node should hold for a client, so [`TraceLimits`] bound the recording. A trace above a limit holds no
//! frames and reports this; the run's result does not change.

use crate::backtrace::CodeLocation;
use crate::outcome::{ExecutionStatus, FrameOutcome};
use alloy_primitives::{Address, B256, Bytes, U256};
use corniche_state::Account;
use corniche_types::Log;
use std::collections::{BTreeMap, BTreeSet};

/// Limits of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceLimits {
    /// Maximum total bytes of inputs, outputs and logs, plus [`FRAME_OVERHEAD_BYTES`] per frame and log.
    pub bytes: usize,
    /// Records only the outermost frame.
    pub top_only: bool,
}

/// Bytes counted per frame or log, in addition to its data.
pub const FRAME_OVERHEAD_BYTES: usize = 512;

/// Maximum bytes of a run's console output ([`ConsoleLine`]), including [`LINE_OVERHEAD_BYTES`] per line.
pub const MAX_CONSOLE_BYTES: usize = 64 << 10;
/// Bytes counted per line, in addition to its text.
pub const LINE_OVERHEAD_BYTES: usize = 64;
/// Last line of a run whose console output exceeds the limit.
pub const TRUNCATED_LINE: &str = "… output truncated";

/// Calls, accounts and slots of one run.
#[derive(Debug)]
pub struct Trace {
    limits: TraceLimits,
    /// Recorded open frames, outermost first.
    open: Vec<TraceFrame>,
    /// Number of open frames.
    depth: usize,
    bytes: usize,
    overflowed: bool,
    backtrace: bool,
    /// Remaining bytes for console output; `None` if the limit was exceeded.
    console_bytes: Option<usize>,
    root: Option<TraceFrame>,
    touched: Touched,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    Call,
    StaticCall,
    DelegateCall,
    Create,
    Create2,
}

impl FrameKind {
    pub fn is_create(self) -> bool {
        matches!(self, Self::Create | Self::Create2)
    }
}

/// A call or a creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceFrame {
    pub kind: FrameKind,
    /// Account that acted when the call was made.
    pub from: Address,
    /// Account whose code runs; for a creation, the address of the new contract, even if it failed.
    pub to: Address,
    /// For a delegate call, the value of its caller, which is not transferred.
    pub value: U256,
    /// For the outermost frame, the transaction's gas limit.
    pub gas: u64,
    /// For the outermost frame, the transaction's total: including intrinsic gas, after refunds.
    pub gas_used: u64,
    pub input: Bytes,
    /// Return or revert data; the code for a successful creation.
    pub output: Bytes,
    pub ending: FrameStatus,
    pub calls: Vec<Self>,
    pub logs: Vec<TraceLog>,
    pub lines: Vec<ConsoleLine>,
    /// Where it failed, innermost function first, if it trapped or ran out of gas and the trace is
    /// [`with_backtrace`](Trace::with_backtrace).
    pub backtrace: Vec<CodeLocation>,
}

/// How a frame ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameStatus {
    Ran(ExecutionStatus),
    /// The frame did not open: the maximum depth was reached.
    CallTooDeep,
    /// The frame did not open: the balance did not cover its value.
    InsufficientBalance,
}

impl FrameStatus {
    pub fn is_success(&self) -> bool {
        *self == Self::Ran(ExecutionStatus::Success)
    }
}

/// A log of a frame, even if it was reverted later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceLog {
    /// Number of earlier calls of the frame.
    pub position: usize,
    pub log: Log,
}

/// A line of console output from a debug build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsoleLine {
    /// Numbers of earlier calls and logs of the frame.
    pub calls: usize,
    pub logs: usize,
    pub text: String,
}

/// Accounts and slots that a run accessed, including in reverted frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Accounts that were read, or added to without a read: before and after. A missing account is the default value.
    pub accounts: BTreeMap<Address, (Account, Account)>,
    /// Slots: before and after. `None` if a slot was declared, or counted on without an effect, and never read.
    pub slots: BTreeMap<(Address, B256), Option<(B256, B256)>>,
    /// Accounts whose access cost the cold price.
    pub reached: BTreeSet<Address>,
    /// Code of the contracts that the run created.
    pub code: BTreeMap<B256, Bytes>,
}

impl Trace {
    pub fn new(limits: TraceLimits) -> Self {
        Self {
            limits,
            open: Vec::new(),
            depth: 0,
            bytes: 0,
            overflowed: false,
            backtrace: false,
            console_bytes: Some(MAX_CONSOLE_BYTES),
            root: None,
            touched: Touched::default(),
        }
    }

    /// Returns an empty trace with equal settings.
    pub fn empty_copy(&self) -> Self {
        Self { backtrace: self.backtrace, ..Self::new(self.limits) }
    }

    /// Also records where frames fail. Such a run uses separate machine code, which takes time to compile, and has an
    /// equal result.
    pub fn with_backtrace(self) -> Self {
        Self { backtrace: true, ..self }
    }

    pub(crate) fn wants_backtrace(&self) -> bool {
        self.backtrace
    }

    /// Returns whether the run exceeded the limits. Then there are no frames.
    pub fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// Returns the used part of [`TraceLimits::bytes`].
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the outermost frame; `None` if nothing ran.
    pub fn root(&self) -> Option<&TraceFrame> {
        self.root.as_ref()
    }

    /// Returns the accessed accounts and slots; empty if nothing ran.
    pub fn touched(&self) -> &Touched {
        &self.touched
    }

    pub fn into_parts(self) -> (Option<TraceFrame>, Touched) {
        (self.root, self.touched)
    }

    /// Records the start of a frame; [`leave`](Self::leave) must follow.
    pub(crate) fn enter(&mut self, frame: TraceFrame) {
        self.depth += 1;
        if self.is_recorded() && self.has_room(FRAME_OVERHEAD_BYTES + frame.input.len()) {
            self.open.push(frame);
        }
    }

    /// Records the end of the innermost frame.
    pub(crate) fn leave(&mut self, ending: FrameStatus, output: &Bytes, gas_left: u64) {
        let records = self.is_recorded() && self.has_room(output.len());
        self.depth -= 1;
        let Some(mut frame) = (if records { self.open.pop() } else { None }) else { return };
        frame.gas_used = frame.gas.saturating_sub(gas_left);
        frame.output = output.clone();
        frame.ending = ending;
        match self.open.last_mut() {
            Some(caller) => caller.calls.push(frame),
            None => self.root = Some(frame),
        }
    }

    pub(crate) fn log(&mut self, log: &Log) {
        if self.is_recorded()
            && self.has_room(FRAME_OVERHEAD_BYTES + 32 * log.topics.len() + log.data.len())
            && let Some(frame) = self.open.last_mut()
        {
            frame.logs.push(TraceLog { position: frame.calls.len(), log: log.clone() });
        }
    }

    /// Records console output. The first line above the limit is replaced by a note, later ones are dropped.
    pub(crate) fn console_line(&mut self, text: &[u8]) {
        let Some(room) = self.console_bytes else { return };
        self.console_bytes = room.checked_sub(LINE_OVERHEAD_BYTES + text.len());
        let text = if self.console_bytes.is_some() { String::from_utf8_lossy(text) } else { TRUNCATED_LINE.into() };
        if self.is_recorded()
            && self.has_room(LINE_OVERHEAD_BYTES + text.len())
            && let Some(frame) = self.open.last_mut()
        {
            frame.lines.push(ConsoleLine { calls: frame.calls.len(), logs: frame.logs.len(), text: text.into_owned() });
        }
    }

    /// Records where the innermost frame failed.
    pub(crate) fn record_failure(&mut self, backtrace: Vec<CodeLocation>) {
        if self.is_recorded()
            && self.has_room(size_of_val(&backtrace[..]))
            && let Some(frame) = self.open.last_mut()
        {
            frame.backtrace = backtrace;
        }
    }

    /// Completes the trace; its outermost frame represents the transaction.
    pub(crate) fn finish(&mut self, gas_limit: u64, gas_used: u64, touched: Touched) {
        if let Some(root) = &mut self.root {
            (root.gas, root.gas_used) = (gas_limit, gas_used);
        }
        self.touched = touched;
    }

    /// Returns whether the innermost open frame is recorded.
    fn is_recorded(&self) -> bool {
        !self.overflowed && (self.depth == 1 || !self.limits.top_only)
    }

    /// Counts bytes to record. Above the limit, drops everything that was recorded.
    fn has_room(&mut self, bytes: usize) -> bool {
        self.bytes = self.bytes.saturating_add(bytes);
        self.overflowed = self.bytes > self.limits.bytes;
        if self.overflowed {
            self.open = Vec::new();
            self.root = None;
        }
        !self.overflowed
    }
}

impl TraceFrame {
    /// Returns whether the machine ended the frame, so there may be a location.
    pub fn ended_by_machine(&self) -> bool {
        matches!(self.ending, FrameStatus::Ran(ExecutionStatus::Trap(_) | ExecutionStatus::OutOfGas))
    }

    /// Returns whether this frame or a call below it was ended by the machine.
    pub fn has_backtrace(&self) -> bool {
        self.ended_by_machine() || self.calls.iter().any(Self::has_backtrace)
    }

    /// Creates the frame of a starting call.
    pub(crate) fn beginning(kind: FrameKind, from: Address, to: Address, value: U256, gas: u64, input: &Bytes) -> Self {
        Self {
            kind,
            from,
            to,
            value,
            gas,
            gas_used: 0,
            input: input.clone(),
            output: Bytes::new(),
            ending: FrameStatus::CallTooDeep,
            calls: Vec::new(),
            logs: Vec::new(),
            lines: Vec::new(),
            backtrace: Vec::new(),
        }
    }
}

impl From<&FrameOutcome> for FrameStatus {
    fn from(ended: &FrameOutcome) -> Self {
        Self::Ran(ended.end.clone())
    }
}
