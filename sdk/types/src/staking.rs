//! Staking as the genesis describes it: its parameters, and the stake of the first validators.

use crate::{MAX_VOTES, Votes, Weights};
use alloy_primitives::{Address, Bytes, U256, address, uint};
use borsh::{BorshDeserialize, BorshSerialize};
use serde::{Deserialize, Serialize};
use std::fmt::Display;

/// Address of the staking contract.
pub const STAKING_ADDRESS: Address = address!("000000000000000000000000000000000000C010");

/// Data of a genesis validator for the staking contract, beside its [entry](crate::ValidatorInfo).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, BorshSerialize, BorshDeserialize)]
#[serde(deny_unknown_fields)]
pub struct GenesisStake {
    /// Account that owns the stake, and operates the validator.
    pub owner: Address,
    /// Key to which shares of the coin are encrypted: compressed G1 point, 48 bytes.
    pub coin_key: Bytes,
}

/// Object `staking` of the genesis. Fields that are absent there have their defaults. They never change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, BorshSerialize, BorshDeserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StakingParameters {
    /// Length of an epoch on the chain's clock, in ms: at least 1,000. 0: epoch 0 never ends, and the contract refuses
    /// writes.
    pub epoch_ms: u64,
    /// Part before the end of an epoch in which the next committee is made, in ms: 240 to a quarter of the epoch.
    pub closing_ms: u64,
    /// Lowest price of a vote, in wei: at least 10^15.
    pub vote_wei: U256,
    /// Maximum votes of one validator, 1 to 64.
    pub most_votes: Votes,
    /// Maximum votes of a committee, 1 to 512; at least `max_validators` + (`most_votes` - 1) · (`min_validators` - 1).
    pub max_votes: Votes,
    /// Maximum members of a committee, 1 to 300.
    pub max_validators: u32,
    /// Minimum members of a committee, 1 to `max_validators`. A smaller one never takes over.
    pub min_validators: u32,
    /// Epochs for which stake is liable for what its votes signed, 2 to 60.
    pub unbonding_epochs: u64,
    /// Epochs for which a coin key serves an unchanged committee, 1 to 64.
    pub coin_max_age: u64,
    /// Part of the stake that a conviction costs, in 1/10,000: at most 10,000.
    pub slash_bps: u32,
    /// Epochs for which a convicted validator is no candidate, at most 1,000.
    pub jail_epochs: u64,
    /// Wei that each vote of a member earns per epoch, at most 10^24.
    pub reward_wei: U256,
    /// Time between two snapshots of the state, in ms: at least 60,000.
    pub snapshot_ms: u64,
}

impl Default for StakingParameters {
    fn default() -> Self {
        Self {
            epoch_ms: 86_400_000,
            closing_ms: 3_600_000,
            vote_wei: uint!(10_000_000_000_000_000_000_000_U256),
            most_votes: Votes(16),
            max_votes: Votes(256),
            max_validators: 100,
            min_validators: 4,
            unbonding_epochs: 14,
            coin_max_age: 7,
            slash_bps: 500,
            jail_epochs: 30,
            reward_wei: U256::ZERO,
            snapshot_ms: 3_600_000,
        }
    }
}

/// A parameter, or the first stake, is out of bounds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("staking.{field}: expected {expected}, got {found}")]
pub struct StakingError {
    /// Name of the field in the genesis.
    pub field: &'static str,
    /// Bounds of the value.
    pub expected: String,
    /// The value.
    pub found: String,
}

impl StakingError {
    fn new(field: &'static str, expected: impl Into<String>, found: impl Display) -> Self {
        Self { field, expected: expected.into(), found: found.to_string() }
    }
}

impl StakingParameters {
    /// Time in ms after the end of an epoch for which its hash is enough to trust: two thirds of the time for which stake answers for
    /// what its votes signed (validators.md, L5). Epochs are never shorter than `epoch_ms`.
    pub fn trust_ms(&self) -> u64 {
        self.unbonding_epochs.saturating_mul(self.epoch_ms) / 3 * 2
    }

    /// Checks all bounds.
    pub fn check(&self) -> Result<(), StakingError> {
        if !self.never_ends() {
            at_least("epoch_ms", self.epoch_ms, 1_000)?;
            within("closing_ms", self.closing_ms, 240, self.epoch_ms / 4)?;
        }
        at_least("vote_wei", self.vote_wei, uint!(1_000_000_000_000_000_U256))?;
        within("most_votes", self.most_votes, Votes(1), MAX_VOTES)?;
        within("max_votes", self.max_votes, Votes(1), Votes(512))?;
        within("max_validators", self.max_validators, 1, 300)?;
        within("min_validators", self.min_validators, 1, self.max_validators)?;
        self.check_max_votes()?;
        within("unbonding_epochs", self.unbonding_epochs, 2, 60)?;
        within("coin_max_age", self.coin_max_age, 1, 64)?;
        within("slash_bps", self.slash_bps, 0, 10_000)?;
        within("jail_epochs", self.jail_epochs, 0, 1_000)?;
        within("reward_wei", self.reward_wei, U256::ZERO, uint!(1_000_000_000_000_000_000_000_000_U256))?;
        at_least("snapshot_ms", self.snapshot_ms, 60_000)
    }

    /// Checks that the votes of the first committee keep its limits. Its other limits apply without staking, too.
    pub(crate) fn check_committee(&self, committee: &Weights) -> Result<(), StakingError> {
        let members = u32::try_from(committee.members()).unwrap_or(u32::MAX);
        if members > self.max_validators {
            return Err(StakingError::new(
                "max_validators",
                format!("at least the {members} of the genesis"),
                self.max_validators,
            ));
        }
        if committee.most() > self.most_votes {
            let most = committee.most();
            return Err(StakingError::new("most_votes", format!("at least {most}, as in the genesis"), self.most_votes));
        }
        let total = committee.total();
        if total > self.max_votes {
            return Err(StakingError::new("max_votes", format!("at least the {total} of the genesis"), self.max_votes));
        }
        Ok(())
    }

    /// Checks that `min_validators` candidates always are enough for a committee.
    fn check_max_votes(&self) -> Result<(), StakingError> {
        let beyond_first = self.most_votes.0.saturating_sub(1).checked_mul(self.min_validators.saturating_sub(1));
        let least = beyond_first.and_then(|votes| votes.checked_add(self.max_validators)).unwrap_or(u32::MAX);
        if self.max_votes.0 >= least {
            return Ok(());
        }
        let expected = format!("at least max_validators + (most_votes - 1) * (min_validators - 1) = {least}");
        Err(StakingError::new("max_votes", expected, self.max_votes))
    }

    /// Returns whether epoch 0 is the only one, as on development chains.
    pub fn never_ends(&self) -> bool {
        self.epoch_ms == 0
    }
}

fn at_least<T: PartialOrd + Display>(field: &'static str, found: T, least: T) -> Result<(), StakingError> {
    if found >= least {
        return Ok(());
    }
    Err(StakingError::new(field, format!("at least {least}"), found))
}

fn within<T: PartialOrd + Display>(field: &'static str, found: T, least: T, most: T) -> Result<(), StakingError> {
    if (&least..=&most).contains(&&found) {
        return Ok(());
    }
    Err(StakingError::new(field, format!("{least} to {most}"), found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut StakingParameters)) -> String {
        let mut parameters = StakingParameters::default();
        change(&mut parameters);
        parameters.check().unwrap_err().to_string()
    }

    #[test]
    fn defaults_are_valid() {
        assert_eq!(StakingParameters::default().check(), Ok(()));
        assert_eq!(serde_json::from_str::<StakingParameters>("{}").unwrap(), StakingParameters::default());
        assert_eq!(StakingParameters { epoch_ms: 0, ..StakingParameters::default() }.check(), Ok(()));
    }

    #[test]
    fn errors_name_field_value_and_bounds() {
        assert_eq!(refused(|it| it.epoch_ms = 999), "staking.epoch_ms: expected at least 1000, got 999");
        assert_eq!(refused(|it| it.closing_ms = 21_600_001), "staking.closing_ms: expected 240 to 21600000, got 21600001");
        assert_eq!(refused(|it| it.most_votes = Votes(65)), "staking.most_votes: expected 1 to 64, got 65");
        assert_eq!(refused(|it| it.max_votes = Votes(513)), "staking.max_votes: expected 1 to 512, got 513");
        let least = "max_validators + (most_votes - 1) * (min_validators - 1) = 145";
        let expected = format!("staking.max_votes: expected at least {least}, got 144");
        assert_eq!(refused(|it| it.max_votes = Votes(144)), expected);
        assert_eq!(refused(|it| it.max_validators = 301), "staking.max_validators: expected 1 to 300, got 301");
        assert_eq!(refused(|it| it.min_validators = 101), "staking.min_validators: expected 1 to 100, got 101");
        assert_eq!(refused(|it| it.unbonding_epochs = 61), "staking.unbonding_epochs: expected 2 to 60, got 61");
        assert_eq!(refused(|it| it.coin_max_age = 0), "staking.coin_max_age: expected 1 to 64, got 0");
        assert_eq!(refused(|it| it.slash_bps = 10_001), "staking.slash_bps: expected 0 to 10000, got 10001");
        assert_eq!(refused(|it| it.jail_epochs = 1_001), "staking.jail_epochs: expected 0 to 1000, got 1001");
        assert_eq!(refused(|it| it.snapshot_ms = 0), "staking.snapshot_ms: expected at least 60000, got 0");
        assert!(refused(|it| it.vote_wei = U256::ZERO).starts_with("staking.vote_wei: expected at least 1000000000000000,"));
        assert!(refused(|it| it.reward_wei = U256::MAX).starts_with("staking.reward_wei: expected 0 to 1000000"));
    }

    #[test]
    fn unknown_names_are_refused() {
        assert!(serde_json::from_str::<StakingParameters>(r#"{"epoch_blocks": 10}"#).is_err());
    }
}
