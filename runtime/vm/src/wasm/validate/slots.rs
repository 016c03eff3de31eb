//! How many values of a function a compiler may keep in stack slots of their own.
//!
//! Cranelift's register allocator tries ten slots before it makes a new one, so a value that is spilled may get a slot that nothing else
//! uses, for the whole function. The bound therefore counts values that come into being, not values alive at once:
//!
//! - one for each instruction that makes a value, and more for `call_indirect`, which looks a function up on its way;
//! - one for what instrumentation adds to a store, and to each end of a straight run;
//! - one for each local and each place where branches join, if the local is written in between. Compilers in SSA form make a new value there.
//!
//! `frame_tests` compares this with the frames of every back end.

use super::limits::MAX_LOCALS;
use crate::wasm::gas::{self, Class};
use crate::wasm::instrument::ends_run;
use wasmparser::{BlockType, Operator};

/// Slots that one word of counted stack pays for. Half of what fits its native bytes.
pub const SLOTS_PER_WORD: u32 = 16;

/// Values that looking up a function in the table makes.
const LOOKUP: u32 = 5;
const LOCAL_WORDS: usize = MAX_LOCALS as usize / 64 + 1;

/// A set of locals.
type Locals = [u64; LOCAL_WORDS];

#[derive(Default)]
pub(super) struct Slots {
    total: u32,
    /// For each open block the locals written in it, and whether it has a result.
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

    /// A block ends. Its own end joins branches, or its beginning does in a loop.
    fn join(&mut self) {
        let Some((written, has_result)) = self.open.pop() else { return };
        let locals: u32 = written.iter().map(|word| word.count_ones()).sum();
        self.total = self.total.saturating_add(locals + u32::from(has_result));
        if let Some((outer, _)) = self.open.last_mut() {
            outer.iter_mut().zip(written).for_each(|(outer, inner)| *outer |= inner);
        }
    }
}
