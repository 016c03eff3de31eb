//! Texts that several pages share. The texts of one page are in its own module `texts`.
//!
//! Texts for programs are next to the code that returns them. Pages pass the texts to their scripts.

#![allow(missing_docs)] // A text is its own documentation. Comments say what a name and a text do not.

pub mod reference;

pub const LANGUAGE: &str = "en";
pub const NAME: &str = "Corniche";
pub const EXPLORER: &str = "Corniche explorer";

/// Labels of the navigation, in the order of the pages.
pub mod nav {
    pub const BLOCKS: &str = "Blocks";
    pub const TRANSACTIONS: &str = "Transactions";
    pub const TOKENS: &str = "Tokens";
    pub const VALIDATORS: &str = "Validators";
    /// The DAG, or the log of an engine without one.
    pub const DAG: &str = "Ordering";
    pub const STATISTICS: &str = "Statistics";
    pub const NETWORK: &str = "Network";
    pub const API: &str = "API";
    pub const SKIP: &str = "Skip to content";
    pub const SEARCH: &str = "Search";
    pub const SEARCH_HINT: &str = "Address, hash, block, token";
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

/// Texts about lists.
pub mod list {
    pub const OLDER: &str = "Older";
    pub const NEWEST: &str = "Newest";
    pub const FIRST: &str = "First page";
    pub const FURTHER: &str = "Next page";
    pub const EMPTY: &str = "No entries.";
    pub const COPY: &str = "Copy";
    pub const BAD_CURSOR: &str = "Invalid cursor: expected one from a link of this list. Open the first page.";
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

    /// [`committee`] if validators have several votes: the quorum out of all votes.
    pub fn weighted_committee(engine: &str, validators: usize, quorum: u64, votes: u64) -> String {
        format!("{} of {votes} votes", committee(engine, validators, quorum))
    }
}

/// Texts of error pages and of the banners above pages.
pub mod failure {
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
    /// Banner above every page if the node lacks old blocks.
    pub fn pruned_below(first: &str) -> String {
        format!("{} Totals, histories and token balances begin with block {first}.", super::lookup::pruned_below(first))
    }
    pub const BAD_REQUEST: &str = "Invalid request";
    pub const WAITS: &str = "Node unavailable. The pages show the data that is already indexed.";
    pub const WAITS_HINT: &str = "The log of the explorer has the reason.";
    pub const BEHIND: &str = "Syncing with the node:";

    /// Ends the error of an unknown API path; the path of the API's reference precedes it.
    pub const LISTS_ENDPOINTS: &str = "lists the endpoints.";

    /// Error: no page has this path.
    pub fn no_page(path: &str) -> String {
        format!("Page not found: {path}.")
    }
}

/// Name of a validator, by its index in the committee.
pub fn validator(index: u64) -> String {
    format!("validator {index}")
}

/// Command that compares a source with the code of a contract.
pub fn verify_command(address: impl std::fmt::Display) -> String {
    format!("corniche contract verify {address}")
}

/// Names of a validator's keys.
pub mod keys {
    pub const CONSENSUS_KEY: &str = "Consensus key";
    pub const BLS_KEY: &str = "BLS key";
    pub const NETWORK_KEY: &str = "Network key";
}

/// Labels of an account's state.
pub mod account {
    pub const BALANCE: &str = "Balance";
    pub const NONCE: &str = "Nonce";
    pub const SHARD: &str = "Shard";
}

/// Errors of lookups that pages and the API share.
pub mod lookup {
    use std::fmt::Display;

    /// The index begins with this block.
    pub fn pruned_below(first: &str) -> String {
        format!("Blocks below {first} are not available on this node.")
    }

    /// Error: the database does not contain the transaction, and the node does not respond.
    pub fn transaction_unknown(hash: impl Display, newest: &str) -> String {
        format!(
            "Transaction {hash} is not in the indexed blocks, up to {newest}. It may be pending or in a newer block, but the node is \
             unavailable."
        )
    }

    /// Error: neither the database nor the node knows the transaction.
    pub fn no_transaction(hash: impl Display, newest: &str) -> String {
        format!("Transaction {hash} not found: neither in the indexed blocks, up to {newest}, nor in the node's pool.")
    }

    /// Error: the round is outside of the stored range.
    pub fn no_round(round: &str, oldest: &str, newest: &str) -> String {
        format!("Round {round} not found: rounds {oldest} to {newest} are stored.")
    }

    /// [`no_round`] if the engine orders slots.
    pub fn no_slot(slot: &str, oldest: &str, newest: &str) -> String {
        format!("Slot {slot} not found: slots {oldest} to {newest} are stored.")
    }

    /// Error: all requested rounds are outside of the stored range.
    pub fn no_rounds(oldest: &str, newest: &str) -> String {
        format!("Rounds not found: rounds {oldest} to {newest} are stored.")
    }
}

#[cfg(test)]
mod tests;
