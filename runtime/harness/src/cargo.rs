//! A contract's crate is built the same wherever it lies. The one place here that touches the world: `cargo` is run when a test, or the command
//! line, asks for a module.
//!
//! A module carries the paths of the sources whose panics it can tell of, and what a call costs depends on the module's size. So
//! paths are told as they would be told anywhere, and what the environment says of other builds does not count.
#![allow(clippy::disallowed_methods)] // A tool for tests on a developer's machine; nothing that decides comes through here.

use crate::contract::ContractError;
use serde_json::Value;
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

pub const TARGET: &str = "wasm32-unknown-unknown";

/// What a module is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Build {
    /// A deployment.
    Release,
    /// Looking at what fails: with the feature `debug` and debug information.
    Debug,
}

/// Where the module lies afterwards.
pub fn build(folder: &Path, how: Build) -> Result<PathBuf, ContractError> {
    let manifest = folder.join("Cargo.toml");
    let metadata = metadata(folder)?;
    let mut build = module_build(folder, &metadata)?;
    if how == Build::Debug {
        build.args(["--config", "profile.release.strip=\"none\"", "--config", "profile.release.debug=\"line-tables-only\""]);
        build.args(has_debug(&metadata, &manifest).then_some(["--features", "debug"]).into_iter().flatten());
    }
    let built = run("cargo", build)?;
    if !built.status.success() {
        return Err(ContractError::DoesNotBuild { manifest, errors: String::from_utf8_lossy(&built.stderr).into_owned() });
    }
    let manifest = manifest.canonicalize().unwrap_or(manifest);
    module_of(&built.stdout, &manifest).ok_or(ContractError::NoModule(manifest))
}

/// The command that builds a crate's module, given what `cargo metadata` says of it: with this machine's paths told as anywhere, and without what
/// a shell or a test's own build was told. [`module_of`] finds the module in what it prints.
pub fn module_build(folder: &Path, metadata: &Value) -> Result<Command, ContractError> {
    let told = told_as(folder, metadata)?.into_iter();
    let flags: Vec<_> = told.map(|(path, name)| format!("--remap-path-prefix={}={name}", path.display())).collect();
    let mut build = cargo(folder);
    build.args(["build", "--lib", "--release", "--target", TARGET, "--message-format=json-render-diagnostics"]);
    // A list in the project's configuration is added to, as it is not by the environment.
    build.arg("--config").arg(format!("target.{TARGET}.rustflags={}", Value::from(flags)));
    Ok(build)
}

/// The module among what cargo says that it made of a manifest, whose path is a canonical one.
pub fn module_of(messages: &[u8], manifest: &Path) -> Option<PathBuf> {
    String::from_utf8_lossy(messages)
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["manifest_path"].as_str().is_some_and(|path| Path::new(path) == manifest))
        .filter_map(|message| {
            let files = message["filenames"].as_array()?;
            files.iter().filter_map(Value::as_str).find(|file| file.ends_with(".wasm")).map(PathBuf::from)
        })
        .next_back()
}

/// What cargo knows of the crate and its dependencies.
fn metadata(folder: &Path) -> Result<Value, ContractError> {
    let mut metadata = cargo(folder);
    metadata.args(["metadata", "--format-version", "1", "--filter-platform", TARGET]);
    Ok(serde_json::from_slice(&run("cargo", metadata)?.stdout).unwrap_or_default())
}

/// Whether the crate has a feature of that name.
fn has_debug(metadata: &Value, manifest: &Path) -> bool {
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let own = manifest.canonicalize().unwrap_or_else(|_| manifest.into());
    let package = packages.iter().find(|package| package["manifest_path"].as_str().is_some_and(|path| Path::new(path) == own));
    package.is_some_and(|package| package["features"].get("debug").is_some())
}

/// This machine's paths, and what a module calls them; of those that fit the last counts.
fn told_as(folder: &Path, metadata: &Value) -> Result<Vec<(PathBuf, String)>, ContractError> {
    let path = |value: &Value| value.as_str().map(PathBuf::from);
    let home =
        env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
    let workspace = path(&metadata["workspace_root"]);
    // Packages that lie outside of the workspace and come by their paths.
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let beside = packages.iter().filter(|package| package["source"].is_null()).filter_map(|package| {
        let folder = path(&package["manifest_path"])?.parent()?.to_owned();
        let name = format!("/beside/{}", package["name"].as_str()?);
        (!folder.starts_with(workspace.as_ref()?)).then_some((folder, name))
    });
    let named = [(home, "/cargo"), (workspace.clone(), "/source"), (path(&metadata["target_directory"]), "/target")];
    let named = named.into_iter().filter_map(|(path, name)| Some((path?, name.to_owned())));
    Ok(beside.chain(named).chain(library(folder)?).collect())
}

/// The standard library's sources, where they are installed: told as the compiler tells them where they are not.
fn library(folder: &Path) -> Result<Option<(PathBuf, String)>, ContractError> {
    let rustc = |arguments: &[&str]| {
        let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        rustc.current_dir(folder).args(arguments);
        run("rustc", rustc).map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (sysroot, version) = (rustc(&["--print", "sysroot"])?, rustc(&["-vV"])?);
    let commit = version.lines().find_map(|line| line.strip_prefix("commit-hash: "));
    Ok(commit.map(|commit| (Path::new(sysroot.trim()).join("lib/rustlib/src/rust"), format!("/rustc/{commit}"))))
}

/// Cargo without what the test's own build was told.
fn cargo(folder: &Path) -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(folder);
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.ends_with("RUSTFLAGS") || text.starts_with("CARGO_PROFILE_") || text == "CARGO_INCREMENTAL" {
            cargo.env_remove(&name);
        }
    }
    cargo
}

fn run(what: &'static str, mut command: Command) -> Result<Output, ContractError> {
    command.stdin(Stdio::null()).output().map_err(|error| ContractError::CannotRun(what, error))
}
