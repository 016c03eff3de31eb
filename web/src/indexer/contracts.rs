//! Facts from a contract's code: its ABI and properties of the module. Code is untrusted.

use crate::abi::parse_abi;
use alloy_json_abi::JsonAbi;
use alloy_primitives::{B256, keccak256};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use wasmparser::{Parser, Payload, TypeRef};

/// Maximum number of bytes of an ABI that are kept. Code on chain is at most four times that.
pub const MAX_ABI_BYTES: usize = 128 << 10;

/// Maximum number of functions, events and errors of an ABI that are kept for the search.
const MAX_NAMES: usize = 1_024;

/// Maximum number of imports and exports that are kept, and maximum number of characters of a name.
const MAX_LISTED: usize = 256;
const MAX_NAME: usize = 128;

/// A contract's code, analysed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// keccak-256 of the code as deployed.
    pub hash: B256,
    /// Size as deployed, in bytes.
    pub bytes: u64,
    /// ABI as JSON; empty if the code contains no valid one.
    pub abi: String,
    /// See [`ModuleInfo`].
    pub facts: ModuleInfo,
}

/// Properties of a WebAssembly module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModuleInfo {
    /// Decompressed size in bytes.
    pub module_bytes: u64,
    /// `true` if it was deployed compressed.
    pub compressed: bool,
    /// Initial memory in pages of 64 KiB.
    pub memory_pages: u64,
    /// Number of functions with a body.
    pub functions: u64,
    /// Bytes of function bodies.
    pub code_bytes: u64,
    /// Module and name of imports.
    pub imports: Vec<(String, String)>,
    /// Name and kind of exports.
    pub exports: Vec<(String, String)>,
    /// Names and sizes of custom sections.
    pub sections: Vec<(String, u64)>,
    /// Reason why parsing stopped early.
    pub problem: Option<String>,
}

impl Code {
    /// Analyses an account's code. Never fails: errors are stored in [`ModuleInfo::problem`].
    pub fn read(code: &[u8]) -> Self {
        let module = corniche_verifier::code::module(code);
        let (abi, facts) = match &module {
            Ok(module) => {
                let text = corniche_abi::interface::embedded(module).and_then(|text| std::str::from_utf8(text).ok());
                let abi = text.filter(|text| text.len() <= MAX_ABI_BYTES && parse_abi(text).is_some());
                (abi.unwrap_or_default().to_owned(), ModuleInfo { compressed: code.len() != module.len(), ..facts(module) })
            }
            Err(problem) => (String::new(), ModuleInfo { problem: Some(problem.clone()), ..ModuleInfo::default() }),
        };
        Self { hash: keccak256(code), bytes: code.len() as u64, abi, facts }
    }
}

fn facts(module: &[u8]) -> ModuleInfo {
    let mut facts = ModuleInfo { module_bytes: module.len() as u64, ..ModuleInfo::default() };
    if let Err(error) = read_sections(module, &mut facts) {
        facts.problem = Some(cut(&error.to_string()));
    }
    facts
}

fn read_sections(module: &[u8], facts: &mut ModuleInfo) -> wasmparser::Result<()> {
    for payload in Parser::new(0).parse_all(module) {
        match payload? {
            Payload::ImportSection(imports) => {
                for import in imports.into_imports().take(MAX_LISTED) {
                    let import = import?;
                    if let TypeRef::Func(_) | TypeRef::Memory(_) | TypeRef::Global(_) | TypeRef::Table(_) = import.ty {
                        facts.imports.push((cut(import.module), cut(import.name)));
                    }
                }
            }
            Payload::ExportSection(exports) => {
                for export in exports.into_iter().take(MAX_LISTED) {
                    let export = export?;
                    facts.exports.push((cut(export.name), format!("{:?}", export.kind).to_lowercase()));
                }
            }
            Payload::MemorySection(memories) => {
                for memory in memories.into_iter().take(1) {
                    facts.memory_pages = memory?.initial;
                }
            }
            Payload::CodeSectionStart { count, size, .. } => {
                (facts.functions, facts.code_bytes) = (count.into(), size.into());
            }
            Payload::CustomSection(section) if facts.sections.len() < MAX_LISTED => {
                facts.sections.push((cut(section.name()), section.data().len() as u64));
            }
            _ => {}
        }
    }
    Ok(())
}

fn cut(text: &str) -> String {
    text.chars().take(MAX_NAME).collect()
}

/// Returns hash, signature and name of an ABI's functions and errors (4-byte hashes) and events (32-byte hashes).
pub fn names(abi: &JsonAbi) -> BTreeSet<(Vec<u8>, String, String)> {
    let functions = abi.functions().map(|function| (function.selector().to_vec(), function.signature(), function.name.clone()));
    let errors = abi.errors().map(|error| (error.selector().to_vec(), error.signature(), error.name.clone()));
    let events = abi.events().map(|event| (event.selector().to_vec(), event.signature(), event.name.clone()));
    let short = |(_, signature, _): &(Vec<u8>, String, String)| signature.len() <= 512;
    functions.chain(errors).chain(events).filter(short).take(MAX_NAMES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABI: &str = r#"[{"type":"function","name":"number","inputs":[],"outputs":[],"stateMutability":"view"}]"#;

    /// An empty module.
    const MODULE: &[u8] = b"\0asm\x01\0\0\0";

    #[test]
    fn embedded_abi_is_read() {
        let code = Code::read(&corniche_abi::interface::embed(MODULE, ABI.as_bytes()));
        assert_eq!(code.abi, ABI);
        assert_eq!(code.facts.sections, [("corniche.abi".to_owned(), ABI.len() as u64)]);
        let names = names(&parse_abi(&code.abi).unwrap());
        assert_eq!(names, BTreeSet::from([(hex::decode("8381f58a").unwrap(), "number()".into(), "number".into())]));
    }

    #[test]
    fn invalid_abi_is_ignored() {
        for text in ["", "[", "7", "\u{1F600}", &"[".repeat(100_000)] {
            assert_eq!(Code::read(&corniche_abi::interface::embed(MODULE, text.as_bytes())).abi, "", "{text:.10}");
        }
        let large = format!("{ABI}{}", " ".repeat(MAX_ABI_BYTES));
        assert_eq!(Code::read(&corniche_abi::interface::embed(MODULE, large.as_bytes())).abi, "");
    }

    #[test]
    fn broken_code_reports_problem() {
        assert!(Code::read(b"\0asm\x01\0\0\0\xff").facts.problem.is_some());
        assert!(Code::read(&[0xef, 0xf0, 0, 0, 1, 2, 3]).facts.problem.is_some());
        assert!(Code::read(&[]).facts.problem.is_some());
    }
}
