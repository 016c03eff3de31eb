//! Deterministic randomness: a function of a seed, equal on every machine.

use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng, SeedableRng},
};

/// Numbers of SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(SplitMix64);

/// Step of the generator from one state to the next.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed.wrapping_mul(STEP)))
    }

    pub fn draw(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number below `bound`, which must be above 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }

    /// Returns a number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True `parts` times in a million.
    pub fn chance_ppm(&mut self, parts: u32) -> bool {
        parts > 0 && self.below(1_000_000) < u64::from(parts)
    }

    /// True once in `times`.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for place in (1..items.len()).rev() {
            items.swap(place, self.below(place as u64 + 1) as usize);
        }
    }

    /// Returns `count` distinct numbers below `size`, in ascending order.
    pub fn subset(&mut self, size: usize, count: usize) -> Vec<usize> {
        let mut all: Vec<_> = (0..size).collect();
        self.shuffle(&mut all);
        all.truncate(count);
        all.sort_unstable();
        all
    }

    /// Creates an independent stream for one purpose. Draws from it do not affect other streams.
    #[must_use]
    pub fn fork(&self, label: &str) -> Self {
        // FNV-1a of the label.
        let hash = label
            .bytes()
            .fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3));
        let state = u64::from_le_bytes(self.0.state());
        Self(SplitMix64::seed_from_u64(SplitMix64::seed_from_u64((state ^ hash).wrapping_sub(STEP)).next_u64()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forks_are_independent_and_outputs_frozen() {
        let mut random = Random::new(1);
        let mut links = random.fork("links");
        assert_ne!(links.draw(), random.fork("disks").draw());
        assert_eq!(random.fork("links").draw(), Random::new(1).fork("links").draw());
        assert_eq!([random.draw(), random.draw()], [0x6E789E6AA1B965F4, 0x6C45D188009454F]);
    }

    #[test]
    fn subsets_are_ascending_with_given_size() {
        let mut random = Random::new(7);
        for _ in 0..100 {
            let subset = random.subset(10, 7);
            assert!(subset.len() == 7 && subset.windows(2).all(|pair| pair[0] < pair[1]) && subset[6] < 10);
        }
    }
}
