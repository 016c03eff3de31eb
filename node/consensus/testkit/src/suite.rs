//! The tests that every engine must pass. [`suite!`](crate::suite!) makes one test of each.

use crate::{
    Arena, DiskModel, Double, Jitter, Kit, Links, Micros,
    schedule::{self, Schedule},
    tally::Tally,
};
use std::{collections::BTreeMap, rc::Rc};

/// Function that makes an engine's kit for a committee of this size.
pub type Make = fn(usize) -> Rc<dyn Kit>;

const LIMIT: Micros = Micros::from_seconds(30);
/// Committee sizes of the schedules.
const SIZES: [usize; 3] = [4, 7, 10];

/// Declares the whole suite as tests. The argument is a function from a committee's size to the kit.
///
/// `schedules` runs `CORNICHE_SCHEDULES` (240) seeds, starting at `CORNICHE_SEED` (1). Committees have 4, 7 and 10
/// validators in turn, or `CORNICHE_SIZE` if it is set. The defaults are fixed, so that CI is reproducible. `make soak`
/// chooses new values and prints them.
#[macro_export]
macro_rules! suite {
    ($make:expr) => {
        $crate::suite!(@ $make, all_online, one_offline, slow_and_lossy_links, a_partition_that_heals, unclean_restart,
            late_joiner, equivocator, twins, every_double_alone, same_seed_twice, too_many_twins_are_caught, schedules);
    };
    (@ $make:expr, $($name:ident),*) => {
        $(#[test]
        fn $name() {
            $crate::suite::$name($make).unwrap_or_else(|error| panic!("{error}"));
        })*
    };
}

fn links(size: usize) -> Links {
    let mut links = Links::uniform(size, Micros::from_millis(20));
    links.jitter = Jitter::Uniform(200_000);
    links
}

fn arena(kit: Rc<dyn Kit>, doubles: &[(usize, Double)], seed: u64) -> Arena {
    let disks = DiskModel { sync: Micros(2_000), rate: None };
    let size = kit.committee().size();
    Arena::new(kit, doubles.iter().copied().collect::<BTreeMap<_, _>>(), links(size), disks, seed)
}

/// All running validators get one transaction per round, for `rounds` rounds of 100 ms.
fn load(arena: &mut Arena, rounds: usize) -> Result<(), String> {
    for _ in 0..rounds {
        let running: Vec<_> = arena.running().collect();
        running.into_iter().for_each(|identity| _ = arena.submit(identity));
        arena.run_for(Micros::from_millis(100))?;
    }
    Ok(())
}

fn expect(holds: bool, text: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(text.to_owned()) }
}

pub fn all_online(make: Make) -> Result<(), String> {
    for size in [1, 4, 7, 10] {
        let mut arena = arena(make(size), &[], 1);
        arena.start_all();
        load(&mut arena, 10)?;
        arena.settle(LIMIT)?;
        expect(arena.ledger.borrow().accusations.is_empty(), "nobody is accused when nobody is faulty")?;
    }
    Ok(())
}

pub fn one_offline(make: Make) -> Result<(), String> {
    let mut arena = arena(make(4), &[], 2);
    (1..4).for_each(|identity| arena.restart(identity, 0));
    load(&mut arena, 10)?;
    arena.settle(LIMIT)
}

pub fn slow_and_lossy_links(make: Make) -> Result<(), String> {
    let mut arena = arena(make(4), &[], 3);
    let links = &mut arena.world.links;
    (links.loss, links.reordering, links.duplication) = (100_000, 200_000, 50_000);
    links.port(1).delay = Micros::from_millis(300);
    arena.start_all();
    load(&mut arena, 20)?;
    arena.settle(LIMIT)
}

pub fn a_partition_that_heals(make: Make) -> Result<(), String> {
    let mut arena = arena(make(4), &[], 4);
    arena.start_all();
    load(&mut arena, 5)?;
    arena.world.partition(&[vec![0, 1], vec![2, 3]]);
    arena.run_for(Micros::from_seconds(1))?;
    let before = arena.ledger.borrow().log.len();
    load(&mut arena, 20)?;
    expect(arena.ledger.borrow().log.len() == before, "two of four commit nothing")?;
    arena.world.heal();
    arena.settle(LIMIT)
}

/// All validators lose power at once, several times, and restart from their disks, with states of different ages.
pub fn unclean_restart(make: Make) -> Result<(), String> {
    for seed in 0..10 {
        let mut arena = arena(make(4), &[], 500 + seed);
        arena.start_all();
        for round in 0..3 {
            load(&mut arena, 3)?;
            arena.run_for(Micros(seed * 1_700 + round * 900))?;
            (0..4).for_each(|identity| arena.crash(identity));
            (0..4).for_each(|identity| arena.restart(identity, (identity as u64 + seed) % 4));
        }
        arena.settle(LIMIT)?;
    }
    Ok(())
}

pub fn late_joiner(make: Make) -> Result<(), String> {
    let mut arena = arena(make(4), &[], 6);
    (1..4).for_each(|identity| arena.restart(identity, 0));
    load(&mut arena, 150)?;
    arena.settle(LIMIT)?;
    // The joiner may need commits that the others no longer keep, so it first follows to a certified commit.
    expect(arena.lose_disk(0), "there is a certified commit")?;
    arena.restart(0, 0);
    load(&mut arena, 5)?;
    arena.settle(LIMIT)
}

pub fn equivocator(make: Make) -> Result<(), String> {
    alone(make, Double::Equivocator)
}

pub fn twins(make: Make) -> Result<(), String> {
    alone(make, Double::Twin)
}

pub fn every_double_alone(make: Make) -> Result<(), String> {
    let own = make(4).own_doubles().iter().map(|name| Double::Own(name));
    Double::ALL.into_iter().chain(own).try_for_each(|double| alone(make, double))
}

fn alone(make: Make, double: Double) -> Result<(), String> {
    for (size, seed) in [(4, 1), (4, 2), (4, 3), (7, 4), (10, 5)] {
        let mut arena = arena(make(size), &[(size / 2, double)], seed);
        arena.start_all();
        let in_context = |error: String| format!("{}, size {size}, seed {seed}: {error}", double.name());
        load(&mut arena, 10).map_err(in_context)?;
        arena.settle(LIMIT).map_err(in_context)?;
    }
    Ok(())
}

pub fn same_seed_twice(make: Make) -> Result<(), String> {
    for seed in 0..5 {
        let (first, second) = (schedule::run(&make(7), seed)?, schedule::run(&make(7), seed)?);
        expect(first == second, "the same seed makes the same run")?;
    }
    Ok(())
}

/// Tests the checker with f + 1 Byzantine validators. The network is split into two halves, each with one process of
/// every Byzantine validator. The halves commit different things, and the ledger must detect it.
pub fn too_many_twins_are_caught(make: Make) -> Result<(), String> {
    for size in [4, 7] {
        let kit = make(size);
        let count = kit.committee().validity();
        let doubles: Vec<_> = (0..count).map(|identity| (identity, Double::Twin)).collect();
        let mut arena = arena(kit, &doubles, 1);
        let middle = count + (size - count) / 2;
        let (one, other) = ((0..middle).collect(), (middle..size + count).collect());
        arena.world.partition(&[one, other]);
        arena.start_all();
        let caught = load(&mut arena, 20);
        let noticed = caught.as_ref().is_err_and(|error| error.starts_with("agreement"));
        expect(noticed, &format!("size {size}: a fork is noticed, not {caught:?}"))?;
    }
    Ok(())
}

/// See [`suite!`](crate::suite!).
pub fn schedules(make: Make) -> Result<(), String> {
    let first = number("CORNICHE_SEED").unwrap_or(1);
    let count = number("CORNICHE_SCHEDULES").unwrap_or(240);
    let only = number("CORNICHE_SIZE").map(|size| size as usize);
    eprintln!("{count} schedules from CORNICHE_SEED={first}");
    let mut tally = Tally::default();
    for seed in first..first.saturating_add(count) {
        let size = only.unwrap_or(SIZES[(seed % 3) as usize]);
        let kit = make(size);
        let outcome = schedule::run(&kit, seed)?;
        tally.add(&Schedule::new(&*kit, seed), &outcome);
    }
    eprintln!("{tally}");
    Ok(())
}

/// Regression schedules, by size and seed, outside the fixed range of `schedules`: they failed once, or catch a planted
/// bug.
pub fn kept(make: Make, kept: &[(usize, u64)]) -> Result<(), String> {
    kept.iter().try_for_each(|(size, seed)| schedule::run(&make(*size), *seed).map(drop))
}

fn number(name: &str) -> Option<u64> {
    #[allow(clippy::disallowed_methods)] // The choice of seeds does not affect any single run.
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is {text}, not a number")))
}
