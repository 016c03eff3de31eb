//! Texts about the node, its peers and its chain.

use corniche_types::SignatureChecks;

pub const NODE: &str = "Node";
pub const NODE_NOTE: &str = "The node of this explorer, as reported by that node.";
pub const CHAIN: &str = "Chain";
pub const EXECUTION: &str = "Execution statistics";
pub const OFFLINE: &str = "node unavailable";
pub const VERSION: &str = "Client";
pub const PEERS: &str = "Peers";
pub const SYNCING: &str = "Sync status";
pub const EXECUTED: &str = "Latest block";
pub const CERTIFIED: &str = "Finalized block (certified)";
pub const INDEXED: &str = "Indexed block";
pub const TRACED: &str = "Indexed block with internal transactions";
pub const NOT_TRACED: &str = "none: the node serves no traces, or the explorer does not request them";
pub const SYNCED: &str = "synced";
/// Value of [`SYNCING`]; the current and the highest block number follow.
pub const CATCHING_UP: &str = "syncing: block";
pub const CHAIN_ID: &str = "Chain ID";
pub const GENESIS: &str = "Genesis hash";
pub const CURRENCY: &str = "Currency";
pub const ENGINE: &str = "Consensus engine";
pub const VALIDATORS: &str = "Validators";
/// Faults of validators that the engine tolerates.
pub const TOLERATES: &str = "Tolerates";
pub const QUORUM: &str = "Quorum";
pub const SIGNATURES: &str = "Signature checks";
pub const EPOCH: &str = "Epoch";
pub const COMMITTEE: &str = "Committee hash";
pub const LATENCY: &str = "Time to finality";
pub const NO_LATENCY: &str = "no block was certified while this explorer was running";
pub const DEVELOPMENT: &str = "Development chain: one node orders and signs, and the chain can be reverted.";
pub const PEERS_NOTE: &str = "Nodes connected to this node. A node reports its own version, which is not verified. Round-trip times are of the \
     last ping; the interval is 20 seconds.";
pub const PEER: &str = "Peer";
pub const SOFTWARE: &str = "Version";
pub const ROUND_TRIP: &str = "Round-trip time";
pub const SINCE: &str = "Connected since";
pub const OWN: &str = "this node";
pub const UNKNOWN: &str = "unknown";
pub const NOT_MEASURED: &str = "no ping yet";
pub const FULL_NODE: &str = "full node";
pub const UNNAMED: &str = "unknown node";
/// Cell of two validators without a connection.
pub const NO_LINK: &str = "not connected";
pub const MATRIX: &str = "Latency between validators";
pub const MATRIX_NOTE: &str =
    "Round-trip time of a ping from the node of a row to the validator of a column, as reported by the node of the row.";
pub const FROM: &str = "From";
pub const SHADES: &str = "Legend:";
pub const NO_COMMITTEE: &str = "Validators unknown: the node has not responded yet.";
pub const SINCE_START: &str = "Since the start of the node:";

/// Legend of a shade with an upper bound.
pub fn below(ms: u64) -> String {
    format!("below {ms} ms")
}

/// Legend of the last shade.
pub fn from(ms: u64) -> String {
    format!("at least {ms} ms")
}

/// Note below a table that is cut off.
pub fn of_all(shown: usize, all: usize, source: &str) -> String {
    format!("{shown} of {all} shown; {source} returns all.")
}

/// Note if the explorer queries the nodes of only some validators.
pub fn missing_rows(asked: usize, all: usize) -> String {
    format!(
        "A node reports its own links only. The explorer queries the nodes of {asked} of {all} validators; add nodes with corniche \
         explorer --also-ask URL."
    )
}

/// Quorum of validators with one vote each.
pub fn quorum(quorum: &str, all: &str) -> String {
    format!("{quorum} of {all} signatures")
}

/// Quorum if validators have several votes.
pub fn quorum_of_votes(quorum: &str, all: &str) -> String {
    format!("{quorum} of {all} votes")
}

/// Validators that check the signature of a transaction.
pub fn signatures(checks: SignatureChecks, is_weighted: bool) -> &'static str {
    match (checks, is_weighted) {
        (SignatureChecks::Everyone, _) => "by every validator",
        (SignatureChecks::Sharded, false) => "by f + 1 validators, which attest the sender to the others",
        (SignatureChecks::Sharded, true) => "by validators with f + 1 votes, which attest the sender to the others",
    }
}

/// Median and 90th percentile of the last `blocks` certified blocks.
pub fn latency(half: &str, most: &str, blocks: usize) -> String {
    format!("median {half}, 90th percentile {most} (last {blocks} certified blocks)")
}

/// Transactions executed, skipped, refused and waiting.
pub fn transactions(executed: &str, skipped: &str, refused: &str, waiting: &str) -> String {
    format!("{executed} transactions executed, {skipped} ordered but skipped, {refused} rejected. {waiting} wait in the pool.")
}

/// Early results that were adopted, and their share of the executed transactions.
pub fn adopted(adopted: &str, share: &str) -> String {
    format!("{adopted} executed transactions ({share}) used a speculative result from before ordering.")
}

/// Runs after ordering, and the share of repeated runs.
pub fn runs(runs: &str, again: &str, share: &str) -> String {
    format!(
        "{runs} executions after ordering. {again} of them ({share}) repeated a transaction, because an earlier transaction of the \
         block wrote a value that it had read."
    )
}

/// Runs before ordering, the share of them without a result, and transactions that did not run early.
pub fn early(runs: &str, without: &str, share: &str, passed_over: &str) -> String {
    format!(
        "{runs} speculative executions before ordering; {without} of them ({share}) had no result. {passed_over} transactions were \
         not executed speculatively, because the budget of their author was used up."
    )
}

/// Epoch and stake.
pub mod staking {
    pub use super::{UNKNOWN, of_all};
    use corniche_api::EpochPhase;

    pub const STAKING: &str = "Staking";
    pub const EPOCH: &str = "Epoch";
    pub const PHASE: &str = "Phase";
    pub const START: &str = "Start";
    pub const BLOCK: &str = "block";
    pub const ANNOUNCEMENTS: &str = "Announcements from";
    pub const FREEZE: &str = "Freeze of the next committee";
    pub const END: &str = "End";
    /// Times of epochs without an end, and their length.
    pub const NEVER: &str = "never: epochs do not end on this chain";
    pub const VOTE_PRICE: &str = "Price of a vote";
    pub const PARAMETERS: &str = "Parameters of the genesis";
    pub const EPOCH_LENGTH: &str = "Epoch length";
    pub const CLOSING: &str = "Freeze before the end";
    pub const LOWEST_PRICE: &str = "Lowest price of a vote";
    pub const MOST_VOTES: &str = "Maximum votes of a validator";
    pub const MAX_VOTES: &str = "Maximum votes of a committee";
    pub const COMMITTEE_SIZE: &str = "Committee size";
    pub const UNBONDING_TIME: &str = "Unbonding";
    pub const SLASH: &str = "Slashing";
    pub const JAIL: &str = "Jail";
    pub const REWARD: &str = "Reward per vote and epoch";
    pub const COIN_AGE: &str = "Maximum age of a coin key";
    pub const SNAPSHOTS: &str = "Interval of snapshots";
    pub const NOTE: &str =
        "Bonded stake counts for votes from the next freeze on. Validators choose their endpoints, which are not verified.";
    pub const ID: &str = "ID";
    pub const OWNER: &str = "Owner";
    pub const BONDED: &str = "Stake";
    pub const QUEUED: &str = "Unbonding";
    /// After the part of the unbonding stake that can be withdrawn.
    pub const FREE: &str = "withdrawable";
    pub const VOTES: &str = "Votes";
    pub const NEXT_VOTES: &str = "Votes in next epoch";
    pub const FEE: &str = "Fee recipient";
    pub const STATUS: &str = "Status";
    pub const ANNOUNCED: &str = "announced";
    pub const ENDPOINTS: &str = "Endpoints";

    /// Phase of an epoch, in the words of the RPC.
    pub fn phase(phase: EpochPhase) -> &'static str {
        match phase {
            EpochPhase::Open => "open",
            EpochPhase::Frozen => "frozen: the next committee takes over at the end",
            EpochPhase::Kept => "kept: the committee stays for the next epoch",
            EpochPhase::Dealing => "dealing: this committee deals a coin to the next one",
            EpochPhase::Acknowledging => "acknowledging: the next committee confirms the dealings of its coin",
            EpochPhase::Opening => "opening: values of the coin that were not confirmed are shown",
        }
    }

    /// Tag of a convicted validator.
    pub fn jailed(epoch: &str) -> String {
        format!("jailed until epoch {epoch}")
    }

    /// Minimum and maximum number of members.
    pub fn size(min: &str, max: &str) -> String {
        format!("{min} to {max} validators")
    }

    /// A number of epochs.
    pub fn epochs(epochs: &str) -> String {
        format!("{epochs} epochs")
    }
}

/// Texts about shards.
pub mod shards {
    pub const SHARDS: &str = "Shards";
    pub const NOTE: &str = "The state is split over shards by address. No leader orders transactions: a gateway proposes each to all replicas of \
         its shards. Blocks contain the transactions of one interval of time.";
    pub const SHARD: &str = "Shard";
    pub const REPLICAS: &str = "Replicas";
    pub const CONNECTED: &str = "Connected with this node";
    pub const GATEWAYS: &str = "Gateways";
    pub const KEY: &str = "Key";
    pub const OWN: &str = "this node";
    pub const YES: &str = "yes";
    pub const NO: &str = "no";
    pub const WORK: &str = "Transactions of this gateway since it started";
    pub const FAST: &str = "Committed in one round trip";
    pub const LOGGED: &str = "Committed in two round trips, logged by one shard";
    pub const RECONCILED: &str = "Decided by an election of replicas";
    pub const RETRIES: &str = "Aborted attempts that were repeated";
    pub const DROPPED: &str = "Given up";
    pub const RECOVERED: &str = "Finished for another gateway that stopped";

    /// Faults that a sharded chain tolerates.
    pub fn tolerates(faulty: u64) -> String {
        format!("{faulty} of {} replicas in each shard, which may lie", 5 * faulty + 1)
    }

    /// Replicas of a shard without a connection.
    pub fn missing(members: impl Iterator<Item = u64>) -> String {
        let members: Vec<_> = members.map(|member| member.to_string()).collect();
        format!("without replica {}", members.join(", "))
    }
}
