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
//! The keys that separate these uses of blake3 are the five constants below. A key of its own for each use makes it
//! impossible to pass a leaf off as a branch and costs nothing, where a tag in front of 64 bytes would cost a second
//! compression. Code is not in the tree: an account names its hash. All of it is frozen by fixtures in `tests/tree.rs`;
//! a change is a change of the protocol, which is why the version stands in the constants.
//!
//! Nodes are shared and copied on write: a clone of a [`Tree`] is one pointer and keeps that version readable.
//!
//! Chosen against: Ethereum's hexary trie (keccak and RLP at each of its nodes, about 20 times the cost) and a fixed depth
//! of 256 (the same security, with 235 more hashes an update).

use crate::{Account, Changes, MAX_DEPTH, Proof, Terminal};
use corniche_types::{Address, B256};
use std::sync::Arc;

const ACCOUNT: &[u8; 32] = b"corniche state tree v1 account  ";
const STORAGE: &[u8; 32] = b"corniche state tree v1 storage  ";
const VALUE: &[u8; 32] = b"corniche state tree v1 value    ";
const LEAF: &[u8; 32] = b"corniche state tree v1 leaf     ";
const BRANCH: &[u8; 32] = b"corniche state tree v1 branch   ";

/// Where a value lies in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TreeKey(pub B256);

impl TreeKey {
    pub fn account(address: &Address) -> Self {
        Self(keyed(ACCOUNT, &[address.as_slice()]))
    }

    pub fn storage(address: &Address, slot: &B256) -> Self {
        Self(keyed(STORAGE, &[address.as_slice(), slot.as_slice()]))
    }

    /// The side to take at a branch `depth` levels below the root.
    pub(crate) fn side(&self, depth: usize) -> bool {
        self.0[depth / 8] & (0x80 >> (depth % 8)) != 0
    }
}

/// The bytes an account stands for in the tree.
pub fn account_value(account: &Account) -> Vec<u8> {
    borsh::to_vec(account).expect("writing into memory cannot fail")
}

/// The tree at one version.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    top: Node,
}

impl Tree {
    /// The root: zero when nothing exists.
    pub fn root(&self) -> B256 {
        self.top.hash()
    }

    /// Brings the tree to the state after `changes` and returns the new root. Empty accounts and zero slots are removed.
    pub fn apply(&mut self, changes: &Changes) -> B256 {
        let accounts = changes.accounts.iter().map(|(address, account)| Update {
            key: TreeKey::account(address),
            value: account.as_ref().filter(|account| !account.is_empty()).map(|account| value_hash(&account_value(account))),
        });
        let slots = changes.storage.iter().map(|((address, slot), value)| Update {
            key: TreeKey::storage(address, slot),
            value: (!value.is_zero()).then(|| value_hash(value.as_slice())),
        });
        let mut updates: Vec<Update> = accounts.chain(slots).collect();
        updates.sort_unstable_by_key(|update| update.key);
        self.top = std::mem::take(&mut self.top).update(0, &updates);
        self.root()
    }

    /// Shows what is, or that nothing is, at `key`.
    pub fn prove(&self, key: &TreeKey) -> Proof {
        let mut siblings = Vec::new();
        let mut node = &self.top;
        loop {
            match node {
                Node::Empty => {
                    return Proof { siblings, terminal: Terminal::Empty };
                }
                Node::Leaf(leaf) => {
                    let terminal = Terminal::Leaf { key: leaf.key.0, value_hash: leaf.value };
                    return Proof { siblings, terminal };
                }
                Node::Branch(branch) => {
                    let (taken, sibling) = match key.side(siblings.len()) {
                        false => (&branch.zero, &branch.one),
                        true => (&branch.one, &branch.zero),
                    };
                    siblings.push(sibling.hash());
                    node = taken;
                }
            }
        }
    }
}

/// New value hash of one key; `None` removes it.
#[derive(Clone, Copy, Debug)]
struct Update {
    key: TreeKey,
    value: Option<B256>,
}

#[derive(Clone, Debug, Default)]
enum Node {
    #[default]
    Empty,
    Leaf(Arc<Leaf>),
    Branch(Arc<Branch>),
}

#[derive(Clone, Debug)]
struct Leaf {
    key: TreeKey,
    value: B256,
    hash: B256,
}

/// Has at least two leaves under it.
#[derive(Clone, Debug)]
struct Branch {
    hash: B256,
    zero: Node,
    one: Node,
}

impl Node {
    fn hash(&self) -> B256 {
        match self {
            Self::Empty => B256::ZERO,
            Self::Leaf(leaf) => leaf.hash,
            Self::Branch(branch) => branch.hash,
        }
    }

    fn leaf(key: TreeKey, value: B256) -> Self {
        Self::Leaf(Arc::new(Leaf { key, value, hash: leaf_hash(&key.0, &value) }))
    }

    /// This subtree, `depth` levels below the root, after `updates`: sorted, without repetition, all under its prefix.
    fn update(self, depth: usize, updates: &[Update]) -> Self {
        match (self, updates) {
            (node, []) => node,
            (Self::Empty, updates) => {
                let present: Vec<Update> = updates.iter().copied().filter(|update| update.value.is_some()).collect();
                Self::build(depth, &present)
            }
            (Self::Leaf(leaf), updates) => leaf.update(depth, updates),
            (Self::Branch(branch), updates) => Branch::update(branch, depth, updates),
        }
    }

    /// The subtree of exactly these leaves; every update carries a value.
    fn build(depth: usize, present: &[Update]) -> Self {
        match present {
            [] => Self::Empty,
            [Update { key, value: Some(value) }] => Self::leaf(*key, *value),
            _ => {
                let (zeros, ones) = split(depth, present);
                Self::join(Self::build(depth + 1, zeros), Self::build(depth + 1, ones))
            }
        }
    }

    /// The subtree over two halves: a branch only when there are two leaves to branch to.
    fn join(zero: Self, one: Self) -> Self {
        match (zero, one) {
            (Self::Empty, Self::Empty) => Self::Empty,
            (Self::Empty, leaf @ Self::Leaf(_)) | (leaf @ Self::Leaf(_), Self::Empty) => leaf,
            (zero, one) => {
                let hash = branch_hash(&zero.hash(), &one.hash());
                Self::Branch(Arc::new(Branch { hash, zero, one }))
            }
        }
    }
}

impl Leaf {
    fn update(self: Arc<Self>, depth: usize, updates: &[Update]) -> Node {
        let mut present: Vec<Update> = Vec::with_capacity(updates.len() + 1);
        present.extend(updates.iter().filter(|update| update.value.is_some()));
        if updates.binary_search_by_key(&self.key, |update| update.key).is_err() {
            if present.is_empty() {
                return Node::Leaf(self);
            }
            let position = present.partition_point(|update| update.key < self.key);
            present.insert(position, Update { key: self.key, value: Some(self.value) });
        }
        Node::build(depth, &present)
    }
}

impl Branch {
    fn update(mut branch: Arc<Self>, depth: usize, updates: &[Update]) -> Node {
        let (zeros, ones) = split(depth, updates);
        // Copies this one node when an older version of the tree still holds it, and works in place otherwise.
        let own = Arc::make_mut(&mut branch);
        own.zero = std::mem::take(&mut own.zero).update(depth + 1, zeros);
        own.one = std::mem::take(&mut own.one).update(depth + 1, ones);
        match (&own.zero, &own.one) {
            (Node::Empty, Node::Empty | Node::Leaf(_)) | (Node::Leaf(_), Node::Empty) => {
                Node::join(std::mem::take(&mut own.zero), std::mem::take(&mut own.one))
            }
            (zero, one) => {
                own.hash = branch_hash(&zero.hash(), &one.hash());
                Node::Branch(branch)
            }
        }
    }
}

/// Sorted updates under one prefix, by the bit at `depth`.
fn split(depth: usize, updates: &[Update]) -> (&[Update], &[Update]) {
    debug_assert!(depth < MAX_DEPTH, "different keys differ in one of their 256 bits");
    updates.split_at(updates.partition_point(|update| !update.key.side(depth)))
}

pub(crate) fn value_hash(value: &[u8]) -> B256 {
    keyed(VALUE, &[value])
}

pub(crate) fn leaf_hash(key: &B256, value_hash: &B256) -> B256 {
    keyed(LEAF, &[key.as_slice(), value_hash.as_slice()])
}

pub(crate) fn branch_hash(zero: &B256, one: &B256) -> B256 {
    keyed(BRANCH, &[zero.as_slice(), one.as_slice()])
}

fn keyed(key: &[u8; 32], parts: &[&[u8]]) -> B256 {
    let mut hasher = blake3::Hasher::new_keyed(key);
    for part in parts {
        hasher.update(part);
    }
    B256::from(*hasher.finalize().as_bytes())
}
