//! Of transactions.

/// Heading.
pub const TITLE: &str = "Transaction";
/// Columns and rows.
pub const HASH: &str = "Hash";
/// Columns and rows.
pub const BLOCK: &str = "Block";
/// Columns and rows.
pub const FROM: &str = "From";
/// Columns and rows.
pub const TO: &str = "To";
/// Columns and rows.
pub const VALUE: &str = "Value";
/// Columns and rows.
pub const METHOD: &str = "Method";
/// Columns and rows.
pub const FEE: &str = "Fee";
/// Columns and rows.
pub const AGE: &str = "When";
/// Rows.
pub const STATUS: &str = "Status";
/// Rows.
pub const RESULT: &str = "Result";
/// Rows and columns.
pub const AUTHOR: &str = "Proposed by";
/// Columns: how the node ran it.
pub const EXECUTION: &str = "Executed in";
/// Rows.
pub const NONCE: &str = "Nonce";
/// Rows.
pub const KIND: &str = "Type";
/// Rows.
pub const GAS: &str = "Gas";
/// Rows.
pub const GAS_PRICE: &str = "Price of gas";
/// Rows.
pub const INPUT: &str = "Input";
/// Rows.
pub const CREATED: &str = "Contract made";
/// For a creation, in place of the recipient.
pub const CREATION: &str = "makes a contract";
/// Without input.
pub const TRANSFER: &str = "transfer";
/// Parts of the page.
pub const OVERVIEW: &str = "Overview";
/// Parts of the page.
pub const LOGS: &str = "Logs";
/// Parts of the page.
pub const CALLS: &str = "Calls";
/// Nobody knows them.
pub const NO_CALLS: &str = "Not known: the node did not tell (it may be away, serve no traces, or no longer have the state that this ran on), and nothing was \
                            written down.";
/// They come from the database.
pub const WRITTEN_DOWN: &str =
    "As it was written down when the block was read: of calls inside, the first bytes of their input.";
/// The list was cut.
pub const FIRST_CALLS: &str = "These are the first ones.";
/// Parts of the page.
pub const TRANSFERS: &str = "Tokens moved";
/// Parts of the page.
pub const RAW: &str = "Raw";
/// None.
pub const NO_TRANSACTIONS: &str = "No transactions.";
/// Times on the way.
pub const TIMELINE: &str = "On its way";
/// Below the timeline.
pub const SEEN_HERE: &str =
    "Executed and certified are when this explorer read it of its node, which is later than it happened.";
/// Of the timeline.
pub const RECEIVED: &str = "received";
