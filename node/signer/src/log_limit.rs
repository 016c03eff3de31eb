//! Limit for log lines that requests cause.

use std::time::{Duration, Instant};

/// Shortest time between two lines of one kind.
const INTERVAL: Duration = Duration::from_secs(1);

/// Lets one line in each second pass. The engine asks for each vote at each message, so one cause would fill the log.
#[derive(Debug, Default)]
pub struct LogLimit {
    /// Time of the last line.
    last: Option<Instant>,
}

impl LogLimit {
    /// Returns whether a line may be written now. Then the next one may be written a second later.
    pub fn allows(&mut self, now: Instant) -> bool {
        let is_due = self.last.is_none_or(|last| now.saturating_duration_since(last) >= INTERVAL);
        if is_due {
            self.last = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_in_each_second() {
        let start = Instant::now();
        let mut limit = LogLimit::default();
        let at = [0, 0, 500, 999, 1_000, 1_001, 1_999, 2_500, 3_000, 3_500];
        let allowed = at.map(|ms| limit.allows(start + Duration::from_millis(ms)));
        assert_eq!(allowed, [true, false, false, false, true, false, false, true, false, true]);
    }
}
