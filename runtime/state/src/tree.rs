//! The authenticated tree: one 32-byte root over all accounts and storage slots.
//!
//! A binary tree over the bits of 32-byte keys, most significant bit of byte 0 first. What a subtree is depends only on
//! how many leaves lie under its prefix:
//!
//! ```text
//!  none      empty     32 zero bytes
//!  one       leaf      blake3_keyed(LEAF,   key ‖ value hash)        at the top of that subtree, whatever its depth
//!  more      branch    blake3_keyed(BRANCH, hash of the 0 side ‖ hash of the 1 side)
//! ```
//!
//! So the root is a function of the content and of nothing else: not of the order of insertion, not of what was there and
//! was deleted. Keys are hashes, hence spread evenly, and a path is about log2(n) branches long.
//!
//! - account key: `blake3_keyed(ACCOUNT, address)`; value: borsh of [`Account`]
//! - storage key: `blake3_keyed(STORAGE, address ‖ slot)`; value: the 32 bytes of the slot
//! - value hash: `blake3_keyed(VALUE, value)`
//!
//! The keys that separate these uses of blake3 are five constants, in `corniche_types::proof`, where a proof is checked. A key of its own for each use makes it
//! impossible to pass a leaf off as a branch and costs nothing, where a tag in front of 64 bytes would cost a second
//! compression. Code is not in the tree: an account names its hash. All of it is frozen by fixtures in `tests/tree.rs`;
//! a change is a change of the protocol, which is why the version stands in the constants.
//!
//! A tree is one version and changes in place: an older version costs a copy of it.
//!
//! Chosen against: Ethereum's hexary trie (keccak and RLP at each of its nodes, about 20 times the cost), a fixed depth of
//! 256 (the same security, with 235 more hashes an update), and nodes that are shared between versions and copied on write
//! (three times the cost, for versions that nobody reads).

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

/// New value hash of one key; `None` removes it.
#[derive(Clone, Copy, Debug)]
struct Update {
    key: TreeKey,
    value: Option<B256>,
}

impl Tree {
    /// The root: zero when nothing exists.
    pub fn root(&self) -> B256 {
        self.nodes.root()
    }

    /// Brings the tree to the state after `changes` and returns the new root. Empty accounts and zero slots are removed.
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
        updates.sort_unstable_by(|one, other| leading(one).cmp(&leading(other)).then_with(|| one.key.cmp(&other.key)));
        self.nodes.update(&updates);
        self.root()
    }

    /// Shows what is, or that nothing is, at `key`.
    pub fn prove(&self, key: &TreeKey) -> Proof {
        self.nodes.prove(&key.0)
    }

    /// Bytes of memory held for nodes, and how many of them are in use.
    pub fn bytes(&self) -> (usize, usize) {
        self.nodes.bytes()
    }
}

/// The first bytes of the key as a number: nearly always enough to compare.
fn leading(update: &Update) -> u64 {
    u64::from_be_bytes(std::array::from_fn(|index| update.key.0[index]))
}

/// The tree of whoever seals blocks, of which others may take a copy.
#[derive(Clone, Debug)]
pub struct SharedTree(Arc<Mutex<(Height, Tree)>>);

impl SharedTree {
    /// A tree that stands at a height.
    pub fn new(height: Height, tree: Tree) -> Self {
        Self(Arc::new(Mutex::new((height, tree))))
    }

    /// [`Tree::apply`] with the changes of the block at a height.
    pub fn apply(&self, height: Height, changes: &Changes) -> B256 {
        let mut held = self.lock();
        held.0 = height;
        held.1.apply(changes)
    }

    /// The tree as it is, and its height. Who seals waits meanwhile: copying moves all bytes of the tree.
    pub fn copy(&self) -> (Height, Tree) {
        self.lock().clone()
    }

    /// The tree, for whoever goes on with another handle; this one is empty then.
    pub fn take(&self) -> Tree {
        std::mem::take(&mut self.lock().1)
    }

    // A panic while the tree changed stops the node.
    fn lock(&self) -> MutexGuard<'_, (Height, Tree)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
