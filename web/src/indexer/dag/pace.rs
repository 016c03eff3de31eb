//! Decides when to poll the node's DAG. Pure: time is an argument.
//!
//! A node that notifies is polled after a notification, any other node at intervals.

use super::super::subscription::DagNews;
use std::time::{Duration, Instant};

/// Pause between polls without a subscription.
const UNTOLD: Duration = Duration::from_millis(500);

/// Pause between polls with notifications. A working network always has more, and each response has some hundred
/// vertices.
const TOLD: Duration = Duration::from_millis(200);

/// Pause between polls while there are no notifications. The connection may have failed unnoticed.
const QUIET: Duration = Duration::from_secs(5);

/// Pause after a rejection: a full node has no DAG.
const REFUSED: Duration = Duration::from_secs(60);

/// Time of the next poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// There is more to request, with or without a notification.
    AtOnce,
    /// After a pause that depends on notifications.
    After(Instant),
    /// Not before this time, even after a notification.
    NotBefore(Instant),
}

impl Next {
    /// Returns the time after a complete poll. At least as much time passes between polls as the last one took, because
    /// responses are large for a large committee.
    pub fn looked(began: Instant, ended: Instant) -> Self {
        Self::After(ended + ended.saturating_duration_since(began))
    }

    /// Returns the time after a rejection.
    pub fn refused(now: Instant) -> Self {
        Self::NotBefore(now + REFUSED)
    }

    /// Returns `true` if a poll is due.
    pub fn is_due(self, now: Instant, news: DagNews) -> bool {
        let pause = match news {
            DagNews::NotTold => UNTOLD,
            DagNews::Quiet => QUIET,
            DagNews::Grew => TOLD,
        };
        match self {
            Self::AtOnce => true,
            Self::After(look) => look + pause <= now,
            Self::NotBefore(then) => then <= now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL_NEWS: [DagNews; 3] = [DagNews::NotTold, DagNews::Quiet, DagNews::Grew];

    #[test]
    fn a_look_comes_when_the_node_tells_or_when_it_is_time_to_ask() {
        let look = Instant::now();
        let is_due = |ms, news| Next::After(look).is_due(look + Duration::from_millis(ms), news);
        for (news, pause_ms) in [(DagNews::NotTold, 500), (DagNews::Grew, 200), (DagNews::Quiet, 5_000)] {
            assert!(!is_due(0, news) && !is_due(pause_ms - 1, news) && is_due(pause_ms, news), "{news:?}");
        }
    }

    #[test]
    fn a_look_that_takes_long_is_followed_by_a_pause_as_long() {
        let began = Instant::now();
        let ended = began + Duration::from_secs(3);
        let next = Next::looked(began, ended);
        assert!(!next.is_due(ended + Duration::from_secs(3), DagNews::Grew));
        assert!(next.is_due(ended + Duration::from_secs(4), DagNews::Grew));
    }

    #[test]
    fn neither_catching_up_nor_a_refusal_heeds_what_the_node_tells() {
        let now = Instant::now();
        let refused = Next::refused(now);
        for news in ALL_NEWS {
            assert!(Next::AtOnce.is_due(now, news));
            assert!(!refused.is_due(now + Duration::from_secs(59), news));
            assert!(refused.is_due(now + Duration::from_secs(60), news));
        }
    }
}
