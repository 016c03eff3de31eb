//! Texts about the execution of a block.

pub const TITLE: &str = "Execution";
/// Explains the section and its limits.
pub const NOTE: &str = "How the node of this explorer executed the block. Transactions run in parallel. A transaction is executed again \
     if it read a value that an earlier transaction changed. Other nodes may execute differently, with the same \
     result.";
pub const UNKNOWN: &str = "No execution statistics: the node keeps them in memory, and only for its newest blocks.";
pub const LANES: &str = "Lanes";
pub const RUNS: &str = "Executions";
pub const WAITS: &str = "Waits for earlier transactions";
pub const ADOPTED: &str = "Speculative results used";
pub const ADOPTED_NOTE: &str = "executed before the order was known, and still valid";
pub const TIME: &str = "Execution time";
pub const TIME_NOTE: &str = "until the state update, with verification of signatures";
/// Caption of the picture.
pub const LEGEND: &str = "Transactions of the block from left to right, each in the lane that produced its result. Low bar: executed once. \
     High bar: executed again. Line: speculative result used.";
pub const LANE: &str = "Lane";
pub const TRANSACTIONS: &str = "Transactions";
pub const RAN_AGAIN: &str = "Executed again";
pub const READY: &str = "Speculative results";

/// Number of lanes that ran transactions.
pub fn lanes(used: usize, threads: &str) -> String {
    format!("{used} of {threads} used")
}

/// Number of runs, and number of repeated runs.
pub fn runs(runs: &str, again: &str) -> String {
    format!("{runs}, of which {again} again")
}

/// Accessible name of the picture.
pub fn picture(transactions: &str, lanes: usize, again: &str, ready: &str) -> String {
    let (transactions, lanes) = (counted(transactions, "transaction"), counted(&lanes.to_string(), "lane"));
    format!("{transactions} in {lanes}; {again} executed again, {ready} with a speculative result")
}

fn counted(count: &str, thing: &str) -> String {
    let plural = if count == "1" { "" } else { "s" };
    format!("{count} {thing}{plural}")
}

/// Note if the picture does not draw all transactions.
pub fn first(drawn: &str) -> String {
    format!("Only the first {drawn} are drawn.")
}

/// Execution of one transaction.
pub fn ran(lane: u8, runs: u8) -> String {
    match runs {
        0 => format!("lane {lane}, speculative result"),
        1 => format!("lane {lane}"),
        _ => format!("lane {lane}, {runs} executions"),
    }
}
