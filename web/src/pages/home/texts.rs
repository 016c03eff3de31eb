//! Texts of the home page.

pub const TITLE: &str = "Network overview";
pub const NEWEST: &str = "Latest block";
pub const CERTIFIED: &str = "Finalized block";
pub const THROUGHPUT: &str = "Transactions per second";
pub const THROUGHPUT_NOTE: &str = "average over the last minute of blocks";
pub const STALE: &str =
    "The latest finalized block is more than 3 minutes old. The network may have stopped, or the node lags behind.";
pub const LATENCY: &str = "Time to finality";
pub const LATENCY_NOTE: &str = "median time from ordering to certificate of the last 100 blocks, as observed by this explorer. It includes the \
     polling interval of the explorer, which is longer under load";
pub const TOTAL: &str = "Total transactions";
pub const ACCOUNTS: &str = "Total accounts";
pub const LATEST_BLOCKS: &str = "Latest blocks";
pub const LATEST_TRANSACTIONS: &str = "Latest transactions";
pub const CHART_THROUGHPUT: &str = "Transactions per second, last minute";
pub const CHART_LATENCY: &str = "Time to finality, as observed here";
pub const PER_SECOND: &str = "tx/s";
pub const MS: &str = "ms";
pub const HEALTH: &str = "Validators";
pub const EMPTY: &str = "No blocks yet. The first transaction starts a block.";

/// Label of a bar of the throughput chart.
pub fn second_before(seconds: usize, transactions: &str) -> String {
    format!("{transactions} {PER_SECOND}, {seconds} s before the newest block")
}
