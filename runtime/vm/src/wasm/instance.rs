//! Instances that are reused for several runs.
//!
//! A fresh instance costs several times the computation of a token transfer. Returning its pages interrupts all other
//! cores that run this process. So an instance is restored after its run and kept ([`InstancePool`](super::instance_pool::InstancePool)). No
//! effect of a run may be visible in the next:
//!
//! | changed by a run | how it is restored |
//! |---|---|
//! | memory | each write leaves a mark; [`Image::restore`] restores marked chunks |
//! | size of memory | a grown instance is not kept |
//! | mutable globals, counters | set by the added function through which each run starts |
//! | table, segments | no permitted instruction changes them |
//! | the frame on the host's side | reset by [`Instance::run`] |
//!
//! This works for every end of a run, except a fault of this node.

use super::contract::CompiledContract;
use super::hostcalls::{Frame, Handles};
#[cfg(test)]
use super::instrument::PRIVATE_BYTES;
use super::instrument::{CHUNK, GAS_EXPORT, PAGES_EXPORT, RUN_EXPORT, STACK_EXPORT};
use crate::host::{Host, Limits};
use alloy_primitives::Bytes;
use corniche_abi::MEMORY_EXPORT;
use wasmtime::{Engine, Module, ModuleExport, Store, TypedFunc};

/// Size of a host page, the unit of resident memory.
const RESIDENT_UNIT: usize = 4096;
const LARGEST_MEMORY: usize = super::validate::MAX_MEMORY_PAGES as usize * 65_536;

/// Counts the host page of a chunk as resident.
fn mark_resident(touched: &mut TouchedPages, resident: &mut usize, chunk: usize) {
    let page = chunk * CHUNK / RESIDENT_UNIT;
    let (word, bit) = (&mut touched[page / 64], 1 << (page % 64));
    if *word & bit == 0 {
        *word |= bit;
        *resident += RESIDENT_UNIT;
    }
}

/// Locations of a module's exports.
pub(super) struct Exports {
    run: ModuleExport,
    memory: ModuleExport,
    gas: ModuleExport,
    stack: ModuleExport,
    pages: ModuleExport,
}

impl Exports {
    /// An error is the name of a missing export.
    pub fn of(module: &Module) -> Result<Self, &'static str> {
        let export = |name| module.get_export_index(name).ok_or(name);
        Ok(Self {
            run: export(RUN_EXPORT)?,
            memory: export(MEMORY_EXPORT)?,
            gas: export(GAS_EXPORT)?,
            stack: export(STACK_EXPORT)?,
            pages: export(PAGES_EXPORT)?,
        })
    }
}

/// The module's counters at the end of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counters {
    pub gas: i64,
    pub stack: i32,
    pub pages: i32,
}

/// One bit for each host page of memory.
type TouchedPages = Box<[u64; LARGEST_MEMORY / RESIDENT_UNIT / 64]>;

/// An instance of a contract in its initial state.
pub(super) struct Instance {
    contract: CompiledContract,
    store: Store<Frame>,
    handles: Handles,
    run: TypedFunc<(i32, i64, i32, i32), i32>,
    /// Initial size of memory in bytes.
    size: usize,
    /// Host pages that were ever written, and their number.
    touched: TouchedPages,
    resident: usize,
}

impl Instance {
    pub fn new(engine: &Engine, contract: CompiledContract) -> wasmtime::Result<Self> {
        let mut store = Store::new(engine, Frame::default());
        store.limiter(|frame| &mut frame.growth);
        let (pre, exports) = contract.parts();
        let instance = pre.instantiate(&mut store)?;
        let missing = || wasmtime::Error::msg("an export of the instrumented module has the wrong type");
        let mut export = |export| instance.get_module_export(&mut store, export).ok_or_else(missing);
        let memory = export(&exports.memory)?.into_memory().ok_or_else(missing)?;
        let gas = export(&exports.gas)?.into_global().ok_or_else(missing)?;
        let stack = export(&exports.stack)?.into_global().ok_or_else(missing)?;
        let pages = export(&exports.pages)?.into_global().ok_or_else(missing)?;
        let run = export(&exports.run)?.into_func().ok_or_else(missing)?;
        let run = run.typed(&store)?;
        let handles = Handles { memory, gas, stack, pages };
        store.data_mut().handles = Some(handles);
        let size = memory.data_size(&store);
        let mut touched: TouchedPages = Box::new([0; _]);
        let mut resident = RESIDENT_UNIT;
        // Instantiation wrote the data.
        contract.image().chunks().for_each(|chunk| mark_resident(&mut touched, &mut resident, chunk));
        Ok(Self { contract, store, handles, run, size, touched, resident })
    }

    pub fn contract(&self) -> &CompiledContract {
        &self.contract
    }

    /// Runs the contract to its end. Results stay in [`Self::frame`].
    pub fn run(&mut self, host: &mut dyn Host, input: Bytes, ink: u64, limits: Limits) -> wasmtime::Result<i32> {
        let length = i32::try_from(input.len())?;
        let (words, pages) = (i32::try_from(limits.stack_words)?, i32::try_from(limits.memory_pages)?);
        let Self { store, run, .. } = self;
        Frame::with_host(store, host, input, |store| run.call(store, (length, ink as i64, words, pages)))
    }

    pub fn frame(&mut self) -> &mut Frame {
        self.store.data_mut()
    }

    /// Returns `None` if the module is not instrumented.
    pub fn counters(&mut self) -> Option<Counters> {
        let Handles { gas, stack, pages, .. } = self.handles;
        let store = &mut self.store;
        Some(Counters {
            gas: gas.get(&mut *store).i64()?,
            stack: stack.get(&mut *store).i32()?,
            pages: pages.get(&mut *store).i32()?,
        })
    }

    /// Returns the remaining ink.
    pub fn ink(&mut self) -> Option<i64> {
        self.handles.gas.get(&mut self.store).i64()
    }

    /// Restores memory. Returns false if that is impossible; the instance must then be dropped.
    #[must_use]
    pub fn renew(&mut self) -> bool {
        let memory = self.handles.memory.data_mut(&mut self.store);
        if memory.len() != self.size {
            return false;
        }
        let (touched, resident) = (&mut self.touched, &mut self.resident);
        self.contract.image().restore(memory, |chunk| mark_resident(touched, resident, chunk));
        true
    }

    /// The contract's memory.
    #[cfg(test)]
    pub fn memory(&self) -> &[u8] {
        &self.handles.memory.data(&self.store)[PRIVATE_BYTES..]
    }

    /// Bytes of memory for keeping the instance, without its contract's.
    pub fn resident(&self) -> usize {
        self.resident
    }
}
