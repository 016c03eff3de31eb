//! What a run did on its way: for debuggers, explorers and access lists.
//!
//! A [`Trace`] is lent to a run and filled by it; a run without one pays a comparison for each frame and log. What gas buys is more than
//! what a node wants to hold for a client, so recording ends at [`TraceLimits`]: a trace that met a bound holds no frames at
//! all and says so, and the run goes on to the same result.

use crate::outcome::{End, Ended};
use crate::wasm::places::Place;
use alloy_primitives::{Address, B256, Bytes, U256};
use corniche_state::Account;
use corniche_types::Log;
use std::collections::{BTreeMap, BTreeSet};

/// How much of a run is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceLimits {
    /// Of all inputs, outputs and logs together, with [`OWN_BYTES`] for each frame and log.
    pub bytes: usize,
    /// Only the outermost frame.
    pub top_only: bool,
}

/// What a frame or a log is counted for besides what it carries.
pub const OWN_BYTES: usize = 512;

/// Of all that contracts say in a run ([`TraceLine`]), each line counted for [`OWN_LINE_BYTES`] besides.
pub const CONSOLE_BYTES: usize = 64 << 10;
/// What a line is counted for besides its text.
pub const OWN_LINE_BYTES: usize = 64;
/// The last line of a run that said more.
pub const SILENCED: &str = "… and more, which is not kept";

/// Calls, accounts and slots of one run.
#[derive(Debug)]
pub struct Trace {
    limits: TraceLimits,
    /// Frames under way that are recorded, the outermost first.
    open: Vec<TraceFrame>,
    /// How many frames are under way.
    depth: usize,
    bytes: usize,
    overflowed: bool,
    places: bool,
    /// What contracts may still say; `None` when they have said too much.
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
    /// The account that acted when it was made.
    pub from: Address,
    /// Whose code runs; of a creation the address of the new contract, also when it failed.
    pub to: Address,
    /// Of a delegate call what its caller was sent, which does not move.
    pub value: U256,
    /// Of the outermost frame the transaction's limit.
    pub gas: u64,
    /// Of the outermost frame the transaction's, with what it paid before it ran and less what was refunded.
    pub gas_used: u64,
    pub input: Bytes,
    /// Return or revert data; of a creation that succeeded the code.
    pub output: Bytes,
    pub ending: Ending,
    pub calls: Vec<Self>,
    pub logs: Vec<TraceLog>,
    pub lines: Vec<TraceLine>,
    /// Where it failed, if it trapped or ran out of gas and the trace is one [`with_places`](Trace::with_places): the innermost function first.
    pub places: Vec<Place>,
}

/// How a frame ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    Ran(End),
    /// It never opened: too many were open.
    TooDeep,
    /// It never opened: its value was not there.
    Unaffordable,
}

impl Ending {
    pub fn is_success(&self) -> bool {
        *self == Self::Ran(End::Success)
    }
}

/// A log of a frame, whether or not it was undone later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceLog {
    /// So many calls of the frame came before it.
    pub position: usize,
    pub log: Log,
}

/// What a debug build said (`console`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceLine {
    /// So many calls and so many logs of the frame came before it.
    pub calls: usize,
    pub logs: usize,
    pub text: String,
}

/// Accounts and slots a run had to do with, also in frames that were undone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    /// Accounts that were read, or added to unread: before and after. One that does not exist is the default one.
    pub accounts: BTreeMap<Address, (Account, Account)>,
    /// Slots: before and after, or `None` when one was declared, or counted in to no end, and never read.
    pub slots: BTreeMap<(Address, B256), Option<(B256, B256)>>,
    /// Accounts whose touch cost what a cold account costs.
    pub reached: BTreeSet<Address>,
    /// Code of the contracts made by the run.
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
            places: false,
            console_bytes: Some(CONSOLE_BYTES),
            root: None,
            touched: Touched::default(),
        }
    }

    /// An empty one of the same kind.
    pub fn again(&self) -> Self {
        Self { places: self.places, ..Self::new(self.limits) }
    }

    /// Of a run that also says where its frames fail. It runs on machine code of its own, which takes a while to make, and comes to the same.
    pub fn with_places(self) -> Self {
        Self { places: true, ..self }
    }

    pub(crate) fn wants_places(&self) -> bool {
        self.places
    }

    /// Whether the run did more than was to be recorded. Then there are no frames.
    pub fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// What of [`TraceLimits::bytes`] was used.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The outermost frame; none when nothing ran.
    pub fn root(&self) -> Option<&TraceFrame> {
        self.root.as_ref()
    }

    /// Nothing when nothing ran.
    pub fn touched(&self) -> &Touched {
        &self.touched
    }

    pub fn into_parts(self) -> (Option<TraceFrame>, Touched) {
        (self.root, self.touched)
    }

    /// A frame begins; [`leave`](Self::leave) follows in any case.
    pub(crate) fn enter(&mut self, frame: TraceFrame) {
        self.depth += 1;
        if self.is_recorded() && self.has_room(OWN_BYTES + frame.input.len()) {
            self.open.push(frame);
        }
    }

    /// The frame ends that began last.
    pub(crate) fn leave(&mut self, ending: Ending, output: &Bytes, gas_left: u64) {
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
            && self.has_room(OWN_BYTES + 32 * log.topics.len() + log.data.len())
            && let Some(frame) = self.open.last_mut()
        {
            frame.logs.push(TraceLog { position: frame.calls.len(), log: log.clone() });
        }
    }

    /// The contract says something. What is too much is dropped with a word.
    pub(crate) fn line(&mut self, text: &[u8]) {
        let Some(room) = self.console_bytes else { return };
        self.console_bytes = room.checked_sub(OWN_LINE_BYTES + text.len());
        let text = if self.console_bytes.is_some() { String::from_utf8_lossy(text) } else { SILENCED.into() };
        if self.is_recorded()
            && self.has_room(OWN_LINE_BYTES + text.len())
            && let Some(frame) = self.open.last_mut()
        {
            frame.lines.push(TraceLine { calls: frame.calls.len(), logs: frame.logs.len(), text: text.into_owned() });
        }
    }

    /// The innermost frame fails.
    pub(crate) fn failed_at(&mut self, places: Vec<Place>) {
        if self.is_recorded()
            && self.has_room(size_of_val(&places[..]))
            && let Some(frame) = self.open.last_mut()
        {
            frame.places = places;
        }
    }

    /// The run is over; its outermost frame stands for the transaction.
    pub(crate) fn finish(&mut self, gas_limit: u64, gas_used: u64, touched: Touched) {
        if let Some(root) = &mut self.root {
            (root.gas, root.gas_used) = (gas_limit, gas_used);
        }
        self.touched = touched;
    }

    /// Whether what happens in the innermost frame under way is to be seen.
    fn is_recorded(&self) -> bool {
        !self.overflowed && (self.depth == 1 || !self.limits.top_only)
    }

    /// Counts what is to be recorded. If there is no room for it, all that was recorded is let go.
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
    /// Whether it ended as contracts do not end themselves: there may be a place to ask for.
    pub fn ended_by_machine(&self) -> bool {
        matches!(self.ending, Ending::Ran(End::Trap(_) | End::OutOfGas))
    }

    /// Whether this or a call below it did.
    pub fn has_place(&self) -> bool {
        self.ended_by_machine() || self.calls.iter().any(Self::has_place)
    }

    /// One that begins.
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
            ending: Ending::TooDeep,
            calls: Vec::new(),
            logs: Vec::new(),
            lines: Vec::new(),
            places: Vec::new(),
        }
    }
}

impl From<&Ended> for Ending {
    fn from(ended: &Ended) -> Self {
        Self::Ran(ended.end.clone())
    }
}
