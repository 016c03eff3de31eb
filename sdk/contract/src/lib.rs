//! Features of this chain beside `stylus-sdk`, as types and macros for contracts.
//!
//! - [`abi!`]: embeds the ABI in the module, so that clients and explorers can decode its calls, events and errors.
//! - [`Counter`] and [`Balances`]: numbers that are incremented and decremented without a read, so that such transactions run in
//!   parallel; [`erc20::Erc20`] is a token on them.
//! - [`block_randomness`]: randomness that is unknown before the block is ordered.
//! - [`certified_hash`] and [`CertifiedHeader`]: certified headers of this chain, and their fields.
//!
//! With the feature `debug`, a contract that uses [`abi!`] prints panic messages to the console of a development chain. Without
//! it, as for other chains, the module contains no such code.
//!
//! All of it works beside the SDK's own types. A module that uses counters, randomness or certified headers imports from
//! `corniche`, which other chains refuse; a module that only embeds its ABI runs anywhere. Native tests work on the `TestVM`.

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
