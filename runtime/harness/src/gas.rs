//! Gas used by each function of each contract, with a regression check.
#![allow(clippy::disallowed_methods)] // the file and the environment variable belong to tests on a developer's machine

use crate::trace_format::grouped;
use std::collections::BTreeMap;
use std::path::Path;
use std::{env, fmt, fs};

/// Gas of transactions by contract and function.
#[derive(Clone, Debug, Default)]
pub struct GasReport(BTreeMap<String, GasUsed>);

/// Gas of one function, including the transaction's 21,000 and the cost of its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GasUsed {
    pub calls: u64,
    pub min: u64,
    pub max: u64,
    pub total: u64,
}

impl GasReport {
    pub(crate) fn add(&mut self, what: String, gas: u64) {
        let used = self.0.entry(what).or_insert(GasUsed { calls: 0, min: gas, max: gas, total: 0 });
        *used = GasUsed { calls: used.calls + 1, min: used.min.min(gas), max: used.max.max(gas), total: used.total + gas };
    }

    /// Returns the gas of `contract.function`, or of `contract: deployment`.
    pub fn of(&self, what: &str) -> Option<GasUsed> {
        self.0.get(what).copied()
    }

    /// Compares with the file, which the first run of the test creates. Gas is exact, so every difference is a real
    /// change. Accept it with `UPDATE_GAS=1 cargo test`, which writes the file again.
    ///
    /// Deployments are excluded. The compiler orders a module's functions by names that depend on the build folder, so
    /// the compressed size varies between folders.
    ///
    /// # Panics
    /// Panics if a figure differs.
    pub fn assert_matches_file(&self, file: impl AsRef<Path>) {
        let (file, now) = (file.as_ref(), without_deployments(&self.to_string()));
        let before = fs::read_to_string(file).ok().map(|before| without_deployments(&before));
        if before.is_none() || env::var_os("UPDATE_GAS").is_some() {
            fs::write(file, now).unwrap_or_else(|error| panic!("cannot write {}: {error}", file.display()));
            return;
        }
        let before = before.unwrap_or_default();
        if before != now {
            panic!(
                "gas differs from {}; to accept the change: UPDATE_GAS=1 cargo test\n{}",
                file.display(),
                difference(&before, &now)
            );
        }
    }
}

impl fmt::Display for GasReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wide = self.0.keys().map(String::len).max().unwrap_or_default();
        for (what, used) in &self.0 {
            let (min, max, mean) = (grouped(used.min), grouped(used.max), grouped(used.total / used.calls));
            writeln!(f, "{what:wide$}  {:>4} ×  least {min:>11}  mean {mean:>11}  most {max:>11}", used.calls)?;
        }
        Ok(())
    }
}

fn without_deployments(report: &str) -> String {
    report.lines().filter(|line| !line.contains(": deployment ")).map(|line| format!("{line}\n")).collect()
}

/// Returns the lines that only one of the texts contains.
fn difference(before: &str, now: &str) -> String {
    let only = |these: &str, those: &str, sign: char| {
        let lines = these.lines().filter(|line| !those.lines().any(|other| other == *line));
        lines.map(|line| format!("{sign} {line}\n")).collect::<String>()
    };
    only(before, now, '-') + &only(now, before, '+')
}
