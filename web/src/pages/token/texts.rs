//! Texts of the page of a token.

use std::fmt::Display;

pub const NAME_NOTE: &str =
    "The contract chooses its name, which may be misleading. Supply, holders and transfers are computed from its events.";
pub const DECIMALS: &str = "Decimals";
pub const FIRST_SEEN: &str = "First block";
pub const IDS: &str = "Token IDs";
pub const DAYS: &str = "Statistics";
pub const TRANSACTION: &str = "Transaction";
pub const WHEN: &str = "Age";
pub const FROM: &str = "From";
pub const TO: &str = "To";
pub const AMOUNT: &str = "Amount";
pub const ID: &str = "Token ID";
pub const HOLDER: &str = "Holder";
pub const SHARE: &str = "Percentage";
pub const DAY: &str = "Day (UTC)";
pub const SUPPLY_AT_END: &str = "Total supply";
pub const MINTED: &str = "mint";
pub const BURNT: &str = "burn";
pub const OF_ID: &str = "Holders of token ID";
pub const TOTALS_NOTE: &str = "Amounts are totals over all token IDs. See Token IDs for the holders of each ID.";
pub const DAYS_MOVED: &str = "Days with transfers";
pub const BAD_ID: &str = "Invalid token ID: expected a decimal number.";

/// Error: a token's page has no such part.
pub fn no_part(part: &str) -> String {
    format!("Page not found: a token has no section {part:.40}.")
}

/// Error: no token event of this contract is known.
pub fn no_token(address: impl Display) -> String {
    format!("No token at {address}: the indexed blocks contain no transfer event of it.")
}
