//! Five regions: latencies and their ratios.

use crate::{
    Effort,
    experiment::{Experiment, Outcome, Protocol, Rule},
    mean, verdict,
};

/// Crashed validators and the thesis' result of a case. Validator i is in region i mod 5.
struct Case {
    name: &'static str,
    nodes: usize,
    crashed: &'static [usize],
    /// Mean latency in the thesis, ms: Cordial Miners, MM-5, MM-4.
    thesis_ms: Option<[u64; 3]>,
    bands: Bands,
}

/// Bands from §9.3 of the specification.
struct Bands {
    mm5_to_cm: (f64, f64),
    mm4_to_cm: (f64, f64),
    /// Saving from 3 leaders instead of 1, in rounds.
    saving: (f64, f64),
}

const FAULT_FREE: Bands = Bands { mm5_to_cm: (0.70, 0.78), mm4_to_cm: (0.58, 0.66), saving: (0.15, 0.30) };
const CRASHED: Bands = Bands { mm5_to_cm: (0.55, 0.65), mm4_to_cm: (0.47, 0.55), saving: (0.4, 0.7) };
/// MM-5 minus MM-4, in rounds.
const ONE_ROUND: (f64, f64) = (0.9, 1.1);

const CASES: [Case; 5] = [
    Case { name: "n = 10", nodes: 10, crashed: &[], thesis_ms: Some([1_500, 1_100, 900]), bands: FAULT_FREE },
    Case {
        name: "n = 10, one crashed in each of Cape Town, Hong Kong, Milan",
        nodes: 10,
        crashed: &[2, 3, 4],
        thesis_ms: Some([1_700, 950, 850]),
        bands: CRASHED,
    },
    Case {
        name: "n = 10, crashed both in Cape Town and one in Hong Kong",
        nodes: 10,
        crashed: &[2, 7, 3],
        thesis_ms: Some([1_700, 950, 850]),
        bands: CRASHED,
    },
    Case { name: "n = 50", nodes: 50, crashed: &[], thesis_ms: Some([2_600, 2_000, 1_500]), bands: FAULT_FREE },
    // The thesis has no such case; 3 of 50 change little, so the ratios are compared with the fault-free bands.
    Case { name: "n = 50, 3 crashed", nodes: 50, crashed: &[2, 3, 4], thesis_ms: None, bands: FAULT_FREE },
];

/// A value of a case, and its expected band.
type Of<'a> = &'a dyn Fn(&Case, &Measured) -> (f64, Option<(f64, f64)>);

pub fn tables(effort: &Effort) {
    println!(
        "| five regions, protocol | round, ms | latency, ms: mean / p50 / p99 | in delays | block to commit, rounds | slots: direct commit / skip / anchor | thesis, ms |"
    );
    println!("|---|---|---|---|---|---|---|");
    let cases: Vec<_> = CASES.iter().filter(|case| effort.full || case.nodes <= 10).collect();
    let results: Vec<_> = cases.iter().map(|case| (case, Measured::take(effort, case))).collect();
    println!();
    println!("| what | thesis | band | {} |", cases.iter().map(|case| case.name).collect::<Vec<_>>().join(" | "));
    println!("|---|---|---|{}", "---|".repeat(cases.len()));
    let row = |name: &str, thesis: &str, band: &str, of: Of| {
        let cells = results.iter().map(|(case, measured)| {
            let (value, band) = of(case, measured);
            let remark = band.map_or("", |(low, high)| verdict((low..=high).contains(&value)));
            format!("{value:.2} {remark}")
        });
        println!("| {name} | {thesis} | {band} | {} |", cells.collect::<Vec<_>>().join(" | "));
    };
    row("MM-5 / CM, ℓ = 2", "0.73; n = 50 0.77; crashed 0.56", "0.70–0.78; crashed 0.55–0.65", &|case, measured| {
        (measured.ratio(5), Some(case.bands.mm5_to_cm))
    });
    row("MM-4 / CM, ℓ = 2", "0.60; n = 50 0.58; crashed 0.50", "0.58–0.66; crashed 0.47–0.55", &|case, measured| {
        (measured.ratio(4), Some(case.bands.mm4_to_cm))
    });
    for w in [5, 4] {
        let name = format!("ℓ = 1 → 3 saves, MM-{w}, rounds");
        row(&name, "40 ms; crashed 100 ms", "0.15–0.3; crashed 0.4–0.7", &|case, measured| {
            (measured.saving(w), (case.nodes == 10).then_some(case.bands.saving))
        });
        row("the same, ms", "40; crashed 100", "", &|_, measured| (measured.saving(w) * measured.round_ms, None));
    }
    row("MM-5 − MM-4, ℓ = 2, rounds", "1", "0.9–1.1", &|_, measured| (measured.difference(), Some(ONE_ROUND)));
    let waiting = results.iter().map(|(_, measured)| measured.anchored.map(|share| format!("{share:.3}")).join(" / "));
    println!(
        "| slots that wait for an anchor, MM-4, ℓ = 2, by the leader's region: Ohio / Oregon / Cape Town / Hong Kong / Milan | | | {} |",
        waiting.collect::<Vec<_>>().join(" | ")
    );
    println!();
}

/// Mean latencies of one case, ms.
struct Measured {
    baseline: f64,
    /// MM-4 and MM-5, each with 1 to 3 leaders.
    mahi_mahi: [[f64; 3]; 2],
    round_ms: f64,
    /// Share of the slots that an anchor decides, by the leader's region; MM-4 with two leaders.
    anchored: [f64; 5],
}

impl Measured {
    fn take(effort: &Effort, case: &Case) -> Self {
        let seconds = match (case.nodes, case.crashed.len()) {
            (50, _) => 8,
            _ => effort.seconds(6, 40),
        };
        // The baseline has few leaders, so its mean varies more.
        let patience = if case.crashed.is_empty() || !effort.full { 1 } else { 3 };
        let measure = |protocol, seconds| {
            let outcomes = effort.run(&Experiment::regions(protocol, case.nodes, case.crashed, seconds));
            show(case, protocol, &outcomes);
            outcomes
        };
        let baseline = mean(&measure(Protocol::CordialMiners, seconds * patience), |run| run.latency_ms()[0]);
        let (mut round_ms, mut anchored) = (0.0, [0.0; 5]);
        let mahi_mahi = [4, 5].map(|w| {
            [1, 2, 3].map(|leaders| {
                let outcomes = measure(Protocol::MahiMahi { w, leaders }, seconds);
                round_ms = mean(&outcomes, |run| run.round_us / 1_000.0);
                if (w, leaders) == (4, 2) {
                    let share = |region| mean(&outcomes, |run| run.decided_by_of(Rule::Anchor, |leader| leader % 5 == region));
                    anchored = [0, 1, 2, 3, 4].map(share);
                }
                mean(&outcomes, |run| run.latency_ms()[0])
            })
        });
        Self { baseline, mahi_mahi, round_ms, anchored }
    }

    fn of(&self, w: usize, leaders: usize) -> f64 {
        self.mahi_mahi[w - 4][leaders - 1]
    }

    fn ratio(&self, w: usize) -> f64 {
        self.of(w, 2) / self.baseline
    }

    fn saving(&self, w: usize) -> f64 {
        (self.of(w, 1) - self.of(w, 3)) / self.round_ms
    }

    fn difference(&self) -> f64 {
        (self.of(5, 2) - self.of(4, 2)) / self.round_ms
    }
}

fn show(case: &Case, protocol: Protocol, outcomes: &[Outcome]) {
    let of = |value: &dyn Fn(&Outcome) -> f64| mean(outcomes, value);
    let latency = [0, 1, 2].map(|place| format!("{:.0}", of(&|run| run.latency_ms()[place])));
    let thesis = match (case.thesis_ms, protocol) {
        (Some([baseline, ..]), Protocol::CordialMiners) => format!("{baseline}"),
        (Some([_, five, four]), Protocol::MahiMahi { w, leaders: 2 }) => format!("{}", if w == 5 { five } else { four }),
        _ => String::new(),
    };
    println!(
        "| {}: {protocol} | {:.0} | {} | {:.2} | {:.2} | {} | {thesis} |",
        case.name,
        of(&|run| run.round_us / 1_000.0),
        latency.join(" / "),
        of(&|run| run.latency_delays()),
        of(&|run| run.commit_rounds()),
        [Rule::Commit, Rule::Skip, Rule::Anchor].map(|rule| format!("{:.3}", of(&|run| run.decided_by(rule)))).join(" / "),
    );
}
