//! Locations of the built contracts.

use anyhow::bail;
use std::path::{Path, PathBuf};

const RELEASE: &str = "wasm32-unknown-unknown/release";

/// Reads contracts built by `make contracts`.
pub struct Wasm {
    places: Vec<PathBuf>,
}

impl Wasm {
    /// Searches only `given`, or else the locations of a checkout: CONTRACTS_WASM_DIR, beside the binary's
    /// own build folder, and below the working directory.
    pub fn new(given: Option<&Path>) -> Self {
        if let Some(given) = given {
            return Self { places: vec![given.to_owned()] };
        }
        let beside_binary = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.parent()?.to_owned()));
        let targets = beside_binary.into_iter().chain([PathBuf::from("target")]);
        Self { places: targets.map(|target| target.join("contracts").join(RELEASE)).collect() }
    }

    /// Module with this name.
    pub fn read(&self, name: &str) -> anyhow::Result<Vec<u8>> {
        let found = self.places.iter().find_map(|place| std::fs::read(place.join(format!("{name}.wasm"))).ok());
        let Some(wasm) = found else {
            let places: Vec<_> = self.places.iter().map(|place| place.display().to_string()).collect();
            bail!(
                "{name}.wasm is not built: run `make contracts`, or point --wasm-dir or CONTRACTS_WASM_DIR to it (looked into {})",
                places.join(" and ")
            );
        };
        Ok(wasm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_contract_error_names_the_build_command() {
        let folder = tempfile::tempdir().unwrap();
        let wasm = Wasm::new(Some(folder.path()));
        let error = wasm.read("bench_amm").unwrap_err().to_string();
        assert!(error.contains("bench_amm.wasm") && error.contains("make contracts"), "{error}");
        assert!(error.contains(folder.path().to_str().unwrap()), "{error}");
        std::fs::write(folder.path().join("bench_amm.wasm"), b"\0asm").unwrap();
        assert_eq!(wasm.read("bench_amm").unwrap(), b"\0asm");
    }
}
