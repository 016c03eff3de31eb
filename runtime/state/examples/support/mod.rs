//! Process statistics for measurements.

/// CPU time of this thread in nanoseconds.
pub fn cpu_ns() -> u64 {
    let schedule = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    schedule.split_whitespace().next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

/// Resident memory of the process in bytes.
pub fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).unwrap_or(0) * 1024
}
