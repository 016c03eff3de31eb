//! Texts of the pages of blocks.

pub const TITLE: &str = "Block";
pub const OVERVIEW: &str = "Overview";
pub const ORDERING: &str = "Ordering";
pub const ORDERING_NOTE: &str =
    "Validators propose batches and agree on one order for them. Each block holds the next transactions of that order.";
pub const CERTIFICATE: &str = "Certificate";
pub const CERTIFICATE_NOTE: &str = "A quorum of validators signed this block or a later one. The block is final.";
pub const NO_CERTIFICATE: &str =
    "No certificate yet. The block is executed; a quorum has not signed it yet, or the certificate is not indexed yet.";
pub const TRANSACTIONS: &str = "Transactions";
pub const SKIPPED: &str = "Skipped transactions";
pub const SKIPPED_NOTE: &str = "Every node validates a transaction again before execution. These transactions were ordered but failed that \
     check. They cost no fee and have no receipt.";
pub const HASH: &str = "Hash";
pub const PARENT: &str = "Parent hash";
pub const TIME: &str = "Timestamp";
pub const AGE: &str = "Age";
pub const STATUS: &str = "Status";
pub const GAS: &str = "Gas used";
pub const BASE_FEE: &str = "Base fee";
pub const SIZE: &str = "Size";
pub const STATE_ROOT: &str = "State root";
pub const RANDOMNESS: &str = "Randomness";
pub const RECORD: &str = "Ordering record";
pub const LEADER: &str = "Leader";
pub const FEE_ADDRESS: &str = "Fee recipient";
pub const COMMITS: &str = "Commits";
pub const ROUNDS: &str = "Leader rounds";
/// Row label that replaces [`ROUNDS`] if the engine orders slots.
pub const SLOTS: &str = "Slots";
pub const PICTURE: &str = "show in DAG";
/// Link that replaces [`PICTURE`] if the engine orders a log.
pub const PICTURE_LOG: &str = "show in log";
pub const BATCHES: &str = "Batches";
pub const AUTHOR: &str = "Proposed by";
pub const DIGEST: &str = "Digest";
pub const RANGE: &str = "Transactions";
pub const REASON: &str = "Reason";
pub const SIGNERS: &str = "Signers";
pub const MISSED: &str = "Missing signers";
pub const COVERS: &str = "Signed block";
pub const SIGNATURE: &str = "Aggregate signature";
pub const GENESIS: &str =
    "This is the genesis block. It is part of the configuration of the chain and was not ordered by validators.";
/// Ordering of a block of a sharded chain.
pub const SHARDED: &str =
    "Nobody ordered this block: it contains all transactions of its interval of time, by their timestamps.";
pub const EARLIER: &str = "Previous block";
pub const LATER: &str = "Next block";
pub const AFTER_ORDER: &str = "from ordering to certificate, as observed by this explorer";
pub const TO: &str = "to";
pub const BAD_NAME: &str = "Invalid block: expected a number or a hash (0x and 64 hexadecimal digits).";

/// Number of a batch's transactions in this block, and the index of the first one in the batch.
pub fn range(count: &str, first: &str) -> String {
    format!("{count}, from position {first}")
}

/// Error: no block has this number or hash.
pub fn missing(block: &str, newest: &str) -> String {
    format!("Block {block:.80} not found. The newest indexed block is {newest}.")
}
