//! Texts of the search page.

/// Heading.
pub const TITLE: &str = "Search";
/// Heading above several hits.
pub const FOUND: &str = "Several things may be meant";
/// Heading if there are no hits.
pub const NOTHING: &str = "Nothing found";
/// Heading for an empty query.
pub const EMPTY: &str = "What are you looking for?";
/// Heading above the list of lookups.
pub const TRIED: &str = "What was tried";
/// Heading above the advice.
pub const NEXT: &str = "What to try next";
/// Advice if there are no hits.
pub const ADVICE: [&str; 6] = [
    "A hash is 0x and 64 digits: of a block, a transaction or a batch, a validator's key, or the first topic of an event. Was it copied \
     whole?",
    "A transaction that was sent just now may not have reached this node: try again in a few seconds.",
    "An address is 0x and 40 digits; its page opens even if no block names it yet.",
    "Validators are found by their position in the committee (validator 2), and nodes by their peer ids.",
    "Blocks are found by number, with commas or without.",
    "Tokens, methods and events are found by how their names begin, in any capitals.",
];
/// Column header.
pub const WHAT: &str = "What";
/// Column header.
pub const NAME: &str = "Name";
/// Headings of the kinds of hits, in the order of `Kind::ALL`.
pub const KINDS: [&str; 8] =
    ["Blocks", "Transactions", "Accounts", "Validators", "Peers", "Tokens", "Methods and errors", "Events"];
/// Entry in the list [`TRIED`].
pub const TRIED_TRANSACTION: &str = "an executed transaction of this hash";
/// Entry in the list [`TRIED`].
pub const TRIED_BLOCK: &str = "a block of this hash";
/// Entry in the list [`TRIED`].
pub const TRIED_SKIPPED: &str = "a transaction of this hash that was ordered and not executed";
/// Entry in the list [`TRIED`].
pub const TRIED_BATCH: &str = "a block with a batch of this digest";
/// Entry in the list [`TRIED`].
pub const TRIED_CODE: &str = "a contract whose code has this hash";
/// Title of a contract that was found by its code hash.
pub const WITH_CODE: &str = "a contract with this code";
/// Prefix of a query for a validator's position, in lower case.
pub const VALIDATOR: &str = "validator";
/// Entry in the list [`TRIED`]; the position follows.
pub const TRIED_POSITION: &str = "a validator at position";
/// Entry in the list [`TRIED`].
pub const TRIED_PEER: &str = "a node with this peer id, among the nodes that this explorer asks and their peers";
/// Title of a node that is not a validator.
pub const A_PEER: &str = "a node of the network";
/// Entry in the list [`TRIED`].
pub const TRIED_KEY: &str = "a validator with this key";
/// Entry in the list [`TRIED`] while the committee is unknown.
pub const NO_COMMITTEE: &str = "the node did not say yet who its validators are, so their keys were not looked at";
/// Entry in the list [`TRIED`].
pub const TRIED_POOL: &str = "a transaction of this hash in the node's pool";
/// Entry in the list [`TRIED`] if the node did not respond.
pub const NODE_AWAY: &str = "the node did not answer, so its pool was not looked at";
/// Title of a transaction that the node knows and the database does not contain.
pub const IN_POOL: &str = "known to the node, in no block that is here";
/// Entry in the list [`TRIED`].
pub const TRIED_ADDRESS: &str = "an account, contract or token at this address";
/// Title of an address that appears in no block.
pub const NEVER_SEEN: &str = "no block here names it";
/// Entry in the list [`TRIED`].
pub const TRIED_NUMBER: &str = "block number";
/// Entry in the list [`TRIED`].
pub const TRIED_SELECTOR: &str = "a method or error with this selector in the interfaces that are known here";
/// Entry in the list [`TRIED`].
pub const TRIED_TOPIC: &str = "an event with this first topic in the interfaces that are known here";
/// Entry in the list [`TRIED`].
pub const TRIED_TOKEN: &str = "a token whose name or symbol begins with";
/// Entry in the list [`TRIED`].
pub const TRIED_METHOD: &str = "a method, error or event whose name begins with";
/// Warning about an address with an invalid checksum.
pub const MISTYPED: &str = "The capitals of this address are not those of its checksum: a digit may be mistyped. Compare it before you send anything there.";

/// Title of a block.
pub fn block(number: &str) -> String {
    format!("Block {number}")
}

/// Title of a block that was found by the digest of a batch.
pub fn block_with_batch(number: &str, author: u64) -> String {
    format!("Block {number}, with this batch of validator {author}")
}

/// Title of an executed transaction.
pub fn in_block(number: &str) -> String {
    format!("in block {number}")
}

/// Title of a transaction that was ordered and not executed.
pub fn skipped_in(number: &str) -> String {
    format!("ordered in block {number} and not executed")
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
