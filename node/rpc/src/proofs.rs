//! `eth_getProof`: what the state holds, and what shows it to whoever has a header.
//!
//! The tree of whoever seals blocks stands at one height, which is ahead of what clients know, and must not wait for them. A node that is asked
//! for proofs therefore keeps a second tree, copied from that one when the first proof is wanted, and moves it to the block that is
//! asked for, forwards or backwards: the tree is a function of what the state holds, so the keys that the blocks between have
//! changed take the values of that block, and its root must be the one in the header.

use crate::jsonrpc::{Json, json};
use crate::node::{Node, still_there};
use alloy_eips::BlockId;
use alloy_primitives::{Address, B256, Bytes, U64, U256};
use corniche_api::{Reason, RpcError};
use corniche_state::{Changes, StateView, Tree, TreeKey, account_value};
use corniche_types::Height;
use serde::{Deserialize, Serialize};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Slots of one request, as geth has it.
pub(crate) const MAX_SLOTS: usize = 1_024;
/// Blocks behind the head for which proofs are made: as far as a wallet may be behind.
const BLOCKS: u64 = 256;
/// How often, and how long each time, to look whether what is sealed is durable.
const NAPS: u32 = 200;
const NAP: Duration = Duration::from_millis(10);

/// The second tree and the height at which it stands, once it is wanted.
#[derive(Default)]
pub(crate) struct Proofs(Mutex<Option<(Height, Tree)>>);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    address: Address,
    account_proof: Vec<Bytes>,
    balance: U256,
    code_hash: B256,
    nonce: U64,
    /// What slots are proven against: they lie in the same tree as accounts.
    storage_hash: B256,
    storage_proof: Vec<SlotProof>,
}

#[derive(Serialize)]
struct SlotProof {
    key: SlotName,
    value: U256,
    proof: Vec<Bytes>,
}

/// A slot as its client writes it: whoever writes 32 bytes reads 32 bytes, as from geth.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub(crate) enum SlotName {
    Word(B256),
    Number(U256),
}

impl SlotName {
    fn slot(self) -> B256 {
        match self {
            Self::Word(slot) => slot,
            Self::Number(number) => number.into(),
        }
    }
}

pub(crate) fn get(node: &Node, address: Address, slots: Vec<SlotName>, block: BlockId) -> Result<Json, RpcError> {
    if slots.len() > MAX_SLOTS {
        return Err(Reason::TooManySlots.with(format!("{} of at most {MAX_SLOTS}", slots.len())));
    }
    let (height, view) = node.state(block)?;
    if height.0.saturating_add(BLOCKS) < node.backend.head().0 {
        return Err(Reason::StateNotAvailable.with(format!("proofs are made for the newest {BLOCKS} blocks")));
    }
    let root = node.backend.block(height).ok_or_else(|| Reason::HeaderNotFound.error())?.header.state_root;

    let mut held = node.proofs.0.lock().unwrap_or_else(PoisonError::into_inner);
    let tree = move_to(&mut held, node, &*view, height, root)?;
    let account = view.account(&address);
    let key = TreeKey::account(&address);
    let value = account.as_ref().map(account_value).unwrap_or_default();
    let account_proof = tree.prove(&key).to_parts(&key, &value);
    let slot = |name: SlotName| {
        let slot = name.slot();
        let (key, word) = (TreeKey::storage(&address, &slot), view.storage(&address, &slot));
        SlotProof { key: name, value: word.into(), proof: tree.prove(&key).to_parts(&key, word.as_slice()) }
    };
    let storage_proof = slots.into_iter().map(slot).collect();
    drop(held);
    still_there(&*view)?;
    let (nonce, balance, code_hash) =
        account.map_or_else(Default::default, |account| (account.nonce, account.balance, account.code_hash));
    json(&Answer { address, account_proof, balance, code_hash, nonce: U64::from(nonce), storage_hash: root, storage_proof })
}

/// The tree at a height, whose values the view has and whose header has the root.
fn move_to<'t>(
    held: &'t mut Option<(Height, Tree)>,
    node: &Node,
    view: &dyn StateView,
    height: Height,
    root: B256,
) -> Result<&'t Tree, RpcError> {
    // A chain that went back may have another block there, or none.
    let stands = |from: Height, tree: &Tree| node.backend.block(from).is_some_and(|at| at.header.state_root == tree.root());
    let way = match held {
        Some((from, tree)) if from.0.abs_diff(height.0) <= BLOCKS && stands(*from, tree) => {
            between(node, view, *from, height).ok()
        }
        _ => None,
    };
    let way = match way {
        Some(way) => way,
        None => {
            // Copying is dear and keeps the sealer waiting, so a copy that would not lead there either is not made.
            between(node, view, node.backend.head(), height)?;
            *held = None;
            let copied = copy(node, view)?;
            let way = between(node, view, copied.0, height);
            *held = Some(copied);
            way?
        }
    };
    let (mut at, mut tree) = held.take().ok_or_else(|| RpcError::internal("internal error"))?;
    let found = tree.apply(&way);
    if found != root {
        // Not kept: the next request begins anew.
        tracing::error!(from = at.0, to = height.0, %found, %root, "the tree for proofs does not lead to the header's root");
        return Err(RpcError::internal("internal error"));
    }
    at = height;
    Ok(&held.insert((at, tree)).1)
}

/// What a tree at height `from` has to take to stand at `to`, whose values the view has, unless it is too much.
fn between(node: &Node, view: &dyn StateView, from: Height, to: Height) -> Result<Changes, RpcError> {
    let mut way = Changes::default();
    for height in from.min(to).0 + 1..=from.max(to).0 {
        still_there(view)?;
        let changed = node.backend.changed(Height(height)).ok_or_else(too_far)?;
        for address in changed.accounts {
            way.accounts.entry(address).or_insert_with(|| view.account(&address));
        }
        for (address, slot) in changed.slots {
            way.storage.entry((address, slot)).or_insert_with(|| view.storage(&address, &slot));
        }
        if way.accounts.len() + way.storage.len() > node.config.max_proof_keys {
            return Err(too_far());
        }
    }
    Ok(way)
}

fn too_far() -> RpcError {
    Reason::StateNotAvailable.with("too much has changed since that block to prove what it held")
}

/// The sealed tree, as soon as all its blocks can be read.
fn copy(node: &Node, view: &dyn StateView) -> Result<(Height, Tree), RpcError> {
    let sealed = node.backend.tree().ok_or_else(|| Reason::StateNotAvailable.with("this node makes no proofs"))?;
    let (height, tree) = sealed.copy();
    for _ in 0..NAPS {
        if node.backend.head() >= height {
            return Ok((height, tree));
        }
        still_there(view)?;
        std::thread::sleep(NAP);
    }
    Err(Reason::ServerBusy.error())
}
