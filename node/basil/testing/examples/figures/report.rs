//! Markdown tables on standard output.

use std::fmt::Display;
use std::io::{self, Write};

/// Prints rows as they are measured.
pub struct Table(io::Stdout);

impl Table {
    pub fn new(title: &str, columns: &[&str]) -> io::Result<Self> {
        let mut out = io::stdout();
        writeln!(out, "\n### {title}\n\n| {} |\n|{}", columns.join(" | "), "---|".repeat(columns.len()))?;
        Ok(Self(out))
    }

    pub fn row(&mut self, cells: &[&dyn Display]) -> io::Result<()> {
        let cells: Vec<_> = cells.iter().map(|cell| cell.to_string()).collect();
        writeln!(self.0, "| {} |", cells.join(" | "))?;
        self.0.flush()
    }
}

pub fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

pub fn tenths(value: f64) -> String {
    format!("{value:.1}")
}

pub fn hundredths(value: f64) -> String {
    format!("{value:.2}")
}

pub fn whole(value: f64) -> String {
    format!("{value:.0}")
}
