//! Of the node and its chain.

/// Parts of the page.
pub const NODE: &str = "This node";
/// What it is.
pub const NODE_NOTE: &str = "The node that this explorer follows. Everything here is what that node says.";
/// Parts of the page.
pub const CHAIN: &str = "The chain";
/// Parts of the page.
pub const EXECUTION: &str = "What its execution did";
/// The node did not answer.
pub const SILENT: &str = "the node does not answer";
/// Rows.
pub const VERSION: &str = "Client";
/// Rows.
pub const PEERS: &str = "Peers";
/// Rows.
pub const SYNCING: &str = "State";
/// Rows.
pub const EXECUTED: &str = "Newest executed block";
/// Rows.
pub const CERTIFIED: &str = "Newest certified block";
/// Rows.
pub const INDEXED: &str = "Newest block written here";
/// Rows.
pub const TRACED: &str = "Newest block whose inner calls are written here";
/// None of them.
pub const NOT_TRACED: &str = "none: the node serves no traces, or this explorer does not ask for them";
/// Of the state.
pub const IN_STEP: &str = "in step with the network";
/// Of the state, before two numbers.
pub const CATCHING_UP: &str = "catching up: block";
/// Rows.
pub const CHAIN_ID: &str = "Chain id";
/// Rows.
pub const GENESIS: &str = "Hash of the first block";
/// Rows.
pub const CURRENCY: &str = "Currency";
/// Rows.
pub const ENGINE: &str = "Ordered by";
/// Rows.
pub const VALIDATORS: &str = "Validators";
/// Rows.
pub const QUORUM: &str = "Quorum";
/// Rows.
pub const EPOCH: &str = "Epoch";
/// Rows.
pub const COMMITTEE: &str = "Hash of the committee";
/// Rows.
pub const LATENCY: &str = "Order to certificate, seen here";
/// None yet.
pub const NO_LATENCY: &str = "no block was certified while this explorer looked";
/// A chain for development.
pub const DEVELOPMENT: &str =
    "A chain for development: one node orders and signs for itself, and it goes back when it is told to.";
/// What they are.
pub const PEERS_NOTE: &str = "The nodes that this node is connected with. A version is what a node calls itself; nobody \
     checks it. A round trip is that of the last ping, one every 20 seconds.";
/// Columns.
pub const PEER: &str = "Peer";
/// Columns.
pub const SOFTWARE: &str = "Version";
/// Columns.
pub const ROUND_TRIP: &str = "Round trip";
/// Columns.
pub const SINCE: &str = "Connected since";
/// Of the node itself.
pub const OWN: &str = "this node";
/// Of a peer that has not said its version.
pub const NOT_SAID: &str = "not said yet";
/// Of a link without a ping so far.
pub const NOT_MEASURED: &str = "not measured yet";
/// Before the id of a peer that is no validator.
pub const FULL_NODE: &str = "full node";
/// Of a node that never answered.
pub const UNNAMED: &str = "a node that has not answered yet";
/// Of two validators.
pub const NO_LINK: &str = "no link";
/// Heading.
pub const MATRIX: &str = "Latency between validators";
/// What it is.
pub const MATRIX_NOTE: &str = "How long a ping from the node of a row to the validator of a column and back took, in milliseconds, as the node of \
                               the row says.";
/// Above the rows' names.
pub const FROM: &str = "From";
/// Before the shades.
pub const SHADES: &str = "Shades:";
/// The node was not asked yet.
pub const NO_COMMITTEE: &str = "The node did not say yet who its validators are.";
/// Above the sentences.
pub const SINCE_START: &str = "Since the node started:";

/// A validator as rows and columns name it.
pub fn validator(index: u64) -> String {
    format!("validator {index}")
}

/// The shade below a bound.
pub fn below(ms: u64) -> String {
    format!("under {ms} ms")
}

/// The last shade.
pub fn from(ms: u64) -> String {
    format!("{ms} ms and more")
}

/// Rows that are left out.
pub fn of_all(shown: usize, all: usize) -> String {
    format!("{shown} of {all} are shown: /api/v1/peers has them all.")
}

/// Validators whose nodes are asked.
pub fn missing_rows(asked: usize, all: usize) -> String {
    format!(
        "A node knows its own links only, and the nodes of {asked} of {all} validators are asked: corniche explorer --also-ask URL asks \
         further ones."
    )
}

/// A quorum in numbers.
pub fn quorum(quorum: &str, all: &str) -> String {
    format!("{quorum} of {all} signatures")
}

/// Times for half of so many blocks, and for nine of ten.
pub fn latency(half: &str, most: &str, blocks: usize) -> String {
    format!("{half} for half of the last {blocks} certified blocks, at most {most} for nine of ten")
}

/// What became of transactions.
pub fn transactions(executed: &str, skipped: &str, refused: &str, waiting: &str) -> String {
    format!(
        "{executed} transactions were executed in blocks, {skipped} were ordered and skipped, and {refused} were refused before that. \
         {waiting} wait in the pool now."
    )
}

/// Early results adopted, and their share of the executed.
pub fn adopted(adopted: &str, share: &str) -> String {
    format!(
        "{adopted} of the executed ({share}) had their result ready when their order came: they had been run early, and what they had read \
         still held."
    )
}

/// Runs after ordering, and those of them that were repeated.
pub fn runs(runs: &str, again: &str, share: &str) -> String {
    format!(
        "{runs} runs were made after ordering. {again} of them ({share}) ran a transaction again, because one before it in the block had \
         written what it read."
    )
}

/// Runs before ordering.
pub fn early(runs: &str, without: &str, share: &str, passed_over: &str) -> String {
    format!(
        "{runs} runs were made before ordering, of which {without} ({share}) came to no result. {passed_over} transactions were seen and not \
         run early, because their author's share was used up."
    )
}
