//! Deploys and uses contracts of two generations of the SDK, including OpenZeppelin's, as built by
//! `contracts/generations`.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // the environment has the paths of the modules; test helpers unwrap

mod generations {
    pub mod access;
    pub mod items;
    pub mod probe;
    pub mod token;

    use corniche_harness::Contract;
    use std::path::{Path, PathBuf};

    /// Returns a module of `contracts/generations`.
    pub fn contract(name: &str) -> Contract {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let modules = std::env::var_os("CONTRACTS_WASM_DIR")
            .map(PathBuf::from)
            .unwrap_or_else(|| repository.join("target/contracts/wasm32-unknown-unknown/release"));
        let module = modules.join(format!("{name}.wasm"));
        Contract::open(&module).unwrap_or_else(|error| panic!("{error}; run `make generations`, or set CONTRACTS_WASM_DIR"))
    }
}
