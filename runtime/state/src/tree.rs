//! The authenticated tree: one 32-byte root over all accounts and storage slots.
//!
//! A binary tree over the bits of 32-byte keys, most significant bit of byte 0 first. The form of a subtree depends
//! only on the number of leaves under its prefix:
//!
//! ```text
//!  none      empty     32 zero bytes
//!  one       leaf      blake3_keyed(LEAF,   key ‖ value hash)        at the top of that subtree, at any depth
//!  more      branch    blake3_keyed(BRANCH, hash of the 0 side ‖ hash of the 1 side)
//! ```
//!
//! So the root is a function of the content alone, independent of the order of insertions and of deleted keys. Keys are
//! hashes, hence evenly distributed, and a path has about log2(n) branches.
//!
//! - account key: `blake3_keyed(ACCOUNT, address)`; value: borsh of [`Account`]
//! - storage key: `blake3_keyed(STORAGE, address ‖ slot)`; value: the 32 bytes of the slot
//! - value hash: `blake3_keyed(VALUE, value)`
//!
//! The blake3 keys of these uses are five constants in `corniche_types::proof`, which also verifies proofs. With a
//! separate key for each use, a leaf cannot pass as a branch. This costs nothing, while a tag before 64 bytes would
//! cost a second compression. Code is not in the tree: an account contains its hash. Fixtures in `tests/tree.rs` freeze
//! the format. A change to it is a change of the protocol, which is why the constants contain a version.
//!
//! A tree holds one version and is updated in place; keeping an older version requires a copy.
//!
//! Rejected alternatives: Ethereum's hexary trie (keccak and RLP at each node, about 20 times the cost); a fixed depth
//! of 256 (equal security, 235 more hashes per update); copy-on-write nodes shared between versions (three times the
//! cost, for versions that are never read).

mod hash;
mod nodes;

use crate::{Changes, MAX_DEPTH, Proof, TreeKey};
use corniche_types::proof::value_hash;
use corniche_types::{B256, Height};
use hash::account_hash;
use nodes::Nodes;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

fn side(key: &B256, depth: usize) -> bool {
    debug_assert!(depth < MAX_DEPTH, "different keys differ in one of their 256 bits");
    key[depth / 8] & (0x80 >> (depth % 8)) != 0
}

/// The tree at one version.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    nodes: Nodes,
}

/// New value hash of a key; `None` removes the key.
#[derive(Clone, Copy, Debug)]
struct Update {
    key: TreeKey,
    value: Option<B256>,
}

impl Tree {
    /// Returns the root; zero for an empty tree.
    pub fn root(&self) -> B256 {
        self.nodes.root()
    }

    /// Applies `changes` and returns the new root. Removes empty accounts and zero slots.
    pub fn apply(&mut self, changes: &Changes) -> B256 {
        let accounts = changes.accounts.iter().map(|(address, account)| Update {
            key: TreeKey::account(address),
            value: account.as_ref().filter(|account| !account.is_empty()).map(account_hash),
        });
        let slots = changes.storage.iter().map(|((address, slot), value)| Update {
            key: TreeKey::storage(address, slot),
            value: (!value.is_zero()).then(|| value_hash(value.as_slice())),
        });
        let mut updates: Vec<Update> = Vec::with_capacity(changes.accounts.len() + changes.storage.len());
        updates.extend(accounts.chain(slots));
        updates
            .sort_unstable_by(|one, other| leading_bits(one).cmp(&leading_bits(other)).then_with(|| one.key.cmp(&other.key)));
        self.nodes.update(&updates);
        self.root()
    }

    /// Proves the value at `key`, or its absence.
    pub fn prove(&self, key: &TreeKey) -> Proof {
        self.nodes.prove(&key.0)
    }

    /// Returns the bytes of memory held for nodes, and the bytes in use.
    pub fn bytes(&self) -> (usize, usize) {
        self.nodes.bytes()
    }
}

/// Returns the first bytes of the key as a number, which nearly always suffices to compare keys.
fn leading_bits(update: &Update) -> u64 {
    u64::from_be_bytes(std::array::from_fn(|index| update.key.0[index]))
}

/// The tree of the sealing thread, from which other threads can take copies.
#[derive(Clone, Debug)]
pub struct SharedTree(Arc<Mutex<(Height, Tree)>>);

impl SharedTree {
    /// Creates a shared tree with the state of this height.
    pub fn new(height: Height, tree: Tree) -> Self {
        Self(Arc::new(Mutex::new((height, tree))))
    }

    /// Applies the changes of the block at `height`; see [`Tree::apply`].
    pub fn apply(&self, height: Height, changes: &Changes) -> B256 {
        let mut held = self.lock();
        held.0 = height;
        held.1.apply(changes)
    }

    /// Returns a copy of the tree and its height. Copies all bytes of the tree, and blocks the sealing thread
    /// meanwhile.
    pub fn copy(&self) -> (Height, Tree) {
        self.lock().clone()
    }

    /// Takes the tree out and leaves an empty one.
    pub fn take(&self) -> Tree {
        std::mem::take(&mut self.lock().1)
    }

    // A panic during an update stops the node.
    fn lock(&self) -> MutexGuard<'_, (Height, Tree)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
