//! Instruments a validated module to count resources. The result is compiled instead of the deployed module.
//!
//! Three counters are added as mutable globals. Their exported names are visible only to the host: every export of the
//! contract except memory and entrypoint is dropped, so names cannot collide.
//!
//! - **gas**, in ink. Each straight run of instructions is charged at its start, before it has any effect.
//!   `memory.grow`, `memory.copy` and `memory.fill` charge for pages and bytes in small added functions. The price of a
//!   load grows with the size of memory, because of cache misses. A fourth, private global holds the additional price
//!   per load, and growth raises it.
//! - **stack**, in words. A function takes its frame's words at entry and returns them at its end.
//! - **pages**, the number of pages that the transaction may still add.
//!
//! A counter below zero ends the run with `unreachable` and stays below zero, so the host can tell which limit was
//! exceeded. No counter is below zero while the contract runs, so the contract's own `unreachable` is distinguishable.
//!
//! ```text
//! function:   take words | block | ...body, `return` becomes a branch to the block's end... | end | give words back
//! run:        gas -= price + loads * price of the pages; trap if gas < 0
//! ```
//!
//! Functions without calls that need few words are not counted: the native stack has room for one of them at any depth
//! ([`stack`](super::stack)). Custom sections are dropped.
//!
//! **Marks.** To restore an instance after a run ([`instance`](super::instance)), its memory starts with [`PRIVATE_BYTES`]
//! bytes that the contract cannot reach: its own addresses start after them. There, one byte represents [`CHUNK`] bytes
//! of the contract's memory. A store first sets the byte of the chunk that contains its first byte. It writes at most
//! [`MAX_STORE_OVERHANG`] bytes beyond the chunk's end. `memory.copy` and `memory.fill` set the bytes of all chunks that they write.
//! An address outside of memory marks an unwritten chunk, which is harmless.
//!
//! An added function starts the module: it sets the globals to their initial values and the counters to the run's
//! limits.

mod added;
mod function;

use super::gas::Schedule;
use super::validate::{MAX_MEMORY_PAGES, ValidModule, parser};
use corniche_abi::{ENTRYPOINT_EXPORT, MEMORY_EXPORT};
pub(super) use function::ends_run;
use wasm_encoder::reencode::{Reencode, RoundtripReencoder};
use wasm_encoder::{
    BlockType, CodeSection, ConstExpr, DataSection, ElementSection, ExportKind, ExportSection, FunctionSection, GlobalSection,
    GlobalType, ImportSection, Instruction, InstructionSink, MemArg, MemorySection, MemoryType, Module, TableSection,
    TypeSection, ValType,
};
use wasmparser::{DataKind, DataSectionReader, GlobalSectionReader, Operator, Payload};

/// Names of the exported counters.
pub const GAS_EXPORT: &str = "gas";
pub const STACK_EXPORT: &str = "stack";
pub const PAGES_EXPORT: &str = "pages";
/// (length of the input, ink, words, pages) -> status: starts a run.
pub const RUN_EXPORT: &str = "run";

/// Bytes before the contract's memory: one page.
pub const PRIVATE_BYTES: usize = 1 << 16;
/// Bytes of memory per mark.
pub const CHUNK: usize = 1 << CHUNK_SHIFT;
const CHUNK_SHIFT: u32 = 10;
const PRIVATE_PAGES: u64 = 1;
/// Index of the largest memory's last chunk; all bits below its highest are set.
const LAST_CHUNK: i32 = (MAX_MEMORY_PAGES * 65_536 / CHUNK as u32 - 1) as i32;
const _: () = assert!((LAST_CHUNK as usize) < PRIVATE_BYTES && LAST_CHUNK & (LAST_CHUNK + 1) == 0);
/// Maximum number of bytes that a store writes beyond the end of its first chunk.
pub const MAX_STORE_OVERHANG: usize = 7;

/// Leaf functions with frames up to this size are not counted.
pub const UNCOUNTED_LEAF_WORDS: u32 = 512;

/// A mark, at the index of its chunk.
const MARK: MemArg = MemArg { offset: 0, align: 0, memory_index: 0 };

/// A validated module could not be rewritten: a bug of the node, never a fault of the contract.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("instrumentation failed on a checked module: {0}")]
pub struct InstrumentError(String);

impl InstrumentError {
    pub(super) fn new(error: impl std::fmt::Display) -> Self {
        Self(error.to_string())
    }
}

fn failed(error: impl std::fmt::Display) -> InstrumentError {
    InstrumentError::new(error)
}

/// Rewrites the module in linear time.
pub fn instrument(checked: &ValidModule<'_>) -> Result<Vec<u8>, InstrumentError> {
    instrument_with_offsets(checked, |_, _, _| {})
}

/// Like [`instrument`], and reports each of the contract's instructions: the index of its defined function, the offset
/// of its code in that function's new body, and its old offset in the module.
pub(super) fn instrument_with_offsets(
    checked: &ValidModule<'_>,
    mut note: impl FnMut(usize, usize, usize),
) -> Result<Vec<u8>, InstrumentError> {
    let mut context = Context::new(checked);
    let mut out = Sections::default();
    let mut frames = checked.frames.iter();
    for payload in parser().parse_all(checked.wasm) {
        let mut same = RoundtripReencoder;
        match payload.map_err(failed)? {
            Payload::TypeSection(section) => same.parse_type_section(&mut out.types, section).map_err(failed)?,
            Payload::ImportSection(section) => same.parse_import_section(&mut out.imports, section).map_err(failed)?,
            Payload::FunctionSection(section) => same.parse_function_section(&mut out.functions, section).map_err(failed)?,
            Payload::TableSection(section) => same.parse_table_section(&mut out.tables, section).map_err(failed)?,
            Payload::GlobalSection(section) => {
                context.read_globals(section.clone())?;
                same.parse_global_section(&mut out.globals, section).map_err(failed)?;
            }
            Payload::ElementSection(section) => same.parse_element_section(&mut out.elements, section).map_err(failed)?,
            Payload::DataSection(section) => {
                for segment in segments(section) {
                    let (at, bytes) = segment?;
                    out.data.active(0, &ConstExpr::i32_const((at as usize + PRIVATE_BYTES) as i32), bytes.iter().copied());
                }
            }
            Payload::ExportSection(section) => {
                for export in section {
                    let export = export.map_err(failed)?;
                    if export.name == ENTRYPOINT_EXPORT {
                        context.entrypoint = export.index;
                    }
                }
            }
            Payload::CodeSectionEntry(body) => {
                let frame = frames.next().ok_or_else(|| failed("more bodies than frames"))?;
                let index = out.code.len() as usize;
                out.code.function(&context.function(&body, frame, |new, old| note(index, new, old))?);
            }
            // The memory section is rewritten with its limit. The rest is not needed in a compiled module.
            _ => {}
        }
    }
    context.add_own(&mut out);
    Ok(out.finish())
}

#[derive(Default)]
struct Sections {
    types: TypeSection,
    imports: ImportSection,
    functions: FunctionSection,
    tables: TableSection,
    memories: MemorySection,
    globals: GlobalSection,
    exports: ExportSection,
    elements: ElementSection,
    code: CodeSection,
    data: DataSection,
}

impl Sections {
    fn finish(self) -> Vec<u8> {
        let mut module = Module::new();
        module.section(&self.types).section(&self.imports).section(&self.functions);
        module.section(&self.tables).section(&self.memories).section(&self.globals);
        module.section(&self.exports).section(&self.elements).section(&self.code).section(&self.data);
        module.finish()
    }
}

/// Indexes of added items. All come after the module's own, so nothing is renumbered.
struct Context {
    schedule: &'static Schedule,
    /// The contract's entrypoint function.
    entrypoint: u32,
    /// The contract's mutable globals, with their initial values.
    mutable_globals: Vec<(u32, Instruction<'static>)>,
    /// (i32) -> (i32); (i32, i32, i32) -> (); (i32, i64, i32, i32) -> (i32).
    grow_type: u32,
    range_type: u32,
    run_type: u32,
    grow_function: u32,
    copy_function: u32,
    fill_function: u32,
    run_function: u32,
    gas_global: u32,
    stack_global: u32,
    pages_global: u32,
    load_global: u32,
    /// True if memory can grow. Otherwise the price of its pages is constant.
    grows: bool,
    initial_pages: u32,
    maximum_pages: u32,
}

impl Context {
    fn new(checked: &ValidModule<'_>) -> Self {
        let functions = checked.imported_functions + checked.defined_functions;
        Self {
            schedule: checked.schedule,
            entrypoint: 0,
            mutable_globals: Vec::new(),
            grow_type: checked.types,
            range_type: checked.types + 1,
            run_type: checked.types + 2,
            grow_function: functions,
            copy_function: functions + 1,
            fill_function: functions + 2,
            run_function: functions + 3,
            gas_global: checked.globals,
            stack_global: checked.globals + 1,
            pages_global: checked.globals + 2,
            load_global: checked.globals + 3,
            grows: checked.maximum_pages > checked.initial_pages,
            initial_pages: checked.initial_pages,
            maximum_pages: checked.maximum_pages,
        }
    }

    fn read_globals(&mut self, section: GlobalSectionReader<'_>) -> Result<(), InstrumentError> {
        for (index, global) in (0..).zip(section) {
            let global = global.map_err(failed)?;
            let first = match global.init_expr.get_operators_reader().read().map_err(failed)? {
                Operator::I32Const { value } => Instruction::I32Const(value),
                Operator::I64Const { value } => Instruction::I64Const(value),
                _ => return Err(failed("a global that does not start with a constant")),
            };
            if global.ty.mutable {
                self.mutable_globals.push((index, first));
            }
        }
        Ok(())
    }

    fn add_own(&self, out: &mut Sections) {
        let (int, long) = (ValType::I32, ValType::I64);
        out.types.ty().function([int], [int]);
        out.types.ty().function([int, int, int], []);
        out.types.ty().function([int, long, int, int], [int]);
        out.functions.function(self.grow_type).function(self.range_type).function(self.range_type).function(self.run_type);
        out.memories.memory(MemoryType {
            minimum: u64::from(self.initial_pages) + PRIVATE_PAGES,
            maximum: Some(u64::from(self.maximum_pages) + PRIVATE_PAGES),
            memory64: false,
            shared: false,
            page_size_log2: None,
        });
        // All three start at zero: a run without setup by the host can do nothing.
        let counter = |val_type| GlobalType { val_type, mutable: true, shared: false };
        out.globals.global(counter(ValType::I64), &ConstExpr::i64_const(0));
        out.globals.global(counter(ValType::I32), &ConstExpr::i32_const(0));
        out.globals.global(counter(ValType::I32), &ConstExpr::i32_const(0));
        out.globals.global(counter(ValType::I64), &ConstExpr::i64_const(0));
        out.exports.export(MEMORY_EXPORT, ExportKind::Memory, 0);
        out.exports.export(GAS_EXPORT, ExportKind::Global, self.gas_global);
        out.exports.export(STACK_EXPORT, ExportKind::Global, self.stack_global);
        out.exports.export(PAGES_EXPORT, ExportKind::Global, self.pages_global);
        out.exports.export(RUN_EXPORT, ExportKind::Func, self.run_function);
        out.code.function(&self.grow()).function(&self.copy()).function(&self.fill()).function(&self.run());
    }

    /// Stores the i64 on top of the stack as remaining gas, and traps if it is below zero.
    fn settle_gas(&self, code: &mut InstructionSink<'_>, spare: u32) {
        code.local_tee(spare).global_set(self.gas_global);
        code.local_get(spare).i64_const(0).i64_lt_s().if_(BlockType::Empty).unreachable().end();
    }
}

/// Returns the data segments in order: address and content.
pub(super) fn segments<'a>(section: DataSectionReader<'a>) -> impl Iterator<Item = Result<(u32, &'a [u8]), InstrumentError>> {
    section.into_iter().map(|data| {
        let data = data.map_err(failed)?;
        let DataKind::Active { offset_expr, .. } = data.kind else { return Err(failed("a passive data segment")) };
        match offset_expr.get_operators_reader().read().map_err(failed)? {
            Operator::I32Const { value } => Ok((value as u32, data.data)),
            _ => Err(failed("a data segment that is not placed by a constant")),
        }
    })
}
