//! Texts about daily statistics and charts.

pub const NOTE: &str = "Days of chain time (UTC). The newest day is incomplete.";
pub const TABLE: &str = "Days";
pub const DAY: &str = "Day (UTC)";
pub const BLOCKS: &str = "Blocks";
pub const TRANSACTIONS: &str = "Transactions";
pub const FAILED: &str = "Reverted transactions";
pub const SKIPPED: &str = "Skipped transactions";
pub const GAS: &str = "Gas used";
pub const TRANSFERS: &str = "Token transfers";
pub const CONTRACTS: &str = "Contracts created";
pub const NEW_ACCOUNTS: &str = "New accounts";
pub const EARLIER: &str = "Previous days";
pub const NEWEST: &str = "Latest days";
pub const BAD_DATE: &str = "Invalid date: expected YYYY-MM-DD, such as 2026-01-31.";

/// Parts of a chart's accessible name.
pub mod chart {
    pub const FIRST: &str = "First:";
    pub const LAST: &str = "Last:";
    pub const HIGHEST: &str = "Highest:";
}
