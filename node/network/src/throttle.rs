//! Rate limit of a peer, in messages and bytes.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// A rate limit that makes the reader wait, which the peer's flow control then feels.
///
/// Kept as one time: when the peer's spending so far will have been earned. It may be [`BURST`] ahead of the clock.
pub(crate) struct Throttle {
    earned: Mutex<Instant>,
    per_frame: Duration,
    nanos_per_kib: u64,
}

/// Largest burst of a peer.
const BURST: Duration = Duration::from_secs(1);

impl Throttle {
    /// One that counts bytes only.
    pub fn of_bytes(bytes_per_second: u32) -> Self {
        Self::new(u32::MAX, bytes_per_second)
    }

    pub fn new(frames_per_second: u32, bytes_per_second: u32) -> Self {
        Self {
            earned: Mutex::new(Instant::now()),
            per_frame: Duration::from_secs(1) / frames_per_second.max(1),
            nanos_per_kib: 1024 * 1_000_000_000 / u64::from(bytes_per_second.max(1)),
        }
    }

    /// Waits until a message of `length` bytes may be read. Says whether it had to.
    pub async fn wait(&self, length: usize) -> bool {
        let until = self.spend(Instant::now(), length);
        match until {
            None => false,
            Some(until) => {
                tokio::time::sleep_until(until).await;
                true
            }
        }
    }

    /// Waits until what was charged so far has been earned.
    pub async fn paid(&self) {
        loop {
            let until = self.lock().checked_sub(BURST);
            match until.filter(|until| *until > Instant::now()) {
                Some(until) => tokio::time::sleep_until(until).await,
                None => return,
            }
        }
    }

    /// Counts `length` bytes that have been sent.
    pub fn charge(&self, length: usize) {
        self.spend(Instant::now(), length);
    }

    fn spend(&self, now: Instant, length: usize) -> Option<Instant> {
        let bytes = Duration::from_nanos((length as u64).saturating_mul(self.nanos_per_kib) / 1024);
        let mut earned = self.lock();
        *earned = (*earned).max(now) + self.per_frame.max(bytes);
        earned.checked_sub(BURST).filter(|until| *until > now)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Instant> {
        self.earned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn burst_then_average_rate() {
        let throttle = Throttle::new(100, 1024 * 1024);
        let start = Instant::now();
        *throttle.earned.lock().unwrap() = start;
        for _ in 0..100 {
            assert_eq!(throttle.spend(start, 10), None);
        }
        assert_eq!(throttle.spend(start, 10), Some(start + Duration::from_millis(10)));
        assert_eq!(throttle.spend(start, 10), Some(start + Duration::from_millis(20)));
        assert_eq!(throttle.spend(start + Duration::from_secs(10), 10), None, "a quiet time is a new burst");
    }

    #[tokio::test]
    async fn scarcer_limit_counts() {
        let throttle = Throttle::new(1000, 1024);
        let start = Instant::now();
        *throttle.earned.lock().unwrap() = start;
        assert_eq!(throttle.spend(start, 1024), None);
        let until = throttle.spend(start, 1024).expect("the second KiB waits");
        assert_eq!(until.duration_since(start).as_millis(), 1000);
    }
}
