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

use super::gas::{self, Class, Schedule};
use super::validate::{Frame, MAX_MEMORY_PAGES, ValidModule, parser};
use corniche_abi::{ENTRYPOINT_EXPORT, MEMORY_EXPORT, ValueType};
use wasm_encoder::reencode::{Reencode, RoundtripReencoder};
use wasm_encoder::{
    BlockType, CodeSection, ConstExpr, DataSection, ElementSection, ExportKind, ExportSection, Function, FunctionSection,
    GlobalSection, GlobalType, ImportSection, Instruction, InstructionSink, MemArg, MemorySection, MemoryType, Module,
    TableSection, TypeSection, ValType,
};
use wasmparser::{DataKind, DataSectionReader, FunctionBody, GlobalSectionReader, Operator, Payload};

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

    /// Sets all globals that an earlier run may have changed, including the counters.
    fn run(&self) -> Function {
        let (length, ink, words, pages) = (0, 1, 2, 3);
        let mut function = Function::new([]);
        for (index, first) in &self.mutable_globals {
            function.instruction(first).instructions().global_set(*index);
        }
        let mut code = function.instructions();
        code.local_get(ink).global_set(self.gas_global);
        code.local_get(words).global_set(self.stack_global);
        code.local_get(pages).global_set(self.pages_global);
        code.i64_const(self.schedule.load_ink(self.initial_pages) as i64).global_set(self.load_global);
        code.local_get(length).call(self.entrypoint).end();
        function
    }

    /// `memory.grow` with its price. A growth that cannot succeed costs no pages; one beyond the transaction's limit
    /// traps.
    fn grow(&self) -> Function {
        let (pages, spare) = (0, 1);
        let mut function = Function::new([(1, ValType::I64)]);
        let mut code = function.instructions();
        // Beyond the memory's own limit: the specification's -1.
        code.local_get(pages).i64_extend_i32_u().memory_size(0).i64_extend_i32_u().i64_add();
        code.i64_const(i64::from(self.maximum_pages) + PRIVATE_PAGES as i64).i64_gt_u();
        code.if_(BlockType::Empty).i32_const(-1).return_().end();
        // At most 128 pages from here on, so nothing below can overflow.
        code.global_get(self.gas_global)
            .local_get(pages)
            .i64_extend_i32_u()
            .i64_const(self.schedule.grown_page as i64)
            .i64_mul()
            .i64_sub();
        let again = self.schedule.regrown_page * u64::from(self.initial_pages);
        if again > 0 {
            // First growth of the run.
            code.i64_const(again as i64).i64_const(0).local_get(pages).i32_const(0).i32_ne();
            code.memory_size(0)
                .i32_const((u64::from(self.initial_pages) + PRIVATE_PAGES) as i32)
                .i32_eq()
                .i32_and()
                .select()
                .i64_sub();
        }
        self.settle_gas(&mut code, spare);
        code.global_get(self.pages_global).local_get(pages).i32_sub().global_set(self.pages_global);
        code.global_get(self.pages_global).i32_const(0).i32_lt_s().if_(BlockType::Empty).unreachable().end();
        // New price per load: `Schedule::load_ink` of the new number of pages.
        code.memory_size(0)
            .i32_const(PRIVATE_PAGES as i32)
            .i32_sub()
            .local_get(pages)
            .i32_add()
            .i64_extend_i32_u()
            .local_tee(spare);
        code.i64_const(self.schedule.load_page as i64).local_get(spare);
        code.i64_const(gas::INK_PER_LOAD_PAGE_SQUARED as i64).i64_mul().i64_add().i64_mul().global_set(self.load_global);
        // Cannot fail here. If it does, the run is a fault in any case.
        code.local_get(pages).memory_grow(0).i32_const(PRIVATE_PAGES as i32).i32_sub().end();
        function
    }

    fn copy(&self) -> Function {
        self.range(|code| {
            place(code, 0);
            place(code, 1);
            code.local_get(2).memory_copy(0, 0);
        })
    }

    /// Skips an empty fill within memory. Processors with masked stores take a slow path for it if the next page is not
    /// mapped: 200 ns for one gas.
    fn fill(&self) -> Function {
        self.range(|code| {
            code.local_get(2).i32_eqz().local_get(0).i64_extend_i32_u();
            code.memory_size(0).i32_const(PRIVATE_PAGES as i32).i32_sub().i64_extend_i32_u().i64_const(16).i64_shl();
            code.i64_le_u().i32_and().if_(BlockType::Empty).return_().end();
            place(code, 0);
            code.local_get(1).local_get(2).memory_fill(0);
        })
    }

    /// Writes a range: charges for its length, writes, and marks what was written. An access out of bounds writes
    /// nothing.
    fn range(&self, write: impl FnOnce(&mut InstructionSink<'_>)) -> Function {
        let (destination, length, spare, last) = (0, 2, 3, 4);
        let mut function = Function::new([(1, ValType::I64), (1, ValType::I32)]);
        let mut code = function.instructions();
        code.global_get(self.gas_global);
        code.local_get(length).i64_extend_i32_u().i64_const(gas::INK_PER_MEMORY_BYTE as i64).i64_mul().i64_sub();
        self.settle_gas(&mut code, spare);
        write(&mut code);
        code.local_get(length).i32_eqz().if_(BlockType::Empty).return_().end();
        // In bounds from here on: nothing overflows.
        code.local_get(destination).local_get(length).i32_add().i32_const(1).i32_sub();
        code.i32_const(CHUNK_SHIFT as i32).i32_shr_u().local_set(last);
        code.local_get(destination).i32_const(CHUNK_SHIFT as i32).i32_shr_u().local_tee(destination);
        code.local_get(last).i32_eq().if_(BlockType::Empty);
        code.local_get(destination).i32_const(1).i32_store8(MARK).return_().end();
        code.local_get(destination).i32_const(1);
        code.local_get(last).local_get(destination).i32_sub().i32_const(1).i32_add().memory_fill(0);
        code.end();
        function
    }

    /// Marks the target of a store whose value is on top of the stack, with the address below it; both stay on the
    /// stack.
    fn mark(&self, code: &mut InstructionSink<'_>, offset: u32, address: u32, value: u32) {
        code.local_set(value).local_tee(address).local_get(address);
        if offset > 0 {
            // Wraps only if the store itself is out of bounds.
            code.i32_const(offset as i32).i32_add();
        }
        // The mask keeps the index within the marks, even if the store is out of bounds.
        code.i32_const(CHUNK_SHIFT as i32).i32_shr_u().i32_const(LAST_CHUNK).i32_and();
        code.i32_const(1).i32_store8(MARK).local_get(value);
    }

    /// Stores the i64 on top of the stack as remaining gas, and traps if it is below zero.
    fn settle_gas(&self, code: &mut InstructionSink<'_>, spare: u32) {
        code.local_tee(spare).global_set(self.gas_global);
        code.local_get(spare).i64_const(0).i64_lt_s().if_(BlockType::Empty).unreachable().end();
    }

    fn charge(&self, code: &mut InstructionSink<'_>, run: Run, spare: u32) {
        let known = if self.grows { 0 } else { self.schedule.load_ink(self.initial_pages) };
        let ink = run.ink + run.loads * known;
        if ink == 0 {
            return;
        }
        code.global_get(self.gas_global).i64_const(ink as i64).i64_sub();
        if self.grows && run.loads > 0 {
            code.global_get(self.load_global);
            if run.loads > 1 {
                code.i64_const(run.loads as i64).i64_mul();
            }
            code.i64_sub();
        }
        self.settle_gas(code, spare);
    }

    fn function(
        &self,
        body: &FunctionBody<'_>,
        frame: &Frame,
        mut note: impl FnMut(usize, usize),
    ) -> Result<Function, InstrumentError> {
        let mut same = RoundtripReencoder;
        let mut locals = Vec::new();
        for local in body.get_locals_reader().map_err(failed)? {
            let (count, ty) = local.map_err(failed)?;
            locals.push((count, same.val_type(ty).map_err(failed)?));
        }
        // Temporaries for charging and marking.
        locals.extend([(1, ValType::I64), (2, ValType::I32)]);
        let spare = frame.parameters + frame.locals;
        let (address, int) = (spare + 1, spare + 2);
        let operators: Vec<Operator<'_>> =
            body.get_operators_reader().map_err(failed)?.into_iter().collect::<Result<_, _>>().map_err(failed)?;
        let mut prices = Prices::of(self.schedule, &operators, gas::INK_PER_LOCAL * u64::from(frame.locals));
        let words = frame.counted_words().map(|words| words as i32);

        let mut function = Function::new(locals);
        if let Some(words) = words {
            let mut code = function.instructions();
            code.global_get(self.stack_global).i32_const(words).i32_sub().global_set(self.stack_global);
            code.global_get(self.stack_global).i32_const(0).i32_lt_s().if_(BlockType::Empty).unreachable().end();
            // A branch to the function's own label now ends here, with its depth unchanged.
            code.block(body_type(frame));
        }
        self.charge(&mut function.instructions(), prices.next(), spare);
        // Number of the contract's open blocks; the last `end` closes the function itself.
        let mut open = 0u32;
        let last = operators.len().saturating_sub(1);
        let places = body.get_operators_reader().map_err(failed)?.into_iter_with_offsets();
        for ((at, operator), place) in operators.into_iter().enumerate().zip(places) {
            note(function.byte_len(), place.map_err(failed)?.1);
            let class = gas::class(&operator).ok_or_else(|| failed("an instruction without a price"))?;
            let ends_run = ends_run(&operator) && at != last;
            match &operator {
                Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } => open += 1,
                Operator::End => open = open.saturating_sub(1),
                _ => {}
            }
            match (class, &operator) {
                (Class::MemoryGrow, _) => {
                    function.instructions().call(self.grow_function);
                }
                (_, Operator::Return) if words.is_some() => {
                    function.instructions().br(open);
                }
                (Class::MemoryCopy, _) => {
                    function.instructions().call(self.copy_function);
                }
                (Class::MemoryFill, _) => {
                    function.instructions().call(self.fill_function);
                }
                (Class::MemorySize, _) => {
                    function.instructions().memory_size(0).i32_const(PRIVATE_PAGES as i32).i32_sub();
                }
                (Class::Load | Class::Store | Class::StoreByte, _) => {
                    let instruction = same.instruction(operator).map_err(failed)?;
                    let (instruction, offset, long) =
                        shifted(instruction).ok_or_else(|| failed("an access without a memory"))?;
                    if class != Class::Load {
                        self.mark(&mut function.instructions(), offset, address, if long { spare } else { int });
                    }
                    function.instruction(&instruction);
                }
                _ => {
                    function.instruction(&same.instruction(operator).map_err(failed)?);
                }
            }
            if ends_run {
                self.charge(&mut function.instructions(), prices.next(), spare);
            }
        }
        if let Some(words) = words {
            let mut code = function.instructions();
            code.global_get(self.stack_global).i32_const(words).i32_add().global_set(self.stack_global).end();
        }
        Ok(function)
    }
}

/// Translates a contract address to the module's memory. The upper half, which is out of bounds, stays out of bounds.
fn place(code: &mut InstructionSink<'_>, address: u32) {
    code.i32_const(-1).local_get(address).i32_const(PRIVATE_BYTES as i32).i32_add();
    code.local_get(address).i32_const(0).i32_lt_s().select();
}

macro_rules! accesses {
    ($($name:ident $long:literal)*) => {
        /// Returns the access moved by [`PRIVATE_BYTES`], its original offset, and whether its value is an i64.
        fn shifted(instruction: Instruction<'_>) -> Option<(Instruction<'_>, u32, bool)> {
            // An offset that would overflow is out of bounds both with and without the addition.
            let behind = |memarg: MemArg| MemArg { offset: (memarg.offset + PRIVATE_BYTES as u64).min(u32::MAX.into()), ..memarg };
            match instruction {
                $(Instruction::$name(memarg) => Some((Instruction::$name(behind(memarg)), u32::try_from(memarg.offset).ok()?, $long)),)*
                _ => None,
            }
        }
    };
}

accesses! {
    I32Load false I32Load8S false I32Load8U false I32Load16S false I32Load16U false I32Store false I32Store8 false I32Store16 false
    I64Load true I64Load8S true I64Load8U true I64Load16S true I64Load16U true I64Load32S true I64Load32U true
    I64Store true I64Store8 true I64Store16 true I64Store32 true
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

fn body_type(frame: &Frame) -> BlockType {
    match frame.result {
        None => BlockType::Empty,
        Some(ValueType::I32) => BlockType::Result(ValType::I32),
        Some(ValueType::I64) => BlockType::Result(ValType::I64),
    }
}

/// Returns whether the instruction ends a straight run: what follows is reachable without it, or may not be reached
/// after it.
pub(super) fn ends_run(operator: &Operator<'_>) -> bool {
    matches!(
        operator,
        Operator::Loop { .. }
            | Operator::If { .. }
            | Operator::Else
            | Operator::End
            | Operator::Br { .. }
            | Operator::BrIf { .. }
            | Operator::BrTable { .. }
            | Operator::Return
            | Operator::Unreachable
    )
}

/// Price of a straight run: a fixed part, and a number of loads, whose price depends on the pages.
#[derive(Clone, Copy, Default)]
struct Run {
    ink: u64,
    loads: u64,
}

/// Prices of a function's straight runs, in order.
struct Prices(std::vec::IntoIter<Run>);

impl Prices {
    fn of(schedule: &Schedule, operators: &[Operator<'_>], entry: u64) -> Self {
        let mut runs = Vec::new();
        let mut run = Run { ink: entry, loads: 0 };
        for operator in operators {
            if let Some(class) = gas::class(operator) {
                run.ink += schedule.ink(class);
                run.loads += gas::loads(class);
            }
            if ends_run(operator) {
                runs.push(std::mem::take(&mut run));
            }
        }
        Self(runs.into_iter())
    }

    fn next(&mut self) -> Run {
        self.0.next().unwrap_or_default()
    }
}
