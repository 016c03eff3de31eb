//! One transaction: its semantics, and the WebAssembly it runs.
//!
//! [`wasm`] turns a module into something that can be run deterministically and runs one frame of it; the modules beside it keep
//! Ethereum's rules about accounts, calls, storage and gas. They meet at [`host`].

pub mod host;
pub mod wasm;

pub use host::BlockEnv;
