//! Texts about transactions.

use std::fmt::Display;

/// Heading.
pub const TITLE: &str = "Transaction";
/// Column header and row label.
pub const HASH: &str = "Transaction hash";
/// Column header and row label.
pub const BLOCK: &str = "Block";
/// Column header and row label.
pub const FROM: &str = "From";
/// Column header and row label.
pub const TO: &str = "To";
/// Column header and row label.
pub const VALUE: &str = "Value";
/// Column header and row label.
pub const METHOD: &str = "Method";
/// Column header and row label.
pub const FEE: &str = "Transaction fee";
/// Column header and row label.
pub const AGE: &str = "Age";
/// Row label.
pub const STATUS: &str = "Status";
/// Row label.
pub const RESULT: &str = "Result";
/// Column header and row label.
pub const AUTHOR: &str = "Proposed by";
/// Column header for the lane and the runs of a transaction.
pub const EXECUTION: &str = "Executed in lane";
/// Row label.
pub const NONCE: &str = "Nonce";
/// Row label.
pub const KIND: &str = "Type";
/// Row label.
pub const GAS: &str = "Gas used";
/// Row label.
pub const GAS_PRICE: &str = "Gas price";
/// Row label.
pub const INPUT: &str = "Input data";
/// Row label.
pub const CREATED: &str = "Contract created";
/// Replaces the recipient and the method of a contract creation.
pub const CREATION: &str = "Contract creation";
/// Replaces the method of a transaction without input.
pub const TRANSFER: &str = "Transfer";
/// Section heading.
pub const OVERVIEW: &str = "Overview";
/// Section heading.
pub const LOGS: &str = "Logs";
/// Section heading.
pub const CALLS: &str = "Internal transactions";
/// Note if neither the node nor the database has the calls.
pub const NO_CALLS: &str =
    "No call trace available. The node may be unavailable, serve no traces or have pruned the state, and no trace was indexed.";
/// Note if the calls come from the database.
pub const WRITTEN_DOWN: &str = "Indexed trace, with only the first bytes of the input of inner calls.";
/// Note below a list that is cut off.
pub const FIRST_ONES: &str = "The list is truncated.";
/// Section heading.
pub const TRANSFERS: &str = "Token transfers";
/// Section heading.
pub const SIGNED: &str = "Signed transaction";
/// Summary above hidden bytes; their number follows.
pub const RAW: &str = "Raw bytes";
/// Heading above the timeline.
pub const TIMELINE: &str = "Timeline";
/// Note below the timeline about the times of execution and certification.
pub const SEEN_HERE: &str =
    "Executed and certified: time at which this explorer received the data from its node, which is later than the event.";
/// Note below the timeline about the time of reception.
pub const RECEIVED_THERE: &str =
    "Received: time at which the node received the transaction, by the node's clock. Blocks do not record it.";
/// Step of the timeline.
pub const RECEIVED: &str = "received";
/// Explains the status of a pending transaction.
pub const IS_PENDING: &str = "Waits in the node's pool, or in a proposal that is not ordered yet.";
/// Explains the status of an ordered transaction.
pub const IS_ORDERED: &str = "Ordered; execution is next.";
/// Explains the status of an executed transaction that the indexer has not read yet.
pub const IS_EXECUTED: &str = "In a block that is not indexed yet.";
/// Text before the hash of the transaction that replaced this one.
pub const REPLACED_BY: &str = "by";
/// Text before the reason for which the transaction was skipped.
pub const NOT_EXECUTED: &str = "ordered, not executed:";
/// Text between the block number and the position in the block.
pub const POSITION: &str = "position";
/// Follows an amount of gas.
pub const OF_GAS: &str = "gas";
/// Error: invalid transaction hash.
pub const BAD_HASH: &str = "Invalid transaction hash: expected 0x and 64 hexadecimal digits.";

/// Error: the database does not contain the transaction, and the node does not respond.
pub fn not_asked(hash: impl Display, newest: &str) -> String {
    format!(
        "Transaction {hash} is not in the indexed blocks, up to {newest}. It may be pending or in a newer block, but the node is \
         unavailable."
    )
}

/// Error: neither the database nor the node knows the transaction.
pub fn missing(hash: impl Display, newest: &str) -> String {
    format!("Transaction {hash} not found: neither in the indexed blocks, up to {newest}, nor in the node's pool.")
}
