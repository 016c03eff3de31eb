//! Locations in a module. `wasm` translates those of the instrumented module.

/// Location of an instruction in a module, in the terms of debug information.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeLocation {
    /// Function index; imported functions count first.
    pub function: u32,
    /// Offset in bytes from the start of the code section's content.
    pub offset: u32,
}

/// Locations in the instrumented module: functions, and bytes from the module's start; innermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawBacktrace {
    pub(crate) frames: Vec<(u32, usize)>,
    pub(crate) gas_version: u8,
}
