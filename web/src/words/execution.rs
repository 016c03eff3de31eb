//! Texts about the execution of a block.

/// Heading.
pub const TITLE: &str = "Execution";
/// Explains the section and its limits.
pub const NOTE: &str = "How the node that this explorer follows ran this block. Transactions run in parallel, and one that \
     had read what an earlier one changed meanwhile runs again. Other nodes may have run it in another way, and came to the \
     same result.";
/// Note if the node reported nothing about the block.
pub const UNKNOWN: &str =
    "Not known, or not yet: a node tells how it ran a block only while it runs, and of its newest blocks.";
/// Row label.
pub const LANES: &str = "Lanes";
/// Row label.
pub const RUNS: &str = "Runs";
/// Row label.
pub const WAITS: &str = "Waits for an earlier transaction";
/// Row label.
pub const ADOPTED: &str = "Results that were ready";
/// Explains [`ADOPTED`].
pub const ADOPTED_NOTE: &str = "from runs before the order was known, which still held";
/// Row label.
pub const TIME: &str = "Time it took";
/// Explains [`TIME`].
pub const TIME_NOTE: &str = "from when its execution began to the changed state, signatures included";
/// Caption of the picture.
pub const LEGEND: &str = "From left to right the block's transactions, each in the lane that came to its result. A low bar: \
     it ran once. A high bar: it ran again. A line: its result was ready.";
/// Column header.
pub const LANE: &str = "Lane";
/// Column header.
pub const TRANSACTIONS: &str = "Transactions";
/// Column header: number of these transactions that ran more than once.
pub const RAN_AGAIN: &str = "Ran again";
/// Column header: number of these transactions whose result was ready.
pub const READY: &str = "Result was ready";

/// Number of lanes that ran transactions.
pub fn lanes(used: usize, threads: &str) -> String {
    format!("{used} of {threads} had something to do")
}

/// Number of runs, and number of repeated runs.
pub fn runs(runs: &str, again: &str) -> String {
    format!("{runs}, {again} of them again")
}

/// Accessible name of the picture.
pub fn picture(transactions: &str, lanes: usize, again: &str, ready: &str) -> String {
    let (transactions, lanes) = (counted(transactions, "transaction"), counted(&lanes.to_string(), "lane"));
    format!("{transactions} in {lanes}; {again} ran again, the results of {ready} were ready")
}

fn counted(count: &str, thing: &str) -> String {
    let plural = if count == "1" { "" } else { "s" };
    format!("{count} {thing}{plural}")
}

/// Note if the picture does not draw all transactions.
pub fn first(drawn: &str) -> String {
    format!("The first {drawn} are drawn.")
}

/// Execution of one transaction.
pub fn ran(lane: u8, runs: u8) -> String {
    match runs {
        0 => format!("lane {lane}, result was ready"),
        1 => format!("lane {lane}"),
        _ => format!("lane {lane}, ran {runs} times"),
    }
}
