//! The engine's parameters. The genesis contains all that affect validity or results.

use corniche_aom_receiver::{MAX_CHAIN, MAX_CONFIRMED};
use corniche_aom_wire::AUTHENTICATOR_BYTES;
use corniche_engine::{DAY_MS, parameter_within, stretched_ms};
use corniche_types::{B256, Genesis, TimestampMs};
use std::collections::BTreeMap;

/// A commit's time is at most this far ahead of the median of the members' claims, ms.
pub const MAX_CLOCK_AHEAD_MS: u64 = 1_500;
/// Number of the newest batches of each author that are remembered. Older ones count as repeated (N2).
pub const REMEMBERED_BATCHES: usize = 32;
/// Maximum number of own batches that are not executed yet. Below [`REMEMBERED_BATCHES`].
pub const MAX_OUTSTANDING: usize = 8;

/// Packets that a batch must fill for the whole `max_stretch`.
const LARGE_PACKETS: usize = 4;

/// Parameters of one engine instance; see [`Config::from_genesis`]. Switches are 0 or 1 in a genesis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The multicast group.
    pub group: u32,
    /// True if the sequencer may equivocate (§1.2): packets need CONFIRMs. A property of the group.
    pub byzantine_network: bool,
    /// T_reorder, ms and packets.
    pub reorder_ms: u64,
    pub reorder_packets: u64,
    /// G: largest believable jump of the sequence.
    pub max_jump: u64,
    /// B: buffered packets.
    pub max_buffered: u64,
    /// T_query: unanswered messages are sent again after this time, ms.
    pub query_ms: u64,
    /// T_gap: time without a final slot until the leader is suspected, ms. Doubles with each view without progress.
    pub gap_ms: u64,
    /// Time until an author sends an undelivered request again, and to all members (C3), ms.
    pub request_ms: u64,
    /// T_aom: time until a request that came on the links must come from the group (V1), ms.
    pub aom_ms: u64,
    /// T_view: time for a view change, ms. Doubles with each failed view up to `max_view_ms`.
    pub view_ms: u64,
    pub max_view_ms: u64,
    /// Dropped packets per million that are suspicious over 10 s (V1).
    pub max_drops: u64,
    /// N: slots between two checkpoints.
    pub sync_slots: u64,
    /// A member claims its time at least this often, ms.
    pub clock_ms: u64,
    /// Minimum time between two own requests, ms.
    pub request_interval_ms: u64,
    /// Factor by which `request_interval_ms` grows with the newest batch, up to four packets; 1 switches it off.
    pub max_stretch: u64,
    /// Number of own batches that are not executed yet, from which the next one waits for one of them, at most
    /// [`MAX_OUTSTANDING`]. A request costs the same messages regardless of its batch, and batches grow while they wait.
    pub open_requests: usize,
    /// Time after which a request has no effect any more, ms.
    pub expiry_ms: u64,
    /// Number of delivered slots that are kept for lagging members.
    pub retain_slots: u64,
    /// Maximum number of slots in the log that are not final.
    pub open_slots: u64,
    /// Maximum bytes of a packet's payload; larger ones count as not received. 1,232 fits into one Ethernet frame with IPv6.
    pub payload_bytes: u32,
    /// Maximum bytes of undelivered large batches of one author.
    pub body_bytes: u64,
    /// Maximum bytes of log entries or bodies in one response; one is always allowed.
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
            group: 1,
            byzantine_network: false,
            reorder_ms: 2,
            reorder_packets: 64,
            max_jump: 4_096,
            max_buffered: 65_536,
            query_ms: 100,
            gap_ms: 2_000,
            request_ms: 500,
            aom_ms: 1_000,
            view_ms: 2_000,
            max_view_ms: 60_000,
            max_drops: 50_000,
            sync_slots: 128,
            clock_ms: 1_000,
            request_interval_ms: 5,
            max_stretch: 20,
            open_requests: 2,
            expiry_ms: 60_000,
            retain_slots: 1_000,
            open_slots: 512,
            payload_bytes: 1_232,
            body_bytes: 64 << 20,
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
        stretched_ms(self.request_interval_ms, self.max_stretch, bytes, LARGE_PACKETS * self.payload_bytes as usize)
    }

    /// The engine parameters of a genesis, with its group, its batch limits and its time.
    ///
    /// # Errors
    /// The genesis has no group, or a parameter is unknown or out of range.
    pub fn from_genesis(genesis: &Genesis) -> Result<Self, String> {
        let multicast = genesis.multicast.as_ref().ok_or("neobft needs sequencers: add `multicast` to the genesis")?;
        let mut config = Self::from_parameters(&genesis.engine.parameters)?;
        config.group = multicast.group;
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
        // A checkpoint must become stable before the log is full, and laggards need the entries since the last one.
        let least = 2 * config.sync_slots;
        for (name, value) in [("open_slots", config.open_slots), ("retain_slots", config.retain_slots)] {
            if value < least {
                return Err(format!(
                    "neobft parameter {name}: expected at least {least}, twice sync_slots, got {value}; raise {name}"
                ));
            }
        }
        Ok(config)
    }

    fn set(&mut self, name: &str, value: u64) -> Result<(), String> {
        let within = |least: u64, most: u64| parameter_within("neobft", name, value, least..=most);
        let narrow =
            |least: u32, most: u32| within(least.into(), most.into()).map(|value| u32::try_from(value).unwrap_or(most));
        match name {
            "byzantine_network" => self.byzantine_network = within(0, 1)? == 1,
            "reorder_ms" => self.reorder_ms = within(0, DAY_MS)?,
            "reorder_packets" => self.reorder_packets = within(1, 65_536)?,
            "max_jump" => self.max_jump = within(1, 65_536)?,
            "max_buffered" => self.max_buffered = within(1, 1 << 20)?,
            "query_ms" => self.query_ms = within(1, DAY_MS)?,
            "gap_ms" => self.gap_ms = within(1, DAY_MS)?,
            "request_ms" => self.request_ms = within(1, DAY_MS)?,
            "aom_ms" => self.aom_ms = within(1, DAY_MS)?,
            "view_ms" => self.view_ms = within(1, DAY_MS)?,
            "max_view_ms" => self.max_view_ms = within(1, DAY_MS)?,
            "max_drops" => self.max_drops = within(1, 1_000_000)?,
            "sync_slots" => self.sync_slots = within(1, 1_024)?,
            "clock_ms" => self.clock_ms = within(1, DAY_MS)?,
            "request_interval_ms" => self.request_interval_ms = within(0, DAY_MS)?,
            "max_stretch" => self.max_stretch = within(1, 100)?,
            "open_requests" => self.open_requests = within(1, MAX_OUTSTANDING as u64)? as usize,
            "expiry_ms" => self.expiry_ms = within(1, DAY_MS)?,
            "retain_slots" => self.retain_slots = within(1, 1_000_000)?,
            "open_slots" => self.open_slots = within(1, 2_048)?,
            "payload_bytes" => self.payload_bytes = narrow(512, 8_800)?,
            "body_bytes" => self.body_bytes = within(1, 1 << 40)?,
            "fetch_bytes" => self.fetch_bytes = narrow(1, 16 << 20)?,
            _ => return Err(format!("neobft: unknown parameter {name}")),
        }
        Ok(())
    }

    /// Maximum number of log entries after a checkpoint. The log stops there, so that a VIEW-CHANGE has a maximum size.
    pub fn max_log(&self) -> u64 {
        self.open_slots + 2 * self.sync_slots
    }

    /// Maximum bytes of a log entry.
    // Borsh: a length has 4 bytes, an option or a variant 1, a view or a slot 8, a hash 32, a signature 64.
    pub fn max_entry_bytes(&self, committee_size: usize) -> usize {
        let confirm = 2 + 8 + 4 + 32 * MAX_CONFIRMED + 64;
        let confirms = if self.byzantine_network { committee_size * confirm } else { 0 };
        let vector = 4 + AUTHENTICATOR_BYTES * committee_size.div_ceil(4);
        let chain = 8 + 32 + 4 + 40 * MAX_CHAIN + AUTHENTICATOR_BYTES;
        let packet = 4 + 8 + 4 + self.payload_bytes as usize + 1 + vector.max(chain) + 4 + confirms;
        1 + packet.max(drop_bytes(committee_size))
    }

    /// Maximum bytes of any message of this engine. A VIEW-CHANGE is usually the largest one: it contains a log.
    pub fn max_message_bytes(&self, committee_size: usize) -> usize {
        let votes = votes_bytes(committee_size);
        let (entry, drop) = (self.max_entry_bytes(committee_size), drop_bytes(committee_size));
        let certificates = (1 + 8 + 8 + 8 + 32 + votes) + (1 + 8 + 32 + votes);
        let log = self.max_log() as usize * (entry + drop);
        let change = 1 + 2 + 8 + certificates + 8 + 32 + 4 + log + 4 + 64;
        let response = 1 + 8 + 8 + 4 + entry.max(self.fetch_bytes as usize) + certificates;
        let sync = 1 + 8 + 8 + 32 + 4 + 2 * self.sync_slots as usize * drop;
        let body = 1 + 54 + 4 + self.batch_bytes as usize;
        let decision = 1 + 8 + 8 + 1 + entry + 64;
        // The encoding has a version byte.
        1 + [change, response, sync, body, decision].into_iter().max().unwrap_or(change)
    }

    /// Maximum number of items that an engine holds in a committee of this size, even with f Byzantine members.
    pub fn max_footprint(&self, committee_size: usize) -> usize {
        let size = committee_size as u64;
        // The log, its gaps, packets in all stages, replies, bodies, and records, which repeat entries after rollbacks.
        let slots = self.retain_slots + self.open_slots + 4 * self.sync_slots;
        let packets = 6 * self.max_buffered;
        let bodies = size * (crate::bodies::MAX_BODIES as u64 + self.retain_slots);
        usize::try_from(8 * slots + packets + size * 1_024 + bodies + 4_096).unwrap_or(usize::MAX)
    }
}

/// Maximum bytes of the votes in a certificate.
fn votes_bytes(committee_size: usize) -> usize {
    4 + 66 * committee_size
}

/// Maximum bytes of the proof of a drop.
fn drop_bytes(committee_size: usize) -> usize {
    8 + 8 + 1 + votes_bytes(committee_size)
}
