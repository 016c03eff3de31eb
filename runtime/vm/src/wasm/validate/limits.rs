//! Size limits of modules and their parts. The numbers are part of the protocol.

use super::ValidationError;

/// Bytes of an unpacked module.
pub const MAX_MODULE_BYTES: usize = 512 * 1024;
/// Pages of 64 KiB. Growth within this limit never fails.
pub const MAX_MEMORY_PAGES: u32 = 128;
/// Functions defined in the module.
pub const MAX_FUNCTIONS: u32 = 4_096;
/// Instructions per function; every target of a branch table counts as one.
pub const MAX_OPERATORS: u32 = 65_536;
/// Parameters and locals per function.
pub const MAX_LOCALS: u32 = 348;
/// Parameters per function type; an indirect call pays for them with its frame.
pub const MAX_PARAMETERS: u32 = 64;
/// Open blocks per function.
pub const MAX_NESTING: u32 = 512;
/// Branches and their targets per function. Compile time grows with its square.
pub const MAX_JOINS: u32 = 4_096;
/// Cost of compiling an indirect call, in branches: its checks are machine branches. Does not count towards
/// [`MAX_JOINS`].
pub const JOINS_OF_INDIRECT_CALL: u32 = 6;
/// Locals times branches per function. Compilers track every local at every join, so the product determines the cost of
/// compilation.
pub const MAX_LOCALS_TIMES_JOINS: u64 = 400_000;
pub const MAX_DATA_SEGMENTS: u32 = 128;
pub const MAX_ELEMENT_SEGMENTS: u32 = 128;
/// Entries of the table.
pub const MAX_TABLE_ENTRIES: u64 = 4_096;
pub const MAX_EXPORTS: u32 = 1_024;
pub const MAX_IMPORTS: u32 = 513;
/// Lower than the usual 32,768: every call initialises all globals, and compilers of contracts generate about three.
pub const MAX_GLOBALS: u32 = 1_024;
pub const MAX_TYPES: u32 = 4_096;
/// Bytes of an import's or export's name.
pub const MAX_NAME_BYTES: usize = 512;
/// Words per frame for parameters, locals and operands, without the words for slots.
pub const MAX_FRAME_WORDS: u32 = 10_240;

pub(super) fn limit(what: &'static str, have: u32, limit: u32) -> Result<(), ValidationError> {
    if have > limit {
        return Err(ValidationError::Limit { what, have: have.into(), limit: limit.into() });
    }
    Ok(())
}

pub(super) fn within(what: &str, offset: u64, length: u64, size: u64) -> Result<(), ValidationError> {
    if offset + length > size {
        let text = format!("{what} segment of {length} at {offset} reaches outside of {size}");
        return Err(ValidationError::Segment(text));
    }
    Ok(())
}
