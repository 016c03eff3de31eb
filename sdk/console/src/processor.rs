//! Processor time of this process.

use std::time::Duration;

/// Processor time of all threads of this process so far.
pub fn process_cpu() -> Duration {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Processor time of this thread so far.
pub fn thread_cpu() -> Duration {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock(which: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec, which we own and which outlives the call.
    #[allow(unsafe_code)]
    let failed = unsafe { libc::clock_gettime(which, &mut time) };
    assert_eq!(failed, 0, "every process and every thread has a CPU clock");
    let part = |number: i64| u64::try_from(number).unwrap_or_default();
    Duration::from_secs(part(time.tv_sec)) + Duration::from_nanos(part(time.tv_nsec))
}
