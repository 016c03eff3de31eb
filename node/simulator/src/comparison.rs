//! One scenario under several engines: a table and plots.

use crate::{
    plot::{COLOURS, Curve, Plot, Scale, slowest},
    report::{Report, Spent, Verdict, Work},
    scenario::{EngineName, Scenario, ScenarioError},
    simulate,
};
use corniche_types::FaultModel;

/// The results of one scenario, by engine.
pub struct Comparison {
    rows: Vec<(EngineName, Result<Report, String>)>,
}

impl Comparison {
    /// Runs every scenario. One that an engine does not support becomes a row that says why.
    ///
    /// # Errors
    /// A scenario needs a contract, and `contract` is none or cannot be deployed.
    pub fn run(
        scenarios: Vec<(EngineName, Result<Scenario, ScenarioError>)>,
        seed: u64,
        contract: Option<&[u8]>,
    ) -> Result<Self, String> {
        let one = |(engine, scenario): (_, Result<Scenario, ScenarioError>)| {
            Ok((
                engine,
                match scenario {
                    Ok(scenario) => Ok(simulate(&scenario, seed, contract)?),
                    Err(refused) => Err(refused.message),
                },
            ))
        };
        Ok(Self { rows: scenarios.into_iter().map(one).collect::<Result<_, String>>()? })
    }

    /// Reports of the engines that ran.
    pub fn reports(&self) -> impl Iterator<Item = (EngineName, &Report)> {
        self.rows.iter().filter_map(|(engine, report)| Some((*engine, report.as_ref().ok()?)))
    }

    /// A Markdown table with a row for each engine. Costs are those of all validators together, for a transaction.
    pub fn table(&self) -> String {
        let mut table = String::from(
            "| engine | tolerates | committed | latency, ms: mean | p50 | p99 | delays | messages | bytes | signed | checked | longest stall, ms |\n\
             |---|---|---|---|---|---|---|---|---|---|---|---|\n",
        );
        for (engine, report) in &self.rows {
            let tolerates = match engine.fault_model() {
                FaultModel::Byzantine => "lies",
                FaultModel::Crash => "crashes",
            };
            let cells = match report {
                Ok(report) => cells(report).join(" | "),
                Err(refused) => format!("does not run: {}{}", refused.replace('|', "\\|"), " | ".repeat(9)),
            };
            table.push_str(&format!("| {} | {tolerates} | {cells} |\n", engine.title()));
        }
        table
    }

    /// Names and contents of the plots: latency and throughput over time.
    pub fn plots(&self) -> [(&'static str, String); 2] {
        let seconds = self.reports().map(|(_, report)| report.virtual_us).max().unwrap_or(0) as f64 / 1_000_000.0;
        let window = (0.0, seconds.max(1.0));
        let latencies = self.curves(|report| slowest(&report.transactions));
        let (low, high) = bounds(&latencies);
        let latency = Plot {
            title: "Latency",
            remark: "slowest transaction of each tenth of a second, submission to commit",
            axis: "submitted at",
            blip: None,
            window,
            scale: Scale::Milliseconds(low, high),
            curves: latencies,
        };
        let rates = self.curves(|report| {
            report.timeline.iter().map(|second| (second.second as f64 + 0.5, second.committed as f64)).collect()
        });
        let most = rates.iter().flat_map(|curve| &curve.points).map(|(_, count)| *count).fold(1.0, f64::max);
        let throughput = Plot {
            title: "Throughput",
            remark: "transactions committed in each second",
            axis: "time",
            blip: None,
            window,
            scale: Scale::Count(most),
            curves: rates,
        };
        [("latency.svg", latency.svg()), ("throughput.svg", throughput.svg())]
    }

    fn curves(&self, points: impl Fn(&Report) -> Vec<(f64, f64)>) -> Vec<Curve> {
        let curve = |((engine, report), colour): ((EngineName, &Report), &&'static str)| Curve {
            name: engine.title(),
            colour,
            points: points(report),
        };
        self.reports().zip(COLOURS.iter().cycle()).map(curve).collect()
    }
}

fn cells(report: &Report) -> [String; 10] {
    let committed = match report.verdict {
        Verdict::Pass => format!("{}", report.committed),
        Verdict::NoProgress => format!("{} of {}", report.committed, report.submitted),
        Verdict::Diverged => "**diverged**".to_owned(),
    };
    let per_transaction = |total: u64| match report.committed {
        0 => "-".to_owned(),
        committed => format!("{:.1}", total as f64 / committed as f64),
    };
    let ms = |us: Option<u64>| us.map_or("-".to_owned(), |us| format!("{:.0}", us as f64 / 1_000.0));
    let spread = report.latency;
    let delays = spread.filter(|_| report.delay_us > 0).map(|spread| spread.mean as f64 / report.delay_us as f64);
    let Spent { work: Work { signed, checked, .. }, .. } = report.ordering;
    [
        committed,
        ms(spread.map(|spread| spread.mean)),
        ms(spread.map(|spread| spread.p50)),
        ms(spread.map(|spread| spread.p99)),
        delays.map_or("-".to_owned(), |delays| format!("{delays:.1}")),
        per_transaction(report.ordering.messages),
        per_transaction(report.ordering.bytes),
        per_transaction(signed),
        per_transaction(checked),
        ms(Some(report.stalled_us)),
    ]
}

/// Powers of ten around all values.
fn bounds(curves: &[Curve]) -> (f64, f64) {
    let values = || curves.iter().flat_map(|curve| &curve.points).map(|(_, ms)| ms.max(0.1));
    let low = values().fold(f64::INFINITY, f64::min);
    let high = values().fold(0.0, f64::max);
    if high == 0.0 {
        return (1.0, 10.0);
    }
    let low = 10f64.powf(low.log10().floor());
    (low, 10f64.powf(high.log10().ceil()).max(low * 10.0))
}
