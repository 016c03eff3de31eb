//! Rewrites the contract's functions: charges for runs, counts the stack, marks stores.

use super::{CHUNK_SHIFT, Context, InstrumentError, LAST_CHUNK, MARK, PRIVATE_BYTES, PRIVATE_PAGES, failed};
use crate::wasm::gas::{self, Class, Schedule};
use crate::wasm::validate::Frame;
use corniche_abi::ValueType;
use wasm_encoder::reencode::{Reencode, RoundtripReencoder};
use wasm_encoder::{BlockType, Function, Instruction, InstructionSink, MemArg, ValType};
use wasmparser::{FunctionBody, Operator};

impl Context {
    /// Rewrites one function of the contract.
    pub(super) fn function(
        &self,
        body: &FunctionBody<'_>,
        frame: &Frame,
        mut note: impl FnMut(usize, usize),
    ) -> Result<Function, InstrumentError> {
        let mut same = RoundtripReencoder;
        let mut locals = Vec::new();
        for local in body.get_locals_reader().map_err(failed)? {
            let (count, ty) = local.map_err(failed)?;
            locals.push((count, same.val_type(ty).map_err(failed)?));
        }
        // Temporaries for charging and marking.
        locals.extend([(1, ValType::I64), (2, ValType::I32)]);
        let spare = frame.parameters + frame.locals;
        let operators: Vec<Operator<'_>> =
            body.get_operators_reader().map_err(failed)?.into_iter().collect::<Result<_, _>>().map_err(failed)?;
        let mut prices = Prices::of(self.schedule, &operators, gas::INK_PER_LOCAL * u64::from(frame.locals));
        let words = frame.counted_words().map(|words| words as i32);

        let mut function = Function::new(locals);
        if let Some(words) = words {
            let mut code = function.instructions();
            code.global_get(self.stack_global).i32_const(words).i32_sub().global_set(self.stack_global);
            code.global_get(self.stack_global).i32_const(0).i32_lt_s().if_(BlockType::Empty).unreachable().end();
            // A branch to the function's own label now ends here, with its depth unchanged.
            code.block(body_type(frame));
        }
        self.charge(&mut function.instructions(), prices.next(), spare);
        // Number of the contract's open blocks; the last `end` closes the function itself.
        let mut open = 0u32;
        let last = operators.len().saturating_sub(1);
        let places = body.get_operators_reader().map_err(failed)?.into_iter_with_offsets();
        for ((at, operator), place) in operators.into_iter().enumerate().zip(places) {
            note(function.byte_len(), place.map_err(failed)?.1);
            let class = gas::class(&operator).ok_or_else(|| failed("an instruction without a price"))?;
            let ends_run = ends_run(&operator) && at != last;
            match &operator {
                Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } => open += 1,
                Operator::End => open = open.saturating_sub(1),
                _ => {}
            }
            if words.is_some() && matches!(operator, Operator::Return) {
                function.instructions().br(open);
            } else {
                self.instruction(&mut function, operator, class, spare)?;
            }
            if ends_run {
                self.charge(&mut function.instructions(), prices.next(), spare);
            }
        }
        if let Some(words) = words {
            let mut code = function.instructions();
            code.global_get(self.stack_global).i32_const(words).i32_add().global_set(self.stack_global).end();
        }
        Ok(function)
    }

    /// Adds one of the contract's instructions, except a return from a counted function.
    fn instruction(
        &self,
        function: &mut Function,
        operator: Operator<'_>,
        class: Class,
        spare: u32,
    ) -> Result<(), InstrumentError> {
        let (address, int) = (spare + 1, spare + 2);
        let mut same = RoundtripReencoder;
        match class {
            Class::MemoryGrow => {
                function.instructions().call(self.grow_function);
            }
            Class::MemoryCopy => {
                function.instructions().call(self.copy_function);
            }
            Class::MemoryFill => {
                function.instructions().call(self.fill_function);
            }
            Class::MemorySize => {
                function.instructions().memory_size(0).i32_const(PRIVATE_PAGES as i32).i32_sub();
            }
            Class::Load | Class::Store | Class::StoreByte => {
                let instruction = same.instruction(operator).map_err(failed)?;
                let (instruction, offset, long) = shifted(instruction).ok_or_else(|| failed("an access without a memory"))?;
                if class != Class::Load {
                    self.mark(&mut function.instructions(), offset, address, if long { spare } else { int });
                }
                function.instruction(&instruction);
            }
            _ => {
                function.instruction(&same.instruction(operator).map_err(failed)?);
            }
        }
        Ok(())
    }

    /// Marks the target of a store whose value is on top of the stack, with the address below it; both stay on the
    /// stack.
    fn mark(&self, code: &mut InstructionSink<'_>, offset: u32, address: u32, value: u32) {
        code.local_set(value).local_tee(address).local_get(address);
        if offset > 0 {
            // Wraps only if the store itself is out of bounds.
            code.i32_const(offset as i32).i32_add();
        }
        // The mask keeps the index within the marks, even if the store is out of bounds.
        code.i32_const(CHUNK_SHIFT as i32).i32_shr_u().i32_const(LAST_CHUNK).i32_and();
        code.i32_const(1).i32_store8(MARK).local_get(value);
    }

    fn charge(&self, code: &mut InstructionSink<'_>, run: Run, spare: u32) {
        let known = if self.grows { 0 } else { self.schedule.load_ink(self.initial_pages) };
        let ink = run.ink + run.loads * known;
        if ink == 0 {
            return;
        }
        code.global_get(self.gas_global).i64_const(ink as i64).i64_sub();
        if self.grows && run.loads > 0 {
            code.global_get(self.load_global);
            if run.loads > 1 {
                code.i64_const(run.loads as i64).i64_mul();
            }
            code.i64_sub();
        }
        self.settle_gas(code, spare);
    }
}

macro_rules! accesses {
    ($($name:ident $long:literal)*) => {
        /// Returns the access moved by [`PRIVATE_BYTES`], its original offset, and whether its value is an i64.
        fn shifted(instruction: Instruction<'_>) -> Option<(Instruction<'_>, u32, bool)> {
            // An offset that would overflow is out of bounds both with and without the addition.
            let behind = |memarg: MemArg| MemArg { offset: (memarg.offset + PRIVATE_BYTES as u64).min(u32::MAX.into()), ..memarg };
            match instruction {
                $(Instruction::$name(memarg) => Some((Instruction::$name(behind(memarg)), u32::try_from(memarg.offset).ok()?, $long)),)*
                _ => None,
            }
        }
    };
}

accesses! {
    I32Load false I32Load8S false I32Load8U false I32Load16S false I32Load16U false I32Store false I32Store8 false I32Store16 false
    I64Load true I64Load8S true I64Load8U true I64Load16S true I64Load16U true I64Load32S true I64Load32U true
    I64Store true I64Store8 true I64Store16 true I64Store32 true
}

fn body_type(frame: &Frame) -> BlockType {
    match frame.result {
        None => BlockType::Empty,
        Some(ValueType::I32) => BlockType::Result(ValType::I32),
        Some(ValueType::I64) => BlockType::Result(ValType::I64),
    }
}

/// Returns whether the instruction ends a straight run: what follows is reachable without it, or may not be reached
/// after it.
pub(in crate::wasm) fn ends_run(operator: &Operator<'_>) -> bool {
    matches!(
        operator,
        Operator::Loop { .. }
            | Operator::If { .. }
            | Operator::Else
            | Operator::End
            | Operator::Br { .. }
            | Operator::BrIf { .. }
            | Operator::BrTable { .. }
            | Operator::Return
            | Operator::Unreachable
    )
}

/// Price of a straight run: a fixed part, and a number of loads, whose price depends on the pages.
#[derive(Clone, Copy, Default)]
struct Run {
    ink: u64,
    loads: u64,
}

/// Prices of a function's straight runs, in order.
struct Prices(std::vec::IntoIter<Run>);

impl Prices {
    fn of(schedule: &Schedule, operators: &[Operator<'_>], entry: u64) -> Self {
        let mut runs = Vec::new();
        let mut run = Run { ink: entry, loads: 0 };
        for operator in operators {
            if let Some(class) = gas::class(operator) {
                run.ink += schedule.ink(class);
                run.loads += gas::loads(class);
            }
            if ends_run(operator) {
                runs.push(std::mem::take(&mut run));
            }
        }
        Self(runs.into_iter())
    }

    fn next(&mut self) -> Run {
        self.0.next().unwrap_or_default()
    }
}
