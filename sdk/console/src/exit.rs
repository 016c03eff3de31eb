//! Exit codes and output channels. Only a command's result goes to standard output; messages for people go to
//! standard error.

use std::{fmt::Display, io::Write, process::ExitCode};

/// Exit code of `corniche`; 0 is success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Any error without its own code.
    Failure = 1,
    /// Invalid arguments, or a file that the command refuses.
    Usage = 2,
    /// The transaction is in a block and reverted, or the call reverted.
    Reverted = 3,
    /// The node refused the transaction or the request.
    Refused = 4,
    /// The node cannot be reached.
    Unreachable = 5,
    /// Timeout; the operation may still complete.
    Deadline = 6,
    /// The node stopped because continuing would be unsafe; the message has the reason.
    Halted = 7,
    /// A simulated network did not commit accepted transactions.
    NoProgress = 8,
    /// A simulated network violated safety, or a benchmark found a block with different results in parallel
    /// execution.
    Diverged = 9,
    /// The chain has a protocol version that this build does not know: install a newer one.
    Outdated = 10,
    /// Another process signs with this validator's keys.
    Twin = 11,
}

/// Error with its own exit code.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failed {
    pub exit: Exit,
    pub message: String,
}

impl Failed {
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }
}

/// Prints the error and returns its exit code.
pub fn report(error: &anyhow::Error) -> ExitCode {
    note(format_args!("error: {error:#}"));
    let failed = error.chain().find_map(|cause| cause.downcast_ref::<Failed>());
    ExitCode::from(failed.map_or(Exit::Failure, |failed| failed.exit) as u8)
}

/// Prints one line of a command's result to standard output. A closed pipe is not an error.
pub fn result(line: impl Display) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

/// Prints one line for people to standard error.
pub fn note(line: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
