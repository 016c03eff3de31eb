//! Checks that `docs/vm-hooks.md` matches the table of host calls. After a change, run `WRITE_DOCS=1 cargo test -p
//! corniche-vm --test hooks_page`.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // the environment selects whether the page is written

use corniche_abi::{INK_PER_GAS, MODULES, ValueType};
use corniche_vm::wasm::gas;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

#[path = "conformance/page.rs"]
mod page;

/// Formats ink as gas, exact to one unit of ink.
fn gas_of(ink: u64) -> String {
    let (whole, part) = (ink / INK_PER_GAS, ink % INK_PER_GAS);
    if part == 0 { whole.to_string() } else { format!("{whole}.{part:04}").trim_end_matches('0').to_owned() }
}

fn page() -> String {
    let mut text = page::HEAD.to_string();
    for (module, calls) in MODULES {
        write!(text, "\n## `{module}`\n\n| function | effect | on Arbitrum | gas |\n|---|---|---|---|\n").unwrap();
        for call in *calls {
            let kind = |kind: &ValueType| if *kind == ValueType::I32 { "i32" } else { "i64" };
            let parameters: Vec<_> = call.parameters.iter().map(kind).collect();
            let result = call.result.iter().map(|result| format!(" → {}", kind(result))).collect::<String>();
            let entry = page::ENTRIES.iter().find(|entry| entry.0 == call.name);
            let (_, effect, on_arbitrum, more) = entry.unwrap_or_else(|| panic!("{}: expected an entry, got none", call.name));
            let more = if more.is_empty() { String::new() } else { format!("; {more}") };
            let signature = format!("`{}({}){result}`", call.name, parameters.join(", "));
            writeln!(text, "| {signature} | {effect} | {on_arbitrum} | {}{more} |", gas_of(call.ink)).unwrap();
        }
    }
    text += page::PRICES;
    for (what, ink) in [
        ("each byte that a call copies in or out", gas::INK_PER_HOST_BYTE),
        ("each byte of a result (`write_result`), in addition", gas::INK_PER_RESULT_BYTE),
        ("`native_keccak256`", gas::INK_KECCAK_BASE),
        ("`native_keccak256`, each started word of 32 bytes", gas::INK_PER_KECCAK_WORD),
        ("each significant byte of an exponent (`math_pow`)", gas::INK_PER_EXPONENT_BYTE),
        ("each word that a write adds to the storage cache", gas::INK_PER_CACHED_WORD),
        ("each page of memory growth", gas::LATEST.grown_page),
        ("each page that a frame starts with", gas::INK_PER_PAGE),
        ("a load from memory, in addition to 0.3: each page of memory", gas::LATEST.load_page),
        ("a load from memory: pages of memory squared", gas::INK_PER_LOAD_PAGE_SQUARED),
    ] {
        writeln!(text, "| {what} | {} |", gas_of(ink)).unwrap();
    }
    text + page::TAIL
}

#[test]
fn page_matches_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/vm-hooks.md");
    let page = page();
    if std::env::var_os("WRITE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/vm-hooks.md is old: WRITE_DOCS=1 cargo test -p corniche-vm --test hooks_page");
}

#[test]
fn page_names_existing_host_calls() {
    let said: BTreeSet<_> = page::ENTRIES.iter().map(|entry| entry.0).collect();
    let there: BTreeSet<_> = MODULES.iter().flat_map(|(_, calls)| calls.iter().map(|call| call.name)).collect();
    assert_eq!((said.len(), &said), (page::ENTRIES.len(), &there));
}
