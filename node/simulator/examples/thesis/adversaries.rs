//! Share of direct commits under adversarial networks.

use crate::{
    Effort,
    experiment::{Experiment, Outcome, Protocol, Rule, choose},
    mean, verdict,
};

pub fn tables(effort: &Effort) {
    println!(
        "| random network model | a slot commits directly: measured | by Monte Carlo of the specification | a round has a direct commit: ℓ = 1 / 2 / 3 | slots |"
    );
    println!("|---|---|---|---|---|");
    for (nodes, w, expected) in [(4, 4, 0.965), (4, 5, 0.996), (7, 4, 0.991), (7, 5, 0.9998), (10, 4, 0.998), (10, 5, 0.9999)] {
        let runs = [1, 2, 3].map(|leaders| measure(effort, "random", nodes, w, leaders));
        let [one, two, three] = [0, 1, 2].map(|place| mean(&runs[place], Outcome::direct_rounds));
        let slots = runs.iter().flatten().map(Outcome::slots).sum::<usize>();
        let measured =
            runs.iter().flatten().map(|run| run.decided_by(Rule::Commit) * run.slots() as f64).sum::<f64>() / slots as f64;
        println!("| n = {nodes}, w = {w} | {measured:.4} | {expected} | {one:.3} / {two:.3} / {three:.3} | {slots} |");
    }
    println!();
    println!(
        "| adversary | a round has a direct commit, ℓ = 1 / 2 / 3: measured | proved at least | | slots with ℓ = 1: direct commit / skip / anchor | rounds per second, ℓ = 1 / 2 / 3 |"
    );
    println!("|---|---|---|---|---|---|");
    for adversary in ["worst", "leaders"] {
        for (nodes, w) in [(4, 4), (4, 5), (10, 4), (10, 5)] {
            row(effort, adversary, nodes, w);
        }
    }
    println!();
}

fn row(effort: &Effort, adversary: &str, nodes: usize, w: u64) {
    let runs = [1, 2, 3].map(|leaders| measure(effort, adversary, nodes, w, leaders));
    let measured = [0, 1, 2].map(|place| mean(&runs[place], Outcome::direct_rounds));
    let bounds = [1, 2, 3].map(|leaders| bound(nodes as u64, w, leaders));
    let holds = (0..3).all(|place| {
        // Three standard errors of a share over this many independent rounds.
        let rounds = runs[place].iter().map(Outcome::slots).sum::<usize>() as f64 / (place + 1) as f64;
        measured[place] >= bounds[place] - 3.0 * (bounds[place] * (1.0 - bounds[place]) / rounds).sqrt()
    });
    let rules = [Rule::Commit, Rule::Skip, Rule::Anchor].map(|rule| mean(&runs[0], |run| run.decided_by(rule)));
    let rates = [0, 1, 2].map(|place| mean(&runs[place], |run| 1_000_000.0 / run.round_us));
    let list = |values: [f64; 3], digits: usize| values.map(|value| format!("{value:.digits$}")).join(" / ");
    println!(
        "| `{adversary}`, n = {nodes}, w = {w} | {} | {} | {} | {} | {} |",
        list(measured, 3),
        list(bounds, 3),
        verdict(holds),
        list(rules, 3),
        list(rates, 0),
    );
}

fn measure(effort: &Effort, adversary: &str, nodes: usize, w: u64, leaders: u64) -> Vec<Outcome> {
    let seconds = effort.seconds(6, if adversary == "random" { 20 } else { 30 });
    effort.run(&Experiment::under(adversary, Protocol::MahiMahi { w, leaders }, nodes, seconds))
}

/// §6 of the specification: probability that a round has a direct commit under any network behaviour. With w = 5, a
/// quorum of a round's blocks can be committed, so a round fails only if all leaders are among the f others. With
/// w = 4, only one can be: the common core.
fn bound(nodes: u64, w: u64, leaders: u64) -> f64 {
    let faulty = (nodes - 1) / 3;
    match w {
        5 => 1.0 - choose(faulty, leaders) / choose(nodes, leaders),
        _ => leaders as f64 / nodes as f64,
    }
}
