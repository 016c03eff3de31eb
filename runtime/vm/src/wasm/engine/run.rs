//! Runs frames: pays for the start, takes an instance, runs it, and classifies its end.

use super::WasmEngine;
use crate::host::{Entry, Exit, ExitStatus, Host, Limits, Readiness, Trap};
use crate::warm_code::CodeId;
use crate::wasm::backtrace::RawBacktrace;
use crate::wasm::contract::{CompiledContract, PaidStart, Start};
use crate::wasm::creation::unpack;
use crate::wasm::error::CompileError;
use crate::wasm::gas::{self, INK_PER_GAS, Schedule};
use crate::wasm::hostcalls::Stop;
use crate::wasm::instance::{Counters, Instance};
use crate::wasm::stack::NativeStack;
use crate::wasm::start_cache;
use alloy_primitives::{B256, Bytes};

/// Minimum gas for the start of any frame.
const fn least_start_gas(schedule: &Schedule, readiness: Readiness) -> u64 {
    let preparing = match readiness {
        Readiness::Warm => 0,
        Readiness::Nested => schedule.nested_ink(0),
        Readiness::Cold => schedule.cold_ink(0, 0, 0),
    };
    (gas::start_ink(0, 0) + preparing) / INK_PER_GAS
}

impl WasmEngine {
    /// Returns the facts for the price of a start. Never loads or compiles the code, because that is not paid yet.
    fn start(&self, id: &CodeId, stored_code: &dyn Fn() -> Option<Bytes>) -> Result<Start, CompileError> {
        let code_hash = &id.hash;
        if let Some(start) = self.inner.starts.get(code_hash) {
            return Ok(start);
        }
        if let Some(contract) = self.recent(id) {
            return Ok(contract.start());
        }
        let records = &*self.inner.artefacts;
        let start = match start_cache::read_record(records, code_hash) {
            Some(start) => start,
            None => {
                let stored_code = stored_code().ok_or_else(|| CompileError::Fault("it is missing".into()))?;
                let start = Start::of_valid_module(&unpack(&stored_code)?);
                let start = start.ok_or_else(|| CompileError::Fault("it is no module".into()))?;
                start_cache::write_record(records, code_hash, &start);
                start
            }
        };
        self.inner.starts.insert(*code_hash, start);
        Ok(start)
    }

    /// Runs one frame from its start to its end.
    ///
    /// Needs much native stack, and switches to a separate stack for that.
    pub fn run(&self, contract: &CompiledContract, host: &mut dyn Host, entry: Entry) -> Exit {
        let readiness = host.code_readiness();
        self.with_sufficient_stack(|| {
            let started = match contract.start().charge(contract.schedule(), &entry, readiness) {
                Ok(started) => started,
                Err(exit) => return exit,
            };
            match self.instance(contract.id(), || Ok(contract.clone())) {
                Ok(instance) => self.run_in(instance, host, entry.input, started),
                Err(exit) => exit,
            }
        })
    }

    /// Runs code by its hash; `stored_code` is called only if it must be compiled.
    pub(in crate::wasm) fn run_code(
        &self,
        schedule: &'static Schedule,
        code_hash: &B256,
        stored_code: &dyn Fn() -> Option<Bytes>,
        host: &mut dyn Host,
        entry: Entry,
    ) -> Exit {
        let readiness = host.code_readiness();
        // Even the cheapest start costs this much. So a call with almost no gas fails without any look-up.
        if entry.gas < least_start_gas(schedule, readiness) {
            return Exit::failed(ExitStatus::OutOfGas);
        }
        // Code is validated before it is stored, so a failure is always a fault of this node.
        let broken = |error| Exit::failed(ExitStatus::Fault(format!("stored code {code_hash} cannot run: {error}")));
        let id = &CodeId::new(schedule.version, code_hash);
        let ready = || self.ready(schedule, code_hash, stored_code).map_err(broken);
        self.with_sufficient_stack(|| {
            // The frame pays first. Only then its code is loaded, or compiled without an artefact.
            let start = self.start(id, stored_code).map_err(broken);
            let started = start.and_then(|start| start.charge(schedule, &entry, readiness));
            match started.and_then(|started| Ok((self.instance(id, ready)?, started))) {
                Ok((instance, started)) => self.run_in(instance, host, entry.input.clone(), started),
                Err(exit) => exit,
            }
        })
    }

    /// Returns a kept or new instance. An error is never the contract's fault.
    fn instance(&self, id: &CodeId, contract: impl FnOnce() -> Result<CompiledContract, Exit>) -> Result<Box<Instance>, Exit> {
        let pool = &self.caches().pool;
        if let Some(instance) = pool.take(id) {
            return Ok(instance);
        }
        let contract = pool.contract(id).map_or_else(contract, Ok)?;
        if !self.overrides.contains_key(id) {
            pool.start_fresh(&contract);
        }
        let instance = Instance::new(&self.inner.engine, contract);
        instance.map(Box::new).map_err(|error| Exit::failed(ExitStatus::Fault(format!("{error:?}"))))
    }

    /// Enough for compilation, and then for running nearly all code without another switch.
    fn with_sufficient_stack(&self, body: impl FnOnce() -> Exit) -> Exit {
        let bytes = NativeStack::BOUNDED.bytes(2 * Limits::TRANSACTION.stack_words);
        self.caches().large_stack.run(bytes, body).unwrap_or_else(|error| no_stack(&error))
    }

    fn run_in(&self, mut instance: Box<Instance>, host: &mut dyn Host, input: Bytes, started: PaidStart) -> Exit {
        host.mark_code_paid();
        let bytes = instance.contract().native_stack().bytes(started.limits.stack_words);
        let result = self.caches().large_stack.run(bytes, || instance.run(host, input, started.ink, started.limits));
        let result = match result {
            Ok(result) => result,
            Err(error) => return no_stack(&error),
        };
        let backtrace = result
            .as_ref()
            .err()
            .filter(|_| self.inner.backtrace)
            .map(|error| RawBacktrace::of(error, instance.contract().schedule().version));
        let status = match result {
            Ok(0) => ExitStatus::Return,
            Ok(_) => ExitStatus::Revert,
            Err(error) => match instance.frame().take_stop() {
                Some(Stop::Exit(0)) => ExitStatus::Return,
                Some(Stop::Exit(_)) => ExitStatus::Revert,
                Some(Stop::OutOfGas) => ExitStatus::OutOfGas,
                Some(Stop::Trap(trap)) => ExitStatus::Trap(trap),
                Some(Stop::Fault(text)) => ExitStatus::Fault(text),
                None => classify(&error, instance.counters()),
            },
        };
        if let (Some(backtrace), ExitStatus::Trap(_) | ExitStatus::OutOfGas) = (backtrace, &status) {
            host.record_failure(backtrace);
        }
        let left = instance.ink().and_then(|ink| u64::try_from(ink).ok()).unwrap_or(0) / INK_PER_GAS;
        let output = std::mem::take(&mut instance.frame().output);
        // Traps leave the instance intact. Otherwise a contract that traps would make the kernel provide new pages for
        // every call.
        let is_kept = !matches!(status, ExitStatus::Fault(_))
            && !self.overrides.contains_key(instance.contract().id())
            && instance.renew();
        let kept = is_kept.then(|| {
            instance.contract().mark_used();
            instance
        });
        self.caches().pool.end(kept, host.context().depth == 0);
        match status {
            ExitStatus::Return | ExitStatus::Revert => Exit { status, output, gas_left: left + started.unmetered },
            failed => Exit::failed(failed),
        }
    }
}

fn no_stack(error: &std::io::Error) -> Exit {
    Exit::failed(ExitStatus::Fault(format!("reserve a native stack: {error}")))
}

/// Classifies a trap that no host call caused.
fn classify(error: &wasmtime::Error, counters: Option<Counters>) -> ExitStatus {
    let (Some(trap), Some(counters)) = (error.downcast_ref::<wasmtime::Trap>(), counters) else {
        return ExitStatus::Fault(format!("{error:?}"));
    };
    ExitStatus::Trap(match trap {
        wasmtime::Trap::UnreachableCodeReached if counters.gas < 0 => return ExitStatus::OutOfGas,
        wasmtime::Trap::UnreachableCodeReached if counters.stack < 0 => Trap::StackExhausted,
        wasmtime::Trap::UnreachableCodeReached if counters.pages < 0 => Trap::MemoryExhausted,
        wasmtime::Trap::UnreachableCodeReached => Trap::Unreachable,
        wasmtime::Trap::MemoryOutOfBounds => Trap::MemoryOutOfBounds,
        wasmtime::Trap::TableOutOfBounds | wasmtime::Trap::IndirectCallToNull => Trap::BadTableElement,
        wasmtime::Trap::BadSignature => Trap::BadSignature,
        wasmtime::Trap::IntegerOverflow => Trap::IntegerOverflow,
        wasmtime::Trap::IntegerDivisionByZero => Trap::DivisionByZero,
        // Includes StackOverflow: our own count ends a run first.
        other => return ExitStatus::Fault(format!("wasmtime trap outside the chain's rules: {other}")),
    })
}
