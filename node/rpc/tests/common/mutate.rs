//! Mutated inputs: valid seeds with small or large changes, deterministic for each seed.

/// splitmix64: good enough for choices, and reproducible.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Number below `bound`, which is at least 1.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.draw() % bound as u64) as usize
    }

    pub fn of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }
}

/// Applies one to six changes to a seed. `words` are inserted or overwrite bytes: tokens with a meaning for
/// the parser.
pub fn mutated(random: &mut Random, seeds: &[Vec<u8>], words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = random.of(seeds).clone();
    for _ in 0..=random.below(6) {
        change(random, &mut bytes, seeds, words);
    }
    bytes
}

fn change(random: &mut Random, bytes: &mut Vec<u8>, seeds: &[Vec<u8>], words: &[&[u8]]) {
    let at = random.below(bytes.len() + 1);
    let until = (at + 1 + random.below(16)).min(bytes.len());
    match random.below(10) {
        // At the very end, or in an empty input, there is nothing to change.
        0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
        1 if at < bytes.len() => bytes[at] = random.draw() as u8,
        // Off-by-one errors in lengths and counts are the most common.
        2 if at < bytes.len() => bytes[at] = bytes[at].wrapping_add(if random.below(2) == 0 { 1 } else { 255 }),
        3 => drop(bytes.drain(at..until)),
        4 => bytes.truncate(at),
        5 => drop(bytes.splice(at..at, random.of(words).iter().copied())),
        6 => drop(bytes.splice(at..until, random.of(words).iter().copied())),
        // Repeats a piece, sometimes many times.
        7 => {
            let piece = bytes[at..until].to_vec();
            let times = if random.below(20) == 0 { 2_000 } else { 1 + random.below(3) };
            drop(bytes.splice(at..at, piece.repeat(times)));
        }
        // Appends the end of another seed.
        8 => {
            let other = random.of(seeds);
            let from = random.below(other.len() + 1);
            bytes.truncate(at);
            bytes.extend_from_slice(&other[from..]);
        }
        _ => bytes.insert(at, random.draw() as u8),
    }
}
