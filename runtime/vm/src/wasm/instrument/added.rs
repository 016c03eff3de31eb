//! Functions that are added to a module: the start of a run, growth of memory, and writes of ranges.

use super::{CHUNK_SHIFT, Context, MARK, PRIVATE_BYTES, PRIVATE_PAGES};
use crate::wasm::gas;
use wasm_encoder::{BlockType, Function, InstructionSink, ValType};

impl Context {
    /// Sets all globals that an earlier run may have changed, including the counters.
    pub(super) fn run(&self) -> Function {
        let (length, ink, words, pages) = (0, 1, 2, 3);
        let mut function = Function::new([]);
        for (index, first) in &self.mutable_globals {
            function.instruction(first).instructions().global_set(*index);
        }
        let mut code = function.instructions();
        code.local_get(ink).global_set(self.gas_global);
        code.local_get(words).global_set(self.stack_global);
        code.local_get(pages).global_set(self.pages_global);
        code.i64_const(self.schedule.load_ink(self.initial_pages) as i64).global_set(self.load_global);
        code.local_get(length).call(self.entrypoint).end();
        function
    }

    /// `memory.grow` with its price. A growth that cannot succeed costs no pages; one beyond the transaction's limit
    /// traps.
    pub(super) fn grow(&self) -> Function {
        let (pages, spare) = (0, 1);
        let mut function = Function::new([(1, ValType::I64)]);
        let mut code = function.instructions();
        // Beyond the memory's own limit: the specification's -1.
        code.local_get(pages).i64_extend_i32_u().memory_size(0).i64_extend_i32_u().i64_add();
        code.i64_const(i64::from(self.maximum_pages) + PRIVATE_PAGES as i64).i64_gt_u();
        code.if_(BlockType::Empty).i32_const(-1).return_().end();
        // At most 128 pages from here on, so nothing below can overflow.
        code.global_get(self.gas_global)
            .local_get(pages)
            .i64_extend_i32_u()
            .i64_const(self.schedule.grown_page as i64)
            .i64_mul()
            .i64_sub();
        let again = self.schedule.regrown_page * u64::from(self.initial_pages);
        if again > 0 {
            // First growth of the run.
            code.i64_const(again as i64).i64_const(0).local_get(pages).i32_const(0).i32_ne();
            code.memory_size(0)
                .i32_const((u64::from(self.initial_pages) + PRIVATE_PAGES) as i32)
                .i32_eq()
                .i32_and()
                .select()
                .i64_sub();
        }
        self.settle_gas(&mut code, spare);
        code.global_get(self.pages_global).local_get(pages).i32_sub().global_set(self.pages_global);
        code.global_get(self.pages_global).i32_const(0).i32_lt_s().if_(BlockType::Empty).unreachable().end();
        // New price per load: `Schedule::load_ink` of the new number of pages.
        code.memory_size(0)
            .i32_const(PRIVATE_PAGES as i32)
            .i32_sub()
            .local_get(pages)
            .i32_add()
            .i64_extend_i32_u()
            .local_tee(spare);
        code.i64_const(self.schedule.load_page as i64).local_get(spare);
        code.i64_const(gas::INK_PER_LOAD_PAGE_SQUARED as i64).i64_mul().i64_add().i64_mul().global_set(self.load_global);
        // Cannot fail here. If it does, the run is a fault in any case.
        code.local_get(pages).memory_grow(0).i32_const(PRIVATE_PAGES as i32).i32_sub().end();
        function
    }

    pub(super) fn copy(&self) -> Function {
        self.range(|code| {
            place(code, 0);
            place(code, 1);
            code.local_get(2).memory_copy(0, 0);
        })
    }

    /// Skips an empty fill within memory. Processors with masked stores take a slow path for it if the next page is not
    /// mapped: 200 ns for one gas.
    pub(super) fn fill(&self) -> Function {
        self.range(|code| {
            code.local_get(2).i32_eqz().local_get(0).i64_extend_i32_u();
            code.memory_size(0).i32_const(PRIVATE_PAGES as i32).i32_sub().i64_extend_i32_u().i64_const(16).i64_shl();
            code.i64_le_u().i32_and().if_(BlockType::Empty).return_().end();
            place(code, 0);
            code.local_get(1).local_get(2).memory_fill(0);
        })
    }

    /// Writes a range: charges for its length, writes, and marks what was written. An access out of bounds writes
    /// nothing.
    fn range(&self, write: impl FnOnce(&mut InstructionSink<'_>)) -> Function {
        let (destination, length, spare, last) = (0, 2, 3, 4);
        let mut function = Function::new([(1, ValType::I64), (1, ValType::I32)]);
        let mut code = function.instructions();
        code.global_get(self.gas_global);
        code.local_get(length).i64_extend_i32_u().i64_const(gas::INK_PER_MEMORY_BYTE as i64).i64_mul().i64_sub();
        self.settle_gas(&mut code, spare);
        write(&mut code);
        code.local_get(length).i32_eqz().if_(BlockType::Empty).return_().end();
        // In bounds from here on: nothing overflows.
        code.local_get(destination).local_get(length).i32_add().i32_const(1).i32_sub();
        code.i32_const(CHUNK_SHIFT as i32).i32_shr_u().local_set(last);
        code.local_get(destination).i32_const(CHUNK_SHIFT as i32).i32_shr_u().local_tee(destination);
        code.local_get(last).i32_eq().if_(BlockType::Empty);
        code.local_get(destination).i32_const(1).i32_store8(MARK).return_().end();
        code.local_get(destination).i32_const(1);
        code.local_get(last).local_get(destination).i32_sub().i32_const(1).i32_add().memory_fill(0);
        code.end();
        function
    }
}

/// Translates a contract address to the module's memory. The upper half, which is out of bounds, stays out of bounds.
fn place(code: &mut InstructionSink<'_>, address: u32) {
    code.i32_const(-1).local_get(address).i32_const(PRIVATE_BYTES as i32).i32_add();
    code.local_get(address).i32_const(0).i32_lt_s().select();
}
