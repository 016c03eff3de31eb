//! The engine's parameters. The genesis contains all that affect validity or results.

use corniche_engine::{DAY_MS, SPARE_RECORDS, parameter_within};
use corniche_lanes::{LaneConfig, MAX_AHEAD, MAX_OPEN_BATCHES};
use corniche_types::{B256, Genesis, TimestampMs};
use std::collections::BTreeMap;

/// Views above the current one whose messages are kept. A validator that is further behind asks for help.
pub const MAX_VIEWS_AHEAD: u64 = 8;
/// Committed rounds above the delivered ones that are kept. A validator that is further behind first delivers.
pub const MAX_ROUNDS_AHEAD: u64 = 1_024;
/// The timeout doubles with each fallback in a row, this often (S9).
const MAX_DOUBLINGS: u32 = 6;

/// Parameters of one engine instance; see [`Config::from_genesis`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Time without a commit after which a validator leaves the synchronous mode, while something waits for a commit, ms (S8). Any
    /// value is safe and live, but values below a round trip commit by the fallback only.
    pub timeout_ms: u64,
    /// Maximum number of own uncommitted blocks of a leader (S4). The thesis has 1 with SADL.
    pub pipeline: u64,
    /// Maximum number of own undelivered batches. The next batch waits for the votes of the one before (D2) anyway.
    pub open_batches: u64,
    /// Minimum time between two own batches, ms.
    pub batch_interval_ms: u64,
    /// Factor by which `batch_interval_ms` grows with the own batches, up to 4 KiB; 1 switches it off.
    pub max_stretch: u64,
    /// A batch that is complete is announced after this time without a next batch, ms (D7).
    pub tail_ms: u64,
    /// Unanswered messages are sent again after this time, ms.
    pub resend_ms: u64,
    /// At rest, the validator sends its progress to each of the others, one every `status_ms`.
    pub status_ms: u64,
    /// Number of delivered rounds that are kept for lagging validators; four times as many while no certificate covers them.
    pub retain_rounds: u64,
    /// Maximum bytes of a batch.
    pub batch_bytes: u32,
    /// Maximum declared gas of a batch, passed on in `WantBatch`.
    pub batch_gas: u64,
    /// Lower bound of all commit times.
    pub genesis_time: TimestampMs,
    /// Randomness before the first commit, and seed of the coin.
    pub genesis_randomness: B256,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            timeout_ms: 1_500,
            pipeline: 1,
            open_batches: MAX_OPEN_BATCHES,
            batch_interval_ms: 10,
            max_stretch: 3,
            tail_ms: 0,
            resend_ms: 500,
            status_ms: 5_000,
            retain_rounds: 1_000,
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
        let within = |least: u64, most: u64| parameter_within("sadl-racs", name, value, least..=most);
        match name {
            "timeout_ms" => self.timeout_ms = within(1, DAY_MS)?,
            "pipeline" => self.pipeline = within(1, 8)?,
            "open_batches" => self.open_batches = within(1, MAX_OPEN_BATCHES)?,
            "batch_interval_ms" => self.batch_interval_ms = within(0, DAY_MS)?,
            "max_stretch" => self.max_stretch = within(1, 10)?,
            "tail_ms" => self.tail_ms = within(0, DAY_MS)?,
            "resend_ms" => self.resend_ms = within(1, DAY_MS)?,
            "status_ms" => self.status_ms = within(1, DAY_MS)?,
            "retain_rounds" => self.retain_rounds = within(64, 1_000_000)?,
            _ => return Err(format!("sadl-racs: unknown parameter {name}")),
        }
        Ok(())
    }

    pub(crate) fn lanes(&self) -> LaneConfig {
        let &Self { open_batches, batch_interval_ms, max_stretch, batch_bytes, batch_gas, .. } = self;
        LaneConfig { open_batches, batch_interval_ms, max_stretch, batch_bytes, batch_gas }
    }

    /// S9: the timeout after this many fallbacks in a row, ms.
    pub(crate) fn timeout_after(&self, fallbacks: u32) -> u64 {
        self.timeout_ms.saturating_mul(1 << fallbacks.min(MAX_DOUBLINGS))
    }

    /// Maximum bytes of any message of this engine.
    pub fn max_message_bytes(&self, committee_size: usize) -> usize {
        let block = block_bytes(committee_size);
        (self.batch_bytes as usize + 128).max(blocks_at_once(committee_size) * block + 64).max(2 * block + 128)
    }

    /// Maximum number of blocks of one engine.
    pub(crate) fn max_blocks(&self, committee_size: usize) -> usize {
        let rounds = usize::try_from(4 * self.retain_rounds + MAX_ROUNDS_AHEAD).unwrap_or(usize::MAX);
        // Blocks of a fallback, of the views whose messages are kept.
        rounds + 4 * committee_size * MAX_VIEWS_AHEAD as usize
    }

    /// Maximum number of items that an engine holds in a committee of this size, and of records that it needs.
    pub fn max_footprint(&self, committee_size: usize) -> usize {
        let size = committee_size as u64;
        let rounds = 4 * self.retain_rounds + MAX_ROUNDS_AHEAD;
        let batches = size * (MAX_AHEAD + MAX_OPEN_BATCHES * rounds);
        let messages = 16 * size * (MAX_VIEWS_AHEAD + size);
        let items = self.max_blocks(committee_size) as u64 + rounds + batches + messages;
        usize::try_from(2 * items + SPARE_RECORDS as u64).unwrap_or(usize::MAX)
    }
}

/// Maximum bytes of a block: a tip has 40 bytes.
fn block_bytes(committee_size: usize) -> usize {
    160 + committee_size * 40
}

/// Number of blocks in one response.
pub(crate) fn blocks_at_once(committee_size: usize) -> usize {
    corniche_lanes::decisions_at_once(block_bytes(committee_size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_have_ranges() {
        let from = |name: &str, value| Config::from_parameters(&[(name.to_owned(), value)].into());
        assert_eq!(from("pipeline", 9).unwrap_err(), "sadl-racs parameter pipeline: expected 1 to 8, got 9");
        assert_eq!(from("pipeline", 8).map(|config| config.pipeline), Ok(8));
        assert_eq!(from("window", 8).unwrap_err(), "sadl-racs: unknown parameter window");
    }

    #[test]
    fn timeouts_grow_with_fallbacks() {
        let config = Config { timeout_ms: 10, ..Config::default() };
        assert_eq!([0, 1, 6, 60].map(|fallbacks| config.timeout_after(fallbacks)), [10, 20, 640, 640]);
    }
}
