//! `corniche contract build`: builds a crate into a deployable module.

use super::{deployable, project::Project};
use anyhow::{Context, ensure};
use corniche_abi::interface;
use corniche_console::exit::{self, Exit, Failed};
use corniche_harness::{Deployable, check};
use corniche_types::keccak256;
use corniche_vm::wasm::gas::{INK_PER_GAS, LATEST, start_ink};
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

#[derive(clap::Args, Debug)]
pub struct Build {
    /// Folder of the contract
    #[arg(value_name = "PATH", default_value = ".")]
    path: PathBuf,
    /// Output file; default: target/corniche/NAME.wasm
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Do not run wasm-opt, even if it is installed
    #[arg(long)]
    no_wasm_opt: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Module to deploy, with information about its build.
pub struct Made {
    pub wasm: Vec<u8>,
    pub compiler: String,
    /// Version of wasm-opt, if it made the module smaller.
    pub optimised: Option<String>,
    /// True if the module contains an ABI.
    pub interface: bool,
}

impl Build {
    pub fn run(&self) -> anyhow::Result<()> {
        let project = Project::open(&self.path)?;
        let made = make(&project, !self.no_wasm_opt)?;
        let file = self.out.clone().unwrap_or_else(|| project.target.join("corniche").join(project.module_name() + ".wasm"));
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        }
        fs::write(&file, &made.wasm).with_context(|| format!("cannot write {}", file.display()))?;
        let fits = check(&made.wasm).map_err(|refused| {
            let told =
                format!("{} is built and would not deploy: {}\n  {}", file.display(), refused.fault.trim_end(), refused.fix);
            Failed::new(Exit::Usage, told)
        })?;
        let file = file.canonicalize().unwrap_or(file);
        exit::result(if self.json { format!("{:#}", as_json(&file, &made, &fits)) } else { told(&file, &made, &fits) });
        if !made.interface {
            exit::note(
                "it carries no ABI, so nobody can name its functions: `corniche contract abi --write` makes an abi.json to be put into it",
            );
        }
        Ok(())
    }
}

/// Builds the contract in a folder. `None` if the path is not a folder.
pub fn in_folder(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    let made = path.is_dir().then(|| make(&Project::open(path)?, true)).transpose()?;
    Ok(made.map(|made| made.wasm))
}

/// Builds, optimises if possible, and embeds the ABI.
pub fn make(project: &Project, optimise: bool) -> anyhow::Result<Made> {
    let abi = project.abi()?;
    let built = project.build()?;
    let (mut wasm, mut optimised) = (built.wasm, None);
    if let Some(version) = wasm_opt().filter(|_| optimise) {
        let smaller = optimised_by_wasm_opt(&wasm)?;
        // A newer tool may use features that this chain does not support yet.
        match check(&smaller) {
            Ok(_) if smaller.len() < wasm.len() => (wasm, optimised) = (smaller, Some(version)),
            Ok(_) => exit::note("wasm-opt does not make it smaller; it is left as it was"),
            Err(refused) => exit::note(format_args!(
                "what wasm-opt makes of it would not deploy, so it is left as it was: {}",
                refused.fault
            )),
        }
    }
    if let Some(abi) = abi.filter(|abi| interface::embedded(&wasm) != Some(abi)) {
        wasm = interface::embed(&wasm, &abi);
    }
    let interface = interface::embedded(&wasm).is_some();
    Ok(Made { wasm, compiler: built.compiler, optimised, interface })
}

/// Version of the wasm-opt on the path.
fn wasm_opt() -> Option<String> {
    let output = Command::new("wasm-opt").arg("--version").output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Runs wasm-opt with only the features that modules may use here.
fn optimised_by_wasm_opt(wasm: &[u8]) -> anyhow::Result<Vec<u8>> {
    let folder = tempfile::tempdir()?;
    let (before, after) = (folder.path().join("before.wasm"), folder.path().join("after.wasm"));
    fs::write(&before, wasm)?;
    // Reference types only for the encoding that compilers write, not for the instructions.
    let features =
        ["--mvp-features", "--enable-bulk-memory", "--enable-sign-ext", "--enable-mutable-globals", "--enable-reference-types"];
    let output = Command::new("wasm-opt").args(features).arg("-Oz").arg(&before).arg("-o").arg(&after).output()?;
    ensure!(
        output.status.success(),
        "wasm-opt failed; `corniche contract build --no-wasm-opt` builds without it: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(fs::read(&after)?)
}

/// Gas of a call that does nothing: first call of its code in a transaction, and later ones.
fn call_gas(fits: &Deployable) -> (u64, u64) {
    let imported: usize = fits.imports.values().map(Vec::len).sum();
    let functions = fits.functions.saturating_add(imported as u32);
    let again = start_ink(fits.unpacked, fits.pages);
    ((again + LATEST.cold_ink(fits.unpacked, functions, fits.pages)).div_ceil(INK_PER_GAS), again.div_ceil(INK_PER_GAS))
}

fn told(file: &Path, made: &Made, fits: &Deployable) -> String {
    let (first, again) = call_gas(fits);
    let limit = corniche_types::MAX_TRANSACTION_BYTES;
    let mut lines = vec![
        file.display().to_string(),
        format!("size        {} bytes; {} compressed, of {limit} that a transaction holds", fits.unpacked, fits.compressed),
        format!("deployment  {} gas, without a constructor", fits.deployment_gas),
        format!("a call      {first} gas before it does anything, {again} when its code ran before in the same transaction"),
        format!("compiler    {}", made.compiler),
        format!("keccak256   {}", keccak256(&made.wasm)),
    ];
    if let Some(version) = &made.optimised {
        lines.push(format!(
            "made smaller by {version}: the same bytes come only from the same one, or from both with --no-wasm-opt"
        ));
    }
    lines.extend(deployable::pages_note(fits.pages));
    lines.join("\n")
}

fn as_json(file: &Path, made: &Made, fits: &Deployable) -> serde_json::Value {
    let (first, again) = call_gas(fits);
    let mut told = deployable::as_json(fits);
    told["file"] = json!(file);
    told["callGas"] = json!({"first": first, "again": again});
    told["compiler"] = json!(made.compiler);
    told["wasmOpt"] = json!(made.optimised);
    told["keccak256"] = json!(keccak256(&made.wasm));
    told["carriesAbi"] = json!(made.interface);
    told
}
