//! Modules in files and in accounts' code.

use alloy_json_abi::JsonAbi;
use anyhow::{Context, ensure};
use corniche_abi::interface;
use corniche_harness::Symbols;
use corniche_vm::wasm::unpack;
use std::{fs, path::Path};

/// Module in a file, or built from the contract in a folder.
pub fn at(path: &Path) -> anyhow::Result<Vec<u8>> {
    super::build::in_folder(path)?.map_or_else(|| read(path), Ok)
}

/// Reads a module; refuses early what nodes would refuse anyway.
pub fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let help = "build it with `corniche contract build`, or `cargo build --release --target wasm32-unknown-unknown`";
    ensure!(bytes.starts_with(b"\0asm"), "{} is not a WebAssembly module; {help}", path.display());
    Ok(bytes)
}

/// ABI embedded in a module. The module may come from anyone, so an invalid ABI counts as none.
pub fn abi_of(wasm: &[u8]) -> Option<JsonAbi> {
    serde_json::from_slice(interface::embedded(wasm)?).ok()
}

/// ABI embedded in an account's code, compressed or not.
pub fn abi_of_code(code: &[u8]) -> Option<JsonAbi> {
    abi_of(&unpack(code).ok()?)
}

/// Names and lines embedded in an account's code, compressed or not.
pub fn symbols_of_code(code: &[u8]) -> Option<Symbols> {
    Symbols::of(&unpack(code).ok()?)
}
