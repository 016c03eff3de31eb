//! The result is public: this freezes its keys, their order and the rounding of its numbers.

use corniche_simulator::{Report, Sample, Second, Spent, Spread, Verdict, Work};

/// A report in which every number differs, and most need rounding.
fn report() -> Report {
    let mut latencies: Vec<u64> = (1..=200).map(|index| index * 1_001).collect();
    Report {
        engine: "mahi-mahi".into(),
        nodes: 10,
        seed: 7,
        virtual_us: 2_500_000,
        submitted: 210,
        committed: 201,
        lost: 9,
        duplicated: 3,
        delay_us: 50_000,
        latency: Spread::of(&mut latencies),
        commit: Some(Spread { mean: 1, p50: 25, p90: 26, p99: 250_000, max: u64::MAX / 2_000 }),
        messages: 1_000,
        bytes: 123_456,
        ordering: Spent { messages: 800, bytes: 100_000, work: Work { signed: 201, checked: 603, micros: 28_140 } },
        certificates: Spent { messages: 150, bytes: 20_000, work: Work { signed: 40, checked: 77, micros: 114_200 } },
        received: (0, 0),
        failovers: 0,
        transactions: vec![Sample { client: 3, submitted_us: 5, latency_us: 1_001 }],
        timeline: vec![
            Second { second: 0, committed: 201, p50_us: Some(100_100), max_us: Some(200_200) },
            Second { second: 1, committed: 0, p50_us: None, max_us: None },
        ],
        verdict: Verdict::NoProgress,
        violation_count: 2,
        violations: vec!["a".into(), "b".into()],
        epochs_ended: 5,
        epochs_kept: 1,
        epoch_gap: Some(Spread { mean: 40_000, p50: 38_500, p90: 50_000, p99: 61_234, max: 70_000 }),
        epoch_throughput: Some((875, 500)),
        coin_dealing: None,
        committees: Vec::new(),
        unfinished: Vec::new(),
        convicted: Default::default(),
        stalled_us: 1_234_567,
        digest: std::array::from_fn(|index| index as u8),
    }
}

#[test]
fn json_format_is_frozen() {
    assert_eq!(report().json(), include_str!("fixtures/report.json").trim_end());
}

#[test]
fn text_report_format() {
    assert_eq!(report().text(), include_str!("fixtures/report.txt").trim_end());
}

#[test]
fn no_commits_no_latency() {
    let none = Report { committed: 0, latency: None, commit: None, timeline: Vec::new(), ..report() };
    let json: serde_json::Value = serde_json::from_str(&none.json()).unwrap();
    assert!(json["latency_ms"]["mean"].is_null() && json["commit_delays"]["max"].is_null());
    assert_eq!((json["messages_per_tx"].as_f64(), json["bytes_per_tx"].as_f64()), (Some(0.0), Some(0.0)));
    assert!(none.text().contains("nothing was committed"));
}

#[test]
fn percentiles_are_samples() {
    assert_eq!(Spread::of(&mut []), None);
    assert_eq!(Spread::of(&mut [7]), Some(Spread { mean: 7, p50: 7, p90: 7, p99: 7, max: 7 }));
    assert_eq!(Spread::of(&mut [4, 1, 2]), Some(Spread { mean: 2, p50: 2, p90: 4, p99: 4, max: 4 }));
    let mut hundred: Vec<u64> = (1..=100).rev().collect();
    assert_eq!(Spread::of(&mut hundred), Some(Spread { mean: 51, p50: 50, p90: 90, p99: 99, max: 100 }));
    // The sum overflows a u64.
    assert_eq!(Spread::of(&mut [u64::MAX; 3]).unwrap().mean, u64::MAX);
}

#[test]
fn verdict_names() {
    let words = [Verdict::Pass, Verdict::NoProgress, Verdict::Diverged].map(Verdict::id);
    assert_eq!(words, ["pass", "no_progress", "diverged"]);
}
