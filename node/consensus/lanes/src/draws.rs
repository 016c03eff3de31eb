//! Random numbers that nobody else can predict.

use corniche_types::{TimestampMs, ValidatorIndex};

/// A sequence of random numbers from a secret seed, different in each run of an engine.
pub struct Draws {
    key: [u8; 32],
    count: u64,
}

impl Draws {
    /// The tag is different for each engine. `run` is the start of the engine.
    pub fn new(tag: &str, seed: u64, me: ValidatorIndex, run: TimestampMs) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(tag.as_bytes()).update(&seed.to_le_bytes());
        hasher.update(&me.0.to_le_bytes()).update(&run.0.to_le_bytes());
        Self { key: *hasher.finalize().as_bytes(), count: 0 }
    }

    pub fn draw(&mut self) -> u128 {
        self.count += 1;
        let hash = blake3::keyed_hash(&self.key, &self.count.to_le_bytes());
        let (half, _) = hash.as_bytes().split_at(16);
        half.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
    }
}
