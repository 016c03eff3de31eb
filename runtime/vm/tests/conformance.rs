//! Every host function, through real WebAssembly on a real journal: its behaviour, edge cases, errors and price.
//!
//! [`CASES`] lists the tests of each function; this test fails for a function of the table (`sdk/abi`) without one.
//! `docs/vm-hooks.md` is generated from that table (`hooks_page.rs`).
#![allow(clippy::unwrap_used)] // also in helpers

mod common;
#[path = "conformance/test_state.rs"]
mod test_state;

#[path = "conformance/accounts.rs"]
mod accounts;
#[path = "conformance/calls.rs"]
mod calls;
#[path = "conformance/certified.rs"]
mod certified;
#[path = "conformance/context.rs"]
mod context;
#[path = "conformance/creations.rs"]
mod creations;
#[path = "conformance/data.rs"]
mod data;
#[path = "conformance/pointers.rs"]
mod pointers;
#[path = "conformance/prices.rs"]
mod prices;
#[path = "conformance/storage.rs"]
mod storage;

use corniche_abi::MODULES;
use std::collections::BTreeSet;

type Cases = &'static [fn()];

/// Tests by function. Separate tables test pointers and prices of all functions.
const CASES: &[(&str, Cases)] = &[
    ("account_balance", &[accounts::balances]),
    ("account_code", &[accounts::code_is_copied_to_its_end]),
    ("account_code_size", &[accounts::code_is_copied_to_its_end]),
    ("account_codehash", &[accounts::code_hashes_of_empty_and_missing_accounts]),
    ("block_basefee", &[context::the_block]),
    ("block_coinbase", &[context::the_block]),
    ("block_gas_limit", &[context::the_block]),
    ("block_number", &[context::the_block]),
    ("block_randomness", &[context::the_block]),
    ("block_timestamp", &[context::the_block]),
    ("call_contract", &[calls::call_kinds_select_state, calls::ways_to_fail, calls::forwarded_gas, calls::forwarded_value]),
    (
        "certified_hash",
        &[
            certified::headers_within_depth,
            certified::in_every_kind_of_frame,
            certified::unwritten_headers,
            certified::out_of_gas,
        ],
    ),
    ("chainid", &[context::the_block]),
    ("contract_address", &[calls::call_kinds_select_state]),
    ("counter_add", &[storage::counters]),
    ("counter_sub", &[storage::counters]),
    ("create1", &[creations::addresses_and_nonces, creations::ways_to_fail, creations::in_a_static_frame]),
    ("create2", &[creations::addresses_and_nonces, creations::ways_to_fail, creations::in_a_static_frame]),
    ("delegate_call_contract", &[calls::call_kinds_select_state, calls::ways_to_fail, calls::delegation_in_a_static_frame]),
    ("emit_log", &[data::logs, data::logs_of_what_failed_are_gone]),
    ("evm_gas_left", &[context::gas_and_ink]),
    ("evm_ink_left", &[context::gas_and_ink]),
    ("exit_early", &[data::exits]),
    ("math_add_mod", &[data::arithmetic]),
    ("math_div", &[data::arithmetic]),
    ("math_mod", &[data::arithmetic]),
    ("math_mul_mod", &[data::arithmetic]),
    ("math_pow", &[data::arithmetic]),
    ("msg_reentrant", &[calls::reentrancy]),
    ("msg_sender", &[calls::call_kinds_select_state]),
    ("msg_value", &[calls::call_kinds_select_state, calls::forwarded_value]),
    ("native_keccak256", &[data::hashes]),
    ("pay_for_memory_grow", &[data::memory_is_paid_where_it_grows]),
    ("read_args", &[data::input_and_result]),
    ("read_return_data", &[calls::what_a_call_returned, calls::ways_to_fail]),
    ("return_data_size", &[calls::what_a_call_returned, calls::ways_to_fail]),
    ("static_call_contract", &[calls::call_kinds_select_state, calls::nothing_changes_in_a_static_call]),
    ("storage_cache_bytes32", &[storage::only_a_flush_writes, storage::stale_words_stay_until_cleared]),
    (
        "storage_flush_cache",
        &[storage::only_a_flush_writes, storage::stale_words_stay_until_cleared, storage::the_stipend_does_not_write],
    ),
    ("storage_load_bytes32", &[storage::only_a_flush_writes, storage::stale_words_stay_until_cleared]),
    ("transient_load_bytes32", &[storage::transient_storage]),
    ("transient_store_bytes32", &[storage::transient_storage]),
    ("tx_gas_price", &[context::the_transaction]),
    ("tx_ink_price", &[context::gas_and_ink]),
    ("tx_origin", &[context::the_transaction]),
    ("write_result", &[data::input_and_result]),
];

fn table() -> BTreeSet<&'static str> {
    MODULES.iter().flat_map(|(_, calls)| calls.iter().map(|call| call.name)).collect()
}

#[test]
fn every_host_call_has_cases() {
    let with_cases: BTreeSet<_> = CASES.iter().filter(|(_, cases)| !cases.is_empty()).map(|(name, _)| *name).collect();
    assert_eq!(with_cases, table());
    assert_eq!(pointers::SIGNATURES.iter().map(|(name, _)| *name).collect::<BTreeSet<_>>(), table());
    assert_eq!(prices::PRICES.iter().map(|price| price.call).collect::<BTreeSet<_>>(), table());
}

#[test]
fn host_calls_match_specification() {
    let mut done = Vec::new();
    for case in CASES.iter().flat_map(|(_, cases)| *cases) {
        // Several functions share a case.
        if !done.contains(&(*case as usize)) {
            case();
            done.push(*case as usize);
        }
    }
}

#[test]
fn pointers_are_checked_exactly() {
    pointers::all();
}

#[test]
fn prices_match_table() {
    prices::all();
}
