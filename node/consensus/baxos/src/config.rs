//! The engine's parameters. The genesis contains all that affect validity or results.

use corniche_engine::{DAY_MS, SPARE_RECORDS, parameter_within};
use corniche_lanes::{LaneConfig, MAX_AHEAD, MAX_OPEN_BATCHES, MAX_SLOTS_AHEAD};
use corniche_types::{B256, Genesis, TimestampMs};
use std::collections::BTreeMap;

/// Parameters of one engine instance; see [`Config::from_genesis`]. Switches are 0 or 1 in a genesis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// RTT_max before the first measurement, ms (P9).
    pub rtt_ms: u64,
    /// A phase ends without a quorum after RTT_max and this time, ms (P9). It covers disks and jitter.
    pub slack_ms: u64,
    /// Maximum of l, so that back-off stays finite after long outages (P9).
    pub max_exponent: u32,
    /// Acceptors answer refused requests (M9). Off: the proposer waits for its timer, as in the thesis.
    pub nack: bool,
    /// Maximum number of own undelivered batches.
    pub open_batches: u64,
    /// Minimum time between two own batches, ms.
    pub batch_interval_ms: u64,
    /// Factor by which `batch_interval_ms` grows with the own batches, up to 4 KiB; 1 switches it off.
    pub max_stretch: u64,
    /// Unanswered messages about batches and lost disks are sent again after this time, ms.
    pub resend_ms: u64,
    /// At rest, the validator sends its status to each of the others, one every `status_ms`.
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
            rtt_ms: 100,
            slack_ms: 50,
            max_exponent: 8,
            nack: true,
            open_batches: 2,
            batch_interval_ms: 10,
            max_stretch: 3,
            resend_ms: 1_000,
            status_ms: 2_000,
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
        Ok(config)
    }

    fn set(&mut self, name: &str, value: u64) -> Result<(), String> {
        let within = |least: u64, most: u64| parameter_within("baxos", name, value, least..=most);
        match name {
            "rtt_ms" => self.rtt_ms = within(1, 10_000)?,
            "slack_ms" => self.slack_ms = within(1, DAY_MS)?,
            "max_exponent" => self.max_exponent = within(1, 16)? as u32,
            "nack" => self.nack = within(0, 1)? == 1,
            "open_batches" => self.open_batches = within(1, MAX_OPEN_BATCHES)?,
            "batch_interval_ms" => self.batch_interval_ms = within(0, DAY_MS)?,
            "max_stretch" => self.max_stretch = within(1, 10)?,
            "resend_ms" => self.resend_ms = within(1, DAY_MS)?,
            "status_ms" => self.status_ms = within(1, DAY_MS)?,
            "retain_slots" => self.retain_slots = within(64, 1_000_000)?,
            _ => return Err(format!("baxos: unknown parameter {name}")),
        }
        Ok(())
    }

    pub(crate) fn lanes(&self) -> LaneConfig {
        let &Self { open_batches, batch_interval_ms, max_stretch, batch_bytes, batch_gas, .. } = self;
        LaneConfig { open_batches, batch_interval_ms, max_stretch, batch_bytes, batch_gas }
    }

    /// Decisions above the last delivered slot that are kept. Others are asked for again once these are delivered.
    pub(crate) fn max_undelivered(&self) -> u64 {
        MAX_SLOTS_AHEAD.max(4 * self.retain_slots)
    }

    /// Maximum bytes of any message of this engine.
    pub fn max_message_bytes(&self, committee_size: usize) -> usize {
        let value = value_bytes(committee_size);
        (self.batch_bytes as usize + 128).max(decisions_at_once(committee_size) * value + 64).max(value + 256)
    }

    /// Maximum number of items that an engine holds in a committee of this size, and of records that it needs.
    pub fn max_footprint(&self, committee_size: usize) -> usize {
        let size = committee_size as u64;
        let slots = 4 * self.retain_slots + self.max_undelivered() + MAX_SLOTS_AHEAD;
        // Decisions, acceptors and waiting requests and promises of slots; batches; and a second record of each.
        let items = slots * (2 + 2 * size) + size * (MAX_AHEAD + slots);
        usize::try_from(2 * items + SPARE_RECORDS as u64).unwrap_or(usize::MAX)
    }
}

/// Maximum bytes of a value: a tip has 40 bytes.
fn value_bytes(committee_size: usize) -> usize {
    64 + committee_size * 40
}

/// Number of decisions in one response.
pub(crate) fn decisions_at_once(committee_size: usize) -> usize {
    corniche_lanes::decisions_at_once(value_bytes(committee_size))
}

/// Number of decisions for a proposer in an old slot. All acceptors send them, so they are few.
pub(crate) fn decisions_for_request(committee_size: usize) -> usize {
    decisions_at_once(committee_size).min(8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_have_ranges() {
        let from = |name: &str, value: u64| Config::from_parameters(&[(name.to_owned(), value)].into());
        assert_eq!(from("nack", 0).map(|config| config.nack), Ok(false));
        assert!(from("max_exponent", 17).unwrap_err().contains("expected 1 to 16, got 17"));
        assert!(from("hedge_ms", 1).unwrap_err().contains("unknown parameter hedge_ms"));
    }
}
