//! Compiles the core natively for tests; with the feature `xdp` also compiles the kernel's program with clang.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

fn main() {
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-changed=build.rs");
    cc::Build::new().file("bpf/native.c").std("c11").flag("-Wextra").warnings_into_errors(true).compile("aom_native");
    if env::var_os("CARGO_FEATURE_XDP").is_some() {
        compile_for_kernel();
    }
}

fn compile_for_kernel() {
    let object = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it")).join("aom.bpf.o");
    let mut clang = Command::new("clang");
    // Version 3 of the instruction set has the compare-and-swap that takes numbers. -g adds the types of the maps.
    clang.args(["-O2", "-g", "-Wall", "-Werror", "-target", "bpf", "-mcpu=v3"]);
    // Debian keeps asm/types.h in the folder of the architecture, which clang does not search for this target.
    let architecture = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it");
    let include = Path::new("/usr/include").join(format!("{architecture}-linux-gnu"));
    if include.exists() {
        clang.arg("-I").arg(include);
    }
    let output = clang.args(["-c", "bpf/aom.bpf.c", "-o"]).arg(object).output();
    match output {
        Ok(output) if output.status.success() => {}
        Ok(output) => panic!(
            "clang bpf/aom.bpf.c: expected success, got the errors below; if a header is missing, install libbpf-dev\n{}",
            String::from_utf8_lossy(&output.stderr)
        ),
        Err(error) => panic!("feature xdp: clang is missing ({error}); install it (Debian: apt-get install clang libbpf-dev)"),
    }
}
