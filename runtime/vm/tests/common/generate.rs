//! Random contracts: a seed determines instructions from the permitted set, and every host call is available.
//!
//! wasm-smith calls a function only if its arguments happen to be on the stack, which is very rare for host calls, and
//! almost every random pointer would end the run. So it is given functions without parameters, several per host call.
//! Behind each is a function that computes the arguments: constants, plus a little data from memory, so that they
//! change during the run. The entrypoint calls all functions, these and the module's own.

use arbitrary::Unstructured;
use corniche_abi::{ENTRYPOINT_EXPORT, HostCall, MODULES, ValueType};
use corniche_vm::wasm::validate;
use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng, SeedableRng},
};
use std::collections::BTreeMap;
use wasm_encoder::reencode::{Error, Reencode, utils};
use wasm_encoder::{
    BlockType, CodeSection, EntityType, ExportKind, ExportSection, Function, FunctionSection, ImportSection, MemArg, Module,
    TypeSection, ValType,
};
use wasmparser::{CodeSectionReader, FuncType, FunctionSectionReader, ImportSectionReader, Parser, TypeRef, TypeSectionReader};

/// Returns a deployable module; a function of the seed.
#[allow(dead_code)] // not used by tests that have bytes
pub fn contract(seed: u64) -> Vec<u8> {
    let mut random = SplitMix64::seed_from_u64(seed);
    let mut refusals = BTreeMap::<String, u32>::new();
    for _ in 0..1_000 {
        let length = 500 + (random.next_u64() % 4_000) as usize;
        match from_bytes(&stretch(random.next_u64(), length)) {
            Ok(wasm) => return wasm,
            Err(refusal) => *refusals.entry(refusal).or_default() += 1,
        }
    }
    panic!("nothing that may be deployed comes of seed {seed}: {refusals:?}");
}

/// Returns the module that `bytes` encode, or the reason why it is not deployable. About two in three are.
pub fn from_bytes(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let wasm = smithed(bytes).ok_or("no module")?;
    validate::check(&wasm).map_err(|error| error.to_string())?;
    Ok(wasm)
}

/// Returns `length` pseudo-random bytes; a function of the seed.
pub fn stretch(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    SplitMix64::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}

/// Returns a number that is a function of the seed.
fn number(seed: u64) -> u64 {
    SplitMix64::seed_from_u64(seed).next_u64()
}

/// Address of the bits that select the functions to run: in the later part of the input, after the bytes used as
/// numbers and addresses.
const CHOICES: u64 = 0xa0;

/// Host calls that touch state. They are offered more often, so that nearly every module has each of them.
const STATE: [&str; 8] = [
    "call_contract",
    "counter_add",
    "counter_sub",
    "emit_log",
    "read_args",
    "storage_cache_bytes32",
    "storage_flush_cache",
    "storage_load_bytes32",
];

/// Returns all host calls, in the table's order.
fn hooks() -> impl Iterator<Item = (&'static str, &'static HostCall)> {
    MODULES.iter().flat_map(|(module, calls)| calls.iter().map(move |call| (*module, call)))
}

fn name_of(ty: ValueType) -> &'static str {
    match ty {
        ValueType::I32 => "i32",
        ValueType::I64 => "i64",
    }
}

fn available() -> Vec<u8> {
    let mut text = String::from("(module");
    for (module, call) in hooks() {
        let result = call.result.map_or(String::new(), |ty| format!("(result {})", name_of(ty)));
        let copies = if STATE.contains(&call.name) { 4 } else { 2 };
        text.push_str(&format!(r#"(import "{module}" "{}" (func {result}))"#, call.name).repeat(copies));
    }
    wat::parse_str(text + ")").unwrap()
}

fn smithed(bytes: &[u8]) -> Option<Vec<u8>> {
    let [first, second, ..] = bytes else { return None };
    let like = r#"(module (memory (export "memory") 1 4)
        (func (export "user_entrypoint") (param i32) (result i32) unreachable))"#;
    let config = wasm_smith::Config {
        exports: Some(wat::parse_str(like).unwrap()),
        available_imports: Some(available()),
        allow_floats: false,
        allow_start_export: false,
        bulk_memory_enabled: second.is_multiple_of(4),
        custom_page_sizes_enabled: false,
        disallow_traps: !first.is_multiple_of(4),
        exceptions_enabled: false,
        extended_const_enabled: false,
        gc_enabled: false,
        max_data_segments: 8,
        max_element_segments: 2,
        max_globals: 8,
        max_funcs: 200, // including imported ones
        max_memory32_bytes: 4 << 16,
        max_memories: 0, // in addition to the exported one
        max_tables: 1,
        max_table_elements: 32,
        memory64_enabled: false,
        memory_max_size_required: true,
        memory_offset_choices: wasm_smith::MemoryOffsetChoices(90, 9, 1),
        min_funcs: 3,
        min_imports: 20,
        multi_value_enabled: false,
        reference_types_enabled: false,
        relaxed_simd_enabled: false,
        saturating_float_to_int_enabled: false,
        shared_everything_threads_enabled: false,
        simd_enabled: false,
        tail_call_enabled: false,
        threads_enabled: false,
        wide_arithmetic_enabled: false,
        ..wasm_smith::Config::default()
    };
    let wasm = wasm_smith::Module::new(config, &mut Unstructured::new(bytes)).ok()?.to_bytes();
    let mut module = Module::new();
    HostCallRewriter::default().parse_core_module(&mut module, Parser::new(0), &wasm).ok()?;
    Some(module.finish())
}

/// Puts the host call behind each function that was offered.
#[derive(Default)]
struct HostCallRewriter {
    /// Imports, with the type under which each was offered.
    imports: Vec<(&'static HostCall, u32)>,
    types: Vec<FuncType>,
    /// Types of the module's own functions.
    functions: Vec<u32>,
}

impl HostCallRewriter {
    /// Index after all other functions.
    fn drive_index(&self) -> u32 {
        (2 * self.imports.len() + self.functions.len()) as u32
    }

    /// Calls every function at most once, in a pseudo-random order. The input is read first, and the cache is flushed
    /// last. Bits of the input beyond [`CHOICES`] select the functions. Only one in four of the module's own functions
    /// runs, because these often run forever.
    fn drive(&self) -> Function {
        let mut function = Function::new([]);
        let mut code = function.instructions();
        let imports = self.imports.len() as u32;
        let mut all: Vec<(u8, u64, u32, u32, i32)> = Vec::new();
        let mut add = |turn, index: u32, ty, bits| all.push((turn, number(u64::from(index)), index, ty, bits));
        (imports..).zip(&self.functions).for_each(|(index, ty)| add(1, index, *ty, 3));
        for (index, (call, ty)) in (imports + self.functions.len() as u32..).zip(&self.imports) {
            match call.name {
                "read_args" => add(0, index, *ty, 0),
                "storage_flush_cache" => add(2, index, *ty, 0),
                "exit_early" => {}
                name => add(1, index, *ty, if STATE.contains(&name) { 1 } else { 3 }),
            }
        }
        all.sort_unstable();
        for (at, (_, _, index, ty, bits)) in (0..).zip(all) {
            let ty = &self.types[ty as usize];
            let at = MemArg { offset: CHOICES + at % 128, align: 0, memory_index: 0 };
            code.i32_const(0).i32_load8_u(at).i32_const(bits).i32_and().i32_const(bits).i32_eq();
            code.if_(BlockType::Empty);
            for parameter in ty.params() {
                match parameter {
                    wasmparser::ValType::I64 => code.local_get(0).i64_extend_i32_s(),
                    _ => code.local_get(0),
                };
            }
            code.call(index);
            ty.results().iter().for_each(|_| _ = code.drop());
            code.end();
        }
        code.local_get(0).i32_const(1).i32_and().end();
        function
    }

    fn tame(index: u32, call: &HostCall) -> Function {
        let mut function = Function::new([]);
        let mut code = function.instructions();
        for (at, ty) in call.parameters.iter().enumerate() {
            let number = number(u64::from(index) << 8 | at as u64) as i32;
            match ty {
                // Around the headers that the chains of tests have.
                ValueType::I64 if call.name == "certified_hash" => code.i64_const(130 + i64::from(number & 7)),
                // Gas. Contracts mostly call themselves, so this bounds the cost of a call tree.
                ValueType::I64 => code.i64_const(i64::from(number & 0x1_ffff)),
                // Reads the input to the region that most pointers refer to.
                ValueType::I32 if call.name == "read_args" => code.i32_const(number & 0x60),
                // Callee: one of the first words of the input.
                ValueType::I32 if at == 0 && call.name.ends_with("call_contract") => code.i32_const(0x60 + (number & 0x60)),
                // Wei: usually zero, since contracts have little.
                ValueType::I32 if (call.name, at) == ("call_contract", 3) && number & 3 != 0 => code.i32_const(0x3000),
                // A status and a number of topics. All others are pointers and lengths; any two fit into one page. Most
                // are multiples of 32 from a small set, so that calls use common words.
                ValueType::I32 if call.name == "exit_early" => code.i32_const(number & 1),
                ValueType::I32 if (call.name, at) == ("emit_log", 2) => code.i32_const(number & 3),
                ValueType::I32 => {
                    let moved_by = if number as u32 >> 30 == 0 { 0x1ff } else { 0x60 };
                    code.i32_const(number & 0x1e0).i32_const(number >> 16 & 0xfff);
                    code.i32_load(MemArg { offset: 0, align: 0, memory_index: 0 }).i32_const(moved_by).i32_and().i32_add()
                }
            };
        }
        code.call(index).end();
        function
    }
}

impl Reencode for HostCallRewriter {
    type Error = std::convert::Infallible;

    fn function_index(&mut self, index: u32) -> Result<u32, Error<Self::Error>> {
        let imports = self.imports.len() as u32;
        Ok(if index < imports { imports + self.functions.len() as u32 + index } else { index })
    }

    fn parse_type_section(&mut self, out: &mut TypeSection, section: TypeSectionReader<'_>) -> Result<(), Error<Self::Error>> {
        for group in section.clone() {
            self.types.extend(group?.types().map(|ty| ty.unwrap_func().clone()));
        }
        utils::parse_type_section(self, out, section)?;
        let own = |ty| match ty {
            ValueType::I32 => ValType::I32,
            ValueType::I64 => ValType::I64,
        };
        for (_, call) in hooks() {
            out.ty().function(call.parameters.iter().copied().map(own), call.result.map(own));
        }
        out.ty().function([ValType::I32], [ValType::I32]);
        Ok(())
    }

    fn parse_import_section(
        &mut self,
        out: &mut ImportSection,
        section: ImportSectionReader<'_>,
    ) -> Result<(), Error<Self::Error>> {
        for import in section.into_imports() {
            let import = import?;
            let found = hooks()
                .zip(self.types.len() as u32..)
                .find(|((module, call), _)| (*module, call.name) == (import.module, import.name));
            if let (Some(((module, call), ty)), TypeRef::Func(offered)) = (found, import.ty) {
                out.import(module, call.name, EntityType::Function(ty));
                self.imports.push((call, offered));
            }
        }
        Ok(())
    }

    fn parse_function_section(
        &mut self,
        out: &mut FunctionSection,
        section: FunctionSectionReader<'_>,
    ) -> Result<(), Error<Self::Error>> {
        for ty in section.clone() {
            self.functions.push(ty?);
        }
        utils::parse_function_section(self, out, section)?;
        for (_, offered) in &self.imports {
            out.function(*offered);
        }
        // Type index of the entrypoint, after the table's types.
        out.function(self.types.len() as u32 + hooks().count() as u32);
        Ok(())
    }

    fn parse_export(&mut self, out: &mut ExportSection, export: wasmparser::Export<'_>) -> Result<(), Error<Self::Error>> {
        if export.name == ENTRYPOINT_EXPORT {
            out.export(export.name, ExportKind::Func, self.drive_index());
            return Ok(());
        }
        utils::parse_export(self, out, export)
    }

    fn parse_code_section(&mut self, out: &mut CodeSection, section: CodeSectionReader<'_>) -> Result<(), Error<Self::Error>> {
        utils::parse_code_section(self, out, section)?;
        for (index, (call, _)) in (0..).zip(&self.imports) {
            out.function(&Self::tame(index, call));
        }
        out.function(&self.drive());
        Ok(())
    }
}
