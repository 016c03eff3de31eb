//! `prestateTracer`: what a run found, and with `diffMode` what it changed.

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

/// An account; in the second half of a difference, what of it is new.
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

/// The view knows the code of all accounts that the run met.
pub fn result(touched: &Touched, view: &dyn StateView, wanted: Wanted) -> Result<Json, RpcError> {
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
            if let Some(part) = pre.get_mut(address) {
                part.storage.insert(*slot, before);
            }
        }
        return json(&pre);
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
        // Zero is what is not there.
        if let Some(part) = pre.get_mut(address).filter(|_| !before.is_zero()) {
            part.storage.insert(*slot, before);
        }
        let part = post.entry(*address).or_default();
        if !after.is_zero() {
            part.storage.insert(*slot, after);
        }
    }
    pre.retain(|address, _| post.contains_key(address));
    json(&Difference { pre, post })
}
