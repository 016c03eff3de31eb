//! The address of every page. Links are made here and nowhere else, so that an address that was shared stays right.

use crate::database::Place;
use alloy_primitives::{Address, B256, U256};

/// The home page.
pub const HOME: &str = "/";
/// Newest blocks.
pub const BLOCKS: &str = "/blocks";
/// Newest transactions.
pub const TRANSACTIONS: &str = "/txs";
/// Tokens by holders.
pub const TOKENS: &str = "/tokens";
/// The committee.
pub const VALIDATORS: &str = "/validators";
/// Peers and versions.
pub const NETWORK: &str = "/network";
/// The ordering as it grows.
pub const DAG: &str = "/dag";
/// The script of that page.
pub const DAG_SCRIPT: &str = concat!("/assets/dag.js?v=", env!("CARGO_PKG_VERSION"));
/// Daily numbers.
pub const STATISTICS: &str = "/statistics";
/// Search, with the question in `q`.
pub const SEARCH: &str = "/search";
/// What programs may ask.
pub const API: &str = "/api";
/// Server-sent events.
pub const LIVE: &str = "/live";
/// The style sheet, named by what is in it so that browsers may keep it for ever.
pub const STYLE: &str = concat!("/assets/style.css?v=", env!("CARGO_PKG_VERSION"));
/// The script, likewise.
pub const SCRIPT: &str = concat!("/assets/app.js?v=", env!("CARGO_PKG_VERSION"));

/// The script of pages that ask a wallet.
pub const WALLET: &str = concat!("/assets/wallet.js?v=", env!("CARGO_PKG_VERSION"));

/// A block, by number or hash.
pub fn block(block: impl std::fmt::Display) -> String {
    format!("/block/{block}")
}

/// A transaction.
pub fn transaction(hash: B256) -> String {
    format!("/tx/{hash}")
}

/// What a transaction changed.
pub fn changes(hash: B256) -> String {
    format!("/tx/{hash}?changes")
}

/// An account or a contract.
pub fn account(address: Address) -> String {
    format!("/address/{address}")
}

/// A part of an account's page.
pub fn account_part(address: Address, part: &str) -> String {
    format!("/address/{address}/{part}")
}

/// An account's history as a file: `transactions` or `transfers`.
pub fn account_file(address: Address, what: &str) -> String {
    format!("/api/v1/accounts/{address}/{what}.csv")
}

/// A token.
pub fn token(address: Address) -> String {
    format!("/token/{address}")
}

/// A part of a token's page.
pub fn token_part(address: Address, part: &str) -> String {
    format!("/token/{address}/{part}")
}

/// The holders of one id of a token.
pub fn token_id(address: Address, id: U256) -> String {
    format!("{}?id={id}", token_part(address, "holders"))
}

/// A validator by position in the committee.
pub fn validator(index: u64) -> String {
    format!("/validator/{index}")
}

/// The ordering around a round.
pub fn dag_round(round: u64) -> String {
    format!("{DAG}?round={round}")
}

/// The ordering around a round with something of it selected: a proposal by its digest, or a leader by its round and rank.
pub fn dag_pick(round: u64, pick: impl std::fmt::Display) -> String {
    format!("{DAG}?round={round}&pick={pick}#facts")
}

/// The same list further down.
pub fn before(list: &str, place: Place) -> String {
    let joint = if list.contains('?') { '&' } else { '?' };
    format!("{list}{joint}before={}", place.0)
}

/// The same list below a row.
pub fn below(list: &str, row: &str) -> String {
    let joint = if list.contains('?') { '&' } else { '?' };
    format!("{list}{joint}below={row}")
}

/// The same days up to a date.
pub fn until(list: &str, date: &str) -> String {
    format!("{list}?until={date}")
}
