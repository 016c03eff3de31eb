//! Hash seed of the tables of keys.
//!
//! Senders choose keys. A sender who can compute the hash can make all of its keys collide: each look-up would then
//! scan all of them under a lock. So the seed combines a secret of this node with the block's randomness, which is
//! public once the block is ordered. No result depends on the seed: nothing iterates over a table in its order.

use foldhash::{SharedSeed, quality::FoldHasher};
use rand_xoshiro::{
    SplitMix64,
    rand_core::{Rng, SeedableRng},
};
use std::hash::{Hash, Hasher};

/// Both numbers of the hash. Knowing either of them suffices to choose colliding keys.
#[derive(Clone, Debug)]
pub(crate) struct Seed {
    own: u64,
    shared: SharedSeed,
}

impl Seed {
    /// Creates the seed of one block. `secret` is the node's own ([`corniche_vm::VmConfig::table_secret`]).
    pub fn new(secret: u64, block: u64) -> Self {
        let mut secret = SplitMix64::seed_from_u64(secret);
        let own = secret.next_u64();
        let mut both = SplitMix64::seed_from_u64(secret.next_u64() ^ block);
        Self { own, shared: SharedSeed::from_u64(both.next_u64()) }
    }

    pub fn hash(&self, key: &impl Hash) -> u64 {
        let mut hasher = FoldHasher::with_seed(self.own, &self.shared);
        key.hash(&mut hasher);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The keys collide without a secret: each has eight zero bytes where the hash multiplies by a seed of zero.
    #[test]
    fn secret_prevents_chosen_collisions() {
        let keys = |salt: u64| (0..1_000u64).map(move |number| ([0u64, salt], number.to_le_bytes()));
        let distinct = |seed: &Seed| keys(7).map(|key| seed.hash(&key)).collect::<BTreeSet<_>>().len();
        assert_eq!(distinct(&Seed::new(1, 2)), 1_000);
        let orders = [1, 2].map(|secret| {
            let seed = Seed::new(secret, 2);
            let mut numbers: Vec<_> = keys(7).collect();
            numbers.sort_by_key(|key| seed.hash(key));
            numbers
        });
        assert_ne!(orders[0], orders[1], "another secret, another order");
    }
}
