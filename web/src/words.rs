//! What the explorer says, in one place: to reword it, or to say it in another language, nothing else has to be touched.

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

    /// Of a block that is executed, and of what is in it, where certificates cover all blocks up to `certified`.
    pub fn of_block(number: u64, certified: Option<u64>) -> &'static str {
        if Some(number) <= certified { CERTIFIED } else { EXECUTED }
    }
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
    /// The same in a column.
    pub const AGE: &str = "When";
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
    /// Rows: where the leaders of these commits are.
    pub const ROUNDS: &str = "Rounds of their leaders";
    /// Rows: the same under Autobahn.
    pub const SLOTS: &str = "Slots";
    /// Where a batch is drawn.
    pub const PICTURE: &str = "in the picture";
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
    /// Where its operator finds more.
    pub const WAITS_HINT: &str = "The log of this explorer says why.";
    /// Above every page while it catches up.
    pub const BEHIND: &str = "Catching up with the node:";
}
