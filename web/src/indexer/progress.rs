//! Decides when to log progress of a long sync.

use std::time::{Duration, Instant};

/// Minimum interval between two log lines.
const LOG_INTERVAL: Duration = Duration::from_secs(5);

/// Block and time of the last log line.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    number: u64,
    at: Instant,
}

impl Progress {
    /// Starts at this block.
    pub fn begin(number: u64, at: Instant) -> Self {
        Self { number, at }
    }

    /// Advances to this block. Returns the blocks a second since the last line if a line is due; never near the end.
    pub fn advance(&mut self, number: u64, is_near: bool, now: Instant) -> Option<f64> {
        let since = now.saturating_duration_since(self.at);
        if !is_near && since < LOG_INTERVAL {
            return None;
        }
        let before = std::mem::replace(self, Self::begin(number, now));
        (!is_near).then(|| number.saturating_sub(before.number) as f64 / since.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_logged_at_intervals() {
        let begin = Instant::now();
        let after = |seconds| begin + Duration::from_secs(seconds);
        let mut progress = Progress::begin(100, begin);
        assert_eq!(progress.advance(150, false, after(4)), None, "too soon");
        assert_eq!(progress.advance(200, false, after(5)), Some(20.0));
        assert_eq!(progress.advance(210, false, after(9)), None, "too soon after the last one");
        assert_eq!(progress.advance(210, true, after(60)), None, "near the end there is nothing to tell");
        assert_eq!(progress.advance(260, false, after(65)), Some(10.0), "since it was near the end");
    }
}
