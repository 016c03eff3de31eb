//! Certified headers in the state: location of their hashes, for contracts that read them and for proofs.
//!
//! A block is executed only after the header [`DEPTH`] blocks below it is certified. So each block's changes end with
//! the hash of that header, in the storage of an account without code. Every hash that a transaction reads there was
//! certified before it ran. Account and slots are those of EIP-2935, which stores the hashes of parents: the same
//! slots, [`DEPTH`] − 1 blocks later.

use alloy_primitives::{Address, B256, U256, address};
use std::ops::RangeInclusive;

/// Maximum number of blocks by which execution may be ahead of certification.
pub const DEPTH: u64 = 64;

/// Number of stored hashes. A prime, as in EIP-2935.
pub const WINDOW: u64 = 8_191;

/// Account whose storage holds the hashes.
pub const ADDRESS: Address = address!("0000F90827F1C53a10cb7A02335B175320002935");

/// Returns the slot of the hash of header `number`. It is written by the block [`DEPTH`] above it, and overwritten
/// [`WINDOW`] blocks later.
pub fn slot(number: u64) -> B256 {
    U256::from(number % WINDOW).into()
}

/// Returns the header whose hash the block at this height writes.
pub fn written_by(height: u64) -> Option<u64> {
    height.checked_sub(DEPTH)
}

/// Returns whether a transaction in block `running` can read the hash of this header: it sees the writes of earlier
/// blocks.
pub fn is_readable(number: u64, running: u64) -> bool {
    let newest = running.checked_sub(1).and_then(written_by);
    newest.and_then(|newest| newest.checked_sub(number)).is_some_and(|behind| behind < WINDOW)
}

/// Returns the headers up to `head` whose hashes are not written yet; later blocks will write them.
pub fn unwritten(head: u64) -> RangeInclusive<u64> {
    written_by(head).map_or(0, |number| number + 1)..=head
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readable_hash_is_latest_in_slot() {
        for running in [0, 1, 64, 65, 66, 200, WINDOW + 63, WINDOW + 64, WINDOW + 65, WINDOW + 66, 3 * WINDOW] {
            let mut slots = std::collections::BTreeMap::new();
            for number in (0..running).filter_map(written_by) {
                slots.insert(slot(number), number);
            }
            let readable: Vec<u64> = (0..running + 2).filter(|number| is_readable(*number, running)).collect();
            assert!(readable.iter().all(|number| slots[&slot(*number)] == *number), "{running}");
            assert_eq!(readable.len(), slots.len(), "and everything that is there: {running}");
        }
        assert!(is_readable(0, 65) && !is_readable(0, 64) && !is_readable(1, 65));
        assert!(is_readable(1, 65 + WINDOW) && !is_readable(0, 65 + WINDOW));
        assert!(!is_readable(u64::MAX, 1_000) && !is_readable(u64::MAX - 64, u64::MAX));
    }

    /// The rule of EIP-2935: the number modulo 8,191, as a word.
    #[test]
    fn slots_match_eip_2935() {
        for (number, slot) in [(0, 0), (1, 1), (256, 256), (8_190, 8_190), (8_191, 0), (8_192, 1), (u64::MAX, 4_095)] {
            assert_eq!(super::slot(number), B256::from(U256::from(slot)), "{number}");
        }
    }

    #[test]
    fn unwritten_range_is_complement() {
        for head in 0..200 {
            let written: Vec<u64> = (0..=head).filter_map(written_by).collect();
            let all: Vec<u64> = written.into_iter().chain(unwritten(head)).collect();
            assert_eq!(all, (0..=head).collect::<Vec<_>>());
            assert!(unwritten(head).count() <= 64);
            assert_eq!(written_by(head + DEPTH), Some(head));
        }
    }
}
