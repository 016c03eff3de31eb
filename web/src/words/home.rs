//! Of the home page.

/// Heading.
pub const TITLE: &str = "What the network is doing";
/// The newest block.
pub const NEWEST: &str = "Newest block";
/// The newest certified one.
pub const CERTIFIED: &str = "Certified";
/// In the last minute.
pub const THROUGHPUT: &str = "Transactions per second";
/// Explains it.
pub const THROUGHPUT_NOTE: &str = "over the last minute of blocks";
/// From order to certificate.
pub const LATENCY: &str = "Order to certificate, seen here";
/// Explains it.
pub const LATENCY_NOTE: &str = "median of the last 100 blocks seen here. It includes the time until this explorer asks its \
     node for new certificates, which is longer under load";
/// In all.
pub const TOTAL: &str = "Transactions in all";
/// In all.
pub const ACCOUNTS: &str = "Accounts";
/// The list.
pub const LATEST_BLOCKS: &str = "Latest blocks";
/// The list.
pub const LATEST_TRANSACTIONS: &str = "Latest transactions";
/// The charts.
pub const CHART_THROUGHPUT: &str = "Transactions per second in the last minute";
/// The charts.
pub const CHART_LATENCY: &str = "Time from order until this explorer saw the certificate";
/// Of an axis.
pub const PER_SECOND: &str = "tx/s";
/// Of an axis.
pub const MS: &str = "ms";
/// Who signs.
pub const HEALTH: &str = "Validators";
/// Nothing yet.
pub const EMPTY: &str = "No blocks yet. The first transaction makes one.";

/// Of a bar.
pub fn second_before(seconds: usize, transactions: &str) -> String {
    format!("{transactions} {PER_SECOND}, {seconds} s before the newest block")
}
