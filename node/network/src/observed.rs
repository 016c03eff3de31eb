//! Information about a connected peer besides its messages: software version and round-trip time.

use crate::Peer;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

/// Agent version sent to peers.
pub const AGENT_VERSION: &str = concat!("corniche/", env!("CARGO_PKG_VERSION"));

/// Maximum number of characters kept of a peer's agent version.
const AGENT_VERSION_CHARS: usize = 64;

/// Connected peer with its known information. Omits its address, which is never published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerInfo {
    pub peer: Peer,
    /// Time when the link came up, by the system's clock.
    pub connected: SystemTime,
    /// Agent version sent by the peer. Unverified, but short and printable. `None` until it sends printable
    /// text.
    pub agent_version: Option<String>,
    /// Round-trip time of the last answered ping.
    pub round_trip: Option<Duration>,
}

/// Written by the driver, read through the link.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed(Arc<Mutex<(Option<String>, Option<Duration>)>>);

impl Observed {
    pub fn set_agent_version(&self, agent_version: &str) {
        self.lock().0 = printable(agent_version);
    }

    pub fn set_round_trip(&self, round_trip: Duration) {
        self.lock().1 = Some(round_trip);
    }

    /// Agent version of the peer, and last round-trip time.
    pub fn get(&self) -> (Option<String>, Option<Duration>) {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, (Option<String>, Option<Duration>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps only the plain ASCII characters of a stranger's text.
fn printable(text: &str) -> Option<String> {
    let plain = |character: &char| character.is_ascii_graphic() || *character == ' ';
    let kept: String = text.chars().filter(plain).take(AGENT_VERSION_CHARS).collect();
    let kept = kept.trim();
    (!kept.is_empty()).then(|| kept.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_version_is_sanitised() {
        assert_eq!(printable(AGENT_VERSION).as_deref(), Some(AGENT_VERSION));
        assert_eq!(printable("\u{1b}[31m red\r\n\u{202e}\0").as_deref(), Some("[31m red"));
        assert_eq!(printable(&"v".repeat(4_096)), Some("v".repeat(64)));
        assert_eq!([printable(""), printable(" \n\u{200b}")], [None, None]);
    }

    #[test]
    fn last_value_counts() {
        let observed = Observed::default();
        assert_eq!(observed.get(), (None, None));
        for (version, ms) in [("corniche/1", 7), ("corniche/2", 9)] {
            observed.set_agent_version(version);
            observed.set_round_trip(Duration::from_millis(ms));
            assert_eq!(observed.get(), (Some(version.into()), Some(Duration::from_millis(ms))));
        }
    }
}
