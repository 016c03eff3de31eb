//! Verilog sequencers of aom under simulation. For tests only; `README.md` beside this crate describes the hardware.
//!
//! `build.rs` translates `verilog/` with Verilator. [`model`] wraps the result, [`bench`] sends datagrams through it. Both
//! exist only where Verilator is installed (cfg `verilated`).

#[cfg(verilated)]
pub mod bench;
#[cfg(verilated)]
pub mod model;

/// `true` if the Verilog was translated when this crate was built.
pub const VERILATED: bool = cfg!(verilated);
