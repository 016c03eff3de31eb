//! Random numbers from a seed (SplitMix64).

use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng, SeedableRng},
};

/// Random number generator; see the module.
#[derive(Clone, Debug)]
pub struct Random(SplitMix64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed))
    }

    /// Returns any number.
    pub fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// Returns `true` with a probability of `chance` percent.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// Returns one of these.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}
