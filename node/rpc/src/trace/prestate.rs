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
pub struct PrestateTracerConfig {
    pub diff_mode: bool,
    pub disable_code: bool,
    pub disable_storage: bool,
}

/// Account; in the second half of a diff, only its changed values.
#[derive(Debug, Default, Serialize)]
struct AccountState {
    #[serde(skip_serializing_if = "Option::is_none")]
    balance: Option<U256>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<Bytes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nonce: Option<u64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    storage: BTreeMap<B256, B256>,
}

type AccountStates = BTreeMap<Address, AccountState>;

/// Approximate recorded size of an account without its code, and of a slot; half of the size as text.
const ACCOUNT_BYTES: usize = 128;
const SLOT_BYTES: usize = 80;

impl AccountState {
    fn bytes(&self) -> usize {
        ACCOUNT_BYTES + self.code.as_ref().map_or(0, |code| code.len()) + SLOT_BYTES * self.storage.len()
    }
}

/// Text of the result, and its recorded size.
type TracerResult = Result<(Json, usize), RpcError>;

/// `None` if the result exceeds `max_bytes`.
fn serialize_within(max_bytes: usize, states: &[&AccountStates], result_json: &impl Serialize) -> Option<TracerResult> {
    let bytes = states.iter().flat_map(|states| states.values()).map(AccountState::bytes).sum();
    (bytes <= max_bytes).then(|| json(result_json).map(|text| (text, bytes)))
}

/// The view must have the code of all accounts that the run touched. `None` if the result exceeds `max_bytes`.
pub fn result(touched: &Touched, view: &dyn StateView, config: PrestateTracerConfig, max_bytes: usize) -> Option<TracerResult> {
    #[derive(Serialize)]
    struct Difference {
        pre: AccountStates,
        post: AccountStates,
    }

    let code = |hash: &B256| touched.code.get(hash).cloned().or_else(|| view.code(hash)).unwrap_or_default();
    let full_account = |account: &Account| AccountState {
        balance: Some(account.balance),
        code: (account.has_code() && !config.disable_code).then(|| code(&account.code_hash)),
        nonce: (account.nonce > 0).then_some(account.nonce),
        storage: BTreeMap::new(),
    };
    let slots = || {
        let read = touched.slots.iter().filter_map(|(key, values)| values.map(|values| (key, values)));
        read.filter(|_| !config.disable_storage)
    };
    let mut pre = AccountStates::new();
    for (address, (before, _)) in &touched.accounts {
        if !before.is_empty() {
            pre.insert(*address, full_account(before));
        }
    }
    if !config.diff_mode {
        for ((address, slot), (before, _)) in slots() {
            // An account may have only storage: the contract with hashes of certified headers.
            if pre.contains_key(address) || !before.is_zero() {
                pre.entry(*address).or_default().storage.insert(*slot, before);
            }
        }
        return serialize_within(max_bytes, &[&pre], &pre);
    }
    let mut post = AccountStates::new();
    for (address, (before, after)) in touched.accounts.iter().filter(|(_, (before, after))| before != after) {
        post.insert(
            *address,
            AccountState {
                balance: (before.balance != after.balance).then_some(after.balance),
                code: (before.code_hash != after.code_hash && !config.disable_code).then(|| code(&after.code_hash)),
                nonce: (before.nonce != after.nonce).then_some(after.nonce),
                storage: BTreeMap::new(),
            },
        );
    }
    for ((address, slot), (before, after)) in slots().filter(|(_, (before, after))| before != after) {
        // A zero slot is absent.
        if let Some(state) = pre.get_mut(address).filter(|_| !before.is_zero()) {
            state.storage.insert(*slot, before);
        }
        let state = post.entry(*address).or_default();
        if !after.is_zero() {
            state.storage.insert(*slot, after);
        }
    }
    pre.retain(|address, _| post.contains_key(address));
    let difference = Difference { pre, post };
    serialize_within(max_bytes, &[&difference.pre, &difference.post], &difference)
}
