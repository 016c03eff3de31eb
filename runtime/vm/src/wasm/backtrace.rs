//! Locations in a module at which a run failed.
//!
//! The running module is the instrumented one, so an engine reports locations in it ([`RawBacktrace`]). The mapping to the
//! deployed module is computed on demand, by instrumenting again, and is not stored. Functions have equal indexes in
//! both modules, and each instruction knows its origin.

use super::creation::unpack;
use super::gas;
use super::instrument::instrument_with_offsets;
use super::validate::{Rules, ValidModule, check_with_schedule, parser};
pub use crate::backtrace::{CodeLocation, RawBacktrace};
use wasmparser::Payload;

impl RawBacktrace {
    /// Returns the locations of a failed run, if the engine records them.
    pub(super) fn of(error: &wasmtime::Error, gas_version: u8) -> Self {
        let frames = error.downcast_ref::<wasmtime::WasmBacktrace>().map(|backtrace| backtrace.frames()).unwrap_or_default();
        let backtrace = frames.iter().filter_map(|frame| Some((frame.func_index(), frame.module_offset()?))).collect();
        Self { frames: backtrace, gas_version }
    }

    /// Translates to the module in an account's code. Empty if that is not the code that ran.
    pub fn in_code(&self, code: &[u8]) -> Vec<CodeLocation> {
        let Ok(wasm) = unpack(code) else { return Vec::new() };
        // The development rules accept every module that any chain's rules accept.
        let checked = gas::schedule(self.gas_version).map(|schedule| check_with_schedule(schedule, Rules::DEVELOPMENT, &wasm));
        let Some(Ok(checked)) = checked else { return Vec::new() };
        self.map_to_original(&checked).unwrap_or_default()
    }

    fn map_to_original(&self, checked: &ValidModule<'_>) -> Option<Vec<CodeLocation>> {
        let wanted: Vec<_> = self.frames.iter().map(|(function, _)| function.checked_sub(checked.imported_functions)).collect();
        // For the functions on the stack only: offset in the new body, and in the old module.
        let mut notes: Vec<Vec<(usize, usize)>> = vec![Vec::new(); self.frames.len()];
        let counted = instrument_with_offsets(checked, |function, new, old| {
            for (note, wanted) in notes.iter_mut().zip(&wanted) {
                if *wanted == u32::try_from(function).ok() {
                    note.push((new, old));
                }
            }
        })
        .ok()?;
        let (code, _) = bodies(checked.wasm)?;
        let (_, bodies) = bodies(&counted)?;
        let place = |((function, at), note): (&(u32, usize), &Vec<(usize, usize)>)| {
            // Functions that instrumentation adds at the end contain no instructions of the contract.
            let body = bodies.get(function.checked_sub(checked.imported_functions)? as usize)?;
            let within = at.checked_sub(*body)?;
            let (_, old) = note[..note.partition_point(|(new, _)| *new <= within)].last().or(note.first())?;
            Some(CodeLocation { function: *function, offset: u32::try_from(old.checked_sub(code)?).ok()? })
        };
        Some(self.frames.iter().zip(&notes).filter_map(place).collect())
    }
}

/// Returns the start of the code section's content and of each function's body.
fn bodies(wasm: &[u8]) -> Option<(usize, Vec<usize>)> {
    let (mut code, mut bodies) = (None, Vec::new());
    for payload in parser().parse_all(wasm) {
        match payload.ok()? {
            Payload::CodeSectionStart { range, .. } => code = Some(range.start),
            Payload::CodeSectionEntry(body) => bodies.push(body.range().start),
            _ => {}
        }
    }
    Some((code?, bodies))
}
