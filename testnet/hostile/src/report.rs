//! Limits, and the table of results.

use crate::{
    context::{By, Rejoin},
    load::Measure,
    options::Options,
};
use serde::Serialize;
use serde_json::json;

/// Maximum ratio of honest users' 99th percentile of latency during an attack to the calm one.
const STRANGERS_P99: f64 = 2.0;
const VALIDATORS_P99: f64 = 4.0;
/// Maximum time from the end of an attack to a transfer executed on all nodes, and from a validator's start to participation.
const RECOVERY_S: f64 = 10.0;
/// Maximum growth of the largest victim's peak memory. Queues of messages before verification may hold 352 MiB.
const GROWTH_MIB: u64 = 512;

/// Results of one attack.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    pub attack: &'static str,
    pub item: &'static str,
    pub by: By,
    pub engine: String,
    pub validators: usize,
    /// Number of messages, connections or requests that the attacker sent, by its own count.
    pub messages: u64,
    pub calm: Measure,
    pub during: Measure,
    pub after: Measure,
    /// Largest peak among honest processes, before the attack; `peak_mib` is at the end.
    pub calm_mib: u64,
    pub peak_mib: u64,
    /// `None` if it exceeded the timeout.
    pub recovery_s: Option<f64>,
    /// `None` for an attack that restarts no validator.
    #[serde(skip)]
    pub rejoin: Option<Rejoin>,
    /// Descriptions of missed limits.
    pub missed: Vec<String>,
}

impl Row {
    fn p99_bar(&self) -> f64 {
        match self.by {
            By::Stranger => STRANGERS_P99,
            By::Validators => VALIDATORS_P99,
        }
    }

    /// Infinite if more than one in a hundred was never executed: percentiles of the others do not reflect users' waiting times.
    fn slowdown(&self) -> f64 {
        let is_known = self.calm.p99_ms > 0.0 && self.during.lost() * 100 <= self.during.sent;
        if is_known { self.during.p99_ms / self.calm.p99_ms } else { f64::INFINITY }
    }

    fn lost(&self) -> u64 {
        [&self.calm, &self.during, &self.after].map(Measure::lost).into_iter().sum()
    }

    fn rejoin_s(&self) -> Option<f64> {
        match self.rejoin {
            Some(Rejoin::After(time)) => Some(time.as_secs_f64()),
            Some(Rejoin::Never) | None => None,
        }
    }
}

/// Adds the limits that the row misses.
pub fn evaluate(row: &mut Row) {
    let (slowdown, bar) = (row.slowdown(), row.p99_bar());
    let mut missed = Vec::new();
    if row.during.sent > 0 && slowdown > bar {
        missed.push(format!("p99 is {slowdown:.1} times the calm one, limit {bar}"));
    }
    let grown = row.peak_mib.saturating_sub(row.calm_mib);
    if grown > GROWTH_MIB {
        missed.push(format!("memory grew by {grown} MiB, limit {GROWTH_MIB}"));
    }
    if row.lost() > 0 {
        missed.push(format!("{} transfers lost, limit 0", row.lost()));
    }
    if let Some(seconds) = row.recovery_s.filter(|seconds| *seconds > RECOVERY_S) {
        missed.push(format!("recovery took {seconds:.1} s, limit {RECOVERY_S}"));
    }
    if let Some(seconds) = row.rejoin_s().filter(|seconds| *seconds > RECOVERY_S) {
        missed.push(format!("rejoining took {seconds:.1} s, limit {RECOVERY_S}"));
    }
    if row.rejoin == Some(Rejoin::Never) {
        missed.push(format!("the restarted validator did not rejoin, limit {RECOVERY_S} s"));
    }
    row.missed.extend(missed);
}

/// The table as text.
pub fn table(rows: &[Row]) -> String {
    let head = [
        "attack",
        "item",
        "by",
        "engine",
        "n",
        "sent",
        "tx/s calm",
        "during",
        "after",
        "p99 ms calm",
        "during",
        "after",
        "times",
        "limit",
        "MiB calm",
        "peak",
        "lost",
        "recovery s",
        "rejoin s",
        "verdict",
    ];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    lines.extend(rows.iter().map(cells));
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let widths: Vec<_> = (0..head.len()).map(width).collect();
    let row = |line: &Vec<String>| {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let mut text: Vec<_> = lines.iter().map(row).collect();
    text.push(format!(
        "limits: p99 during an attack at most {STRANGERS_P99} (strangers) or {VALIDATORS_P99} (f validators) times the calm one; peak memory at \
         most {GROWTH_MIB} MiB above the calm one; nothing lost; recovery and rejoining within {RECOVERY_S} s; all nodes agree"
    ));
    text.join("\n")
}

fn cells(row: &Row) -> Vec<String> {
    let seconds = |value: Option<f64>| value.map_or("-".into(), |seconds| format!("{seconds:.1}"));
    let rate = |measure: &Measure| format!("{:.0}", measure.per_second);
    let p99 = |measure: &Measure| format!("{:.0}", measure.p99_ms);
    let verdict = if row.missed.is_empty() { "ok".into() } else { format!("MISSED: {}", row.missed.join("; ")) };
    vec![
        row.attack.into(),
        row.item.into(),
        by(row).into(),
        row.engine.clone(),
        row.validators.to_string(),
        row.messages.to_string(),
        rate(&row.calm),
        rate(&row.during),
        rate(&row.after),
        p99(&row.calm),
        p99(&row.during),
        p99(&row.after),
        format!("{:.1}", row.slowdown()),
        format!("{}", row.p99_bar()),
        row.calm_mib.to_string(),
        row.peak_mib.to_string(),
        row.lost().to_string(),
        seconds(row.recovery_s),
        seconds(row.rejoin_s()),
        verdict,
    ]
}

fn by(row: &Row) -> &'static str {
    match row.by {
        By::Stranger => "strangers",
        By::Validators => "validators",
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonRow<'a> {
    #[serde(flatten)]
    row: &'a Row,
    p99_times: f64,
    lost: u64,
    rejoin_s: Option<f64>,
}

/// The results as JSON.
pub fn json(options: &Options, rows: &[Row]) -> String {
    let row = |row: &Row| {
        let row = JsonRow { row, p99_times: row.slowdown(), lost: row.lost(), rejoin_s: row.rejoin_s() };
        serde_json::to_value(row).unwrap_or_default()
    };
    let bars = json!({
        "strangersP99": STRANGERS_P99, "validatorsP99": VALIDATORS_P99, "growthMib": GROWTH_MIB, "recoveryS": RECOVERY_S, "lost": 0,
    });
    let (seconds, rate, seed) = (options.seconds, options.rate, options.seed);
    let rows: Vec<_> = rows.iter().map(row).collect();
    format!("{:#}\n", json!({ "seconds": seconds, "rate": rate, "seed": seed, "bars": bars, "rows": rows }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn row() -> Row {
        let users = Measure { sent: 100, executed: 100, per_second: 10.0, p50_ms: 50.0, p99_ms: 100.0 };
        Row {
            attack: "test",
            item: "B2",
            by: By::Stranger,
            engine: "mahi-mahi".into(),
            validators: 4,
            messages: 7,
            calm: users.clone(),
            during: Measure { p99_ms: 200.0, ..users.clone() },
            after: users,
            calm_mib: 100,
            peak_mib: 612,
            recovery_s: Some(10.0),
            rejoin: None,
            missed: Vec::new(),
        }
    }

    fn missed(change: impl Fn(&mut Row)) -> Vec<String> {
        let mut row = row();
        change(&mut row);
        evaluate(&mut row);
        row.missed
    }

    #[test]
    fn bars_are_evaluated() {
        assert_eq!(missed(|_| {}), Vec::<String>::new(), "at every bar");
        assert_eq!(missed(|row| row.during.p99_ms = 210.0), ["p99 is 2.1 times the calm one, limit 2"]);
        assert_eq!(missed(|row| (row.by, row.during.p99_ms) = (By::Validators, 400.0)), Vec::<String>::new());
        assert_eq!(missed(|row| row.peak_mib = 613), ["memory grew by 513 MiB, limit 512"]);
        assert_eq!(missed(|row| row.during.executed = 99), ["1 transfers lost, limit 0"]);
        assert_eq!(
            missed(|row| row.during.executed = 98),
            ["p99 is inf times the calm one, limit 2", "2 transfers lost, limit 0"]
        );
        assert_eq!(missed(|row| row.recovery_s = Some(10.1)), ["recovery took 10.1 s, limit 10"]);
        assert_eq!(missed(|row| row.rejoin = Some(Rejoin::Never)), ["the restarted validator did not rejoin, limit 10 s"]);
        let after = |seconds: f64| Some(Rejoin::After(Duration::from_secs_f64(seconds)));
        assert_eq!(missed(|row| row.rejoin = after(10.0)), Vec::<String>::new());
        assert_eq!(missed(|row| row.rejoin = after(10.1)), ["rejoining took 10.1 s, limit 10"]);
    }

    #[test]
    fn table_has_bars_and_verdicts() {
        let mut missed = row();
        missed.missed.push("2 transfers lost, limit 0".into());
        let text = table(&[row(), missed]);
        assert!(text.contains("  ok\n") && text.contains("MISSED: 2 transfers lost, limit 0\nlimits: p99"), "{text}");
    }
}
