//! Configuration file.

use crate::{BackEnd, Core, GroupEpoch, StartError, Timing, back_end::Destinations};
use corniche_aom_wire::{
    ExchangeKey, Kind, MAX_PAYLOAD_BYTES, MAX_RECEIVERS, SigningKey, Stamper, Suite, TagScope, derive_tag_key,
};
use serde::Deserialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};
use zeroize::Zeroizing;

const MAX_GROUPS: usize = 64;
const MAX_PK_RECEIVERS: usize = 256;

/// Secret keys by group, of 32 bytes: X25519 for suites 1 and 2, else the signing key.
pub type Secrets = BTreeMap<u32, Zeroizing<[u8; 32]>>;

/// Configuration of a sequencer, read from TOML. Unknown keys are errors.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// UDP address for requests.
    pub listen: SocketAddr,
    /// TCP address for `/health` and `/metrics`; none by default. Anyone who reaches it can read it.
    pub admin: Option<SocketAddr>,
    /// How packets are sent. Default: `"unicast"`.
    #[serde(default)]
    pub back_end: BackEnd,
    /// Drop requests with wrong digests. Default: true.
    #[serde(default = "default_check_digests")]
    pub check_digests: bool,
    /// Maximum size of a payload in bytes, up to 8,800, the default. Packets above the path's MTU are fragmented; 1,232 fits
    /// one Ethernet frame.
    #[serde(default = "default_max_payload_bytes")]
    pub max_payload_bytes: usize,
    /// Suites 4 and 5: sign each k-th packet since the last signed one. Default: 32.
    #[serde(default = "default_sign_every")]
    pub sign_every: u32,
    /// Suites 4 and 5: send a signed heartbeat if the newest packet is unsigned and no packet follows for this time, in
    /// microseconds. Default: 100.
    #[serde(default = "default_sign_after_us")]
    pub sign_after_us: u64,
    /// Send a heartbeat if no packet follows for this time, in microseconds; at most three in a row. Default: 1,000.
    #[serde(default = "default_heartbeat_after_us")]
    pub heartbeat_after_us: u64,
    /// Sending to multicast addresses.
    #[serde(default)]
    pub multicast: MulticastConfig,
    /// Groups, 1 to 64.
    pub groups: Vec<GroupConfig>,
}

/// Options for sending to multicast addresses.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MulticastConfig {
    /// IPv4 address of the network interface; by default, the system's route decides. For IPv6, the scope of the
    /// group's address selects the interface.
    pub interface: Option<Ipv4Addr>,
    /// Number of routers that packets may pass, plus 1. Default: 1, so packets stay in the local network.
    pub ttl: u32,
}

impl Default for MulticastConfig {
    fn default() -> Self {
        Self { interface: None, ttl: 1 }
    }
}

/// One group.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupConfig {
    /// Number of the group; unique in this file, because requests do not name their chain.
    pub group: u32,
    /// Chain of the group.
    pub chain_id: u64,
    /// Epoch, newer than all epochs in which this sequencer has served the group.
    pub epoch: u32,
    /// Suite: 1 or 2 (keyed hashes), 4 (ECDSA secp256k1) or 5 (ed25519).
    pub suite: u8,
    /// Stamp requests. Default: true. If false, requests are counted and dropped, and the epoch is not used.
    #[serde(default = "default_active")]
    pub active: bool,
    /// File with the secret key: 64 hex digits, mode 0600. Suites 1 and 2: X25519. Relative to the configuration file.
    pub key: PathBuf,
    /// Multicast address and port to which the receivers listen; for the back ends `multicast` and `gso`.
    pub multicast: Option<SocketAddr>,
    /// Receivers, by index: 1 to 64 for suites 1 and 2, up to 256 for the others.
    #[serde(default)]
    pub receivers: Vec<ReceiverConfig>,
}

/// One receiver.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceiverConfig {
    /// UDP address; not needed if the group has a multicast address.
    pub address: Option<SocketAddr>,
    /// X25519 public key, 64 hex digits; needed for suites 1 and 2.
    pub exchange_key: Option<String>,
}

impl Config {
    /// Reads a configuration file and resolves its paths.
    pub fn load(path: &Path) -> Result<Self, StartError> {
        let text = std::fs::read_to_string(path).map_err(StartError::io("read", path.display()))?;
        let mut config: Self =
            toml::from_str(&text).map_err(|error| StartError::Config(format!("read {}: {error}", path.display())))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        for group in &mut config.groups {
            group.key = folder.join(&group.key);
        }
        Ok(config)
    }

    /// Checks everything that needs no keys.
    pub(crate) fn check(&self) -> Result<(), StartError> {
        let fail = |text: String| Err(StartError::Config(text));
        if !(1..=MAX_GROUPS).contains(&self.groups.len()) {
            return fail(format!("groups: expected 1 to {MAX_GROUPS}, got {}", self.groups.len()));
        }
        if self.max_payload_bytes > MAX_PAYLOAD_BYTES {
            return fail(format!("max_payload_bytes: expected at most {MAX_PAYLOAD_BYTES}, got {}", self.max_payload_bytes));
        }
        if self.sign_every == 0 || self.sign_after_us == 0 || self.heartbeat_after_us == 0 {
            return fail("sign_every, sign_after_us, heartbeat_after_us: expected at least 1, got 0".into());
        }
        if self.back_end == BackEnd::Gso && !cfg!(target_os = "linux") {
            return fail("back_end: \"gso\" needs Linux; use \"unicast\" or \"multicast\"".into());
        }
        let mut numbers = BTreeSet::new();
        for group in &self.groups {
            if !numbers.insert(group.group) {
                return fail(format!("group {}: expected one entry, got two; requests do not name their chain", group.group));
            }
            group.check(self.back_end)?;
        }
        Ok(())
    }

    /// Returns the epochs of active groups.
    pub(crate) fn epochs(&self) -> Vec<GroupEpoch> {
        let active = self.groups.iter().filter(|group| group.active);
        active.map(|group| GroupEpoch { chain_id: group.chain_id, group: group.group, epoch: group.epoch }).collect()
    }

    /// Makes the decider, with counters at the beginning of their epochs.
    ///
    /// [`Sequencer::start`](crate::Sequencer::start) records the epochs before the first stamp.
    pub fn core(&self, secrets: &Secrets) -> Result<Core, StartError> {
        self.check()?;
        let timing = Timing {
            sign_after: Duration::from_micros(self.sign_after_us),
            heartbeat_after: Duration::from_micros(self.heartbeat_after_us),
        };
        let mut core = Core::new(timing, self.check_digests, self.max_payload_bytes);
        for group in &self.groups {
            let stamper = group.active.then(|| group.stamper(secrets, self.sign_every)).transpose()?;
            core.add(group.group, stamper);
        }
        Ok(core)
    }

    /// Returns the public key of each group, as hex: X25519 for suites 1 and 2, else the key that verifies signatures.
    pub fn public_keys(&self, secrets: &Secrets) -> Result<Vec<(u32, String)>, StartError> {
        self.groups.iter().map(|group| Ok((group.group, hex::encode(group.public_key(secrets)?)))).collect()
    }

    /// Returns the destinations of each group.
    pub(crate) fn destinations(&self) -> Vec<(u32, Destinations)> {
        self.groups.iter().map(|group| (group.group, group.destinations(self.back_end))).collect()
    }
}

impl GroupConfig {
    fn fail<T>(&self, text: impl std::fmt::Display) -> Result<T, StartError> {
        Err(StartError::Config(format!("group {}: {text}", self.group)))
    }

    fn suite(&self) -> Result<Suite, StartError> {
        match Suite::try_from(self.suite) {
            Ok(Suite::HalfSipHash64) => {
                self.fail("suite 3 has keys of 8 bytes and is only for switches; use suite 1 or 2, and new keys")
            }
            Ok(suite) => Ok(suite),
            Err(_) => self.fail(format!("suite: expected 1, 2, 4 or 5, got {}", self.suite)),
        }
    }

    fn check(&self, back_end: BackEnd) -> Result<(), StartError> {
        let suite = self.suite()?;
        let (min, max) = if suite.kind() == Kind::Hm { (1, MAX_RECEIVERS) } else { (0, MAX_PK_RECEIVERS) };
        if !(min..=max).contains(&self.receivers.len()) {
            return self.fail(format!("receivers: expected {min} to {max} for suite {suite}, got {}", self.receivers.len()));
        }
        if let Some(address) = self.multicast.filter(|address| !address.ip().is_multicast()) {
            return self.fail(format!("multicast: expected a multicast address, got {address}"));
        }
        if back_end == BackEnd::Multicast && self.multicast.is_none() {
            return self.fail("multicast: expected an address for the back end \"multicast\", got none");
        }
        if back_end == BackEnd::Unicast && self.multicast.is_some() {
            return self.fail("multicast: the back end \"unicast\" does not use it; remove it, or use another back end");
        }
        if self.multicast.is_none() {
            if self.receivers.is_empty() {
                return self.fail("receivers: expected at least 1 without a multicast address, got 0");
            }
            if let Some(index) = self.receivers.iter().position(|receiver| receiver.address.is_none()) {
                return self
                    .fail(format!("receiver {index}: expected an address, because packets go to each receiver; got none"));
            }
        }
        Ok(())
    }

    fn destinations(&self, back_end: BackEnd) -> Destinations {
        match self.multicast.filter(|_| back_end != BackEnd::Unicast) {
            Some(address) => vec![address],
            None => self.receivers.iter().filter_map(|receiver| receiver.address).collect(),
        }
    }

    fn secret<'a>(&self, secrets: &'a Secrets) -> Result<&'a [u8; 32], StartError> {
        secrets.get(&self.group).map_or_else(|| self.fail("key: expected a secret key, got none"), |key| Ok(&**key))
    }

    fn public_key(&self, secrets: &Secrets) -> Result<Vec<u8>, StartError> {
        let (suite, secret) = (self.suite()?, self.secret(secrets)?);
        match suite.kind() {
            Kind::Hm => Ok(ExchangeKey::from_bytes(*secret).public().to_vec()),
            Kind::Pk => match SigningKey::from_bytes(suite, secret) {
                Ok(key) => Ok(key.verifying_key().to_bytes()),
                Err(error) => self.fail(error),
            },
        }
    }

    fn stamper(&self, secrets: &Secrets, sign_every: u32) -> Result<Stamper, StartError> {
        let (suite, secret) = (self.suite()?, self.secret(secrets)?);
        let stamper = match suite.kind() {
            Kind::Hm => {
                let own = ExchangeKey::from_bytes(*secret);
                let mut keys = Vec::new();
                for (index, receiver) in (0..).zip(&self.receivers) {
                    let public = receiver.exchange_key.as_deref().unwrap_or_default();
                    let mut bytes = [0; 32];
                    if hex::decode_to_slice(public, &mut bytes).is_err() {
                        return self.fail(format!("receiver {index}: exchange_key: expected 64 hex digits, got {public:?}"));
                    }
                    let scope =
                        TagScope { chain_id: self.chain_id, group: self.group, epoch: self.epoch, receiver: index, suite };
                    match own.agree(bytes).and_then(|shared| derive_tag_key(&shared, scope)) {
                        Ok(key) => keys.push(key),
                        Err(error) => return self.fail(format!("receiver {index}: {error}")),
                    }
                }
                Stamper::hm(keys)
            }
            Kind::Pk => SigningKey::from_bytes(suite, secret)
                .and_then(|key| Stamper::pk(self.chain_id, self.group, self.epoch, key, sign_every)),
        };
        stamper.or_else(|error| self.fail(error))
    }
}

fn default_check_digests() -> bool {
    true
}

fn default_active() -> bool {
    true
}

fn default_max_payload_bytes() -> usize {
    MAX_PAYLOAD_BYTES
}

fn default_sign_every() -> u32 {
    32
}

fn default_sign_after_us() -> u64 {
    100
}

fn default_heartbeat_after_us() -> u64 {
    1000
}
