//! Priority of threads that answer others' questions.

/// Nice value of these threads: about a tenth of another thread's processor time while both want it.
pub(crate) const NICENESS: i32 = 10;

/// Lowers the priority of the calling thread for good, so that ordering and execution come first on a busy machine.
/// Threads that it starts inherit the priority. Repeated calls cost one system call each.
pub fn yield_to_ordering() {
    // Fails only if the priority is lower already, or on a system without priorities.
    let _ = rustix::process::setpriority_process(None, NICENESS);
}
