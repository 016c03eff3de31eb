//! Texts about a validator's strip of squares.

pub const OF: &str = "of";
pub const MISSED: &str = "missed";
pub const NONE_YET: &str = "no certificates yet";
pub const SIGNS: &str = "signing";
pub const SILENT: &str = "not signing";
pub const MORE: &str = "All validators";
