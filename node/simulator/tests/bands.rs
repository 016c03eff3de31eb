//! The thesis' comparison over its five regions, and the specification's bands for it (§9.3), at test size. `make
//! thesis` measures all of it.

#[path = "../examples/common/mod.rs"]
mod common;
#[path = "../examples/thesis/experiment.rs"]
#[allow(dead_code)]
mod experiment;

use experiment::{Experiment, Protocol};

/// Mean latency and length of a round, ms.
fn measure(protocol: Protocol) -> (f64, f64) {
    let outcome = Experiment::regions(protocol, 10, &[], 40).run(1);
    (outcome.latency_ms()[0], outcome.round_us / 1_000.0)
}

#[test]
fn mahi_mahi_speedup_matches_thesis() {
    let (baseline, _) = measure(Protocol::CordialMiners);
    let (five, round) = measure(Protocol::MahiMahi { w: 5, leaders: 2 });
    let (four, _) = measure(Protocol::MahiMahi { w: 4, leaders: 2 });
    let found = format!("Cordial Miners {baseline:.0} ms, MM-5 {five:.0} ms, MM-4 {four:.0} ms, rounds of {round:.0} ms");
    println!("{found}");
    assert!((0.70..=0.78).contains(&(five / baseline)), "MM-5 to Cordial Miners: {found}");
    assert!((0.58..=0.66).contains(&(four / baseline)), "MM-4 to Cordial Miners: {found}");
    assert!((0.9..=1.1).contains(&((five - four) / round)), "a round between MM-5 and MM-4: {found}");
}
