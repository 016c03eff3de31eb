//! Validates one function's body: its instructions, and the size of its frame.

use super::limits::*;
use super::names::describe;
use super::slots::Slots;
use super::{Frame, ModuleValidator, ValidationError, gas, malformed, value_type};
use wasmparser::{BlockType, FunctionBody, Operator, ValidatorResources};

/// Counts of a function's instructions.
#[derive(Default)]
struct Counts {
    /// Each target of a table of branches counts as one.
    operators: u32,
    joins: u64,
    /// Indirect calls.
    indirect: u32,
}

impl Counts {
    fn add(&mut self, operator: &Operator<'_>) {
        let targets = match operator {
            Operator::BrTable { targets } => targets.len(),
            _ => 0,
        };
        self.operators = self.operators.saturating_add(1).saturating_add(targets);
        match operator {
            Operator::Block { .. } | Operator::Loop { .. } | Operator::If { .. } | Operator::Else | Operator::BrIf { .. } => {
                self.joins += 1
            }
            Operator::BrTable { .. } => self.joins += 1 + u64::from(targets),
            Operator::CallIndirect { .. } => self.indirect += 1,
            _ => {}
        }
    }
}

fn calls(operator: &Operator<'_>) -> bool {
    matches!(operator, Operator::Call { .. } | Operator::CallIndirect { .. })
}

impl<'a> ModuleValidator<'a> {
    pub(super) fn function(
        &mut self,
        body: &FunctionBody<'a>,
        validator: &mut wasmparser::FuncValidator<ValidatorResources>,
    ) -> Result<(), ValidationError> {
        let index = validator.index();
        let refuse = |this: &Self, reason: String| ValidationError::Function { place: this.place(index), reason };
        let parameters = validator.len_locals();
        let locals = self.locals(body, validator)?;
        let ty = self.function_types.get(index as usize).and_then(|ty| self.types.get(*ty as usize));
        let result = ty.and_then(|ty| ty.results().first()).and_then(|ty| value_type(*ty).ok());
        let mut frame = Frame {
            parameters,
            locals,
            max_operands: 0,
            joins: 0,
            result,
            is_leaf: true,
            slots: 0,
            counts_slots: self.schedule.counts_slots,
        };
        let mut slots = Slots::default();
        let mut counts = Counts::default();
        let mut reader = body.get_operators_reader().map_err(malformed)?;
        while !reader.eof() {
            let (operator, offset) = reader.read_with_offset().map_err(malformed)?;
            self.operator(index, &operator)?;
            counts.add(&operator);
            frame.is_leaf &= !calls(&operator);
            if counts.operators > MAX_OPERATORS {
                return Err(refuse(self, format!("more than {MAX_OPERATORS} instructions")));
            }
            slots.operator(&operator);
            validator.op(offset, &operator).map_err(|error| refuse(self, error.to_string()))?;
            if validator.control_stack_height() > MAX_NESTING {
                return Err(refuse(self, format!("more than {MAX_NESTING} nested blocks")));
            }
            frame.max_operands = frame.max_operands.max(validator.operand_stack_height());
            if frame.words() > MAX_FRAME_WORDS {
                return Err(refuse(self, format!("a frame of more than {MAX_FRAME_WORDS} words")));
            }
        }
        reader.finish().map_err(malformed)?;
        let Counts { joins, indirect, .. } = counts;
        if joins > u64::from(MAX_JOINS) {
            return Err(refuse(self, format!("{joins} branches in one function; at most {MAX_JOINS} are allowed")));
        }
        if joins * u64::from(parameters + locals) > MAX_LOCALS_TIMES_JOINS {
            return Err(refuse(self, format!("{joins} branches over {} locals: too complex to compile", parameters + locals)));
        }
        // Not bounded by `MAX_FRAME_WORDS`: the limits of branches and instructions keep it below a transaction's
        // words.
        frame.slots = slots.total();
        frame.joins = joins as u32 + JOINS_OF_INDIRECT_CALL * indirect;
        self.frames.push(frame);
        Ok(())
    }

    /// Reads the types of the locals; returns their number.
    fn locals(
        &self,
        body: &FunctionBody<'a>,
        validator: &mut wasmparser::FuncValidator<ValidatorResources>,
    ) -> Result<u32, ValidationError> {
        let index = validator.index();
        let refuse = |reason: String| ValidationError::Function { place: self.place(index), reason };
        let parameters = validator.len_locals();
        let mut locals = 0u32;
        let mut reader = body.get_locals_reader().map_err(malformed)?;
        for _ in 0..reader.get_count() {
            let offset = reader.original_position();
            let (count, ty) = reader.read().map_err(malformed)?;
            value_type(ty).map_err(|feature| refuse(format!("a local of type {ty}; {feature} are not allowed")))?;
            locals = locals.saturating_add(count);
            if locals.saturating_add(parameters) > MAX_LOCALS {
                return Err(refuse(format!("more than {MAX_LOCALS} locals")));
            }
            validator.define_locals(offset, count, ty).map_err(malformed)?;
        }
        Ok(locals)
    }

    fn operator(&self, function: u32, operator: &Operator<'_>) -> Result<(), ValidationError> {
        let refuse =
            |instruction: String, reason| ValidationError::Instruction { place: self.place(function), instruction, reason };
        if gas::class(operator).is_none() {
            let (instruction, reason) = describe(operator);
            return Err(refuse(instruction, reason));
        }
        let block = match operator {
            Operator::Block { blockty } | Operator::Loop { blockty } | Operator::If { blockty } => *blockty,
            Operator::MemorySize { mem: 0 } | Operator::MemoryGrow { mem: 0 } | Operator::MemoryFill { mem: 0 } => {
                BlockType::Empty
            }
            Operator::MemorySize { .. } | Operator::MemoryGrow { .. } | Operator::MemoryFill { .. } => {
                return Err(refuse(describe(operator).0, "multi-memory"));
            }
            Operator::MemoryCopy { dst_mem, src_mem } if (*dst_mem, *src_mem) != (0, 0) => {
                return Err(refuse("memory.copy".into(), "multi-memory"));
            }
            Operator::CallIndirect { table_index, .. } if *table_index != 0 => {
                return Err(refuse("call_indirect".into(), "reference types: several tables"));
            }
            _ => BlockType::Empty,
        };
        match block {
            BlockType::Empty => Ok(()),
            BlockType::Type(ty) => value_type(ty).map(drop).map_err(|feature| refuse(describe(operator).0, feature)),
            BlockType::FuncType(_) => {
                Err(refuse(describe(operator).0, "multi-value: a block with parameters or several results"))
            }
        }
    }
}
