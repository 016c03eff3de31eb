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
pub const TRIED_TRANSACTION: &str = "a transaction with this hash";
pub const TRIED_BLOCK: &str = "a block with this hash";
pub const TRIED_SKIPPED: &str = "a skipped transaction with this hash";
pub const TRIED_BATCH: &str = "a block with a batch of this digest";
pub const TRIED_CODE: &str = "a contract with this code hash";
pub const WITH_CODE: &str = "contract with this code hash";
/// Prefix of a query for a validator's position, in lower case.
pub const VALIDATOR: &str = "validator";
/// Entry in the list [`TRIED`]; the position follows.
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
