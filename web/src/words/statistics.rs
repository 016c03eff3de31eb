//! Texts about daily statistics and charts.

/// Note above the charts.
pub const NOTE: &str = "Days of chain time (UTC). The newest day is incomplete.";
/// Heading above the table.
pub const TABLE: &str = "Days";
/// Column header.
pub const DAY: &str = "Day (UTC)";
/// Column header and chart caption.
pub const BLOCKS: &str = "Blocks";
/// Column header and chart caption.
pub const TRANSACTIONS: &str = "Transactions";
/// Column header and chart caption.
pub const FAILED: &str = "Reverted transactions";
/// Column header and chart caption.
pub const SKIPPED: &str = "Skipped transactions";
/// Column header and chart caption.
pub const GAS: &str = "Gas used";
/// Column header and chart caption.
pub const TRANSFERS: &str = "Token transfers";
/// Column header and chart caption.
pub const CONTRACTS: &str = "Contracts created";
/// Column header and chart caption.
pub const NEW_ACCOUNTS: &str = "New accounts";
/// Link to earlier days.
pub const EARLIER: &str = "Previous days";
/// Link to the newest days.
pub const NEWEST: &str = "Latest days";
/// Error: invalid date.
pub const BAD_DATE: &str = "Invalid date: expected YYYY-MM-DD, such as 2026-01-31.";

/// Parts of a chart's accessible name.
pub mod chart {
    /// Label before the first bar.
    pub const FIRST: &str = "First:";
    /// Label before the last bar.
    pub const LAST: &str = "Last:";
    /// Label before the highest bar.
    pub const HIGHEST: &str = "Highest:";
}
