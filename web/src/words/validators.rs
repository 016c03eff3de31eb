//! Texts about validators and their recent signatures.

/// Heading and column.
pub const VALIDATOR: &str = "Validator";
/// Section heading.
pub const RECORD: &str = "Last 30 days";
/// Section heading.
pub const KEYS: &str = "Keys";
/// Explains [`KEYS`].
pub const KEYS_NOTE: &str = "Consensus key (ed25519): signs consensus messages. BLS key (BLS12-381): signs certificates of blocks. Network \
     key (ed25519): identifies the node to its peers.";
/// Explains [`WEIGHT`].
pub const WEIGHT_NOTE: &str = "Every validator has one vote. There is no stake.";
/// Explains [`UPTIME`].
pub const UPTIME_NOTE: &str = "Uptime is the share of certificates with the signature of the validator, per day of chain time (UTC). A \
     certificate closes at a quorum, so it misses the slowest validators: with four validators and a quorum of three \
     the average is 75 %.";
/// Explains [`HEALTH`].
pub const HEALTH_NOTE: &str = "One square for each of the last 20 certificates, the newest at the right: high if the validator signed, low if \
     not. A certificate closes at a quorum, so it misses later signatures.";
/// Note while the committee is unknown.
pub const NO_COMMITTEE: &str = "Validators unknown: the node has not responded yet.";
/// Column header and chart caption.
pub const LED: &str = "Blocks led";
/// Column header.
pub const BATCHES: &str = "Batches";
/// Column header.
pub const TRANSACTIONS: &str = "Transactions";
/// Column header.
pub const SIGNED: &str = "Signed";
/// Column header and chart caption.
pub const MISSED: &str = "Missed";
/// Column header.
pub const UPTIME: &str = "Uptime";
/// Column header.
pub const TODAY: &str = "Uptime today";
/// Column header.
pub const WEEK: &str = "Uptime 7 days";
/// Column header.
pub const MONTH: &str = "Uptime 30 days";
/// Column header and row label.
pub const HEALTH: &str = "Last 20 certificates";
/// Section heading.
pub const SIGNATURES: &str = "Signatures";
/// Column header.
pub const DAY: &str = "Day (UTC)";
/// Column header and row label.
pub const FEE_ADDRESS: &str = "Fee recipient";
/// Column header and row label.
pub const CONSENSUS_KEY: &str = "Consensus key";
/// Row label.
pub const BLS_KEY: &str = "BLS key";
/// Column header and row label.
pub const NETWORK_KEY: &str = "Network key";
/// Column header and row label.
pub const WEIGHT: &str = "Votes";
/// Section heading.
pub const BLOCKS_LED: &str = "Latest blocks led";
/// Error: invalid position in the committee.
pub const BAD_INDEX: &str = "Invalid validator: expected its index in the committee, counted from 0.";

/// Number of validators, engine, quorum, and number of validators that may be missing from a certificate.
pub fn committee(all: &str, engine: &str, quorum: &str, spare: &str) -> String {
    format!(
        "{all} validators order transactions with {engine} and sign the resulting blocks. A certificate needs {quorum} signatures, \
         so {spare} of the validators may be offline."
    )
}

/// Error: no validator has this position.
pub fn missing(index: u64, all: usize) -> String {
    format!("Validator {index} not found: the committee has {all} validators, counted from 0.")
}

/// Texts about a validator's strip of squares.
pub mod strip {
    /// Text between two counts.
    pub const OF: &str = "of";
    /// Text before the block numbers.
    pub const MISSED: &str = "missed";
    /// Note for a chain without certificates.
    pub const NONE_YET: &str = "no certificates yet";
    /// Tag of a validator that signed at least one of the newest certificates.
    pub const SIGNS: &str = "signing";
    /// Tag of a validator that signed none of them.
    pub const SILENT: &str = "not signing";
    /// Link to all validators.
    pub const MORE: &str = "All validators";
}
