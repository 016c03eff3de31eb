//! Of days and charts.

/// Above the charts.
pub const NOTE: &str = "Days are of the chain's time, UTC; the newest one is not over.";
/// The table.
pub const TABLE: &str = "Day by day";
/// Columns.
pub const DAY: &str = "Day (UTC)";
/// Columns and charts.
pub const BLOCKS: &str = "Blocks";
/// Columns and charts.
pub const TRANSACTIONS: &str = "Transactions";
/// Columns and charts.
pub const FAILED: &str = "Reverted";
/// Columns and charts.
pub const SKIPPED: &str = "Ordered and skipped";
/// Columns and charts.
pub const GAS: &str = "Gas used";
/// Columns and charts.
pub const TRANSFERS: &str = "Token transfers";
/// Columns and charts.
pub const CONTRACTS: &str = "Contracts made";
/// Columns and charts.
pub const NEW_ACCOUNTS: &str = "New accounts";
/// Back.
pub const EARLIER: &str = "Earlier days";
/// To the end.
pub const NEWEST: &str = "Newest days";
/// What cannot be read.
pub const BAD_DATE: &str = "A day is written as a date: 2026-01-31.";

/// Of charts, to those who do not see them.
pub mod chart {
    /// Before a bar.
    pub const FIRST: &str = "First:";
    /// Before a bar.
    pub const LAST: &str = "Last:";
    /// Before a bar.
    pub const HIGHEST: &str = "Highest:";
}
