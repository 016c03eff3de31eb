//! A contract as it is deployed: its module, and what its interface calls things.
#![allow(clippy::disallowed_methods)] // A tool for tests on a developer's machine; nothing that decides comes through here.

use crate::cargo::{self, Build};
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
    /// The one in the module, unless another is given. Empty when nobody knows it: calls are then shown by their selectors.
    pub abi: JsonAbi,
    /// What its functions are called and which lines they come from, as far as that is known.
    pub symbols: Option<Arc<Symbols>>,
}

/// Why there is no contract.
#[derive(Debug, thiserror::Error)]
pub enum ContractError {
    #[error("cannot read {}: {error}", path.display())]
    Unreadable { path: PathBuf, error: std::io::Error },
    #[error("{} is not an ABI: {error}", path.display())]
    NotAnAbi { path: PathBuf, error: serde_json::Error },
    #[error("cannot run {0}: {1}")]
    CannotRun(&'static str, std::io::Error),
    #[error("{} does not build for wasm32-unknown-unknown:\n{errors}", manifest.display())]
    DoesNotBuild { manifest: PathBuf, errors: String },
    #[error("{} builds no .wasm: its [lib] needs crate-type = [\"lib\", \"cdylib\"]", .0.display())]
    NoModule(PathBuf),
}

impl Contract {
    pub fn new(name: &str, wasm: impl Into<Bytes>) -> Self {
        let wasm = wasm.into();
        let abi = interface::embedded(&wasm).and_then(|json| serde_json::from_slice(json).ok()).unwrap_or_default();
        let symbols = Symbols::of(&wasm).map(Arc::new);
        Self { name: name.into(), wasm, abi, symbols }
    }

    /// The JSON ABI as the module carries it, if it does.
    pub fn interface(&self) -> Option<&[u8]> {
        interface::embedded(&self.wasm)
    }

    /// An ABI as text: the bare array, or an object with it under `abi`.
    pub fn with_abi(mut self, json: &str) -> Result<Self, serde_json::Error> {
        let mut value: Value = serde_json::from_str(json)?;
        self.abi = serde_json::from_value(value.get_mut("abi").map(Value::take).unwrap_or(value))?;
        Ok(self)
    }

    /// A module from a file, with the `abi.json` beside it if there is one.
    pub fn open(wasm: &Path) -> Result<Self, ContractError> {
        let name = wasm.file_stem().unwrap_or_default().to_string_lossy();
        Self::new(&name, read(wasm)?).with_abi_of(wasm.parent().unwrap_or(Path::new(".")))
    }

    /// The contract that the crate under test is, built as it is deployed: `cargo build --release --target wasm32-unknown-unknown`, with this
    /// machine's paths taken out of the messages of panics, so that gas is the same everywhere.
    ///
    /// With `CORNICHE_DEBUG=1` in the environment it is the debug build instead ([`debug_in_crate`](Self::debug_in_crate)).
    ///
    /// # Panics
    /// When it does not build, or outside of `cargo test`: for tests, which have nothing else to do then.
    pub fn in_this_crate() -> Self {
        let folder = env::var_os("CARGO_MANIFEST_DIR").expect("cargo test says where the crate is");
        let debug = env::var_os("CORNICHE_DEBUG").is_some_and(|value| !value.is_empty() && value != "0");
        let contract = if debug { Self::debug_in_crate } else { Self::in_crate };
        contract(Path::new(&folder)).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The contract that the crate in a folder is. Built once in a process; `abi.json` beside its `Cargo.toml` is its ABI.
    pub fn in_crate(folder: &Path) -> Result<Self, ContractError> {
        Self::built(folder, Build::Release)
    }

    /// The same with the crate's feature `debug`, if it has one, and its debug information kept beside what is deployed: it speaks to the
    /// console, panics say why, and failures name functions and lines. It costs other gas, and deploys on development chains only.
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
