//! Texts about validators and their recent signatures.

pub const VALIDATOR: &str = "Validator";
pub const RECORD: &str = "Last 30 days";
pub const KEYS: &str = "Keys";
pub const KEYS_NOTE: &str = "Consensus key (ed25519): signs consensus messages. BLS key (BLS12-381): signs certificates of blocks. Network \
     key (ed25519): identifies the node to its peers.";
pub const WEIGHT_NOTE: &str = "Every validator has one vote. There is no stake.";
pub const SEVERAL_VOTES_NOTE: &str = "The genesis gives each validator its votes. There is no stake.";
pub const UPTIME_NOTE: &str = "Uptime is the share of certificates with the signature of the validator, per day of chain time (UTC). A \
     certificate closes at a quorum, so it misses the slowest validators: with four validators of one vote each and a \
     quorum of three the average is 75 %.";
pub const HEALTH_NOTE: &str = "One square for each of the last 20 certificates, the newest at the right: high if the validator signed, low if \
     not. A certificate closes at a quorum, so it misses later signatures.";
pub const TRUST_POINT: &str = "Trust point";
pub const TRUST_POINT_NOTE: &str = "The last block of the epoch before this one. A light client or a new node that trusts this explorer can begin there \
     instead of the genesis. Compare it with a second source.";
pub const NO_COMMITTEE: &str = "Validators unknown: the node has not responded yet.";
pub const LED: &str = "Blocks led";
pub const BATCHES: &str = "Batches";
pub const TRANSACTIONS: &str = "Transactions";
pub const SIGNED: &str = "Signed";
pub const MISSED: &str = "Missed";
pub const TODAY: &str = "Uptime today";
pub const WEEK: &str = "Uptime 7 days";
pub const MONTH: &str = "Uptime 30 days";
pub const HEALTH: &str = "Last 20 certificates";
pub const FEE_ADDRESS: &str = "Fee recipient";
pub const WEIGHT: &str = "Votes";

/// Faults of validators that the engine tolerates.
pub fn tolerates(faults: &str) -> String {
    format!("Tolerated: {faults}.")
}

/// Number of validators, engine, quorum, and number of validators that may be missing from a certificate.
pub fn committee(all: &str, engine: &str, quorum: &str, spare: &str) -> String {
    format!(
        "{all} validators order transactions with {engine} and sign the resulting blocks. A certificate needs {quorum} signatures, \
         so {spare} of the validators may be offline."
    )
}

/// [`committee`] if validators have several votes: all votes, the votes in a quorum, and the votes that may be missing from a
/// certificate.
pub fn weighted_committee(all: &str, votes: &str, engine: &str, quorum: &str, spare: &str) -> String {
    format!(
        "{all} validators with {votes} votes order transactions with {engine} and sign the resulting blocks. A certificate needs \
         {quorum} of the votes, so validators with {spare} of the votes may be offline."
    )
}
