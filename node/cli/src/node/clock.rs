//! The one clock: Unix milliseconds made monotone.

use corniche_types::TimestampMs;
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

static LAST: AtomicU64 = AtomicU64::new(0);

/// Now; never less than any earlier answer, also when the system clock is set back.
pub fn now() -> TimestampMs {
    let system = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    TimestampMs(LAST.fetch_max(system, Ordering::Relaxed).max(system))
}
