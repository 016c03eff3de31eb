//! Runs every target with mutated seeds, on any compiler: `CORNICHE_CASES` cases from `CORNICHE_SEED` on. Failures name the case.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // reads the number of cases from the environment

use corniche_fuzz::target;
use corniche_testkit::mutate::mutated;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

fn run(name: &str) {
    let target = target(name).unwrap();
    let seeds = (target.seeds)();
    seeds.iter().for_each(|seed| (target.run)(seed));
    let first = number("CORNICHE_SEED").unwrap_or(1);
    for case in first..first + number("CORNICHE_CASES").unwrap_or(target.cases) {
        let bytes = mutated(case, &seeds, target.dictionary);
        let caught = std::panic::catch_unwind(|| (target.run)(&bytes));
        assert!(caught.is_ok(), "{name}: CORNICHE_SEED={case} CORNICHE_CASES=1 fails");
    }
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(#[test] fn $name() { run(stringify!($name)); })*

        #[test]
        fn all_targets_are_tested() {
            let tested = [$(stringify!($name)),*];
            assert!(corniche_fuzz::TARGETS.iter().all(|target| tested.contains(&target.name)));
            assert_eq!(tested.len(), corniche_fuzz::TARGETS.len());
        }
    };
}

targets!(mahi_mahi autobahn neobft mir quepaxa racs baxos peer_message network_frames websocket_frames transaction genesis creation module generated_module);
