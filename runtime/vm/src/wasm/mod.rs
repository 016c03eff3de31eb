//! Running WebAssembly contracts.
