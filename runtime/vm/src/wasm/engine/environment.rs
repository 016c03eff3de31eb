//! Everything except the code that an artefact depends on.

use crate::wasm::contract::ModuleFacts;
use crate::wasm::error::CompileError;
use crate::wasm::gas::{self, Schedule};
use crate::wasm::instrument;
use crate::wasm::validate::{self, Rules};
use alloy_primitives::{B256, keccak256};
use corniche_abi::ABI_VERSION;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use wasmtime::Engine;

/// A module with every permitted instruction; `every_construct.wat` is its source.
pub(in crate::wasm) const EVERY_CONSTRUCT: &[u8] = include_bytes!("../every_construct.wasm");

/// Returns the hashes of everything except the code that an artefact depends on, by gas version.
pub(super) fn environments(engine: &Engine) -> Result<BTreeMap<u8, B256>, CompileError> {
    // Covers wasmtime's version, its settings and the processor's features.
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    let compiler = hasher.finish();
    gas::ALL.iter().map(|schedule| Ok((schedule.version, environment(compiler, schedule, &emitted(schedule)?)))).collect()
}

/// `emitted` covers the rules that no table contains: results of validation, and code added by instrumentation.
pub(in crate::wasm) fn environment(compiler: u64, schedule: &Schedule, emitted: &[u8]) -> B256 {
    let text = format!("corniche {ABI_VERSION} {}", env!("CARGO_PKG_VERSION"));
    keccak256([text.as_bytes(), gas::describe(schedule).as_bytes(), &compiler.to_le_bytes(), emitted].concat())
}

/// Returns the compilers' input for [`EVERY_CONSTRUCT`], and the facts stored with their output.
pub(in crate::wasm) fn emitted(schedule: &'static Schedule) -> Result<Vec<u8>, CompileError> {
    let checked = validate::check_with_schedule(schedule, Rules::DEVELOPMENT, EVERY_CONSTRUCT)?;
    ModuleFacts::of(&checked)?.with(&instrument::instrument(&checked)?)
}
