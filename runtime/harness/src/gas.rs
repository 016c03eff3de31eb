//! Gas used by each function of each contract, with a regression check.
#![allow(clippy::disallowed_methods)] // the file and the environment variable belong to tests on a developer's machine

use crate::tree::grouped;
use std::collections::BTreeMap;
use std::path::Path;
use std::{env, fmt, fs};

/// Gas of transactions by contract and function.
#[derive(Clone, Debug, Default)]
pub struct GasReport(BTreeMap<String, GasUsed>);

/// Gas of one function, including the transaction's 21,000 and the cost of its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GasUsed {
    pub times: u64,
    pub least: u64,
    pub most: u64,
    pub sum: u64,
}

impl GasReport {
    pub(crate) fn add(&mut self, what: String, gas: u64) {
        let used = self.0.entry(what).or_insert(GasUsed { times: 0, least: gas, most: gas, sum: 0 });
        *used = GasUsed { times: used.times + 1, least: used.least.min(gas), most: used.most.max(gas), sum: used.sum + gas };
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
    pub fn assert_as_in(&self, file: impl AsRef<Path>) {
        let (file, now) = (file.as_ref(), without_deployments(&self.to_string()));
        let before = fs::read_to_string(file).ok().map(|before| without_deployments(&before));
        if before.is_none() || env::var_os("UPDATE_GAS").is_some() {
            fs::write(file, now).unwrap_or_else(|error| panic!("cannot write {}: {error}", file.display()));
            return;
        }
        let before = before.unwrap_or_default();
        if before != now {
            panic!(
                "gas is not what {} says; if that is meant: UPDATE_GAS=1 cargo test\n{}",
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
            let (least, most, mean) = (grouped(used.least), grouped(used.most), grouped(used.sum / used.times));
            writeln!(f, "{what:wide$}  {:>4} ×  least {least:>11}  mean {mean:>11}  most {most:>11}", used.times)?;
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
