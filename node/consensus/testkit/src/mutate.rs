//! Mutated bytes for fuzz tests: valid seeds with a few changes, a function of the case's number.

use crate::Random;

/// Returns one of `seeds` after one to six changes. `dictionary` are tokens of the format; they are inserted or overwrite bytes.
///
/// # Panics
///
/// Panics if `seeds` or `dictionary` is empty.
pub fn mutated(case: u64, seeds: &[Vec<u8>], dictionary: &[&[u8]]) -> Vec<u8> {
    // Streams of consecutive seeds overlap; a fork's do not.
    let mut random = Random::new(case).fork("mutate");
    let mut bytes = pick(&mut random, seeds).clone();
    for _ in 0..=random.below(6) {
        change(&mut random, &mut bytes, seeds, dictionary);
    }
    bytes
}

fn below(random: &mut Random, bound: usize) -> usize {
    random.below(bound as u64) as usize
}

fn pick<'a, T>(random: &mut Random, choices: &'a [T]) -> &'a T {
    &choices[below(random, choices.len())]
}

fn change(random: &mut Random, bytes: &mut Vec<u8>, seeds: &[Vec<u8>], dictionary: &[&[u8]]) {
    let at = below(random, bytes.len() + 1);
    let until = (at + 1 + below(random, 16)).min(bytes.len());
    match random.below(10) {
        // The position may be the end, where no byte can change.
        0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
        1 if at < bytes.len() => bytes[at] = random.draw() as u8,
        // Errors in lengths and counts are mostly off by one.
        2 if at < bytes.len() => bytes[at] = bytes[at].wrapping_add(if random.one_in(2) { 1 } else { 255 }),
        3 => drop(bytes.drain(at..until)),
        4 => bytes.truncate(at),
        5 => drop(bytes.splice(at..at, pick(random, dictionary).iter().copied())),
        6 => drop(bytes.splice(at..until, pick(random, dictionary).iter().copied())),
        // Repeats a piece, sometimes two thousand times.
        7 => {
            let piece = bytes[at..until].to_vec();
            let times = if random.one_in(20) { 2_000 } else { 1 + below(random, 3) };
            drop(bytes.splice(at..at, piece.repeat(times)));
        }
        // Continues with the end of another seed.
        8 => {
            let other = pick(random, seeds);
            let from = below(random, other.len() + 1);
            bytes.truncate(at);
            bytes.extend_from_slice(&other[from..]);
        }
        _ => bytes.insert(at, random.draw() as u8),
    }
}
