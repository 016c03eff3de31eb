//! Texts about the node, its peers and its chain.

/// Section heading.
pub const NODE: &str = "This node";
/// Explains [`NODE`].
pub const NODE_NOTE: &str = "The node that this explorer follows. Everything here is what that node says.";
/// Section heading.
pub const CHAIN: &str = "The chain";
/// Section heading.
pub const EXECUTION: &str = "What its execution did";
/// Replaces a value while the node does not respond.
pub const SILENT: &str = "the node does not answer";
/// Row label.
pub const VERSION: &str = "Client";
/// Row label.
pub const PEERS: &str = "Peers";
/// Row label.
pub const SYNCING: &str = "State";
/// Row label.
pub const EXECUTED: &str = "Newest executed block";
/// Row label.
pub const CERTIFIED: &str = "Newest certified block";
/// Row label.
pub const INDEXED: &str = "Newest block written here";
/// Row label.
pub const TRACED: &str = "Newest block whose inner calls are written here";
/// Value of [`TRACED`] if no block was traced.
pub const NOT_TRACED: &str = "none: the node serves no traces, or this explorer does not ask for them";
/// Value of [`SYNCING`].
pub const IN_STEP: &str = "in step with the network";
/// Value of [`SYNCING`]; the current and the highest block number follow.
pub const CATCHING_UP: &str = "catching up: block";
/// Row label.
pub const CHAIN_ID: &str = "Chain id";
/// Row label.
pub const GENESIS: &str = "Hash of the first block";
/// Row label.
pub const CURRENCY: &str = "Currency";
/// Row label.
pub const ENGINE: &str = "Ordered by";
/// Row label.
pub const VALIDATORS: &str = "Validators";
/// Row label.
pub const QUORUM: &str = "Quorum";
/// Row label.
pub const EPOCH: &str = "Epoch";
/// Row label.
pub const COMMITTEE: &str = "Hash of the committee";
/// Row label.
pub const LATENCY: &str = "Order to certificate, seen here";
/// Value of [`LATENCY`] if no certified block is known.
pub const NO_LATENCY: &str = "no block was certified while this explorer looked";
/// Note for a development chain.
pub const DEVELOPMENT: &str =
    "A chain for development: one node orders and signs for itself, and it goes back when it is told to.";
/// Explains [`PEERS`].
pub const PEERS_NOTE: &str = "The nodes that this node is connected with. A version is what a node calls itself; nobody \
     checks it. A round trip is that of the last ping, one every 20 seconds.";
/// Column header.
pub const PEER: &str = "Peer";
/// Column header.
pub const SOFTWARE: &str = "Version";
/// Column header.
pub const ROUND_TRIP: &str = "Round trip";
/// Column header.
pub const SINCE: &str = "Connected since";
/// Tag of the node itself in the table of peers.
pub const OWN: &str = "this node";
/// Replaces the version of a peer that has not sent it yet.
pub const NOT_SAID: &str = "not said yet";
/// Replaces the round trip of a link without a ping.
pub const NOT_MEASURED: &str = "not measured yet";
/// Label before the id of a peer that is not a validator.
pub const FULL_NODE: &str = "full node";
/// Replaces the name of a node that never responded.
pub const UNNAMED: &str = "a node that has not answered yet";
/// Cell of two validators without a connection.
pub const NO_LINK: &str = "no link";
/// Heading above the latency matrix.
pub const MATRIX: &str = "Latency between validators";
/// Explains [`MATRIX`].
pub const MATRIX_NOTE: &str = "How long a ping from the node of a row to the validator of a column and back took, in milliseconds, as the node of \
                               the row says.";
/// Header above the names of the rows.
pub const FROM: &str = "From";
/// Label before the legend of shades.
pub const SHADES: &str = "Shades:";
/// Note while the committee is unknown.
pub const NO_COMMITTEE: &str = "The node did not say yet who its validators are.";
/// Text above the sentences about execution.
pub const SINCE_START: &str = "Since the node started:";

/// A validator's name in rows and columns.
pub fn validator(index: u64) -> String {
    format!("validator {index}")
}

/// Legend of a shade with an upper bound.
pub fn below(ms: u64) -> String {
    format!("under {ms} ms")
}

/// Legend of the last shade.
pub fn from(ms: u64) -> String {
    format!("{ms} ms and more")
}

/// Note below a table that is cut off.
pub fn of_all(shown: usize, all: usize) -> String {
    format!("{shown} of {all} are shown: /api/v1/peers has them all.")
}

/// Note if the explorer queries the nodes of only some validators.
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

/// Median and 90th percentile of the last `blocks` certified blocks.
pub fn latency(half: &str, most: &str, blocks: usize) -> String {
    format!("{half} for half of the last {blocks} certified blocks, at most {most} for nine of ten")
}

/// Transactions executed, skipped, refused and waiting.
pub fn transactions(executed: &str, skipped: &str, refused: &str, waiting: &str) -> String {
    format!(
        "{executed} transactions were executed in blocks, {skipped} were ordered and skipped, and {refused} were refused before that. \
         {waiting} wait in the pool now."
    )
}

/// Early results that were adopted, and their share of the executed transactions.
pub fn adopted(adopted: &str, share: &str) -> String {
    format!(
        "{adopted} of the executed ({share}) had their result ready when their order came: they had been run early, and what they had read \
         still held."
    )
}

/// Runs after ordering, and the share of repeated runs.
pub fn runs(runs: &str, again: &str, share: &str) -> String {
    format!(
        "{runs} runs were made after ordering. {again} of them ({share}) ran a transaction again, because one before it in the block had \
         written what it read."
    )
}

/// Runs before ordering, the share of them without a result, and transactions that did not run early.
pub fn early(runs: &str, without: &str, share: &str, passed_over: &str) -> String {
    format!(
        "{runs} runs were made before ordering, of which {without} ({share}) came to no result. {passed_over} transactions were seen and not \
         run early, because their author's share was used up."
    )
}
