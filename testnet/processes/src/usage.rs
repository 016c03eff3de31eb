//! Memory, processor time by thread, and end of a process, from `/proc`.

use std::{collections::BTreeMap, fs, time::Duration};

/// Memory of one process in MiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    pub resident: u64,
    pub peak: u64,
}

/// Processor time of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadTimes {
    /// By name. Threads of one pool have one name, without their number.
    pub by_name: BTreeMap<String, Duration>,
    /// Sum over all threads, those that have ended included.
    pub all: Duration,
}

impl ThreadTimes {
    /// Time used since `before`. A thread that has ended counts only in `all`.
    pub fn since(&self, before: &Self) -> Self {
        let earlier = |name: &String| before.by_name.get(name).copied().unwrap_or_default();
        let by_name = self.by_name.iter().map(|(name, time)| (name.clone(), time.saturating_sub(earlier(name)))).collect();
        Self { by_name, all: self.all.saturating_sub(before.all) }
    }

    pub fn add(&mut self, other: &Self) {
        other.by_name.iter().for_each(|(name, time)| *self.by_name.entry(name.clone()).or_default() += *time);
        self.all += other.all;
    }
}

pub fn memory(pid: u32) -> Option<Memory> {
    Some(parse_memory(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?))
}

fn parse_memory(status: &str) -> Memory {
    let value = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
    };
    Memory { resident: value("VmRSS:"), peak: value("VmHWM:") }
}

/// Processor time of each thread of this process. `None` if it has ended.
pub fn thread_times(pid: u32) -> Option<ThreadTimes> {
    let mut times =
        ThreadTimes { all: parse_ticks(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?, ..Default::default() };
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        // A thread that ends meanwhile is left out.
        let Ok(task) = task else { continue };
        let read = |file: &str| fs::read_to_string(task.path().join(file)).ok();
        let (Some(name), Some(schedule)) = (read("comm"), read("schedstat")) else { continue };
        let nanoseconds = schedule.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0);
        *times.by_name.entry(pool_name(&name)).or_default() += Duration::from_nanos(nanoseconds);
    }
    Some(times)
}

/// `socket-3` is `socket`.
fn pool_name(name: &str) -> String {
    let name = name.trim();
    let without = name.trim_end_matches(|last: char| last.is_ascii_digit());
    without.strip_suffix('-').unwrap_or(name).to_owned()
}

/// User and system time of `/proc/PID/stat`. The kernel reports them in hundredths of a second on every platform that we support.
fn parse_ticks(stat: &str) -> Option<Duration> {
    let fields: Vec<_> = stat.rsplit(") ").next()?.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(Duration::from_millis(10) * u32::try_from(ticks(11)? + ticks(12)?).ok()?)
}

/// Time that this machine's processors were taken away by the machine below it, since its start.
pub fn steal_time() -> Duration {
    parse_steal(&fs::read_to_string("/proc/stat").unwrap_or_default()).unwrap_or_default()
}

fn parse_steal(stat: &str) -> Option<Duration> {
    let ticks: u32 = stat.lines().next()?.split_whitespace().nth(8)?.parse().ok()?;
    Some(Duration::from_millis(10) * ticks)
}

/// True once all threads have exited, so that the ports are free. A process that was not waited for keeps its number, in
/// state Z. Its first thread is in that state while others still exit.
pub fn has_exited(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    threads == 0 || threads == 1 && stat.rsplit(") ").next().is_some_and(|state| state.starts_with('Z'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_parsed_in_mebibytes() {
        let status = "Name:\tcorniche\nVmHWM:\t  204800 kB\nVmRSS:\t  102400 kB\n";
        assert_eq!(parse_memory(status), Memory { resident: 100, peak: 200 });
        assert_eq!(parse_memory(""), Memory::default());
    }

    #[test]
    fn threads_of_a_pool_share_a_name() {
        assert_eq!(
            ["socket-0\n", "socket-12", "writer", "verify-shared"].map(pool_name),
            ["socket", "socket", "writer", "verify-shared"]
        );
    }

    #[test]
    fn processor_time_is_user_and_system_time() {
        let stat = "7 (a) name) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0";
        assert_eq!(parse_ticks(stat), Some(Duration::from_secs(2)));
        assert_eq!(parse_ticks("7 (name) S"), None);
    }

    #[test]
    fn steal_is_the_eighth_number() {
        assert_eq!(parse_steal("cpu  1 2 3 4 5 6 7 250 9 10\ncpu0 1"), Some(Duration::from_millis(2_500)));
        assert_eq!(parse_steal(""), None);
    }

    #[test]
    fn own_process_has_not_exited_and_used_time() {
        let pid = std::process::id();
        assert!(!has_exited(pid));
        let times = thread_times(pid).unwrap();
        assert!(times.by_name.values().any(|time| !time.is_zero()), "{times:?}");
    }

    #[test]
    fn difference_leaves_out_earlier_time() {
        let times = |writer: u64, all: u64| ThreadTimes {
            by_name: [("writer".to_owned(), Duration::from_secs(writer))].into(),
            all: Duration::from_secs(all),
        };
        assert_eq!(times(5, 9).since(&times(2, 3)), times(3, 6));
        let mut sum = times(1, 2);
        sum.add(&times(2, 3));
        assert_eq!(sum, times(3, 5));
    }
}
