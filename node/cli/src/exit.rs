//! Exit codes and the two output channels. A command's result goes to standard output and nothing else does; everything
//! for people goes to standard error.

use std::{fmt::Display, io::Write, process::ExitCode};

/// What the exit code of `corniche` says. 0 is success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Anything without a code of its own.
    Failure = 1,
    /// Wrong arguments, as the argument parser reports them, or a file that the command refuses.
    Usage = 2,
    /// The transaction is in a block and reverted, or the call reverted.
    Reverted = 3,
    /// The node refused the transaction or the request.
    Refused = 4,
    /// The node cannot be reached.
    Unreachable = 5,
    /// Something did not happen before its deadline; it may still happen.
    Deadline = 6,
    /// The node stopped by itself because going on would be unsafe; the message says why.
    Halted = 7,
    /// A simulated network did not commit what it accepted.
    NoProgress = 8,
    /// A simulated network broke a safety promise, or a benchmark found a block that parallel execution makes something else of.
    Diverged = 9,
}

/// An error with an exit code of its own.
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

/// Prints the error and gives the exit code it asks for.
pub fn report(error: &anyhow::Error) -> ExitCode {
    note(format_args!("error: {error:#}"));
    let failed = error.chain().find_map(|cause| cause.downcast_ref::<Failed>());
    ExitCode::from(failed.map_or(Exit::Failure, |failed| failed.exit) as u8)
}

/// One line of a command's result, on standard output. A reader that has gone away is not an error.
pub fn result(line: impl Display) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

/// One line for people, on standard error.
pub fn note(line: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
