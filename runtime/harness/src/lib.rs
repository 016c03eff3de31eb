//! Tests contracts as real WebAssembly in `cargo test`, on the virtual machine of the nodes.
//!
//! ```no_run
//! use alloy_sol_types::sol;
//! use corniche_harness::{Chain, Contract, U256};
//!
//! sol! {
//!     function transfer(address to, uint256 value) returns (bool);
//!     function balanceOf(address account) returns (uint256);
//!     event Transfer(address indexed from, address indexed to, uint256 value);
//!     error ERC20InsufficientBalance(address sender, uint256 balance, uint256 needed);
//! }
//!
//! let mut chain = Chain::new();
//! let [alice, bob] = ["alice", "bob"].map(|name| chain.account(name));
//! let token = Contract::in_this_crate();
//! let token = chain.by(alice).deploy(&token, ("Cornice", "CRN", U256::from(1_000))).unwrap();
//!
//! let sent = chain.by(alice).send(token, transferCall { to: bob, value: U256::from(10) }).unwrap();
//! assert!(sent.output);
//! assert_eq!(sent.events::<Transfer>()[0].to, bob);
//!
//! let refused = chain.by(bob).send(token, transferCall { to: alice, value: U256::from(11) }).unwrap_err();
//! let error: ERC20InsufficientBalance = refused.error().unwrap();
//! assert_eq!(error.needed, U256::from(11));
//! assert_eq!(chain.view(token, balanceOfCall { account: bob }), U256::from(10));
//! ```
//!
//! Each [`send`](TransactionBuilder::send) is a transaction in its own block, one second after the previous one. Gas is counted as on
//! the chain, but is free until [`Chain::gas_price`] sets a price. [`Clone`] on a [`Chain`] makes a snapshot, so many
//! tests or property cases can start from clones of one prepared chain.
//!
//! Failures are shown as a call tree: `unwrap` on a [`Failed`] prints callers, callees and arguments, the gas of each
//! frame, events and errors, with names from the contracts' ABIs.
//!
//! Modules in layers, lowest first; each uses only modules in its line or above:
//!
//! - Contracts: `error`, `symbols` (functions and lines), [`cargo`] (builds), `contract`, [`creation`] (data of deployments).
//! - Results: `outcome`, `revert`, `address_book` (names in traces), `trace_format`, `gas`.
//! - `staking` (the staking contract and its calendar), and `chain`; then `check`.

mod address_book;
pub mod cargo;
mod chain;
mod check;
mod contract;
pub mod creation;
mod error;
mod gas;
mod outcome;
mod revert;
mod staking;
mod symbols;
mod trace_format;

pub use address_book::AddressBook;
pub use alloy_primitives::{Address, B256, Bytes, U256};
pub use chain::{Chain, TransactionBuilder};
pub use check::{Deployable, NotDeployable, check};
pub use contract::Contract;
pub use corniche_staking::interface::{Staking, SubmittedKeys};
pub use corniche_types::{STAKING_ADDRESS, StakingParameters};
pub use error::ContractError;
pub use gas::{GasReport, GasUsed};
pub use outcome::{Failed, Sent};
pub use revert::Revert;
pub use staking::validator_keys;
pub use symbols::Symbols;
pub use trace_format::format_trace;
