//! Random scripts in random orders, one step at a time.

use super::script::{Op, serially, stepped};
use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng, SeedableRng},
};

fn op(random: &mut impl FnMut(u64) -> u64) -> Op {
    let slot = random(3) as u8;
    match random(20) {
        0..=3 => Op::Load(slot),
        4..=6 => Op::Store(slot),
        7 => Op::Set(random(2) as u8),
        8 => Op::Add(1),
        9 => Op::Unless(random(3) as u8),
        10..=11 => Op::Count(slot, 1 + random(3) as u8, 8),
        12 => Op::Fees,
        13..=14 => Op::Pay(1 + random(3) as u8),
        15..=16 => Op::Code,
        17 => Op::Owned,
        18 => Op::Create,
        _ => match random(12) {
            0 => Op::Fault,
            1..=2 => Op::Skip,
            _ => Op::Tip(1 + random(3) as u8),
        },
    }
}

#[test]
fn random_scripts_random_interleavings() {
    let mut faults = 0;
    for case in 0..20_000u64 {
        let mut numbers = SplitMix64::seed_from_u64(case);
        let mut random = |bound: u64| numbers.next_u64() % bound;
        let scripts: Vec<Vec<Op>> = (0..2 + random(7)).map(|_| (0..1 + random(5)).map(|_| op(&mut random)).collect()).collect();
        let workers = 1 + random(5) as usize;
        let expected = serially(&scripts);
        faults += u64::from(expected.fault.is_some());
        let found = stepped(&scripts, workers, |_, able| able[random(able.len() as u64) as usize]);
        assert_eq!(found, expected, "case {case}: {scripts:?}");
    }
    assert!(faults > 100 && faults < 10_000, "{faults}");
}
