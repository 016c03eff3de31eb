//! Texts about daily statistics and charts.

/// Note above the charts.
pub const NOTE: &str = "Days are of the chain's time, UTC; the newest one is not over.";
/// Heading above the table.
pub const TABLE: &str = "Day by day";
/// Column header.
pub const DAY: &str = "Day (UTC)";
/// Column header and chart caption.
pub const BLOCKS: &str = "Blocks";
/// Column header and chart caption.
pub const TRANSACTIONS: &str = "Transactions";
/// Column header and chart caption.
pub const FAILED: &str = "Reverted";
/// Column header and chart caption.
pub const SKIPPED: &str = "Ordered and skipped";
/// Column header and chart caption.
pub const GAS: &str = "Gas used";
/// Column header and chart caption.
pub const TRANSFERS: &str = "Token transfers";
/// Column header and chart caption.
pub const CONTRACTS: &str = "Contracts made";
/// Column header and chart caption.
pub const NEW_ACCOUNTS: &str = "New accounts";
/// Link to earlier days.
pub const EARLIER: &str = "Earlier days";
/// Link to the newest days.
pub const NEWEST: &str = "Newest days";
/// Error: invalid date.
pub const BAD_DATE: &str = "A day is written as a date: 2026-01-31.";

/// Parts of a chart's accessible name.
pub mod chart {
    /// Label before the first bar.
    pub const FIRST: &str = "First:";
    /// Label before the last bar.
    pub const LAST: &str = "Last:";
    /// Label before the highest bar.
    pub const HIGHEST: &str = "Highest:";
}
