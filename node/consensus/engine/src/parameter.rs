//! Numeric parameters of engines in a genesis.

use std::ops::RangeInclusive;

/// Maximum of most durations among the parameters, ms.
pub const DAY_MS: u64 = 86_400_000;

/// Returns `value` if it is in `range`.
///
/// # Errors
/// Names the engine, the parameter, the range and the value.
pub fn parameter_within(engine: &str, name: &str, value: u64, range: RangeInclusive<u64>) -> Result<u64, String> {
    let (least, most) = (range.start(), range.end());
    range
        .contains(&value)
        .then_some(value)
        .ok_or_else(|| format!("{engine} parameter {name}: expected {least} to {most}, got {value}"))
}
