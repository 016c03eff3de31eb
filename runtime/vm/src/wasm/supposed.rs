//! Code that is there for one request: what somebody who tries a call out supposes an account to hold.
//!
//! It pays for being made ready what its deployment would, before anything of it is read, so that what a request can ask of a node is
//! bounded by gas. Nothing of it outlives the handle: neither machine code, in memory or on disk, nor instances.

use super::contract::{CodeId, CompiledContract};
use super::creation::{compressed_bytes, unpack};
use super::engine::{CompileError, WasmEngine};
use super::gas::{self, Schedule};
use crate::price;
use alloy_primitives::keccak256;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) type Supposed = Arc<BTreeMap<CodeId, CompiledContract>>;

impl WasmEngine {
    /// Has this handle, and clones of it to come, run `code` besides what the chain has. Answers the gas that it costs, at most `gas`.
    pub fn suppose(&mut self, schedule: &'static Schedule, code: &[u8], gas: u64) -> Result<u64, CompileError> {
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
        Arc::make_mut(&mut self.supposed).insert(id, contract);
        Ok(needed)
    }
}
