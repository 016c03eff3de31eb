//! What a connection shows of its peer besides messages: what its software calls itself, and how far away it is.

use crate::Peer;
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

/// What this software calls itself to its peers.
pub const AGENT_VERSION: &str = concat!("corniche/", env!("CARGO_PKG_VERSION"));

/// Characters that are kept of what a peer calls itself.
const AGENT_VERSION_CHARS: usize = 64;

/// A peer that is up, and what is known of it. Where it is (its address) is not part of this: that is told to nobody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerInfo {
    pub peer: Peer,
    /// When the link came up, by the system's clock.
    pub connected: SystemTime,
    /// What its software calls itself. Its own word: nobody checks it, but it is short and can be printed. `None` until it says
    /// something of which this can be said.
    pub agent_version: Option<String>,
    /// Of the last ping that it answered.
    pub round_trip: Option<Duration>,
}

/// Written by the driver, read through the link.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed(Arc<Mutex<(Option<String>, Option<Duration>)>>);

impl Observed {
    pub fn introduced(&self, agent_version: &str) {
        self.lock().0 = printable(agent_version);
    }

    pub fn answered(&self, round_trip: Duration) {
        self.lock().1 = Some(round_trip);
    }

    /// What the peer calls itself, and the last round trip.
    pub fn now(&self) -> (Option<String>, Option<Duration>) {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, (Option<String>, Option<Duration>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stranger's text as far as it is plain ASCII.
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
    fn what_a_peer_calls_itself_is_short_and_plain() {
        assert_eq!(printable(AGENT_VERSION).as_deref(), Some(AGENT_VERSION));
        assert_eq!(printable("\u{1b}[31m red\r\n\u{202e}\0").as_deref(), Some("[31m red"));
        assert_eq!(printable(&"v".repeat(4_096)), Some("v".repeat(64)));
        assert_eq!([printable(""), printable(" \n\u{200b}")], [None, None]);
    }

    #[test]
    fn the_last_word_counts() {
        let observed = Observed::default();
        assert_eq!(observed.now(), (None, None));
        for (version, ms) in [("corniche/1", 7), ("corniche/2", 9)] {
            observed.introduced(version);
            observed.answered(Duration::from_millis(ms));
            assert_eq!(observed.now(), (Some(version.into()), Some(Duration::from_millis(ms))));
        }
    }
}
