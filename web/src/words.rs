//! Texts of the explorer's pages, in one place. A change of wording or a translation needs changes in this module only.
//!
//! Texts for programs are not here: they are next to the code that returns them ([`crate::api`]). Pages pass the texts to their
//! scripts.

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

/// Language tag of all pages (HTML `lang`).
pub const LANGUAGE: &str = "en";
/// Product name.
pub const NAME: &str = "Corniche";
/// Window title.
pub const EXPLORER: &str = "Corniche explorer";

/// Labels of the navigation, in the order of the pages.
pub mod nav {
    /// Page with the newest blocks.
    pub const BLOCKS: &str = "Blocks";
    /// Page with the newest transactions.
    pub const TRANSACTIONS: &str = "Transactions";
    /// Page with the list of tokens.
    pub const TOKENS: &str = "Tokens";
    /// Page with the committee.
    pub const VALIDATORS: &str = "Validators";
    /// Page with the consensus DAG.
    pub const DAG: &str = "DAG";
    /// Page with daily statistics.
    pub const STATISTICS: &str = "Statistics";
    /// Page with the node and its peers.
    pub const NETWORK: &str = "Network";
    /// Page for API users.
    pub const API: &str = "API";
    /// Link that skips the navigation.
    pub const SKIP: &str = "Skip to content";
    /// Label of the search field and of its button.
    pub const SEARCH: &str = "Search";
    /// Placeholder of the search field.
    pub const SEARCH_HINT: &str = "Search by address, hash, block, token or method";
    /// Button that switches the colour theme.
    pub const THEME: &str = "Theme";
    /// Label of the field that selects the unit of amounts.
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
    /// 10^9 wei.
    pub const GWEI: &str = "gwei";
    /// The smallest unit.
    pub const WEI: &str = "wei";

    /// An amount in gwei, with its unit.
    pub fn gwei(amount: &str) -> String {
        format!("{amount} {GWEI}")
    }
}

/// Texts about blocks.
pub mod block {
    /// Title, before the block number.
    pub const TITLE: &str = "Block";
    /// Section heading.
    pub const OVERVIEW: &str = "Overview";
    /// Section heading.
    pub const ORDERING: &str = "Ordering";
    /// Explains [`ORDERING`].
    pub const ORDERING_NOTE: &str =
        "Validators propose batches and agree on one order for them. Each block holds the next transactions of that order.";
    /// Section heading.
    pub const CERTIFICATE: &str = "Certificate";
    /// Explains [`CERTIFICATE`].
    pub const CERTIFICATE_NOTE: &str = "A quorum of validators signed this block or a later one. The block is final.";
    /// Note for a block without a certificate.
    pub const NO_CERTIFICATE: &str =
        "No certificate yet. The block is executed; a quorum has not signed it yet, or the certificate is not indexed yet.";
    /// Section heading.
    pub const TRANSACTIONS: &str = "Transactions";
    /// Section heading.
    pub const SKIPPED: &str = "Skipped transactions";
    /// Explains [`SKIPPED`].
    pub const SKIPPED_NOTE: &str = "Every node validates a transaction again before execution. These transactions were ordered but failed that \
         check. They cost no fee and have no receipt.";
    /// Row label.
    pub const HASH: &str = "Hash";
    /// Row label.
    pub const PARENT: &str = "Parent hash";
    /// Row label.
    pub const TIME: &str = "Timestamp";
    /// Column header for the block's time.
    pub const AGE: &str = "Age";
    /// Row label.
    pub const STATUS: &str = "Status";
    /// Row label.
    pub const GAS: &str = "Gas used";
    /// Row label.
    pub const BASE_FEE: &str = "Base fee";
    /// Row label.
    pub const SIZE: &str = "Size";
    /// Row label.
    pub const STATE_ROOT: &str = "State root";
    /// Row label.
    pub const RANDOMNESS: &str = "Randomness";
    /// Row label.
    pub const RECORD: &str = "Ordering record";
    /// Row label.
    pub const LEADER: &str = "Leader";
    /// Row label.
    pub const FEE_ADDRESS: &str = "Fee recipient";
    /// Row label.
    pub const COMMITS: &str = "Commits";
    /// Row label for the rounds of the commits' leaders.
    pub const ROUNDS: &str = "Leader rounds";
    /// Row label that replaces [`ROUNDS`] under Autobahn.
    pub const SLOTS: &str = "Slots";
    /// Link to the batch in the picture of the DAG.
    pub const PICTURE: &str = "show in DAG";
    /// Row label.
    pub const BATCHES: &str = "Batches";
    /// Column header.
    pub const AUTHOR: &str = "Proposed by";
    /// Column header.
    pub const DIGEST: &str = "Digest";
    /// Column header.
    pub const RANGE: &str = "Transactions";
    /// Column header.
    pub const REASON: &str = "Reason";
    /// Row label.
    pub const SIGNERS: &str = "Signers";
    /// Row label.
    pub const MISSED: &str = "Missing signers";
    /// Row label.
    pub const COVERS: &str = "Signed block";
    /// Row label.
    pub const SIGNATURE: &str = "Aggregate signature";
    /// Note for the genesis block.
    pub const GENESIS: &str =
        "This is the genesis block. It is part of the configuration of the chain and was not ordered by validators.";
    /// Link to the previous block.
    pub const EARLIER: &str = "Previous block";
    /// Link to the next block.
    pub const LATER: &str = "Next block";
    /// Follows the time between the order of the block and its certificate.
    pub const AFTER_ORDER: &str = "from ordering to certificate, as observed by this explorer";
    /// Text between the first and the last number of a range.
    pub const TO: &str = "to";
    /// Error: the page's address contains neither a block number nor a block hash.
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
    /// Link to the next page.
    pub const OLDER: &str = "Older";
    /// Link to the first page.
    pub const NEWEST: &str = "Newest";
    /// Link to the first page of a list that is not ordered by time.
    pub const FIRST: &str = "First page";
    /// Link to the next page of such a list.
    pub const FURTHER: &str = "Next page";
    /// Note for an empty list.
    pub const EMPTY: &str = "No entries.";
    /// Label of the button that copies a value.
    pub const COPY: &str = "Copy";
    /// Error: invalid cursor.
    pub const BAD_CURSOR: &str = "Invalid cursor: expected one from a link of this list. Open the first page.";
    /// Error: invalid cursor of a list that is ordered by its key.
    pub const BAD_PLACE: &str = "Invalid cursor: expected one from a link of this list. Open the first page of the list.";
    /// Accessible name of the links between the pages of a list.
    pub const PAGES: &str = "Pages";
    /// Accessible name of the links between the parts of a page.
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
    /// Label before the chain id.
    pub const CHAIN_ID: &str = "chain ID";
    /// Label before the number of the newest block.
    pub const BLOCK: &str = "block";

    /// Engine, number of validators and quorum.
    pub fn committee(engine: &str, validators: usize, quorum: u64) -> String {
        format!("{engine}, {validators} validators, quorum {quorum}")
    }
}

/// Texts of error pages and of the banners above pages.
pub mod failure {
    use std::fmt::Display;

    /// Heading.
    pub const NOT_FOUND: &str = "Not found";
    /// Advice below [`NOT_FOUND`].
    pub const NOT_FOUND_HINT: &str = "Search for a hash, a block number, an address, a token or a method name.";
    /// Heading.
    pub const BUSY: &str = "Too many requests";
    /// Advice below [`BUSY`].
    pub const BUSY_HINT: &str = "This address has exceeded the request limit. Wait a few seconds, then reload the page.";
    /// Heading.
    pub const BROKEN: &str = "Internal error";
    /// Advice below [`BROKEN`].
    pub const BROKEN_HINT: &str = "The explorer failed; the log of the explorer has the details. Reload the page in a moment.";
    /// Heading.
    pub const AWAY: &str = "Node unavailable";
    /// Explanation below [`AWAY`].
    pub const NO_ANSWER: &str = "Only the node has this data, and the node does not respond.";
    /// Advice below [`AWAY`].
    pub const AWAY_HINT: &str = "Pages with indexed data still work. Reload this page in a moment.";
    /// Banner above every page after the indexer stopped; the reason follows.
    pub const HALTED: &str = "Explorer stopped";
    /// Heading.
    pub const BAD_REQUEST: &str = "Invalid request";
    /// Banner above every page while the node does not respond.
    pub const WAITS: &str = "Node unavailable. The pages show the data that is already indexed.";
    /// Tooltip of [`WAITS`], for the operator.
    pub const WAITS_HINT: &str = "The log of the explorer has the reason.";
    /// Banner above every page while the indexer catches up.
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
