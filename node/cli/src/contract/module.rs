//! Modules as files and as code of accounts.

use alloy_json_abi::JsonAbi;
use anyhow::{Context, ensure};
use corniche_abi::interface;
use corniche_harness::Symbols;
use corniche_vm::wasm::unpack;
use std::{fs, path::Path};

/// The module in a file, or the one that a folder's contract builds.
pub fn at(path: &Path) -> anyhow::Result<Vec<u8>> {
    super::build::in_folder(path)?.map_or_else(|| read(path), Ok)
}

/// Reads a module and says early what nodes would refuse anyway.
pub fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let help = "build it with `corniche contract build`, or `cargo build --release --target wasm32-unknown-unknown`";
    ensure!(bytes.starts_with(b"\0asm"), "{} is not a WebAssembly module; {help}", path.display());
    Ok(bytes)
}

/// The ABI that a module carries. Whoever made the module wrote it, so what is no ABI counts as none.
pub fn abi_of(wasm: &[u8]) -> Option<JsonAbi> {
    serde_json::from_slice(interface::embedded(wasm)?).ok()
}

/// The ABI that an account's code carries, compressed or not.
pub fn abi_of_code(code: &[u8]) -> Option<JsonAbi> {
    abi_of(&unpack(code).ok()?)
}

/// The names and lines that an account's code carries, compressed or not.
pub fn symbols_of_code(code: &[u8]) -> Option<Symbols> {
    Symbols::of(&unpack(code).ok()?)
}
