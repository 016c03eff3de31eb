//! Facts about a module that can be deployed, as `corniche contract build` and `check` print them.

use corniche_harness::Deployable;
use corniche_vm::wasm::gas::{INK_PER_GAS, LATEST, start_ink};
use serde_json::json;

/// Note for a module whose initial memory is so large that its stack probably has Rust's default size.
pub fn pages_note(pages: u32) -> Option<String> {
    let again = start_ink(0, pages) - start_ink(0, 0);
    let first = again + LATEST.cold_ink(0, 0, pages) - LATEST.cold_ink(0, 0, 0);
    (pages > 4).then(|| {
        format!(
            "note        it starts with {pages} pages, which cost {} gas at the first call in a transaction and {} at each other. Rust's stack of 1 MiB is 16 of them: \
             `-C link-arg=-zstack-size=32768`, or a build.rs as `corniche contract new` writes it, makes it smaller",
            first / INK_PER_GAS,
            again / INK_PER_GAS
        )
    })
}

pub fn as_json(fits: &Deployable) -> serde_json::Value {
    json!({
        "unpackedBytes": fits.unpacked,
        "compressedBytes": fits.compressed,
        "deploymentGas": fits.deployment_gas,
        "functions": fits.functions,
        "memoryPages": fits.pages,
        "imports": fits.imports,
        "developmentOnly": fits.development_only,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_memory_is_reported_with_cost() {
        assert_eq!(pages_note(4), None);
        let note = pages_note(17).unwrap();
        assert!(
            note.contains("17 pages, which cost 53550 gas at the first call in a transaction and 4250 at each other."),
            "{note}"
        );
        assert!(note.contains("-zstack-size=32768") && !note.contains('\n'), "{note}");
    }
}
