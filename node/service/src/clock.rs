//! The clock of a node: Unix time in milliseconds that never goes back and never stands still.
//!
//! Timeouts and proposals' timestamps use one clock. A system clock that is set back would stop every timeout until it had
//! caught up, so time then goes on at half speed instead.

use corniche_types::TimestampMs;
use std::{
    sync::Mutex,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

static CLOCK: Mutex<Option<(Clock, Instant)>> = Mutex::new(None);

/// Returns the time, which is never less than in an earlier call.
pub fn now() -> TimestampMs {
    let system = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut guard = CLOCK.lock().expect("invariant: nobody panics while holding the clock");
    let instant = Instant::now();
    let (clock, read_at) = guard.get_or_insert((Clock::default(), instant));
    let elapsed = instant.saturating_duration_since(*read_at);
    *read_at = instant;
    let was_ahead = clock.is_ahead;
    let now = clock.read(system, elapsed);
    if clock.is_ahead && !was_ahead {
        let ms = u128::from(now.0).saturating_sub(system.as_millis());
        tracing::warn!(
            ms,
            "the system clock was set back; this node's time runs at half speed until they agree. Restart the node to follow at once"
        );
    }
    now
}

/// A longer difference between the two clocks is reported.
const TOLERANCE: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Clock {
    /// Time since the Unix epoch at the last reading.
    time: Duration,
    /// The system clock was more than [`TOLERANCE`] behind at the last reading.
    is_ahead: bool,
}

impl Clock {
    /// `elapsed`: time since the last reading on a clock that nobody sets.
    fn read(&mut self, system: Duration, elapsed: Duration) -> TimestampMs {
        self.time = system.max(self.time.saturating_add(elapsed / 2));
        self.is_ahead = self.time > system.saturating_add(TOLERANCE);
        TimestampMs(u64::try_from(self.time.as_millis()).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    #[test]
    fn clock_slows_down_after_set_back() {
        let start = Duration::from_secs(1_700_000_000);
        let mut clock = Clock::default();
        assert_eq!(clock.read(start, Duration::ZERO).0, 1_700_000_000_000);
        // The system clock is an hour ahead for a moment.
        assert_eq!(clock.read(start + HOUR, Duration::ZERO).0, 1_700_003_600_000);
        assert!(!clock.is_ahead);
        let mut last = 1_700_003_600_000;
        for second in 1..7_200 {
            // Readings a microsecond apart lose nothing.
            clock.read(start, Duration::from_micros(1));
            let now = clock.read(start + Duration::from_secs(second), Duration::from_micros(999_999)).0;
            assert!((last + 499..=last + 501).contains(&now), "{last} and then {now}");
            assert_eq!(clock.is_ahead, second < 7_198);
            last = now;
        }
        // It has caught up after two hours.
        let now = clock.read(start + 2 * HOUR + Duration::from_secs(1), Duration::from_secs(2));
        assert_eq!(now.0, 1_700_007_201_000);
    }
}
