//! Lines on standard output and standard error.

use std::io::Write;

/// Prints one line of the result, on standard output.
pub fn print_line(line: impl std::fmt::Display) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

/// Prints one line for people, on standard error.
pub fn log_line(line: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
