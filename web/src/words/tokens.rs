//! Of tokens.

use std::fmt::Display;

/// Heading and column.
pub const TOKEN: &str = "Token";
/// Above the list.
pub const LIST_NOTE: &str = "Contracts whose events look like a token's, those with most holders first. Names are what contracts call themselves, \
                             and anybody may take any name: only the address tells tokens apart.";
/// On a token's page.
pub const NAME_NOTE: &str = "The name is what the contract calls itself, and anybody may take any name. Supply, holders and transfers are added up from its events.";
/// A contract that says no name.
pub const NAMELESS: &str = "(no name)";
/// Marks a token.
pub const INCONSISTENT: &str = "events do not add up";
/// What it means.
pub const INCONSISTENT_NOTE: &str = "The events of this contract move more than anybody had, or make more than there are numbers. Its supply and \
                                     its balances are what the events say, and may have nothing to do with what the contract holds.";
/// Standards.
pub const ERC20: &str = "ERC-20";
/// Standards.
pub const ERC721: &str = "ERC-721";
/// Standards.
pub const ERC1155: &str = "ERC-1155";
/// Columns and rows.
pub const ADDRESS: &str = "Contract";
/// Columns and rows.
pub const STANDARD: &str = "Standard";
/// Columns, rows and parts of the page.
pub const HOLDERS: &str = "Holders";
/// Columns, rows and parts of the page.
pub const TRANSFERS: &str = "Transfers";
/// Columns, rows and charts.
pub const SUPPLY: &str = "Supply";
/// Rows.
pub const DECIMALS: &str = "Decimals";
/// Rows.
pub const FIRST_SEEN: &str = "First seen in block";
/// Parts of the page.
pub const IDS: &str = "Ids";
/// Parts of the page.
pub const DAYS: &str = "Over time";
/// Columns.
pub const TRANSACTION: &str = "Transaction";
/// Columns.
pub const WHEN: &str = "When";
/// Columns.
pub const FROM: &str = "From";
/// Columns.
pub const TO: &str = "To";
/// Columns.
pub const AMOUNT: &str = "Amount";
/// Columns.
pub const ID: &str = "Id";
/// Columns.
pub const HOLDER: &str = "Holder";
/// Columns.
pub const SHARE: &str = "Share of supply";
/// Columns.
pub const DAY: &str = "Day (UTC)";
/// Columns.
pub const SUPPLY_AT_END: &str = "Supply at its end";
/// From nobody.
pub const MINTED: &str = "minted";
/// To nobody.
pub const BURNT: &str = "burnt";
/// Before an id.
pub const OF_ID: &str = "Holders of";
/// Above the holders of a token with ids.
pub const TOTALS_NOTE: &str = "Amounts are of all ids together; the part Ids says who holds which.";
/// The table.
pub const DAYS_MOVED: &str = "Days on which it moved";
/// What cannot be read.
pub const BAD_ID: &str = "A token's id is a number in decimal digits.";

/// There is no such page.
pub fn no_part(part: &str) -> String {
    format!("A token's page has no part {part:.40}.")
}

/// No event said that this is one.
pub fn no_token(address: impl Display) -> String {
    format!("The contract {address} has written no event of a token, as far as is known here.")
}
