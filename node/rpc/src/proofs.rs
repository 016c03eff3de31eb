//! `eth_getProof`: values of the state with Merkle proofs that verify against a header.
//!
//! The sealer's tree has one height, which is ahead of the blocks that clients can see, and it must not wait
//! for clients. So the node keeps a second tree for proofs. It is copied from the sealer's when the first
//! proof is requested, and then moved to the requested block, forwards or backwards. This works because the
//! tree is a function of the state: the keys changed by the blocks in between take the values of that block,
//! and the root must equal the one in the header.

use crate::jsonrpc::{Json, json};
use crate::node::{Node, ensure_available};
use alloy_eips::BlockId;
use alloy_primitives::{Address, B256, Bytes, U64, U256};
use corniche_api::{Reason, RpcError};
use corniche_state::{Changes, StateView, Tree, TreeKey, account_value};
use corniche_types::Height;
use serde::{Deserialize, Serialize};
use std::sync::PoisonError;
use std::time::Duration;

/// Maximum number of slots per request, as in geth.
pub(crate) const MAX_SLOTS: usize = 1_024;
/// Number of blocks behind the head for which proofs are made; a wallet may be that far behind.
const MAX_BLOCKS_BEHIND: u64 = 256;
/// Number and length of the waits until the sealed block is durable.
const MAX_SEAL_POLLS: u32 = 200;
const SEAL_POLL_INTERVAL: Duration = Duration::from_millis(10);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ProofResponse {
    address: Address,
    account_proof: Vec<Bytes>,
    balance: U256,
    code_hash: B256,
    nonce: U64,
    /// Root that the slots are proven against: accounts and slots are in one tree.
    storage_hash: B256,
    storage_proof: Vec<SlotProof>,
}

#[derive(Serialize)]
struct SlotProof {
    key: SlotKey,
    value: U256,
    proof: Vec<Bytes>,
}

/// Slot as the client wrote it: a 32-byte key is returned as 32 bytes, as in geth.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(untagged)]
pub(crate) enum SlotKey {
    Word(B256),
    Number(U256),
}

impl SlotKey {
    fn slot(self) -> B256 {
        match self {
            Self::Word(slot) => slot,
            Self::Number(number) => number.into(),
        }
    }
}

pub(crate) fn get(node: &Node, address: Address, slots: Vec<SlotKey>, block: BlockId) -> Result<Json, RpcError> {
    if slots.len() > MAX_SLOTS {
        return Err(Reason::TooManySlots.with(format!("{} of at most {MAX_SLOTS}", slots.len())));
    }
    let (height, view) = node.state(block)?;
    if height.0.saturating_add(MAX_BLOCKS_BEHIND) < node.backend.head().0 {
        return Err(Reason::StateNotAvailable.with(format!("proofs are made for the newest {MAX_BLOCKS_BEHIND} blocks")));
    }
    let root = node.header_at(height)?.state_root;

    let mut cached = node.proof_tree.lock().unwrap_or_else(PoisonError::into_inner);
    let tree = tree_at(&mut cached, node, &*view, height, root)?;
    let account = view.account(&address);
    let key = TreeKey::account(&address);
    let value = account.as_ref().map(account_value).unwrap_or_default();
    let account_proof = tree.prove(&key).to_parts(&key, &value);
    let slot = |name: SlotKey| {
        let slot = name.slot();
        let (key, word) = (TreeKey::storage(&address, &slot), view.storage(&address, &slot));
        SlotProof { key: name, value: word.into(), proof: tree.prove(&key).to_parts(&key, word.as_slice()) }
    };
    let storage_proof = slots.into_iter().map(slot).collect();
    drop(cached);
    ensure_available(&*view)?;
    let (nonce, balance, code_hash) =
        account.map_or_else(Default::default, |account| (account.nonce, account.balance, account.code_hash));
    json(&ProofResponse {
        address,
        account_proof,
        balance,
        code_hash,
        nonce: U64::from(nonce),
        storage_hash: root,
        storage_proof,
    })
}

/// Moves the tree to a height. The view has the values at that height, the header has the root.
fn tree_at<'t>(
    cached: &'t mut Option<(Height, Tree)>,
    node: &Node,
    view: &dyn StateView,
    height: Height,
    root: B256,
) -> Result<&'t Tree, RpcError> {
    // After a revert the chain may have another block at that height, or none.
    let is_on_chain =
        |from: Height, tree: &Tree| node.backend.header(from).is_some_and(|header| header.state_root == tree.root());
    let delta = match cached {
        Some((from, tree)) if from.0.abs_diff(height.0) <= MAX_BLOCKS_BEHIND && is_on_chain(*from, tree) => {
            changes_between(node, view, *from, height).ok()
        }
        _ => None,
    };
    let delta = match delta {
        Some(delta) => delta,
        None => {
            // A copy is expensive and blocks the sealer, so first check that it could reach the target.
            changes_between(node, view, node.backend.head(), height)?;
            *cached = None;
            let copied = copy_sealed_tree(node, view)?;
            let delta = changes_between(node, view, copied.0, height);
            *cached = Some(copied);
            delta?
        }
    };
    let (mut at, mut tree) = cached.take().ok_or_else(|| RpcError::internal("internal error"))?;
    let found = tree.apply(&delta);
    if found != root {
        // Not kept; the next request starts with a new copy.
        tracing::error!(from = at.0, to = height.0, %found, %root, "the tree for proofs does not lead to the header's root");
        return Err(RpcError::internal("internal error"));
    }
    at = height;
    Ok(&cached.insert((at, tree)).1)
}

/// Changes that move a tree from height `from` to `to`; the view has the values at `to`. Refuses more than
/// the limit of keys.
fn changes_between(node: &Node, view: &dyn StateView, from: Height, to: Height) -> Result<Changes, RpcError> {
    let mut delta = Changes::default();
    for height in from.min(to).0 + 1..=from.max(to).0 {
        ensure_available(view)?;
        let changed = node.backend.changed_keys(Height(height)).ok_or_else(proof_too_old)?;
        for address in changed.accounts {
            delta.accounts.entry(address).or_insert_with(|| view.account(&address));
        }
        for (address, slot) in changed.slots {
            delta.storage.entry((address, slot)).or_insert_with(|| view.storage(&address, &slot));
        }
        if delta.accounts.len() + delta.storage.len() > node.config.max_proof_keys {
            return Err(proof_too_old());
        }
    }
    Ok(delta)
}

fn proof_too_old() -> RpcError {
    Reason::StateNotAvailable.with("too many changes since that block")
}

/// Copies the sealer's tree, and waits until all its blocks are readable.
fn copy_sealed_tree(node: &Node, view: &dyn StateView) -> Result<(Height, Tree), RpcError> {
    let sealed = node.backend.tree().ok_or_else(|| Reason::StateNotAvailable.with("this node serves no proofs"))?;
    let (height, tree) = sealed.copy();
    for _ in 0..MAX_SEAL_POLLS {
        if node.backend.head() >= height {
            return Ok((height, tree));
        }
        ensure_available(view)?;
        std::thread::sleep(SEAL_POLL_INTERVAL);
    }
    Err(Reason::ServerBusy.error())
}
