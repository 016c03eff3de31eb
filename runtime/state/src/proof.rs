//! Proofs: what is, or that nothing is, at one key of a [`crate::Tree`], checkable with the root alone.

use crate::{
    TreeKey,
    tree::{branch_hash, leaf_hash, value_hash},
};
use borsh::{BorshDeserialize, BorshSerialize};
use corniche_types::B256;

/// A path has one branch per bit of a key at most.
pub const MAX_DEPTH: usize = 256;

/// The siblings along the path of a key, from the root down, and what the path ends at.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub struct Proof {
    pub siblings: Vec<B256>,
    pub terminal: Terminal,
}

/// What lies at the end of a path.
#[derive(Clone, Debug, PartialEq, Eq, BorshSerialize, BorshDeserialize)]
pub enum Terminal {
    /// Nothing: no key has this prefix.
    Empty,
    /// The only leaf under this prefix: of the key asked for, or of another one, which then shows that the key asked for
    /// is absent.
    Leaf { key: B256, value_hash: B256 },
}

impl Proof {
    /// Whether the tree with this root holds exactly `value` at `key`; `None` asks whether it holds nothing there.
    #[must_use]
    pub fn verify(&self, root: &B256, key: &TreeKey, value: Option<&[u8]>) -> bool {
        self.siblings.len() <= MAX_DEPTH && self.answers(key, value) && self.root(key) == *root
    }

    /// Whether the end of the path says what is claimed about `key`.
    fn answers(&self, key: &TreeKey, value: Option<&[u8]>) -> bool {
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

    /// The root that this path leads to.
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
