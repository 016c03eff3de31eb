//! A small blocking client: sign, fill in what is missing, submit, and wait for the receipt.
//!
//! ```no_run
//! # use corniche_client::{Client, Draft, Wait};
//! # use corniche_crypto::EthereumKey;
//! # use corniche_types::U256;
//! # fn main() -> Result<(), corniche_client::ClientError> {
//! # let key = EthereumKey::from_bytes(&[1; 32]).expect("a valid key");
//! # let friend = key.address();
//! let client = Client::new("http://127.0.0.1:8545");
//! let hash = client.send(&key, &Draft::transfer(friend, U256::from(1_000_000_000)))?;
//! let receipt = client.wait(hash, Wait::default())?;
//! # Ok(()) }
//! ```
//!
//! Every call blocks its thread, and every call ends: by its answer, by an error or by a deadline. [`ClientError`] says
//! whose fault it was, because "the node refused this" must not be retried and "no connection" may be. Programs that
//! follow a chain want a library with subscriptions; this one serves the command line, the load tool and tests.

mod client;
mod draft;
mod error;
mod proof;
mod transport;

pub use client::{Block, Call, Client, Fees, Receipt, Wait};
pub use draft::Draft;
pub use error::{ClientError, Refusal};
pub use transport::{Request, Transport};
