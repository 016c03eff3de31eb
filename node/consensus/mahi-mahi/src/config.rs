//! The engine's parameters. The genesis contains all that affect validity or results, that is, all but pacing and
//! fetching.

use crate::rules::Waves;
use corniche_engine::stretched_ms;
use corniche_types::{Genesis, TimestampMs, Weights};
use std::collections::BTreeMap;

/// Maximum total bytes of blocks that wait for missing ancestors, for all authors together.
const MAX_PENDING_BYTES: usize = 256 << 20;
/// Bytes of batches in a second below which load is light: about 400 transfers.
pub(crate) const LIGHT_BYTES_PER_SECOND: u64 = 50_000;
/// Smaller committees have the rounds of this one.
const LEAST_LIGHT_VALIDATORS: usize = 4;
/// Bytes of a round's batches from which rounds are stretched by the whole `max_stretch`: about 300 transfers.
const LONG_ROUND_BYTES: usize = 32 << 10;
/// Bytes of a round's batches from which rounds are not stretched: a transfer's share of a round is small then.
const FULL_ROUND_BYTES: usize = 4 * LONG_ROUND_BYTES;

/// Parameters of one engine instance; see [`Config::from_genesis`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// w: number of rounds from the propose round to the certify round, both included; 4 or 5.
    pub wave_length: u64,
    /// ℓ: leader slots per round; at most the committee size.
    pub leaders: u16,
    /// Minimum time between two own proposals, ms.
    pub min_round_ms: u64,
    /// Instead of `min_round_ms` below about 400 transfers/s, if it is shorter, ms for each validator. A validator handles a
    /// block of each other one in a round. Applies only if the genesis sets it, or leaves `min_round_ms` to its default.
    pub light_ms_per_validator: u64,
    /// Factor by which `min_round_ms` grows while rounds carry 32 to 128 KiB; 1 switches it off.
    pub max_stretch: u64,
    /// Time to wait for more parents than a quorum, ms.
    pub parent_grace_ms: u64,
    /// Time between two own proposals while no transaction waits to be ordered, ms.
    pub heartbeat_ms: u64,
    /// D: a commit of round x moves the floor to x − D. At least 2w.
    pub gc_depth: u64,
    /// Rounds below the floor that are kept in memory and on disk for lagging validators.
    pub retain_rounds: u64,
    /// Maximum bytes of a batch.
    pub batch_bytes: u32,
    /// Maximum declared gas of a batch, passed on in `WantBatch`.
    pub batch_gas: u64,
    /// Delay before a missing ancestor is requested, because it is often already in transit, ms.
    pub fetch_delay_ms: u64,
    /// First delay before another peer is asked for a missing ancestor, ms. It doubles with each attempt, up to the
    /// heartbeat.
    pub fetch_retry_ms: u64,
    /// Maximum number of blocks in one request or response.
    pub fetch_blocks: u32,
    /// Maximum bytes of blocks in one response; one block is always allowed.
    pub fetch_bytes: u32,
    /// Lower bound of all commit times.
    pub genesis_time: TimestampMs,
    /// Waves of another protocol on the same DAG, for comparisons. Not a parameter: `None` for every genesis.
    pub baseline: Option<Waves>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            wave_length: 4,
            leaders: 2,
            min_round_ms: 20,
            light_ms_per_validator: 1,
            max_stretch: 3,
            parent_grace_ms: 10,
            heartbeat_ms: 5_000,
            gc_depth: 100,
            retain_rounds: 100,
            batch_bytes: 512 << 10,
            batch_gas: 30_000_000,
            fetch_delay_ms: 100,
            fetch_retry_ms: 300,
            fetch_blocks: 256,
            fetch_bytes: 1 << 20,
            genesis_time: TimestampMs(0),
            baseline: None,
        }
    }
}

impl Config {
    /// Reads the engine parameters of a genesis, with its batch limits and its time.
    pub fn from_genesis(genesis: &Genesis) -> Result<Self, String> {
        let mut config = Self::from_parameters(&genesis.engine.parameters)?;
        // Only the default is capped. An explicit value above the committee size is an error.
        let (leaders, validators) = (genesis.engine.parameters.get("leaders"), genesis.validators.len());
        if let Some(leaders) = leaders.filter(|leaders| usize::try_from(**leaders).is_ok_and(|leaders| leaders > validators)) {
            return Err(format!(
                "mahi-mahi parameter leaders: expected at most {validators}, one per validator, got {leaders}"
            ));
        }
        config.batch_bytes = genesis.batch_bytes;
        config.batch_gas = genesis.batch_gas;
        config.genesis_time = genesis.timestamp_ms;
        Ok(config)
    }

    /// The defaults, changed by the named parameters. Rejects unknown names and invalid values.
    pub fn from_parameters(parameters: &BTreeMap<String, u64>) -> Result<Self, String> {
        let mut config = Self::default();
        for (name, &value) in parameters {
            config.set(name, value)?;
        }
        // By default, blocks are kept for laggards for another `gc_depth` rounds below the floor.
        if !parameters.contains_key("retain_rounds") {
            config.retain_rounds = config.gc_depth;
        }
        // A chain that chose its own round time keeps it under light load too.
        if parameters.contains_key("min_round_ms") && !parameters.contains_key("light_ms_per_validator") {
            config.light_ms_per_validator = config.min_round_ms;
        }
        config.check()?;
        Ok(config)
    }

    fn set(&mut self, name: &str, value: u64) -> Result<(), String> {
        let small = || u32::try_from(value).map_err(|_| format!("mahi-mahi parameter {name}: {value} is too large"));
        match name {
            "wave_length" => self.wave_length = value,
            "leaders" => {
                self.leaders =
                    u16::try_from(value).map_err(|_| format!("mahi-mahi parameter leaders: {value} is too large"))?;
            }
            "min_round_ms" => self.min_round_ms = value,
            "light_ms_per_validator" => self.light_ms_per_validator = value,
            "max_stretch" => self.max_stretch = value,
            "parent_grace_ms" => self.parent_grace_ms = value,
            "heartbeat_ms" => self.heartbeat_ms = value,
            "gc_depth" => self.gc_depth = value,
            "retain_rounds" => self.retain_rounds = value,
            "batch_bytes" => self.batch_bytes = small()?,
            "batch_gas" => self.batch_gas = value,
            "fetch_delay_ms" => self.fetch_delay_ms = value,
            "fetch_retry_ms" => self.fetch_retry_ms = value,
            "fetch_blocks" => self.fetch_blocks = small()?,
            "fetch_bytes" => self.fetch_bytes = small()?,
            _ => return Err(format!("mahi-mahi: unknown parameter {name}")),
        }
        Ok(())
    }

    /// Rejects values that make the protocol unsafe or unable to progress.
    pub fn check(&self) -> Result<(), String> {
        let refuse =
            |name: &str, value: u64, want: &str| Err(format!("mahi-mahi parameter {name}: expected {want}, got {value}"));
        const DAY_MS: u64 = 86_400_000;
        match self {
            Self { wave_length, .. } if !(4..=5).contains(wave_length) => refuse("wave_length", *wave_length, "4 or 5"),
            Self { leaders: 0, .. } => refuse("leaders", 0, "at least 1"),
            // G1: with a depth below two waves, the floor could pass slots that are still undecided.
            Self { gc_depth, wave_length, .. } if !(2 * wave_length..=100_000).contains(gc_depth) => {
                refuse("gc_depth", *gc_depth, "from two wave lengths to 100000")
            }
            Self { retain_rounds, .. } if *retain_rounds > 100_000 => refuse("retain_rounds", *retain_rounds, "at most 100000"),
            Self { min_round_ms, .. } if *min_round_ms > DAY_MS => refuse("min_round_ms", *min_round_ms, "at most a day"),
            Self { light_ms_per_validator, .. } if *light_ms_per_validator > DAY_MS => {
                refuse("light_ms_per_validator", *light_ms_per_validator, "at most a day")
            }
            Self { max_stretch, .. } if !(1..=10).contains(max_stretch) => refuse("max_stretch", *max_stretch, "from 1 to 10"),
            Self { parent_grace_ms, .. } if *parent_grace_ms > DAY_MS => {
                refuse("parent_grace_ms", *parent_grace_ms, "at most a day")
            }
            Self { heartbeat_ms, .. } if !(1..=DAY_MS).contains(heartbeat_ms) => {
                refuse("heartbeat_ms", *heartbeat_ms, "from 1 to a day")
            }
            Self { fetch_delay_ms, .. } if *fetch_delay_ms > DAY_MS => {
                refuse("fetch_delay_ms", *fetch_delay_ms, "at most a day")
            }
            Self { fetch_retry_ms, .. } if !(1..=DAY_MS).contains(fetch_retry_ms) => {
                refuse("fetch_retry_ms", *fetch_retry_ms, "from 1 to a day")
            }
            Self { fetch_blocks, .. } if !(1..=10_000).contains(fetch_blocks) => {
                refuse("fetch_blocks", u64::from(*fetch_blocks), "from 1 to 10000")
            }
            Self { fetch_bytes, .. } if *fetch_bytes > 16 << 20 => {
                refuse("fetch_bytes", u64::from(*fetch_bytes), "at most 16 MiB")
            }
            Self { batch_bytes, .. } if *batch_bytes > 16 << 20 => {
                refuse("batch_bytes", u64::from(*batch_bytes), "at most 16 MiB")
            }
            _ => Ok(()),
        }
    }

    /// The waves of this protocol for a committee size; at most one leader slot per validator and round.
    pub fn waves(&self, committee_size: usize) -> Waves {
        let leaders = u16::try_from(committee_size).map_or(self.leaders, |size| self.leaders.min(size));
        self.baseline.unwrap_or(Waves::mahi_mahi(self.wave_length, leaders))
    }

    /// Minimum time between two own proposals after a round with batches of `batch_bytes` each, ms. Large batches are
    /// not delayed.
    pub(crate) fn pause_ms(&self, batch_bytes: usize, committee_size: usize) -> u64 {
        let round_bytes = batch_bytes * committee_size;
        let is_large = batch_bytes > self.batch_bytes as usize / 2 || round_bytes > FULL_ROUND_BYTES;
        let bytes = if is_large { 0 } else { round_bytes };
        stretched_ms(self.min_round_ms, self.max_stretch, bytes, LONG_ROUND_BYTES)
    }

    /// Minimum time between two own proposals under light load, ms.
    pub(crate) fn light_pause_ms(&self, committee_size: usize) -> u64 {
        // Most of a round's cost does not depend on the number of validators.
        let validators = committee_size.max(LEAST_LIGHT_VALIDATORS) as u64;
        self.light_ms_per_validator.saturating_mul(validators).min(self.min_round_ms)
    }

    /// V7: maximum number of parents of a block: one per author of the previous round, plus weak links.
    pub fn max_parents(committee_size: usize) -> usize {
        3 * committee_size + 16
    }

    /// Maximum number of proposals, verdicts and requests that a correct engine holds, and of records that it keeps:
    /// those of the retained and of the still open rounds, times two for siblings.
    pub fn max_footprint(&self, committee_size: usize) -> usize {
        let rounds = self.retain_rounds + 6 * self.gc_depth;
        2 * committee_size * usize::try_from(rounds).unwrap_or(usize::MAX)
    }

    /// Number of rounds above the proposable round whose blocks are kept: as many as one response brings of one author.
    pub(crate) fn window(&self) -> u64 {
        self.gc_depth.max(u64::from(self.fetch_blocks))
    }

    /// Maximum number of blocks that wait on behalf of one author: twice all blocks that an honest author's blocks can
    /// depend on above the floor.
    pub(crate) fn max_pending(&self, committee_size: usize) -> usize {
        let rounds = usize::try_from(2 * self.gc_depth).unwrap_or(usize::MAX).saturating_add(64);
        rounds.saturating_mul(2 * committee_size)
    }

    /// Maximum bytes of these blocks. At least four blocks of the largest size fit.
    pub(crate) fn max_pending_bytes(&self, committee: &Weights) -> usize {
        (MAX_PENDING_BYTES / committee.members().max(1)).max(4 * self.max_block_bytes(committee))
    }

    /// Maximum bytes of siblings beyond the first in the DAG, on behalf of one author: one largest block per kept
    /// round.
    pub(crate) fn max_extra_bytes(&self, committee: &Weights) -> usize {
        let rounds = usize::try_from(self.retain_rounds + 6 * self.gc_depth).unwrap_or(usize::MAX);
        rounds.saturating_mul(self.max_block_bytes(committee))
    }

    /// Maximum bytes of an encoded block.
    pub fn max_block_bytes(&self, committee: &Weights) -> usize {
        // A reference is 42 bytes, a coin share 48; everything else in a block is below 256.
        let further_shares = committee.most().as_usize().saturating_sub(1) * 48;
        self.batch_bytes as usize + Self::max_parents(committee.members()) * 42 + further_shares + 256
    }

    /// Maximum bytes of any message of this engine.
    pub fn max_message_bytes(&self, committee: &Weights) -> usize {
        let references = self.fetch_blocks as usize * 42;
        (self.fetch_bytes as usize).max(self.max_block_bytes(committee)) + references + 1024
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_types::{Address, B256, Bytes, EngineConfig, ValidatorInfo};

    fn read(entries: &[(&str, u64)]) -> Result<Config, String> {
        Config::from_parameters(&entries.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect())
    }

    #[test]
    fn parameters_change_the_defaults() {
        assert_eq!(read(&[]).unwrap(), Config::default());
        let config = read(&[("wave_length", 5), ("leaders", 3), ("gc_depth", 40)]).unwrap();
        assert_eq!((config.wave_length, config.leaders, config.gc_depth, config.retain_rounds), (5, 3, 40, 40));
    }

    #[test]
    fn unknown_parameters_are_refused() {
        assert!(read(&[("wave_lenght", 5)]).unwrap_err().contains("unknown parameter wave_lenght"));
        // The fields of baselines are not parameters.
        assert!(read(&[("rule", 1)]).is_err() && read(&[("stride", 5)]).is_err() && read(&[("direct_skip", 0)]).is_err());
    }

    #[test]
    fn only_values_within_bounds_are_accepted() {
        const DAY_MS: u64 = 86_400_000;
        let bounds = [
            // w = 3 is safe but not live under asynchrony; D < 2w could pass undecided slots.
            ("wave_length", 4, 5),
            ("leaders", 1, u64::from(u16::MAX)),
            ("gc_depth", 8, 100_000),
            ("retain_rounds", 0, 100_000),
            ("min_round_ms", 0, DAY_MS),
            ("light_ms_per_validator", 0, DAY_MS),
            ("max_stretch", 1, 10),
            ("parent_grace_ms", 0, DAY_MS),
            ("heartbeat_ms", 1, DAY_MS),
            ("fetch_delay_ms", 0, DAY_MS),
            ("fetch_retry_ms", 1, DAY_MS),
            ("fetch_blocks", 1, 10_000),
            ("fetch_bytes", 0, 16 << 20),
            ("batch_bytes", 0, 16 << 20),
        ];
        for (name, least, most) in bounds {
            assert!(read(&[(name, least)]).is_ok() && read(&[(name, most)]).is_ok(), "{name} from {least} to {most}");
            let beyond = [least.checked_sub(1), Some(most + 1), Some(u64::MAX)];
            for value in beyond.into_iter().flatten() {
                let refusal = read(&[(name, value)]).unwrap_err();
                assert!(refusal.contains(name) && refusal.contains(&value.to_string()), "{refusal}");
            }
        }
        assert_eq!(read(&[("min_round_ms", 100)]).unwrap().light_pause_ms(4), 100, "an own round time applies to all rounds");
        assert_eq!(read(&[("min_round_ms", 100), ("light_ms_per_validator", 3)]).unwrap().light_pause_ms(10), 30);
        assert_eq!([1, 4, 7, 40].map(|size| Config::default().light_pause_ms(size)), [4, 4, 7, 20]);
        assert!(read(&[("wave_length", 5), ("gc_depth", 9)]).is_err(), "two waves are ten rounds");
    }

    #[test]
    fn minimum_round_time_is_on_by_default() {
        assert!(Config::default().min_round_ms > 0);
    }

    fn genesis(validators: usize, parameters: &[(&str, u64)]) -> Genesis {
        let validator = ValidatorInfo {
            consensus_key: B256::ZERO,
            bls_key: Bytes::new(),
            bls_proof: Bytes::new(),
            network_key: B256::ZERO,
            fee_address: Address::ZERO,
            votes: corniche_types::Votes(1),
            stake: None,
        };
        let parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        Genesis {
            timestamp_ms: TimestampMs(9),
            batch_bytes: 77,
            batch_gas: 88,
            engine: EngineConfig { name: "mahi-mahi".into(), parameters },
            ..corniche_testkit::genesis("mahi-mahi", vec![validator; validators])
        }
    }

    #[test]
    fn leaders_are_limited_by_committee_size() {
        let refusal = Config::from_genesis(&genesis(4, &[("leaders", 5)])).unwrap_err();
        assert!(refusal.contains("expected at most 4, one per validator, got 5"), "{refusal}");
        let config = Config::from_genesis(&genesis(4, &[("leaders", 4)])).unwrap();
        assert_eq!((config.leaders, config.batch_bytes, config.batch_gas, config.genesis_time.0), (4, 77, 88, 9));
        assert!(Config::from_genesis(&genesis(1, &[])).is_ok(), "the default is capped");
        assert_eq!(Config { leaders: 9, ..Config::default() }.waves(4).leaders, 4);
        assert_eq!(Config::default().waves(1).leaders, 1);
    }
}
