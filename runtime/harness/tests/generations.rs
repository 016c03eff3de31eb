//! Contracts of two generations of the SDK, OpenZeppelin's among them, as `contracts/generations` builds them: each deployed and put to use.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // Where the modules lie is in the environment; helpers of tests unwrap.

mod generations {
    pub mod access;
    pub mod items;
    pub mod probe;
    pub mod token;

    use corniche_harness::Contract;
    use std::path::{Path, PathBuf};

    /// A module of `contracts/generations`.
    pub fn contract(name: &str) -> Contract {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let modules = std::env::var_os("CONTRACTS_WASM_DIR")
            .map(PathBuf::from)
            .unwrap_or_else(|| repository.join("target/contracts/wasm32-unknown-unknown/release"));
        let module = modules.join(format!("{name}.wasm"));
        Contract::open(&module).unwrap_or_else(|error| panic!("{error}; run `make generations`, or set CONTRACTS_WASM_DIR"))
    }
}
