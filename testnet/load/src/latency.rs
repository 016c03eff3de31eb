//! Latency percentiles.

use serde_json::{Value, json};

/// Measured latencies.
pub struct Latencies {
    /// In microseconds, sorted.
    sorted: Vec<u64>,
}

impl Latencies {
    pub fn new(mut microseconds: Vec<u64>) -> Self {
        microseconds.sort_unstable();
        Self { sorted: microseconds }
    }

    pub fn count(&self) -> usize {
        self.sorted.len()
    }

    /// Percentile in milliseconds; `share` is in tenths of a percent.
    pub fn per_mille(&self, share: usize) -> f64 {
        let rank = (self.sorted.len() * share).div_ceil(1000).max(1) - 1;
        self.sorted.get(rank).map_or(0.0, |&latency| latency as f64 / 1e3)
    }

    pub fn json(&self) -> Value {
        json!({
            "p50": self.per_mille(500),
            "p90": self.per_mille(900),
            "p99": self.per_mille(990),
            "p99.9": self.per_mille(999),
            "max": self.per_mille(1000),
        })
    }

    pub fn text(&self) -> String {
        format!(
            "p50 {:.2}, p90 {:.2}, p99 {:.2}, p99.9 {:.2}, max {:.2}",
            self.per_mille(500),
            self.per_mille(900),
            self.per_mille(990),
            self.per_mille(999),
            self.per_mille(1000)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_measured_latencies() {
        let latencies = Latencies::new((1..=100).rev().map(|at| at * 1_000).collect());
        let shares = [0, 500, 501, 990, 999, 1000].map(|share| latencies.per_mille(share));
        assert_eq!(shares, [1.0, 50.0, 51.0, 99.0, 100.0, 100.0]);
        assert_eq!(Latencies::new(Vec::new()).per_mille(990), 0.0);
    }
}
