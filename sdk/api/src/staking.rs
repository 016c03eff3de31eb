//! Stake of the validators: `corniche_getStaking`.

use crate::quantity;
use alloy_primitives::{Address, B256, Bytes, U256};
use corniche_types::StakingParameters;
use serde::{Deserialize, Serialize};

/// State of the staking contract at a block: `corniche_getStaking`. Amounts are in wei, times in Unix milliseconds of the
/// chain's clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Staking {
    /// The running epoch; the first has 0.
    #[serde(with = "quantity")]
    pub epoch: u64,
    /// Time of the block that ended the epoch before; the genesis time in epoch 0.
    #[serde(with = "quantity")]
    pub start_ms: u64,
    /// Height of that block.
    #[serde(with = "quantity")]
    pub start_block: u64,
    /// Time from which validators announce themselves for the next epoch; `null` if epochs never end.
    #[serde(with = "quantity::optional")]
    pub announcements_ms: Option<u64>,
    /// Time from which the next committee is fixed; `null` if epochs never end.
    #[serde(with = "quantity::optional")]
    pub freeze_ms: Option<u64>,
    /// Time from which the next epoch begins; `null` if epochs never end.
    #[serde(with = "quantity::optional")]
    pub end_ms: Option<u64>,
    /// Last step of the epoch.
    pub phase: EpochPhase,
    /// Price of a vote in the sitting committee.
    pub vote_price: U256,
    /// Rules of the genesis.
    pub parameters: StakingRules,
    /// Registered validators by ascending number, at most 1,000.
    pub validators: Vec<StakedValidator>,
}

/// Step of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EpochPhase {
    /// The next committee is not fixed yet.
    Open,
    /// The next committee is fixed, and takes over at the end.
    Frozen,
    /// The sitting committee stays for the next epoch.
    Kept,
    /// The next committee is fixed, and the sitting one deals a coin to it.
    Dealing,
    /// Members of the next committee acknowledge the dealings.
    Acknowledging,
    /// Dealers show what was not acknowledged.
    Opening,
}

/// Parameters of staking in the genesis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StakingRules {
    /// Length of an epoch in milliseconds; 0 if epochs never end.
    #[serde(with = "quantity")]
    pub epoch_ms: u64,
    /// Time between the freeze and the end of an epoch, in milliseconds.
    #[serde(with = "quantity")]
    pub closing_ms: u64,
    /// Lowest price of a vote.
    pub vote_wei: U256,
    /// Maximum votes of one validator.
    #[serde(with = "quantity")]
    pub most_votes: u64,
    /// Maximum votes of a committee.
    #[serde(with = "quantity")]
    pub max_votes: u64,
    /// Maximum members of a committee.
    #[serde(with = "quantity")]
    pub max_validators: u64,
    /// Minimum members of a committee.
    #[serde(with = "quantity")]
    pub min_validators: u64,
    /// Epochs for which stake is liable for what its votes signed.
    #[serde(with = "quantity")]
    pub unbonding_epochs: u64,
    /// Epochs for which a key of the coin serves an unchanged committee.
    #[serde(with = "quantity")]
    pub coin_max_age: u64,
    /// Part of the stake that a conviction costs, in 1/10,000.
    #[serde(with = "quantity")]
    pub slash_bps: u64,
    /// Epochs for which a convicted validator is no candidate.
    #[serde(with = "quantity")]
    pub jail_epochs: u64,
    /// Amount that each vote of a member earns per epoch.
    pub reward_wei: U256,
    /// Time between two snapshots of the state, in milliseconds.
    #[serde(with = "quantity")]
    pub snapshot_ms: u64,
}

/// A registered validator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StakedValidator {
    /// Its number. It stays the same in all committees, and is never used again.
    #[serde(with = "quantity")]
    pub id: u64,
    /// Owner of the stake.
    pub owner: Address,
    /// Account that becomes the owner when it accepts.
    pub next_owner: Option<Address>,
    /// Account that may change keys and endpoints.
    pub operator: Address,
    /// Recipient of fees and rewards.
    pub fee: Address,
    /// Stake that counts for votes.
    pub bonded: U256,
    /// Stake that was unbonded and not withdrawn.
    pub queued: U256,
    /// Part of `queued` that can be withdrawn now.
    pub free: U256,
    /// First epoch in which it may be a candidate after a conviction; 0 if there was none.
    #[serde(with = "quantity")]
    pub jailed_until: u64,
    /// ed25519 public key; signs the engine's messages.
    pub consensus_key: B256,
    /// BLS12-381 public key, compressed; signs headers.
    pub bls_key: Bytes,
    /// ed25519 public key; the identity of its connections.
    pub network_key: B256,
    /// BLS12-381 point of G1, compressed; receives its parts of the coin's key.
    pub coin_key: Bytes,
    /// Addresses that it names for connections, not verified: printable ASCII, other bytes escaped.
    pub endpoints: Vec<String>,
    /// Votes in the sitting committee; 0 if it is no member.
    #[serde(with = "quantity")]
    pub votes: u64,
    /// Votes in the next committee; `null` unless the phase is `frozen`.
    #[serde(with = "quantity::optional")]
    pub next_votes: Option<u64>,
    /// True if it announced itself for the next epoch.
    pub announced: bool,
}

/// Number of convictions from which a response of `corniche_getOffences` ends, after the last one of an epoch.
pub const MAX_OFFENCES: usize = 300;

/// Convictions by ascending epoch: `corniche_getOffences`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Offences {
    /// Convictions by epoch, then by index.
    pub offences: Vec<Offence>,
    /// First epoch that is not included, because there are many convictions; `null` if all are included.
    #[serde(with = "quantity::optional")]
    pub next: Option<u64>,
}

/// A validator that was convicted for what it signed in an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Offence {
    /// Epoch in which it signed a contradiction.
    #[serde(with = "quantity")]
    pub epoch: u64,
    /// Number of the validator.
    #[serde(with = "quantity")]
    pub id: u64,
    /// Its index in the committee of that epoch.
    #[serde(with = "quantity")]
    pub index: u64,
    /// Its votes in that committee.
    #[serde(with = "quantity")]
    pub votes: u64,
}

impl From<&StakingParameters> for StakingRules {
    fn from(parameters: &StakingParameters) -> Self {
        Self {
            epoch_ms: parameters.epoch_ms,
            closing_ms: parameters.closing_ms,
            vote_wei: parameters.vote_wei,
            most_votes: parameters.most_votes.0.into(),
            max_votes: parameters.max_votes.0.into(),
            max_validators: parameters.max_validators.into(),
            min_validators: parameters.min_validators.into(),
            unbonding_epochs: parameters.unbonding_epochs,
            coin_max_age: parameters.coin_max_age,
            slash_bps: parameters.slash_bps.into(),
            jail_epochs: parameters.jail_epochs,
            reward_wei: parameters.reward_wei,
            snapshot_ms: parameters.snapshot_ms,
        }
    }
}
