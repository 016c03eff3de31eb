//! Texts about transactions.

pub const TITLE: &str = "Transaction";
pub const HASH: &str = "Transaction hash";
/// [`HASH`] in short, for columns.
pub const TXN_HASH: &str = "Txn hash";
pub const BLOCK: &str = "Block";
pub const FROM: &str = "From";
pub const TO: &str = "To";
pub const VALUE: &str = "Value";
pub const METHOD: &str = "Method";
pub const FEE: &str = "Transaction fee";
pub const AGE: &str = "Age";
pub const TIME: &str = "Timestamp";
pub const STATUS: &str = "Status";
pub const FINALITY: &str = "Finality";
pub const AUTHOR: &str = "Proposed by";
pub const EXECUTION: &str = "Executed in lane";
pub const NONCE: &str = "Nonce";
pub const KIND: &str = "Type";
pub const GAS: &str = "Gas used";
pub const GAS_PRICE: &str = "Gas price";
pub const INPUT: &str = "Input data";
pub const CREATED: &str = "Contract created";
pub const CREATION: &str = "Contract creation";
pub const TRANSFER: &str = "Transfer";
pub const OVERVIEW: &str = "Overview";
pub const LOGS: &str = "Logs";
pub const CALLS: &str = "Internal transactions";
pub const NO_CALLS: &str =
    "No call trace available. The node may be unavailable, serve no traces or have pruned the state, and no trace was indexed.";
pub const WRITTEN_DOWN: &str = "Indexed trace, with only the first bytes of the input of inner calls.";
pub const FIRST_ONES: &str = "The list is truncated.";
pub const TRANSFERS: &str = "Token transfers";
pub const SIGNED: &str = "Signed transaction";
/// Summary above hidden bytes; their number follows.
pub const RAW: &str = "Raw bytes";
pub const TIMELINE: &str = "Timeline";
pub const SEEN_HERE: &str =
    "Executed and certified: time at which this explorer received the data from its node, which is later than the event.";
pub const RECEIVED_THERE: &str =
    "Received: time at which the node received the transaction, by the node's clock. Blocks do not record it.";
pub const RECEIVED: &str = "received";
/// Explains the finality of a transaction in a certified block.
pub const IS_CERTIFIED: &str = "final: a quorum of validators signed the block";
/// Explains the finality of a transaction in a block without a certificate.
pub const NOT_CERTIFIED: &str = "not final yet: the block has no certificate";
/// Explains the status of a pending transaction.
pub const IS_PENDING: &str = "Waits in the node's pool, or in a proposal that is not ordered yet.";
/// Explains the status of an ordered transaction.
pub const IS_ORDERED: &str = "Ordered; execution is next.";
/// Explains the status of an executed transaction that the indexer has not read yet.
pub const IS_EXECUTED: &str = "In a block that is not indexed yet.";
pub const REPLACED_BY: &str = "by";
pub const NOT_EXECUTED: &str = "ordered, not executed:";
pub const POSITION: &str = "position";
pub const OF_GAS: &str = "gas";
pub const BAD_HASH: &str = "Invalid transaction hash: expected 0x and 64 hexadecimal digits.";

/// Type of a transaction, with the name that wallets use.
pub fn kind(number: u64) -> String {
    match number {
        0 => format!("{number} (legacy)"),
        1 => format!("{number} (EIP-2930)"),
        2 => format!("{number} (EIP-1559)"),
        4 => format!("{number} (EIP-7702)"),
        _ => number.to_string(),
    }
}

/// Texts about the way of a transaction over shards.
pub mod shards {
    pub const TITLE: &str = "Shards";
    pub const SHARDS: &str = "Shards with its values";
    pub const WAY: &str = "Decision";
    pub const FAST: &str = "one round trip: all replicas of its shards voted for it";
    pub const LOGGED: &str = "two round trips: one shard logged the decision";
    pub const RECONCILED: &str = "an election of replicas, because clients disagreed";
    pub const TIMESTAMP: &str = "Position in the order";
    pub const MICROSECONDS: &str = "µs, Unix time of the gateway";
    pub const GATEWAY: &str = "Proposed by gateway";
    pub const VALUES: &str = "Values";
    pub const DEPENDENCIES: &str = "Read what these wrote";
    pub const NONE: &str = "none: values of the genesis only";
    pub const ATTEMPTS: &str = "Attempts";
    pub const ATTEMPTS_NOTE: &str = "an attempt that conflicts with another transaction aborts, and is repeated";
    pub const RECOVERED: &str = "Recovery";
    pub const RECOVERED_NOTE: &str = "this node finished it for another gateway that stopped";
    pub const ID: &str = "Proposal";

    /// Numbers of values read and written.
    pub fn values(reads: u64, writes: u64) -> String {
        format!("{reads} read, {writes} written")
    }
}
