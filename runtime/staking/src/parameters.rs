//! Parameters of staking: part of the genesis. Changing one is a new protocol version.

use alloy_primitives::{U256, uint};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_types::{MAX_VOTES, Votes};
use serde::{Deserialize, Serialize};
use std::fmt::Display;

/// Object `staking` of the genesis. Fields that are absent there have their defaults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, BorshSerialize, BorshDeserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Parameters {
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

impl Default for Parameters {
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

/// A parameter is out of bounds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("staking.{field}: expected {expected}, got {found}")]
pub struct ParameterError {
    /// Name of the field in the genesis.
    pub field: &'static str,
    /// Bounds of the value.
    pub expected: String,
    /// The value.
    pub found: String,
}

impl ParameterError {
    pub(crate) fn new(field: &'static str, expected: impl Into<String>, found: impl Display) -> Self {
        Self { field, expected: expected.into(), found: found.to_string() }
    }
}

impl Parameters {
    /// Checks all bounds.
    pub fn check(&self) -> Result<(), ParameterError> {
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

    /// Checks that `min_validators` candidates always are enough for a committee; see [`votes`](crate::votes).
    fn check_max_votes(&self) -> Result<(), ParameterError> {
        let beyond_first = self.most_votes.0.saturating_sub(1).checked_mul(self.min_validators.saturating_sub(1));
        let least = beyond_first.and_then(|votes| votes.checked_add(self.max_validators)).unwrap_or(u32::MAX);
        if self.max_votes.0 >= least {
            return Ok(());
        }
        let expected = format!("at least max_validators + (most_votes - 1) * (min_validators - 1) = {least}");
        Err(ParameterError::new("max_votes", expected, self.max_votes))
    }

    /// Returns whether epoch 0 is the only one, as on development chains.
    pub fn never_ends(&self) -> bool {
        self.epoch_ms == 0
    }
}

fn at_least<T: PartialOrd + Display>(field: &'static str, found: T, least: T) -> Result<(), ParameterError> {
    if found >= least {
        return Ok(());
    }
    Err(ParameterError::new(field, format!("at least {least}"), found))
}

fn within<T: PartialOrd + Display>(field: &'static str, found: T, least: T, most: T) -> Result<(), ParameterError> {
    if (&least..=&most).contains(&&found) {
        return Ok(());
    }
    Err(ParameterError::new(field, format!("{least} to {most}"), found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut Parameters)) -> String {
        let mut parameters = Parameters::default();
        change(&mut parameters);
        parameters.check().unwrap_err().to_string()
    }

    #[test]
    fn defaults_are_valid() {
        assert_eq!(Parameters::default().check(), Ok(()));
        assert_eq!(serde_json::from_str::<Parameters>("{}").unwrap(), Parameters::default());
        assert_eq!(Parameters { epoch_ms: 0, ..Parameters::default() }.check(), Ok(()));
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
        assert!(serde_json::from_str::<Parameters>(r#"{"epoch_blocks": 10}"#).is_err());
    }
}
