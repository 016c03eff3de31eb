//! Texts about tokens.

use std::fmt::Display;

/// Heading and column.
pub const TOKEN: &str = "Token";
/// Note above the list.
pub const LIST_NOTE: &str = "Contracts with token events, by number of holders. Names are chosen by the contract and may be misleading: \
     identify a token by its address.";
/// Note on a token's page.
pub const NAME_NOTE: &str =
    "The contract chooses its name, which may be misleading. Supply, holders and transfers are computed from its events.";
/// Replaces the name of a token without one.
pub const NAMELESS: &str = "(no name)";
/// Tag for a token whose events contradict each other.
pub const INCONSISTENT: &str = "inconsistent events";
/// Explains [`INCONSISTENT`].
pub const INCONSISTENT_NOTE: &str = "The events of this contract transfer more than the holders had, or mint more than 256 bits hold. Supply and \
     balances follow the events and may differ from the state of the contract.";
/// Name of the standard.
pub const ERC20: &str = "ERC-20";
/// Name of the standard.
pub const ERC721: &str = "ERC-721";
/// Name of the standard.
pub const ERC1155: &str = "ERC-1155";
/// Column header and row label.
pub const ADDRESS: &str = "Contract";
/// Column header and row label.
pub const STANDARD: &str = "Standard";
/// Column header, row label and tab title.
pub const HOLDERS: &str = "Holders";
/// Column header, row label and tab title.
pub const TRANSFERS: &str = "Transfers";
/// Column header, row label and chart caption.
pub const SUPPLY: &str = "Total supply";
/// Row label.
pub const DECIMALS: &str = "Decimals";
/// Row label.
pub const FIRST_SEEN: &str = "First block";
/// Tab title.
pub const IDS: &str = "Token IDs";
/// Tab title.
pub const DAYS: &str = "Statistics";
/// Column header.
pub const TRANSACTION: &str = "Transaction";
/// Column header.
pub const WHEN: &str = "Age";
/// Column header.
pub const FROM: &str = "From";
/// Column header.
pub const TO: &str = "To";
/// Column header.
pub const AMOUNT: &str = "Amount";
/// Column header.
pub const ID: &str = "Token ID";
/// Column header.
pub const HOLDER: &str = "Holder";
/// Column header.
pub const SHARE: &str = "Percentage";
/// Column header.
pub const DAY: &str = "Day (UTC)";
/// Column header.
pub const SUPPLY_AT_END: &str = "Total supply";
/// Replaces the sender of a mint.
pub const MINTED: &str = "mint";
/// Replaces the recipient of a burn.
pub const BURNT: &str = "burn";
/// Text before an id.
pub const OF_ID: &str = "Holders of token ID";
/// Note above the holders of a token with ids.
pub const TOTALS_NOTE: &str = "Amounts are totals over all token IDs. See Token IDs for the holders of each ID.";
/// Heading above the table of days.
pub const DAYS_MOVED: &str = "Days with transfers";
/// Error: invalid token id.
pub const BAD_ID: &str = "Invalid token ID: expected a decimal number.";

/// Error: a token's page has no such part.
pub fn no_part(part: &str) -> String {
    format!("Page not found: a token has no section {part:.40}.")
}

/// Error: no token event of this contract is known.
pub fn no_token(address: impl Display) -> String {
    format!("No token at {address}: the indexed blocks contain no transfer event of it.")
}
