//! Texts of the explorer's pages, in one place. A change of wording or a translation needs changes in this module only.
//!
//! Texts for programs are not here: they are next to the code that returns them ([`crate::api`]). Pages pass the texts to their
//! scripts.

#![allow(missing_docs)] // A text is its own documentation. Comments say what a name and a text do not.

pub mod account;
pub mod api;
pub mod changes;
pub mod contract;
pub mod dag;
pub mod execution;
pub mod home;
pub mod network;
pub mod search;
pub mod statistics;
pub mod tokens;
pub mod transaction;
pub mod validators;
pub mod wallet;

pub const LANGUAGE: &str = "en";
pub const NAME: &str = "Corniche";
pub const EXPLORER: &str = "Corniche explorer";

/// Labels of the navigation, in the order of the pages.
pub mod nav {
    pub const BLOCKS: &str = "Blocks";
    pub const TRANSACTIONS: &str = "Transactions";
    pub const TOKENS: &str = "Tokens";
    pub const VALIDATORS: &str = "Validators";
    pub const DAG: &str = "DAG";
    pub const STATISTICS: &str = "Statistics";
    pub const NETWORK: &str = "Network";
    pub const API: &str = "API";
    pub const SKIP: &str = "Skip to content";
    pub const SEARCH: &str = "Search";
    pub const SEARCH_HINT: &str = "Search by address, hash, block, token or method";
    pub const THEME: &str = "Theme";
    pub const UNIT: &str = "Unit";
}

/// The four states of a transaction and the other ways it can end. RPC and logs use the same words.
pub mod status {
    /// The transaction waits in a pool.
    pub const PENDING: &str = "pending";
    /// The transaction has its place in the order.
    pub const ORDERED: &str = "ordered";
    /// The transaction is in a block.
    pub const EXECUTED: &str = "executed";
    /// A quorum signed the block.
    pub const CERTIFIED: &str = "certified";
    /// The transaction left the pool.
    pub const DROPPED: &str = "dropped";
    /// Another transaction took its place.
    pub const REPLACED: &str = "replaced";
    /// The transaction was executed and did not revert.
    pub const SUCCEEDED: &str = "succeeded";
    /// The transaction was executed and reverted. Only its fee was charged.
    pub const REVERTED: &str = "reverted";

    /// Status of an executed block and of its transactions. Certificates cover all blocks up to `certified`.
    pub fn of_block(number: u64, certified: Option<u64>) -> &'static str {
        of_executed(Some(number) <= certified)
    }

    /// Status of an executed block or transaction.
    pub fn of_executed(is_certified: bool) -> &'static str {
        if is_certified { CERTIFIED } else { EXECUTED }
    }
}

/// Units of the chain's currency.
pub mod unit {
    /// Ticker of 10^18 wei on pages without chain state, such as error pages.
    pub const COIN: &str = "CRN";
    pub const GWEI: &str = "gwei";
    pub const WEI: &str = "wei";

    /// An amount in gwei, with its unit.
    pub fn gwei(amount: &str) -> String {
        format!("{amount} {GWEI}")
    }
}

/// Texts about blocks.
pub mod block {
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
    /// Row label that replaces [`ROUNDS`] under Autobahn.
    pub const SLOTS: &str = "Slots";
    pub const PICTURE: &str = "show in DAG";
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
    pub const EARLIER: &str = "Previous block";
    pub const LATER: &str = "Next block";
    pub const AFTER_ORDER: &str = "from ordering to certificate, as observed by this explorer";
    pub const TO: &str = "to";
    pub const BAD_NAME: &str = "Invalid block: expected a number or a hash (0x and 64 hexadecimal digits).";

    /// Number of a batch's transactions in this block, and the index of the first one in the batch.
    pub fn range(count: &str, first: &str) -> String {
        format!("{count} from {first}")
    }

    /// Error: no block has this number or hash.
    pub fn missing(block: &str, newest: &str) -> String {
        format!("Block {block:.80} not found. The newest indexed block is {newest}.")
    }
}

/// Texts about lists.
pub mod list {
    pub const OLDER: &str = "Older";
    pub const NEWEST: &str = "Newest";
    pub const FIRST: &str = "First page";
    pub const FURTHER: &str = "Next page";
    pub const EMPTY: &str = "No entries.";
    pub const COPY: &str = "Copy";
    pub const BAD_CURSOR: &str = "Invalid cursor: expected one from a link of this list. Open the first page.";
    pub const BAD_PLACE: &str = "Invalid cursor: expected one from a link of this list. Open the first page of the list.";
    pub const PAGES: &str = "Pages";
    pub const PARTS: &str = "Sections";

    /// A part of a whole.
    pub fn of(part: &str, whole: &str) -> String {
        format!("{part} of {whole}")
    }

    /// Note for bytes that are cut off.
    pub fn first_of(shown: &str, all: &str) -> String {
        format!("First {shown} of {all}.")
    }
}

/// Texts in the footer of every page.
pub mod foot {
    pub const CHAIN_ID: &str = "chain ID";
    pub const BLOCK: &str = "block";

    /// Engine, number of validators and quorum.
    pub fn committee(engine: &str, validators: usize, quorum: u64) -> String {
        format!("{engine}, {validators} validators, quorum {quorum}")
    }
}

/// Texts of error pages and of the banners above pages.
pub mod failure {
    use std::fmt::Display;

    pub const NOT_FOUND: &str = "Not found";
    pub const NOT_FOUND_HINT: &str = "Search for a hash, a block number, an address, a token or a method name.";
    pub const BUSY: &str = "Too many requests";
    pub const BUSY_HINT: &str = "This address has exceeded the request limit. Wait a few seconds, then reload the page.";
    pub const BROKEN: &str = "Internal error";
    pub const BROKEN_HINT: &str = "The explorer failed; the log of the explorer has the details. Reload the page in a moment.";
    pub const AWAY: &str = "Node unavailable";
    pub const NO_ANSWER: &str = "Only the node has this data, and the node does not respond.";
    pub const AWAY_HINT: &str = "Pages with indexed data still work. Reload this page in a moment.";
    /// Banner above every page after the indexer stopped; the reason follows.
    pub const HALTED: &str = "Explorer stopped";
    pub const BAD_REQUEST: &str = "Invalid request";
    pub const WAITS: &str = "Node unavailable. The pages show the data that is already indexed.";
    pub const WAITS_HINT: &str = "The log of the explorer has the reason.";
    pub const BEHIND: &str = "Syncing with the node:";

    /// The indexer stopped because of a bug in the explorer.
    pub const FAULT: &str = "the indexer failed with an internal error; read the log, then restart the explorer";

    /// The indexer stopped because the database contains another chain.
    pub fn another_chain(known: &str, found: &str) -> String {
        format!(
            "wrong chain: the database has chain {known}, the node has chain {found} (chain ID and genesis hash). A node with a new \
             genesis has another chain; use an empty database, or the former node"
        )
    }

    /// The indexer stopped because the node's block differs from the stored one.
    pub fn contradiction(number: impl Display) -> String {
        format!(
            "block {number}: the node and the database have different blocks, and this chain cannot be reverted. Compare the block \
             with another node; use an empty database if the indexed block is wrong"
        )
    }

    /// Error: no page has this path.
    pub fn no_page(path: &str) -> String {
        format!("Page not found: {path}.")
    }
}

#[cfg(test)]
mod tests;
