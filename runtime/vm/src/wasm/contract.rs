//! A compiled module with the facts that a run needs.
//!
//! The artefact contains both, so loading it reads no WebAssembly: nothing is unpacked or validated again.
//!
//! ```text
//! artefact   facts (borsh) ‖ machine code of wasmtime
//! ```

use super::error::{CompileError, fault};
use super::gas::{self, INK_PER_GAS, Schedule};
use super::hostcalls::Frame;
use super::image::Image;
use super::instance::Exports;
use super::stack::NativeStack;
use super::validate::ValidModule;
use crate::host::{Entry, Exit, ExitStatus, Limits, Readiness, Trap};
use crate::warm_code::CodeId;
use alloy_primitives::B256;
use borsh::{BorshDeserialize, BorshSerialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wasmtime::{InstancePre, Linker, Module};

/// A loaded module also takes three of the process' mappings, of which Linux allows 65,530. So small ones count as this
/// many bytes, and the default caches keep about 5,000 at most.
const MIN_BYTES: usize = 64 << 10;

/// More gas than this is not metered but handed back: ink has 63 bits.
const MAX_METERED_GAS: u64 = i64::MAX as u64 / INK_PER_GAS / 2;

/// Facts that determine the price of a frame's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub(super) struct Start {
    pub unpacked_bytes: u32,
    /// Includes imported functions.
    pub functions: u32,
    pub initial_pages: u32,
}

/// A frame whose start was paid.
pub(super) struct PaidStart {
    pub ink: u64,
    pub limits: Limits,
    /// Gas that is not metered: always returned.
    pub unmetered: u64,
}

impl Start {
    /// Pays for the start; returns the remaining gas and limits, or an error if the gas does not suffice.
    pub fn charge(self, schedule: &Schedule, entry: &Entry, readiness: Readiness) -> Result<PaidStart, Exit> {
        let metered = entry.gas.min(MAX_METERED_GAS);
        let Self { functions, initial_pages, .. } = self;
        let bytes = self.unpacked_bytes as usize;
        let preparing = match readiness {
            Readiness::Warm => 0,
            Readiness::Nested => schedule.nested_ink(initial_pages),
            Readiness::Cold => schedule.cold_ink(bytes, functions, initial_pages),
        };
        let price = gas::start_ink(bytes, initial_pages) + preparing;
        let ink = (metered * INK_PER_GAS).checked_sub(price).ok_or_else(|| Exit::failed(ExitStatus::OutOfGas))?;
        let pages = entry.limits.memory_pages.checked_sub(initial_pages);
        let memory_pages = pages.ok_or_else(|| Exit::failed(ExitStatus::Trap(Trap::MemoryExhausted)))?;
        let limits = Limits { stack_words: entry.limits.stack_words, memory_pages };
        Ok(PaidStart { ink, limits, unmetered: entry.gas - metered })
    }
}

/// Results of validation.
#[derive(BorshSerialize, BorshDeserialize)]
pub(super) struct ModuleFacts {
    start: Start,
    compile_gas: u64,
    native_stack: NativeStack,
    image: Image,
}

impl ModuleFacts {
    pub fn of(checked: &ValidModule<'_>) -> Result<Self, CompileError> {
        let unpacked_bytes = u32::try_from(checked.wasm.len()).map_err(|_| CompileError::Fault("it is too large".into()))?;
        let functions = checked.imported_functions + checked.defined_functions;
        let start = Start { unpacked_bytes, functions, initial_pages: checked.initial_pages };
        let native_stack = NativeStack::of(&checked.frames);
        Ok(Self { start, compile_gas: checked.compile_gas(), native_stack, image: Image::of(checked)? })
    }

    /// Returns an artefact of these facts and `machine_code`.
    pub fn with(&self, machine_code: &[u8]) -> Result<Vec<u8>, CompileError> {
        let mut artefact = borsh::to_vec(self).map_err(|error| CompileError::Fault(error.to_string()))?;
        artefact.extend_from_slice(machine_code);
        Ok(artefact)
    }

    /// Splits an artefact into facts and machine code.
    pub fn split(mut artefact: &[u8]) -> Option<(Self, &[u8])> {
        let facts = Self::deserialize(&mut artefact).ok()?;
        Some((facts, artefact))
    }
}

/// A module ready to run. Cheap to clone.
#[derive(Clone)]
pub struct CompiledContract {
    inner: Arc<Compiled>,
}

struct Compiled {
    schedule: &'static Schedule,
    id: CodeId,
    /// Set by runs; see [`ContractCache::insert`](super::cache::ContractCache::insert).
    used: AtomicBool,
    pre: InstancePre<Frame>,
    exports: Exports,
    facts: ModuleFacts,
    machine_code_bytes: usize,
}

impl CompiledContract {
    pub(super) fn link(
        linker: &Linker<Frame>,
        schedule: &'static Schedule,
        id: &CodeId,
        module: &Module,
        facts: ModuleFacts,
    ) -> Result<Self, CompileError> {
        let lacks = |name| CompileError::Fault(format!("the instrumented module lacks {name}"));
        let code = module.image_range();
        Ok(Self {
            inner: Arc::new(Compiled {
                schedule,
                id: *id,
                used: AtomicBool::new(false),
                pre: linker.instantiate_pre(module).map_err(fault)?,
                exports: Exports::of(module).map_err(lacks)?,
                facts,
                machine_code_bytes: code.end as usize - code.start as usize,
            }),
        })
    }

    /// Gas that a deployment of this module pays for compilation.
    pub fn compile_gas(&self) -> u64 {
        self.inner.facts.compile_gas
    }

    pub(super) fn schedule(&self) -> &'static Schedule {
        self.inner.schedule
    }

    pub(super) fn code_hash(&self) -> B256 {
        self.inner.id.hash
    }

    pub(super) fn id(&self) -> &CodeId {
        &self.inner.id
    }

    pub(super) fn start(&self) -> Start {
        self.inner.facts.start
    }

    pub(super) fn native_stack(&self) -> NativeStack {
        self.inner.facts.native_stack
    }

    /// Memory for keeping the contract, in bytes. At least [`MIN_BYTES`].
    pub(super) fn bytes(&self) -> usize {
        (self.inner.machine_code_bytes + self.image().bytes()).max(MIN_BYTES)
    }

    pub(super) fn parts(&self) -> (&InstancePre<Frame>, &Exports) {
        (&self.inner.pre, &self.inner.exports)
    }

    /// Marks the contract as used. Writes the flag only once, so threads do not contend for its cache line.
    pub(super) fn mark_used(&self) {
        if !self.inner.used.load(Ordering::Relaxed) {
            self.inner.used.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn take_used(&self) -> bool {
        self.inner.used.swap(false, Ordering::Relaxed)
    }

    pub(super) fn image(&self) -> &Image {
        &self.inner.facts.image
    }
}
