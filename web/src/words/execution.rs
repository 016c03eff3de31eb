//! Of a block's execution.

/// Heading.
pub const TITLE: &str = "Execution";
/// What it means, and how far it holds.
pub const NOTE: &str = "How the node that this explorer follows ran this block. Transactions run in parallel, and one that \
     had read what an earlier one changed meanwhile runs again. Other nodes may have run it in another way, and came to the \
     same result.";
/// Nothing is known.
pub const UNKNOWN: &str =
    "Not known, or not yet: a node tells how it ran a block only while it runs, and of its newest blocks.";
/// Rows.
pub const LANES: &str = "Lanes";
/// Rows.
pub const RUNS: &str = "Runs";
/// Rows.
pub const WAITS: &str = "Waits for an earlier transaction";
/// Rows.
pub const ADOPTED: &str = "Results that were ready";
/// What it means.
pub const ADOPTED_NOTE: &str = "from runs before the order was known, which still held";
/// Rows.
pub const TIME: &str = "Time it took";
/// What it means.
pub const TIME_NOTE: &str = "from when its execution began to the changed state, signatures included";
/// Below the picture.
pub const LEGEND: &str = "From left to right the block's transactions, each in the lane that came to its result. A low bar: \
     it ran once. A high bar: it ran again. A line: its result was ready.";
/// Columns.
pub const LANE: &str = "Lane";
/// Columns.
pub const TRANSACTIONS: &str = "Transactions";
/// Columns: of these.
pub const RAN_AGAIN: &str = "Ran again";
/// Columns: of these.
pub const READY: &str = "Result was ready";

/// How many lanes had something to do.
pub fn lanes(used: usize, threads: &str) -> String {
    format!("{used} of {threads} had something to do")
}

/// Runs, and those that were not the first.
pub fn runs(runs: &str, again: &str) -> String {
    format!("{runs}, {again} of them again")
}

/// What a picture shows.
pub fn picture(transactions: &str, lanes: usize, again: &str, ready: &str) -> String {
    let (transactions, lanes) = (counted(transactions, "transaction"), counted(&lanes.to_string(), "lane"));
    format!("{transactions} in {lanes}; {again} ran again, the results of {ready} were ready")
}

fn counted(count: &str, thing: &str) -> String {
    let plural = if count == "1" { "" } else { "s" };
    format!("{count} {thing}{plural}")
}

/// The picture ends before the block does.
pub fn first(drawn: &str) -> String {
    format!("The first {drawn} are drawn.")
}

/// One transaction.
pub fn ran(lane: u8, runs: u8) -> String {
    match runs {
        0 => format!("lane {lane}, result was ready"),
        1 => format!("lane {lane}"),
        _ => format!("lane {lane}, ran {runs} times"),
    }
}
