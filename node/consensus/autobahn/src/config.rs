//! The engine's parameters. The genesis contains all that affect validity or results.

use corniche_engine::{Committee, DAY_MS, parameter_within, stretched_ms};
use corniche_types::{B256, Genesis, TimestampMs, Votes};
use std::collections::BTreeMap;

/// The vote for a cut whose time is further ahead of `now` than this is held back.
pub const MAX_CLOCK_AHEAD_MS: u64 = 500;

/// Bytes of a batch from which cars are apart by the whole `max_stretch`: about 40 transfers.
const LONG_CAR_BYTES: usize = 4 << 10;

/// Parameters of one engine instance; see [`Config::from_genesis`]. Switches are 0 or 1 in a genesis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// k: maximum number of open slots (S2).
    pub open_slots: u64,
    /// Votes of the owners of lanes with news that a leader needs to propose (C1); 0: Q.
    pub coverage: u16,
    /// Commits on the votes of all members in three message delays (C5).
    pub fast_path: bool,
    /// A leader may propose its own car before it is certified (row 19 of the checklist).
    pub leader_tips: bool,
    /// A leader may propose others' cars before they are certified (row 20).
    pub optimistic_tips: bool,
    /// Votes for an optimistic tip without holding it (row 21, P5).
    pub weak_votes: bool,
    /// Sends votes to all instead of the leader: one message delay less per phase, n times the messages (row 24).
    pub all_to_all: bool,
    /// Uses one leader for all slots of a view (row 38). For measuring only: a faulty leader can omit any car for ever.
    pub stable_leader: bool,
    /// Maximum number of uncertified own cars (D2, row 18).
    pub cars_ahead: u64,
    /// Certificates are sums of BLS shares instead of lists of ed25519 signatures (row 23).
    pub bls: bool,
    /// First view timer of a slot, ms; doubles with each view up to `max_view_timeout_ms`. It is shorter on a
    /// fast network: at least a quarter, for distrusted leaders an eighth.
    pub view_timeout_ms: u64,
    pub max_view_timeout_ms: u64,
    /// T_fast: time that a leader waits for the last votes, ms (C5, P19).
    pub fast_wait_ms: u64,
    /// Time that a leader waits for coverage when some lanes have news, ms (P10).
    pub coverage_wait_ms: u64,
    /// Minimum time between two own cars, ms. Lanes grow at network pace, which on a fast network would mean one car
    /// per transaction.
    pub car_interval_ms: u64,
    /// Factor by which `car_interval_ms` grows with the own batches, up to 4 KiB; 1 switches it off. A car costs the
    /// same votes and messages regardless of its batch.
    pub max_stretch: u64,
    /// Time that a certificate waits for the next car to carry it, ms (D6).
    pub availability_wait_ms: u64,
    /// Unanswered messages are sent again after this time, ms.
    pub resend_ms: u64,
    /// At rest, the validator sends its status once more to each of the others, one every `status_ms`. Also the maximum
    /// time between requests without a response.
    pub status_ms: u64,
    /// First delay before another peer is asked for missing data, ms.
    pub fetch_retry_ms: u64,
    /// Maximum bytes of cars in one response; one car is always allowed.
    pub fetch_bytes: u32,
    /// Number of executed slots whose cuts, certificates and cars are kept in memory and on disk for lagging
    /// validators; fewer if the cars of one lane exceed `lane_bytes`. While no certificate shows that a quorum executed the
    /// slots, four times as many are kept, and four times `lane_bytes` per lane, for all lanes together.
    pub retain_slots: u64,
    /// Maximum bytes of own cars that are not executed yet, each counted with `lanes::CAR_WEIGHT` in addition to its batch.
    /// Above the limit the engine asks for no batches. Twice as many are accepted of each other lane (P20). See also
    /// `retain_slots`.
    pub lane_bytes: u64,
    /// Maximum bytes of a batch.
    pub batch_bytes: u32,
    /// Maximum declared gas of a batch, passed on in `WantBatch`.
    pub batch_gas: u64,
    /// Lower bound of all commit times.
    pub genesis_time: TimestampMs,
    /// Randomness before the first commit: zero, or that of the last block of the epoch before.
    pub genesis_randomness: B256,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            open_slots: 4,
            coverage: 0,
            fast_path: true,
            leader_tips: true,
            optimistic_tips: true,
            weak_votes: false,
            all_to_all: false,
            stable_leader: false,
            cars_ahead: 1,
            bls: false,
            view_timeout_ms: 1_000,
            max_view_timeout_ms: 60_000,
            fast_wait_ms: 20,
            coverage_wait_ms: 10,
            car_interval_ms: 10,
            max_stretch: 3,
            availability_wait_ms: 5,
            resend_ms: 1_000,
            status_ms: 5_000,
            fetch_retry_ms: 300,
            fetch_bytes: 4 << 20,
            retain_slots: 1_000,
            lane_bytes: 64 << 20,
            batch_bytes: 512 << 10,
            batch_gas: 30_000_000,
            genesis_time: TimestampMs(0),
            genesis_randomness: B256::ZERO,
        }
    }
}

impl Config {
    /// The engine parameters of a genesis, with its batch limits and its time.
    pub fn from_genesis(genesis: &Genesis) -> Result<Self, String> {
        let mut config = Self::from_parameters(&genesis.engine.parameters)?;
        let votes = genesis.weights().total();
        if Votes(config.coverage.into()) > votes {
            return Err(format!(
                "autobahn parameter coverage: got {}, expected at most {votes}, the votes of all validators",
                config.coverage
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
        config.check()?;
        Ok(config)
    }

    /// Checks relations between two parameters.
    fn check(&self) -> Result<(), String> {
        // A PREPARE shows the certificate of the commit k slots before, which a restarted validator takes from the
        // retained ones. The other k slots are for validators that are k slots behind.
        let (retain, least) = (self.retain_slots, self.open_slots * 2);
        if retain < least {
            return Err(format!(
                "autobahn parameter retain_slots: expected at least {least}, twice open_slots ({}), got {retain}; raise retain_slots or lower open_slots",
                self.open_slots
            ));
        }
        Ok(())
    }

    fn set(&mut self, name: &str, value: u64) -> Result<(), String> {
        let within = |least: u64, most: u64| parameter_within("autobahn", name, value, least..=most);
        let switch = || within(0, 1).map(|value| value == 1);
        let narrow = |most: u32| within(0, u64::from(most)).map(|value| u32::try_from(value).unwrap_or(most));
        match name {
            "open_slots" => self.open_slots = within(1, 64)?,
            "coverage" => self.coverage = u16::try_from(within(0, u64::from(u16::MAX))?).unwrap_or(u16::MAX),
            "fast_path" => self.fast_path = switch()?,
            "leader_tips" => self.leader_tips = switch()?,
            "optimistic_tips" => self.optimistic_tips = switch()?,
            "weak_votes" => self.weak_votes = switch()?,
            "all_to_all" => self.all_to_all = switch()?,
            "stable_leader" => self.stable_leader = switch()?,
            "cars_ahead" => self.cars_ahead = within(1, 64)?,
            "bls" => self.bls = switch()?,
            "view_timeout_ms" => self.view_timeout_ms = within(1, DAY_MS)?,
            "max_view_timeout_ms" => self.max_view_timeout_ms = within(1, DAY_MS)?,
            "fast_wait_ms" => self.fast_wait_ms = within(0, DAY_MS)?,
            "coverage_wait_ms" => self.coverage_wait_ms = within(0, DAY_MS)?,
            "car_interval_ms" => self.car_interval_ms = within(0, DAY_MS)?,
            "max_stretch" => self.max_stretch = within(1, 10)?,
            "availability_wait_ms" => self.availability_wait_ms = within(0, DAY_MS)?,
            "resend_ms" => self.resend_ms = within(1, DAY_MS)?,
            "status_ms" => self.status_ms = within(1, DAY_MS)?,
            "fetch_retry_ms" => self.fetch_retry_ms = within(1, DAY_MS)?,
            "fetch_bytes" => self.fetch_bytes = narrow(16 << 20)?,
            "retain_slots" => self.retain_slots = within(1, 1_000_000)?,
            "lane_bytes" => self.lane_bytes = within(1, 1 << 40)?,
            "batch_bytes" => self.batch_bytes = narrow(16 << 20)?,
            "batch_gas" => self.batch_gas = value,
            _ => return Err(format!("autobahn: unknown parameter {name}")),
        }
        Ok(())
    }

    /// Minimum time between an own car with a batch of `batch_bytes` and the next one, ms. Batches of more than half the
    /// limit are not delayed, because that would limit the throughput.
    pub(crate) fn car_pause_ms(&self, batch_bytes: usize) -> u64 {
        let is_large = batch_bytes > self.batch_bytes as usize / 2;
        let bytes = if is_large { 0 } else { batch_bytes };
        stretched_ms(self.car_interval_ms, self.max_stretch, bytes, LONG_CAR_BYTES)
    }

    /// Maximum bytes of any message of this engine.
    pub fn max_message_bytes(&self, committee_size: usize) -> usize {
        // A signer is 2 bytes and its share at most 64; a tip is 42, a report at most 74.
        let proof = 128 + committee_size * 66;
        let prepare = committee_size * (42 + 42 + proof + 74) + 4 * proof;
        // One car is always allowed.
        (self.fetch_bytes as usize).max(self.batch_bytes as usize) + prepare + 4_096
    }

    /// Votes of the owners of lanes with news that a leader needs to propose (C1).
    pub fn coverage(&self, committee: &Committee) -> Votes {
        if self.coverage == 0 { committee.quorum() } else { Votes(self.coverage.into()).min(committee.total()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(parameters: &[(&str, u64)]) -> Result<Config, String> {
        Config::from_parameters(&parameters.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect())
    }

    #[test]
    fn coverage_counts_votes() {
        let committee = corniche_testkit::committee_of("autobahn", &[3, 2, 2, 1, 1, 1]);
        for (coverage, expected) in [(0, 7), (1, 1), (8, 8), (10, 10), (11, 10)] {
            let config = Config { coverage, ..Config::default() };
            assert_eq!(config.coverage(&committee), Votes(expected), "coverage {coverage}");
        }
    }

    #[test]
    fn retention_covers_open_slots() {
        let refusal = from(&[("retain_slots", 7)]).unwrap_err();
        assert!(refusal.contains("retain_slots: expected at least 8") && refusal.contains("raise retain_slots"), "{refusal}");
        // The order of the parameters does not matter.
        assert!(from(&[("open_slots", 20), ("retain_slots", 39)]).is_err());
        assert!(from(&[("open_slots", 20), ("retain_slots", 40)]).is_ok());
        assert!(from(&[("open_slots", 64)]).is_ok(), "the default is enough");
        assert!(from(&[("retain_slots", 2), ("open_slots", 1)]).is_ok());
    }
}
