//! Code that is there for one request: what somebody who tries a call out supposes an account to hold.
//!
//! It pays for being made ready what its deployment would, before anything of it is read, so that what a request can ask of a node is
//! bounded by gas. Nothing of it outlives the handle: neither machine code, in memory or on disk, nor instances.

use super::contract::CompiledContract;
use super::creation::{compressed_bytes, unpack};
use super::engine::{CompileError, WasmEngine};
use super::gas;
use crate::price;
use alloy_primitives::{B256, keccak256};
use std::collections::BTreeMap;
use std::sync::Arc;

/// By the hash of the code.
pub(super) type Supposed = Arc<BTreeMap<B256, CompiledContract>>;

impl WasmEngine {
    /// Has this handle, and clones of it to come, run `code` besides what the chain has. Answers the gas that it costs, at most `gas`.
    pub fn suppose(&mut self, code: &[u8], gas: u64) -> Result<u64, CompileError> {
        let paid_so_far = |needed: u64| if needed > gas { Err(CompileError::OutOfGas { needed }) } else { Ok(needed) };
        let unpacking = paid_so_far(price::CREATE + gas::unpack_gas(compressed_bytes(code)))?;
        let wasm = unpack(code)?;
        paid_so_far(unpacking + gas::compile_gas(wasm.len(), []))?;
        let code_hash = keccak256(code);
        let contract = match self.recent(&code_hash) {
            Some(contract) => contract,
            None => {
                self.build(&code_hash, &wasm, gas - unpacking)
                    .map_err(|error| match error {
                        CompileError::OutOfGas { needed } => CompileError::OutOfGas { needed: unpacking + needed },
                        other => other,
                    })?
                    .contract
            }
        };
        let needed = paid_so_far(unpacking + contract.compile_gas())?;
        Arc::make_mut(&mut self.supposed).insert(code_hash, contract);
        Ok(needed)
    }
}
