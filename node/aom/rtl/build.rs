//! Translates the Verilog to C++ with Verilator and links it into the tests.
//!
//! Sets the cfg `verilated` if that worked. Without Verilator the crate is empty and its tests report that they were
//! skipped; with CORNICHE_FORBID_SKIPS=1 the build fails instead.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Top modules and the parameters with which they are simulated. RESUME lets vectors begin inside an epoch.
const MODELS: &[(&str, &[&str])] = &[("aom_hm", &["-GRESUME=1"]), ("aom_pk", &["-GRESUME=1"]), ("ecdsa_online", &[])];

fn main() {
    println!("cargo::rustc-check-cfg=cfg(verilated)");
    println!("cargo::rerun-if-env-changed=CORNICHE_FORBID_SKIPS");
    println!("cargo::rerun-if-changed=verilog");
    println!("cargo::rerun-if-changed=src/shim.cpp");
    println!("cargo::rerun-if-changed=build.rs");
    let Some(root) = verilator_root() else {
        assert!(
            env::var("CORNICHE_FORBID_SKIPS").as_deref() != Ok("1"),
            "verilator is missing, and CORNICHE_FORBID_SKIPS=1: install it (Debian: apt-get install verilator)"
        );
        // A path that does not exist: looks again in the next build.
        println!("cargo::rerun-if-changed=verilator-is-missing");
        println!("cargo::warning=verilator is missing: the tests of the Verilog sequencers will be skipped");
        return;
    };
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it")).join("verilated");
    for (top, parameters) in MODELS {
        translate(top, parameters, &out);
    }
    compile(&root, &out);
    println!("cargo::rustc-cfg=verilated");
}

fn verilator_root() -> Option<PathBuf> {
    let output = Command::new("verilator").args(["--getenv", "VERILATOR_ROOT"]).output().ok()?;
    output.status.success().then(|| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}

fn translate(top: &str, parameters: &[&str], out: &Path) {
    let verilog = Path::new(env!("CARGO_MANIFEST_DIR")).join("verilog");
    // Warnings are errors. The disabled ones reject unconnected outputs and bits of shared records.
    let output = Command::new("verilator")
        .args(["--cc", "--language", "1364-2005", "-O3", "--x-initial", "unique", "--x-assign", "unique", "--assert"])
        .args(["-Wall", "-Wno-UNUSEDSIGNAL", "-Wno-UNUSEDPARAM", "-Wno-PINCONNECTEMPTY"])
        .args(["--top-module", top, "--prefix", &format!("V{top}"), "--Mdir"])
        .arg(out)
        .args(parameters)
        .arg(format!("-I{}", verilog.display()))
        .arg(verilog.join(format!("{top}.v")))
        .output()
        .expect("verilator runs");
    assert!(output.status.success(), "verilator {top}:\n{}", String::from_utf8_lossy(&output.stderr));
}

fn compile(root: &Path, out: &Path) {
    let include = root.join("include");
    let mut generated: Vec<PathBuf> = fs::read_dir(out)
        .expect("verilator made it")
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "cpp"))
        .collect();
    generated.sort();
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .opt_level(1)
        .warnings(false)
        .include(out)
        .include(&include)
        .include(include.join("vltstd"))
        .define("VM_COVERAGE", "0")
        .define("VM_SC", "0")
        .define("VM_TRACE", "0")
        .files(generated)
        .file(include.join("verilated.cpp"))
        .file(include.join("verilated_threads.cpp"))
        .file("src/shim.cpp")
        .compile("aom_verilated");
}
