//! Of validators and their health.

/// Heading and column.
pub const VALIDATOR: &str = "Validator";
/// Parts of the page.
pub const RECORD: &str = "Record of the last 30 days";
/// Parts of the page.
pub const KEYS: &str = "Keys";
/// What they are.
pub const KEYS_NOTE: &str = "The consensus key (ed25519) signs messages of the ordering, the BLS key (BLS12-381) signs what came of it, and the \
                             network key (ed25519) is who answers at its address.";
/// Stake.
pub const WEIGHT_NOTE: &str = "Every validator has weight 1: one key, one vote. There is no stake.";
/// What uptime is and is not.
pub const UPTIME_NOTE: &str = "Uptime is the share of certificates that carry a validator's signature, in days of the chain's time (UTC). A \
                               certificate is closed as soon as a quorum signed, so a validator that is up and slower than the others is \
                               missing in some: with four validators and a quorum of three the mean is 75 %.";
/// What the squares are.
pub const HEALTH_NOTE: &str = "Each square is one of the last 20 certificates, the newest at the right: full where the \
     validator's signature is in it, flat where it is missing. A certificate is closed as soon as a quorum signed, so \
     signatures that come later are missing in it.";
/// The node was not asked yet.
pub const NO_COMMITTEE: &str = "The node did not say yet who its validators are.";
/// Columns and charts.
pub const LED: &str = "Blocks led";
/// Columns.
pub const BATCHES: &str = "Batches";
/// Columns.
pub const TRANSACTIONS: &str = "Transactions";
/// Columns.
pub const SIGNED: &str = "Signed";
/// Columns and charts.
pub const MISSED: &str = "Signatures missed";
/// Columns.
pub const UPTIME: &str = "Uptime";
/// Columns.
pub const TODAY: &str = "Uptime today";
/// Columns.
pub const WEEK: &str = "7 days";
/// Columns.
pub const MONTH: &str = "30 days";
/// Columns and rows.
pub const HEALTH: &str = "Last 20 certificates";
/// Parts of the page.
pub const SIGNATURES: &str = "Signatures";
/// Columns.
pub const DAY: &str = "Day (UTC)";
/// Columns and rows.
pub const FEE_ADDRESS: &str = "Fee address";
/// Columns and rows.
pub const CONSENSUS_KEY: &str = "Consensus key";
/// Rows.
pub const BLS_KEY: &str = "BLS key";
/// Columns and rows.
pub const NETWORK_KEY: &str = "Network key";
/// Columns and rows.
pub const WEIGHT: &str = "Weight";
/// Parts of the page.
pub const BLOCKS_LED: &str = "Newest blocks it led";
/// What cannot be read.
pub const BAD_INDEX: &str = "A validator is named by its position in the committee, a number counted from 0.";

/// Who they are: how many validators, their engine, how many make a certificate, and how many may be missing.
pub fn committee(all: &str, engine: &str, quorum: &str, spare: &str) -> String {
    format!(
        "{all} validators order transactions with {engine} and sign what came of them. {quorum} signatures make a certificate, so it may do \
         without {spare} of them."
    )
}

/// There is none at this position.
pub fn missing(index: u64, all: usize) -> String {
    format!("There is no validator {index}: the committee has {all}, counted from 0.")
}

/// Under a strip of squares.
pub mod strip {
    /// Between two counts.
    pub const OF: &str = "of";
    /// Before blocks.
    pub const MISSED: &str = "missing in";
    /// Without a certificate.
    pub const NONE_YET: &str = "no certificate yet";
    /// In some of them.
    pub const SIGNS: &str = "signs";
    /// In none of them.
    pub const SILENT: &str = "silent";
    /// The way to the others.
    pub const MORE: &str = "All validators";
}
