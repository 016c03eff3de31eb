//! Texts about tokens.

use std::fmt::Display;

pub const TOKEN: &str = "Token";
pub const LIST_NOTE: &str = "Contracts with token events, by number of holders. Names are chosen by the contract and may be misleading: \
     identify a token by its address.";
pub const NAME_NOTE: &str =
    "The contract chooses its name, which may be misleading. Supply, holders and transfers are computed from its events.";
pub const NAMELESS: &str = "(no name)";
pub const INCONSISTENT: &str = "inconsistent events";
pub const INCONSISTENT_NOTE: &str = "The events of this contract transfer more than the holders had, or mint more than 256 bits hold. Supply and \
     balances follow the events and may differ from the state of the contract.";
pub const ERC20: &str = "ERC-20";
pub const ERC721: &str = "ERC-721";
pub const ERC1155: &str = "ERC-1155";
pub const ADDRESS: &str = "Contract";
pub const STANDARD: &str = "Standard";
pub const HOLDERS: &str = "Holders";
pub const TRANSFERS: &str = "Transfers";
pub const SUPPLY: &str = "Total supply";
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
