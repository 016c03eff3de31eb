#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod chain;
mod client;
mod draft;
mod error;
mod nesting;
mod proof;
mod transport;

pub use client::{Block, Call, Client, Fees, Receipt, Wait};
pub use draft::Draft;
pub use error::{ClientError, Refusal};
pub use proof::is_stale;
pub use transport::{Request, Transport};
