//! Texts of the search page.

pub const TITLE: &str = "Search";
pub const FOUND: &str = "Several results";
pub const NOTHING: &str = "No results";
pub const EMPTY: &str = "Enter a search term";
pub const TRIED: &str = "Searched for";
pub const NEXT: &str = "Suggestions";
/// Advice if there are no hits.
pub const ADVICE: [&str; 6] = [
    "A hash has 0x and 64 hexadecimal digits. It identifies a block, a transaction, a batch, a validator's key or an event topic. \
     Check that it was copied completely.",
    "A new transaction may not have reached the node yet. Retry in a few seconds.",
    "An address has 0x and 40 hexadecimal digits. Its page opens even if it is in no block yet.",
    "Search for a validator by its index (validator 2), and for a node by its peer ID.",
    "Search for a block by its number, with or without commas.",
    "Search for a token, method or event by the beginning of its name, in upper or lower case.",
];
pub const WHAT: &str = "Result";
pub const NAME: &str = "Description";
/// Headings of the kinds of hits, in the order of `Kind::ALL`.
pub const KINDS: [&str; 8] =
    ["Blocks", "Transactions", "Accounts", "Validators", "Peers", "Tokens", "Methods and errors", "Events"];
