//! Time between an engine's proposals.

/// Minimum time between two proposals, ms: `least_ms`, and up to `max_stretch` times as long as `bytes` approaches
/// `full_bytes`. A proposal costs the same votes and messages regardless of its bytes, so large ones may be rarer.
/// `max_stretch` and `full_bytes` must not be zero.
pub fn stretched_ms(least_ms: u64, max_stretch: u64, bytes: usize, full_bytes: usize) -> u64 {
    least_ms + least_ms * (max_stretch - 1) * bytes.min(full_bytes) as u64 / full_bytes as u64
}
