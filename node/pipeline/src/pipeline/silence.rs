//! A validator that lost its blocks signs no header that an earlier life may have signed otherwise (validators.md §5, K4).
//!
//! Blocks are durable before their headers are signed, so an intact block log is the record of what was signed. A validator that starts
//! without one asks nobody: it waits until it orders beside a quorum, and takes the newest certificate that it knows by then. An
//! earlier life executed at most [`AHEAD_OF_CERTIFICATION`] blocks more. Results are the same for everybody, so this matters only if
//! those of the earlier life were wrong, as after a missed upgrade.
//!
//! If nothing is certified for a while, this validator is needed, and the doubt does not count. A right header after a wrong one is not
//! punished (see the certifier).

use super::{AHEAD_OF_CERTIFICATION, Pipeline};
use corniche_types::{Height, TimestampMs};

/// Time beside a quorum after which its newest certificate is known here: peers announce it within a second.
const QUORUM_MS: u64 = 5_000;
/// Time without a certificate after which the doubt does not count.
const STALLED_MS: u64 = 30_000;

/// Doubt about headers that an earlier life may have signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Silence {
    None,
    /// No header is signed. Contains the time since when a quorum is there.
    Waiting(Option<TimestampMs>),
    /// No header up to this height is signed. Contains the newest certificate, and the time at which it was noticed.
    Through(Height, (Height, TimestampMs)),
}

impl Silence {
    /// Highest height at which nothing is signed.
    pub fn through(self) -> Height {
        match self {
            Self::None => Height(0),
            Self::Waiting(_) => Height(u64::MAX),
            Self::Through(height, _) => height,
        }
    }
}

impl Pipeline {
    pub(super) fn update_silence(&mut self, now: TimestampMs) {
        let before = self.silence;
        self.silence = match before {
            Silence::None => return,
            Silence::Waiting(_) if !self.is_beside_quorum() => return,
            Silence::Waiting(None) => Silence::Waiting(Some(now)),
            Silence::Waiting(Some(since)) if now.0 < since.0.saturating_add(QUORUM_MS) => return,
            Silence::Waiting(Some(_)) => {
                let newest = self.certified.max(self.follower.target());
                // Without any certificate the chain begins.
                let is_first = newest == Height(0);
                let through = Height(newest.0.saturating_add(AHEAD_OF_CERTIFICATION));
                if is_first { Silence::None } else { Silence::Through(through, (newest, now)) }
            }
            Silence::Through(through, (newest, since)) => {
                let (is_stalled, is_over) = (now.0 >= since.0.saturating_add(STALLED_MS), self.certified >= through);
                match self.certified > newest {
                    _ if is_over => Silence::None,
                    true => Silence::Through(through, (self.certified, now)),
                    false if is_stalled && self.appended > self.certified => Silence::None,
                    false => before,
                }
            }
        };
        if self.silence.through() != before.through() {
            self.certifier.keep_silent(self.silence.through());
        }
    }

    /// True if this validator orders, and validators of its epoch with a quorum of votes are connected.
    fn is_beside_quorum(&self) -> bool {
        let here = self.peers.values().filter(|peer| peer.epoch == self.epoch.epoch).filter_map(|peer| peer.validator);
        self.mode.is_ordering()
            && !self.is_left_behind(false)
            && self.committee.weigh(here.chain(self.own)) >= self.committee.quorum()
    }

    pub(super) fn silence_deadline(&self) -> Option<TimestampMs> {
        match self.silence {
            Silence::Waiting(Some(since)) if self.is_beside_quorum() => Some(TimestampMs(since.0.saturating_add(QUORUM_MS))),
            Silence::Through(_, (_, since)) if self.appended > self.certified => {
                Some(TimestampMs(since.0.saturating_add(STALLED_MS)))
            }
            _ => None,
        }
    }
}
