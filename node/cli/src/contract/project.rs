//! A contract's crate: where it lies, how it is built, and so that the same code comes out wherever it lies.
//!
//! What a build depends on is kept away from it: paths are remapped, flags and profiles in the environment are not passed on, and versions are those
//! of Cargo.lock. What is left is the compiler, which `rust-toolchain.toml` names.

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

pub const TARGET: &str = "wasm32-unknown-unknown";

/// A package that builds a module.
#[derive(Debug)]
pub struct Project {
    pub name: String,
    /// Of its Cargo.toml.
    pub folder: PathBuf,
    /// Where Cargo.lock lies.
    pub workspace: PathBuf,
    pub target: PathBuf,
    /// Packages outside of the workspace that it is built from by their paths.
    beside: BTreeSet<PathBuf>,
    pub features: BTreeSet<String>,
}

/// What cargo made of it.
pub struct Built {
    pub wasm: Vec<u8>,
    /// `rustc 1.95.0 (…)`
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
        let beside = packages
            .iter()
            .filter(|package| package["source"].is_null())
            .filter_map(|package| Some(Path::new(package["manifest_path"].as_str()?).parent()?.to_owned()))
            .filter(|folder| !folder.starts_with(&workspace))
            .collect();
        let features = package["features"].as_object().map(|features| features.keys().cloned().collect()).unwrap_or_default();
        let target = PathBuf::from(text(&metadata, "target_directory"));
        Ok(Self { name: text(package, "name"), folder, workspace, target, beside, features })
    }

    /// As the file of a module is called.
    pub fn module_name(&self) -> String {
        self.name.replace('-', "_")
    }

    /// The ABI that is kept beside its manifest.
    pub fn abi(&self) -> anyhow::Result<Option<Vec<u8>>> {
        let path = self.folder.join("abi.json");
        if !path.exists() {
            return Ok(None);
        }
        let json = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        super::show::parse(&json, &path.display().to_string())?;
        Ok(Some(json))
    }

    /// Builds the module. What cargo says goes to standard error.
    pub fn build(&self) -> anyhow::Result<Built> {
        let compiler = tool(&self.folder, "rustc", &["-vV"])?;
        let flags: Vec<Value> = self
            .remapped(&compiler)?
            .into_iter()
            .map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()).into())
            .collect();
        let mut cargo = cargo_alone(&self.folder);
        cargo.args(["build", "--lib", "--release", "--locked", "--target", TARGET, "--message-format=json-render-diagnostics"]);
        // A list in the project's configuration is added to, as it is not by the environment.
        cargo.arg("--config").arg(format!("target.{TARGET}.rustflags={}", Value::from(flags)));
        let output = cargo.stdin(Stdio::null()).stderr(Stdio::inherit()).output().context("cannot run cargo")?;
        ensure!(
            output.status.success(),
            "{} does not build; `rustup target add {TARGET}` if it is the target that is missing",
            self.name
        );
        let manifest = self.folder.join("Cargo.toml");
        let made = String::from_utf8_lossy(&output.stdout)
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter(|message| message["manifest_path"].as_str().is_some_and(|path| Path::new(path) == manifest))
            .filter_map(|message| {
                let files = message["filenames"].as_array()?;
                files.iter().filter_map(Value::as_str).find(|file| file.ends_with(".wasm")).map(PathBuf::from)
            })
            .next_back()
            .context("cargo made no module")?;
        let wasm = fs::read(&made).with_context(|| format!("cannot read {}", made.display()))?;
        Ok(Built { wasm, compiler: compiler.lines().next().unwrap_or_default().to_owned() })
    }

    /// Paths of this machine that messages of panics would carry, and what they carry instead; the last that fits counts.
    fn remapped(&self, compiler: &str) -> anyhow::Result<Vec<(PathBuf, String)>> {
        let home =
            env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
        let sysroot = PathBuf::from(tool(&self.folder, "rustc", &["--print", "sysroot"])?.trim());
        let commit = compiler.lines().find_map(|line| line.strip_prefix("commit-hash: ")).unwrap_or("unknown");
        let mut paths: Vec<_> = home.into_iter().map(|home| (home, "/cargo".to_owned())).collect();
        paths.push((sysroot.join("lib/rustlib/src/rust"), format!("/rustc/{commit}")));
        paths.push((self.workspace.clone(), "/source".into()));
        for (number, folder) in self.beside.iter().enumerate() {
            let name = folder.file_name().unwrap_or_default().to_string_lossy();
            paths.push((folder.clone(), format!("/beside/{number}/{name}")));
        }
        paths.push((self.target.clone(), "/target".into()));
        Ok(paths)
    }
}

/// Cargo in the folder whose configuration and compiler count.
pub fn cargo(folder: &Path) -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(folder);
    cargo
}

/// The same without what a shell may have set for other builds.
fn cargo_alone(folder: &Path) -> Command {
    const FLAGS: [&str; 4] = ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_RUSTFLAGS", "CARGO_INCREMENTAL"];
    let mut cargo = cargo(folder);
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        let of_a_target = text.starts_with("CARGO_TARGET_") && text.ends_with("_RUSTFLAGS");
        if of_a_target || text.starts_with("CARGO_PROFILE_") || FLAGS.contains(&&*text) {
            cargo.env_remove(&name);
        }
    }
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

/// What a tool of Rust prints in a folder whose compiler counts.
fn tool(folder: &Path, name: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let output =
        Command::new(name).args(arguments).current_dir(folder).output().with_context(|| format!("cannot run {name}"))?;
    ensure!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
