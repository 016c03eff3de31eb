//! Token bucket of one client, connection or network: limits its rate and allows short bursts.

use std::time::{Duration, Instant};

/// Capacity of a bucket, in seconds of requests.
pub(crate) const BURST_SECONDS: u32 = 5;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TokenBucket {
    /// Time at which the bucket is full again: each request taken moves it into the future by one share.
    /// `None`: never used.
    full_at: Option<Instant>,
}

impl TokenBucket {
    /// Returns the bucket after taking one request, or the wait until one is available.
    pub fn take_one(self, per_second: u32, now: Instant) -> Result<Self, Duration> {
        let interval = Duration::from_secs(1) / per_second;
        let burst_window = interval * per_second.saturating_mul(BURST_SECONDS);
        let full_at = self.full_at.map_or(now, |full_at| full_at.max(now)) + interval;
        if full_at - now > burst_window { Err(full_at - now - burst_window) } else { Ok(Self { full_at: Some(full_at) }) }
    }

    pub fn is_full(self, now: Instant) -> bool {
        self.full_at.is_none_or(|full_at| full_at <= now)
    }
}
