//! What this chain adds to `stylus-sdk`, as the types and macros of a contract.
//!
//! - [`abi!`]: the module carries its interface, so clients and explorers need nothing else to name what it does.
//! - [`Counter`] and [`Balances`]: numbers that are raised and lowered without being read, so transactions that do so run side by
//!   side; [`erc20::Erc20`] is a token on them.
//!
//! All of it stands beside the SDK's own types. A module that counts imports from `corniche`, which other
//! chains refuse; one that only carries its interface runs anywhere. Natively, in `cargo test`, everything works on the SDK's `TestVM`.

extern crate alloc;

mod abi;
mod balances;
mod counter;
pub mod erc20;

pub use balances::Balances;
pub use counter::Counter;
