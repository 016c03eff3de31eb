//! Symbols of a module: function names from its name section, source lines from its debug information.
//!
//! Deployed modules rarely contain them, because they are large. A debug build keeps them outside of the module; they
//! are valid for exactly that code.

use addr2line::Context;
use addr2line::gimli::{Dwarf, EndianSlice, Error, LittleEndian, SectionId};
use corniche_vm::CodeLocation;
use std::collections::BTreeMap;
use std::fmt;
use wasmparser::{KnownCustom, Name, Parser, Payload};

/// Maximum number of lines per failure.
const MAX_LINES: usize = 8;

/// Function names and debug information of a module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Symbols {
    /// Names by function index; imported functions come first.
    names: BTreeMap<u32, String>,
    /// Debug sections by name.
    dwarf: BTreeMap<String, Vec<u8>>,
}

impl Symbols {
    /// Returns `None` if the module has no symbols.
    pub fn of(wasm: &[u8]) -> Option<Self> {
        let mut symbols = Self::default();
        for payload in Parser::new(0).parse_all(wasm).map_while(Result::ok) {
            let Payload::CustomSection(section) = payload else { continue };
            if section.name().starts_with(".debug_") {
                symbols.dwarf.insert(section.name().into(), section.data().into());
            } else if let KnownCustom::Name(reader) = section.as_known() {
                for subsection in reader.into_iter().map_while(Result::ok) {
                    if let Name::Function(names) = subsection {
                        let named = names.into_iter().map_while(Result::ok);
                        symbols.names.extend(named.map(|naming| (naming.index, naming.name.into())));
                    }
                }
            }
        }
        (!symbols.names.is_empty() || !symbols.dwarf.is_empty()).then_some(symbols)
    }

    /// Returns a function's name from the name section.
    pub fn name(&self, function: u32) -> Option<&str> {
        self.names.get(&function).map(String::as_str)
    }

    /// Describes the call stack of a failure, innermost function first, one line each: `token::transfer
    /// (src/lib.rs:12)`. Omits the standard library's functions between a panic and its trap.
    pub fn describe(&self, backtrace: &[CodeLocation]) -> Vec<String> {
        let section = |id: SectionId| -> Result<_, Error> {
            Ok(EndianSlice::new(self.dwarf.get(id.name()).map(Vec::as_slice).unwrap_or_default(), LittleEndian))
        };
        let lines = Dwarf::load(section).and_then(Context::from_dwarf).ok();
        let all: Vec<StackFrame> = backtrace.iter().flat_map(|place| self.at(place, lines.as_ref())).collect();
        let mut described: Vec<String> =
            all.iter().filter(|step| !step.is_runtime_code()).map(ToString::to_string).take(MAX_LINES).collect();
        if described.is_empty() {
            described = all.iter().map(ToString::to_string).take(MAX_LINES).collect();
        }
        described
    }

    /// Returns the functions inlined at a place, followed by the function itself.
    fn at(&self, place: &CodeLocation, lines: Option<&Context<EndianSlice<'_, LittleEndian>>>) -> Vec<StackFrame> {
        let steps = lines.and_then(|lines| lines_at(place, lines)).unwrap_or_default();
        if !steps.is_empty() {
            return steps;
        }
        let name = self.name(place.function).map(readable);
        let name = name.unwrap_or_else(|| format!("function {} at byte {} of the code", place.function, place.offset));
        vec![StackFrame { name, source: None }]
    }
}

/// A stack frame: a function and its current source line.
struct StackFrame {
    name: String,
    source: Option<(String, u32)>,
}

impl StackFrame {
    /// Returns whether the function is part of panic handling, or of the entry code before the contract's own
    /// functions.
    fn is_runtime_code(&self) -> bool {
        const NAMES: [&str; 10] =
            ["std::", "core::", "alloc::", "rust_", "__rust", "abort", "stylus_sdk::", "route<", "__stylus", "user_entrypoint"];
        const FILES: [&str; 5] = ["library/core/", "library/std/", "library/alloc/", "stdarch/", "/stylus-sdk-"];
        let file = self.source.as_ref().map(|(file, _)| file.as_str()).unwrap_or_default();
        NAMES.iter().any(|name| self.name.trim_start_matches('<').starts_with(name))
            || FILES.iter().any(|part| file.contains(part))
    }
}

impl fmt::Display for StackFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some((file, line)) => write!(f, "{} ({}:{line})", self.name, short(file)),
            None => f.write_str(&self.name),
        }
    }
}

fn lines_at(place: &CodeLocation, lines: &Context<EndianSlice<'_, LittleEndian>>) -> Option<Vec<StackFrame>> {
    let mut frames = lines.find_frames(place.offset.into()).skip_all_loads().ok()?;
    let mut steps = Vec::new();
    while let Ok(Some(frame)) = frames.next() {
        let Some(name) = frame.function.as_ref().and_then(|function| function.raw_name().ok()) else { continue };
        let source = frame.location.as_ref().and_then(|location| Some((location.file?.into(), location.line?)));
        steps.push(StackFrame { name: readable(&name), source });
    }
    Some(steps)
}

/// Demangles a name and removes Rust's hash.
fn readable(name: &str) -> String {
    let name = format!("{:#}", rustc_demangle::demangle(name));
    name.chars().filter(|c| !c.is_control()).take(200).collect()
}

/// Shortens a path to the part below the crate's folder.
fn short(file: &str) -> &str {
    file.find("/src/").map_or(file, |at| {
        let folder = file[..at].rfind('/').map_or(0, |slash| slash + 1);
        &file[folder..]
    })
}
