//! Interface between running WebAssembly and the rules of Ethereum's state: requests of a frame, and the result of
//! running it.
//!
//! `wasm` runs a module and has no access to journals, warm keys or refunds. The frame that implements
//! [`Host`] does not use wasmtime. Rules of the interface:
//!
//! - Units are **gas**. The finer unit, ink, is used only in `wasm`.
//! - The [`Host`] prices everything that touches state (EIP-2200, 2929, 3529 and Ethereum's log and call prices). A
//!   method receives the frame's remaining gas and returns the cost. It should return [`HostError::OutOfGas`] before
//!   expensive work. It may also return a cost above the remaining gas, which has the same effect.
//! - `wasm` prices everything that touches only the guest's memory, before the work.
//! - Calls nest on the native stack: `run` → [`Host::call`] → `run`. The depth is limited by [`MAX_CALL_DEPTH`], which
//!   the host checks, and by [`Limits`], which the host passes unchanged from the caller's request to the callee's run.

use crate::backtrace::RawBacktrace;
pub use crate::block_reads::BlockEnv;
use crate::block_reads::BlockField;
use alloy_primitives::{Address, B256, Bytes, U256};
pub use corniche_state::Delta;

/// Maximum number of open frames in one transaction. Ethereum's limit of 1,024 is not reachable with 63/64 of the gas
/// per level; this limit keeps a transaction's instances and native stack small. A call or creation at this depth fails
/// without running.
pub const MAX_CALL_DEPTH: u32 = 256;

/// Values that are constant while a frame runs.
#[derive(Clone, Debug)]
pub struct FrameContext {
    /// Account whose storage, balance and logs the frame uses. In a delegate call it is the caller's own address.
    pub address: Address,
    pub caller: Address,
    pub value: U256,
    pub origin: Address,
    /// Effective gas price of the transaction in wei.
    pub gas_price: u128,
    /// True if no state may change in this frame or below it.
    pub is_static: bool,
    /// True if another open frame already acts on `address`.
    pub reentrant: bool,
    /// 0 for the transaction's first frame.
    pub depth: u32,
    pub block: BlockEnv,
}

/// Remaining limits shared by all open frames of a transaction. Instrumentation counts them, independent of native
/// stack and host memory. Opaque to the host: start a transaction with [`Limits::TRANSACTION`], and pass a request's
/// limits to the callee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Words of counted stack.
    pub(crate) stack_words: u32,
    /// Pages of linear memory.
    pub(crate) memory_pages: u32,
}

impl Limits {
    pub const TRANSACTION: Self = Self { stack_words: 65_536, memory_pages: 2_048 };
}

/// A frame's input, gas and limits.
#[derive(Clone, Debug)]
pub struct Entry {
    pub input: Bytes,
    pub gas: u64,
    pub limits: Limits,
}

/// A result and its cost in gas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charged<T> {
    pub value: T,
    pub gas: u64,
}

impl<T> Charged<T> {
    pub fn new(value: T, gas: u64) -> Self {
        Self { value, gas }
    }
}

/// Why a host method failed. All end the frame; a fault also ends the transaction and the node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    #[error("out of gas")]
    OutOfGas,
    #[error("state change in a static call")]
    StaticViolation,
    /// A broken invariant of the node (missing code of an account, a fault in a nested frame).
    #[error("internal fault: {0}")]
    Fault(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    Call,
    /// Runs the callee's code with the caller's address, caller and value.
    Delegate,
    /// A call without value, below which no state may change.
    Static,
}

#[derive(Clone, Debug)]
pub struct CallRequest {
    pub kind: CallKind,
    /// Account whose code runs.
    pub to: Address,
    /// Zero unless the kind is `Call`.
    pub value: U256,
    pub input: Bytes,
    /// Gas requested by the contract. The host limits it to 63/64 of what remains after the call's own price (EIP-150),
    /// and adds the stipend.
    pub gas_wanted: u64,
    /// Remaining gas of the calling frame.
    pub gas_left: u64,
    pub limits: Limits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallStatus {
    Success,
    /// The callee ended with revert data; its unused gas was returned.
    Revert,
    /// Out of gas, trapped, too deep or insufficient balance.
    Failure,
}

#[derive(Clone, Debug)]
pub struct CallReturn {
    pub status: CallStatus,
    /// Return or revert data; empty on failure.
    pub output: Bytes,
    /// Cost for the caller: the call's own price and the callee's gas.
    pub gas: u64,
}

#[derive(Clone, Debug)]
pub struct CreateRequest {
    pub value: U256,
    /// Creation data in any form that `parse_creation` accepts.
    pub code: Bytes,
    /// CREATE2 if present.
    pub salt: Option<B256>,
    pub gas_left: u64,
    pub limits: Limits,
}

#[derive(Clone, Debug)]
pub struct CreateReturn {
    /// `None` if the creation failed.
    pub address: Option<Address>,
    /// Revert data if the constructor reverted, otherwise empty.
    pub output: Bytes,
    pub gas: u64,
}

/// State of a frame's code before its start, which determines the price. It follows from the transaction's history
/// only, never from a node's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// The code ran before, and no open frame runs it.
    Warm,
    /// The code ran before and also runs in an outer frame, so this start needs another instance.
    Nested,
    /// The code must be loaded.
    Cold,
}

/// A frame's access to the world. The module's documentation defines who charges for what.
///
/// After any `Err` the frame ends and the host reverts its changes, so a failing method may leave partial changes.
pub trait Host {
    fn context(&self) -> &FrameContext;

    /// Returns the block, for a frame that reads this field of it.
    fn block(&mut self, _field: BlockField) -> &BlockEnv {
        &self.context().block
    }

    /// Returns the state of this frame's code before its start.
    fn code_readiness(&self) -> Readiness {
        Readiness::Warm
    }

    /// Called when the start has been paid. From now on the code is warm, even if the frame fails.
    fn mark_code_paid(&mut self) {}

    /// SLOAD.
    fn storage_load(&mut self, key: &B256, gas_left: u64) -> Result<Charged<B256>, HostError>;
    /// SSTORE, with EIP-2200's rule against running on the stipend alone. Fails in a static frame.
    fn storage_store(&mut self, key: &B256, value: &B256, gas_left: u64) -> Result<Charged<()>, HostError>;
    /// Adds to the number in a slot if the sum is at most `bound`, or subtracts if the difference is at least `bound`,
    /// without reading the slot (D8). Returns whether it did. Exact in 256 bits. Fails in a static frame.
    fn storage_count(&mut self, key: &B256, change: Delta, bound: &U256, gas_left: u64) -> Result<Charged<bool>, HostError>;
    /// Returns the hash of the certified header with this number, if the running block may read it. Costs an SLOAD of
    /// its slot. A host without a chain returns `None`.
    fn certified_hash(&mut self, _number: u64, _gas_left: u64) -> Result<Charged<Option<B256>>, HostError> {
        Ok(Charged::new(None, 0))
    }
    /// TLOAD.
    fn transient_load(&mut self, key: &B256, gas_left: u64) -> Result<Charged<B256>, HostError>;
    /// TSTORE. Fails in a static frame.
    fn transient_store(&mut self, key: &B256, value: &B256, gas_left: u64) -> Result<Charged<()>, HostError>;
    /// LOG0 to LOG4; at most four topics. Fails in a static frame.
    fn emit_log(&mut self, topics: Vec<B256>, data: Bytes, gas_left: u64) -> Result<Charged<()>, HostError>;

    /// BALANCE.
    fn balance(&mut self, address: &Address, gas_left: u64) -> Result<Charged<U256>, HostError>;
    /// EXTCODECOPY without its price per word, which `wasm` charges for the copied bytes.
    fn code(&mut self, address: &Address, gas_left: u64) -> Result<Charged<Bytes>, HostError>;
    /// EXTCODEHASH: zero for a missing account.
    fn code_hash(&mut self, address: &Address, gas_left: u64) -> Result<Charged<B256>, HostError>;

    /// CALL, DELEGATECALL, STATICCALL. A value in a static frame is a `StaticViolation`.
    fn call(&mut self, request: CallRequest) -> Result<CallReturn, HostError>;
    /// CREATE, CREATE2. Fails in a static frame.
    fn create(&mut self, request: CreateRequest) -> Result<CreateReturn, HostError>;

    /// Console output of the contract, which only traces show.
    fn console_log(&mut self, _text: &[u8]) {}

    /// Location where the run failed, from engines that record it. Only traces show it.
    fn record_failure(&mut self, _backtrace: RawBacktrace) {}

    /// Called after every host call, when it has been charged and executed; the only hook for tracing.
    fn trace(&mut self, _event: &HostCallEvent) {}
}

/// A host call, for tracing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostCallEvent {
    pub name: &'static str,
    pub ink_before: u64,
    pub ink_after: u64,
}

/// Why the machine ended a frame. Traps are part of the chain's rules: module and input determine the trap.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trap {
    #[error("unreachable executed")]
    Unreachable,
    #[error("memory access out of bounds")]
    MemoryOutOfBounds,
    #[error("integer division by zero")]
    DivisionByZero,
    #[error("integer overflow")]
    IntegerOverflow,
    #[error("undefined or null table element called")]
    BadTableElement,
    #[error("indirect call to a function of another type")]
    BadSignature,
    #[error("counted stack exhausted")]
    StackExhausted,
    #[error("the transaction's open frames hold too much memory")]
    MemoryExhausted,
    #[error("state change in a static call")]
    StaticViolation,
    #[error("{0}: invalid argument")]
    BadHostCall(&'static str),
}

/// How a frame ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// Keep the changes.
    Return,
    /// Revert the changes. The output is the reason, and unused gas is returned.
    Revert,
    /// Revert the changes; no gas remains.
    OutOfGas,
    /// Revert the changes; no gas remains.
    Trap(Trap),
    /// A fault of this node, not of the contract: stop, and never put it into a receipt.
    Fault(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    pub status: ExitStatus,
    pub output: Bytes,
    /// Zero unless the contract returned or reverted.
    pub gas_left: u64,
}

impl Exit {
    pub fn failed(status: ExitStatus) -> Self {
        Self { status, output: Bytes::new(), gas_left: 0 }
    }
}
