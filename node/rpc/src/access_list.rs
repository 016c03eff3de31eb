//! `eth_createAccessList`: finds the addresses and slots that a call should declare.

use crate::node::{Node, ensure_available};
use crate::prepare::{CallRequest, PreparedCall, execution_error, prepare};
use alloy_eips::eip2930::{AccessList, AccessListItem, AccessListResult};
use alloy_primitives::{Address, B256, U256};
use corniche_api::RpcError;
use corniche_vm::{Call, ExecutionStatus, Trace, TraceLimits, is_precompile};
use std::collections::{BTreeMap, BTreeSet};

type AccessKeys = BTreeMap<Address, BTreeSet<B256>>;

/// Maximum number of runs. A declared key costs less gas, and the gas can change which keys the run reaches.
/// So the search repeats until one list covers everything that a run with it reaches. The last list is
/// returned in any case, with the gas it uses.
const MAX_RUNS: usize = 8;

pub(crate) fn create(node: &Node, call_request: CallRequest) -> Result<AccessListResult, RpcError> {
    let PreparedCall { vm, view, env, mut call } = prepare(node, call_request)?;
    // Sender, receiver and precompiles are warm anyway; declaring them only costs gas.
    let contract = || call.from.create(view.account(&call.from).unwrap_or_default().nonce);
    let warm = [call.from, call.to.unwrap_or_else(contract)];
    let is_warm = |address: &Address| warm.contains(address) || is_precompile(address);

    let mut list = AccessKeys::new();
    for (address, slots) in std::mem::take(&mut call.access_list) {
        if !slots.is_empty() || !is_warm(&address) {
            list.entry(address).or_default().extend(slots);
        }
    }
    for runs in 1.. {
        call.access_list = list.iter().map(|(address, slots)| (*address, slots.iter().copied().collect())).collect();
        // The frames are not needed.
        let mut trace = Trace::new(TraceLimits { bytes: 0, top_only: true });
        let outcome = vm.trace_call(&*view, &env, &call, &mut trace);
        ensure_available(&*view)?;
        if matches!(outcome.end, ExecutionStatus::Invalid(_) | ExecutionStatus::Fault(_)) {
            return Err(execution_error(outcome, call.gas, false));
        }
        let mut reached = list.clone();
        for address in trace.touched().reached.iter().filter(|address| !is_warm(address)) {
            reached.entry(*address).or_default();
        }
        for (address, slot) in trace.touched().slots.keys() {
            reached.entry(*address).or_default().insert(*slot);
        }
        if reached == list || runs == MAX_RUNS {
            let gas_used = U256::from(outcome.gas_used);
            let error = (!outcome.success()).then(|| execution_error(outcome, call.gas, false).message);
            return Ok(AccessListResult { access_list: access_list(&call), gas_used, error });
        }
        list = reached;
    }
    unreachable!("the loop ends at MAX_TRIES")
}

fn access_list(call: &Call) -> AccessList {
    let item = |(address, storage_keys): &(Address, Vec<B256>)| AccessListItem {
        address: *address,
        storage_keys: storage_keys.clone(),
    };
    AccessList(call.access_list.iter().map(item).collect())
}
