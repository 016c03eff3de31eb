//! What this chain adds to `stylus-sdk`, as the types and macros of a contract.
//!
//! - [`abi!`]: the module carries its interface, so clients and explorers need nothing else to name what it does.
//! - [`Counter`] and [`Balances`]: numbers that are raised and lowered without being read, so transactions that do so run side by
//!   side; [`erc20::Erc20`] is a token on them.
//! - [`block_randomness`]: what nobody knew before the block was ordered.
//! - [`certified_hash`] and [`CertifiedHeader`]: headers of this chain that a quorum certified, and what they say.
//!
//! With the feature `debug` a contract that uses [`abi!`] says to the console of a development chain why it panics; without it, which is how it
//! is built for other chains, nothing of that is in the module.
//!
//! All of it stands beside the SDK's own types. A module that uses the counters, the randomness or certified headers imports from `corniche`, which other
//! chains refuse; one that only carries its interface runs anywhere. Natively, in `cargo test`, everything works on the SDK's `TestVM`.

extern crate alloc;

mod abi;
mod balances;
mod certified;
mod counter;
pub mod erc20;
#[cfg(all(feature = "debug", target_arch = "wasm32"))]
#[doc(hidden)]
pub mod panic;
mod randomness;

pub use balances::Balances;
#[cfg(not(target_arch = "wasm32"))]
pub use certified::set_certified_hash;
pub use certified::{certified_hash, CertifiedHeader, HeaderError};
pub use counter::Counter;
pub use randomness::block_randomness;
#[cfg(not(target_arch = "wasm32"))]
pub use randomness::set_block_randomness;
