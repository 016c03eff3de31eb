//! The engine's parameters. The genesis contains all that affect validity or results.

use corniche_engine::{DAY_MS, SPARE_RECORDS, parameter_within};
use corniche_lanes::{LaneConfig, MAX_AHEAD, MAX_OPEN_BATCHES, MAX_SLOTS_AHEAD};
use corniche_types::{B256, Genesis, TimestampMs};
use std::collections::BTreeMap;

/// Parameters of one engine instance; see [`Config::from_genesis`]. Switches are 0 or 1 in a genesis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// δ: the proposer with rank k in the schedule starts a slot after k · δ without progress, ms (H1). Any value is safe and
    /// live, also 0.
    pub hedge_ms: u64,
    /// Maximum number of undecided slots that a proposer drives at a time (O2).
    pub window: u64,
    /// Slots of an epoch, for which one schedule is valid (B1). More than `window`.
    pub epoch_slots: u64,
    /// Orders the proposers by measured times (B3). Off: they stay in the order of their indices.
    pub tune_leader: bool,
    /// Maximum number of own undelivered batches.
    pub open_batches: u64,
    /// Minimum time between two own batches, ms.
    pub batch_interval_ms: u64,
    /// Factor by which `batch_interval_ms` grows with the own batches, up to 4 KiB; 1 switches it off.
    pub max_stretch: u64,
    /// Unanswered messages are sent again after this time, ms.
    pub resend_ms: u64,
    /// At rest, the validator sends its progress to each of the others, one every `status_ms`.
    pub status_ms: u64,
    /// Number of delivered slots that are kept for lagging validators; four times as many while no certificate covers them.
    pub retain_slots: u64,
    /// Maximum bytes of a batch.
    pub batch_bytes: u32,
    /// Maximum declared gas of a batch, passed on in `WantBatch`.
    pub batch_gas: u64,
    /// Lower bound of all commit times.
    pub genesis_time: TimestampMs,
    /// Randomness before the first commit.
    pub genesis_randomness: B256,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            hedge_ms: 200,
            window: 4,
            epoch_slots: 64,
            tune_leader: true,
            open_batches: 2,
            batch_interval_ms: 10,
            max_stretch: 3,
            resend_ms: 1_000,
            status_ms: 5_000,
            retain_slots: 1_000,
            batch_bytes: 512 << 10,
            batch_gas: 30_000_000,
            genesis_time: TimestampMs(0),
            genesis_randomness: B256::ZERO,
        }
    }
}

impl Config {
    /// The engine parameters of a genesis, with its batch limits and its time.
    ///
    /// # Errors
    /// A parameter is unknown or out of range.
    pub fn from_genesis(genesis: &Genesis) -> Result<Self, String> {
        let mut config = Self::from_parameters(&genesis.engine.parameters)?;
        config.batch_bytes = genesis.batch_bytes;
        config.batch_gas = genesis.batch_gas;
        config.genesis_time = genesis.timestamp_ms;
        Ok(config)
    }

    /// The defaults, changed by the named parameters.
    ///
    /// # Errors
    /// A parameter is unknown or out of range.
    pub fn from_parameters(parameters: &BTreeMap<String, u64>) -> Result<Self, String> {
        let mut config = Self::default();
        for (name, &value) in parameters {
            config.set(name, value)?;
        }
        if config.epoch_slots <= config.window {
            return Err(format!(
                "quepaxa parameter epoch_slots: expected more than window ({}), got {}; X1: a schedule is decided before it is used",
                config.window, config.epoch_slots
            ));
        }
        Ok(config)
    }

    fn set(&mut self, name: &str, value: u64) -> Result<(), String> {
        let within = |least: u64, most: u64| parameter_within("quepaxa", name, value, least..=most);
        match name {
            "hedge_ms" => self.hedge_ms = within(0, DAY_MS)?,
            "window" => self.window = within(1, 64)?,
            "epoch_slots" => self.epoch_slots = within(2, 1 << 32)?,
            "tune_leader" => self.tune_leader = within(0, 1)? == 1,
            "open_batches" => self.open_batches = within(1, MAX_OPEN_BATCHES)?,
            "batch_interval_ms" => self.batch_interval_ms = within(0, DAY_MS)?,
            "max_stretch" => self.max_stretch = within(1, 10)?,
            "resend_ms" => self.resend_ms = within(1, DAY_MS)?,
            "status_ms" => self.status_ms = within(1, DAY_MS)?,
            "retain_slots" => self.retain_slots = within(64, 1_000_000)?,
            _ => return Err(format!("quepaxa: unknown parameter {name}")),
        }
        Ok(())
    }

    pub(crate) fn lanes(&self) -> LaneConfig {
        let &Self { open_batches, batch_interval_ms, max_stretch, batch_bytes, batch_gas, .. } = self;
        LaneConfig { open_batches, batch_interval_ms, max_stretch, batch_bytes, batch_gas }
    }

    /// Maximum bytes of any message of this engine.
    pub fn max_message_bytes(&self, committee_size: usize) -> usize {
        let value = value_bytes(committee_size);
        (self.batch_bytes as usize + 128).max(decisions_at_once(committee_size) * value + 64).max(2 * value + 128)
    }

    /// Maximum number of items that an engine holds in a committee of this size, and of records that it needs.
    pub fn max_footprint(&self, committee_size: usize) -> usize {
        let size = committee_size as u64;
        let slots = 4 * self.retain_slots + MAX_SLOTS_AHEAD;
        // Registers, decisions, proposers and waiting requests of slots; batches; and a second record of each.
        let items = slots * (3 + 2 * size) + size * (MAX_AHEAD + slots);
        usize::try_from(2 * items + SPARE_RECORDS as u64).unwrap_or(usize::MAX)
    }
}

/// Maximum bytes of a value: a tip has 40 bytes, a member of a schedule 2.
fn value_bytes(committee_size: usize) -> usize {
    64 + committee_size * 42
}

/// Number of decisions in one response.
pub(crate) fn decisions_at_once(committee_size: usize) -> usize {
    corniche_lanes::decisions_at_once(value_bytes(committee_size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_decided_before_they_are_used() {
        let from = |epoch_slots: u64, window: u64| {
            Config::from_parameters(&[("epoch_slots".into(), epoch_slots), ("window".into(), window)].into())
        };
        assert!(from(8, 8).unwrap_err().contains("expected more than window (8), got 8"));
        assert_eq!(from(9, 8).map(|config| config.window), Ok(8));
    }
}
