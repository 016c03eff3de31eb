//! What the explorer says, in one place: to reword it, or to say it in another language, nothing else has to be touched. What is left out is what
//! programs are told, which stands where they are answered ([`crate::api`]). Scripts get their words from their pages.

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

/// The language of it all, for browsers.
pub const LANGUAGE: &str = "en";
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
        of_executed(Some(number) <= certified)
    }

    /// Of what is executed.
    pub fn of_executed(is_certified: bool) -> &'static str {
        if is_certified { CERTIFIED } else { EXECUTED }
    }
}

/// Of amounts of the chain's currency.
pub mod unit {
    /// 10^18 wei, before a node said what it is called.
    pub const COIN: &str = "CRN";
    /// 10^9 wei.
    pub const GWEI: &str = "gwei";
    /// The smallest.
    pub const WEI: &str = "wei";

    /// An amount of gwei.
    pub fn gwei(amount: &str) -> String {
        format!("{amount} {GWEI}")
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
    pub const NO_CERTIFICATE: &str = "No certificate is here yet: the block is executed, and either a quorum has not signed \
         it yet, or this explorer has not read the certificate yet.";
    /// Parts of the page.
    pub const TRANSACTIONS: &str = "Transactions";
    /// Parts of the page.
    pub const SKIPPED: &str = "Ordered and not executed";
    /// What it means.
    pub const SKIPPED_NOTE: &str = "A transaction that has its place in the order may still be invalid: every node checks it \
         again before it runs. One that fails the check costs nothing and has no receipt.";
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
    /// After the time that its certificate took.
    pub const AFTER_ORDER: &str = "after its order, seen here";
    /// Between the first and the last.
    pub const TO: &str = "to";
    /// What cannot be read.
    pub const BAD_NAME: &str = "A block is named by its number or by its hash of 32 bytes, 0x and 64 digits.";

    /// Transactions of a batch, from its how-manieth on.
    pub fn range(count: &str, first: &str) -> String {
        format!("{count} from {first}")
    }

    /// There is none of this name.
    pub fn missing(block: &str, newest: &str) -> String {
        format!("There is no block {block:.80} here. The newest one is {newest}.")
    }
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
    /// The same.
    pub const BAD_PLACE: &str = "The place where this list goes on cannot be read.";
    /// Names the way through pages.
    pub const PAGES: &str = "Pages";
    /// Names the way between parts of a page.
    pub const PARTS: &str = "Parts";

    /// A part of a whole.
    pub fn of(part: &str, whole: &str) -> String {
        format!("{part} of {whole}")
    }

    /// Bytes that are cut.
    pub fn first_of(shown: &str, all: &str) -> String {
        format!("The first {shown} of {all}.")
    }
}

/// At the foot of every page.
pub mod foot {
    /// Before its number.
    pub const CHAIN_ID: &str = "chain id";
    /// Before the newest one's number.
    pub const BLOCK: &str = "block";

    /// Who orders and signs.
    pub fn committee(engine: &str, validators: usize, quorum: u64) -> String {
        format!("{engine}, {validators} validators, quorum {quorum}")
    }
}

/// Of failures.
pub mod failure {
    use std::fmt::Display;

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
    pub const AWAY: &str = "The node cannot be asked";
    /// What is the matter.
    pub const NO_ANSWER: &str = "Only the node that this explorer follows knows this, and it does not answer.";
    /// What to do.
    pub const AWAY_HINT: &str = "Pages of what this explorer has read before still work. Load this one again in a moment.";
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

    /// Why it stopped: a bug of ours.
    pub const FAULT: &str =
        "the part that reads the chain ended by a fault of its own, which its log describes: start the explorer again";

    /// Why it stopped: the database was filled from another chain.
    pub fn another_chain(known: &str, found: &str) -> String {
        format!(
            "the database is of chain {known}, the node is on chain {found} (chain id and hash of the first block). A node that was wiped and \
             began with another genesis is another chain: give the explorer an empty database, or the node that it had"
        )
    }

    /// Why it stopped: the node has other blocks than those that are written.
    pub fn contradiction(number: impl Display) -> String {
        format!(
            "the node has another block {number} than the one that is written here, and this chain does not go back: one of the two is not \
             what the network agreed on. Compare the block with another node's, and give the explorer an empty database if its own is wrong"
        )
    }

    /// Nothing is at this address.
    pub fn no_page(path: &str) -> String {
        format!("There is no page at {path}.")
    }
}

#[cfg(test)]
mod tests;
