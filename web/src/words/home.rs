//! Texts of the home page.

/// Heading.
pub const TITLE: &str = "What the network is doing";
/// Label of the newest block's number.
pub const NEWEST: &str = "Newest block";
/// Label of the newest certified block's number.
pub const CERTIFIED: &str = "Certified";
/// Label of the throughput in the last minute.
pub const THROUGHPUT: &str = "Transactions per second";
/// Explains [`THROUGHPUT`].
pub const THROUGHPUT_NOTE: &str = "over the last minute of blocks";
/// Label of the median time from order to certificate.
pub const LATENCY: &str = "Order to certificate, seen here";
/// Explains [`LATENCY`].
pub const LATENCY_NOTE: &str = "median of the last 100 blocks seen here. It includes the time until this explorer asks its \
     node for new certificates, which is longer under load";
/// Label of the total number of transactions.
pub const TOTAL: &str = "Transactions in all";
/// Label of the total number of accounts.
pub const ACCOUNTS: &str = "Accounts";
/// Heading above the list of blocks.
pub const LATEST_BLOCKS: &str = "Latest blocks";
/// Heading above the list of transactions.
pub const LATEST_TRANSACTIONS: &str = "Latest transactions";
/// Chart caption.
pub const CHART_THROUGHPUT: &str = "Transactions per second in the last minute";
/// Chart caption.
pub const CHART_LATENCY: &str = "Time from order until this explorer saw the certificate";
/// Unit on a chart axis.
pub const PER_SECOND: &str = "tx/s";
/// Unit on a chart axis.
pub const MS: &str = "ms";
/// Heading above the validators' latest signatures.
pub const HEALTH: &str = "Validators";
/// Note for a chain without blocks.
pub const EMPTY: &str = "No blocks yet. The first transaction makes one.";

/// Label of a bar of the throughput chart.
pub fn second_before(seconds: usize, transactions: &str) -> String {
    format!("{transactions} {PER_SECOND}, {seconds} s before the newest block")
}
