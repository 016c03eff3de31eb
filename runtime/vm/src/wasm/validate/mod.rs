//! Validation of modules.
//!
//! One pass makes two checks: wasmparser validates the module as WebAssembly, and our own rules restrict it to
//! deterministic, bounded and priced features. A refusal names the feature or instruction and its function, by index
//! and, if the module has a name section, by name.
//!
//! Invariants of a [`ValidModule`] module: every instruction has a price. Only `i32` and `i64` exist. It has one memory of
//! at most [`MAX_MEMORY_PAGES`] and at most one table, which is initialised once. Every import is in the host-call
//! table with its exact signature (`console` only if [`Rules`] permit it). Segments are within memory and table, so
//! instantiation cannot trap. Nothing runs before a call of the entrypoint.
//!
//! The rules are part of the protocol: all nodes accept the same modules. wasmparser's own checks are those of the
//! WebAssembly specification; upgrades of it must pass the refusal suite in `tests/`.
//!
//! Two close decisions. The *encoding* of `call_indirect` from the reference-types proposal (a padded table index) is
//! accepted, since stable rustc generates it; every instruction and type of that proposal is refused. Functions and
//! blocks with several results are refused: no compiler of contracts generates them, and they can be permitted later
//! but not withdrawn.

mod error;
mod function;
mod limits;
mod names;
mod sections;
mod slots;

pub use error::{FunctionRef, ValidationError};
pub use limits::*;
pub use names::function_names;
pub use slots::SLOTS_PER_WORD;

use super::gas::{self, Schedule};
use super::instrument::UNCOUNTED_LEAF_WORDS;
use super::stack::BYTES_PER_WORD;
use corniche_abi::{ENTRYPOINT_EXPORT, MEMORY_EXPORT, ValueType};
use error::malformed;
use names::first_uses;
use std::collections::BTreeMap;
use wasmparser::{FuncType, FuncValidatorAllocations, Parser, Payload, ValType, ValidPayload, Validator, WasmFeatures};

/// A valid module, with data for instrumentation.
#[derive(Clone, Debug)]
pub struct ValidModule<'a> {
    pub wasm: &'a [u8],
    pub imported_functions: u32,
    pub defined_functions: u32,
    pub types: u32,
    pub globals: u32,
    pub initial_pages: u32,
    pub maximum_pages: u32,
    /// One per defined function, in order.
    pub frames: Vec<Frame>,
    /// Gas schedule of the validation.
    pub schedule: &'static Schedule,
}

impl ValidModule<'_> {
    /// Returns the gas of compiling the module at its deployment.
    pub fn compile_gas(&self) -> u64 {
        self.schedule.compile_gas(self.wasm.len(), &self.frames)
    }
}

/// Resources of one function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    pub parameters: u32,
    /// Declared locals without parameters.
    pub locals: u32,
    pub max_operands: u32,
    /// Branches and their targets.
    pub joins: u32,
    pub result: Option<ValueType>,
    /// True if it makes no calls, so nothing is above its frame.
    pub is_leaf: bool,
    /// Values that may need their own stack slots, in addition to parameters and locals; see [`slots`].
    pub slots: u32,
    /// True if words include slots; see [`Schedule::counts_slots`].
    pub counts_slots: bool,
}

impl Frame {
    /// Returns the words of counted stack. Gas version 1 counts all values that can be alive at once and a fixed share
    /// for the compiler's additions, which does not bound the compiled frame. Later versions count
    /// [`Self::bounding_words`].
    pub fn words(&self) -> u32 {
        if self.counts_slots { self.bounding_words() } else { self.alive() }
    }

    fn alive(&self) -> u32 {
        16 + self.parameters + self.locals + self.max_operands
    }

    /// Returns a number of words of [`BYTES_PER_WORD`] bytes that no compiler here exceeds.
    pub fn bounding_words(&self) -> u32 {
        self.alive() + self.slots.div_ceil(SLOTS_PER_WORD)
    }

    /// Returns the words that the function takes at entry; `None` if it takes none, because it makes no calls and is
    /// small.
    pub fn counted_words(&self) -> Option<u32> {
        (!self.is_leaf || self.words() > UNCOUNTED_LEAF_WORDS).then(|| self.words())
    }

    /// Returns a number of bytes of native stack that no compiler here exceeds.
    pub fn native_bytes(&self) -> u32 {
        BYTES_PER_WORD as u32 * self.bounding_words()
    }
}

/// Rules that differ between chains. They follow from the genesis, so all nodes of a chain have equal rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// True on a development chain: contracts may import `console`.
    pub console: bool,
}

impl Rules {
    pub const DEVELOPMENT: Self = Self { console: true };
}

/// Validates a module for chains that are not for development, under the latest gas version. Linear in its size.
pub fn check(wasm: &[u8]) -> Result<ValidModule<'_>, ValidationError> {
    check_with_rules(Rules::default(), wasm)
}

/// Validates a module by the rules of any chain, under the latest gas version.
pub fn check_with_rules(rules: Rules, wasm: &[u8]) -> Result<ValidModule<'_>, ValidationError> {
    check_with_schedule(gas::LATEST, rules, wasm)
}

/// Validates a module by the rules of any chain, under any gas version.
pub fn check_with_schedule<'a>(
    schedule: &'static Schedule,
    rules: Rules,
    wasm: &'a [u8],
) -> Result<ValidModule<'a>, ValidationError> {
    if wasm.len() > MAX_MODULE_BYTES {
        return Err(ValidationError::TooLarge { size: wasm.len(), limit: MAX_MODULE_BYTES });
    }
    let mut checker = ModuleValidator::new(schedule, rules, wasm);
    for payload in parser().parse_all(wasm) {
        checker.payload(payload.map_err(malformed)?)?;
    }
    checker.finish()
}

/// Features that rustc and clang generate for contracts, and nothing more. `GC_TYPES` only lets wasmparser represent
/// `funcref`.
fn features() -> WasmFeatures {
    WasmFeatures::MUTABLE_GLOBAL
        | WasmFeatures::SIGN_EXTENSION
        | WasmFeatures::BULK_MEMORY
        | WasmFeatures::CALL_INDIRECT_OVERLONG
        | WasmFeatures::GC_TYPES
}

pub(super) fn parser() -> Parser {
    let mut parser = Parser::new(0);
    // The parser accepts more than is permitted, so that a refusal can name the instruction; the validator is strict.
    parser.set_features(WasmFeatures::all());
    parser
}

struct ModuleValidator<'a> {
    schedule: &'static Schedule,
    rules: Rules,
    wasm: &'a [u8],
    names: BTreeMap<u32, String>,
    /// First function of each type, by type index.
    first_uses: BTreeMap<u32, u32>,
    validator: Validator,
    allocations: FuncValidatorAllocations,
    types: Vec<FuncType>,
    /// Type index of every function; imported functions come first.
    function_types: Vec<u32>,
    imported_functions: u32,
    defined_functions: u32,
    globals: u32,
    memory: Option<(u32, u32)>,
    table: Option<u64>,
    exports_memory: bool,
    entrypoint: Option<u32>,
    frames: Vec<Frame>,
}

impl<'a> ModuleValidator<'a> {
    fn new(schedule: &'static Schedule, rules: Rules, wasm: &'a [u8]) -> Self {
        Self {
            schedule,
            rules,
            wasm,
            names: function_names(wasm),
            first_uses: first_uses(wasm),
            validator: Validator::new_with_features(features()),
            allocations: FuncValidatorAllocations::default(),
            types: Vec::new(),
            function_types: Vec::new(),
            imported_functions: 0,
            defined_functions: 0,
            globals: 0,
            memory: None,
            table: None,
            exports_memory: false,
            entrypoint: None,
            frames: Vec::new(),
        }
    }

    fn place(&self, index: u32) -> FunctionRef {
        FunctionRef { index, name: self.names.get(&index).cloned() }
    }

    /// Our rules come first, because their messages refer to the contract and not to offsets; then wasmparser's.
    fn payload(&mut self, payload: Payload<'a>) -> Result<(), ValidationError> {
        self.check_limits(&payload)?;
        if let ValidPayload::Func(function, body) = self.validator.payload(&payload).map_err(malformed)? {
            let allocations = std::mem::take(&mut self.allocations);
            let mut validator = function.into_validator(allocations);
            self.function(&body, &mut validator)?;
            self.allocations = validator.into_allocations();
        }
        Ok(())
    }

    fn finish(mut self) -> Result<ValidModule<'a>, ValidationError> {
        let Some((initial_pages, maximum_pages)) = self.memory.take() else {
            return Err(ValidationError::Export(MEMORY_EXPORT, "the module has no memory"));
        };
        if !self.exports_memory {
            return Err(ValidationError::Export(MEMORY_EXPORT, "the memory must be exported under this name"));
        }
        let entrypoint = self.entrypoint.ok_or(ValidationError::Export(ENTRYPOINT_EXPORT, "there is no such function"))?;
        if entrypoint < self.imported_functions {
            return Err(ValidationError::Export(ENTRYPOINT_EXPORT, "it must not be an imported function"));
        }
        let ty = self.function_types.get(entrypoint as usize).and_then(|ty| self.types.get(*ty as usize));
        if !ty.is_some_and(|ty| ty.params() == [ValType::I32] && ty.results() == [ValType::I32]) {
            return Err(ValidationError::Export(ENTRYPOINT_EXPORT, "its type must be (i32) -> i32"));
        }
        Ok(ValidModule {
            wasm: self.wasm,
            imported_functions: self.imported_functions,
            defined_functions: self.defined_functions,
            types: self.types.len() as u32,
            globals: self.globals,
            initial_pages,
            maximum_pages,
            frames: self.frames,
            schedule: self.schedule,
        })
    }
}

/// An error is the name of the feature of a refused type.
fn value_type(ty: ValType) -> Result<ValueType, &'static str> {
    match ty {
        ValType::I32 => Ok(ValueType::I32),
        ValType::I64 => Ok(ValueType::I64),
        ValType::F32 | ValType::F64 => Err("floating-point values"),
        ValType::V128 => Err("vectors (SIMD)"),
        ValType::Ref(_) => Err("reference types"),
    }
}

fn wasm_type(ty: ValueType) -> ValType {
    match ty {
        ValueType::I32 => ValType::I32,
        ValueType::I64 => ValType::I64,
    }
}
