//! Message delays independent of any machine: all messages of a round arrive at one instant.

use crate::{
    Effort,
    experiment::{Experiment, Protocol, formula},
    mean,
};

/// Maximum distance of the mean from the formula.
const BAR: f64 = 0.05;
/// The baseline has one leader per wave, which may be crashed. Its mean would need too many waves to come as close.
const BAR_CRASHED_BASELINE: f64 = 0.3;

pub fn table(effort: &Effort) {
    println!(
        "| lock step, n = 10: mean delays from proposal to commit | none crashed: measured / formula | 3 crashed: measured / formula |"
    );
    println!("|---|---|---|");
    let mahi_mahi = [4, 5].into_iter().flat_map(|w| (1..=3).map(move |leaders| Protocol::MahiMahi { w, leaders }));
    for protocol in mahi_mahi.chain([Protocol::CordialMiners]) {
        let cells = [&[][..], &[2, 5, 8]].map(|crashed| {
            let seconds = if crashed.is_empty() { effort.seconds(4, 20) } else { effort.seconds(8, 100) };
            let seconds = if protocol == Protocol::CordialMiners { 3 * seconds } else { seconds };
            let measured = mean(&effort.run(&Experiment::lock_step(protocol, crashed, seconds)), |run| run.commit_delays());
            let expected = formula(protocol, crashed.len() as u64);
            let is_noisy = protocol == Protocol::CordialMiners && !crashed.is_empty();
            let bar = if is_noisy { BAR_CRASHED_BASELINE } else { BAR };
            let remark = if (measured - expected).abs() <= bar { "" } else { " **missed**" };
            format!("{measured:.3} / {expected:.3}{remark}")
        });
        println!("| {protocol} | {} |", cells.join(" | "));
    }
    println!();
}
