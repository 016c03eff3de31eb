//! Where in a module a run failed.
//!
//! What runs is not the module that was deployed but what instrumentation made of it, so an engine that tells places tells them in those terms
//! ([`RawPlaces`]). The way back is a map that is made when somebody asks, by instrumenting again, and kept nowhere: functions have the same
//! numbers in both, and each instruction knows where it came from.

use super::creation::unpack;
use super::gas;
use super::instrument::instrument_noting;
use super::validate::{Checked, Rules, check_under, parser};
use wasmparser::Payload;

/// An instruction in a module, by what tools that read debug information go by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Imported ones are counted first.
    pub function: u32,
    /// Bytes from the beginning of the code section's content.
    pub offset: u32,
}

/// The same in the module as it was instrumented: functions, and bytes from the module's beginning. The innermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawPlaces {
    places: Vec<(u32, usize)>,
    gas_version: u8,
}

impl RawPlaces {
    /// Of a run that ended so, by an engine that keeps track.
    pub(super) fn of(error: &wasmtime::Error, gas_version: u8) -> Self {
        let frames = error.downcast_ref::<wasmtime::WasmBacktrace>().map(|backtrace| backtrace.frames()).unwrap_or_default();
        let places = frames.iter().filter_map(|frame| Some((frame.func_index(), frame.module_offset()?))).collect();
        Self { places, gas_version }
    }

    /// In the module of an account's code. Nothing where that is not the code that ran.
    pub fn in_code(&self, code: &[u8]) -> Vec<Place> {
        let Ok(wasm) = unpack(code) else { return Vec::new() };
        // It was deployed by its chain's rules, which are not narrower.
        let checked = gas::schedule(self.gas_version).map(|schedule| check_under(schedule, Rules::DEVELOPMENT, &wasm));
        let Some(Ok(checked)) = checked else { return Vec::new() };
        self.back(&checked).unwrap_or_default()
    }

    fn back(&self, checked: &Checked<'_>) -> Option<Vec<Place>> {
        let wanted: Vec<_> = self.places.iter().map(|(function, _)| function.checked_sub(checked.imported_functions)).collect();
        // Of the functions that were under way alone: where in the new body, and where in the old module.
        let mut notes: Vec<Vec<(usize, usize)>> = vec![Vec::new(); self.places.len()];
        let counted = instrument_noting(checked, |function, new, old| {
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
            // What instrumentation added at the end has no instructions of the contract's.
            let body = bodies.get(function.checked_sub(checked.imported_functions)? as usize)?;
            let within = at.checked_sub(*body)?;
            let (_, old) = note[..note.partition_point(|(new, _)| *new <= within)].last().or(note.first())?;
            Some(Place { function: *function, offset: u32::try_from(old.checked_sub(code)?).ok()? })
        };
        Some(self.places.iter().zip(&notes).filter_map(place).collect())
    }
}

/// Where the code section's content begins, and each function's body.
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
