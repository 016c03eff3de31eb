//! Reports skipped tests of the circuits.

#[test]
fn verilator_is_installed() {
    if !corniche_aom_rtl::VERILATED {
        corniche_aom_vectors::skip(
            "all of vectors.rs, hm.rs, pk.rs, signer.rs",
            "verilator is missing (Debian: apt-get install verilator)",
        );
    }
}
