//! Every order of the steps of two transactions, and of three up to a number of preemptions. Each read, each
//! publication of a key, each invalidated reader and each settling is a separate step.

use super::script::{Op, Op::*, serially, stepped};

/// Tries all choices, the last one first. Returns the number of runs.
fn explore(mut run: impl FnMut(&mut dyn FnMut(usize) -> usize)) -> u64 {
    let mut path: Vec<(usize, usize)> = Vec::new();
    let mut runs = 0;
    loop {
        let mut depth = 0;
        run(&mut |options| {
            if depth == path.len() {
                path.push((0, options));
            }
            assert_eq!(path[depth].1, options, "the same choices lead to the same place");
            depth += 1;
            path[depth - 1].0
        });
        runs += 1;
        while path.last().is_some_and(|(choice, options)| choice + 1 == *options) {
            path.pop();
        }
        match path.last_mut() {
            Some((choice, _)) => *choice += 1,
            None => return runs,
        }
    }
}

/// Tries all orders in which a worker with work is preempted at most `preemptions` times.
fn check(name: &str, scripts: &[Vec<Op>], workers: usize, preemptions: usize) -> u64 {
    let expected = serially(scripts);
    explore(|choose| {
        let mut left = preemptions;
        let mut trail = Vec::new();
        let found = stepped(scripts, workers, |last, able| {
            // The worker of the last step comes first; each other one costs a preemption.
            let goes_on = able.contains(&last);
            let others = able.iter().copied().filter(|worker| *worker != last);
            let mut options: Vec<usize> = if goes_on { vec![last] } else { Vec::new() };
            if !goes_on || left > 0 {
                options.extend(others);
            }
            let worker = if options.len() == 1 { options[0] } else { options[choose(options.len())] };
            left -= usize::from(goes_on && worker != last);
            trail.push(worker);
            worker
        });
        assert_eq!(found, expected, "{name}: {scripts:?} in the order {trail:?}");
    })
}

fn pairs() -> Vec<(&'static str, Vec<Vec<Op>>)> {
    vec![
        ("a counter read and written", vec![vec![Load(0), Add(1), Store(0)], vec![Load(0), Add(1), Store(0)]]),
        ("read skew", vec![vec![Set(1), Store(0), Store(1)], vec![Load(0), Load(1), Store(2)]]),
        ("a write that vanishes", vec![vec![Set(1), Store(0)], vec![Load(0), Unless(0), Store(1)]]),
        ("a bound reached", vec![vec![Count(0, 3, 5)], vec![Count(0, 3, 5), Store(1)]]),
        ("a counter read", vec![vec![Count(0, 3, 9)], vec![Load(0), Store(1)]]),
        ("a counter set", vec![vec![Set(4), Store(0)], vec![Count(0, 3, 6), Store(1)]]),
        ("fees read", vec![vec![Tip(5)], vec![Fees, Tip(2), Store(0)]]),
        ("a payment, and code read", vec![vec![Pay(5), Code], vec![Code, Pay(2), Store(0)]]),
        ("a payment, and a creation", vec![vec![Set(1), Create], vec![Code, Pay(2), Store(0)]]),
        ("a creation that vanishes", vec![vec![Set(1), Store(0)], vec![Load(0), Unless(0), Set(3), Create]]),
        ("a fault only under a stale read", vec![vec![Set(1), Store(0)], vec![Load(0), Unless(0), Fault]]),
        ("a real fault", vec![vec![Set(1), Store(0)], vec![Load(0), Unless(1), Fault]]),
        ("skipped or not", vec![vec![Set(1), Store(0)], vec![Load(0), Unless(0), Skip]]),
    ]
}

#[test]
fn two_transactions_limited_preemptions() {
    let runs: u64 = pairs().into_iter().map(|(name, scripts)| check(name, &scripts, 2, 5)).sum();
    assert!(runs > 10_000, "{runs}");
}

/// Takes about a minute; `make soak` runs it.
#[test]
#[ignore = "takes long"]
fn two_transactions_all_interleavings() {
    let runs: u64 = pairs().into_iter().map(|(name, scripts)| check(name, &scripts, 2, usize::MAX)).sum();
    assert!(runs > 100_000, "{runs}");
}

#[test]
fn three_transactions_limited_preemptions() {
    let increment = || vec![Load(0), Add(1), Store(0)];
    let threes = [
        ("a chain", vec![increment(), increment(), increment()]),
        (
            "a write that vanishes after it was read",
            vec![vec![Set(1), Store(0)], vec![Load(0), Unless(0), Store(1), Set(7), Store(1)], vec![Load(1), Add(1), Store(2)]],
        ),
        (
            "a write that appears",
            vec![vec![Set(1), Store(0)], vec![Load(0), Unless(1), Store(1)], vec![Load(1), Add(1), Store(2)]],
        ),
        ("a bound reached by the third", vec![vec![Count(0, 2, 5)], vec![Count(0, 2, 5)], vec![Count(0, 2, 5), Store(1)]]),
        (
            "additions below a value",
            vec![vec![Count(0, 2, 9)], vec![Load(0), Store(0)], vec![Count(0, 2, 9), Load(0), Store(1)]],
        ),
        (
            "a fault between two writes",
            vec![vec![Set(1), Store(0)], vec![Set(1), Store(1)], vec![Load(0), Unless(1), Load(1), Unless(0), Fault]],
        ),
        (
            "a creation that vanishes after its code was read",
            vec![vec![Set(1), Store(0)], vec![Pay(1), Load(0), Unless(0), Set(3), Create], vec![Code, Pay(2), Store(1), Owned]],
        ),
        ("payments around a creation", vec![vec![Pay(1)], vec![Set(3), Create], vec![Pay(2), Code, Store(1)]]),
        ("who reads the fees of two", vec![vec![Tip(1)], vec![Load(0), Tip(2)], vec![Fees, Store(0), Tip(4)]]),
    ];
    let mut runs = 0;
    for (name, scripts) in &threes {
        runs += check(name, scripts, 2, 4) + check(name, scripts, 3, 2);
    }
    assert!(runs > 10_000, "{runs}");
}
