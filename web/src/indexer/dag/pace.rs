//! When the node is asked for its DAG. Pure: time is an argument.
//!
//! A node that tells when there is more is asked then. One that does not, is asked again and again.

use super::super::subscription::DagNews;
use std::time::{Duration, Instant};

/// From one look to the next, of a node that does not tell.
const UNTOLD: Duration = Duration::from_millis(500);

/// The same of one that told of more. While a network works there is always more, and each answer has some hundred vertices.
const TOLD: Duration = Duration::from_millis(200);

/// The same of one that told of nothing: a connection may be gone without anybody's knowing.
const QUIET: Duration = Duration::from_secs(5);

/// After a refusal: a full node has no DAG.
const REFUSED: Duration = Duration::from_secs(60);

/// When the next look is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// There is more to ask for, whatever the node tells.
    AtOnce,
    /// Some time after this.
    After(Instant),
    /// Not before, whatever the node tells.
    NotBefore(Instant),
}

impl Next {
    /// There was a look, of which nothing is left to ask for. At most half of the time goes by looking: of many validators the answers
    /// are large.
    pub fn looked(began: Instant, ended: Instant) -> Self {
        Self::After(ended + ended.saturating_duration_since(began))
    }

    /// There is nothing to look at.
    pub fn refused(now: Instant) -> Self {
        Self::NotBefore(now + REFUSED)
    }

    /// Whether it is time.
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
