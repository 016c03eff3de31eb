//! Makes a checked module count what it uses. The result, not the module as deployed, is what gets compiled.
//!
//! Three counters are added as mutable globals, exported under names that only the host sees (every export of the contract besides
//! memory and entrypoint is dropped, so nothing can collide):
//!
//! - **gas**, in ink. Each straight run of instructions is charged at its start, before anything of it happens. `memory.grow`,
//!   `memory.copy` and `memory.fill` charge for pages and bytes in two small added functions.
//! - **stack**, in words. A function takes its frame's words at entry and gives them back at its end.
//! - **pages**, what the transaction may still add in linear memory.
//!
//! A counter that falls below zero ends the run in `unreachable` and stays below zero: the host reads from it which bound was met. No
//! counter is ever below zero while the contract runs, so a contract's own `unreachable` is told apart.
//!
//! ```text
//! function:   take words | block | ...body, `return` becomes a branch to the block's end... | end | give words back
//! run:        gas -= price; trap if gas < 0
//! ```
//!
//! Functions that call nothing and need few words are not counted: native stack has room to spare for one of them at any depth
//! ([`engine`](super::engine)). Custom sections are dropped.

use super::gas::{self, Class};
use super::validate::{Checked, Frame, parser};
use corniche_abi::{ENTRYPOINT_EXPORT, MEMORY_EXPORT, ValueType};
use wasm_encoder::reencode::{Reencode, RoundtripReencoder};
use wasm_encoder::{
    BlockType, CodeSection, ConstExpr, DataSection, ElementSection, ExportKind, ExportSection, Function, FunctionSection,
    GlobalSection, GlobalType, ImportSection, InstructionSink, MemorySection, MemoryType, Module, TableSection, TypeSection,
    ValType,
};
use wasmparser::{FunctionBody, Operator, Payload};

/// Names of the exported counters.
pub const GAS_EXPORT: &str = "gas";
pub const STACK_EXPORT: &str = "stack";
pub const PAGES_EXPORT: &str = "pages";

/// A frame of a leaf function up to this size is not counted.
pub const UNCOUNTED_LEAF_WORDS: u32 = 512;

/// The module could not be rewritten although it was checked: a bug of ours, never the contract's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("instrumentation failed on a checked module: {0}")]
pub struct InstrumentError(String);

fn failed(error: impl std::fmt::Display) -> InstrumentError {
    InstrumentError(error.to_string())
}

/// Rewrites the module. Linear in its size.
pub fn instrument(checked: &Checked<'_>) -> Result<Vec<u8>, InstrumentError> {
    let context = Context::new(checked);
    let mut out = Sections::default();
    let mut frames = checked.frames.iter();
    for payload in parser().parse_all(checked.wasm) {
        let mut same = RoundtripReencoder;
        match payload.map_err(failed)? {
            Payload::TypeSection(section) => same.parse_type_section(&mut out.types, section).map_err(failed)?,
            Payload::ImportSection(section) => same.parse_import_section(&mut out.imports, section).map_err(failed)?,
            Payload::FunctionSection(section) => same.parse_function_section(&mut out.functions, section).map_err(failed)?,
            Payload::TableSection(section) => same.parse_table_section(&mut out.tables, section).map_err(failed)?,
            Payload::GlobalSection(section) => same.parse_global_section(&mut out.globals, section).map_err(failed)?,
            Payload::ElementSection(section) => same.parse_element_section(&mut out.elements, section).map_err(failed)?,
            Payload::DataSection(section) => same.parse_data_section(&mut out.data, section).map_err(failed)?,
            Payload::ExportSection(section) => {
                for export in section {
                    let export = export.map_err(failed)?;
                    if export.name == ENTRYPOINT_EXPORT {
                        out.exports.export(ENTRYPOINT_EXPORT, ExportKind::Func, export.index);
                    }
                }
            }
            Payload::CodeSectionEntry(body) => {
                let frame = frames.next().ok_or_else(|| failed("more bodies than frames"))?;
                out.code.function(&context.function(&body, frame)?);
            }
            // The memory is written anew with its bound; the rest has no place in a compiled module.
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

/// Indexes of what is added, all behind what the module has, so nothing is renumbered.
struct Context {
    /// (i32) -> (i32).
    helper_type: u32,
    grow_function: u32,
    bytes_function: u32,
    gas_global: u32,
    stack_global: u32,
    pages_global: u32,
    initial_pages: u32,
    maximum_pages: u32,
}

impl Context {
    fn new(checked: &Checked<'_>) -> Self {
        let functions = checked.imported_functions + checked.defined_functions;
        Self {
            helper_type: checked.types,
            grow_function: functions,
            bytes_function: functions + 1,
            gas_global: checked.globals,
            stack_global: checked.globals + 1,
            pages_global: checked.globals + 2,
            initial_pages: checked.initial_pages,
            maximum_pages: checked.maximum_pages,
        }
    }

    fn add_own(&self, out: &mut Sections) {
        out.types.ty().function([ValType::I32], [ValType::I32]);
        out.functions.function(self.helper_type).function(self.helper_type);
        out.memories.memory(MemoryType {
            minimum: self.initial_pages.into(),
            maximum: Some(self.maximum_pages.into()),
            memory64: false,
            shared: false,
            page_size_log2: None,
        });
        // All three start spent: a run that the host did not set up cannot do anything.
        let counter = |val_type| GlobalType { val_type, mutable: true, shared: false };
        out.globals.global(counter(ValType::I64), &ConstExpr::i64_const(0));
        out.globals.global(counter(ValType::I32), &ConstExpr::i32_const(0));
        out.globals.global(counter(ValType::I32), &ConstExpr::i32_const(0));
        out.exports.export(MEMORY_EXPORT, ExportKind::Memory, 0);
        out.exports.export(GAS_EXPORT, ExportKind::Global, self.gas_global);
        out.exports.export(STACK_EXPORT, ExportKind::Global, self.stack_global);
        out.exports.export(PAGES_EXPORT, ExportKind::Global, self.pages_global);
        out.code.function(&self.grow()).function(&self.bytes());
    }

    /// `memory.grow` with its price. What cannot succeed costs no pages; what the transaction's bound forbids traps.
    fn grow(&self) -> Function {
        let (pages, spare) = (0, 1);
        let mut function = Function::new([(1, ValType::I64)]);
        let mut code = function.instructions();
        // More than fits the memory's own bound: the specification's -1.
        code.local_get(pages).i64_extend_i32_u().memory_size(0).i64_extend_i32_u().i64_add();
        code.i64_const(self.maximum_pages.into()).i64_gt_u();
        code.if_(BlockType::Empty).i32_const(-1).return_().end();
        // At most 128 pages from here on, so nothing below can overflow.
        code.global_get(self.gas_global)
            .local_get(pages)
            .i64_extend_i32_u()
            .i64_const(gas::INK_PER_PAGE as i64)
            .i64_mul()
            .i64_sub();
        self.settle_gas(&mut code, spare);
        code.global_get(self.pages_global).local_get(pages).i32_sub().global_set(self.pages_global);
        code.global_get(self.pages_global).i32_const(0).i32_lt_s().if_(BlockType::Empty).unreachable().end();
        code.local_get(pages).memory_grow(0).end();
        function
    }

    /// Charges for the length on top of the stack and leaves it there.
    fn bytes(&self) -> Function {
        let mut function = Function::new([(1, ValType::I64)]);
        let mut code = function.instructions();
        code.global_get(self.gas_global);
        code.local_get(0).i64_extend_i32_u().i64_const(gas::INK_PER_MEMORY_BYTE as i64).i64_mul().i64_sub();
        self.settle_gas(&mut code, 1);
        code.local_get(0).end();
        function
    }

    /// Stores the i64 on top of the stack as what is left, and traps when that is below zero.
    fn settle_gas(&self, code: &mut InstructionSink<'_>, spare: u32) {
        code.local_tee(spare).global_set(self.gas_global);
        code.local_get(spare).i64_const(0).i64_lt_s().if_(BlockType::Empty).unreachable().end();
    }

    fn charge(&self, code: &mut InstructionSink<'_>, ink: u64, spare: u32) {
        if ink > 0 {
            code.global_get(self.gas_global).i64_const(ink as i64).i64_sub();
            self.settle_gas(code, spare);
        }
    }

    fn function(&self, body: &FunctionBody<'_>, frame: &Frame) -> Result<Function, InstrumentError> {
        let mut same = RoundtripReencoder;
        let mut locals = Vec::new();
        for local in body.get_locals_reader().map_err(failed)? {
            let (count, ty) = local.map_err(failed)?;
            locals.push((count, same.val_type(ty).map_err(failed)?));
        }
        locals.push((1, ValType::I64));
        let spare = frame.parameters + frame.locals;
        let operators: Vec<Operator<'_>> =
            body.get_operators_reader().map_err(failed)?.into_iter().collect::<Result<_, _>>().map_err(failed)?;
        let mut prices = Prices::of(&operators, gas::INK_PER_LOCAL * u64::from(frame.locals));
        let words = (!frame.is_leaf || frame.words() > UNCOUNTED_LEAF_WORDS).then(|| frame.words() as i32);

        let mut function = Function::new(locals);
        if let Some(words) = words {
            let mut code = function.instructions();
            code.global_get(self.stack_global).i32_const(words).i32_sub().global_set(self.stack_global);
            code.global_get(self.stack_global).i32_const(0).i32_lt_s().if_(BlockType::Empty).unreachable().end();
            // A branch to the function's own label now ends here, at the depth it was written with.
            code.block(body_type(frame));
        }
        self.charge(&mut function.instructions(), prices.next(), spare);
        // Blocks of the contract that are open; the last `end` closes the function itself.
        let mut open = 0u32;
        let last = operators.len().saturating_sub(1);
        for (at, operator) in operators.into_iter().enumerate() {
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
                _ => {
                    if matches!(class, Class::MemoryCopy | Class::MemoryFill) {
                        function.instructions().call(self.bytes_function);
                    }
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

fn body_type(frame: &Frame) -> BlockType {
    match frame.result {
        None => BlockType::Empty,
        Some(ValueType::I32) => BlockType::Result(ValType::I32),
        Some(ValueType::I64) => BlockType::Result(ValType::I64),
    }
}

/// Whether what follows may be reached without this, or this without what follows.
fn ends_run(operator: &Operator<'_>) -> bool {
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

/// The prices of a function's straight runs, in order.
struct Prices(std::vec::IntoIter<u64>);

impl Prices {
    fn of(operators: &[Operator<'_>], entry: u64) -> Self {
        let mut runs = Vec::new();
        let mut run = entry;
        for operator in operators {
            run += gas::class(operator).map_or(0, gas::ink);
            if ends_run(operator) {
                runs.push(std::mem::take(&mut run));
            }
        }
        Self(runs.into_iter())
    }

    fn next(&mut self) -> u64 {
        self.0.next().unwrap_or(0)
    }
}
