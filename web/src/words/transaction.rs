//! Of transactions.

use std::fmt::Display;

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
pub const FIRST_ONES: &str = "These are the first ones.";
/// Parts of the page.
pub const TRANSFERS: &str = "Tokens moved";
/// Parts of the page.
pub const SIGNED: &str = "Signed transaction";
/// Before how many bytes are folded away.
pub const RAW: &str = "Raw";
/// None.
pub const NO_TRANSACTIONS: &str = "No transactions.";
/// Times on the way.
pub const TIMELINE: &str = "On its way";
/// Below the timeline.
pub const SEEN_HERE: &str =
    "Executed and certified: when this explorer learnt of it from its node, which is later than it happened.";
/// Below the timeline.
pub const RECEIVED_THERE: &str =
    "Received: when it reached the node that this explorer follows, by that node's clock. Blocks do not record it.";
/// Of the timeline.
pub const RECEIVED: &str = "received";
/// Of one that is pending.
pub const IS_PENDING: &str = "It waits in the node's pool, or in a proposal that is not ordered yet.";
/// Of one that is ordered.
pub const IS_ORDERED: &str = "It has its place in the agreed order and is about to be executed.";
/// Of one that is executed, maybe certified.
pub const IS_EXECUTED: &str = "It is in a block that this explorer is about to read.";
/// Before the hash of the one that took its place.
pub const REPLACED_BY: &str = "by";
/// Before the reason.
pub const NOT_EXECUTED: &str = "ordered and not executed:";
/// Between its block and its number there.
pub const POSITION: &str = "position";
/// After an amount of it.
pub const OF_GAS: &str = "gas";
/// What cannot be read.
pub const BAD_HASH: &str = "A transaction is named by its hash of 32 bytes: 0x and 64 digits.";

/// Nobody here knows it, and the node does not answer.
pub fn not_asked(hash: impl Display, newest: &str) -> String {
    format!(
        "Transaction {hash} is not in blocks up to {newest}. It may be pending, or in a newer block: only the node knows, and it does not \
         answer."
    )
}

/// Nobody knows it.
pub fn missing(hash: impl Display, newest: &str) -> String {
    format!("There is no transaction {hash}: not in blocks up to {newest}, and not in the pool of the node that was asked.")
}
