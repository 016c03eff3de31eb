//! Of search.

/// Heading.
pub const TITLE: &str = "Search";
/// Heading over what was found.
pub const FOUND: &str = "Several things may be meant";
/// Heading where nothing was.
pub const NOTHING: &str = "Nothing found";
/// Nothing was asked.
pub const EMPTY: &str = "What are you looking for?";
/// Heading of the list.
pub const TRIED: &str = "What was tried";
/// Heading of the advice.
pub const NEXT: &str = "What to try next";
/// Advice.
pub const ADVICE: [&str; 6] = [
    "A hash is 0x and 64 digits: of a block, a transaction or a batch, a validator's key, or the first topic of an event. Was it copied \
     whole?",
    "A transaction that was sent just now may not have reached this node: try again in a few seconds.",
    "An address is 0x and 40 digits; its page opens even if no block names it yet.",
    "Validators are found by their position in the committee (validator 2), and nodes by their peer ids.",
    "Blocks are found by number, with commas or without.",
    "Tokens, methods and events are found by how their names begin, in any capitals.",
];
/// Columns.
pub const WHAT: &str = "What";
/// Columns.
pub const NAME: &str = "Name";
/// Headings by kind, in the order of `Kind::ALL`.
pub const KINDS: [&str; 8] =
    ["Blocks", "Transactions", "Accounts", "Validators", "Peers", "Tokens", "Methods and errors", "Events"];
/// Looks.
pub const TRIED_TRANSACTION: &str = "an executed transaction of this hash";
/// Looks.
pub const TRIED_BLOCK: &str = "a block of this hash";
/// Looks.
pub const TRIED_SKIPPED: &str = "a transaction of this hash that was ordered and not executed";
/// Looks.
pub const TRIED_BATCH: &str = "a block with a batch of this digest";
/// Looks.
pub const TRIED_CODE: &str = "a contract whose code has this hash";
/// Of a contract.
pub const WITH_CODE: &str = "a contract with this code";
/// Before a validator's position, in small letters.
pub const VALIDATOR: &str = "validator";
/// Looks; the position follows.
pub const TRIED_POSITION: &str = "a validator at position";
/// Looks.
pub const TRIED_PEER: &str = "a node with this peer id, among the nodes that this explorer asks and their peers";
/// Of a node that is no validator.
pub const A_PEER: &str = "a node of the network";
/// Looks.
pub const TRIED_KEY: &str = "a validator with this key";
/// The node was not asked yet.
pub const NO_COMMITTEE: &str = "the node did not say yet who its validators are, so their keys were not looked at";
/// Looks.
pub const TRIED_POOL: &str = "a transaction of this hash in the node's pool";
/// The node did not answer.
pub const NODE_AWAY: &str = "the node did not answer, so its pool was not looked at";
/// In the pool.
pub const IN_POOL: &str = "known to the node, in no block that is here";
/// Looks.
pub const TRIED_ADDRESS: &str = "an account, contract or token at this address";
/// No block names it.
pub const NEVER_SEEN: &str = "no block here names it";
/// Looks.
pub const TRIED_NUMBER: &str = "block number";
/// Looks.
pub const TRIED_SELECTOR: &str = "a method or error with this selector in the interfaces that are known here";
/// Looks.
pub const TRIED_TOPIC: &str = "an event with this first topic in the interfaces that are known here";
/// Looks.
pub const TRIED_TOKEN: &str = "a token whose name or symbol begins with";
/// Looks.
pub const TRIED_METHOD: &str = "a method, error or event whose name begins with";
/// Capitals that are no checksum.
pub const MISTYPED: &str = "The capitals of this address are not those of its checksum: a digit may be mistyped. Compare it before you send anything there.";

/// Of a block.
pub fn block(number: &str) -> String {
    format!("Block {number}")
}

/// Of a block, by a batch.
pub fn block_with_batch(number: &str, author: u64) -> String {
    format!("Block {number}, with this batch of validator {author}")
}

/// Of a transaction that was executed.
pub fn in_block(number: &str) -> String {
    format!("in block {number}")
}

/// Of a transaction that was not.
pub fn skipped_in(number: &str) -> String {
    format!("ordered in block {number} and not executed")
}

/// Of a validator, by one of its keys.
pub fn validator(index: u64, key: &str) -> String {
    format!("Validator {index}: {key}")
}

/// Of a validator, by where it sits.
pub fn at_position(index: u64) -> String {
    format!("Validator {index}")
}

/// Of an account.
pub fn transactions(count: &str) -> String {
    format!("{count} transactions")
}
