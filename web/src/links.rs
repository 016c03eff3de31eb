//! URLs of all pages. All links are built here, so that shared URLs stay valid.

use crate::database::Place;
use alloy_primitives::{Address, B256, U256};
use std::{fmt, str::FromStr};

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
pub fn block(block: impl fmt::Display) -> String {
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

/// The DAG around a round with a selected item.
pub fn dag_pick(round: u64, pick: Selection) -> String {
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

/// Item that is selected in the picture of the DAG. Its text is a part of the URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// A proposal by its digest.
    Vertex(B256),
    /// A proposal by its author and the digest of its batch, as in blocks: `AUTHOR-DIGEST`.
    Batch(u64, B256),
    /// A leader's slot: `ROUND.RANK`.
    Slot(u64, u64),
}

/// Text that selects no item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidSelection;

impl FromStr for Selection {
    type Err = InvalidSelection;

    fn from_str(text: &str) -> Result<Self, InvalidSelection> {
        let slot = || text.split_once('.').and_then(|(round, rank)| Some(Self::Slot(round.parse().ok()?, rank.parse().ok()?)));
        let batch =
            || text.split_once('-').and_then(|(author, batch)| Some(Self::Batch(author.parse().ok()?, batch.parse().ok()?)));
        let pick = text.parse().ok().map(Self::Vertex).or_else(batch).or_else(slot);
        pick.ok_or(InvalidSelection)
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vertex(digest) => write!(f, "{digest}"),
            Self::Batch(author, digest) => write!(f, "{author}-{digest}"),
            Self::Slot(round, rank) => write!(f, "{round}.{rank}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selections_are_read_from_their_links() {
        let digest = B256::repeat_byte(0xba);
        for selection in [Selection::Vertex(digest), Selection::Batch(2, digest), Selection::Slot(7, 1)] {
            assert_eq!(selection.to_string().parse(), Ok(selection));
        }
        for text in ["", "7", "7.", "-", "0x12"] {
            assert_eq!(text.parse::<Selection>(), Err(InvalidSelection), "{text}");
        }
    }
}
