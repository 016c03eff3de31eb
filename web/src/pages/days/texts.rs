//! Texts about a list of days.

pub const EARLIER: &str = "Previous days";
pub const NEWEST: &str = "Latest days";
pub const BAD_DATE: &str = "Invalid date: expected YYYY-MM-DD, such as 2026-01-31.";
