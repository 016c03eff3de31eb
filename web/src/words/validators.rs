//! Texts about validators and their recent signatures.

/// Heading and column.
pub const VALIDATOR: &str = "Validator";
/// Section heading.
pub const RECORD: &str = "Record of the last 30 days";
/// Section heading.
pub const KEYS: &str = "Keys";
/// Explains [`KEYS`].
pub const KEYS_NOTE: &str = "The consensus key (ed25519) signs messages of the ordering, the BLS key (BLS12-381) signs what came of it, and the \
                             network key (ed25519) is who answers at its address.";
/// Explains [`WEIGHT`].
pub const WEIGHT_NOTE: &str = "Every validator has weight 1: one key, one vote. There is no stake.";
/// Explains [`UPTIME`].
pub const UPTIME_NOTE: &str = "Uptime is the share of certificates that carry a validator's signature, in days of the chain's time (UTC). A \
                               certificate is closed as soon as a quorum signed, so a validator that is up and slower than the others is \
                               missing in some: with four validators and a quorum of three the mean is 75 %.";
/// Explains [`HEALTH`].
pub const HEALTH_NOTE: &str = "Each square is one of the last 20 certificates, the newest at the right: full where the \
     validator's signature is in it, flat where it is missing. A certificate is closed as soon as a quorum signed, so \
     signatures that come later are missing in it.";
/// Note while the committee is unknown.
pub const NO_COMMITTEE: &str = "The node did not say yet who its validators are.";
/// Column header and chart caption.
pub const LED: &str = "Blocks led";
/// Column header.
pub const BATCHES: &str = "Batches";
/// Column header.
pub const TRANSACTIONS: &str = "Transactions";
/// Column header.
pub const SIGNED: &str = "Signed";
/// Column header and chart caption.
pub const MISSED: &str = "Signatures missed";
/// Column header.
pub const UPTIME: &str = "Uptime";
/// Column header.
pub const TODAY: &str = "Uptime today";
/// Column header.
pub const WEEK: &str = "7 days";
/// Column header.
pub const MONTH: &str = "30 days";
/// Column header and row label.
pub const HEALTH: &str = "Last 20 certificates";
/// Section heading.
pub const SIGNATURES: &str = "Signatures";
/// Column header.
pub const DAY: &str = "Day (UTC)";
/// Column header and row label.
pub const FEE_ADDRESS: &str = "Fee address";
/// Column header and row label.
pub const CONSENSUS_KEY: &str = "Consensus key";
/// Row label.
pub const BLS_KEY: &str = "BLS key";
/// Column header and row label.
pub const NETWORK_KEY: &str = "Network key";
/// Column header and row label.
pub const WEIGHT: &str = "Weight";
/// Section heading.
pub const BLOCKS_LED: &str = "Newest blocks it led";
/// Error: invalid position in the committee.
pub const BAD_INDEX: &str = "A validator is named by its position in the committee, a number counted from 0.";

/// Number of validators, engine, quorum, and number of validators that may be missing from a certificate.
pub fn committee(all: &str, engine: &str, quorum: &str, spare: &str) -> String {
    format!(
        "{all} validators order transactions with {engine} and sign what came of them. {quorum} signatures make a certificate, so it may do \
         without {spare} of them."
    )
}

/// Error: no validator has this position.
pub fn missing(index: u64, all: usize) -> String {
    format!("There is no validator {index}: the committee has {all}, counted from 0.")
}

/// Texts about a validator's strip of squares.
pub mod strip {
    /// Text between two counts.
    pub const OF: &str = "of";
    /// Text before the block numbers.
    pub const MISSED: &str = "missing in";
    /// Note for a chain without certificates.
    pub const NONE_YET: &str = "no certificate yet";
    /// Tag of a validator that signed at least one of the newest certificates.
    pub const SIGNS: &str = "signs";
    /// Tag of a validator that signed none of them.
    pub const SILENT: &str = "silent";
    /// Link to all validators.
    pub const MORE: &str = "All validators";
}
