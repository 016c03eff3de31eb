//! Proofs of the state: the value of an account or a slot, or its absence. They need only the state root of a header.
//!
//! All accounts and slots of a chain are in one binary tree over the bits of 32-byte keys, most significant bit of byte
//! 0 first:
//!
//! ```text
//!  keys under a prefix
//!  none      32 zero bytes
//!  one       blake3_keyed(LEAF,   key ‖ value hash)        at the top of that subtree, at any depth
//!  more      blake3_keyed(BRANCH, hash of the 0 side ‖ hash of the 1 side)
//! ```
//!
//! - account key: `blake3_keyed(ACCOUNT, address)`; value: nonce (8 bytes), balance (32), code hash (32), version of the host
//!   interface (1), version of the gas table (1), numbers little-endian
//! - storage key: `blake3_keyed(STORAGE, address ‖ slot)`; value: the 32 bytes of the slot, never all zero
//! - value hash: `blake3_keyed(VALUE, value)`
//!
//! `eth_getProof` returns each proof as a list of byte strings: the siblings along the key's path, from the root down,
//! 32 bytes each, followed by the end of the path:
//!
//! ```text
//!  00                          empty: no key has this prefix
//!  01 ‖ value                  the requested key, with its value
//!  02 ‖ key ‖ value hash       another key, the only one with this prefix, so the requested key is absent
//! ```
//!
//! ```
//! # use corniche_types::{Address, B256, Bytes, ProofError, proof};
//! # fn wallet(state_root: B256, account_proof: &[Bytes], slot_proof: &[Bytes]) -> Result<(), ProofError> {
//! let holder = Address::repeat_byte(1);
//! let account = proof::verify_account(&state_root, &holder, account_proof)?; // `None`: there is no such account
//! let value = proof::verify_storage(&state_root, &holder, &B256::ZERO, slot_proof)?; // zero: nothing is there
//! # let _ = (account, value);
//! # Ok(())
//! # }
//! ```

use crate::{Account, Address, B256, Bytes};
use blake3::platform::Platform;
use borsh::{BorshDeserialize, BorshSerialize};

const ACCOUNT: &[u8; 32] = b"corniche state tree v1 account  ";
const STORAGE: &[u8; 32] = b"corniche state tree v1 storage  ";
const VALUE: &[u8; 32] = b"corniche state tree v1 value    ";
#[doc(hidden)] // for the tree, which hashes many at once
pub const LEAF: &[u8; 32] = b"corniche state tree v1 leaf     ";
#[doc(hidden)]
pub const BRANCH: &[u8; 32] = b"corniche state tree v1 branch   ";

/// A path has at most one branch per bit of a key.
pub const MAX_DEPTH: usize = 256;

/// First byte of the end of a path.
const END_EMPTY: u8 = 0;
const END_FOUND: u8 = 1;
const END_OTHER: u8 = 2;

/// Position of a value in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TreeKey(pub B256);

impl TreeKey {
    /// Key of an account's nonce, balance and code.
    pub fn account(address: &Address) -> Self {
        Self(hash_short(ACCOUNT, &[address.as_slice()]))
    }

    /// Key of a contract's storage slot.
    pub fn storage(address: &Address, slot: &B256) -> Self {
        Self(hash_short(STORAGE, &[address.as_slice(), slot.as_slice()]))
    }

    /// Returns true if the path takes the 1 side at a branch `depth` levels below the root.
    pub fn side(&self, depth: usize) -> bool {
        debug_assert!(depth < MAX_DEPTH, "different keys differ in one of their 256 bits");
        self.0[depth / 8] & (0x80 >> (depth % 8)) != 0
    }
}

/// The siblings along a key's path, from the root down, and the end of the path.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Proof {
    /// Hashes of the subtrees next to the path; the first is a child of the root.
    pub siblings: Vec<B256>,
    /// End of the path.
    pub terminal: Terminal,
}

/// End of a path.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Terminal {
    /// Empty: no key has this prefix.
    Empty,
    /// The only leaf under this prefix. If it belongs to another key, it proves that the requested key is absent.
    Leaf {
        /// The leaf's [`TreeKey`].
        key: B256,
        /// [`value_hash`] of the leaf's value.
        value_hash: B256,
    },
}

/// Reason for which a proof is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProofError {
    /// The list is not the encoding of a proof, or a slot's value has the wrong length.
    #[error("malformed proof: expected at most {MAX_DEPTH} siblings of 32 bytes, then the end of the path")]
    Malformed,
    /// The proof is for another state, or invalid.
    #[error("expected root {expected}, got {found}")]
    RootMismatch {
        /// The state root to verify against.
        expected: B256,
        /// The root computed from the proof.
        found: B256,
    },
    /// It proves another key, and nothing about the requested one.
    #[error("the path ends at a key with another prefix")]
    WrongKey,
    /// The value does not decode as an account.
    #[error("the value is not an account")]
    InvalidAccount,
}

/// Returns the account at `address` in the state with this root; `None` if it does not exist.
pub fn verify_account(root: &B256, address: &Address, proof: &[Bytes]) -> Result<Option<Account>, ProofError> {
    let value = verify(root, &TreeKey::account(address), proof)?;
    value.map(|value| Account::try_from_slice(value).map_err(|_| ProofError::InvalidAccount)).transpose()
}

/// Returns the word in a slot in the state with this root; zero if the tree does not contain the slot.
pub fn verify_storage(root: &B256, address: &Address, slot: &B256, proof: &[Bytes]) -> Result<B256, ProofError> {
    match verify(root, &TreeKey::storage(address, slot), proof)? {
        Some(value) => B256::try_from(value).map_err(|_| ProofError::Malformed),
        None => Ok(B256::ZERO),
    }
}

fn verify<'p>(root: &B256, key: &TreeKey, proof: &'p [Bytes]) -> Result<Option<&'p [u8]>, ProofError> {
    let (proof, value) = Proof::from_parts(key, proof)?;
    let found = proof.root(key);
    if found != *root {
        return Err(ProofError::RootMismatch { expected: *root, found });
    }
    if !proof.proves(key, value) {
        return Err(ProofError::WrongKey);
    }
    Ok(value)
}

impl Proof {
    /// Returns whether the tree with this root has exactly `value` at `key`. `None` checks for absence.
    #[must_use]
    pub fn verify(&self, root: &B256, key: &TreeKey, value: Option<&[u8]>) -> bool {
        self.siblings.len() <= MAX_DEPTH && self.proves(key, value) && self.root(key) == *root
    }

    /// Encodes the proof for `eth_getProof`; `value` is the value at `key`.
    pub fn to_parts(&self, key: &TreeKey, value: &[u8]) -> Vec<Bytes> {
        let end = match &self.terminal {
            Terminal::Empty => vec![END_EMPTY],
            Terminal::Leaf { key: found, .. } if *found == key.0 => [&[END_FOUND], value].concat(),
            Terminal::Leaf { key: found, value_hash } => [&[END_OTHER], found.as_slice(), value_hash.as_slice()].concat(),
        };
        let siblings = self.siblings.iter().map(|sibling| Bytes::copy_from_slice(sibling.as_slice()));
        siblings.chain([end.into()]).collect()
    }

    /// Decodes a proof and its value. Does not verify a root.
    fn from_parts<'p>(key: &TreeKey, parts: &'p [Bytes]) -> Result<(Self, Option<&'p [u8]>), ProofError> {
        let (end, siblings) = parts.split_last().ok_or(ProofError::Malformed)?;
        if siblings.len() > MAX_DEPTH {
            return Err(ProofError::Malformed);
        }
        let hash = |bytes: &[u8]| B256::try_from(bytes).map_err(|_| ProofError::Malformed);
        let siblings = siblings.iter().map(|sibling| hash(sibling)).collect::<Result<_, _>>()?;
        let (terminal, value) = match end.split_first() {
            Some((&END_EMPTY, [])) => (Terminal::Empty, None),
            Some((&END_FOUND, value)) => (Terminal::Leaf { key: key.0, value_hash: value_hash(value) }, Some(value)),
            Some((&END_OTHER, leaf)) => {
                let (key, value_hash) = leaf.split_at_checked(32).ok_or(ProofError::Malformed)?;
                (Terminal::Leaf { key: hash(key)?, value_hash: hash(value_hash)? }, None)
            }
            _ => return Err(ProofError::Malformed),
        };
        Ok((Self { siblings, terminal }, value))
    }

    /// Returns whether the end of the path proves the claim about `key`.
    fn proves(&self, key: &TreeKey, value: Option<&[u8]>) -> bool {
        match (&self.terminal, value) {
            (Terminal::Empty, None) => true,
            (Terminal::Empty, Some(_)) => false,
            (Terminal::Leaf { key: found, value_hash: hash }, Some(value)) => *found == key.0 && *hash == value_hash(value),
            (Terminal::Leaf { key: found, .. }, None) => {
                let found = TreeKey(*found);
                found != *key && (0..self.siblings.len()).all(|depth| found.side(depth) == key.side(depth))
            }
        }
    }

    /// Returns the root computed from the path.
    fn root(&self, key: &TreeKey) -> B256 {
        let end = match &self.terminal {
            Terminal::Empty => B256::ZERO,
            Terminal::Leaf { key, value_hash } => leaf_hash(key, value_hash),
        };
        self.siblings.iter().enumerate().rev().fold(end, |node, (depth, sibling)| match key.side(depth) {
            false => branch_hash(&node, sibling),
            true => branch_hash(sibling, &node),
        })
    }
}

/// Returns the bytes of an account in the tree.
pub fn account_value(account: &Account) -> Vec<u8> {
    borsh::to_vec(account).expect("writing into memory cannot fail")
}

/// Returns the hash of a value.
pub fn value_hash(value: &[u8]) -> B256 {
    if value.len() <= 64 { hash_short(VALUE, &[value]) } else { B256::from(*blake3::keyed_hash(VALUE, value).as_bytes()) }
}

#[doc(hidden)] // for the chunks of a state
pub fn leaf_hash(key: &B256, value_hash: &B256) -> B256 {
    hash_short(LEAF, &[key.as_slice(), value_hash.as_slice()])
}

#[doc(hidden)]
pub fn branch_hash(zero: &B256, one: &B256) -> B256 {
    hash_short(BRANCH, &[zero.as_slice(), one.as_slice()])
}

/// Domain flags of blake3. The only block of an input is the start and the end of its chunk, and the root.
const ONE_BLOCK: u8 = KEYED_HASH | 1 | 1 << 1 | 1 << 3;
const KEYED_HASH: u8 = 1 << 4;

/// Returns the plain keyed hash of the parts, which must fit one block of 64 bytes. blake3's public but undocumented
/// `platform` module saves half of the work of a general input. A test compares the result.
fn hash_short(key: &[u8; 32], parts: &[&[u8]]) -> B256 {
    let (mut block, mut length) = ([0; 64], 0);
    for part in parts {
        block[length..length + part.len()].copy_from_slice(part);
        length += part.len();
    }
    let mut state: [u32; 8] = std::array::from_fn(|word| u32::from_le_bytes(std::array::from_fn(|byte| key[4 * word + byte])));
    Platform::detect().compress_in_place(&mut state, &block, length as u8, 0, ONE_BLOCK);
    let mut hash = B256::ZERO;
    for (bytes, word) in hash.0.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_hash_matches_blake3() {
        let bytes: Vec<u8> = (0..64).map(|number: u8| number.wrapping_mul(7)).collect();
        for length in 0..=64 {
            let expected = B256::from(*blake3::keyed_hash(VALUE, &bytes[..length]).as_bytes());
            let (left, right) = bytes[..length].split_at(length / 3);
            assert_eq!(hash_short(VALUE, &[left, right]), expected, "{length}");
        }
    }

    /// A hand-built tree of two leaves: presence and absence are proved, and every changed byte is detected.
    #[test]
    fn inclusion_and_exclusion_proofs() {
        let (rich, poor) = (Address::repeat_byte(1), Address::repeat_byte(2));
        let account = Account { nonce: 7, ..Account::default() };
        let (slot, word) = (B256::repeat_byte(9), B256::repeat_byte(0x77));
        let keys = [TreeKey::account(&rich), TreeKey::storage(&rich, &slot)];
        let values = [account_value(&account), word.to_vec()];
        let leaves = [0, 1].map(|index| leaf_hash(&keys[index].0, &value_hash(&values[index])));
        // Depth at which the keys differ.
        let depth = (0..).find(|depth| keys[0].side(*depth) != keys[1].side(*depth)).unwrap();
        let proof = |index: usize| Proof {
            siblings: [vec![B256::ZERO; depth], vec![leaves[1 - index]]].concat(),
            terminal: Terminal::Leaf { key: keys[index].0, value_hash: value_hash(&values[index]) },
        };
        let root = proof(0).root(&keys[0]);
        let [shown, stored] = [0, 1].map(|index| proof(index).to_parts(&keys[index], &values[index]));
        assert_eq!(verify_account(&root, &rich, &shown), Ok(Some(account)));
        assert_eq!(verify_storage(&root, &rich, &slot, &stored), Ok(word));
        for (proof, check) in [
            (&shown, &(|parts: &[Bytes]| verify_account(&root, &rich, parts).is_ok()) as &dyn Fn(&[Bytes]) -> bool),
            (&stored, &|parts: &[Bytes]| verify_storage(&root, &rich, &slot, parts).is_ok()),
        ] {
            for part in 0..proof.len() {
                for byte in 0..proof[part].len() {
                    let mut tampered = proof.clone();
                    let mut bytes = tampered[part].to_vec();
                    bytes[byte] ^= 1;
                    tampered[part] = bytes.into();
                    assert!(!check(&tampered), "part {part}, byte {byte}");
                }
                assert!(!check(&[&proof[..part], &proof[part + 1..]].concat()), "without part {part}");
            }
        }
        assert_eq!(verify_account(&root, &rich, &[]), Err(ProofError::Malformed));
        assert_eq!(verify_account(&root, &rich, &vec![Bytes::from(vec![0; 32]); 258]), Err(ProofError::Malformed));
        assert!(matches!(verify_account(&root, &rich, &[Bytes::from(vec![0])]), Err(ProofError::RootMismatch { .. })));
        assert!(verify_account(&root, &poor, &shown).is_err(), "proof of another account");
    }
}
