//! Names of functions, instructions and signatures for error messages. They affect no decision.

use super::{parser, wasm_type};
use corniche_abi::ValueType;
use std::collections::BTreeMap;
use wasmparser::{KnownCustom, Name, Operator, Payload, TypeRef};

/// Returns names by function index, if the module has a readable name section. For messages only.
pub fn function_names(wasm: &[u8]) -> BTreeMap<u32, String> {
    let mut names = BTreeMap::new();
    for payload in parser().parse_all(wasm) {
        let Ok(payload) = payload else { break };
        let Payload::CustomSection(section) = payload else { continue };
        let KnownCustom::Name(reader) = section.as_known() else { continue };
        for subsection in reader.into_iter().flatten() {
            if let Name::Function(map) = subsection {
                names.extend(map.into_iter().flatten().take(65_536).map(|naming| (naming.index, printable(naming.name))));
            }
        }
    }
    names
}

/// Makes a name from the module safe for a log line: bounded and without control characters.
pub(super) fn printable(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(120).collect()
}

/// Returns the first function of each type, as far as the module is readable: types precede the functions that use
/// them.
pub(super) fn first_uses(wasm: &[u8]) -> BTreeMap<u32, u32> {
    let mut users = BTreeMap::new();
    let mut functions = 0;
    for payload in parser().parse_all(wasm).flatten() {
        match payload {
            Payload::ImportSection(section) => {
                for import in section.into_imports().flatten() {
                    if let TypeRef::Func(ty) = import.ty {
                        users.entry(ty).or_insert(functions);
                        functions += 1;
                    }
                }
            }
            Payload::FunctionSection(section) => {
                for ty in section.into_iter().flatten() {
                    users.entry(ty).or_insert(functions);
                    functions += 1;
                }
            }
            Payload::CodeSectionStart { .. } => break,
            _ => {}
        }
    }
    users
}

pub(super) fn value_text(ty: ValueType) -> String {
    wasm_type(ty).to_string()
}

pub(super) fn signature_text(parameters: impl Iterator<Item = String>, result: Option<String>) -> String {
    format!("({}) -> ({})", parameters.collect::<Vec<_>>().join(", "), result.unwrap_or_default())
}

/// Returns an instruction in WebAssembly's text format, and its feature.
pub(super) fn describe(operator: &Operator<'_>) -> (String, &'static str) {
    macro_rules! table {
        ($(@$proposal:ident $operator:ident $({ $($argument:ident: $ty:ty),* })? => $visit:ident ($($arity:tt)*))*) => {
            match operator {
                $(Operator::$operator { .. } => (stringify!($proposal), stringify!($visit)),)*
                _ => ("unknown", "visit_unknown"),
            }
        };
    }
    let (proposal, visit) = wasmparser::for_each_operator!(table);
    let name = visit.trim_start_matches("visit_");
    let prefixes = [
        "i32", "i64", "f32", "f64", "v128", "i8x16", "i16x8", "i32x4", "i64x2", "f32x4", "f64x2", "memory", "table", "local",
        "global", "ref", "data", "elem", "struct", "array", "atomic", "i31", "any", "extern", "cont",
    ];
    let text = match name.split_once('_') {
        Some((prefix, rest)) if prefixes.contains(&prefix) => format!("{prefix}.{rest}"),
        _ => name.to_owned(),
    };
    let reason = match proposal {
        _ if ["_f32", "_f64", "f32_", "f64_", "f32.", "f64."].iter().any(|part| text.contains(part)) && proposal != "simd" => {
            "floating point"
        }
        "mvp" => "floating point",
        "saturating_float_to_int" => "floating point",
        "bulk_memory" => "bulk memory: only memory.copy and memory.fill",
        "reference_types" => "reference types",
        "function_references" => "typed function references",
        "tail_call" => "tail calls",
        "threads" | "shared_everything_threads" => "threads",
        "simd" => "SIMD",
        "relaxed_simd" => "relaxed SIMD",
        "exceptions" | "legacy_exceptions" => "exceptions",
        "gc" => "garbage collection",
        "stack_switching" => "stack switching",
        "wide_arithmetic" => "wide arithmetic",
        "memory_control" => "memory control",
        _ => "an extension this chain does not have",
    };
    (text, reason)
}
