//! `prestateTracer`: state before a run, and with `diffMode` its changes.

use crate::jsonrpc::{Json, json};
use alloy_primitives::{Address, B256, Bytes, U256};
use corniche_api::RpcError;
use corniche_state::{Account, StateView};
use corniche_vm::Touched;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Its `tracerConfig`.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Wanted {
    pub diff_mode: bool,
    pub disable_code: bool,
    pub disable_storage: bool,
}

/// Account; in the second half of a diff, only its changed values.
#[derive(Debug, Default, Serialize)]
struct Part {
    #[serde(skip_serializing_if = "Option::is_none")]
    balance: Option<U256>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<Bytes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nonce: Option<u64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    storage: BTreeMap<B256, B256>,
}

type Parts = BTreeMap<Address, Part>;

/// Approximate recorded size of an account without its code, and of a slot; half of the size as text.
const ACCOUNT_BYTES: usize = 128;
const SLOT_BYTES: usize = 80;

impl Part {
    fn bytes(&self) -> usize {
        ACCOUNT_BYTES + self.code.as_ref().map_or(0, |code| code.len()) + SLOT_BYTES * self.storage.len()
    }
}

/// Text of the result, and its recorded size.
type Told = Result<(Json, usize), RpcError>;

/// `None` if the result exceeds `room`.
fn within(room: usize, parts: &[&Parts], answer: &impl Serialize) -> Option<Told> {
    let bytes = parts.iter().flat_map(|parts| parts.values()).map(Part::bytes).sum();
    (bytes <= room).then(|| json(answer).map(|text| (text, bytes)))
}

/// The view must have the code of all accounts that the run touched. `None` if the result exceeds `room`.
pub fn result(touched: &Touched, view: &dyn StateView, wanted: Wanted, room: usize) -> Option<Told> {
    #[derive(Serialize)]
    struct Difference {
        pre: Parts,
        post: Parts,
    }

    let code = |hash: &B256| touched.code.get(hash).cloned().or_else(|| view.code(hash)).unwrap_or_default();
    let whole = |account: &Account| Part {
        balance: Some(account.balance),
        code: (account.has_code() && !wanted.disable_code).then(|| code(&account.code_hash)),
        nonce: (account.nonce > 0).then_some(account.nonce),
        storage: BTreeMap::new(),
    };
    let slots = || {
        let read = touched.slots.iter().filter_map(|(key, values)| values.map(|values| (key, values)));
        read.filter(|_| !wanted.disable_storage)
    };
    let mut pre = Parts::new();
    for (address, (before, _)) in &touched.accounts {
        if !before.is_empty() {
            pre.insert(*address, whole(before));
        }
    }
    if !wanted.diff_mode {
        for ((address, slot), (before, _)) in slots() {
            // An account may have only storage: the contract with hashes of certified headers.
            if pre.contains_key(address) || !before.is_zero() {
                pre.entry(*address).or_default().storage.insert(*slot, before);
            }
        }
        return within(room, &[&pre], &pre);
    }
    let mut post = Parts::new();
    for (address, (before, after)) in touched.accounts.iter().filter(|(_, (before, after))| before != after) {
        post.insert(
            *address,
            Part {
                balance: (before.balance != after.balance).then_some(after.balance),
                code: (before.code_hash != after.code_hash && !wanted.disable_code).then(|| code(&after.code_hash)),
                nonce: (before.nonce != after.nonce).then_some(after.nonce),
                storage: BTreeMap::new(),
            },
        );
    }
    for ((address, slot), (before, after)) in slots().filter(|(_, (before, after))| before != after) {
        // A zero slot is absent.
        if let Some(part) = pre.get_mut(address).filter(|_| !before.is_zero()) {
            part.storage.insert(*slot, before);
        }
        let part = post.entry(*address).or_default();
        if !after.is_zero() {
            part.storage.insert(*slot, after);
        }
    }
    pre.retain(|address, _| post.contains_key(address));
    let difference = Difference { pre, post };
    within(room, &[&difference.pre, &difference.post], &difference)
}
