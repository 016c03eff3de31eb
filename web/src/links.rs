//! URLs of all pages. All links are built here, so that shared URLs stay valid.

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
/// The consensus DAG, live.
pub const DAG: &str = "/dag";
/// Script of the page with the DAG.
pub const DAG_SCRIPT: &str = concat!("/assets/dag.js?v=", env!("CARGO_PKG_VERSION"));
/// Daily numbers.
pub const STATISTICS: &str = "/statistics";
/// Search; the parameter `q` contains the query.
pub const SEARCH: &str = "/search";
/// Documentation of the API.
pub const API: &str = "/api";
/// Server-sent events.
pub const LIVE: &str = "/live";
/// Style sheet. The URL contains the version, so that browsers can cache it forever.
pub const STYLE: &str = concat!("/assets/style.css?v=", env!("CARGO_PKG_VERSION"));
/// Script of all pages, cached like the style sheet.
pub const SCRIPT: &str = concat!("/assets/app.js?v=", env!("CARGO_PKG_VERSION"));

/// Script of pages that use a wallet.
pub const WALLET: &str = concat!("/assets/wallet.js?v=", env!("CARGO_PKG_VERSION"));

/// A block, by number or hash.
pub fn block(block: impl std::fmt::Display) -> String {
    format!("/block/{block}")
}

/// A transaction.
pub fn transaction(hash: B256) -> String {
    format!("/tx/{hash}")
}

/// State changes of a transaction.
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

/// CSV file of an account's `transactions` or `transfers`.
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

/// The DAG around a round.
pub fn dag_round(round: u64) -> String {
    format!("{DAG}?round={round}")
}

/// The DAG around a round with a selection (see [`crate::pages::dag::Selection`]).
pub fn dag_pick(round: u64, pick: impl std::fmt::Display) -> String {
    format!("{DAG}?round={round}&pick={pick}#facts")
}

/// Page of a list with the rows before a place.
pub fn before(list: &str, place: Place) -> String {
    let joint = if list.contains('?') { '&' } else { '?' };
    format!("{list}{joint}before={}", place.0)
}

/// Page of a list with the rows below a row.
pub fn below(list: &str, row: &str) -> String {
    let joint = if list.contains('?') { '&' } else { '?' };
    format!("{list}{joint}below={row}")
}

/// Page of days that ends at a date.
pub fn until(list: &str, date: &str) -> String {
    format!("{list}?until={date}")
}
