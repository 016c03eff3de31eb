//! Code becomes a contract: from memory, from the cache of artefacts, or compiled.

use super::WasmEngine;
use crate::warm_code::CodeId;
use crate::wasm::cache::{seal, unseal};
use crate::wasm::config::Purpose;
use crate::wasm::contract::{CompiledContract, ModuleFacts};
use crate::wasm::creation::unpack;
use crate::wasm::error::{CompileError, fault};
use crate::wasm::gas::{self, Schedule};
use crate::wasm::{instrument, start_cache, validate};
use alloy_primitives::{B256, Bytes, keccak256};
use wasmtime::Module;

/// A compiled module.
pub(in crate::wasm) struct CompiledModule {
    pub contract: CompiledContract,
    /// Artefact to store; `None` if it was loaded from storage.
    artefact: Option<Vec<u8>>,
}

fn affordable(needed: u64, gas: u64) -> Result<(), CompileError> {
    if needed > gas { Err(CompileError::OutOfGas { needed }) } else { Ok(()) }
}

impl WasmEngine {
    /// Returns an account's code ready to run: from memory, from the cache of artefacts, or compiled. Uses the latest
    /// gas version.
    pub fn contract(&self, code_hash: &B256, stored_code: &[u8]) -> Result<CompiledContract, CompileError> {
        self.contract_under(gas::LATEST, code_hash, stored_code)
    }

    /// Like [`contract`](Self::contract), for any gas version.
    pub fn contract_under(
        &self,
        schedule: &'static Schedule,
        code_hash: &B256,
        stored_code: &[u8],
    ) -> Result<CompiledContract, CompileError> {
        self.ready(schedule, code_hash, &|| Some(Bytes::copy_from_slice(stored_code)))
    }

    /// Stored code was validated once, so its artefact's facts are trusted. The code itself is loaded only without an
    /// artefact.
    pub(in crate::wasm) fn ready(
        &self,
        schedule: &'static Schedule,
        code_hash: &B256,
        stored_code: &dyn Fn() -> Option<Bytes>,
    ) -> Result<CompiledContract, CompileError> {
        let id = CodeId::new(schedule.version, code_hash);
        if let Some(contract) = self.recent(&id) {
            return Ok(contract);
        }
        if let Some((module, facts)) = self.artefact(&self.key(schedule, &id)) {
            return Ok(self.keep(self.link(schedule, &id, &module, facts)?));
        }
        let stored_code = stored_code().ok_or_else(|| CompileError::Fault("it is missing".into()))?;
        let built = self.build(schedule, &id, &unpack(&stored_code)?, u64::MAX)?;
        // Code of the chain is stored for every purpose.
        self.store(schedule, &built);
        Ok(self.keep(built.contract))
    }

    /// Like [`contract`](Self::contract), for a module that is already unpacked.
    pub fn compile(&self, code_hash: &B256, wasm: &[u8]) -> Result<CompiledContract, CompileError> {
        self.compile_within(code_hash, wasm, u64::MAX)
    }

    /// Like [`compile`](Self::compile), for a deployment: fails if `gas` does not pay for compilation, even if an
    /// artefact exists. An artefact does not prove that today's rules accept the module, so it is validated again,
    /// which has been paid for.
    pub fn compile_within(&self, code_hash: &B256, wasm: &[u8], gas: u64) -> Result<CompiledContract, CompileError> {
        self.compile_under(gas::LATEST, code_hash, wasm, gas)
    }

    pub(in crate::wasm) fn compile_under(
        &self,
        schedule: &'static Schedule,
        code_hash: &B256,
        wasm: &[u8],
        gas: u64,
    ) -> Result<CompiledContract, CompileError> {
        let id = CodeId::new(schedule.version, code_hash);
        if let Some(contract) = self.recent(&id) {
            affordable(contract.compile_gas(), gas)?;
            return Ok(contract);
        }
        let built = self.build(schedule, &id, wasm, gas)?;
        // Deployments in calls are free for their senders, so they are not stored.
        if self.purpose == Purpose::Blocks {
            self.store(schedule, &built);
        }
        Ok(self.keep(built.contract))
    }

    /// Compiles a module, or loads its artefact, and stores nothing.
    pub(in crate::wasm) fn build(
        &self,
        schedule: &'static Schedule,
        id: &CodeId,
        wasm: &[u8],
        gas: u64,
    ) -> Result<CompiledModule, CompileError> {
        let checked = validate::check_with_schedule(schedule, self.inner.rules, wasm)?;
        affordable(checked.compile_gas(), gas)?;
        if let Some((module, facts)) = self.artefact(&self.key(schedule, id)) {
            return Ok(CompiledModule { contract: self.link(schedule, id, &module, facts)?, artefact: None });
        }
        let facts = ModuleFacts::of(&checked)?;
        let code = self.inner.engine.precompile_module(&instrument::instrument(&checked)?).map_err(fault)?;
        let artefact = Some(seal(&facts.with(&code)?));
        Ok(CompiledModule { contract: self.link(schedule, id, &self.load(&code)?, facts)?, artefact })
    }

    /// Stores the artefact, if it is new.
    fn store(&self, schedule: &Schedule, built: &CompiledModule) {
        if let Some(artefact) = &built.artefact {
            let (artefacts, contract) = (&self.inner.artefacts, &built.contract);
            start_cache::write_record(&**artefacts, &contract.code_hash(), &contract.start());
            artefacts.put(&self.key(schedule, contract.id()), artefact);
        }
    }

    /// Returns true if an artefact and a start are on record.
    pub(crate) fn is_compiled(&self, schedule: &Schedule, code_hash: &B256) -> bool {
        let (artefacts, id) = (&self.inner.artefacts, CodeId::new(schedule.version, code_hash));
        artefacts.contains(&self.key(schedule, &id)) && artefacts.contains(&start_cache::record_key(code_hash))
    }

    /// Compiles an account's code unless its artefact is stored, so that no run has to. Returns true if it compiled.
    /// Used at a node's start: after an update or on another processor there are no artefacts.
    pub(crate) fn compile_ahead(
        &self,
        schedule: &'static Schedule,
        code_hash: &B256,
        stored_code: &[u8],
    ) -> Result<bool, CompileError> {
        if self.is_compiled(schedule, code_hash) {
            return Ok(false);
        }
        let artefacts = &self.inner.artefacts;
        let id = CodeId::new(schedule.version, code_hash);
        let built = self.build(schedule, &id, &unpack(stored_code)?, u64::MAX)?;
        match built.artefact {
            Some(_) => self.store(schedule, &built),
            None => start_cache::write_record(&**artefacts, code_hash, &built.contract.start()),
        }
        Ok(built.artefact.is_some())
    }

    /// Returns the key of this code's artefact.
    fn key(&self, schedule: &Schedule, id: &CodeId) -> B256 {
        let environment = self.inner.environments.get(&schedule.version).copied().unwrap_or_default();
        keccak256([environment.as_slice(), id.hash.as_slice()].concat())
    }

    /// Returns the stored artefact, if it is intact.
    fn artefact(&self, key: &B256) -> Option<(Module, ModuleFacts)> {
        let sealed = self.inner.artefacts.get(key)?;
        let (facts, code) = ModuleFacts::split(unseal(&sealed)?)?;
        Some((self.load(code).ok()?, facts))
    }

    fn link(
        &self,
        schedule: &'static Schedule,
        id: &CodeId,
        module: &Module,
        facts: ModuleFacts,
    ) -> Result<CompiledContract, CompileError> {
        CompiledContract::link(&self.inner.linker, schedule, id, module, facts)
    }

    /// Loads machine code that this node compiled.
    #[allow(unsafe_code)]
    fn load(&self, artefact: &[u8]) -> Result<Module, CompileError> {
        // SAFETY: `artefact` is what `precompile_module` of this wasmtime returned: either just now, or read from this
        // node's own cache with its hash intact. Artefacts never come from peers or clients. wasmtime itself refuses
        // another version or configuration.
        unsafe { Module::deserialize(&self.inner.engine, artefact) }.map_err(fault)
    }
}
