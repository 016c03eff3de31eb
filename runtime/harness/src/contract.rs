//! A contract to deploy: its module, ABI and symbols.
#![allow(clippy::disallowed_methods)] // a tool for tests on a developer's machine; no consensus code runs here

use crate::cargo::{self, Build};
use crate::error::ContractError;
use crate::symbols::Symbols;
use alloy_json_abi::JsonAbi;
use alloy_primitives::Bytes;
use corniche_abi::interface;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::{env, fs};

/// A module and its ABI.
#[derive(Clone, Debug)]
pub struct Contract {
    pub name: String,
    pub wasm: Bytes,
    /// ABI embedded in the module, unless another one is given. Empty if unknown: traces then show selectors.
    pub abi: JsonAbi,
    /// Names and source lines of its functions, if known.
    pub symbols: Option<Arc<Symbols>>,
}

impl Contract {
    pub fn new(name: &str, wasm: impl Into<Bytes>) -> Self {
        let wasm = wasm.into();
        let abi = interface::embedded(&wasm).and_then(|json| serde_json::from_slice(json).ok()).unwrap_or_default();
        let symbols = Symbols::of(&wasm).map(Arc::new);
        Self { name: name.into(), wasm, abi, symbols }
    }

    /// Returns the JSON ABI embedded in the module, if any.
    pub fn interface(&self) -> Option<&[u8]> {
        interface::embedded(&self.wasm)
    }

    /// Sets the ABI from JSON: an array, or an object with the array under `abi`.
    pub fn with_abi(mut self, json: &str) -> Result<Self, serde_json::Error> {
        let mut value: Value = serde_json::from_str(json)?;
        self.abi = serde_json::from_value(value.get_mut("abi").map(Value::take).unwrap_or(value))?;
        Ok(self)
    }

    /// Opens a module file, and `abi.json` from the same folder if it exists.
    pub fn open(wasm: &Path) -> Result<Self, ContractError> {
        let name = wasm.file_stem().unwrap_or_default().to_string_lossy();
        Self::new(&name, read(wasm)?).with_abi_of(wasm.parent().unwrap_or(Path::new(".")))
    }

    /// Builds the crate under test as for deployment: `cargo build --release --target wasm32-unknown-unknown`. Paths of
    /// this machine are remapped in panic messages, so that gas is equal on every machine.
    ///
    /// With `CORNICHE_DEBUG=1` in the environment it returns the debug build instead
    /// ([`debug_in_crate`](Self::debug_in_crate)).
    ///
    /// # Panics
    /// Panics if the build fails, or outside of `cargo test`.
    pub fn in_this_crate() -> Self {
        let folder = env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
        let debug = env::var_os("CORNICHE_DEBUG").is_some_and(|value| !value.is_empty() && value != "0");
        let contract = if debug { Self::debug_in_crate } else { Self::in_crate };
        contract(Path::new(&folder)).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Builds the crate in a folder, once per process. `abi.json` next to its `Cargo.toml`, if it exists, is the ABI.
    pub fn in_crate(folder: &Path) -> Result<Self, ContractError> {
        Self::built(folder, Build::Release)
    }

    /// Builds the crate in a folder with its feature `debug`, if it has one, and keeps debug information outside of the
    /// deployed module. The contract writes to the console, panics report their reason, and failures report functions
    /// and lines. Gas differs from a release build, and the module deploys only on development chains.
    pub fn debug_in_crate(folder: &Path) -> Result<Self, ContractError> {
        Self::built(folder, Build::Debug)
    }

    fn built(folder: &Path, how: Build) -> Result<Self, ContractError> {
        static BUILT: Mutex<BTreeMap<(PathBuf, Build), Contract>> = Mutex::new(BTreeMap::new());
        let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (folder.to_owned(), how);
        if let Some(contract) = built.get(&key) {
            return Ok(contract.clone());
        }
        let contract = Self::open_in(folder, &cargo::build(folder, how)?)?;
        let contract = match how {
            Build::Release => contract,
            Build::Debug => Self { wasm: interface::stripped(&contract.wasm).into(), ..contract },
        };
        built.insert(key, contract.clone());
        Ok(contract)
    }

    fn open_in(folder: &Path, wasm: &Path) -> Result<Self, ContractError> {
        let name = wasm.file_stem().unwrap_or_default().to_string_lossy();
        Self::new(&name, read(wasm)?).with_abi_of(folder)
    }

    fn with_abi_of(self, folder: &Path) -> Result<Self, ContractError> {
        let path = folder.join("abi.json");
        let Ok(json) = fs::read_to_string(&path) else { return Ok(self) };
        self.with_abi(&json).map_err(|error| ContractError::NotAnAbi { path, error })
    }
}

fn read(path: &Path) -> Result<Vec<u8>, ContractError> {
    fs::read(path).map_err(|error| ContractError::Unreadable { path: path.into(), error })
}
