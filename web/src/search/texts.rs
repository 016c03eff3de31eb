//! Texts of search results.

pub const TRIED_TRANSACTION: &str = "a transaction with this hash";
pub const TRIED_BLOCK: &str = "a block with this hash";
pub const TRIED_SKIPPED: &str = "a skipped transaction with this hash";
pub const TRIED_BATCH: &str = "a block with a batch of this digest";
pub const TRIED_CODE: &str = "a contract with this code hash";
pub const WITH_CODE: &str = "contract with this code hash";
/// Prefix of a query for a validator's position, in lower case.
pub const VALIDATOR: &str = "validator";
/// Entry in the list of attempted lookups; the position follows.
pub const TRIED_POSITION: &str = "a validator with index";
pub const TRIED_PEER: &str = "a node with this peer ID, among the explorer's nodes and their peers";
pub const A_PEER: &str = "node of the network";
pub const TRIED_KEY: &str = "a validator with this key";
pub const NO_COMMITTEE: &str = "validators unknown: the node has not responded yet, so keys were not searched";
pub const TRIED_POOL: &str = "a transaction of this hash in the node's pool";
pub const NODE_AWAY: &str = "node unavailable, so its pool was not searched";
pub const IN_POOL: &str = "known to the node, not indexed yet";
pub const TRIED_ADDRESS: &str = "an account, contract or token at this address";
pub const NEVER_SEEN: &str = "not in any indexed block";
pub const TRIED_NUMBER: &str = "block";
pub const TRIED_SELECTOR: &str = "a method or error with this selector, in the known ABIs";
pub const TRIED_TOPIC: &str = "an event with this topic, in the known ABIs";
pub const TRIED_TOKEN: &str = "a token with a name or symbol that starts with";
pub const TRIED_METHOD: &str = "a method, error or event with a name that starts with";
/// Warning about an address with an invalid checksum.
pub const MISTYPED: &str = "Invalid checksum: the upper and lower case of this address do not match its checksum, so a digit may be wrong. \
     Check the address before you send anything to it.";

/// Title of a block.
pub fn block(number: &str) -> String {
    format!("Block {number}")
}

/// Title of a block that was found by the digest of a batch.
pub fn block_with_batch(number: &str, author: u64) -> String {
    format!("Block {number}, contains this batch of validator {author}")
}

/// Title of an executed transaction.
pub fn in_block(number: &str) -> String {
    format!("in block {number}")
}

/// Title of a transaction that was ordered and not executed.
pub fn skipped_in(number: &str) -> String {
    format!("ordered in block {number}, not executed")
}

/// Title of a validator that was found by a key.
pub fn validator(index: u64, key: &str) -> String {
    format!("Validator {index}: {key}")
}

/// Title of a validator that was found by its position or peer id.
pub fn at_position(index: u64) -> String {
    format!("Validator {index}")
}

/// Title of an account.
pub fn transactions(count: &str) -> String {
    format!("{count} transactions")
}
