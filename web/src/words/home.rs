//! Texts of the home page.

/// Heading.
pub const TITLE: &str = "Network overview";
/// Label of the newest block's number.
pub const NEWEST: &str = "Latest block";
/// Label of the newest certified block's number.
pub const CERTIFIED: &str = "Finalized block";
/// Label of the throughput in the last minute.
pub const THROUGHPUT: &str = "Transactions per second";
/// Explains [`THROUGHPUT`].
pub const THROUGHPUT_NOTE: &str = "average over the last minute of blocks";
/// Label of the median time from order to certificate.
pub const LATENCY: &str = "Time to finality";
/// Explains [`LATENCY`].
pub const LATENCY_NOTE: &str = "median time from ordering to certificate of the last 100 blocks, as observed by this explorer. It includes the \
     polling interval of the explorer, which is longer under load";
/// Label of the total number of transactions.
pub const TOTAL: &str = "Total transactions";
/// Label of the total number of accounts.
pub const ACCOUNTS: &str = "Total accounts";
/// Heading above the list of blocks.
pub const LATEST_BLOCKS: &str = "Latest blocks";
/// Heading above the list of transactions.
pub const LATEST_TRANSACTIONS: &str = "Latest transactions";
/// Chart caption.
pub const CHART_THROUGHPUT: &str = "Transactions per second, last minute";
/// Chart caption.
pub const CHART_LATENCY: &str = "Time from ordering to certificate, as observed here";
/// Unit on a chart axis.
pub const PER_SECOND: &str = "tx/s";
/// Unit on a chart axis.
pub const MS: &str = "ms";
/// Heading above the validators' latest signatures.
pub const HEALTH: &str = "Validators";
/// Note for a chain without blocks.
pub const EMPTY: &str = "No blocks yet. The first transaction starts a block.";

/// Label of a bar of the throughput chart.
pub fn second_before(seconds: usize, transactions: &str) -> String {
    format!("{transactions} {PER_SECOND}, {seconds} s before the newest block")
}
