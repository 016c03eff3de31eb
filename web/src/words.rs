//! What the explorer says, in one place: to reword it, or to say it in another language, nothing else has to be touched.

pub mod network;
pub mod statistics;
pub mod tokens;
pub mod validators;

/// The product.
pub const NAME: &str = "Corniche";
/// Of the window.
pub const EXPLORER: &str = "Corniche explorer";

/// In the navigation, with their pages in the same order.
pub mod nav {
    /// Newest blocks.
    pub const BLOCKS: &str = "Blocks";
    /// Newest transactions.
    pub const TRANSACTIONS: &str = "Transactions";
    /// Tokens.
    pub const TOKENS: &str = "Tokens";
    /// The committee.
    pub const VALIDATORS: &str = "Validators";
    /// The ordering.
    pub const DAG: &str = "Ordering";
    /// Daily numbers.
    pub const STATISTICS: &str = "Statistics";
    /// Peers.
    pub const NETWORK: &str = "Network";
    /// For programs.
    pub const API: &str = "API";
    /// Skips the navigation.
    pub const SKIP: &str = "Skip to content";
    /// The label of the search field, and what stands in it.
    pub const SEARCH: &str = "Search";
    /// What may be searched for.
    pub const SEARCH_HINT: &str = "Hash, block, address, token or method";
    /// Switches the colours.
    pub const THEME: &str = "Dark or light";
    /// Switches the unit of amounts.
    pub const UNIT: &str = "Unit of amounts";
}

/// The four words of a transaction, and how it may end otherwise; the same as in RPC and logs.
pub mod status {
    /// Waits in a pool.
    pub const PENDING: &str = "pending";
    /// Has its place.
    pub const ORDERED: &str = "ordered";
    /// Is in a block.
    pub const EXECUTED: &str = "executed";
    /// Signed by a quorum.
    pub const CERTIFIED: &str = "certified";
    /// Left the pool.
    pub const DROPPED: &str = "dropped";
    /// Another one took its place.
    pub const REPLACED: &str = "replaced";
    /// Executed, and took nothing back but its fee.
    pub const SUCCEEDED: &str = "succeeded";
    /// Executed, and undone but for its fee.
    pub const REVERTED: &str = "reverted";
}

/// Of the home page.
pub mod home {
    /// Heading.
    pub const TITLE: &str = "What the network is doing";
    /// The newest block.
    pub const NEWEST: &str = "Newest block";
    /// The newest certified one.
    pub const CERTIFIED: &str = "Certified";
    /// In the last minute.
    pub const THROUGHPUT: &str = "Transactions per second";
    /// Explains it.
    pub const THROUGHPUT_NOTE: &str = "over the last minute of blocks";
    /// From order to certificate.
    pub const LATENCY: &str = "Order to certificate";
    /// Explains it.
    pub const LATENCY_NOTE: &str = "median of the last 100 blocks seen here";
    /// In all.
    pub const TOTAL: &str = "Transactions in all";
    /// In all.
    pub const ACCOUNTS: &str = "Accounts";
    /// The list.
    pub const LATEST_BLOCKS: &str = "Latest blocks";
    /// The list.
    pub const LATEST_TRANSACTIONS: &str = "Latest transactions";
    /// The charts.
    pub const CHART_TRANSACTIONS: &str = "Transactions in each of the last blocks";
    /// The charts.
    pub const CHART_LATENCY: &str = "Milliseconds from order to certificate";
    /// Who signs.
    pub const HEALTH: &str = "Validators";
    /// Nothing yet.
    pub const EMPTY: &str = "No blocks yet. The first transaction makes one.";
}

/// Of blocks.
pub mod block {
    /// Before the number.
    pub const TITLE: &str = "Block";
    /// Parts of the page.
    pub const OVERVIEW: &str = "Overview";
    /// Parts of the page.
    pub const ORDERING: &str = "Ordering";
    /// What it means.
    pub const ORDERING_NOTE: &str =
        "Validators proposed batches; the engine agreed on one order for them, and the block is the next piece of that order.";
    /// Parts of the page.
    pub const CERTIFICATE: &str = "Certificate";
    /// What it means.
    pub const CERTIFICATE_NOTE: &str = "A quorum signed this block or a later one: nobody can take it back.";
    /// None yet.
    pub const NO_CERTIFICATE: &str = "Not certified yet: it is executed, and waits for the signatures of a quorum.";
    /// Parts of the page.
    pub const TRANSACTIONS: &str = "Transactions";
    /// Parts of the page.
    pub const SKIPPED: &str = "Ordered and not executed";
    /// What it means.
    pub const SKIPPED_NOTE: &str =
        "Ordered is not valid: every node checks again, and what fails the check costs nothing and leaves no receipt.";
    /// Rows.
    pub const HASH: &str = "Hash";
    /// Rows.
    pub const PARENT: &str = "Parent";
    /// Rows.
    pub const TIME: &str = "Time agreed on";
    /// Rows.
    pub const STATUS: &str = "Status";
    /// Rows.
    pub const GAS: &str = "Gas used";
    /// Rows.
    pub const BASE_FEE: &str = "Base fee";
    /// Rows.
    pub const SIZE: &str = "Size";
    /// Rows.
    pub const STATE_ROOT: &str = "State root";
    /// Rows.
    pub const RANDOMNESS: &str = "Randomness";
    /// Rows.
    pub const RECORD: &str = "Hash of the ordering record";
    /// Rows.
    pub const LEADER: &str = "Leader";
    /// Rows.
    pub const FEE_ADDRESS: &str = "Leader's fee address";
    /// Rows.
    pub const COMMITS: &str = "Commits";
    /// Rows.
    pub const BATCHES: &str = "Batches";
    /// Columns.
    pub const AUTHOR: &str = "Proposed by";
    /// Columns.
    pub const DIGEST: &str = "Batch";
    /// Columns.
    pub const RANGE: &str = "Transactions of it";
    /// Columns.
    pub const REASON: &str = "Reason";
    /// Rows.
    pub const SIGNERS: &str = "Signed by";
    /// Rows.
    pub const MISSED: &str = "Not among the signers";
    /// Rows.
    pub const COVERS: &str = "Certificate of block";
    /// Rows.
    pub const SIGNATURE: &str = "Aggregate signature";
    /// The genesis block.
    pub const GENESIS: &str = "The first block was not ordered by anybody: it is what the network began with.";
    /// Neighbours.
    pub const EARLIER: &str = "Earlier block";
    /// Neighbours.
    pub const LATER: &str = "Later block";
}

/// Of transactions.
pub mod transaction {
    /// Heading.
    pub const TITLE: &str = "Transaction";
    /// Columns and rows.
    pub const HASH: &str = "Hash";
    /// Columns and rows.
    pub const BLOCK: &str = "Block";
    /// Columns and rows.
    pub const FROM: &str = "From";
    /// Columns and rows.
    pub const TO: &str = "To";
    /// Columns and rows.
    pub const VALUE: &str = "Value";
    /// Columns and rows.
    pub const METHOD: &str = "Method";
    /// Columns and rows.
    pub const FEE: &str = "Fee";
    /// Columns and rows.
    pub const AGE: &str = "When";
    /// Rows.
    pub const STATUS: &str = "Status";
    /// Rows.
    pub const RESULT: &str = "Result";
    /// Rows.
    pub const AUTHOR: &str = "Proposed by";
    /// Rows.
    pub const NONCE: &str = "Nonce";
    /// Rows.
    pub const KIND: &str = "Type";
    /// Rows.
    pub const GAS: &str = "Gas";
    /// Rows.
    pub const GAS_PRICE: &str = "Price of gas";
    /// Rows.
    pub const INPUT: &str = "Input";
    /// Rows.
    pub const CREATED: &str = "Contract made";
    /// For a creation, in place of the recipient.
    pub const CREATION: &str = "makes a contract";
    /// Without input.
    pub const TRANSFER: &str = "transfer";
    /// Parts of the page.
    pub const LOGS: &str = "Logs";
    /// Parts of the page.
    pub const CALLS: &str = "Calls";
    /// Parts of the page.
    pub const TRANSFERS: &str = "Tokens moved";
    /// Parts of the page.
    pub const RAW: &str = "Raw";
    /// None.
    pub const NO_TRANSACTIONS: &str = "No transactions.";
    /// Times on the way.
    pub const TIMELINE: &str = "On its way";
    /// Of the timeline.
    pub const RECEIVED: &str = "received";
}

/// Of accounts.
pub mod account {
    /// Heading.
    pub const TITLE: &str = "Account";
    /// Heading of one with code.
    pub const CONTRACT: &str = "Contract";
    /// Rows.
    pub const BALANCE: &str = "Balance";
    /// Rows.
    pub const NONCE: &str = "Nonce";
    /// Rows.
    pub const TRANSACTIONS: &str = "Transactions";
    /// Rows.
    pub const MADE_BY: &str = "Made by";
    /// Rows.
    pub const FIRST_SEEN: &str = "First seen in block";
    /// The node did not answer.
    pub const UNKNOWN: &str = "the node does not answer";
}

/// Of lists.
pub mod list {
    /// Further down.
    pub const OLDER: &str = "Older";
    /// Back up.
    pub const NEWEST: &str = "Newest";
    /// Back up, in lists that are not by time.
    pub const FIRST: &str = "First page";
    /// Further down in them.
    pub const FURTHER: &str = "Next page";
    /// Nothing in it.
    pub const EMPTY: &str = "Nothing here.";
    /// Copies a value.
    pub const COPY: &str = "Copy";
    /// A place in a list that cannot be read.
    pub const BAD_CURSOR: &str = "This address names no place in the list: begin with its first page.";
}

/// Of failures.
pub mod failure {
    /// Heading.
    pub const NOT_FOUND: &str = "Not found";
    /// What to do.
    pub const NOT_FOUND_HINT: &str = "Search for a hash, a block's number, an address, a token or a method's name.";
    /// Heading.
    pub const BUSY: &str = "Too many requests";
    /// What to do.
    pub const BUSY_HINT: &str = "This address asked for more than its share. Wait a few seconds and load the page again.";
    /// Heading.
    pub const BROKEN: &str = "This did not work";
    /// What to do.
    pub const BROKEN_HINT: &str = "It is this explorer's fault, and its log says more. Load the page again in a moment.";
    /// Heading.
    pub const HALTED: &str = "This explorer stopped";
    /// What it cannot read.
    pub const BAD_REQUEST: &str = "That address is not right";
    /// Above every page while the node does not answer.
    pub const WAITS: &str = "The node does not answer. What is shown is what was known before.";
    /// Above every page while it catches up.
    pub const BEHIND: &str = "Catching up with the node:";
}
