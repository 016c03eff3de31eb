//! Hashes of the tree: blake3 in keyed mode, with a separate key for each use.
//!
//! Nearly all inputs are two hashes, exactly one block of blake3, so many inputs are hashed in parallel in the lanes of
//! the vector unit. blake3 does this internally for the chunks of a long input, with its `platform` module, which is
//! public but undocumented. The result is the plain keyed hash of each input on every machine. The fixtures in
//! `tests/tree.rs` and the test below check this.

use crate::Account;
use blake3::{IncrementCounter, platform::Platform};
use corniche_types::B256;
use corniche_types::proof::{BRANCH, LEAF, value_hash};

/// Domain flags of blake3. An input of one block is the first chunk, the last chunk and the root.
const CHUNK_START: u8 = 1 << 0;
const CHUNK_END: u8 = 1 << 1;
const ROOT: u8 = 1 << 3;
const KEYED_HASH: u8 = 1 << 4;

/// Maximum number of inputs per call: the lanes of the widest vector unit.
pub(super) const LANES: usize = 16;

/// Two concatenated hashes.
pub(super) type Pair = [u8; 64];

/// Kind of node to hash.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Leaf,
    Branch,
}

/// Returns the hashes of at most [`LANES`] pairs.
pub(super) fn hash_pairs(kind: Kind, pairs: &[&Pair]) -> [[u8; 32]; LANES] {
    let key = match kind {
        Kind::Leaf => LEAF,
        Kind::Branch => BRANCH,
    };
    let (key, mut hashes) = (words(key), [[0; 32]; LANES]);
    let out = &mut hashes.as_flattened_mut()[..32 * pairs.len()];
    let (none, start, end) = (IncrementCounter::No, CHUNK_START, CHUNK_END | ROOT);
    Platform::detect().hash_many(pairs, &key, 0, none, KEYED_HASH, start, end, out);
    hashes
}

fn words(key: &[u8; 32]) -> [u32; 8] {
    std::array::from_fn(|index| u32::from_le_bytes(std::array::from_fn(|byte| key[4 * index + byte])))
}

/// `value_hash(&account_value(account))`.
pub(super) fn account_hash(account: &Account) -> B256 {
    let mut bytes = [0; 128];
    let mut rest = bytes.as_mut_slice();
    borsh::to_writer(&mut rest, account).expect("an account takes 74 bytes");
    let unused = rest.len();
    value_hash(&bytes[..bytes.len() - unused])
}

#[cfg(test)]
mod tests {
    use super::*;
    use corniche_types::proof::account_value;

    #[test]
    fn all_hash_paths_match_blake3() {
        let bytes: Vec<u8> = (0..64 * LANES).map(|number| (number * 7 % 251) as u8).collect();
        let pairs: Vec<&Pair> = bytes.as_chunks().0.iter().collect();
        for count in 0..=LANES {
            for (kind, key) in [(Kind::Leaf, LEAF), (Kind::Branch, BRANCH)] {
                let hashes = hash_pairs(kind, &pairs[..count]);
                for (pair, hash) in pairs[..count].iter().zip(hashes) {
                    assert_eq!(hash, *blake3::keyed_hash(key, *pair).as_bytes());
                }
            }
        }
        let account = Account { nonce: 7, code_hash: B256::repeat_byte(3), abi_version: 1, ..Account::default() };
        assert_eq!(account_hash(&account), value_hash(&account_value(&account)));
    }
}
