//! The tests that every engine must pass. [`suite!`](crate::suite!) makes one test of each.

use crate::{
    DiskModel, Double, Jitter, Kit, Links, Micros, TestCluster,
    fault_counts::FaultCounts,
    schedule::{self, Schedule},
};
use corniche_types::{FaultModel, Votes};
use std::{collections::BTreeMap, rc::Rc};

/// Function that makes an engine's kit for a committee of this size.
pub type KitFactory = fn(usize) -> Rc<dyn Kit>;

const LIMIT: Micros = Micros::from_seconds(30);
/// Committee sizes of the schedules, by fault model.
const SIZES: [usize; 3] = [4, 7, 10];
const CRASH_SIZES: [usize; 3] = [3, 5, 7];

/// Declares the whole suite as tests. The argument is a function from a committee's size to the kit.
///
/// `schedules` runs `CORNICHE_SCHEDULES` (240) seeds, starting at `CORNICHE_SEED` (1). Committees have 4, 7 and 10
/// validators in turn, or `CORNICHE_SIZE` if it is set. The defaults are fixed, so that CI is reproducible. `make soak`
/// chooses new values and prints them.
#[macro_export]
macro_rules! suite {
    ($make:expr) => {
        $crate::suite!(@ $make, all_online, one_offline, slow_and_lossy_links, partition_heals, unclean_restart,
            late_joiner, equivocator, twins, each_double_alone, same_seed_repeats_run, too_many_twins_are_detected, schedules);
    };
    (@ $make:expr, $($name:ident),*) => {
        $(#[test]
        fn $name() {
            $crate::suite::$name($make).unwrap_or_else(|error| panic!("{error}"));
        })*
    };
}

/// Like [`suite!`](crate::suite!), for an engine that tolerates crashes only: without validators that lie. Committees have 3, 5 and 7
/// validators in turn. The second argument makes the kit of a committee with unequal votes.
#[macro_export]
macro_rules! crash_suite {
    ($make:expr, $make_weighted:expr) => {
        $crate::suite!(@ $make, all_online, one_offline, slow_and_lossy_links, partition_heals, unclean_restart,
            late_joiner, same_seed_repeats_run, schedules);

        mod weighted {
            use super::*;

            // One of two halves always has a quorum of an odd number of votes, so `partition_heals` is not among them.
            $crate::suite!(@ $make_weighted, all_online, one_offline, slow_and_lossy_links, unclean_restart, late_joiner,
                same_seed_repeats_run, schedules);
        }
    };
}

fn links(size: usize) -> Links {
    let mut links = Links::uniform(size, Micros::from_millis(20));
    links.jitter = Jitter::Uniform(200_000);
    links
}

fn cluster(kit: Rc<dyn Kit>, doubles: &[(usize, Double)], seed: u64) -> TestCluster {
    let disks = DiskModel { sync: Micros(2_000), rate: None };
    let size = kit.committee().size();
    TestCluster::new(kit, doubles.iter().copied().collect::<BTreeMap<_, _>>(), links(size), disks, seed)
}

/// All running validators get one transaction per round, for `rounds` rounds of 100 ms.
fn load(cluster: &mut TestCluster, rounds: usize) -> Result<(), String> {
    for _ in 0..rounds {
        let running: Vec<_> = cluster.running().collect();
        running.into_iter().for_each(|identity| _ = cluster.submit(identity));
        cluster.run_for(Micros::from_millis(100))?;
    }
    Ok(())
}

fn ensure(holds: bool, text: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(text.to_owned()) }
}

pub fn all_online(make: KitFactory) -> Result<(), String> {
    for size in [1, 4, 7, 10] {
        let mut cluster = cluster(make(size), &[], 1);
        cluster.start_all();
        load(&mut cluster, 10)?;
        cluster.settle(LIMIT)?;
        ensure(cluster.checker.borrow().accusations.is_empty(), "nobody is accused when nobody is faulty")?;
    }
    Ok(())
}

pub fn one_offline(make: KitFactory) -> Result<(), String> {
    let mut cluster = cluster(make(4), &[], 2);
    (1..4).for_each(|identity| cluster.restart(identity, 0));
    load(&mut cluster, 10)?;
    cluster.settle(LIMIT)
}

pub fn slow_and_lossy_links(make: KitFactory) -> Result<(), String> {
    let mut cluster = cluster(make(4), &[], 3);
    let links = &mut cluster.simulation.links;
    (links.loss, links.reordering, links.duplication) = (100_000, 200_000, 50_000);
    links.port(1).delay = Micros::from_millis(300);
    cluster.start_all();
    load(&mut cluster, 20)?;
    cluster.settle(LIMIT)
}

pub fn partition_heals(make: KitFactory) -> Result<(), String> {
    let mut cluster = cluster(make(4), &[], 4);
    cluster.start_all();
    load(&mut cluster, 5)?;
    cluster.simulation.partition(&[vec![0, 1], vec![2, 3]]);
    cluster.run_for(Micros::from_seconds(1))?;
    let before = cluster.checker.borrow().log.len();
    load(&mut cluster, 20)?;
    ensure(cluster.checker.borrow().log.len() == before, "two of four commit nothing")?;
    cluster.simulation.heal();
    cluster.settle(LIMIT)
}

/// All validators lose power at once, several times, and restart from their disks, with states of different ages.
pub fn unclean_restart(make: KitFactory) -> Result<(), String> {
    for seed in 0..10 {
        let mut cluster = cluster(make(4), &[], 500 + seed);
        cluster.start_all();
        for round in 0..3 {
            load(&mut cluster, 3)?;
            cluster.run_for(Micros(seed * 1_700 + round * 900))?;
            (0..4).for_each(|identity| cluster.crash(identity));
            (0..4).for_each(|identity| cluster.restart(identity, (identity as u64 + seed) % 4));
        }
        cluster.settle(LIMIT)?;
    }
    Ok(())
}

pub fn late_joiner(make: KitFactory) -> Result<(), String> {
    let mut cluster = cluster(make(4), &[], 6);
    (1..4).for_each(|identity| cluster.restart(identity, 0));
    load(&mut cluster, 150)?;
    cluster.settle(LIMIT)?;
    // The joiner may need commits that the others no longer keep, so it first follows to a certified commit.
    ensure(cluster.lose_disk(0), "there is a certified commit")?;
    cluster.restart(0, 0);
    load(&mut cluster, 5)?;
    cluster.settle(LIMIT)
}

pub fn equivocator(make: KitFactory) -> Result<(), String> {
    run_alone(make, Double::Equivocator)
}

pub fn twins(make: KitFactory) -> Result<(), String> {
    run_alone(make, Double::Twin)
}

pub fn each_double_alone(make: KitFactory) -> Result<(), String> {
    let own = make(4).engine_doubles().iter().map(|name| Double::Own(name));
    Double::ALL.into_iter().chain(own).try_for_each(|double| run_alone(make, double))
}

fn run_alone(make: KitFactory, double: Double) -> Result<(), String> {
    for (size, seed) in [(4, 1), (4, 2), (4, 3), (7, 4), (10, 5)] {
        let mut cluster = cluster(make(size), &[(size / 2, double)], seed);
        cluster.start_all();
        let in_context = |error: String| format!("{}, size {size}, seed {seed}: {error}", double.name());
        load(&mut cluster, 10).map_err(in_context)?;
        cluster.settle(LIMIT).map_err(in_context)?;
    }
    Ok(())
}

pub fn same_seed_repeats_run(make: KitFactory) -> Result<(), String> {
    for seed in 0..5 {
        let (first, second) = (schedule::run(&make(7), seed)?, schedule::run(&make(7), seed)?);
        ensure(first == second, "the same seed makes the same run")?;
    }
    Ok(())
}

/// Tests the checker with f + 1 Byzantine validators. The network is split into two halves, each with one process of
/// every Byzantine validator. The halves commit different things, and the safety checker must detect it.
pub fn too_many_twins_are_detected(make: KitFactory) -> Result<(), String> {
    for size in [4, 7] {
        let kit = make(size);
        let committee = kit.committee();
        let count = committee.take_votes(committee.indices(), committee.validity()).len();
        let doubles: Vec<_> = (0..count).map(|identity| (identity, Double::Twin)).collect();
        // The others divide by votes, so that either half has a quorum with the doubles.
        let honest = || committee.indices().skip(count);
        let half = Votes(committee.weigh(honest()).0 / 2);
        let middle = count + committee.take_votes(honest(), half).len();
        let mut cluster = cluster(kit, &doubles, 1);
        let (one, other) = ((0..middle).collect(), (middle..size + count).collect());
        cluster.simulation.partition(&[one, other]);
        cluster.start_all();
        let outcome = load(&mut cluster, 20);
        let is_detected = outcome.as_ref().is_err_and(|error| error.starts_with("agreement"));
        ensure(is_detected, &format!("size {size}: a fork is noticed, not {outcome:?}"))?;
    }
    Ok(())
}

/// See [`suite!`](crate::suite!).
pub fn schedules(make: KitFactory) -> Result<(), String> {
    let first = env_number("CORNICHE_SEED").unwrap_or(1);
    let count = env_number("CORNICHE_SCHEDULES").unwrap_or(240);
    let only = env_number("CORNICHE_SIZE").map(|size| size as usize);
    eprintln!("{count} schedules from CORNICHE_SEED={first}");
    let sizes = match make(4).committee().fault_model() {
        FaultModel::Byzantine => SIZES,
        FaultModel::Crash => CRASH_SIZES,
    };
    let mut counts = FaultCounts::default();
    for seed in first..first.saturating_add(count) {
        let size = only.unwrap_or(sizes[(seed % 3) as usize]);
        let kit = make(size);
        let outcome = schedule::run(&kit, seed)?;
        counts.add(&Schedule::new(&*kit, seed), &outcome);
    }
    eprintln!("{counts}");
    Ok(())
}

/// Regression schedules, by size and seed, outside the fixed range of `schedules`: they failed once, or catch a planted
/// bug.
pub fn regressions(make: KitFactory, seeds: &[(usize, u64)]) -> Result<(), String> {
    seeds.iter().try_for_each(|(size, seed)| schedule::run(&make(*size), *seed).map(drop))
}

fn env_number(name: &str) -> Option<u64> {
    #[allow(clippy::disallowed_methods)] // The choice of seeds does not affect any single run.
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}: expected a number, got {text}")))
}
