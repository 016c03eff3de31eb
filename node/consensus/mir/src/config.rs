//! The engine's parameters. The genesis contains all that affect validity or results.

use crate::message::MAX_WINDOW;
use corniche_engine::{DAY_MS, parameter_within, stretched_ms};
use corniche_types::{B256, Genesis, TimestampMs};
use std::collections::BTreeMap;

/// Members vote for a batch only when its author's clock is at most this far ahead of their own, ms.
pub const MAX_CLOCK_AHEAD_MS: u64 = 500;

/// Batch from which the whole `max_stretch` applies, bytes.
const LARGE_BATCH: usize = 4 << 10;

/// Parameters of one engine instance; see [`Config::from_genesis`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// T_batch: minimum time between two own batches, ms.
    pub batch_interval_ms: u64,
    /// Factor by which `batch_interval_ms` grows with the newest batch, up to 4 KiB; 1 switches it off.
    pub max_stretch: u64,
    /// Time that the caller gets for a batch before an empty one fills a number that others wait for, ms.
    pub fill_ms: u64,
    /// A leader proposes at least this often, ms: an empty batch if there is nothing else.
    pub idle_ms: u64,
    /// Own batches that are not delivered yet, from which the next one waits.
    pub open_batches: u64,
    /// maxLen: numbers of an epoch without all leaders.
    pub epoch_length: u64,
    /// C: numbers between two checkpoints.
    pub checkpoint_interval: u64,
    /// Numbers above the stable checkpoint that are handled (S5).
    pub window: u64,
    /// Time from the commit of a number until the next one is overdue, ms. Doubles with each ungracious change.
    pub timeout_ms: u64,
    pub max_timeout_ms: u64,
    /// Members that miss something ask this often, ms.
    pub resend_ms: u64,
    /// Number of delivered batches that are kept for lagging members.
    pub retain: u64,
    /// Maximum bytes of one response; one item is always allowed.
    pub fetch_bytes: u32,
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
            batch_interval_ms: 20,
            max_stretch: 5,
            fill_ms: 5,
            idle_ms: 1_000,
            open_batches: 2,
            epoch_length: 256,
            checkpoint_interval: 64,
            window: 256,
            timeout_ms: 4_000,
            max_timeout_ms: 60_000,
            resend_ms: 250,
            retain: 1_000,
            fetch_bytes: 1 << 20,
            batch_bytes: 512 << 10,
            batch_gas: 30_000_000,
            genesis_time: TimestampMs(0),
            genesis_randomness: B256::ZERO,
        }
    }
}

impl Config {
    /// Minimum time after an own batch of this size until the next one, ms.
    pub fn interval_ms(&self, bytes: usize) -> u64 {
        stretched_ms(self.batch_interval_ms, self.max_stretch, bytes, LARGE_BATCH)
    }

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
    /// Names the parameter that is unknown or out of range.
    pub fn from_parameters(parameters: &BTreeMap<String, u64>) -> Result<Self, String> {
        let mut config = Self::default();
        for (name, &value) in parameters {
            config.set(name, value)?;
        }
        // A checkpoint must become stable before the window is full; laggards need the batches since the last one; an idle
        // leader must not look dead (M25).
        let bounds = [
            ("window", config.window, 2 * config.checkpoint_interval),
            ("retain", config.retain, 2 * config.window),
            ("timeout_ms", config.timeout_ms, 2 * config.idle_ms),
            ("idle_ms", config.idle_ms, config.batch_interval_ms * config.max_stretch),
        ];
        for (name, value, least) in bounds {
            if value < least {
                return Err(format!("mir parameter {name}: expected at least {least}, got {value}; raise {name}"));
            }
        }
        Ok(config)
    }

    fn set(&mut self, name: &str, value: u64) -> Result<(), String> {
        let within = |least: u64, most: u64| parameter_within("mir", name, value, least..=most);
        match name {
            "batch_interval_ms" => self.batch_interval_ms = within(1, DAY_MS)?,
            "max_stretch" => self.max_stretch = within(1, 100)?,
            "fill_ms" => self.fill_ms = within(0, DAY_MS)?,
            "idle_ms" => self.idle_ms = within(1, DAY_MS)?,
            "open_batches" => self.open_batches = within(1, MAX_WINDOW as u64)?,
            "epoch_length" => self.epoch_length = within(1, 1 << 32)?,
            "checkpoint_interval" => self.checkpoint_interval = within(1, MAX_WINDOW as u64)?,
            "window" => self.window = within(2, MAX_WINDOW as u64)?,
            "timeout_ms" => self.timeout_ms = within(1, DAY_MS)?,
            "max_timeout_ms" => self.max_timeout_ms = within(1, DAY_MS)?,
            "resend_ms" => self.resend_ms = within(1, DAY_MS)?,
            "retain" => self.retain = within(1, 1_000_000)?,
            "fetch_bytes" => self.fetch_bytes = u32::try_from(within(1, 16 << 20)?).unwrap_or(u32::MAX),
            _ => return Err(format!("mir: unknown parameter {name}")),
        }
        Ok(())
    }

    /// Maximum bytes of any message of this engine: an EPOCH-CHANGE, or a batch.
    // Borsh: a length has 4 bytes, an option or a variant 1, a number 8, an index 2, a hash 32, a signature 64.
    pub fn max_message_bytes(&self, committee_size: usize) -> usize {
        let window = self.window as usize;
        let votes = 4 + 66 * committee_size;
        let config = 8 + (4 + 2 * committee_size) + 8 + (4 + 32 * window) + 8 + 9;
        let certificate = config + votes;
        let prepared = 8 + 8 + 32 + votes;
        let change = 2 + 8 + (1 + certificate) + (1 + 8 + 32 + votes) + (4 + window * prepared) + 64;
        let new_epoch = config + 4 + 34 * committee_size;
        let batch = 8 + 64 + 8 + 2 + 8 + 4 + self.batch_bytes as usize;
        let committed = 4 + 40 * MAX_WINDOW;
        // The encoding has a version byte, and a message a variant.
        2 + change.max(new_epoch).max(batch).max(committed)
    }

    /// Maximum number of items that an engine holds in a committee of this size, even with f Byzantine members, and of records
    /// that it needs.
    pub fn max_footprint(&self, committee_size: usize) -> usize {
        let (size, window) = (committee_size as u64, self.window);
        // Votes of all members for each open number, claims, copies of own batches, and messages of later epochs.
        let votes = 2 * window * (4 * size + 4) + size * crate::normal::MAX_EARLY as u64;
        // Delivered batches without a certificate, with digests and bodies.
        let log = 2 * (4 * self.retain + 2 * window) + 2 * window * crate::bodies::MAX_BODIES as u64;
        let records = 8 * (4 * self.retain + 2 * window);
        usize::try_from(votes + log + records + 4_096).unwrap_or(usize::MAX)
    }
}
