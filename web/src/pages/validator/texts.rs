//! Texts of the page of a validator.

pub const UPTIME: &str = "Uptime";
pub const SIGNATURES: &str = "Signatures";
pub const DAY: &str = "Day (UTC)";
pub const BLOCKS_LED: &str = "Latest blocks led";
pub const BAD_INDEX: &str = "Invalid validator: expected its index in the committee, counted from 0.";

/// Error: no validator has this position.
pub fn missing(index: u64, all: usize) -> String {
    format!("Validator {index} not found: the committee has {all} validators, counted from 0.")
}
