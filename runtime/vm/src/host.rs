//! The border between running WebAssembly and the rules of Ethereum's state: what one frame may ask of the world, and what
//! comes of running it.
//!
//! [`wasm`](crate::wasm) runs a module and knows nothing of journals, warm keys or refunds; the frame that implements [`Host`]
//! knows nothing of wasmtime. Between the two:
//!
//! - Units at this border are **gas**. The sub-gas scale (ink) never leaves `wasm`.
//! - Everything that touches state is priced by the [`Host`] (EIP-2200, 2929, 3529 and Ethereum's log and call prices). A method
//!   is told how much gas the frame has left and answers what the work costs; it should refuse with [`HostError::OutOfGas`] before
//!   doing expensive work, and may return a cost above what is left, which means the same.
//! - Everything that touches only the guest's memory is priced by `wasm`, before the work.
//! - Calls nest on the native stack: `run` → [`Host::call`] → `run`. How deep is limited by [`MAX_CALL_DEPTH`], which the host
//!   checks, and by [`Limits`], which the host hands from the caller's request to the callee's run unchanged.

use crate::block_reads::BlockField;
use crate::wasm::places::RawPlaces;
use alloy_primitives::{Address, B256, Bytes, U256};
pub use corniche_state::Sum;
use corniche_types::ProtocolRules;

/// Frames that may be open at once in one transaction. Ethereum's 1,024 is not reachable at 63/64 of the gas per level; this bound keeps
/// instances and native stack per transaction small. A call or creation at this depth fails without running.
pub const MAX_CALL_DEPTH: u32 = 256;

/// The block a transaction runs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockEnv {
    /// The rules the block is executed under; no contract can read them.
    pub rules: &'static ProtocolRules,
    pub chain_id: u64,
    pub number: u64,
    /// Seconds.
    pub timestamp: u64,
    pub base_fee: u64,
    pub coinbase: Address,
    pub gas_limit: u64,
    pub randomness: B256,
}

/// What does not change while a frame runs.
#[derive(Clone, Debug)]
pub struct FrameContext {
    /// Whose storage, balance and logs the frame acts on. Under a delegate call this is the caller's own address.
    pub address: Address,
    pub caller: Address,
    pub value: U256,
    pub origin: Address,
    /// Effective price of the transaction, in wei.
    pub gas_price: u128,
    /// No state may change in this frame or below it.
    pub is_static: bool,
    /// Another open frame already acts on `address`.
    pub reentrant: bool,
    /// 0 for the frame a transaction starts with.
    pub depth: u32,
    pub block: BlockEnv,
}

/// What is left of the bounds that all open frames of one transaction share. Counted by instrumentation, never by the native stack
/// or the host's memory. Opaque to the host: start a transaction with [`Limits::TRANSACTION`], and hand a callee what the request carried.
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

/// An answer and what it costs, in gas.
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

/// Why the host did not do it. The first two end the frame, the last ends the transaction and the node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    #[error("out of gas")]
    OutOfGas,
    #[error("state change in a static call")]
    StaticViolation,
    /// An invariant of our own is broken (missing code of an account, a fault in a nested frame).
    #[error("internal fault: {0}")]
    Fault(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    Call,
    /// The callee's code, the caller's address, caller and value.
    Delegate,
    /// Like a call without value, and nothing below may change state.
    Static,
}

#[derive(Clone, Debug)]
pub struct CallRequest {
    pub kind: CallKind,
    /// Whose code runs.
    pub to: Address,
    /// Zero unless the kind is `Call`.
    pub value: U256,
    pub input: Bytes,
    /// What the contract asked for; the host caps it at 63/64 of what is left after the call's own price (EIP-150) and adds the stipend.
    pub gas_wanted: u64,
    /// What the calling frame has left.
    pub gas_left: u64,
    pub limits: Limits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallStatus {
    Success,
    /// Ended by the callee with data; its unused gas came back.
    Revert,
    /// Out of gas, trapped, too deep or unaffordable.
    Failure,
}

#[derive(Clone, Debug)]
pub struct CallReturn {
    pub status: CallStatus,
    /// Return or revert data; empty on failure.
    pub output: Bytes,
    /// To deduct from the caller: the call's own price and what the callee used.
    pub gas: u64,
}

#[derive(Clone, Debug)]
pub struct CreateRequest {
    pub value: U256,
    /// Creation data in any of the shapes of [`parse_creation`](crate::wasm::parse_creation).
    pub code: Bytes,
    /// CREATE2 when present.
    pub salt: Option<B256>,
    pub gas_left: u64,
    pub limits: Limits,
}

#[derive(Clone, Debug)]
pub struct CreateReturn {
    /// `None` when the creation failed.
    pub address: Option<Address>,
    /// Revert data of a constructor that reverted, otherwise empty.
    pub output: Bytes,
    pub gas: u64,
}

/// What a transaction's history has made ready for the start of a frame. It decides the price, and depends on nothing that differs
/// between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// The code ran before, and an instance of it waits.
    Warm,
    /// The code ran before, but it also runs in a frame further out, so this start needs another instance.
    Nested,
    /// The code has to be loaded.
    Cold,
}

/// One frame's view of the world. See the module's documentation for who charges what.
///
/// After any `Err` the frame ends and the host rolls back what it did, so a method may leave changes behind it when it fails.
pub trait Host {
    fn context(&self) -> &FrameContext;

    /// The block, for a frame that is about to see a field of it.
    fn block(&mut self, _field: BlockField) -> &BlockEnv {
        &self.context().block
    }

    /// What the transaction has made ready for the start of this frame.
    fn code_readiness(&self) -> Readiness {
        Readiness::Warm
    }

    /// The start is paid for: from now on the code is warm, whatever becomes of the frame.
    fn code_is_paid(&mut self) {}

    /// SLOAD.
    fn storage_load(&mut self, key: &B256, gas_left: u64) -> Result<Charged<B256>, HostError>;
    /// SSTORE, with EIP-2200's refusal to run on the stipend alone. Fails in a static frame.
    fn storage_store(&mut self, key: &B256, value: &B256, gas_left: u64) -> Result<Charged<()>, HostError>;
    /// Adds to the number in a slot if the sum is at most `bound`, or takes away if the rest is at least `bound`, without reading
    /// it (D8); answers whether it did. Exact in 256 bits. Fails in a static frame.
    fn storage_count(&mut self, key: &B256, change: Sum, bound: &U256, gas_left: u64) -> Result<Charged<bool>, HostError>;
    /// The hash of the certified header with this number, if it can be had in the running block: an SLOAD of where it lies. A host
    /// without a chain has none.
    fn certified_hash(&mut self, _number: u64, _gas_left: u64) -> Result<Charged<Option<B256>>, HostError> {
        Ok(Charged::new(None, 0))
    }
    /// TLOAD.
    fn transient_load(&mut self, key: &B256, gas_left: u64) -> Result<Charged<B256>, HostError>;
    /// TSTORE. Fails in a static frame.
    fn transient_store(&mut self, key: &B256, value: &B256, gas_left: u64) -> Result<Charged<()>, HostError>;
    /// LOG0 to LOG4; never more than four topics. Fails in a static frame.
    fn emit_log(&mut self, topics: Vec<B256>, data: Bytes, gas_left: u64) -> Result<Charged<()>, HostError>;

    /// BALANCE.
    fn balance(&mut self, address: &Address, gas_left: u64) -> Result<Charged<U256>, HostError>;
    /// EXTCODECOPY without its price per word, which `wasm` charges for what it copies.
    fn code(&mut self, address: &Address, gas_left: u64) -> Result<Charged<Bytes>, HostError>;
    /// EXTCODEHASH: zero for an account that does not exist.
    fn code_hash(&mut self, address: &Address, gas_left: u64) -> Result<Charged<B256>, HostError>;

    /// CALL, DELEGATECALL, STATICCALL. A value in a static frame is a `StaticViolation`.
    fn call(&mut self, request: CallRequest) -> Result<CallReturn, HostError>;
    /// CREATE, CREATE2. Fails in a static frame.
    fn create(&mut self, request: CreateRequest) -> Result<CreateReturn, HostError>;

    /// The contract says something that shows in traces and nowhere else.
    fn say(&mut self, _text: &[u8]) {}

    /// The run fails here; told by machines that know it. Shows in traces and nowhere else.
    fn failed_at(&mut self, _places: RawPlaces) {}

    /// Told of every host call after it was charged and done; the one place tracing hangs on.
    fn trace(&mut self, _event: &HostCallEvent) {}
}

/// A host call as a tracer sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostCallEvent {
    pub name: &'static str,
    pub ink_before: u64,
    pub ink_after: u64,
}

/// Why a frame that did not end by itself ended. All of these are part of the chain's rules: same module, same input, same trap.
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

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// Keep the changes.
    Return,
    /// Roll back; the output is the reason, unused gas comes back.
    Revert,
    /// Roll back; no gas is left.
    OutOfGas,
    /// Roll back; no gas is left.
    Trap(Trap),
    /// A fault of this node, not of the contract: stop, never turn it into a receipt.
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
