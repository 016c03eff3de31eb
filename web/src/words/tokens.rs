//! Texts about tokens.

use std::fmt::Display;

/// Heading and column.
pub const TOKEN: &str = "Token";
/// Note above the list.
pub const LIST_NOTE: &str = "Contracts whose events look like a token's, those with most holders first. Names are what contracts call themselves, \
                             and anybody may take any name: only the address tells tokens apart.";
/// Note on a token's page.
pub const NAME_NOTE: &str = "The name is what the contract calls itself, and anybody may take any name. Supply, holders and transfers are added up from its events.";
/// Replaces the name of a token without one.
pub const NAMELESS: &str = "(no name)";
/// Tag for a token whose events contradict each other.
pub const INCONSISTENT: &str = "events do not add up";
/// Explains [`INCONSISTENT`].
pub const INCONSISTENT_NOTE: &str = "The events of this contract move more than anybody had, or make more than there are numbers. Its supply and \
                                     its balances are what the events say, and may have nothing to do with what the contract holds.";
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
pub const SUPPLY: &str = "Supply";
/// Row label.
pub const DECIMALS: &str = "Decimals";
/// Row label.
pub const FIRST_SEEN: &str = "First seen in block";
/// Tab title.
pub const IDS: &str = "Ids";
/// Tab title.
pub const DAYS: &str = "Over time";
/// Column header.
pub const TRANSACTION: &str = "Transaction";
/// Column header.
pub const WHEN: &str = "When";
/// Column header.
pub const FROM: &str = "From";
/// Column header.
pub const TO: &str = "To";
/// Column header.
pub const AMOUNT: &str = "Amount";
/// Column header.
pub const ID: &str = "Id";
/// Column header.
pub const HOLDER: &str = "Holder";
/// Column header.
pub const SHARE: &str = "Share of supply";
/// Column header.
pub const DAY: &str = "Day (UTC)";
/// Column header.
pub const SUPPLY_AT_END: &str = "Supply at its end";
/// Replaces the sender of a mint.
pub const MINTED: &str = "minted";
/// Replaces the recipient of a burn.
pub const BURNT: &str = "burnt";
/// Text before an id.
pub const OF_ID: &str = "Holders of";
/// Note above the holders of a token with ids.
pub const TOTALS_NOTE: &str = "Amounts are of all ids together; the part Ids says who holds which.";
/// Heading above the table of days.
pub const DAYS_MOVED: &str = "Days on which it moved";
/// Error: invalid token id.
pub const BAD_ID: &str = "A token's id is a number in decimal digits.";

/// Error: a token's page has no such part.
pub fn no_part(part: &str) -> String {
    format!("A token's page has no part {part:.40}.")
}

/// Error: no token event of this contract is known.
pub fn no_token(address: impl Display) -> String {
    format!("The contract {address} has written no event of a token, as far as is known here.")
}
