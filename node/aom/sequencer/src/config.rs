//! Configuration file.

use crate::{BackEnd, StartError, Timing};
use corniche_aom_wire::{MAX_CHAIN, MAX_PAYLOAD_BYTES};
use serde::Deserialize;
use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

/// Receivers follow a hash chain no farther.
const MAX_SIGN_EVERY: u32 = MAX_CHAIN as u32;

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
    /// Maximum size of a payload in bytes, up to 8,800. Default: the engine parameter `payload_bytes` of the genesis. Packets above the
    /// path's MTU are fragmented; 1,232 fits one Ethernet frame.
    pub max_payload_bytes: Option<usize>,
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
    /// The back end `xdp`.
    pub xdp: Option<XdpConfig>,
    /// Groups, 1 to 64. [`Sequencer::start`](crate::Sequencer::start) takes them with their genesis and keys.
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

/// The back end `xdp`. Packets go to this host only: a device that also sent them to other hosts would have to replace the source
/// addresses of frames.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct XdpConfig {
    /// Network interface at which requests arrive.
    pub interface: String,
    /// How the program is attached to it. Default: `"native"`.
    #[serde(default)]
    pub mode: XdpMode,
}

/// How an XDP program is attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum XdpMode {
    /// In the driver of the interface. Not all have it.
    #[default]
    Native,
    /// In the network stack, for any interface; slower.
    Generic,
}

/// One group. Its genesis defines chain, number, suite, sequencers and receivers. Paths are relative to the configuration file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupConfig {
    /// Genesis file of the network.
    pub genesis: PathBuf,
    /// File with the secret key: 64 hex digits, mode 0600.
    pub key: PathBuf,
    /// UDP addresses of the receivers, in the order of the validators. Empty if the group has a multicast address.
    #[serde(default)]
    pub receivers: Vec<SocketAddr>,
    /// Multicast address and port to which the receivers listen; for the back ends `multicast`, `gso` and `xdp`.
    pub multicast: Option<SocketAddr>,
}

impl Config {
    /// Returns a configuration with all defaults and without groups.
    pub fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            admin: None,
            back_end: BackEnd::default(),
            max_payload_bytes: None,
            sign_every: default_sign_every(),
            sign_after_us: default_sign_after_us(),
            heartbeat_after_us: default_heartbeat_after_us(),
            multicast: MulticastConfig::default(),
            xdp: None,
            groups: Vec::new(),
        }
    }

    /// Reads a configuration file, resolves its paths, and checks everything that needs neither genesis nor keys.
    pub fn load(path: &Path) -> Result<Self, StartError> {
        let text = std::fs::read_to_string(path).map_err(StartError::io("read", path.display()))?;
        let mut config: Self =
            toml::from_str(&text).map_err(|error| StartError::Config(format!("read {}: {error}", path.display())))?;
        config.check()?;
        let folder = path.parent().unwrap_or(Path::new("."));
        for group in &mut config.groups {
            group.genesis = folder.join(&group.genesis);
            group.key = folder.join(&group.key);
        }
        Ok(config)
    }

    pub(crate) fn check(&self) -> Result<(), StartError> {
        let fail = |text: String| Err(StartError::Config(text));
        if let Some(bytes) = self.max_payload_bytes.filter(|bytes| *bytes > MAX_PAYLOAD_BYTES) {
            return fail(format!("max_payload_bytes: expected at most {MAX_PAYLOAD_BYTES}, got {bytes}"));
        }
        if !(1..=MAX_SIGN_EVERY).contains(&self.sign_every) {
            return fail(format!("sign_every: expected 1 to {MAX_SIGN_EVERY}, got {}", self.sign_every));
        }
        if self.sign_after_us == 0 || self.heartbeat_after_us == 0 {
            return fail("sign_after_us, heartbeat_after_us: expected at least 1, got 0".into());
        }
        match (&self.xdp, self.back_end) {
            (None, BackEnd::Xdp) => {
                return fail("xdp: expected a table with `interface` for the back end \"xdp\", got none".into());
            }
            (Some(_), BackEnd::Unicast | BackEnd::Multicast | BackEnd::Gso) => {
                return fail("xdp: only the back end \"xdp\" uses it; remove it, or set `back_end = \"xdp\"`".into());
            }
            (Some(_), BackEnd::Xdp) if !cfg!(feature = "xdp") => {
                return fail(
                    "back_end: this program was built without \"xdp\"; build it with `--features corniche/xdp` (needs clang and libbpf-dev)"
                        .into(),
                );
            }
            _ => {}
        }
        if self.back_end == BackEnd::Gso && !cfg!(target_os = "linux") {
            return fail("back_end: \"gso\" needs Linux; use \"unicast\" or \"multicast\"".into());
        }
        Ok(())
    }

    pub(crate) fn timing(&self) -> Timing {
        Timing {
            sign_after: Duration::from_micros(self.sign_after_us),
            heartbeat_after: Duration::from_micros(self.heartbeat_after_us),
        }
    }
}

impl GroupConfig {
    /// Returns the addresses to which each packet goes: the multicast address, or one for each validator.
    pub fn destinations(&self, back_end: BackEnd, validators: usize) -> Result<Vec<SocketAddr>, StartError> {
        let fail = |text: String| Err(StartError::Config(text));
        if let Some(address) = self.multicast {
            if back_end == BackEnd::Unicast {
                return fail("multicast: the back end \"unicast\" does not use it; remove it, or use another back end".into());
            }
            if !address.ip().is_multicast() {
                return fail(format!("multicast: expected a multicast address, got {address}"));
            }
            if !self.receivers.is_empty() {
                return fail("receivers: packets go to the multicast address; remove one of both".into());
            }
            return Ok(vec![address]);
        }
        if matches!(back_end, BackEnd::Multicast | BackEnd::Xdp) {
            return fail("multicast: expected an address for the back ends \"multicast\" and \"xdp\", got none".into());
        }
        if self.receivers.len() != validators {
            let got = self.receivers.len();
            return fail(format!(
                "receivers: expected {validators} addresses, one for each validator in the order of the genesis, got {got}"
            ));
        }
        Ok(self.receivers.clone())
    }
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
