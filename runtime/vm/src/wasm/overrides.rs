//! Code for one request: `eth_call` with overridden code of an account.
//!
//! It pays the price of a deployment before any of it is read, so gas bounds the work of a request. Nothing outlives
//! the handle: no machine code in memory or on disk, and no instances.

use super::contract::CompiledContract;
use super::creation::{compressed_bytes, unpack};
use super::engine::WasmEngine;
use super::error::CompileError;
use super::gas::{self, Schedule};
use crate::price;
use crate::warm_code::CodeId;
use alloy_primitives::keccak256;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) type CodeOverrides = Arc<BTreeMap<CodeId, CompiledContract>>;

impl WasmEngine {
    /// Makes this handle and its later clones run `code` in addition to the chain's. Returns its gas, at most `gas`.
    pub fn add_override(&mut self, schedule: &'static Schedule, code: &[u8], gas: u64) -> Result<u64, CompileError> {
        let paid_so_far = |needed: u64| if needed > gas { Err(CompileError::OutOfGas { needed }) } else { Ok(needed) };
        let unpacking = paid_so_far(price::CREATE + gas::unpack_gas(compressed_bytes(code)))?;
        let wasm = unpack(code)?;
        paid_so_far(unpacking + schedule.compile_gas(wasm.len(), []))?;
        let id = CodeId::new(schedule.version, &keccak256(code));
        let contract = match self.recent(&id) {
            Some(contract) => contract,
            None => {
                self.build(schedule, &id, &wasm, gas - unpacking)
                    .map_err(|error| match error {
                        CompileError::OutOfGas { needed } => CompileError::OutOfGas { needed: unpacking + needed },
                        other => other,
                    })?
                    .contract
            }
        };
        let needed = paid_so_far(unpacking + contract.compile_gas())?;
        Arc::make_mut(&mut self.overrides).insert(id, contract);
        Ok(needed)
    }
}
