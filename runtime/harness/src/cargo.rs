//! Builds a contract's crate reproducibly, independent of its location. Only this module runs processes: it calls
//! `cargo` when a test, or the command line, requests a module.
//!
//! A module contains the source paths that its panics report, and the cost of a call depends on the module's size. So
//! all paths are remapped to fixed ones, and compiler flags from the environment are ignored.
#![allow(clippy::disallowed_methods)] // a tool for tests on a developer's machine; no consensus code runs here

use crate::error::ContractError;
use serde_json::Value;
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

pub const TARGET: &str = "wasm32-unknown-unknown";

/// Purpose of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Build {
    /// For deployment.
    Release,
    /// For debugging: with the feature `debug` and debug information.
    Debug,
}

/// Builds the crate and returns the path of the module.
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

/// Returns the command that builds a crate's module, given the output of `cargo metadata`. It remaps this machine's
/// paths to fixed ones and ignores compiler flags of a shell or a test's own build. [`module_of`] finds the module in
/// its output.
pub fn module_build(folder: &Path, metadata: &Value) -> Result<Command, ContractError> {
    let names = path_names(folder, metadata)?.into_iter();
    let flags: Vec<_> = names.map(|(path, name)| format!("--remap-path-prefix={}={name}", path.display())).collect();
    let mut build = cargo(folder);
    build.args(["build", "--lib", "--release", "--target", TARGET, "--message-format=json-render-diagnostics"]);
    // A list in the configuration extends the project's own flags; the environment variable would replace them.
    build.arg("--config").arg(format!("target.{TARGET}.rustflags={}", Value::from(flags)));
    Ok(build)
}

/// Returns the module's path from cargo's messages. `manifest` is the canonical path of the crate's manifest.
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

/// Returns the output of `cargo metadata`.
fn metadata(folder: &Path) -> Result<Value, ContractError> {
    let mut metadata = cargo(folder);
    metadata.args(["metadata", "--format-version", "1", "--filter-platform", TARGET]);
    Ok(serde_json::from_slice(&run("cargo", metadata)?.stdout).unwrap_or_default())
}

/// Returns whether the crate has a feature `debug`.
fn has_debug(metadata: &Value, manifest: &Path) -> bool {
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let own = manifest.canonicalize().unwrap_or_else(|_| manifest.into());
    let package = packages.iter().find(|package| package["manifest_path"].as_str().is_some_and(|path| Path::new(path) == own));
    package.is_some_and(|package| package["features"].get("debug").is_some())
}

/// Returns this machine's paths with the names that replace them. The last matching path wins.
fn path_names(folder: &Path, metadata: &Value) -> Result<Vec<(PathBuf, String)>, ContractError> {
    let path = |value: &Value| value.as_str().map(PathBuf::from);
    let home =
        env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
    let workspace = path(&metadata["workspace_root"]);
    // Path dependencies outside of the workspace.
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

/// Maps the installed sources of the standard library to the path that the compiler uses when they are not installed.
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

/// Returns a cargo command without the compiler flags of the test's own build.
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
