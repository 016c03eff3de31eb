//! Crate of a contract: its location and its reproducible build.
//!
//! The build is isolated from local paths, flags and profiles by [`module_build`], as in tests with the
//! harness; versions come from Cargo.lock. What remains is the compiler, which `rust-toolchain.toml` pins.

use super::abi::parse_items;
use anyhow::{Context, bail, ensure};
use corniche_harness::cargo::{TARGET, module_build, module_of};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Package that builds a module.
#[derive(Debug)]
pub struct Project {
    pub name: String,
    /// Folder of its Cargo.toml.
    pub folder: PathBuf,
    /// Folder of Cargo.lock.
    pub workspace: PathBuf,
    pub target: PathBuf,
    pub features: BTreeSet<String>,
    /// Output of `cargo metadata`.
    metadata: Value,
}

/// Result of a cargo build.
pub struct Built {
    pub wasm: Vec<u8>,
    /// For instance `rustc 1.95.0 (…)`.
    pub compiler: String,
}

impl Project {
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let manifest = if path.is_dir() { path.join("Cargo.toml") } else { path.to_owned() };
        ensure!(
            manifest.exists(),
            "there is no {}: give the folder of a contract, or make one with `corniche contract new`",
            manifest.display()
        );
        let manifest = manifest.canonicalize()?;
        let folder = manifest.parent().context("a file lies in a folder")?.to_owned();
        let metadata = metadata(&folder)?;
        let text = |value: &Value, key: &str| value[key].as_str().map(str::to_owned).unwrap_or_default();
        let workspace = PathBuf::from(text(&metadata, "workspace_root"));
        let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
        let Some(package) = packages.iter().find(|package| Path::new(&text(package, "manifest_path")) == manifest) else {
            let members: Vec<_> =
                packages.iter().filter(|package| package["source"].is_null()).map(|package| text(package, "name")).collect();
            bail!("{} is a workspace, not a contract: give the folder of one of {}", folder.display(), members.join(", "))
        };
        let targets = package["targets"].as_array().map(Vec::as_slice).unwrap_or_default();
        let makes_module =
            |target: &Value| target["crate_types"].as_array().is_some_and(|types| types.contains(&"cdylib".into()));
        ensure!(
            targets.iter().any(makes_module),
            "{} builds no module: its Cargo.toml needs\n\n  [lib]\n  crate-type = [\"lib\", \"cdylib\"]",
            text(package, "name")
        );
        let features = package["features"].as_object().map(|features| features.keys().cloned().collect()).unwrap_or_default();
        let target = PathBuf::from(text(&metadata, "target_directory"));
        Ok(Self { name: text(package, "name"), folder, workspace, target, features, metadata })
    }

    /// Output of `cargo metadata` for it and its dependencies.
    pub fn metadata(&self) -> &Value {
        &self.metadata
    }

    /// File name of the module, without extension.
    pub fn module_name(&self) -> String {
        self.name.replace('-', "_")
    }

    /// ABI file next to its manifest.
    pub fn abi(&self) -> anyhow::Result<Option<Vec<u8>>> {
        let path = self.folder.join("abi.json");
        if !path.exists() {
            return Ok(None);
        }
        let json = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        parse_items(&json, &path.display().to_string())?;
        Ok(Some(json))
    }

    /// Builds the module. Cargo's messages go to standard error.
    pub fn build(&self) -> anyhow::Result<Built> {
        let compiler = tool(&self.folder, "rustc", &["-vV"])?;
        let mut cargo = module_build(&self.folder, &self.metadata)?;
        cargo.arg("--locked");
        let output = cargo.stdin(Stdio::null()).stderr(Stdio::inherit()).output().context("cannot run cargo")?;
        ensure!(
            output.status.success(),
            "{} does not build; `rustup target add {TARGET}` if it is the target that is missing",
            self.name
        );
        let manifest = self.folder.join("Cargo.toml");
        let made = module_of(&output.stdout, &manifest).context("cargo made no module")?;
        let wasm = fs::read(&made).with_context(|| format!("cannot read {}", made.display()))?;
        Ok(Built { wasm, compiler: compiler.lines().next().unwrap_or_default().to_owned() })
    }
}

/// Cargo in this folder, with its configuration and compiler.
pub fn cargo(folder: &Path) -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(folder);
    cargo
}

fn metadata(folder: &Path) -> anyhow::Result<Value> {
    let output = cargo(folder).args(["metadata", "--format-version", "1", "--locked", "--filter-platform", TARGET]).output();
    let output = output.context("cannot run cargo: is Rust installed? https://rustup.rs")?;
    if !output.status.success() {
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        let help = match told.contains("--locked") {
            true => {
                "\n  Cargo.lock is not there or not up to date: run `cargo update --workspace`, and keep the file, since the same code comes only from the same versions"
            }
            false => "",
        };
        bail!("{}{help}", told.trim());
    }
    serde_json::from_slice(&output.stdout).context("cargo metadata")
}

/// Output of a Rust tool run in a folder, with that folder's compiler.
fn tool(folder: &Path, name: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let output =
        Command::new(name).args(arguments).current_dir(folder).output().with_context(|| format!("cannot run {name}"))?;
    ensure!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
