//! Number of a function's values that a compiler may keep in separate stack slots.
//!
//! Cranelift's register allocator tries ten slots before it creates a new one. So a spilled value may get its own slot
//! for the whole function. The bound therefore counts created values, not live values:
//!
//! - one per instruction that produces a value, and more for `call_indirect`, which looks up a function;
//! - one for instrumentation at each store, and one at each end of a straight run;
//! - one for each local at each join of branches, if the local is written in between. Compilers in SSA form create a
//!   new value there.
//!
//! `frame_tests` compares the bound with the frames of all back ends.

use super::limits::MAX_LOCALS;
use crate::wasm::gas::{self, Class};
use crate::wasm::instrument::ends_run;
use wasmparser::{BlockType, Operator};

/// Slots per word of counted stack: half of what fits its native bytes.
pub const SLOTS_PER_WORD: u32 = 16;

/// Values created by looking up a function in the table.
const LOOKUP: u32 = 5;
const LOCAL_WORDS: usize = MAX_LOCALS as usize / 64 + 1;

/// A set of locals.
type Locals = [u64; LOCAL_WORDS];

#[derive(Default)]
pub(super) struct Slots {
    total: u32,
    /// Per open block: the locals written in it, and whether it has a result.
    open: Vec<(Locals, bool)>,
}

impl Slots {
    pub fn total(&self) -> u32 {
        self.total
    }

    pub fn operator(&mut self, operator: &Operator<'_>) {
        match operator {
            Operator::Block { blockty } | Operator::Loop { blockty } | Operator::If { blockty } => {
                self.open.push((Locals::default(), *blockty != BlockType::Empty));
            }
            Operator::End => self.join(),
            Operator::LocalSet { local_index } | Operator::LocalTee { local_index } => self.write(*local_index),
            _ => {}
        }
        let made = match gas::class(operator) {
            None | Some(Class::Free | Class::Local) => 0,
            Some(Class::CallIndirect) => 1 + LOOKUP,
            Some(_) => 1,
        };
        self.total = self.total.saturating_add(made).saturating_add(u32::from(ends_run(operator)));
    }

    fn write(&mut self, local: u32) {
        if let Some((written, _)) = self.open.last_mut()
            && let Some(word) = written.get_mut(local as usize / 64)
        {
            *word |= 1 << (local % 64);
        }
    }

    /// Ends a block. Branches join at its end, or at its start in a loop.
    fn join(&mut self) {
        let Some((written, has_result)) = self.open.pop() else { return };
        let locals: u32 = written.iter().map(|word| word.count_ones()).sum();
        self.total = self.total.saturating_add(locals + u32::from(has_result));
        if let Some((outer, _)) = self.open.last_mut() {
            outer.iter_mut().zip(written).for_each(|(outer, inner)| *outer |= inner);
        }
    }
}
