//! Time from the last block of an epoch to the first one of the next, as blocks become durable here.

use prometheus_client::metrics::histogram::Histogram;
use std::{
    sync::{Mutex, PoisonError},
    time::Instant,
};

const BUCKETS: [f64; 11] = [0.05, 0.1, 0.15, 0.25, 0.5, 0.75, 1.0, 2.0, 5.0, 20.0, 60.0];

/// Measures the gaps between epochs. An idle chain has long ones, because it makes no block at once.
#[derive(Debug)]
pub struct EpochGap {
    pub seconds: Histogram,
    /// Time at which the newest block became durable, if it is the last of its epoch.
    ended: Mutex<Option<Instant>>,
}

impl Default for EpochGap {
    fn default() -> Self {
        Self { seconds: Histogram::new(BUCKETS), ended: Mutex::default() }
    }
}

impl EpochGap {
    /// Notes a block that is durable now, and whether it is the last of its epoch. Blocks come in order.
    pub fn note(&self, ends_epoch: bool, now: Instant) {
        let ends = ends_epoch.then_some(now);
        let before = std::mem::replace(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner), ends);
        if let Some(before) = before {
            self.seconds.observe(now.saturating_duration_since(before).as_secs_f64());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn gaps_are_measured_once() {
        let (gap, start) = (EpochGap::default(), Instant::now());
        let blocks = [false, true, false, false, true, false].into_iter().zip([0, 10, 210, 300, 400, 430]);
        for (ends_epoch, ms) in blocks {
            gap.note(ends_epoch, start + Duration::from_millis(ms));
        }
        let mut text = String::new();
        let mut registry = prometheus_client::registry::Registry::default();
        registry.register("gap", "", gap.seconds.clone());
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in ["gap_sum 0.23", "gap_count 2", "gap_bucket{le=\"0.05\"} 1", "gap_bucket{le=\"0.25\"} 2"] {
            assert!(text.lines().any(|other| other == line), "{line} in {text}");
        }
    }
}
