//! The current time, and the length of a day.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds of a day.
pub const DAY_MS: u64 = 86_400_000;

/// Returns the current Unix time in milliseconds.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
