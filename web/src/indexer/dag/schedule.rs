//! Decides when to poll the node's DAG. Pure: time is an argument.
//!
//! A node that notifies is polled after a notification, any other node at intervals.

use super::super::subscription::DagNotice;
use std::time::{Duration, Instant};

/// Pause between polls without a subscription.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Pause between polls with notifications. A working network always has more, and each response has some hundred
/// vertices.
const NOTIFIED_INTERVAL: Duration = Duration::from_millis(200);

/// Pause between polls while there are no notifications. The connection may have failed unnoticed.
const QUIET_INTERVAL: Duration = Duration::from_secs(5);

/// Pause after a rejection: a full node has no DAG.
const REFUSED_PAUSE: Duration = Duration::from_secs(60);

/// Time of the next poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextPoll {
    /// There is more to request, with or without a notification.
    AtOnce,
    /// After a pause that depends on notifications.
    After(Instant),
    /// Not before this time, even after a notification.
    NotBefore(Instant),
}

impl NextPoll {
    /// Returns the time after a complete poll. At least as much time passes between polls as the last one took, because
    /// responses are large for a large committee.
    pub fn after_poll(began: Instant, ended: Instant) -> Self {
        Self::After(ended + ended.saturating_duration_since(began))
    }

    /// Returns the time after a rejection.
    pub fn after_refusal(now: Instant) -> Self {
        Self::NotBefore(now + REFUSED_PAUSE)
    }

    /// Returns `true` if a poll is due.
    pub fn is_due(self, now: Instant, notifications: DagNotice) -> bool {
        let pause = match notifications {
            DagNotice::NotSubscribed => POLL_INTERVAL,
            DagNotice::Quiet => QUIET_INTERVAL,
            DagNotice::Grew => NOTIFIED_INTERVAL,
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

    const ALL_NOTICES: [DagNotice; 3] = [DagNotice::NotSubscribed, DagNotice::Quiet, DagNotice::Grew];

    #[test]
    fn poll_is_due_after_notification_or_interval() {
        let look = Instant::now();
        let is_due = |ms, notifications| NextPoll::After(look).is_due(look + Duration::from_millis(ms), notifications);
        for (notifications, pause_ms) in [(DagNotice::NotSubscribed, 500), (DagNotice::Grew, 200), (DagNotice::Quiet, 5_000)] {
            assert!(
                !is_due(0, notifications) && !is_due(pause_ms - 1, notifications) && is_due(pause_ms, notifications),
                "{notifications:?}"
            );
        }
    }

    #[test]
    fn slow_poll_is_followed_by_equal_pause() {
        let began = Instant::now();
        let ended = began + Duration::from_secs(3);
        let next = NextPoll::after_poll(began, ended);
        assert!(!next.is_due(ended + Duration::from_secs(3), DagNotice::Grew));
        assert!(next.is_due(ended + Duration::from_secs(4), DagNotice::Grew));
    }

    #[test]
    fn catch_up_and_refusal_ignore_notifications() {
        let now = Instant::now();
        let refused = NextPoll::after_refusal(now);
        for notifications in ALL_NOTICES {
            assert!(NextPoll::AtOnce.is_due(now, notifications));
            assert!(!refused.is_due(now + Duration::from_secs(59), notifications));
            assert!(refused.is_due(now + Duration::from_secs(60), notifications));
        }
    }
}
