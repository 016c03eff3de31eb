//! Texts about transactions.

use std::fmt::Display;

/// Heading.
pub const TITLE: &str = "Transaction";
/// Column header and row label.
pub const HASH: &str = "Hash";
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
pub const FEE: &str = "Fee";
/// Column header and row label.
pub const AGE: &str = "When";
/// Row label.
pub const STATUS: &str = "Status";
/// Row label.
pub const RESULT: &str = "Result";
/// Column header and row label.
pub const AUTHOR: &str = "Proposed by";
/// Column header for the lane and the runs of a transaction.
pub const EXECUTION: &str = "Executed in";
/// Row label.
pub const NONCE: &str = "Nonce";
/// Row label.
pub const KIND: &str = "Type";
/// Row label.
pub const GAS: &str = "Gas";
/// Row label.
pub const GAS_PRICE: &str = "Price of gas";
/// Row label.
pub const INPUT: &str = "Input";
/// Row label.
pub const CREATED: &str = "Contract made";
/// Replaces the recipient and the method of a contract creation.
pub const CREATION: &str = "makes a contract";
/// Replaces the method of a transaction without input.
pub const TRANSFER: &str = "transfer";
/// Section heading.
pub const OVERVIEW: &str = "Overview";
/// Section heading.
pub const LOGS: &str = "Logs";
/// Section heading.
pub const CALLS: &str = "Calls";
/// Note if neither the node nor the database has the calls.
pub const NO_CALLS: &str = "Not known: the node did not tell (it may be away, serve no traces, or no longer have the state that this ran on), and nothing was \
                            written down.";
/// Note if the calls come from the database.
pub const WRITTEN_DOWN: &str =
    "As it was written down when the block was read: of calls inside, the first bytes of their input.";
/// Note below a list that is cut off.
pub const FIRST_ONES: &str = "These are the first ones.";
/// Section heading.
pub const TRANSFERS: &str = "Tokens moved";
/// Section heading.
pub const SIGNED: &str = "Signed transaction";
/// Summary above hidden bytes; their number follows.
pub const RAW: &str = "Raw";
/// Note for an empty list.
pub const NO_TRANSACTIONS: &str = "No transactions.";
/// Heading above the timeline.
pub const TIMELINE: &str = "On its way";
/// Note below the timeline about the times of execution and certification.
pub const SEEN_HERE: &str =
    "Executed and certified: when this explorer learnt of it from its node, which is later than it happened.";
/// Note below the timeline about the time of reception.
pub const RECEIVED_THERE: &str =
    "Received: when it reached the node that this explorer follows, by that node's clock. Blocks do not record it.";
/// Step of the timeline.
pub const RECEIVED: &str = "received";
/// Explains the status of a pending transaction.
pub const IS_PENDING: &str = "It waits in the node's pool, or in a proposal that is not ordered yet.";
/// Explains the status of an ordered transaction.
pub const IS_ORDERED: &str = "It has its place in the agreed order and is about to be executed.";
/// Explains the status of an executed transaction that the indexer has not read yet.
pub const IS_EXECUTED: &str = "It is in a block that this explorer is about to read.";
/// Text before the hash of the transaction that replaced this one.
pub const REPLACED_BY: &str = "by";
/// Text before the reason for which the transaction was skipped.
pub const NOT_EXECUTED: &str = "ordered and not executed:";
/// Text between the block number and the position in the block.
pub const POSITION: &str = "position";
/// Follows an amount of gas.
pub const OF_GAS: &str = "gas";
/// Error: invalid transaction hash.
pub const BAD_HASH: &str = "A transaction is named by its hash of 32 bytes: 0x and 64 digits.";

/// Error: the database does not contain the transaction, and the node does not respond.
pub fn not_asked(hash: impl Display, newest: &str) -> String {
    format!(
        "Transaction {hash} is not in blocks up to {newest}. It may be pending, or in a newer block: only the node knows, and it does not \
         answer."
    )
}

/// Error: neither the database nor the node knows the transaction.
pub fn missing(hash: impl Display, newest: &str) -> String {
    format!("There is no transaction {hash}: not in blocks up to {newest}, and not in the pool of the node that was asked.")
}
