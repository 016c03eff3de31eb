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
