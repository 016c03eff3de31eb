//! The price of a frame's start, known without loading its code.
//!
//! A frame pays for its start before its code is unpacked, loaded or compiled. The numbers behind the price are stored
//! by code hash: recently used ones in memory, all of them next to the artefacts. Unlike an artefact, such a record
//! depends on the code alone, so it stays valid for a new binary or processor.

use super::cache::{ModuleCache, seal, unseal};
use super::contract::Start;
use super::validate::parser;
use alloy_primitives::{B256, keccak256};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use wasmparser::Payload;

/// Maximum number of starts in memory. Each takes about 60 bytes.
const MAX_STARTS: usize = 1 << 17;

/// Format of records; part of their keys.
const RECORD_TAG: &[u8] = b"corniche start 1";

/// The recently used starts.
pub(super) struct StartCache {
    generations: Mutex<Generations>,
    /// Maximum size of a generation.
    capacity: usize,
}

/// When `young` is full it becomes `old`, and entries of the previous `old` that were not used meanwhile are dropped.
#[derive(Default)]
struct Generations {
    young: BTreeMap<B256, Start>,
    old: BTreeMap<B256, Start>,
}

impl Default for StartCache {
    fn default() -> Self {
        Self { generations: Mutex::default(), capacity: MAX_STARTS / 2 }
    }
}

impl StartCache {
    pub fn get(&self, code_hash: &B256) -> Option<Start> {
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(start) = generations.young.get(code_hash) {
            return Some(*start);
        }
        let start = generations.old.remove(code_hash)?;
        generations.insert(*code_hash, start, self.capacity);
        Some(start)
    }

    pub fn insert(&self, code_hash: B256, start: Start) {
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        generations.insert(code_hash, start, self.capacity);
    }
}

impl Generations {
    fn insert(&mut self, code_hash: B256, start: Start, capacity: usize) {
        if self.young.len() >= capacity {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(code_hash, start);
    }
}

/// Returns the key of a record; keys of artefacts have another preimage.
pub(super) fn record_key(code_hash: &B256) -> B256 {
    keccak256([RECORD_TAG, code_hash.as_slice()].concat())
}

/// Returns the stored start, if it is intact.
pub(super) fn read_record(records: &dyn ModuleCache, code_hash: &B256) -> Option<Start> {
    let sealed = records.get(&record_key(code_hash))?;
    borsh::from_slice(unseal(&sealed)?).ok()
}

pub(super) fn write_record(records: &dyn ModuleCache, code_hash: &B256, start: &Start) {
    if let Ok(record) = borsh::to_vec(start) {
        records.put(&record_key(code_hash), &seal(&record));
    }
}

impl Start {
    /// Returns the start of a module that was validated at its deployment, or `None` for any other. It reads the first
    /// sections' headers and no code, so it takes microseconds.
    pub fn of_valid_module(wasm: &[u8]) -> Option<Self> {
        let unpacked_bytes = u32::try_from(wasm.len()).ok()?;
        let mut start = Self { unpacked_bytes, functions: 0, initial_pages: 0 };
        for payload in parser().parse_all(wasm) {
            match payload.ok()? {
                // Validation accepts only functions as imports.
                Payload::ImportSection(section) => {
                    for import in section.into_imports() {
                        import.ok()?;
                        start.functions = start.functions.checked_add(1)?;
                    }
                }
                Payload::FunctionSection(section) => start.functions = start.functions.checked_add(section.count())?,
                Payload::MemorySection(section) => {
                    let memory = section.into_iter().next()?.ok()?;
                    start.initial_pages = u32::try_from(memory.initial).ok()?;
                }
                Payload::CodeSectionStart { .. } => return Some(start),
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wasm::validate;

    #[test]
    fn recent_starts_stay_cached() {
        let code = B256::with_last_byte;
        let start = |number: u8| Start { unpacked_bytes: number.into(), functions: 1, initial_pages: 1 };
        let starts = StartCache { capacity: 4, ..StartCache::default() };
        (0..8).for_each(|number| starts.insert(code(number), start(number)));
        assert_eq!(starts.get(&code(0)), Some(start(0)), "it is in the old generation, and young from now on");
        (8..12).for_each(|number| starts.insert(code(number), start(number)));
        for (number, kept) in [(0, true), (1, false), (4, false), (8, true), (11, true)] {
            assert_eq!(starts.get(&code(number)), kept.then(|| start(number)), "{number}");
        }
        let generations = starts.generations.into_inner().unwrap();
        assert!(generations.young.len() <= 4 && generations.old.len() <= 4);
    }

    #[test]
    fn start_matches_validation() {
        let imports =
            r#"(import "vm_hooks" "read_args" (func (param i32))) (import "vm_hooks" "write_result" (func (param i32 i32)))"#;
        let entry = r#"(func (export "user_entrypoint") (param i32) (result i32) i32.const 0)"#;
        for (imports, functions, pages) in
            [("", "", 0), (imports, "", 1), (imports, "(func) (func (local i64))", 17), ("", "(func)", 128)]
        {
            let text =
                format!(r#"(module {imports} (memory (export "memory") {pages}) {functions} {entry} (data (i32.const 0) ""))"#);
            let wasm = wat::parse_str(text).unwrap();
            let checked = validate::check(&wasm).unwrap();
            let expected = Start {
                unpacked_bytes: wasm.len() as u32,
                functions: checked.imported_functions + checked.defined_functions,
                initial_pages: checked.initial_pages,
            };
            assert_eq!(Start::of_valid_module(&wasm), Some(expected));
            for end in 0..8 {
                assert_eq!(Start::of_valid_module(&wasm[..end]), None);
            }
        }
    }
}
